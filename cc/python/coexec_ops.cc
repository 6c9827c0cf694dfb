// The ops by which a co-executed graph meets the Python program: values in, values out, and the path that was taken.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/stretch.h"
#include "cc/kernels/checked.h"
#include "cc/python/catching_kernel.h"
#include "cc/python/run.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace recgraph {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

absl::Status ScalarOutput(InferenceContext* context) {
  context->set_output(0, context->Scalar());
  return absl::OkStatus();
}

REGISTER_OP("Recgraph>InputFeeding")
    .Input("run: int64")
    .Output("value: dtype")
    .Attr("slot: int")
    .Attr("dtype: type")
    .Attr("shape: shape = { unknown_rank: true }")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ExplicitShape)
    .Doc("A value that Python gives to the step's graph. Waits for it, without a thread.");

REGISTER_OP("Recgraph>CaseSelect")
    .Input("run: int64")
    .Output("index: int32")
    .Attr("slot: int")
    .SetIsStateful()
    .SetShapeFn(ScalarOutput)
    .Doc("Which way Python went: the case of a switch, the source of an input, or that the step is over.");

REGISTER_OP("Recgraph>LoopCond")
    .Input("run: int64")
    .Output("again: bool")
    .Attr("slot: int")
    .SetIsStateful()
    .SetShapeFn(ScalarOutput)
    .Doc("Whether Python's loop makes another trip.");

REGISTER_OP("Recgraph>Keep")
    .Input("run: int64")
    .Input("value: dtype")
    .Attr("cell: int")
    .Attr("dtype: type")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Keeps a value of a loop's trip for operations that use it when there has been another trip.");

REGISTER_OP("Recgraph>Recall")
    .Input("run: int64")
    .Output("value: dtype")
    .Attr("slot: int")
    .Attr("cell: int")
    .Attr("dtype: type")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("A value that was kept, or will be: Python says which. Waits for it, without a thread.");

REGISTER_OP("Recgraph>OutputFetching")
    .Input("run: int64")
    .Input("value: dtype")
    .Attr("slot: int")
    .Attr("dtype: type")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Gives a value of the step's graph to Python.");

REGISTER_OP("Recgraph>ChooseInput")
    .Input("index: int32")
    .Input("values: count * dtype")
    .Output("value: dtype")
    .Attr("count: int >= 1")
    .Attr("dtype: type")
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("The value that Python's path handed to an operation, out of those that any path does.");

// Slots and cells are numbers in a graph, which somebody else may have made.
bool IsWithin(int number, int count) { return number >= 0 && number < count; }
absl::Status NoPlace(int number) { return errors::InvalidArgument("the step has no place ", number); }

std::shared_ptr<Run> FindRun(OpKernelContext* context) {
  const int64_t* number = nullptr;
  const absl::Status status = ScalarOf(context->input(0), &number);
  if (!status.ok()) {
    context->CtxFailure(status);
    return nullptr;
  }
  std::shared_ptr<Run> run = Run::Find(*number);
  if (run == nullptr) context->CtxFailure(absl::CancelledError("the step of this graph is over"));
  return run;
}

// Who comes first, a value or the cancellation that follows when another operation fails, ends the operation.
class Ending {
 public:
  Ending(OpKernelContext* context, AsyncOpKernel::DoneCallback done) : context_(context), done_(std::move(done)) {}

  // Calls the other way of ending off, and ends: with the value, or as cancelled if it is null.
  void End(const Tensor* value) {
    if (has_ended_.exchange(true)) return;
    auto* manager = context_->cancellation_manager();
    if (manager != nullptr && value != nullptr) manager->TryDeregisterCallback(token);
    if (value == nullptr) {
      context_->CtxFailure(absl::CancelledError("the step left its graph"));
    } else {
      context_->set_output(0, *value);
    }
    Stretch::HandOver();
    done_();
  }

  tensorflow::CancellationToken token = tensorflow::CancellationManager::kInvalidToken;

 private:
  OpKernelContext* const context_;  // gone once it has ended
  const AsyncOpKernel::DoneCallback done_;
  std::atomic<bool> has_ended_{false};
};

// InputFeeding and CaseSelect: what a channel gives is the output.
class ReceiveOp : public AsyncOpKernel {
 public:
  explicit ReceiveOp(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("slot", &slot_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) final {
    const Stretch stretch;
    std::shared_ptr<Run> run = FindRun(context);
    if (run == nullptr) return done();
    const int slot = slot_;
    OP_REQUIRES_ASYNC(context, IsWithin(slot, run->channels().slots()), NoPlace(slot), done);
    const auto runner = *context->runner();
    Receiver receive = MakeReceiver();
    auto ending = std::make_shared<Ending>(context, std::move(done));
    if (auto* manager = context->cancellation_manager()) {
      ending->token = manager->get_cancellation_token();
      if (!manager->RegisterCallback(ending->token, [ending] { ending->End(nullptr); })) return ending->End(nullptr);
    }
    // From here on the operation may be cancelled, and then its graph, this kernel too, may be gone at any time.
    // A value that comes later comes from Python's thread, which has other things to do than to go on with the graph.
    const absl::Status caught = CatchingAll([&] {
      run->channels().Take(slot, [receive, run, ending](const Tensor* value) { receive(*run, value, ending); }, runner);
      return absl::OkStatus();
    });
    if (!caught.ok()) ending->End(nullptr);
  }

 protected:
  // Ends the operation, now or later, with what it makes of the channel's value; null if it was closed.
  using Receiver = std::function<void(Run&, const Tensor* value, const std::shared_ptr<Ending>&)>;

  virtual Receiver MakeReceiver() const {
    return [](Run&, const Tensor* value, const std::shared_ptr<Ending>& ending) { ending->End(value); };
  }

 private:
  int slot_;
};

class LoopCondOp : public ReceiveOp {
 public:
  using ReceiveOp::ReceiveOp;

 protected:
  Receiver MakeReceiver() const override {
    return [](Run&, const Tensor* value, const std::shared_ptr<Ending>& ending) {
      if (value == nullptr) return ending->End(nullptr);
      const Tensor again(value->scalar<int32_t>()() != 0);
      ending->End(&again);
    };
  }
};

class RecallOp : public ReceiveOp {
 public:
  explicit RecallOp(OpKernelConstruction* context) : ReceiveOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("cell", &cell_));
    OP_REQUIRES_OK(context, context->GetAttr("dtype", &dtype_));
  }

 protected:
  Receiver MakeReceiver() const override {
    return [cell = cell_, dtype = dtype_](Run& run, const Tensor* value, const std::shared_ptr<Ending>& ending) {
      if (value == nullptr) return ending->End(nullptr);
      const int32_t position = value->scalar<int32_t>()();
      if (position != kNoPosition && (!IsWithin(cell, run.history().cells()) || position < 0)) {
        return ending->End(nullptr);
      }
      if (position != kNoPosition) {
        return run.history().Read(cell, position, [ending](const Tensor* kept) { ending->End(kept); });
      }
      const Tensor empty(dtype, {0});
      ending->End(&empty);
    };
  }

 private:
  int cell_;
  tensorflow::DataType dtype_;
};

class KeepOp : public CatchingKernel {
 public:
  explicit KeepOp(OpKernelConstruction* context) : CatchingKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("cell", &cell_));
  }

  void Do(OpKernelContext* context) override {
    const Stretch stretch;
    std::shared_ptr<Run> run = FindRun(context);
    if (run == nullptr) return;
    OP_REQUIRES(context, IsWithin(cell_, run->history().cells()), NoPlace(cell_));
    run->history().Put(cell_, context->input(1));
  }

  bool IsExpensive() override { return false; }

 private:
  int cell_;
};

class OutputFetchingOp : public CatchingKernel {
 public:
  explicit OutputFetchingOp(OpKernelConstruction* context) : CatchingKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("slot", &slot_));
  }

  void Do(OpKernelContext* context) override {
    const Stretch stretch;
    std::shared_ptr<Run> run = FindRun(context);
    if (run == nullptr) return;
    OP_REQUIRES(context, IsWithin(slot_, run->channels().slots()), NoPlace(slot_));
    run->Give(slot_, context->input(1));
  }

  bool IsExpensive() override { return false; }

 private:
  int slot_;
};

class ChooseInputOp : public CatchingKernel {
 public:
  explicit ChooseInputOp(OpKernelConstruction* context) : CatchingKernel(context) {}

  void Do(OpKernelContext* context) override {
    const Stretch stretch;
    const int32_t* given = nullptr;
    OP_REQUIRES_OK(context, ScalarOf(context->input(0), &given));
    const int index = *given;
    OP_REQUIRES(context, index >= 0 && index + 1 < context->num_inputs(),
                absl::InternalError("an input was chosen that does not exist"));
    context->set_output(0, context->input(index + 1));
  }

  bool IsExpensive() override { return false; }
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>InputFeeding").Device(tensorflow::DEVICE_CPU), ReceiveOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>CaseSelect").Device(tensorflow::DEVICE_CPU), ReceiveOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>LoopCond").Device(tensorflow::DEVICE_CPU), LoopCondOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>Keep").Device(tensorflow::DEVICE_CPU), KeepOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>Recall").Device(tensorflow::DEVICE_CPU), RecallOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>OutputFetching").Device(tensorflow::DEVICE_CPU), OutputFetchingOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>ChooseInput").Device(tensorflow::DEVICE_CPU), ChooseInputOp);

}  // namespace
}  // namespace recgraph
