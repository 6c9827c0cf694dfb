// Ops that read and set process-wide state: counters, the default scheduling policy, programs.
#include <string>

#include "cc/core/batch_policy.h"
#include "cc/core/frame_base.h"
#include "cc/core/scheduler.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/invocation.h"
#include "cc/kernels/program.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "cc/kernels/errors.h"

namespace recgraph {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

namespace {

class CountersOp : public OpKernel {
 public:
  explicit CountersOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reset_peak", &reset_peak_));
  }

  void Compute(OpKernelContext* ctx) override {
    Tensor* counters = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({5}), &counters));
    const InvocationCounts invocations = CountInvocations();
    const LiveFrames frames = FrameBase::Live();
    auto out = counters->vec<int64_t>();
    out(0) = invocations.total;
    out(1) = invocations.live;
    out(2) = invocations.peak;
    out(3) = frames.entries;
    out(4) = frames.bytes;
    if (reset_peak_) ResetPeakInvocations();
  }

 private:
  bool reset_peak_;
};

// Sets the policy of steps that start from now on; returns the one it replaces.
class SetPolicyOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    Policy policy;
    const tstring* given = nullptr;
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(0), &given));
    const std::string name = *given;
    OP_REQUIRES(ctx, ParsePolicy(name, &policy),
                errors::InvalidArgument(
                    "no scheduling policy '", name,
                    "': there are 'fifo', 'depth_first' and 'random'"));
    Tensor* previous = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &previous));
    previous->scalar<tstring>()() = PolicyName(DefaultPolicy());
    SetDefaultPolicy(policy);
  }
};

class SetBatchPolicyOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    batch::Order order;
    const tstring* given = nullptr;
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(0), &given));
    const std::string name = *given;
    OP_REQUIRES(ctx, batch::ParseOrder(name, &order),
                errors::InvalidArgument("no batch policy '", name,
                                        "': there are 'agenda', 'depth', 'height' and 'random'"));
    Tensor* previous = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &previous));
    previous->scalar<tstring>()() = batch::OrderName(batch::DefaultOrder());
    batch::SetDefaultOrder(order);
  }
};

class SetBatchWayOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    batch::Way way;
    const tstring* given = nullptr;
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(0), &given));
    const std::string name = *given;
    OP_REQUIRES(ctx, batch::ParseWay(name, &way),
                errors::InvalidArgument("the batched engine has no way '", name,
                                        "': there are 'scheduled', 'row_programs' and 'operations'"));
    Tensor* previous = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &previous));
    previous->scalar<tstring>()() = batch::WayName(batch::DefaultWay());
    batch::SetDefaultWay(way);
  }
};

class EngineReportOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const tstring* key = nullptr;
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(0), &key));
    Tensor* report = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &report));
    report->scalar<tstring>()() = Program::ChoiceReport(*key);
  }
};

class BlockCountsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const tstring* key = nullptr;
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(0), &key));
    const auto report = Program::BlockReport(*key);
    Tensor* counts = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({static_cast<int64_t>(report.size()), 3}), &counts));
    auto out = counts->matrix<int64_t>();
    Tensor* reasons = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({static_cast<int64_t>(report.size())}), &reasons));
    for (size_t block = 0; block < report.size(); ++block) {
      out(block, 0) = report[block].runs;
      out(block, 1) = report[block].rows;
      out(block, 2) = report[block].nanoseconds;
      reasons->vec<tstring>()(block) = report[block].reason;
    }
  }
};

class RegisterProgramOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const tstring *key = nullptr, *library = nullptr;
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(0), &key));
    OP_REQUIRES_OK(ctx, ScalarOf(ctx->input(1), &library));
    OP_REQUIRES_OK(ctx, RegisterProgram(*key, *library));
  }
};

class ForgetProgramsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Tensor& keys = ctx->input(0);
    OP_REQUIRES(ctx, keys.dims() == 1, errors::InvalidArgument("the keys of programs are a vector"));
    for (int64_t i = 0; i < keys.NumElements(); ++i) ForgetProgram(keys.vec<tstring>()(i));
  }
};

class CountProgramsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    Tensor* counts = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({2}), &counts));
    const auto [registered, known] = CountPrograms();
    counts->vec<int64_t>()(0) = registered;
    counts->vec<int64_t>()(1) = known;
  }
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>Counters").Device(tensorflow::DEVICE_CPU), CountersOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>SetPolicy").Device(tensorflow::DEVICE_CPU), SetPolicyOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>EngineReport").Device(tensorflow::DEVICE_CPU),
                        EngineReportOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>BlockCounts").Device(tensorflow::DEVICE_CPU), BlockCountsOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>SetBatchPolicy").Device(tensorflow::DEVICE_CPU),
                        SetBatchPolicyOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>SetBatchWay").Device(tensorflow::DEVICE_CPU), SetBatchWayOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>RegisterProgram").Device(tensorflow::DEVICE_CPU),
                        RegisterProgramOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>ForgetPrograms").Device(tensorflow::DEVICE_CPU), ForgetProgramsOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>CountPrograms").Device(tensorflow::DEVICE_CPU), CountProgramsOp);

}  // namespace
}  // namespace recgraph
