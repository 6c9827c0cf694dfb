// TensorFlow's softmax cross entropy with the number of the right class, of float rows: a kernel beside TensorFlow's own,
// for nodes that ask for it by the attribute `_kernel`. It reads a row three times and calls no generic code for it.
#include <cstdint>

#include "cc/core/row_kernels.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/sharded.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace recgraph {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Cycles for a logit, what Shard weighs against waking a thread.
constexpr int64_t kCyclesALogit = 4;

template <typename Label>
class SoftmaxLossOp final : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Tensor &logits = ctx->input(0), &labels = ctx->input(1);
    OP_REQUIRES(ctx, logits.dims() == 2 && logits.dim_size(1) > 0,
                errors::InvalidArgument("logits must be rows of at least one class, found ",
                                        logits.shape().DebugString()));
    OP_REQUIRES(ctx, labels.dims() == 1 && labels.dim_size(0) == logits.dim_size(0),
                errors::InvalidArgument("labels must be one for each of ", logits.dim_size(0), " rows, found ",
                                        labels.shape().DebugString()));
    OP_REQUIRES_OK(ctx, Check(labels, logits.dim_size(1)));
    Tensor *loss, *gradient;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, labels.shape(), &loss));
    OP_REQUIRES_OK(ctx, ctx->forward_input_or_allocate_output({0}, 1, logits.shape(), &gradient));
    Run(ctx, logits, labels, loss->flat<float>().data(), gradient->flat<float>().data());
  }

 private:
  // Compared as unsigned numbers, so that a negative label is too large.
  static absl::Status Check(const Tensor& labels, int64_t classes) {
    const auto given = labels.flat<Label>();
    for (int64_t row = 0; row < given.size(); ++row) {
      if (static_cast<uint64_t>(given(row)) >= static_cast<uint64_t>(classes)) {
        return errors::InvalidArgument("label ", given(row), " of row ", row, " is outside of [0, ", classes, ")");
      }
    }
    return absl::OkStatus();
  }

  static void Run(OpKernelContext* ctx, const Tensor& logits, const Tensor& labels, float* loss, float* gradient) {
    const int64_t classes = logits.dim_size(1);
    const float* const rows = logits.flat<float>().data();
    const Label* const right = labels.flat<Label>().data();
    const auto work = [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        loss[row] = CrossEntropy(classes, rows + row * classes, right[row], gradient + row * classes);
      }
    };
    Shard(ctx, logits.dim_size(0), kCyclesALogit * classes, work);
  }
};

#define RECGRAPH_REGISTER(Integer)                                     \
  REGISTER_KERNEL_BUILDER(Name("SparseSoftmaxCrossEntropyWithLogits")  \
                              .Device(tensorflow::DEVICE_CPU)          \
                              .TypeConstraint<float>("T")              \
                              .TypeConstraint<Integer>("Tlabels")      \
                              .Label("recgraph"),                      \
                          SoftmaxLossOp<Integer>)
RECGRAPH_REGISTER(int32_t);
RECGRAPH_REGISTER(int64_t);
#undef RECGRAPH_REGISTER

}  // namespace
}  // namespace recgraph
