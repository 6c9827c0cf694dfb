// Calls run on the host, also where TensorFlow places them on a GPU beside a variable that they capture: their kernels
// have arguments and results in host memory, and what they capture is brought there.
#ifndef RECGRAPH_CC_KERNELS_HOST_H_
#define RECGRAPH_CC_KERNELS_HOST_H_

#include <string>

#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// The device that the bodies of a call run on: the call's own or, of a call on an accelerator, the host's.
tensorflow::Device* HostDevice(const tensorflow::FunctionLibraryRuntime& runtime);

// A variable, and the accelerator whose memory it is in; null where it is in host memory.
struct HeldVariable {
  tensorflow::core::RefCountPtr<tensorflow::Var> variable;
  tensorflow::Device* accelerator = nullptr;
};

// The variable behind a handle, on whichever device of this process it is.
absl::Status FindVariable(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& handle, HeldVariable* found);

// Whether what a handle refers to is in the memory of an accelerator of this process.
bool IsOnAccelerator(tensorflow::OpKernelContext* ctx, const tensorflow::ResourceHandle& handle);

// A variable's value in host memory: the very tensor where it is there. The caller holds the variable's lock.
absl::Status ValueOnHost(const HeldVariable& held, tensorflow::Tensor* value);

// Stands on the host for a variable that an accelerator holds, for bodies that use its handle.
class HostMirror {
 public:
  // `handle` becomes that of the mirror, on the device of that name.
  static absl::Status Make(HeldVariable original, const std::string& host, const tensorflow::ResourceHandle& of,
                           HostMirror* mirror, tensorflow::Tensor* handle);

  // Assigns to the original what bodies have assigned to the mirror, if they have.
  absl::Status WriteBack() const;

 private:
  HeldVariable original_;
  tensorflow::core::RefCountPtr<tensorflow::Var> copy_;
  tensorflow::Tensor first_;  // shared with the mirror until that is assigned to
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_HOST_H_
