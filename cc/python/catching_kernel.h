// A kernel from which no exception comes: TensorFlow ends the process for one.
#ifndef RECGRAPH_CC_PYTHON_CATCHING_KERNEL_H_
#define RECGRAPH_CC_PYTHON_CATCHING_KERNEL_H_

#include "cc/kernels/checked.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace recgraph {

class CatchingKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) final {
    const absl::Status caught = CatchingAll([&] {
      Do(context);
      return absl::OkStatus();
    });
    if (!caught.ok()) context->CtxFailure(caught);
  }

 protected:
  // What Compute does otherwise.
  virtual void Do(tensorflow::OpKernelContext* context) = 0;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_CATCHING_KERNEL_H_
