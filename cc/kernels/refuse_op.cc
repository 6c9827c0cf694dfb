// A tensor that nobody may use: a gradient that a vectorized loop asks for, and does not exist, fails where it is used.
#include <string>

#include "cc/kernels/errors.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace recgraph {
namespace {

class RefuseOp : public tensorflow::OpKernel {
 public:
  explicit RefuseOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("message", &message_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override { ctx->CtxFailure(errors::Unimplemented(message_)); }

 private:
  std::string message_;
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>Refuse").Device(tensorflow::DEVICE_CPU), RefuseOp);

}  // namespace
}  // namespace recgraph
