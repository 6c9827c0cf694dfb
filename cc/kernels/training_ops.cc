// Updates of variables: every number is read and written once.
#include <algorithm>
#include <cstdint>

#include "cc/core/row_kernels.h"
#include "cc/core/stretch.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/sharded.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace recgraph {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;

// Cycles for a number that comes from the third-level cache; what Shard weighs against waking a thread.
constexpr int64_t kCyclesEach = 4;

// Who has read the variable keeps what was read: its memory is not written to then.
absl::Status OwnMemory(OpKernelContext* ctx, Var* variable) {
  Tensor* const tensor = variable->tensor();
  if (tensor->RefCountIsOne()) return absl::OkStatus();
  Tensor copy;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
  std::copy_n(tensor->flat<float>().data(), tensor->NumElements(), copy.flat<float>().data());
  *tensor = std::move(copy);
  return absl::OkStatus();
}

class ApplyAdagradOp final : public tensorflow::OpKernel {
 public:
  explicit ApplyAdagradOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rate", &how_.rate));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("epsilon", &how_.epsilon));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("decay", &how_.decay));
  }

  void Compute(OpKernelContext* ctx) override {
    const Stretch stretch;
    tensorflow::core::RefCountPtr<Var> variable, accumulator;
    const tensorflow::ResourceHandle *first_handle = nullptr, *second_handle = nullptr;
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(0), &first_handle));
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(1), &second_handle));
    OP_REQUIRES_OK(ctx, LookupResource(ctx, *first_handle, &variable));
    OP_REQUIRES_OK(ctx, LookupResource(ctx, *second_handle, &accumulator));
    OP_REQUIRES(ctx, variable.get() != accumulator.get(),
                errors::InvalidArgument("the accumulator is the variable itself"));
    // In the order of their addresses: two of these ops never wait for each other.
    tensorflow::mutex_lock first(*std::min(variable->mu(), accumulator->mu()));
    tensorflow::mutex_lock second(*std::max(variable->mu(), accumulator->mu()));
    const Stretch writing(variable.get()), summing(accumulator.get());
    OP_REQUIRES_OK(ctx, Check(*variable, *accumulator, ctx->input(2)));
    OP_REQUIRES_OK(ctx, OwnMemory(ctx, variable.get()));
    OP_REQUIRES_OK(ctx, OwnMemory(ctx, accumulator.get()));
    Update(ctx, variable->tensor(), accumulator->tensor(), ctx->input(2));
  }

 private:
  absl::Status Check(Var& variable, Var& accumulator, const Tensor& gradient) const {
    for (Var* each : {&variable, &accumulator}) {
      const Tensor& tensor = *each->tensor();
      if (!each->is_initialized || tensor.dtype() != tensorflow::DT_FLOAT || tensor.shape() != gradient.shape()) {
        return errors::InvalidArgument("variable, accumulator and gradient must be float and of one shape, found ",
                                       tensorflow::DataTypeString(tensor.dtype()), tensor.shape().DebugString(),
                                       " for a gradient ", gradient.shape().DebugString());
      }
    }
    return absl::OkStatus();
  }

  void Update(OpKernelContext* ctx, Tensor* variable, Tensor* accumulator, const Tensor& gradient) const {
    float* const weights = variable->flat<float>().data();
    float* const sums = accumulator->flat<float>().data();
    const float* const gradients = gradient.flat<float>().data();
    const auto update = [&](int64_t begin, int64_t end) {
      BestRowKernels().adagrad(end - begin, how_, gradients + begin, sums + begin, weights + begin);
    };
    Shard(ctx, gradient.NumElements(), kCyclesEach, update);
  }

  Adagrad how_;
};

template <typename Index>
class DescendRowsOp final : public tensorflow::OpKernel {
 public:
  explicit DescendRowsOp(OpKernelConstruction* ctx) : OpKernel(ctx) { OP_REQUIRES_OK(ctx, ctx->GetAttr("rate", &rate_)); }

  void Compute(OpKernelContext* ctx) override {
    const Stretch stretch;
    tensorflow::core::RefCountPtr<Var> variable;
    const tensorflow::ResourceHandle* handle = nullptr;
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(0), &handle));
    OP_REQUIRES_OK(ctx, LookupResource(ctx, *handle, &variable));
    tensorflow::mutex_lock lock(*variable->mu());
    const Stretch writing(variable.get());
    const Tensor &indices = ctx->input(1), &gradient = ctx->input(2);
    OP_REQUIRES_OK(ctx, Check(*variable, indices, gradient));
    OP_REQUIRES_OK(ctx, OwnMemory(ctx, variable.get()));
    const auto rows = indices.flat<Index>();
    const int64_t width = rows.size() == 0 ? 0 : gradient.NumElements() / rows.size();
    float* const weights = variable->tensor()->flat<float>().data();
    const float* from = gradient.flat<float>().data();
    for (int64_t i = 0; i < rows.size(); ++i, from += width) {
      BestRowKernels().add_scaled(width, -rate_, from, weights + rows(i) * width);
    }
  }

 private:
  static absl::Status Check(const Var& variable, const Tensor& indices, const Tensor& gradient) {
    const Tensor& tensor = *const_cast<Var&>(variable).tensor();
    if (!variable.is_initialized || tensor.dtype() != tensorflow::DT_FLOAT || tensor.dims() < 1) {
      return errors::InvalidArgument("the variable must be float and have rows, found ",
                                     tensorflow::DataTypeString(tensor.dtype()), tensor.shape().DebugString());
    }
    tensorflow::TensorShape wanted = indices.shape();
    for (int dim = 1; dim < tensor.dims(); ++dim) {
      TF_RETURN_IF_ERROR(wanted.AddDimWithStatus(tensor.dim_size(dim)));
    }
    if (gradient.shape() != wanted) {
      return errors::InvalidArgument("the gradient of rows must be ", wanted.DebugString(), ", found ",
                                     gradient.shape().DebugString());
    }
    const auto rows = indices.flat<Index>();
    for (int64_t i = 0; i < rows.size(); ++i) {
      if (rows(i) < 0 || rows(i) >= tensor.dim_size(0)) {
        return errors::InvalidArgument("indices[", i, "] = ", rows(i), " is not in [0, ", tensor.dim_size(0), ")");
      }
    }
    return absl::OkStatus();
  }

  float rate_;
};

#define REGISTER_DESCEND_ROWS(Index)                                                                               \
  REGISTER_KERNEL_BUILDER(                                                                                         \
      Name("Recgraph>DescendRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<Index>("index"), DescendRowsOp<Index>)
REGISTER_DESCEND_ROWS(int32_t);
REGISTER_DESCEND_ROWS(int64_t);
#undef REGISTER_DESCEND_ROWS

REGISTER_KERNEL_BUILDER(Name("Recgraph>ApplyAdagrad").Device(tensorflow::DEVICE_CPU), ApplyAdagradOp);

}  // namespace
}  // namespace recgraph
