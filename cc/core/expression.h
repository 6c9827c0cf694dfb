// Chains of elementwise operations as one pass over memory: a few rows at a time go through all of them while
// they are in the cache. Splits, concatenations and reshapes are only places to read from and to write to.
// Made in Python (recgraph/batch/expressions.py), decoded and run here.
#ifndef RECGRAPH_CC_CORE_EXPRESSION_H_
#define RECGRAPH_CC_CORE_EXPRESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/row_kernels.h"

namespace recgraph {

class Expression {
 public:
  struct Input {
    int64_t width;  // floats of a row
    bool shared;    // one row for all
  };

  // Returns "" or what is wrong with the code. Each instruction computes no more floats than a row of one of its arrays
  // has, and all together no more than a limit.
  static std::string Decode(const std::vector<int64_t>& code, Expression* expression);

  const std::vector<Input>& inputs() const { return inputs_; }
  // Floats of a row of each output.
  const std::vector<int64_t>& outputs() const { return outputs_; }

  // An array's first row, and how many floats on is the next.
  struct Source {
    const float* data;
    int64_t stride;
  };
  struct Target {
    float* data;
    int64_t stride;
  };

  // Computes rows `begin` to `end`; false where there is no memory. Inputs and outputs are whole arrays; no output may be
  // an input. Thread-safe.
  bool Run(int64_t begin, int64_t end, const Source* inputs, const Target* outputs) const;

 private:
  enum class Space { kInput = 0, kRegister = 1, kOutput = 2 };
  // `width` floats of each row of an array, from `offset`.
  struct Place {
    Space space;
    int index;
    int64_t offset;
    bool scalar;   // one float, for all results of its row
    int64_t step;  // by which the offset grows from time to time
  };
  struct Instruction {
    bool is_unary;
    int op;
    int64_t width;
    int64_t times;
    Place out, a, b;
    bool flat;  // all its rows lie together: one long row
  };
  class Decoder;

  int64_t RowWidth(const Place& place) const;
  bool IsFlat(const Place& place, int64_t width) const;
  bool AreDense(const Source* inputs, const Target* outputs) const;

  std::vector<Input> inputs_;
  std::vector<int64_t> registers_;
  std::vector<int64_t> offsets_;  // of each register in the scratch memory of one row
  std::vector<int64_t> outputs_;
  std::vector<Instruction> instructions_;
  int64_t scratch_ = 0;  // floats of one row
  int64_t tile_ = 1;     // rows that go through all instructions together
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_EXPRESSION_H_
