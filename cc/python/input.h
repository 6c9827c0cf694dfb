// What an operation of a step was given.
#ifndef RECGRAPH_CC_PYTHON_INPUT_H_
#define RECGRAPH_CC_PYTHON_INPUT_H_

#include <memory>
#include <string>

#include "absl/container/inlined_vector.h"
#include "cc/python/value.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// What a trace says of a tensor from outside.
struct Described {
  Dimensions shape;
  bool is_small;      // then `bytes` are its value
  std::string bytes;
};

struct Input {
  ValuePtr value;      // of this step; else null
  HandlePtr external;  // from outside. Kept while the step has a graph, to do the operation again
  const tensorflow::Tensor* tensor = nullptr;  // the one behind `external`, of operations that graphs have
  int resource = -1;   // its number, if it is one
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  std::unique_ptr<const Described> described = nullptr;
};

// Most operations have few, and then they need no memory of their own.
using Inputs = absl::InlinedVector<Input, 3>;

// What is known of an input: its shape, and its value if that is there.
struct KnownInput {
  Dimensions shape;
  const tensorflow::Tensor* tensor = nullptr;
};

using KnownInputs = absl::InlinedVector<KnownInput, 3>;

KnownInputs KnownOf(const Inputs& inputs);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_INPUT_H_
