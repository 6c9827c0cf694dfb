// What a tensor of a step stands for: dtype and shape at once, the value when it is there and somebody asks.
#ifndef RECGRAPH_CC_PYTHON_VALUE_H_
#define RECGRAPH_CC_PYTHON_VALUE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/container/inlined_vector.h"
#include "cc/core/lock_order.h"
#include "cc/python/run.h"
#include "tensorflow/core/common_runtime/eager/custom_device.h"
#include "tensorflow/core/platform/refcount.h"

namespace recgraph {

using Handle = tensorflow::ImmediateExecutionTensorHandle;
using HandlePtr = tensorflow::core::RefCountPtr<Handle>;
using Dimensions = absl::InlinedVector<int64_t, 4>;

// One more reference to a handle.
HandlePtr Share(Handle* handle);

// Any thread may call anything.
class Value : public tensorflow::core::RefCounted {
 public:
  // Output `output` of the operation with number `record` of the step `step`, node `node` of its plan or -1.
  Value(int64_t step, int record, int node, int output, tensorflow::DataType dtype, Dimensions shape)
      : step(step), record(record), node(node), output(output), dtype(dtype), shape(std::move(shape)) {}

  const int64_t step;
  const int record;
  const int node;
  const int output;
  const tensorflow::DataType dtype;
  const Dimensions shape;

  // The value, on the CPU. Waits for it where it is not there yet: in the thread of the step it may end the step's
  // graph, when that does not give the value.
  absl::Status Get(HandlePtr* result);

  // The same where no waiting is needed, else null.
  HandlePtr Peek();

  // Gives it its value, or the error that it has in place of one.
  void Set(Handle* value);
  void Fail(const absl::Status& error);

  // Where the graph will put the value: a slot of the run, as its value number `position`; or none (-1).
  void Expect(std::shared_ptr<Run> run, int slot, int position);
  std::shared_ptr<Run> run();
  int slot();

  // Takes the value from the run's channel if it is there within `patience`. kValue also if it had it already.
  Meeting Receive(std::chrono::milliseconds patience);

  // How many tensors of Python are this value, and whether the value itself was ever wanted.
  bool is_alive() const { return handles_ > 0; }
  bool was_read() const { return was_read_; }

 private:
  friend class ValueHandle;
  void AddHandle() { ++handles_; }
  void RemoveHandle();

  std::atomic<int> handles_{0};
  std::atomic<bool> was_read_{false};
  Ordered<std::mutex, 4> mutex_;  // guards what follows
  HandlePtr value_;
  absl::Status error_;
  std::shared_ptr<Run> run_;
  int slot_ = -1;
  int position_ = 0;  // written before anyone waits
};

using ValuePtr = tensorflow::core::RefCountPtr<Value>;

// The tensor that Python has in its hands.
class ValueHandle : public tensorflow::CustomDeviceTensorHandle {
 public:
  ValueHandle(tensorflow::ImmediateExecutionContext* context, tensorflow::CustomDevice* device, Value* value);
  ~ValueHandle() override;

  Value* value() const { return value_; }
  void* DevicePointer() const override { return value_; }
  absl::Status NumDims(int* count) const override;
  absl::Status Dim(int index, int64_t* size) const override;

 private:
  Value* const value_;  // one reference
};

// The value behind a handle of ours, or null.
Value* ValueOf(Handle* handle);

// The tensor behind a handle of the CPU. The handle has to live as long as the result is used.
absl::Status TensorOf(Handle* handle, const tensorflow::Tensor** tensor);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_VALUE_H_
