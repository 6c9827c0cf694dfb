// The shapes of an operation's outputs, by TensorFlow's own shape functions.
#ifndef RECGRAPH_CC_PYTHON_SHAPES_H_
#define RECGRAPH_CC_PYTHON_SHAPES_H_

#include <mutex>
#include <string>
#include <vector>

#include "cc/python/input.h"
#include "cc/python/signature.h"
#include "cc/python/value.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// Whether a tensor is small enough to be compared and kept.
bool IsSmall(const tensorflow::Tensor& tensor);

// The sizes of a shape; false if not all of them are known.
bool TakeShape(tensorflow::shape_inference::InferenceContext* context, tensorflow::shape_inference::ShapeHandle shape,
               Dimensions* result);

// The shapes of all outputs. `*is_complete` is false if they depend on values that are not there. An error is one that
// the operation itself would give.
absl::Status InferShapes(const Signature& signature, const KnownInputs& inputs,
                         std::vector<Dimensions>* outputs, bool* is_complete);

// The same, remembered for the inputs that came last. Not thread-safe.
class ShapeCache {
 public:
  absl::Status Infer(const Signature& signature, const Inputs& inputs, const std::vector<Dimensions>** outputs,
                     bool* is_complete);

 private:
  // Of an input: its shape, and its value where shapes may depend on that.
  struct Part {
    Dimensions shape;
    bool has_value;
    std::string bytes;
  };
  struct Entry {
    std::vector<Part> inputs;
    std::vector<Dimensions> outputs;
    bool is_complete;
  };
  static bool Fits(const Entry& entry, const Inputs& inputs);

  std::vector<Entry> entries_;
  size_t last_ = 0;  // the entry that fitted last
  size_t next_ = 0;  // where the next one is put
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_SHAPES_H_
