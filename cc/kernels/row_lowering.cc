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

// Makes a result a factor, if it is floats of inputs.
void SetFactor(const Symbol& in, LoweredBlock::Result* result) {
  if (in.element != Element::kFloat || (in.lead != 1 && in.pieces.size() > 1)) return;
  const int64_t each = BytesOf(Element::kFloat);
  std::vector<LoweredBlock::FactorPart> factor;
  for (const Piece& piece : in.pieces) {
    if (piece.place.space != Space::kInput) return;
    factor.push_back({piece.place.index, piece.place.offset / each, piece.bytes / each / in.lead});
  }
  result->factor = std::move(factor);
}

}  // namespace

bool Lowering::Run(const tensorflow::FunctionBody& body) {
  std::vector<Node*> order;
  tensorflow::GetReversePostOrder(*body.graph, &order, tensorflow::NodeComparatorName());
  results_.resize(body.ret_types.size());
  for (const Node* node : order) {
    if (!node->IsOp() || node->type_string() == "NoOp") continue;
    if (!Visit(*node) || reads_shape_) {
      why_ = node->type_string() + (node->name().empty() ? "" : " ('" + node->name() + "')");
      return false;
    }
  }
  return true;
}

std::unique_ptr<const LoweredBlock> Lowering::Take() {
  program_.WriteOutputsDirectly();
  std::vector<LoweredBlock::CaptureKind> kinds;
  for (size_t i = 0; i < captures_.size(); ++i) {
    kinds.push_back({captures_[i].tensor.shape(), needs_[i]});
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

bool Lowering::Set(const Node& node, int index, Symbol symbol) {
  symbols_[{node.id(), index}] = std::move(symbol);
  return true;
}

std::optional<Dims> Lowering::Known(const Node& node, int index) const {
  const Symbol* const in = In(node, index);
  if (in == nullptr || in->constant == nullptr || !IsInteger(in->element)) return std::nullopt;
  Dims known(in->constant->NumElements());
  for (size_t i = 0; i < known.size(); ++i) {
    known[i] = in->element == Element::kInt32 ? in->constant->flat<int32_t>()(i) : in->constant->flat<int64_t>()(i);
  }
  return known;
}

void Lowering::Note(const Symbol& symbol, LoweredBlock::Need need) {
  const Place& first = symbol.pieces[0].place;
  if (first.space != Space::kShared || static_cast<size_t>(first.index) >= needs_.size()) return;
  needs_[first.index] = std::max(needs_[first.index], need);
}

Place Lowering::PlaceOf(const Symbol& symbol) {
  if (symbol.pieces.empty()) {  // a shape: what reads it as numbers has no step
    reads_shape_ = true;
    return {Space::kShared, 0};
  }
  Note(symbol, LoweredBlock::Need::kShape);
  if (symbol.pieces.size() == 1) return symbol.pieces[0].place;
  const Place whole = program_.AddScratch(symbol.bytes());
  int64_t offset = 0;
  for (const Piece& piece : symbol.pieces) {
    program_.Add(RowProgram::Copy{piece.bytes, piece.place, {whole.space, whole.index, offset}});
    offset += piece.bytes;
  }
  return whole;
}

Symbol Lowering::Made(DataType dtype, int64_t lead, Dims dims) {
  Symbol made;
  made.dtype = dtype;
  made.element = *ElementOf(dtype);
  made.has_rows = true;
  made.lead = lead;
  made.dims = std::move(dims);
  made.pieces = {{program_.AddScratch(made.bytes()), made.bytes()}};
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
  for (int i = 0; i < shape.dims(); ++i) symbol.dims.push_back(shape.dim_size(i));
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
  for (int i = 0; i < value->dims(); ++i) symbol.dims.push_back(value->dim_size(i));
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
  result.parts = in->lead;
  for (const int64_t dim : in->dims) result.kind.shape.AddDim(dim);
  if (in->sum >= 0) {
    result.output = in->sum;
    return true;
  }
  if (!in->has_rows) {
    if (in->constant == nullptr || in->is_shape_of_rows || in->capture >= 0) return false;
    result.constant = *in->constant;
    return true;
  }
  const bool is_slot = static_cast<size_t>(index) < block_.shared.size();
  if (is_slot && (in->lead != 1 || block_.shared[index])) return false;
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

bool LoweredBlock::Fits(size_t i, const TensorShape& shape) const {
  const CaptureKind& known = captures[i];
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
    TF_RETURN_IF_ERROR(recgraph::Allocate(result.kind.dtype, shape, output));
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
