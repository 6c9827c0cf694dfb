// Kernels for the devices for which XLA compiles: they say that a SubGraph cannot be compiled, and what can be done.
//
// Without them `tf.function(jit_compile=True)` says that no kernel is registered, which nobody understands. Where TensorFlow
// itself chooses what to compile (auto-clustering) it goes on without compiling after Unimplemented.
#include "cc/kernels/errors.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace recgraph {
namespace {

class NotCompiledOp : public tensorflow::OpKernel {
 public:
  explicit NotCompiledOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string entry;
    if (!ctx->GetAttr("entry", &entry).ok()) entry = name();
    ctx->CtxFailure(errors::Unimplemented(
        "XLA cannot compile a call of SubGraph '", entry,
        "': how often a body runs is decided while it runs. Call the SubGraph outside of what has jit_compile=True, and "
        "compile the functions that compute before and after it"));
  }

  void Compute(tensorflow::OpKernelContext*) override {}
};

#define RECGRAPH_NOT_COMPILED(device)                                                  \
  REGISTER_KERNEL_BUILDER(Name("Recgraph>Invoke").Device(device), NotCompiledOp);      \
  REGISTER_KERNEL_BUILDER(Name("Recgraph>InvokeGradient").Device(device), NotCompiledOp)

RECGRAPH_NOT_COMPILED("XLA_CPU_JIT");
RECGRAPH_NOT_COMPILED("XLA_GPU_JIT");

#undef RECGRAPH_NOT_COMPILED

}  // namespace
}  // namespace recgraph
