// Values of the batched engine as tensors: stacked buffers, and rows gathered from them.
#ifndef RECGRAPH_CC_KERNELS_BATCH_BUFFER_H_
#define RECGRAPH_CC_KERNELS_BATCH_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/batch_machine.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace recgraph {
namespace batch {

// A tensor whose rows are values or, where `shared`, that is one value as a whole.
class Buffer final : public Holder {
 public:
  Buffer(tensorflow::Tensor tensor, bool shared);

  const tensorflow::Tensor& tensor() const { return tensor_; }
  // Of one value.
  const tensorflow::TensorShape& shape() const { return shape_; }
  // 0 where elements are objects.
  size_t value_bytes() const { return value_bytes_; }
  int64_t value_elements() const { return value_elements_; }
  const char* data(int64_t row) const { return data_ + (row < 0 ? 0 : row) * value_bytes_; }

 private:
  const tensorflow::Tensor tensor_;
  tensorflow::TensorShape shape_;
  const char* data_;
  size_t value_bytes_;
  int64_t value_elements_;
};

// A value that is the whole tensor.
Value Whole(tensorflow::Tensor tensor);

// The buffer behind a value that is not a frame. A join is made one tensor at its first use; `value` then
// points to that.
absl::Status BufferOf(const Value** value, const Buffer** buffer);

// A value that is part of a join: one row, or the whole where that is -1.
struct JoinPart {
  const Buffer* buffer;
  int64_t row;
};

// The parts, of which there is one at least, along their first dimension.
absl::Status Join(const std::vector<JoinPart>& parts, tensorflow::Tensor* whole);

// The values stacked along a new first dimension; all of one shape. Rows that lie together already are
// not copied: then `fresh` is false, and the tensor must not be written to.
absl::Status Gather(std::vector<const Value*> values, tensorflow::Tensor* stacked, bool* fresh);

// One value as a tensor of its own.
absl::Status TensorOf(const Value& value, tensorflow::Tensor* tensor);

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_BATCH_BUFFER_H_
