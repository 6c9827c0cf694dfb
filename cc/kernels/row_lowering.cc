// How the operations of a block become steps of a row program: reshapes, slices and joins are places to read from, the
// rest is one step each.
#include "cc/kernels/row_lowering.h"

#include <cstring>
#include <unordered_map>

#include "cc/kernels/environment.h"
#include "cc/kernels/lowering.h"
#include "cc/kernels/pool_allocator.h"
#include "tensorflow/core/graph/algorithm.h"

namespace recgraph {
namespace batch {
namespace lowering {
namespace {

Dims SizesOf(const TensorShape& shape) {
  const auto sizes = shape.dim_sizes();
  return {sizes.begin(), sizes.end()};
}

// Makes a result a factor, if it is floats of inputs.
void SetFactor(const Symbol& in, LoweredBlock::Result* result) {
  if (in.element != Element::kFloat || (in.lead() != 1 && in.pieces.size() > 1)) return;
  const int64_t each = BytesOf(Element::kFloat);
  std::vector<LoweredBlock::FactorPart> factor;
  for (const Piece& piece : in.pieces) {
    if (piece.place.space != Space::kInput) return;
    factor.push_back({piece.place.index, piece.place.offset / each, piece.bytes / each / in.lead()});
  }
  result->factor = std::move(factor);
}

}  // namespace

bool Symbol::SetShape(int64_t lead, Dims dims) {
  if (lead < 1 || dims.size() > kMostDims) return false;
  const int64_t most = has_rows ? kMostRowBytes : kMostSharedBytes;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(BytesOf(element), lead, &bytes) || bytes > most) return false;
  for (const int64_t size : dims) {
    // A size of 0 is counted as 1: parts of a shape are multiplied, too.
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes) || bytes > most) return false;
  }
  lead_ = lead;
  dims_ = std::move(dims);
  return true;
}

bool Lowering::Run(const tensorflow::FunctionBody& body) {
  if (!FitsArguments(body)) {
    why_ = "its arguments";
    return false;
  }
  std::vector<Node*> order;
  tensorflow::GetReversePostOrder(*body.graph, &order, tensorflow::NodeComparatorName());
  results_.resize(body.ret_types.size());
  for (const Node* node : order) {
    if (!node->IsOp() || node->type_string() == "NoOp") continue;
    if (!Visit(*node) || has_no_place_) {
      why_ = node->type_string() + (node->name().empty() ? "" : " ('" + node->name() + "')");
      return false;
    }
  }
  if (!FitsResults()) why_ = "its results";
  return why_.empty();
}

bool Lowering::FitsArguments(const tensorflow::FunctionBody& body) const {
  const size_t reads = inputs_.size();
  if (body.arg_types.size() != reads + captures_.size()) return false;
  for (size_t i = 0; i < reads; ++i) {
    if (body.arg_types[i] != inputs_[i].dtype) return false;
  }
  for (size_t i = 0; i < captures_.size(); ++i) {
    const DataType own = captures_[i].is_variable ? tensorflow::DT_RESOURCE : captures_[i].tensor.dtype();
    if (body.arg_types[reads + i] != own) return false;
  }
  return true;
}

// First what the node writes, then what sums are made of: as the plan's verifier has found them numbered.
bool Lowering::FitsResults() const {
  size_t count = block_.shared.size();
  for (size_t i = 0; i + 2 < block_.sums.size(); i += 3) {
    count += block_.sums[i] == static_cast<int>(SumKind::kDense) ? 1 : 2;
  }
  if (results_.size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    if (results_[i].kind.dtype == tensorflow::DT_INVALID) return false;  // nothing has given it
    if (i < block_.shared.size() && results_[i].shared != block_.shared[i]) return false;
  }
  for (size_t i = 0; i + 2 < block_.sums.size(); i += 3) {
    if (!FitsSum(static_cast<SumKind>(block_.sums[i]), block_.sums[i + 2])) return false;
  }
  return true;
}

// A dense sum is one over rows that this program takes; a product is one of rows of floats, or of floats of inputs; rows
// have integers that say which they are.
bool Lowering::FitsSum(SumKind kind, size_t first) const {
  const LoweredBlock::Result& one = results_[first];
  if (kind == SumKind::kDense) {
    return one.output >= 0 && one.shared && one.kind.dtype == tensorflow::DT_FLOAT;
  }
  const LoweredBlock::Result& other = results_[first + 1];
  for (const LoweredBlock::Result* const result : {&one, &other}) {
    if (result->shared || (result->output < 0 && result->factor.empty())) return false;
  }
  if (one.parts != other.parts || other.kind.dtype != tensorflow::DT_FLOAT) return false;
  if (kind == SumKind::kOuter) {
    return one.kind.dtype == tensorflow::DT_FLOAT && one.kind.shape.dims() == 1 && other.kind.shape.dims() == 1;
  }
  const bool is_index = one.kind.dtype == tensorflow::DT_INT32 || one.kind.dtype == tensorflow::DT_INT64;
  return is_index && one.output >= 0 && other.output >= 0;
}

std::unique_ptr<const LoweredBlock> Lowering::Take() {
  program_.WriteOutputsDirectly();
  std::vector<LoweredBlock::CaptureKind> kinds;
  for (size_t i = 0; i < captures_.size(); ++i) {
    const LoweredCapture& capture = captures_[i];
    kinds.push_back({capture.tensor.dtype(), capture.is_packed, capture.is_variable, capture.tensor.shape(), needs_[i]});
  }
  return std::make_unique<LoweredBlock>(
      LoweredBlock{std::move(program_), inputs_, std::move(kinds), std::move(results_)});
}

bool Lowering::Visit(const Node& node) {
  static const auto* const rules = new std::unordered_map<std::string, Rule>{
      {"_Arg", &Lowering::Argument},
      {"_Retval", &Lowering::Return},
      {"Const", &Lowering::Constant},
      {"Identity", &Lowering::Same},
      {"StopGradient", &Lowering::Same},
      {"PreventGradient", &Lowering::Same},
      {"Snapshot", &Lowering::Same},
      {"Reshape", &Lowering::Reshape},
      {"ExpandDims", &Lowering::ExpandDims},
      {"Squeeze", &Lowering::Squeeze},
      {"StridedSlice", &Lowering::StridedSlice},
      {"Slice", &Lowering::Slice},
      {"Unpack", &Lowering::Unpack},
      {"Split", &Lowering::Split},
      {"SplitV", &Lowering::SplitV},
      {"ConcatV2", &Lowering::Concat},
      {"Pack", &Lowering::Pack},
      {"GatherV2", &Lowering::GatherV2},
      {"ResourceGather", &Lowering::ResourceGather},
      {"Recgraph>PackedProduct", &Lowering::PackedProduct},
      {"Recgraph>Expression", &Lowering::ExpressionNode},
      {"SparseSoftmaxCrossEntropyWithLogits", &Lowering::SoftmaxLoss},
      {"Sum", &Lowering::Sum},
      {"Cast", &Lowering::Cast},
      {"AddN", &Lowering::AddN},
      {"Transpose", &Lowering::Transpose},
      {"Tile", &Lowering::Tile},
      {"MatrixDiagV3", &Lowering::MatrixDiag},
      {"MatrixDiagPartV3", &Lowering::MatrixDiagPart},
      {"SelectV2", &Lowering::SelectV2},
      {"LogicalAnd", &Lowering::Logical},
      {"LogicalOr", &Lowering::Logical},
      {"Softmax", &Lowering::Softmax},
      {"Shape", &Lowering::Shape},
      {"StridedSliceGrad", &Lowering::StridedSliceGrad},
      {"MatMul", &Lowering::MatMul},
      {"BatchMatMulV2", &Lowering::BatchMatMul},
  };
  const auto rule = rules->find(node.type_string());
  if (rule != rules->end()) return (this->*rule->second)(node);
  return Elementwise(node) || Compare(node) || Integers(node);
}

// Symbols of a node's inputs and outputs.

const Symbol* Lowering::In(const Node& node, int index) const {
  const tensorflow::Edge* edge = nullptr;
  if (!node.input_edge(index, &edge).ok()) return nullptr;
  const auto found = symbols_.find({edge->src()->id(), edge->src_output()});
  return found == symbols_.end() ? nullptr : &found->second;
}

// What follows has been made by TensorFlow for outputs of these dtypes; what a variable's handle stands for has another.
bool Lowering::Set(const Node& node, int index, Symbol symbol) {
  if (index >= node.num_outputs() || !Spend(static_cast<int64_t>(symbol.pieces.size()))) return false;
  const DataType made = node.output_type(index);
  if (symbol.dtype != made && !(node.IsArg() && made == tensorflow::DT_RESOURCE)) return false;
  symbols_[{node.id(), index}] = std::move(symbol);
  return true;
}

bool Lowering::Spend(int64_t amount) {
  written_ += amount;
  return written_ <= kMostWritten;
}

std::optional<Dims> Lowering::Known(const Node& node, int index, int64_t size) {
  const Symbol* const in = In(node, index);
  if (in == nullptr || in->constant == nullptr || !IsInteger(in->element)) return std::nullopt;
  const int64_t count = in->constant->NumElements();
  if ((size != kAnySize && count != size) || !Spend(count)) return std::nullopt;
  Dims known(in->constant->NumElements());
  for (size_t i = 0; i < known.size(); ++i) {
    known[i] = in->element == Element::kInt32 ? in->constant->flat<int32_t>()(i) : in->constant->flat<int64_t>()(i);
  }
  return known;
}

void Lowering::Note(const Symbol& symbol, LoweredBlock::Need need) {
  if (symbol.pieces.empty()) return;
  const Place& first = symbol.pieces[0].place;
  if (first.space != Space::kShared || static_cast<size_t>(first.index) >= needs_.size()) return;
  needs_[first.index] = std::max(needs_[first.index], need);
}

Place Lowering::PlaceOf(const Symbol& symbol) {
  const Place nowhere{Space::kShared, 0};
  if (symbol.pieces.empty()) {  // a shape: what reads it as numbers has no step
    has_no_place_ = true;
    return nowhere;
  }
  Note(symbol, LoweredBlock::Need::kShape);
  if (symbol.pieces.size() == 1) return symbol.pieces[0].place;
  const auto whole = Scratch(symbol.bytes());
  if (!whole || !Spend(static_cast<int64_t>(symbol.pieces.size()))) {
    has_no_place_ = true;
    return nowhere;
  }
  int64_t offset = 0;
  for (const Piece& piece : symbol.pieces) {
    program_.Add(RowProgram::Copy{piece.bytes, piece.place, {whole->space, whole->index, offset}});
    offset += piece.bytes;
  }
  return *whole;
}

std::optional<Place> Lowering::Scratch(int64_t bytes) {
  constexpr int64_t kRounding = 64;  // what rounding up may add to each
  scratch_bytes_ += bytes + kRounding;
  if (scratch_bytes_ > kMostRowBytes) return std::nullopt;
  return program_.AddScratch(bytes);
}

std::optional<Symbol> Lowering::Made(DataType dtype, int64_t lead, Dims dims) {
  const auto element = ElementOf(dtype);
  if (!element) return std::nullopt;
  Symbol made;
  made.dtype = dtype;
  made.element = *element;
  made.has_rows = true;
  if (!made.SetShape(lead, std::move(dims))) return std::nullopt;
  const auto place = Scratch(made.bytes());
  if (!place) return std::nullopt;
  made.pieces = {{*place, made.bytes()}};
  return made;
}

// Where the function begins and ends.

bool Lowering::Argument(const Node& node) {
  const int index = Attribute<int>(node, "index", -1);
  if (index < 0) return false;
  Symbol symbol;
  const size_t reads = inputs_.size();
  if (static_cast<size_t>(index) >= reads + captures_.size()) return false;
  const bool has_rows = static_cast<size_t>(index) < reads;
  const LoweredCapture* const capture = has_rows ? nullptr : &captures_[index - reads];
  symbol.dtype = has_rows ? inputs_[index].dtype : capture->tensor.dtype();
  const auto element = ElementOf(symbol.dtype);
  if (!element) return false;
  symbol.element = *element;
  symbol.has_rows = has_rows;
  const TensorShape& shape = has_rows ? inputs_[index].shape : capture->tensor.shape();
  if (!symbol.SetShape(1, SizesOf(shape))) return false;
  const Place place = has_rows ? Place{Space::kInput, index}
                               : Place{Space::kShared, index - static_cast<int>(reads)};
  symbol.pieces = {{place, symbol.bytes()}};
  return Set(node, 0, std::move(symbol));
}

bool Lowering::Constant(const Node& node) {
  auto value = std::make_shared<Tensor>();
  if (!tensorflow::GetNodeAttr(node.attrs(), "value", value.get()).ok()) return false;
  const auto element = ElementOf(value->dtype());
  if (!element) return false;
  Symbol symbol;
  symbol.dtype = value->dtype();
  symbol.element = *element;
  if (!symbol.SetShape(1, SizesOf(value->shape()))) return false;
  const int number = program_.AddConstant(value->data(), value->TotalBytes());
  symbol.pieces = {{Place{Space::kShared, number}, symbol.bytes()}};
  symbol.constant = std::move(value);
  return Set(node, 0, std::move(symbol));
}

bool Lowering::Return(const Node& node) {
  const int index = Attribute<int>(node, "index", -1);
  const Symbol* const in = In(node, 0);
  if (in == nullptr || index < 0 || static_cast<size_t>(index) >= results_.size()) return false;
  LoweredBlock::Result& result = results_[index];
  result.kind.dtype = in->dtype;
  result.shared = !in->has_rows;
  result.parts = in->lead();
  for (const int64_t dim : in->dims()) {
    if (!result.kind.shape.AddDimWithStatus(dim).ok()) return false;
  }
  if (in->sum >= 0) {
    result.output = in->sum;
    return static_cast<size_t>(index) >= block_.shared.size();  // for others to read it would have to be rounded
  }
  if (!in->has_rows) {
    if (in->constant == nullptr || in->is_shape_of_rows || in->capture >= 0) return false;
    result.constant = *in->constant;
    return true;
  }
  const bool is_slot = static_cast<size_t>(index) < block_.shared.size();
  if (is_slot && (in->lead() != 1 || block_.shared[index])) return false;
  if (IsFactor(index, in->pieces.size())) SetFactor(*in, &result);
  if (!result.factor.empty()) return true;
  const Piece& first = in->pieces[0];
  const bool is_input = in->pieces.size() == 1 && first.place.space == Space::kInput && first.place.offset == 0;
  if (is_slot && is_input && inputs_[first.place.index] == result.kind) {
    result.input = first.place.index;
    return true;
  }
  const Place out = program_.AddOutput(in->bytes(), false);
  int64_t offset = 0;
  for (const Piece& piece : in->pieces) {
    program_.Add(RowProgram::Copy{piece.bytes, piece.place, {out.space, out.index, offset}});
    offset += piece.bytes;
  }
  result.output = out.index;
  return true;
}

bool Lowering::IsFactor(int result, size_t pieces) const {
  bool is_factor = false;
  for (size_t i = 0; i + 2 < block_.sums.size(); i += 3) {
    const int first = block_.sums[i + 2];
    const bool is_outer = block_.sums[i] == static_cast<int>(SumKind::kOuter);
    if (result != first && (result != first + 1 || block_.sums[i] == static_cast<int>(SumKind::kDense))) continue;
    if (!is_outer || (result == first + 1 && pieces > 1)) return false;
    is_factor = true;
  }
  return is_factor && static_cast<size_t>(result) >= block_.shared.size();
}

}  // namespace lowering

using tensorflow::Tensor;
using tensorflow::TensorShape;

bool LoweredBlock::Fits(size_t i, const LoweredCapture& capture) const {
  const CaptureKind& known = captures[i];
  const TensorShape& shape = capture.tensor.shape();
  if (known.dtype != capture.tensor.dtype()) return false;
  if (known.is_packed != capture.is_packed || known.is_variable != capture.is_variable) return false;
  if (known.need == Need::kNothing) return true;
  if (known.need == Need::kShape) return known.shape == shape;
  if (known.shape.dims() != shape.dims()) return false;
  for (int dim = 1; dim < shape.dims(); ++dim) {
    if (known.shape.dim_size(dim) != shape.dim_size(dim)) return false;
  }
  return true;
}

absl::Status LoweredBlock::Allocate(int64_t rows, std::vector<Tensor>* outputs) const {
  outputs->resize(program.outputs().size());
  for (const Result& result : results) {
    if (result.output < 0) continue;
    Tensor* const output = &(*outputs)[result.output];
    TensorShape shape = result.kind.shape;
    if (!result.shared) TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(0, rows * result.parts));
    const auto dtype = result.shared ? tensorflow::DT_DOUBLE : result.kind.dtype;
    TF_RETURN_IF_ERROR(recgraph::Allocate(dtype, shape, output));
    if (result.shared && output->TotalBytes() > 0) std::memset(output->data(), 0, output->TotalBytes());
  }
  return absl::OkStatus();
}

absl::Status LoweredBlock::CopyOfFactor(const Result& result, int64_t rows, const char* const* const* inputs,
                                        Tensor* copy) {
  TensorShape shape = result.kind.shape;
  TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(0, rows * result.parts));
  TF_RETURN_IF_ERROR(recgraph::Allocate(result.kind.dtype, shape, copy));
  float* to = static_cast<float*>(copy->data());
  for (int64_t row = 0; row < rows; ++row) {
    for (const FactorPart& part : result.factor) {
      const float* const from = reinterpret_cast<const float*>(inputs[part.input][row]) + part.offset;
      to = std::copy_n(from, part.width * result.parts, to);
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<const LoweredBlock> Lower(const Block& block, const tensorflow::FunctionBody& body,
                                          const std::vector<RowKind>& inputs,
                                          const std::vector<LoweredCapture>& captures, std::string* why) {
  lowering::Lowering lowering(block, inputs, captures);
  if (!lowering.Run(body)) {
    *why = lowering.why();
    return nullptr;
  }
  return lowering.Take();
}

}  // namespace batch
}  // namespace recgraph
