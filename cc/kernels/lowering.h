// What row_lowering.cc, lowering_shapes.cc and lowering_steps.cc share: what is known of each tensor of a block's
// function, and a rule for each operation.
#ifndef RECGRAPH_CC_KERNELS_LOWERING_H_
#define RECGRAPH_CC_KERNELS_LOWERING_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/kernels/environment.h"
#include "cc/kernels/row_lowering.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

namespace recgraph {
namespace batch {
namespace lowering {

using tensorflow::DataType;
using tensorflow::Node;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using Place = RowProgram::Place;
using Space = RowProgram::Space;
using Dims = std::vector<int64_t>;

inline int64_t Product(const Dims& dims, size_t begin = 0, size_t end = SIZE_MAX) {
  int64_t product = 1;
  for (size_t i = begin; i < std::min(end, dims.size()); ++i) product *= dims[i];
  return product;
}

inline std::optional<Element> ElementOf(DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_FLOAT: return Element::kFloat;
    case tensorflow::DT_INT32: return Element::kInt32;
    case tensorflow::DT_INT64: return Element::kInt64;
    case tensorflow::DT_BOOL: return Element::kBool;
    default: return std::nullopt;
  }
}

inline bool IsInteger(Element element) { return element == Element::kInt32 || element == Element::kInt64; }

struct Piece {
  Place place;
  int64_t bytes;
};

// What a row of a value takes at most, and all values of a row together, and what all rows share: what is computed from
// sizes can be counted, and a row's elements have numbers in 32 bits.
constexpr int64_t kMostRowBytes = (int64_t{1} << 31) - 1;
constexpr int64_t kMostSharedBytes = int64_t{1} << 46;
// TensorFlow's tensors have 254 dimensions at most, and one of them is for the rows.
constexpr size_t kMostDims = 252;
// What is written down one by one while a block is lowered, at most: numbers of elements, pieces, sizes.
constexpr int64_t kMostWritten = 1 << 22;

// What is known of a tensor while the block is lowered. With rows its shape is [rows * lead, dims...], and each row of
// the block has `pieces`, side by side; else it is `dims`, and one place.
class Symbol {
 public:
  Element element = Element::kFloat;
  DataType dtype = tensorflow::DT_INVALID;
  bool has_rows = false;
  std::vector<Piece> pieces;
  std::shared_ptr<const Tensor> constant;  // where its elements are known
  int sum = -1;                            // an output that is a sum over rows
  bool is_shape_of_rows = false;           // a shape that is known but for the number of rows
  bool is_reshaped = false;                // the elements of a capture, whose shape is another one
  int capture = -1;                        // whose sizes these are
  Dims sizes;                              // of the capture, the dimensions

  int64_t lead() const { return lead_; }
  const Dims& dims() const { return dims_; }
  int64_t count() const { return lead_ * Product(dims_); }  // elements, of a row where it has rows
  int64_t bytes() const { return count() * BytesOf(element); }

  // The only way to a shape: false, and nothing is changed, where a size is negative or the whole, of this element and
  // with or without rows, is more than it may be. Sizes come out of files.
  [[nodiscard]] bool SetShape(int64_t lead, Dims dims);

 private:
  int64_t lead_ = 1;
  Dims dims_;
};

// Elements of a row that are put in another order one by one, at most.
constexpr int64_t kMostArranged = 1 << 16;

// Calls `visit` with the position along each dimension of every element, in order.
template <typename Visit>
void ForPositions(const Dims& dims, const Visit& visit) {
  Dims at(dims.size(), 0);
  for (int64_t i = 0; i < Product(dims); ++i) {
    visit(at);
    for (size_t dim = dims.size(); dim-- > 0 && ++at[dim] == dims[dim];) at[dim] = 0;
  }
}

// The number of an element; a position counts only where the dimension is not 1.
inline int32_t NumberOf(const Dims& at, const Dims& dims) {
  int64_t number = 0;
  const size_t skipped = at.size() - dims.size();
  for (size_t dim = 0; dim < dims.size(); ++dim) number = number * dims[dim] + at[skipped + dim] % dims[dim];
  return static_cast<int32_t>(number);
}

class Lowering {
 public:
  Lowering(const Block& block, const std::vector<RowKind>& inputs, const std::vector<LoweredCapture>& captures)
      : block_(block), inputs_(inputs), captures_(captures),
        program_(static_cast<int>(inputs.size()), static_cast<int>(captures.size())),
        needs_(captures.size(), LoweredBlock::Need::kNothing) {}

  // Whether each operation of the function has a step; else `why` names one that has none.
  bool Run(const tensorflow::FunctionBody& body);
  const std::string& why() const { return why_; }
  std::unique_ptr<const LoweredBlock> Take();

 private:
  using Rule = bool (Lowering::*)(const Node&);
  bool Visit(const Node& node);

  // Symbols of a node's inputs and outputs.
  const Symbol* In(const Node& node, int index) const;
  bool Set(const Node& node, int index, Symbol symbol);
  // The integers of an input that is known, if there are `size` of them; a rule that does not need to know how many
  // there are says so.
  static constexpr int64_t kAnySize = -1;
  std::optional<Dims> Known(const Node& node, int index, int64_t size);
  // Whether so many more numbers may be written down.
  bool Spend(int64_t amount);
  // Memory for one more value of a row: nothing where there would be too much in all.
  std::optional<Place> Scratch(int64_t bytes);
  // Whether the function is one for what the block reads, and what it gives is what the plan says.
  bool FitsArguments(const tensorflow::FunctionBody& body) const;
  bool FitsResults() const;
  bool FitsSum(SumKind kind, size_t first) const;
  template <typename T>
  static T Attribute(const Node& node, const char* name, T otherwise) {
    T value;
    return tensorflow::GetNodeAttr(node.attrs(), name, &value).ok() ? value : otherwise;
  }
  // What a captured tensor is read for.
  void Note(const Symbol& symbol, LoweredBlock::Need need);
  // A symbol's one place; where it is pieces, they are copied together. Where there is none, the block is not lowered.
  Place PlaceOf(const Symbol& symbol);
  // A new value with rows, in scratch memory; nothing where there can be none of that shape.
  std::optional<Symbol> Made(DataType dtype, int64_t lead, Dims dims);

  // Where the function begins and ends.
  bool Argument(const Node& node);
  bool Constant(const Node& node);
  bool Return(const Node& node);
  // Whether a result of so many pieces is a factor of a weight's gradient, and nothing else; of the second one alone.
  bool IsFactor(int result, size_t pieces) const;

  // Other shapes of the same elements.
  bool Same(const Node& node);
  bool Reshape(const Node& node);
  bool ExpandDims(const Node& node);
  bool Squeeze(const Node& node);

  // Elements in another order.
  // A value of each row whose element at a position is element `from(position)` of `in`, or 0 where that is -1; nothing
  // where there are too many.
  using From = std::function<int32_t(const Dims&)>;
  std::optional<Symbol> Arranged(const Symbol& in, const Dims& dims, const From& from);
  bool SetArranged(const Node& node, int output, const Symbol& in, const Dims& dims, const From& from);
  bool Transpose(const Node& node);
  bool Tile(const Node& node);
  // The main diagonal alone, and zeros beside it.
  bool IsMainDiagonal(const Node& node);
  bool MatrixDiag(const Node& node);
  bool MatrixDiagPart(const Node& node);

  // Parts of rows.
  // Elements `begin` to `begin + size` along one of the dimensions of a row, which lie together.
  bool SetPart(const Node& node, int output, const Symbol& in, size_t dim, int64_t begin, int64_t size, bool keeps);
  bool StridedSlice(const Node& node);
  bool SliceOfSizes(const Node& node, const Symbol& in, const Dims& begin, const Dims& end, const Dims& strides);
  // Integers that are known; where the first is the number of rows, it is -1, and nothing reads them as numbers.
  std::optional<Symbol> Numbers(DataType dtype, const Dims& numbers, bool is_scalar, bool is_shape_of_rows);
  bool SetNumbers(const Node& node, DataType dtype, const Dims& numbers, bool is_scalar, bool is_shape_of_rows);
  // A shape that is put together: the number of rows can only be its first number.
  bool JoinNumbers(const Node& node, int count);
  // Sizes as numbers: those that are known, or the number of rows of a captured tensor, which each row is given.
  std::optional<Symbol> Settled(const Symbol& symbol);
  bool Slice(const Node& node);
  bool Unpack(const Node& node);
  bool Split(const Node& node);
  bool SplitV(const Node& node);
  // Parts that lie one after the other, joined along a dimension that is not the first.
  std::optional<Symbol> Interleaved(const Symbol& parts, int64_t along, const Dims& sizes);
  // Rows side by side.
  bool Join(const Node& node, int count, int64_t axis, bool is_new);
  bool Concat(const Node& node);
  bool Pack(const Node& node);

  // Steps.
  bool Gather(const Node& node, const Symbol* table, const Symbol* numbers);
  bool GatherV2(const Node& node);
  // Parts of each row, or sizes, by numbers that are known.
  bool GatherKnown(const Node& node, const Symbol& in, const Dims& numbers, int64_t axis);
  bool ResourceGather(const Node& node);
  bool PackedProduct(const Node& node);
  // Rows by a captured matrix that is not packed.
  bool MatMul(const Node& node);
  // A matrix of each row by another one, or by one for all.
  bool BatchMatMul(const Node& node);
  bool ExpressionNode(const Node& node);
  bool Elementwise(const Node& node);
  // One operation on rows like `like`.
  bool Apply(const Node& node, bool is_unary, int op, const Symbol& like, const std::vector<Symbol>& operands);
  bool AddN(const Node& node);
  // Two operands of which one may be a scalar for all rows.
  struct Pair {
    Symbol a, b;
    int64_t step_a = 1, step_b = 1;
    Symbol like;
  };
  std::optional<Pair> PairOf(const Node& node, int first = 0);
  bool Compare(const Node& node);
  bool Integers(const Node& node);
  bool SelectV2(const Node& node);
  bool Logical(const Node& node);
  bool Cast(const Node& node);
  bool SoftmaxLoss(const Node& node);
  bool Softmax(const Node& node);
  // The first number is that of the rows: -1, which is what reshapes and slices take for it.
  bool Shape(const Node& node);
  // Zeros with the gradient where the slice was taken.
  bool StridedSliceGrad(const Node& node);
  // Over dimensions of each row that are neighbours.
  bool SumWithin(const Node& node, const Symbol& in, Dims axes);
  // Over all rows, which only a result of the block can be, or within each.
  bool Sum(const Node& node);

  const Block& block_;
  const std::vector<RowKind>& inputs_;
  const std::vector<LoweredCapture>& captures_;
  RowProgram program_;
  std::vector<LoweredBlock::Need> needs_;  // of each capture
  bool has_no_place_ = false;   // something was to be read that has none
  int64_t written_ = 0;         // numbers so far
  int64_t scratch_bytes_ = 0;   // of all values of a row so far
  std::map<std::pair<int, int>, Symbol> symbols_;
  std::vector<LoweredBlock::Result> results_;
  std::string why_;
};

}  // namespace lowering
}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_LOWERING_H_
