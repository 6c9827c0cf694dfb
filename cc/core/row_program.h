// A block's operations on rows without TensorFlow: what reads rows reads them where they lie, and no operation is
// looked up, allocated for or locked. Made by cc/kernels/row_lowering.h from the block's function.
#ifndef RECGRAPH_CC_CORE_ROW_PROGRAM_H_
#define RECGRAPH_CC_CORE_ROW_PROGRAM_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cc/core/expression.h"
#include "cc/core/row_kernels.h"

namespace recgraph {

enum class Element { kFloat, kInt32, kInt64, kBool };

inline int64_t BytesOf(Element element) {
  return element == Element::kBool ? 1 : element == Element::kInt64 ? 8 : 4;
}

enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
enum class IntegerOperation { kAdd, kSub, kMul };

class RowProgram {
 public:
  // An input is a row wherever it lies; something shared is the same for all rows: a captured tensor or, after
  // those, a constant; scratch rows live while the program runs; an output's rows lie together.
  enum class Space { kInput, kShared, kScratch, kOutput };

  // Some bytes of every row.
  struct Place {
    Space space;
    int index;
    int64_t offset = 0;
  };

  struct Part {
    Place place;
    int64_t width;  // floats
  };

  // Rows of a shared table, `count` of them for each row, each of so many bytes, by their numbers.
  struct Gather {
    int table;  // shared
    int64_t bytes;
    Place numbers;
    Element element;  // of the numbers
    int64_t count;
    Place out;
  };
  // [count, inner] * [inner, width], the parts of the first factor side by side.
  struct Product {
    std::vector<Part> parts;
    int64_t count;
    PackedShape shape;
    int packed;  // shared
    Place out;
  };
  // `count` products of two matrices in each row.
  struct Matrices {
    MatrixProduct product;
    int64_t count;
    Place a, b;
    int64_t step_a, step_b;  // floats from one to the next; 0 where all use one
    Place out;
  };
  struct Elementwise {
    Expression expression;
    std::vector<Place> inputs;
    std::vector<Place> outputs;
  };
  struct Compare {
    Comparison comparison;
    Element element;
    int64_t count;
    Place a, b;
    int64_t step_a, step_b;  // 0 where one element is compared with all
    Place out;
  };
  // Wraps around as TensorFlow's does.
  struct Integers {
    IntegerOperation operation;
    Element element;
    int64_t count;
    Place a, b;
    int64_t step_a, step_b;
    Place out;
  };
  // `a` where the condition holds, else `b`: `count` elements of so many bytes.
  struct Select {
    int64_t bytes;
    int64_t count;
    Place condition, a, b;
    int64_t step_condition, step_a, step_b;
    Place out;
  };
  // How many rows of so many bytes something shared has.
  struct Size {
    int shared;
    int64_t bytes;
    Element element;  // of the number
    Place out;
  };
  struct Cast {
    Element from, to;
    int64_t count;
    Place in, out;
  };
  struct Copy {
    int64_t bytes;
    Place in, out;
  };
  // Elements in another order: `from[i]` becomes the i-th, 0 where that is -1.
  struct Arrange {
    int64_t bytes;  // of an element
    std::vector<int32_t> from;
    Place in, out;
  };
  // Probabilities of `count` rows of logits in each row.
  struct Softmaxes {
    int64_t classes;
    int64_t count;
    Place in, out;
  };
  // [outer, summed, inner] floats of each row, summed over the middle.
  struct SumWithin {
    int64_t outer, summed, inner;
    Place in, out;
  };
  // Of `count` examples in each row: cross entropy, and its gradient by the logits.
  struct SoftmaxLoss {
    int64_t classes;
    int64_t count;
    Place logits;
    Place labels;
    Element element;  // of the labels
    Place loss, gradient;
  };
  // Adds to an output that all rows share, and that is doubles: the sum over rows, and over `count` parts of each, of so
  // many floats. It is for others to round once all is added up.
  struct Sum {
    int64_t width;
    int64_t count;
    Place in;
    int output;
  };
  using Step = std::variant<Gather, Product, Matrices, Elementwise, Compare, Integers, Select, Size, Cast, Copy, Arrange,
                            Softmaxes, SumWithin, SoftmaxLoss, Sum>;

  struct Output {
    int64_t bytes;  // of a row or, shared, of all
    bool shared;
  };
  // What a captured tensor has.
  struct Shared {
    const char* data;
    int64_t bytes;
  };

  RowProgram(int inputs, int captures) : inputs_(inputs), captures_(captures) {}

  // Making one. A scratch row has so many bytes; the number of a constant is among those of what is shared.
  Place AddScratch(int64_t bytes);
  int AddConstant(const void* data, int64_t bytes);
  Place AddOutput(int64_t bytes, bool shared);
  void Add(Step step) { steps_.push_back(std::move(step)); }

  // To be called when all steps are there: what is made only to be copied to an output is made there.
  void WriteOutputsDirectly();

  const std::vector<Output>& outputs() const { return outputs_; }
  int captures() const { return captures_; }

  // Computes `rows` rows. `inputs[i][row]` is where a row of an input is; an output has room for its rows; shared
  // outputs are added to. False where a row cannot be computed (an index out of range, no memory): then outputs are
  // anything, and shared ones may have been added to. Thread-safe.
  bool Run(int64_t rows, const char* const* const* inputs, const Shared* captures, char* const* outputs) const;

 private:
  class Tile;

  // Of the scratch rows of one row.
  int64_t ScratchBytes() const;
  // What steps have of their own while they run, for each row and besides; false for a step that cannot be run.
  bool OwnBytes(int64_t* a_row, int64_t* once) const;

  const int inputs_;
  const int captures_;
  struct ScratchRows {
    int64_t used;    // bytes of a row
    int64_t bytes;   // the same, aligned
    int64_t before;  // of a row of those before it
  };
  std::vector<ScratchRows> scratch_;
  std::vector<std::vector<char>> constants_;
  std::vector<Output> outputs_;
  std::vector<Step> steps_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_ROW_PROGRAM_H_
