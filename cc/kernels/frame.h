// A frame: the activations of one invocation, as a reference-counted value that travels in a
// variant tensor. A child's frame is one of its parent's values, so the call path and the loop
// iteration are implicit in who holds whom: frames of invocations that finish in any order cannot
// be mixed up (docs/architecture.md compares this with a table keyed by call path).
#ifndef RECGRAPH_CC_KERNELS_FRAME_H_
#define RECGRAPH_CC_KERNELS_FRAME_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/batch_machine.h"
#include "cc/core/frame_base.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace recgraph {

class Environment;

class Frame : public FrameBase {
 public:
  explicit Frame(std::vector<tensorflow::Tensor> values);

  const std::vector<tensorflow::Tensor>& values() const { return values_; }

  // Of a call that the batched engine ran: the record of each root. Then `values` is empty.
  std::vector<batch::Value> roots;
  bool is_batched = false;
  // That of a call that was laid out only: its values are in no memory of ours.
  bool is_tabulated = false;
  // Set on the frame of an invocation that opened an environment; null otherwise.
  std::shared_ptr<const Environment> environment;
  // Whether it is that of a memoized invocation, which several calls may share (shared_calls.h), and what gradients by
  // the arguments of that look like.
  bool is_shared = false;
  std::vector<std::pair<tensorflow::DataType, tensorflow::TensorShape>> targets;

 private:
  const std::vector<tensorflow::Tensor> values_;
};

// The variant's payload.
struct FrameValue {
  FramePtr<Frame> frame;

  static constexpr char kTypeName[] = "recgraph::Frame";
  std::string TypeName() const { return kTypeName; }
  // Frames live in one process: they are neither serialised nor copied to another device.
  void Encode(tensorflow::VariantTensorData*) const {}
  bool Decode(const tensorflow::VariantTensorData&) { return false; }
  std::string DebugString() const;
};

// A scalar variant tensor that holds `frame`.
tensorflow::Tensor ToTensor(FramePtr<Frame> frame);

// Whether `tensor` holds the only reference to its frame, in the only reference to its buffer: whoever reads it now
// is the last to do so.
bool IsLastReader(const tensorflow::Tensor& tensor);

// The frame in `tensor`; an InvalidArgument error where it holds none.
absl::Status FromTensor(const tensorflow::Tensor& tensor, FramePtr<Frame>* frame);

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_FRAME_H_
