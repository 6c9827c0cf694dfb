// The device that a step's operations are placed on: the place from which all of them are seen.
#ifndef RECGRAPH_CC_PYTHON_DEVICE_H_
#define RECGRAPH_CC_PYTHON_DEVICE_H_

#include <string>
#include <vector>

#include "cc/python/value.h"
#include "tensorflow/core/common_runtime/eager/context.h"
#include "tensorflow/core/common_runtime/eager/custom_device.h"
#include "tensorflow/core/common_runtime/eager/eager_operation.h"

namespace recgraph {

class CoexecutionDevice : public tensorflow::CustomDevice {
 public:
  // Makes the device known to TensorFlow. Once per process.
  static absl::Status Register(tensorflow::EagerContext* context, const std::string& name);
  static CoexecutionDevice* Registered();

  CoexecutionDevice(tensorflow::EagerContext* context, std::string name) : context_(context), name_(std::move(name)) {}

  const std::string& name() override { return name_; }
  tensorflow::EagerContext* context() const { return context_; }

  absl::Status CopyTensorToDevice(Handle* tensor, Handle** result) override;
  absl::Status CopyTensorFromDevice(Handle* tensor, const std::string& target, Handle** result) override;
  absl::Status Execute(const tensorflow::ImmediateExecutionOperation* operation, Handle** results,
                       int* count) override;
  absl::Status Pack(absl::Span<Handle*> handles, Handle** result) override;
  absl::StatusOr<bool> ShallPinToThisDevice(const tensorflow::ImmediateExecutionOperation* operation) override;

 private:
  absl::Status Copy(Handle* tensor, const std::string& target, Handle** result);

  tensorflow::EagerContext* const context_;
  const std::string name_;
};

// Runs an operation at once where TensorFlow would without us. Waits for the values of inputs.
absl::Status RunEagerly(const tensorflow::EagerOperation& operation, Handle** results, int* count);

// The same with inputs that are on the CPU.
absl::Status RunWith(const std::string& name, const tensorflow::AttrBuilder& attributes,
                     const std::vector<Handle*>& inputs, Handle** results, int* count,
                     tensorflow::CancellationManager* cancellation = nullptr);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_DEVICE_H_
