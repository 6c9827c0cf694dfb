// Loops and function calls in a body. TensorFlow's own While kernel holds on to its thread while an
// iteration runs when kernels run inline, as they do in a body; this one gives it back: an iteration
// may wait for invocations that need the thread. TensorFlow's own PartitionedCall places and
// partitions a function among devices; a program runs on one.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/invocation.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace recgraph {

using tensorflow::AsyncOpKernel;
using tensorflow::FunctionLibraryRuntime;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

namespace {

FunctionLibraryRuntime::Options OptionsFor(OpKernelContext* ctx) {
  FunctionLibraryRuntime::Options options = Invocation::Current(ctx)->root()->options();
  options.runner = ctx->runner();
  return options;
}

std::vector<Tensor> Inputs(OpKernelContext* ctx) {
  std::vector<Tensor> inputs;
  inputs.reserve(ctx->num_inputs());
  for (int i = 0; i < ctx->num_inputs(); ++i) inputs.push_back(ctx->input(i));
  return inputs;
}

// The kernel's outputs, or its error. A function's results need not be those that the kernel says.
void SetOutputs(OpKernelContext* ctx, absl::Status status, std::vector<Tensor>* results) {
  if (status.ok() && static_cast<int>(results->size()) != ctx->num_outputs()) {
    status = errors::InvalidArgument("a function has ", results->size(), " results, not ", ctx->num_outputs());
  }
  for (size_t i = 0; status.ok() && i < results->size(); ++i) status = SetOutput(ctx, i, std::move((*results)[i]));
  if (!status.ok()) ctx->SetStatus(status);
}

// One run of a loop: condition and body by turns, each started by the end of the other.
class Loop {
 public:
  Loop(OpKernelContext* ctx, AsyncOpKernel::DoneCallback done, FunctionLibraryRuntime* runtime,
       Program::Handle condition, Program::Handle body)
      : ctx_(ctx), done_(std::move(done)), runtime_(runtime), condition_(condition), body_(body),
        options_(OptionsFor(ctx)), variables_(Inputs(ctx)) {}

  void CheckCondition() {
    if (Invocation::Current(ctx_)->root()->cancelled()) return Finish(errors::Cancelled("the step was cancelled"));
    results_.clear();
    runtime_->Run(options_, condition_, variables_, &results_, [this](const absl::Status& status) {
      if (!status.ok()) return Finish(status);
      if (results_.size() != 1 || results_[0].dtype() != tensorflow::DT_BOOL) {
        return Finish(errors::InvalidArgument("a loop's condition is one bool"));
      }
      // As in TensorFlow's While, what is no scalar is true where it has elements.
      const Tensor& more = results_[0];
      if (more.dims() == 0 ? more.scalar<bool>()() : more.NumElements() > 0) return RunBody();
      Finish(absl::OkStatus());
    });
  }

 private:
  void RunBody() {
    results_.clear();
    runtime_->Run(options_, body_, variables_, &results_, [this](const absl::Status& status) {
      if (!status.ok()) return Finish(status);
      variables_.swap(results_);
      CheckCondition();
    });
  }

  void Finish(const absl::Status& status) {
    SetOutputs(ctx_, status, &variables_);
    const AsyncOpKernel::DoneCallback done = std::move(done_);
    delete this;
    done();
  }

  OpKernelContext* const ctx_;
  AsyncOpKernel::DoneCallback done_;
  FunctionLibraryRuntime* const runtime_;
  const Program::Handle condition_;
  const Program::Handle body_;
  const FunctionLibraryRuntime::Options options_;
  std::vector<Tensor> variables_;
  std::vector<Tensor> results_;
};

// The program of the invocation that a kernel runs for.
absl::Status CurrentProgram(OpKernelContext* ctx, const AsyncOpKernel& op, Program** program) {
  Invocation* const invocation = Invocation::Current(ctx);
  if (invocation == nullptr) {
    return errors::FailedPrecondition(op.name(), " ran outside of an invocation");
  }
  *program = invocation->root()->program();
  return absl::OkStatus();
}

class WhileOp : public AsyncOpKernel {
 public:
  explicit WhileOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("cond", &condition_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("body", &body_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    Program* program = nullptr;
    Program::Handle condition;
    Program::Handle body;
    OP_REQUIRES_OK_ASYNC(ctx, CurrentProgram(ctx, *this, &program), done);
    OP_REQUIRES_OK_ASYNC(ctx, program->Function(condition_.name(), &condition), done);
    OP_REQUIRES_OK_ASYNC(ctx, program->Function(body_.name(), &body), done);
    (new Loop(ctx, std::move(done), program->runtime(), condition, body))->CheckCondition();
  }

 private:
  tensorflow::NameAttrList condition_;
  tensorflow::NameAttrList body_;
};

class CallFunctionOp : public AsyncOpKernel {
 public:
  explicit CallFunctionOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("f", &function_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    Program* program = nullptr;
    Program::Handle handle;
    OP_REQUIRES_OK_ASYNC(ctx, CurrentProgram(ctx, *this, &program), done);
    OP_REQUIRES_OK_ASYNC(ctx, program->Function(function_.name(), &handle), done);
    const auto calls = std::make_shared<CountedCall>();
    OP_REQUIRES_OK_ASYNC(ctx, CheckMemory(), done);
    OP_REQUIRES_ASYNC(ctx, !Invocation::Current(ctx)->root()->cancelled(),
                      errors::Cancelled("the step was cancelled"), done);
    auto* results = new std::vector<Tensor>;
    program->runtime()->Run(OptionsFor(ctx), handle, Inputs(ctx), results,
                            [ctx, results, calls, done = std::move(done)](const absl::Status& status) {
                              SetOutputs(ctx, status, results);
                              delete results;
                              done();
                            });
  }

 private:
  tensorflow::NameAttrList function_;
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>CallFunction").Device(tensorflow::DEVICE_CPU),
                        CallFunctionOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>While").Device(tensorflow::DEVICE_CPU), WhileOp);

}  // namespace
}  // namespace recgraph
