// How the operations of a block become steps of a row program: reshapes, slices and joins are places to read from, the
// rest is one step each.
#include "cc/kernels/row_lowering.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cc/kernels/environment.h"
#include "cc/kernels/pool_allocator.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/graph.h"

namespace recgraph {
namespace batch {
namespace {

using tensorflow::DataType;
using tensorflow::Node;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using Place = RowProgram::Place;
using Space = RowProgram::Space;
using Dims = std::vector<int64_t>;

int64_t Product(const Dims& dims, size_t begin = 0, size_t end = SIZE_MAX) {
  int64_t product = 1;
  for (size_t i = begin; i < std::min(end, dims.size()); ++i) product *= dims[i];
  return product;
}

std::optional<Element> ElementOf(DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_FLOAT: return Element::kFloat;
    case tensorflow::DT_INT32: return Element::kInt32;
    case tensorflow::DT_INT64: return Element::kInt64;
    case tensorflow::DT_BOOL: return Element::kBool;
    default: return std::nullopt;
  }
}

bool IsInteger(Element element) { return element == Element::kInt32 || element == Element::kInt64; }

struct Piece {
  Place place;
  int64_t bytes;
};

// What is known of a tensor while the block is lowered. With rows its shape is [rows * lead, dims...], and each row of
// the block has `pieces`, side by side; else it is `dims`, and one place.
struct Symbol {
  Element element = Element::kFloat;
  DataType dtype = tensorflow::DT_INVALID;
  bool has_rows = false;
  int64_t lead = 1;
  Dims dims;
  std::vector<Piece> pieces;
  std::shared_ptr<const Tensor> constant;  // where its elements are known
  int sum = -1;                            // an output that is a sum over rows
  bool is_shape_of_rows = false;           // a shape that is known but for the number of rows
  int capture = -1;                        // whose sizes these are
  Dims sizes;                              // of the capture, the dimensions

  int64_t count() const { return lead * Product(dims); }  // elements, of a row where it has rows
  int64_t bytes() const { return count() * BytesOf(element); }
};

// Elements of a row that are put in another order one by one, at most.
constexpr int64_t kMostArranged = 1 << 16;

class Lowering {
 public:
  Lowering(const Block& block, const std::vector<RowKind>& inputs, const std::vector<LoweredCapture>& captures)
      : block_(block), inputs_(inputs), captures_(captures),
        program_(static_cast<int>(inputs.size()), static_cast<int>(captures.size())), needs_(captures.size(), LoweredBlock::Need::kNothing) {}

  bool Run(const tensorflow::FunctionBody& body) {
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

  const std::string& why() const { return why_; }

  std::unique_ptr<const LoweredBlock> Take() {
    program_.WriteOutputsDirectly();
    std::vector<LoweredBlock::CaptureKind> kinds;
    for (size_t i = 0; i < captures_.size(); ++i) {
      kinds.push_back({captures_[i].tensor.shape(), needs_[i]});
    }
    return std::make_unique<LoweredBlock>(
        LoweredBlock{std::move(program_), inputs_, std::move(kinds), std::move(results_)});
  }

 private:
  using Rule = bool (Lowering::*)(const Node&);

  bool Visit(const Node& node) {
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

  const Symbol* In(const Node& node, int index) const {
    const tensorflow::Edge* edge = nullptr;
    if (!node.input_edge(index, &edge).ok()) return nullptr;
    const auto found = symbols_.find({edge->src()->id(), edge->src_output()});
    return found == symbols_.end() ? nullptr : &found->second;
  }

  bool Set(const Node& node, int index, Symbol symbol) {
    symbols_[{node.id(), index}] = std::move(symbol);
    return true;
  }

  // The integers of an input that is known.
  std::optional<Dims> Known(const Node& node, int index) const {
    const Symbol* const in = In(node, index);
    if (in == nullptr || in->constant == nullptr || !IsInteger(in->element)) return std::nullopt;
    Dims known(in->constant->NumElements());
    for (size_t i = 0; i < known.size(); ++i) {
      known[i] = in->element == Element::kInt32 ? in->constant->flat<int32_t>()(i) : in->constant->flat<int64_t>()(i);
    }
    return known;
  }

  template <typename T>
  static T Attribute(const Node& node, const char* name, T otherwise) {
    T value;
    return tensorflow::GetNodeAttr(node.attrs(), name, &value).ok() ? value : otherwise;
  }

  // What a captured tensor is read for.
  void Note(const Symbol& symbol, LoweredBlock::Need need) {
    const Place& first = symbol.pieces[0].place;
    if (first.space != Space::kShared || static_cast<size_t>(first.index) >= needs_.size()) return;
    needs_[first.index] = std::max(needs_[first.index], need);
  }

  // A symbol's one place; where it is pieces, they are copied together.
  Place PlaceOf(const Symbol& symbol) {
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

  // A new value with rows, in scratch memory.
  Symbol Made(DataType dtype, int64_t lead, Dims dims) {
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

  bool Argument(const Node& node) {
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

  bool Constant(const Node& node) {
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

  bool Return(const Node& node) {
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

  // Whether a result of so many pieces is a factor of a weight's gradient, and nothing else; of the second one alone.
  bool IsFactor(int result, size_t pieces) const {
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

  // If it is floats of inputs.
  static void SetFactor(const Symbol& in, LoweredBlock::Result* result) {
    if (in.element != Element::kFloat || (in.lead != 1 && in.pieces.size() > 1)) return;
    const int64_t each = BytesOf(Element::kFloat);
    std::vector<LoweredBlock::FactorPart> factor;
    for (const Piece& piece : in.pieces) {
      if (piece.place.space != Space::kInput) return;
      factor.push_back({piece.place.index, piece.place.offset / each, piece.bytes / each / in.lead});
    }
    result->factor = std::move(factor);
  }

  // Other shapes of the same elements.

  bool Same(const Node& node) {
    const Symbol* const in = In(node, 0);
    return in != nullptr && Set(node, 0, *in);
  }

  bool Reshape(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto shape = Known(node, 1);
    if (in == nullptr || !shape) return false;
    if (!in->has_rows) {
      Symbol out = *in;
      out.dims = *shape;
      const int64_t known = Product(*shape);
      for (int64_t& dim : out.dims) {
        if (dim == -1) dim = known == 0 ? 0 : in->count() / -known;
      }
      if (out.count() != in->count()) return false;
      if (in->constant != nullptr) {
        TensorShape other;
        for (const int64_t dim : out.dims) other.AddDim(dim);
        auto copy = std::make_shared<Tensor>();
        if (!copy->CopyFrom(*in->constant, other)) return false;
        out.constant = std::move(copy);
      }
      return Set(node, 0, std::move(out));
    }
    if (shape->empty() || (*shape)[0] != -1) return false;
    Symbol out = *in;
    out.dims.assign(shape->begin() + 1, shape->end());
    return SetRows(node, *in, std::move(out));
  }

  // `out` has the elements of `in`: as many parts of it as there must be.
  bool SetRows(const Node& node, const Symbol& in, Symbol out) {
    const int64_t inner = Product(out.dims);
    if (inner <= 0 || in.count() % inner != 0) return false;
    out.lead = in.count() / inner;
    return Set(node, 0, std::move(out));
  }

  bool ExpandDims(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto axis = Known(node, 1);
    if (in == nullptr || !axis || axis->size() != 1 || !in->has_rows) return false;
    Symbol out = *in;
    int64_t at = (*axis)[0];
    if (at < 0) at += static_cast<int64_t>(in->dims.size()) + 2;
    if (at < 1 || at > static_cast<int64_t>(in->dims.size()) + 1) return false;
    out.dims.insert(out.dims.begin() + (at - 1), 1);
    return Set(node, 0, std::move(out));
  }

  bool Squeeze(const Node& node) {
    const Symbol* const in = In(node, 0);
    if (in == nullptr || !in->has_rows) return false;
    std::vector<int> axes = Attribute<std::vector<int>>(node, "squeeze_dims", {});
    if (axes.empty()) return false;  // whether the rows are squeezed depends on their number
    Symbol out = *in;
    const int rank = static_cast<int>(in->dims.size()) + 1;
    for (int& axis : axes) {
      if (axis < 0) axis += rank;
      if (axis < 1 || axis >= rank || in->dims[axis - 1] != 1) return false;
    }
    std::sort(axes.rbegin(), axes.rend());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    for (const int axis : axes) out.dims.erase(out.dims.begin() + (axis - 1));
    return Set(node, 0, std::move(out));
  }

  // Elements in another order.

  // A value of each row whose element `i` is element `from[i]` of `in`, or 0 where that is -1.
  Symbol Arranged(const Symbol& in, Dims dims, std::vector<int32_t> from) {
    Symbol out = Made(in.dtype, in.lead, std::move(dims));
    const auto each = static_cast<int32_t>(Product(in.dims));
    std::vector<int32_t> all;
    for (int32_t part = 0; part < in.lead; ++part) {
      for (const int32_t element : from) all.push_back(element < 0 ? -1 : part * each + element);
    }
    program_.Add(RowProgram::Arrange{BytesOf(in.element), std::move(all), PlaceOf(in), out.pieces[0].place});
    return out;
  }

  // Calls `visit` with the position along each dimension of every element, in order.
  template <typename Visit>
  static void ForPositions(const Dims& dims, const Visit& visit) {
    Dims at(dims.size(), 0);
    for (int64_t i = 0; i < Product(dims); ++i) {
      visit(at);
      for (size_t dim = dims.size(); dim-- > 0 && ++at[dim] == dims[dim];) at[dim] = 0;
    }
  }
  // The number of an element; a position counts only where the dimension is not 1.
  static int32_t NumberOf(const Dims& at, const Dims& dims) {
    int64_t number = 0;
    const size_t skipped = at.size() - dims.size();
    for (size_t dim = 0; dim < dims.size(); ++dim) number = number * dims[dim] + at[skipped + dim] % dims[dim];
    return static_cast<int32_t>(number);
  }

  bool Transpose(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto order = Known(node, 1);
    if (in == nullptr || !in->has_rows || !order || order->size() != in->dims.size() + 1 || (*order)[0] != 0) return false;
    const Symbol source = *in;
    Dims dims;
    for (size_t i = 1; i < order->size(); ++i) dims.push_back(source.dims[(*order)[i] - 1]);
    std::vector<int32_t> from;
    ForPositions(dims, [&](const Dims& at) {
      Dims there(at.size());
      for (size_t i = 0; i < at.size(); ++i) there[(*order)[i + 1] - 1] = at[i];
      from.push_back(NumberOf(there, source.dims));
    });
    return Set(node, 0, Arranged(source, dims, std::move(from)));
  }

  bool Tile(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto times = Known(node, 1);
    if (in == nullptr || !in->has_rows || !times || times->size() != in->dims.size() + 1 || (*times)[0] != 1) return false;
    Dims dims = in->dims;
    for (size_t i = 0; i < dims.size(); ++i) dims[i] *= (*times)[i + 1];
    if (Product(dims) > kMostArranged) return false;
    const Symbol source = *in;
    std::vector<int32_t> from;
    ForPositions(dims, [&](const Dims& at) { from.push_back(NumberOf(at, source.dims)); });
    return Set(node, 0, Arranged(source, dims, std::move(from)));
  }

  // The main diagonal alone, and zeros beside it.
  bool IsMainDiagonal(const Node& node) const {
    const auto k = Known(node, 1);
    return k && *k == Dims{0};
  }

  bool MatrixDiag(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto rows = Known(node, 2), columns = Known(node, 3);
    const Symbol* const padding = In(node, 4);
    if (in == nullptr || !in->has_rows || in->dims.empty() || !IsMainDiagonal(node) || !rows || !columns) return false;
    if (padding == nullptr || padding->constant == nullptr || !IsZero(*padding->constant)) return false;
    const int64_t size = in->dims.back();
    for (const Dims* side : {&*rows, &*columns}) {
      if (side->size() != 1 || ((*side)[0] != -1 && (*side)[0] != size)) return false;
    }
    const Symbol source = *in;
    Dims dims = source.dims;
    dims.push_back(size);
    if (Product(dims) > kMostArranged) return false;
    std::vector<int32_t> from;
    ForPositions(dims, [&](const Dims& at) {
      const Dims there(at.begin(), at.end() - 1);
      from.push_back(at[at.size() - 1] == at[at.size() - 2] ? NumberOf(there, source.dims) : -1);
    });
    return Set(node, 0, Arranged(source, dims, std::move(from)));
  }

  bool MatrixDiagPart(const Node& node) {
    const Symbol* const in = In(node, 0);
    if (in == nullptr || !in->has_rows || in->dims.size() < 2 || !IsMainDiagonal(node)) return false;
    const Symbol source = *in;
    if (source.dims.back() != source.dims[source.dims.size() - 2]) return false;
    const Dims dims(source.dims.begin(), source.dims.end() - 1);
    std::vector<int32_t> from;
    ForPositions(dims, [&](const Dims& at) {
      Dims there = at;
      there.push_back(at.back());
      from.push_back(NumberOf(there, source.dims));
    });
    return Set(node, 0, Arranged(source, dims, std::move(from)));
  }

  static bool IsZero(const Tensor& tensor) {
    return tensor.dtype() == tensorflow::DT_FLOAT && tensor.NumElements() == 1 && tensor.flat<float>()(0) == 0.0f;
  }

  // Parts of rows.

  // Elements `begin` to `begin + size` along one of the dimensions of a row, which lie together.
  bool SetPart(const Node& node, int output, const Symbol& in, size_t dim, int64_t begin, int64_t size, bool keeps) {
    if (!in.has_rows || dim >= in.dims.size()) return false;
    if (begin < 0 || size < 1 || begin + size > in.dims[dim]) return false;
    if (in.lead != 1 || Product(in.dims, 0, dim) != 1) {
      Dims dims = in.dims;
      dims[dim] = size;
      std::vector<int32_t> from;
      ForPositions(dims, [&](Dims at) {
        at[dim] += begin;
        from.push_back(NumberOf(at, in.dims));
      });
      Symbol part = Arranged(in, dims, std::move(from));
      if (!keeps) part.dims.erase(part.dims.begin() + dim);
      return Set(node, output, std::move(part));
    }
    Symbol out = in;
    const int64_t each = Product(in.dims, dim + 1) * BytesOf(in.element);
    if (keeps) {
      out.dims[dim] = size;
    } else {
      out.dims.erase(out.dims.begin() + dim);
    }
    out.constant = nullptr;
    out.pieces = PartOf(in.pieces, begin * each, size * each);
    return !out.pieces.empty() && Set(node, output, std::move(out));
  }

  static std::vector<Piece> PartOf(const std::vector<Piece>& pieces, int64_t offset, int64_t bytes) {
    std::vector<Piece> part;
    for (const Piece& piece : pieces) {
      const int64_t begin = std::max<int64_t>(offset, 0), end = std::min(offset + bytes, piece.bytes);
      if (begin < end) {
        Place place = piece.place;
        place.offset += begin;
        part.push_back({place, end - begin});
      }
      offset -= piece.bytes;
    }
    return part;
  }

  bool StridedSlice(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto begin = Known(node, 1), end = Known(node, 2), strides = Known(node, 3);
    const bool is_sizes = in != nullptr && (in->capture >= 0 || in->is_shape_of_rows);
    if (is_sizes) return SliceOfSizes(node, *in, begin, end, strides);
    if (in == nullptr || !in->has_rows || !begin || !end || !strides) return false;
    const int begin_mask = Attribute<int>(node, "begin_mask", 0), end_mask = Attribute<int>(node, "end_mask", 0);
    const int new_axes = Attribute<int>(node, "new_axis_mask", 0), shrink = Attribute<int>(node, "shrink_axis_mask", 0);
    if (Attribute<int>(node, "ellipsis_mask", 0) != 0 || begin->empty()) return false;
    if (!(begin_mask & 1) || !(end_mask & 1) || (*strides)[0] != 1 || (new_axes & 1) || (shrink & 1)) return false;
    Symbol current = *in;
    size_t dim = 0;  // of a row
    for (size_t i = 1; i < begin->size(); ++i) {
      const int bit = 1 << i;
      if (new_axes & bit) {
        current.dims.insert(current.dims.begin() + dim++, 1);
        continue;
      }
      if (dim >= current.dims.size()) return false;
      const int64_t size = current.dims[dim];
      const auto clamped = [size](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
      if (shrink & bit) {
        const int64_t at = (*begin)[i] < 0 ? (*begin)[i] + size : (*begin)[i];
        if (!SetPart(node, 0, current, dim, at, 1, false)) return false;
        current = symbols_[{node.id(), 0}];
        continue;
      }
      if ((*strides)[i] != 1) return false;
      const int64_t from = begin_mask & bit ? 0 : clamped((*begin)[i]);
      const int64_t to = end_mask & bit ? size : clamped((*end)[i]);
      if (from != 0 || to != size) {
        if (to <= from || !SetPart(node, 0, current, dim, from, to - from, true)) return false;
        current = symbols_[{node.id(), 0}];
      }
      ++dim;
    }
    return Set(node, 0, std::move(current));
  }

  bool SliceOfSizes(const Node& node, const Symbol& in, const std::optional<Dims>& begin, const std::optional<Dims>& end,
                    const std::optional<Dims>& strides) {
    if (!begin || !end || !strides || begin->size() != 1 || (*strides)[0] != 1) return false;
    for (const char* mask : {"new_axis_mask", "ellipsis_mask"}) {
      if (Attribute<int>(node, mask, 0) != 0) return false;
    }
    if (in.dims.size() != 1) return false;
    const int64_t size = in.dims[0];
    const bool one = Attribute<int>(node, "shrink_axis_mask", 0) != 0;
    const auto clamped = [size](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
    const int64_t from = Attribute<int>(node, "begin_mask", 0) && !one ? 0 : clamped((*begin)[0]);
    const int64_t to = one ? from + 1 : Attribute<int>(node, "end_mask", 0) ? size : clamped((*end)[0]);
    if (from >= to || to > size) return false;
    if (in.is_shape_of_rows) {
      const auto known = Known(node, 0);
      if (!known) return false;
      return Set(node, 0, Numbers(in.dtype, {known->begin() + from, known->begin() + to}, one, from == 0));
    }
    Symbol out = in;
    out.sizes = Dims(in.sizes.begin() + from, in.sizes.begin() + to);
    out.dims = one ? Dims() : Dims{to - from};
    return Set(node, 0, std::move(out));
  }

  // Integers that are known; where the first is the number of rows, it is -1, and nothing reads them as numbers.
  Symbol Numbers(DataType dtype, const Dims& numbers, bool is_scalar, bool is_shape_of_rows) {
    const auto size = static_cast<int64_t>(numbers.size());
    auto value = std::make_shared<Tensor>(dtype, is_scalar ? TensorShape({}) : TensorShape({size}));
    for (int64_t i = 0; i < size; ++i) {
      if (dtype == tensorflow::DT_INT32) {
        value->flat<int32_t>()(i) = static_cast<int32_t>(numbers[i]);
      } else {
        value->flat<int64_t>()(i) = numbers[i];
      }
    }
    Symbol out;
    out.dtype = dtype;
    out.element = *ElementOf(dtype);
    if (!is_scalar) out.dims = {size};
    if (!is_shape_of_rows) {
      const int number = program_.AddConstant(value->data(), value->TotalBytes());
      out.pieces = {{Place{Space::kShared, number}, out.bytes()}};
    }
    out.constant = std::move(value);
    out.is_shape_of_rows = is_shape_of_rows;
    return out;
  }

  // A shape that is put together: the number of rows can only be its first number.
  bool JoinNumbers(const Node& node, int count) {
    Dims joined;
    bool is_shape_of_rows = false;
    for (int i = 0; i < count; ++i) {
      const auto numbers = Known(node, i);
      if (!numbers || In(node, i)->has_rows || (In(node, i)->is_shape_of_rows && !joined.empty())) return false;
      is_shape_of_rows = is_shape_of_rows || In(node, i)->is_shape_of_rows;
      joined.insert(joined.end(), numbers->begin(), numbers->end());
    }
    return !joined.empty() && Set(node, 0, Numbers(In(node, 0)->dtype, joined, false, is_shape_of_rows));
  }

  // Sizes as numbers: those that are known, or the number of rows of a captured tensor, which each row is given.
  std::optional<Symbol> Settled(const Symbol& symbol) {
    if (symbol.capture < 0) return symbol;
    if (symbol.sizes.size() != 1) return std::nullopt;
    const TensorShape& shape = captures_[symbol.capture].tensor.shape();
    if (symbol.sizes[0] > 0) {
      needs_[symbol.capture] = std::max(needs_[symbol.capture], LoweredBlock::Need::kRow);
      Symbol known = symbol;
      known.capture = -1;
      const int64_t wide = shape.dim_size(static_cast<int>(symbol.sizes[0]));
      const auto narrow = static_cast<int32_t>(wide);
      const bool is_narrow = symbol.element == Element::kInt32;
      const int number = program_.AddConstant(is_narrow ? static_cast<const void*>(&narrow) : &wide, symbol.bytes());
      known.pieces = {{Place{Space::kShared, number}, symbol.bytes()}};
      return known;
    }
    const auto element = ElementOf(captures_[symbol.capture].tensor.dtype());
    int64_t bytes = element ? BytesOf(*element) : 0;
    for (int dim = 1; dim < shape.dims(); ++dim) bytes *= shape.dim_size(dim);
    if (bytes == 0 || captures_[symbol.capture].is_packed) return std::nullopt;
    needs_[symbol.capture] = std::max(needs_[symbol.capture], LoweredBlock::Need::kRow);
    Symbol made = Made(symbol.dtype, 1, symbol.dims);
    program_.Add(RowProgram::Size{symbol.capture, bytes, symbol.element, made.pieces[0].place});
    return made;
  }

  bool Slice(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto begin = Known(node, 1), size = Known(node, 2);
    if (in == nullptr || !in->has_rows || !begin || !size || begin->size() != in->dims.size() + 1) return false;
    if ((*begin)[0] != 0 || (*size)[0] != -1) return false;
    Symbol current = *in;
    for (size_t dim = 0; dim < in->dims.size(); ++dim) {
      const int64_t from = (*begin)[dim + 1];
      const int64_t wanted = (*size)[dim + 1] < 0 ? in->dims[dim] - from : (*size)[dim + 1];
      if (from == 0 && wanted == in->dims[dim]) continue;
      if (wanted <= 0 || !SetPart(node, 0, current, dim, from, wanted, true)) return false;
      current = symbols_[{node.id(), 0}];
    }
    return Set(node, 0, std::move(current));
  }

  bool Unpack(const Node& node) {
    const Symbol* const in = In(node, 0);
    if (in == nullptr || !in->has_rows) return false;
    int axis = Attribute<int>(node, "axis", 0);
    if (axis < 0) axis += static_cast<int>(in->dims.size()) + 1;
    if (axis < 1) return false;
    const Symbol whole = *in;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (!SetPart(node, i, whole, axis - 1, i, 1, false)) return false;
    }
    return true;
  }

  bool Split(const Node& node) {
    const Symbol* const in = In(node, 1);
    const auto axis = Known(node, 0);
    if (in == nullptr || !in->has_rows || !axis || axis->size() != 1) return false;
    int64_t at = (*axis)[0];
    if (at < 0) at += static_cast<int64_t>(in->dims.size()) + 1;
    if (at < 1 || at > static_cast<int64_t>(in->dims.size())) return false;
    const Symbol whole = *in;
    const int64_t size = whole.dims[at - 1] / node.num_outputs();
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (!SetPart(node, i, whole, at - 1, i * size, size, true)) return false;
    }
    return true;
  }

  bool SplitV(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto sizes = Known(node, 1), axis = Known(node, 2);
    if (in == nullptr || !in->has_rows || !sizes || !axis || axis->size() != 1) return false;
    int64_t at = (*axis)[0];
    if (at < 0) at += static_cast<int64_t>(in->dims.size()) + 1;
    if (at < 1 || at > static_cast<int64_t>(in->dims.size())) return false;
    const Symbol whole = *in;
    int64_t known = 0, first = 0;
    for (const int64_t size : *sizes) known += std::max<int64_t>(size, 0);
    for (size_t i = 0; i < sizes->size(); ++i) {
      const int64_t size = (*sizes)[i] < 0 ? whole.dims[at - 1] - known : (*sizes)[i];
      if (size <= 0 || !SetPart(node, static_cast<int>(i), whole, at - 1, first, size, true)) return false;
      first += size;
    }
    return true;
  }

  // Parts that lie one after the other, joined along a dimension that is not the first.
  Symbol Interleaved(const Symbol& parts, int64_t along, const Dims& sizes) {
    std::vector<int32_t> from;
    const int64_t outer = Product(parts.dims, 0, along), inner = Product(parts.dims, along + 1);
    ForPositions(parts.dims, [&](const Dims& at) {
      int64_t before = 0, within = at[along];
      size_t part = 0;
      while (within >= sizes[part]) {
        before += outer * sizes[part] * inner;
        within -= sizes[part++];
      }
      Dims dims = parts.dims, there = at;
      dims[along] = sizes[part];
      there[along] = within;
      from.push_back(static_cast<int32_t>(before) + NumberOf(there, dims));
    });
    return Arranged(parts, parts.dims, std::move(from));
  }

  // Rows side by side.
  bool Join(const Node& node, int count, int64_t axis, bool is_new) {
    Symbol out;
    Dims sizes;
    int64_t along = 0;
    for (int i = 0; i < count; ++i) {
      const Symbol* const part = In(node, i);
      if (part == nullptr || !part->has_rows || part->lead != 1) return false;
      const int64_t rank = static_cast<int64_t>(part->dims.size()) + 1;
      const int64_t at = (axis < 0 ? axis + rank + (is_new ? 1 : 0) : axis) - 1;
      if (at < 0 || at > static_cast<int64_t>(part->dims.size()) - (is_new ? 0 : 1)) return false;
      Dims own = part->dims;
      if (is_new) own.insert(own.begin() + at, 1);
      if (i == 0) {
        out = *part;
        out.dims = own;
        out.constant = nullptr;
        sizes = {own[at]};
        along = at;
        continue;
      }
      if (part->dtype != out.dtype || own.size() != out.dims.size()) return false;
      for (size_t dim = 0; dim < own.size(); ++dim) {
        if (static_cast<int64_t>(dim) != at && own[dim] != out.dims[dim]) return false;
      }
      if (at != along) return false;
      out.dims[at] += own[at];
      sizes.push_back(own[at]);
      out.pieces.insert(out.pieces.end(), part->pieces.begin(), part->pieces.end());
    }
    if (count > 0 && Product(out.dims, 0, along) != 1) out = Interleaved(out, along, sizes);
    return count > 0 && Set(node, 0, std::move(out));
  }

  bool Concat(const Node& node) {
    const auto axis = Known(node, node.num_inputs() - 1);
    if (!axis || axis->size() != 1) return false;
    const int count = node.num_inputs() - 1;
    return (*axis)[0] == 0 ? JoinNumbers(node, count) : Join(node, count, (*axis)[0], false);
  }

  bool Pack(const Node& node) {
    const int64_t axis = Attribute<int64_t>(node, "axis", 0);
    if (axis != 0) return Join(node, node.num_inputs(), axis, true);
    const Symbol* const first = In(node, 0);
    return first != nullptr && first->dims.empty() && JoinNumbers(node, node.num_inputs());
  }

  // Steps.

  bool Gather(const Node& node, const Symbol* table, const Symbol* numbers) {
    if (table == nullptr || numbers == nullptr || table->has_rows || table->pieces.empty() || !numbers->has_rows ||
        table->dims.empty() || !IsInteger(numbers->element)) {
      return false;
    }
    const Symbol source = *table, wanted = *numbers;
    Note(source, LoweredBlock::Need::kRow);
    Dims dims = wanted.dims;
    dims.insert(dims.end(), source.dims.begin() + 1, source.dims.end());
    const int64_t bytes = Product(source.dims, 1) * BytesOf(source.element);
    if (bytes == 0) return false;
    Symbol out = Made(source.dtype, wanted.lead, std::move(dims));
    program_.Add(RowProgram::Gather{source.pieces[0].place.index, bytes, PlaceOf(wanted), wanted.element,
                                    wanted.count(), out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  bool GatherV2(const Node& node) {
    const auto axis = Known(node, 2);
    if (!axis || axis->size() != 1 || Attribute<int>(node, "batch_dims", 0) != 0) return false;
    const Symbol* const table = In(node, 0);
    if (table == nullptr) return false;
    if (const auto numbers = Known(node, 1)) return GatherKnown(node, *table, *numbers, (*axis)[0]);
    return (*axis)[0] == 0 && Gather(node, table, In(node, 1));
  }

  // Parts of each row, or sizes, by numbers that are known.
  bool GatherKnown(const Node& node, const Symbol& in, const Dims& numbers, int64_t axis) {
    const bool one = In(node, 1)->dims.empty();
    if (numbers.empty() || In(node, 1)->dims.size() > 1) return false;
    if (in.capture >= 0) {
      if (axis != 0) return false;
      Symbol out = in;
      out.sizes.clear();
      for (const int64_t number : numbers) {
        if (number < 0 || number >= static_cast<int64_t>(in.sizes.size())) return false;
        out.sizes.push_back(in.sizes[number]);
      }
      out.dims = one ? Dims() : Dims{static_cast<int64_t>(numbers.size())};
      return Set(node, 0, std::move(out));
    }
    const int64_t dim = axis < 0 ? axis + static_cast<int64_t>(in.dims.size()) : axis - 1;
    if (!in.has_rows || dim < 0 || dim >= static_cast<int64_t>(in.dims.size())) return false;
    for (const int64_t number : numbers) {
      if (number < 0 || number >= in.dims[dim]) return false;
    }
    const Symbol source = in;
    if (numbers.size() == 1) return SetPart(node, 0, source, dim, numbers[0], 1, !one);
    Dims dims = source.dims;
    dims[dim] = static_cast<int64_t>(numbers.size());
    if (Product(dims) > kMostArranged) return false;
    std::vector<int32_t> from;
    ForPositions(dims, [&](Dims at) {
      at[dim] = numbers[at[dim]];
      from.push_back(NumberOf(at, source.dims));
    });
    return Set(node, 0, Arranged(source, dims, std::move(from)));
  }

  bool ResourceGather(const Node& node) {
    if (Attribute<int>(node, "batch_dims", 0) != 0) return false;
    return Gather(node, In(node, 0), In(node, 1));
  }

  bool PackedProduct(const Node& node) {
    const Symbol* const rows = In(node, 0);
    const Symbol* const packed = In(node, 1);
    const PackedShape shape{Attribute<int64_t>(node, "inner", 0), Attribute<int64_t>(node, "width", 0)};
    if (rows == nullptr || packed == nullptr || packed->has_rows || !rows->has_rows) return false;
    if (rows->element != Element::kFloat || rows->dims != Dims{shape.inner} || packed->element != Element::kFloat ||
        packed->count() != shape.floats() || shape.width < 1) {
      return false;
    }
    const Symbol factor = *rows;
    const int matrix = PlaceOf(*packed).index;
    Symbol out = Made(tensorflow::DT_FLOAT, factor.lead, {shape.width});
    std::vector<RowProgram::Part> parts;
    if (factor.lead == 1) {
      for (const Piece& piece : factor.pieces) parts.push_back({piece.place, piece.bytes / BytesOf(Element::kFloat)});
    } else {
      parts.push_back({PlaceOf(factor), shape.inner});
    }
    program_.Add(RowProgram::Product{std::move(parts), factor.lead, shape, matrix, out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  // Rows by a captured matrix that is not packed.
  bool MatMul(const Node& node) {
    const Symbol* const rows = In(node, 0);
    const Symbol* const matrix = In(node, 1);
    if (rows == nullptr || matrix == nullptr || !rows->has_rows || matrix->has_rows || rows->dims.size() != 1 ||
        matrix->dims.size() != 2 || Attribute<bool>(node, "transpose_a", false)) {
      return false;
    }
    const bool transposed = Attribute<bool>(node, "transpose_b", false);
    const Symbol a = *rows, b = *matrix;
    const int64_t k = b.dims[transposed ? 1 : 0], n = b.dims[transposed ? 0 : 1];
    if (a.element != Element::kFloat || b.element != Element::kFloat || a.dims[0] != k || k < 1 || n < 1) return false;
    Symbol out = Made(tensorflow::DT_FLOAT, a.lead, {n});
    program_.Add(RowProgram::Matrices{{a.lead, k, n, false, transposed}, 1, PlaceOf(a), PlaceOf(b), 0, 0,
                                      out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  // A matrix of each row by another one, or by one for all.
  bool BatchMatMul(const Node& node) {
    const Symbol* const left = In(node, 0);
    const Symbol* const right = In(node, 1);
    if (left == nullptr || right == nullptr || (!left->has_rows && !right->has_rows)) return false;
    const Symbol a = *left, b = *right;
    const auto matrices = [](const Symbol& one) {
      return one.element == Element::kFloat && one.count() > 0 &&
             (one.has_rows ? one.dims.size() == 2 : one.dims.size() == 2 || (one.dims.size() == 3 && one.dims[0] == 1));
    };
    if (!matrices(a) || !matrices(b) || (a.has_rows && b.has_rows && a.lead != b.lead)) return false;
    const auto side = [](const Symbol& one, int index) { return one.dims[one.dims.size() - 2 + index]; };
    const bool flip_a = Attribute<bool>(node, "adj_x", false), flip_b = Attribute<bool>(node, "adj_y", false);
    const int64_t m = side(a, flip_a ? 1 : 0), k = side(a, flip_a ? 0 : 1), n = side(b, flip_b ? 0 : 1);
    if (side(b, flip_b ? 1 : 0) != k) return false;
    const int64_t lead = a.has_rows ? a.lead : b.lead;
    Symbol out = Made(tensorflow::DT_FLOAT, lead, {m, n});
    program_.Add(RowProgram::Matrices{{m, k, n, flip_a, flip_b}, lead, PlaceOf(a), PlaceOf(b),
                                      a.has_rows ? m * k : 0, b.has_rows ? k * n : 0, out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  bool ExpressionNode(const Node& node) {
    RowProgram::Elementwise step;
    const auto code = Attribute<std::vector<int64_t>>(node, "code", {});
    const auto shapes = Attribute<std::vector<tensorflow::PartialTensorShape>>(node, "output_shapes", {});
    if (!Expression::Decode(code, &step.expression).empty()) return false;
    const auto& inputs = step.expression.inputs();
    const auto& widths = step.expression.outputs();
    if (static_cast<int>(inputs.size()) != node.num_inputs() || shapes.size() != widths.size()) return false;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Symbol* const in = In(node, i);
      if (in == nullptr || in->element != Element::kFloat || in->has_rows == inputs[i].shared ||
          in->count() != inputs[i].width) {
        return false;
      }
      const Symbol whole = *in;
      step.inputs.push_back(PlaceOf(whole));
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      Dims dims;
      for (int dim = 1; dim < shapes[i].dims(); ++dim) dims.push_back(shapes[i].dim_size(dim));
      const int64_t inner = Product(dims);
      if (inner <= 0 || widths[i] % inner != 0) return false;
      Symbol out = Made(tensorflow::DT_FLOAT, widths[i] / inner, std::move(dims));
      step.outputs.push_back(out.pieces[0].place);
      Set(node, static_cast<int>(i), std::move(out));
    }
    program_.Add(std::move(step));
    return true;
  }

  // An operand of an elementwise operation on rows of `count` floats, by how it repeats; nothing where it does so in
  // another way.
  struct Operand {
    Symbol symbol;
    int64_t width;  // of its array
    bool shared;
    bool scalar;     // one float for all results of a row
    int64_t repeats;  // so many times in a row, or 0
  };
  static std::optional<Operand> OperandOf(const Symbol& symbol, const Symbol& like) {
    const int64_t count = like.count(), own = symbol.count();
    if (symbol.has_rows) {
      if (symbol.lead == like.lead && symbol.dims == like.dims) return Operand{symbol, own, false, false, 0};
      const bool fits = like.lead == 1 && symbol.lead == 1 && own == 1 && symbol.dims.size() == like.dims.size();
      if (fits) return Operand{symbol, own, false, true, 0};
      return std::nullopt;
    }
    if (own == 1 && symbol.dims.size() <= like.dims.size() + 1) return Operand{symbol, own, true, count > 1, 0};
    // As numpy: the last dimensions are the same.
    Dims last = symbol.dims;
    while (!last.empty() && last.front() == 1) last.erase(last.begin());
    if (symbol.dims.size() > like.dims.size() + 1 || last.size() > like.dims.size() || own == 0) return std::nullopt;
    if (!std::equal(last.rbegin(), last.rend(), like.dims.rbegin())) return std::nullopt;
    return Operand{symbol, own, true, false, count / own};
  }

  bool Elementwise(const Node& node) {
    static const auto* const unary = new std::unordered_map<std::string, Unary>{
        {"Neg", Unary::kNeg},     {"Abs", Unary::kAbs},     {"Square", Unary::kSquare},   {"Sqrt", Unary::kSqrt},
        {"Rsqrt", Unary::kRsqrt}, {"Inv", Unary::kReciprocal}, {"Reciprocal", Unary::kReciprocal},
        {"Exp", Unary::kExp},     {"Tanh", Unary::kTanh},   {"Sigmoid", Unary::kSigmoid}, {"Relu", Unary::kRelu}};
    static const auto* const binary = new std::unordered_map<std::string, Binary>{
        {"Add", Binary::kAdd},         {"AddV2", Binary::kAdd},         {"BiasAdd", Binary::kAdd},
        {"Sub", Binary::kSub},         {"Mul", Binary::kMul},           {"Div", Binary::kDiv},
        {"RealDiv", Binary::kDiv},     {"Maximum", Binary::kMax},       {"Minimum", Binary::kMin},
        {"TanhGrad", Binary::kTanhGrad}, {"SigmoidGrad", Binary::kSigmoidGrad},
        {"SquaredDifference", Binary::kSquaredDifference}};
    if (const auto found = unary->find(node.type_string()); found != unary->end()) {
      const Symbol* const in = In(node, 0);
      if (in == nullptr || !in->has_rows) return false;
      return Apply(node, true, static_cast<int>(found->second), *in, {*in});
    }
    const bool relu = node.type_string() == "ReluGrad";
    const auto found = binary->find(node.type_string());
    if (!relu && found == binary->end()) return false;
    if (Attribute<std::string>(node, "data_format", "NHWC") != "NHWC") return false;
    const Symbol* a = In(node, 0);
    const Symbol* b = In(node, 1);
    if (a == nullptr || b == nullptr || (!a->has_rows && !b->has_rows)) return false;
    if (relu) std::swap(a, b);  // its first input is what comes from above, ours is the second
    const auto like = Broadcast(*a, *b);
    if (!like) return false;
    return Apply(node, false, relu ? static_cast<int>(Binary::kReluGrad) : static_cast<int>(found->second), *like,
                 {*a, *b});
  }

  // The shape that values of a binary operation have together; nothing where they have none.
  static std::optional<Symbol> Broadcast(const Symbol& a, const Symbol& b) {
    Symbol like = a.has_rows ? a : b;
    const Symbol& other = a.has_rows ? b : a;
    const bool same_rows = !other.has_rows || (other.lead == like.lead && other.dims.size() == like.dims.size());
    const size_t rank = other.dims.size();
    if (!same_rows || rank > like.dims.size() + (other.has_rows ? 0 : 1)) return std::nullopt;
    if (rank > like.dims.size()) return other.dims[0] == 1 ? std::optional(like) : std::nullopt;
    for (size_t i = 0; i < rank; ++i) {
      int64_t& mine = like.dims[like.dims.size() - 1 - i];
      const int64_t theirs = other.dims[rank - 1 - i];
      if (mine != theirs && mine != 1 && theirs != 1) return std::nullopt;
      mine = std::max(mine, theirs);
    }
    return like;
  }

  // One operation on rows like `like`.
  bool Apply(const Node& node, bool is_unary, int op, const Symbol& like, const std::vector<Symbol>& operands) {
    if (like.element != Element::kFloat || like.count() == 0) return false;
    std::vector<Operand> given;
    for (const Symbol& symbol : operands) {
      if (symbol.element != Element::kFloat) return false;
      auto operand = OperandOf(symbol, like);
      if (!operand && symbol.has_rows && like.count() <= kMostArranged) {
        std::vector<int32_t> from;
        ForPositions(like.dims, [&](const Dims& at) { from.push_back(NumberOf(at, symbol.dims)); });
        operand = OperandOf(Arranged(symbol, like.dims, std::move(from)), like);
      }
      if (!operand) return false;
      given.push_back(std::move(*operand));
    }
    const Symbol shape = like;
    int64_t times = 1;
    for (const Operand& one : given) {
      if (one.repeats > 0 && times > 1 && one.repeats != times) return false;
      times = std::max(times, one.repeats);
    }
    const int64_t width = shape.count() / times;
    std::vector<int64_t> code{static_cast<int64_t>(given.size())};
    for (const Operand& one : given) code.insert(code.end(), {one.width, one.shared ? 1 : 0});
    code.insert(code.end(), {0, 1, shape.count(), 1, is_unary ? 1 : 2, op, width, times, 2, 0, 0, 0, width});
    RowProgram::Elementwise step;
    for (size_t i = 0; i < given.size(); ++i) {
      const bool stays = given[i].repeats > 0 || given[i].scalar;
      code.insert(code.end(), {0, static_cast<int64_t>(i), 0, given[i].scalar ? 1 : 0, stays ? 0 : width});
      step.inputs.push_back(PlaceOf(given[i].symbol));
    }
    if (!Expression::Decode(code, &step.expression).empty()) return false;
    Symbol out = Made(tensorflow::DT_FLOAT, shape.lead, shape.dims);
    step.outputs.push_back(out.pieces[0].place);
    program_.Add(std::move(step));
    return Set(node, 0, std::move(out));
  }

  bool AddN(const Node& node) {
    const Symbol* const first = In(node, 0);
    if (first == nullptr || !first->has_rows || first->element != Element::kFloat || first->count() == 0) return false;
    const Symbol shape = *first;
    const int64_t width = shape.count();
    if (node.num_inputs() == 1) return Set(node, 0, shape);
    std::vector<int64_t> code{node.num_inputs()};
    RowProgram::Elementwise step;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Symbol* const in = In(node, i);
      if (in == nullptr || !in->has_rows || in->lead != shape.lead || in->dims != shape.dims) return false;
      const Symbol operand = *in;
      step.inputs.push_back(PlaceOf(operand));
      code.insert(code.end(), {width, 0});
    }
    code.insert(code.end(), {0, 1, width, node.num_inputs() - 1});
    for (int64_t i = 1; i < node.num_inputs(); ++i) {
      code.insert(code.end(), {2, static_cast<int64_t>(Binary::kAdd), width, 1, 2, 0, 0, 0, 0});
      code.insert(code.end(), {i == 1 ? 0 : 2, 0, 0, 0, 0});
      code.insert(code.end(), {0, i, 0, 0, 0});
    }
    if (!Expression::Decode(code, &step.expression).empty()) return false;
    Symbol out = Made(tensorflow::DT_FLOAT, shape.lead, shape.dims);
    step.outputs.push_back(out.pieces[0].place);
    program_.Add(std::move(step));
    return Set(node, 0, std::move(out));
  }

  // Two operands of which one may be a scalar for all rows.
  struct Pair {
    Symbol a, b;
    int64_t step_a = 1, step_b = 1;
    Symbol like;
  };
  std::optional<Pair> PairOf(const Node& node, int first = 0) {
    if (In(node, first) == nullptr || In(node, first + 1) == nullptr) return std::nullopt;
    const auto a = Settled(*In(node, first)), b = Settled(*In(node, first + 1));
    if (!a || !b || a->element != b->element || (!a->has_rows && !b->has_rows)) return std::nullopt;
    Pair pair{*a, *b, 1, 1, a->has_rows ? *a : *b};
    for (const auto& [symbol, step] : {std::make_pair(&*a, &pair.step_a), std::make_pair(&*b, &pair.step_b)}) {
      if (symbol->has_rows) {
        if (symbol->lead != pair.like.lead || symbol->dims != pair.like.dims) return std::nullopt;
      } else {
        if (symbol->count() != 1 || symbol->dims.size() > pair.like.dims.size() + 1) return std::nullopt;
        *step = 0;
      }
    }
    return pair;
  }

  bool Compare(const Node& node) {
    static const auto* const comparisons = new std::unordered_map<std::string, Comparison>{
        {"Equal", Comparison::kEqual},     {"NotEqual", Comparison::kNotEqual},
        {"Less", Comparison::kLess},       {"LessEqual", Comparison::kLessEqual},
        {"Greater", Comparison::kGreater}, {"GreaterEqual", Comparison::kGreaterEqual}};
    const auto found = comparisons->find(node.type_string());
    if (found == comparisons->end()) return false;
    const auto pair = PairOf(node);
    if (!pair) return false;
    Symbol out = Made(tensorflow::DT_BOOL, pair->like.lead, pair->like.dims);
    program_.Add(RowProgram::Compare{found->second, pair->a.element, pair->like.count(), PlaceOf(pair->a),
                                     PlaceOf(pair->b), pair->step_a, pair->step_b, out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  bool Integers(const Node& node) {
    static const auto* const operations = new std::unordered_map<std::string, IntegerOperation>{
        {"Add", IntegerOperation::kAdd},
        {"AddV2", IntegerOperation::kAdd},
        {"Sub", IntegerOperation::kSub},
        {"Mul", IntegerOperation::kMul}};
    const auto found = operations->find(node.type_string());
    if (found == operations->end()) return false;
    const auto pair = PairOf(node);
    if (!pair || !IsInteger(pair->a.element)) return false;
    Symbol out = Made(pair->like.dtype, pair->like.lead, pair->like.dims);
    program_.Add(RowProgram::Integers{found->second, pair->a.element, pair->like.count(), PlaceOf(pair->a),
                                      PlaceOf(pair->b), pair->step_a, pair->step_b, out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  bool SelectV2(const Node& node) {
    const Symbol* const given = In(node, 0);
    if (given == nullptr || given->element != Element::kBool || !given->has_rows) return false;
    const Symbol condition = *given;
    const auto pair = PairOf(node, 1);
    if (!pair || condition.lead != pair->like.lead || condition.dims != pair->like.dims) return false;
    Symbol out = Made(pair->like.dtype, pair->like.lead, pair->like.dims);
    program_.Add(RowProgram::Select{BytesOf(out.element), out.count(), PlaceOf(condition), PlaceOf(pair->a),
                                    PlaceOf(pair->b), 1, pair->step_a, pair->step_b, out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  bool Cast(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto to = Attribute<DataType>(node, "DstT", tensorflow::DT_INVALID);
    const auto element = ElementOf(to);
    if (in == nullptr || !in->has_rows || !element || in->element == Element::kFloat) return false;
    const Symbol from = *in;
    Symbol out = Made(to, from.lead, from.dims);
    program_.Add(RowProgram::Cast{from.element, *element, from.count(), PlaceOf(from), out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  bool SoftmaxLoss(const Node& node) {
    const Symbol* const logits = In(node, 0);
    const Symbol* const labels = In(node, 1);
    if (logits == nullptr || labels == nullptr || !logits->has_rows || !labels->has_rows) return false;
    if (logits->element != Element::kFloat || logits->dims.size() != 1 || logits->dims[0] < 1 ||
        !IsInteger(labels->element) || !labels->dims.empty() || labels->lead != logits->lead) {
      return false;
    }
    const Symbol from = *logits, right = *labels;
    Symbol loss = Made(tensorflow::DT_FLOAT, from.lead, {}), gradient = Made(tensorflow::DT_FLOAT, from.lead, from.dims);
    program_.Add(RowProgram::SoftmaxLoss{from.dims[0], from.lead, PlaceOf(from), PlaceOf(right), right.element,
                                         loss.pieces[0].place, gradient.pieces[0].place});
    return Set(node, 0, std::move(loss)) && Set(node, 1, std::move(gradient));
  }

  bool Softmax(const Node& node) {
    const Symbol* const in = In(node, 0);
    if (in == nullptr || !in->has_rows || in->element != Element::kFloat || in->dims.empty() || in->count() == 0) {
      return false;
    }
    const Symbol from = *in;
    Symbol out = Made(from.dtype, from.lead, from.dims);
    const int64_t classes = from.dims.back();
    program_.Add(RowProgram::Softmaxes{classes, from.count() / classes, PlaceOf(from), out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  // The first number is that of the rows: -1, which is what reshapes and slices take for it.
  bool Shape(const Node& node) {
    const Symbol* const in = In(node, 0);
    if (in == nullptr) return false;
    const auto dtype = Attribute<DataType>(node, "out_type", tensorflow::DT_INT32);
    Symbol out;
    if (!in->has_rows) {
      if (in->pieces.empty()) return false;
      const Place& place = in->pieces[0].place;
      if (place.space != Space::kShared || static_cast<size_t>(place.index) >= captures_.size()) return false;
      out.dtype = dtype;
      out.element = dtype == tensorflow::DT_INT64 ? Element::kInt64 : Element::kInt32;
      out.dims = {static_cast<int64_t>(in->dims.size())};
      out.capture = place.index;
      for (size_t dim = 0; dim < in->dims.size(); ++dim) out.sizes.push_back(dim);
      return Set(node, 0, std::move(out));
    }
    if (in->lead != 1 || dtype != tensorflow::DT_INT32) return false;
    out.dtype = tensorflow::DT_INT32;
    out.element = Element::kInt32;
    out.dims = {static_cast<int64_t>(in->dims.size()) + 1};
    auto value = std::make_shared<Tensor>(tensorflow::DT_INT32, TensorShape({out.dims[0]}));
    value->flat<int32_t>()(0) = -1;
    for (size_t i = 0; i < in->dims.size(); ++i) value->flat<int32_t>()(i + 1) = static_cast<int32_t>(in->dims[i]);
    out.constant = std::move(value);
    out.is_shape_of_rows = true;
    return Set(node, 0, std::move(out));
  }

  // Zeros with the gradient where the slice was taken.
  bool StridedSliceGrad(const Node& node) {
    const auto shape = Known(node, 0), begin = Known(node, 1), end = Known(node, 2), strides = Known(node, 3);
    const Symbol* const in = In(node, 4);
    if (in == nullptr || !in->has_rows || in->lead != 1 || !shape || !begin || !end || !strides) return false;
    const int begin_mask = Attribute<int>(node, "begin_mask", 0), end_mask = Attribute<int>(node, "end_mask", 0);
    const int new_axes = Attribute<int>(node, "new_axis_mask", 0), shrink = Attribute<int>(node, "shrink_axis_mask", 0);
    if (Attribute<int>(node, "ellipsis_mask", 0) != 0 || begin->empty() || shape->empty() || (*shape)[0] != -1) return false;
    if (!(begin_mask & 1) || !(end_mask & 1) || (*strides)[0] != 1 || (new_axes & 1) || (shrink & 1)) return false;
    const Dims dims(shape->begin() + 1, shape->end());
    if (Product(dims) > kMostArranged) return false;
    Dims first(dims.size(), 0), size = dims;
    size_t dim = 0;
    for (size_t i = 1; i < begin->size(); ++i) {
      const int bit = 1 << i;
      if (new_axes & bit) continue;
      if (dim >= dims.size() || (*strides)[i] != 1) return false;
      const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + dims[dim] : at, 0, dims[dim]); };
      first[dim] = (begin_mask & bit) && !(shrink & bit) ? 0 : clamped((*begin)[i]);
      const int64_t last = shrink & bit ? first[dim] + 1 : end_mask & bit ? dims[dim] : clamped((*end)[i]);
      size[dim] = last - first[dim];
      if (size[dim] < 1) return false;
      ++dim;
    }
    const Symbol source = *in;
    if (Product(size) != source.count()) return false;
    std::vector<int32_t> from;
    ForPositions(dims, [&](const Dims& at) {
      Dims there(at.size());
      bool inside = true;
      for (size_t i = 0; i < at.size(); ++i) {
        there[i] = at[i] - first[i];
        inside = inside && there[i] >= 0 && there[i] < size[i];
      }
      from.push_back(inside ? NumberOf(there, size) : -1);
    });
    return Set(node, 0, Arranged(source, dims, std::move(from)));
  }

  // Over dimensions of each row that are neighbours.
  bool SumWithin(const Node& node, const Symbol& in, Dims axes) {
    for (int64_t& axis : axes) axis = (axis < 0 ? axis + static_cast<int64_t>(in.dims.size()) : axis - 1);
    std::sort(axes.begin(), axes.end());
    if (axes.empty() || axes.front() < 0 || axes.back() >= static_cast<int64_t>(in.dims.size())) return false;
    for (size_t i = 1; i < axes.size(); ++i) {
      if (axes[i] != axes[i - 1] + 1) return false;
    }
    const size_t first = axes.front(), last = axes.back() + 1;
    Dims dims = in.dims;
    if (Attribute<bool>(node, "keep_dims", false)) {
      std::fill(dims.begin() + first, dims.begin() + last, 1);
    } else {
      dims.erase(dims.begin() + first, dims.begin() + last);
    }
    Symbol out = Made(in.dtype, in.lead, std::move(dims));
    program_.Add(RowProgram::SumWithin{in.lead * Product(in.dims, 0, first), Product(in.dims, first, last),
                                       Product(in.dims, last), PlaceOf(in), out.pieces[0].place});
    return Set(node, 0, std::move(out));
  }

  // Over all rows, which only a result of the block can be, or within each.
  bool Sum(const Node& node) {
    const Symbol* const in = In(node, 0);
    const auto axes = Known(node, 1);
    if (in == nullptr || !in->has_rows || in->element != Element::kFloat || !axes) return false;
    if (std::find(axes->begin(), axes->end(), 0) == axes->end()) return SumWithin(node, Symbol(*in), *axes);
    if (*axes != Dims{0} || Attribute<bool>(node, "keep_dims", false)) return false;
    for (const tensorflow::Edge* edge : node.out_edges()) {
      if (!edge->IsControlEdge() && !edge->dst()->IsRetval()) return false;
    }
    const Symbol from = *in;
    Symbol out;
    out.dtype = from.dtype;
    out.element = from.element;
    out.dims = from.dims;
    const int64_t width = Product(from.dims);
    const Place total = program_.AddOutput(width * BytesOf(Element::kFloat), true);
    out.sum = total.index;
    out.pieces = {{total, width * BytesOf(Element::kFloat)}};
    program_.Add(RowProgram::Sum{width, from.lead, PlaceOf(from), total.index});
    return Set(node, 0, std::move(out));
  }

  const Block& block_;
  const std::vector<RowKind>& inputs_;
  const std::vector<LoweredCapture>& captures_;
  RowProgram program_;
  std::vector<LoweredBlock::Need> needs_;  // of each capture
  bool reads_shape_ = false;
  std::map<std::pair<int, int>, Symbol> symbols_;
  std::vector<LoweredBlock::Result> results_;
  std::string why_;
};

}  // namespace

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
  Lowering lowering(block, inputs, captures);
  if (!lowering.Run(body)) {
    *why = lowering.why();
    return nullptr;
  }
  return lowering.Take();
}

}  // namespace batch
}  // namespace recgraph
