// The kernels of the ops on rows.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/expression.h"
#include "cc/core/row_kernels.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/packed_matrices.h"
#include "cc/kernels/sharded.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace recgraph {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

// Rows are dealt out to threads where the device has some and there is enough to do.
template <typename Work>
void ForRows(OpKernelContext* ctx, int64_t rows, int64_t cycles_a_row, const Work& work) {
  const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
  if (threads->num_threads <= 1 || rows * cycles_a_row < 100'000) return work(0, rows);
  Shard(ctx, rows, cycles_a_row, work);
}

class ExpressionOp : public OpKernel {
 public:
  explicit ExpressionOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<int64_t> code;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("code", &code));
    const std::string wrong = Expression::Decode(code, &expression_);
    OP_REQUIRES(ctx, wrong.empty(), errors::InvalidArgument(wrong));
    std::vector<PartialTensorShape> shapes;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &shapes));
    OP_REQUIRES(ctx,
                static_cast<int>(expression_.inputs().size()) == ctx->num_inputs() &&
                    static_cast<int>(expression_.outputs().size()) == ctx->num_outputs() &&
                    static_cast<int>(shapes.size()) == ctx->num_outputs(),
                errors::InvalidArgument("an expression of other inputs or outputs"));
    for (const PartialTensorShape& shape : shapes) {
      TensorShape one({1});
      for (int i = 1; i < shape.dims(); ++i) {
        OP_REQUIRES(ctx, shape.dim_size(i) >= 0, errors::InvalidArgument("an output of unknown shape"));
        OP_REQUIRES_OK(ctx, one.AddDimWithStatus(shape.dim_size(i)));
      }
      shapes_.push_back(one);
    }
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const int64_t width = expression_.outputs()[i];
      OP_REQUIRES(ctx, shapes_[i].num_elements() > 0 && width % shapes_[i].num_elements() == 0,
                  errors::InvalidArgument("an output that does not fit its rows"));
      cycles_ += width * 8;
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const auto& inputs = expression_.inputs();
    std::vector<Expression::Source> from(inputs.size());
    std::vector<Expression::Target> to(shapes_.size());
    int64_t rows = -1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = ctx->input(i);
      OP_REQUIRES(ctx, input.dtype() == tensorflow::DT_FLOAT, errors::InvalidArgument("input ", i, " is no float"));
      const int64_t count = input.NumElements();
      from[i] = {input.flat<float>().data(), inputs[i].width};
      const int64_t own = inputs[i].shared ? 1 : inputs[i].width == 0 ? rows : count / inputs[i].width;
      if (!inputs[i].shared && rows < 0) rows = own;
      OP_REQUIRES(ctx, (inputs[i].shared || own == rows) && own * inputs[i].width == count,
                  errors::InvalidArgument("input ", i, " has ", count, " elements for ", rows, " rows of ",
                                          inputs[i].width));
    }
    rows = std::max<int64_t>(rows, 0);
    for (size_t i = 0; i < shapes_.size(); ++i) {
      TensorShape shape = shapes_[i];
      OP_REQUIRES_OK(ctx, shape.SetDimWithStatus(0, rows * (expression_.outputs()[i] / shape.num_elements())));
      Tensor* output = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, shape, &output));
      to[i] = {output->flat<float>().data(), expression_.outputs()[i]};
    }
    std::atomic<bool> done{true};
    ForRows(ctx, rows, cycles_, [&](int64_t begin, int64_t end) {
      if (!expression_.Run(begin, end, from.data(), to.data())) done.store(false, std::memory_order_relaxed);
    });
    OP_REQUIRES(ctx, done.load(), errors::ResourceExhausted("no memory for the steps of an expression"));
  }

  bool IsExpensive() override { return false; }

 private:
  Expression expression_;
  std::vector<TensorShape> shapes_;  // of one row
  int64_t cycles_ = 0;
};

class PackedProductOp : public OpKernel {
 public:
  explicit PackedProductOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("inner", &shape_.inner));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("width", &shape_.width));
    OP_REQUIRES(ctx, IsPackable(shape_),
                errors::InvalidArgument("no matrix is of ", shape_.inner, " x ", shape_.width));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& rows = ctx->input(0);
    const Tensor& packed = ctx->input(1);
    OP_REQUIRES(ctx, rows.dtype() == tensorflow::DT_FLOAT && packed.dtype() == tensorflow::DT_FLOAT,
                errors::InvalidArgument("factors are no floats"));
    OP_REQUIRES(ctx, rows.dims() == 2 && rows.dim_size(1) == shape_.inner,
                errors::InvalidArgument("rows of ", shape_.inner, " expected, found shape ",
                                        rows.shape().DebugString()));
    OP_REQUIRES(ctx, packed.NumElements() == shape_.floats(),
                errors::InvalidArgument("not a packed matrix of ", shape_.inner, " x ", shape_.width));
    const int64_t count = rows.dim_size(0);
    Tensor* product = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({count, shape_.width}), &product));
    const float* const from = rows.flat<float>().data();
    const float* const matrix = packed.flat<float>().data();
    float* const to = product->flat<float>().data();
    ForRows(ctx, count, shape_.inner * shape_.width / 16, [&](int64_t begin, int64_t end) {
      BestRowKernels().product(end - begin, shape_, from + begin * shape_.inner, matrix,
                               to + begin * shape_.width);
    });
  }

  bool IsExpensive() override { return false; }

 private:
  PackedShape shape_;
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>Expression").Device(tensorflow::DEVICE_CPU), ExpressionOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>PackedProduct").Device(tensorflow::DEVICE_CPU), PackedProductOp);

}  // namespace
}  // namespace recgraph
