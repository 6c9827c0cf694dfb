// The kernel of Recgraph>Invoke.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/kernels/batch_run.h"
#include "cc/kernels/call_op.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/rows.h"
#include "tensorflow/core/framework/variant.h"

namespace recgraph {

using tensorflow::DataTypeVector;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::Tensor;

namespace {

// Arguments of each invocation: the tensors themselves or, mapped, row i of each.
absl::Status SplitArguments(const OpInputList& inputs, bool map, std::vector<Tensors>* arguments) {
  if (!map) {
    arguments->emplace_back(inputs.begin(), inputs.end());
    return absl::OkStatus();
  }
  int64_t rows = -1;
  for (const Tensor& input : inputs) {
    if (input.dims() == 0 || (rows >= 0 && input.dim_size(0) != rows)) {
      return errors::InvalidArgument(
          "map: the arguments must have the same first dimension, found shapes ",
          inputs[0].shape().DebugString(), " and ", input.shape().DebugString());
    }
    rows = input.dim_size(0);
  }
  if (rows < 0) return errors::InvalidArgument("map: no arguments to map over");
  arguments->resize(rows);
  for (int64_t row = 0; row < rows; ++row) {
    for (const Tensor& input : inputs) {
      (*arguments)[row].emplace_back();
      TF_RETURN_IF_ERROR(CopyRow(input, row, &(*arguments)[row].back()));
    }
  }
  return absl::OkStatus();
}

class InvokeOp : public CallOp {
 public:
  explicit InvokeOp(OpKernelConstruction* ctx) : CallOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reads", &reads_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("record", &record_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_depth", &max_depth_));
    std::string engine;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("engine", &engine));
    batched_ = engine != "parallel";
    by_cost_ = engine == "auto";
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &shapes_));
    frame_output_ = ctx->num_outputs() - 1;
    DataTypeVector captures;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("Tcaptures", &captures));
    OP_REQUIRES(ctx, reads_.size() == captures.size(),
                errors::InvalidArgument(name(), ": 'reads' tells of ", reads_.size(), " captured tensors, there are ",
                                        captures.size()));
    OP_REQUIRES(ctx, static_cast<int>(shapes_.size()) == frame_output_,
                errors::InvalidArgument(name(), ": 'output_shapes' has ", shapes_.size(), " shapes for ",
                                        frame_output_, " results"));
  }

 protected:
  absl::Status Prepare(Call* call) override {
    OpInputList inputs;
    OpInputList captures;
    TF_RETURN_IF_ERROR(call->ctx->input_list("args", &inputs));
    TF_RETURN_IF_ERROR(call->ctx->input_list("captures", &captures));
    std::shared_ptr<Environment> opened;
    if (call->own_root != nullptr || captures.size() > 0) {
      auto environment =
          std::make_shared<Environment>(CallIdentity{call->scope.root->program()->key(), entry(), map()});
      TF_RETURN_IF_ERROR(Environment::Make(call->ctx, captures, reads_, environment.get()));
      opened = environment;
      call->scope.environment = std::move(environment);
      call->opens_environment = true;
    }
    if (ChooseEngine(call) == Engine::kBatched) return absl::OkStatus();
    std::vector<Tensors> arguments;
    TF_RETURN_IF_ERROR(SplitArguments(inputs, map(), &arguments));
    if (opened != nullptr && call->scope.root->program()->memoizes()) {
      Tensors none;  // rows are copies
      TF_RETURN_IF_ERROR(opened->Separate(map() ? &none : &arguments[0]));
    }
    const int results = frame_output_ + (Records(call) ? 1 : 0);
    for (Tensors& row : arguments) {
      call->invocations.push_back(
          std::make_unique<Invocation>(NextScope(*call), std::move(row), results));
    }
    return CheckDepth(call);
  }

  void Launch(Call* call) override {
    if (call->engine == Engine::kBatched) {
      LaunchBatched(call);
      return;
    }
    StartAll(call, Kind(call));
  }

 private:
  // Whether this call's frame is wanted by an operation that reads it.
  bool Records(Call* call) const {
    return record_ && call->ctx->output_required(frame_output_);
  }

  BodyKind Kind(Call* call) const { return Records(call) ? BodyKind::kRecorded : BodyKind::kPlain; }

  Engine ChooseEngine(Call* call) const {
    Program* const program = call->scope.root->program();
    if (!batched_ || call->own_root == nullptr || program->plan() == nullptr) {
      return call->engine = Engine::kParallel;
    }
    call->engine = Engine::kBatched;
    if (by_cost_ && !IsScheduled(*program, Kind(call))) {
      const int64_t roots = map() && call->ctx->num_inputs() > 0 && call->ctx->input(0).dims() > 0
                                ? call->ctx->input(0).dim_size(0)
                                : 1;
      const CallClass which{Records(call), map(), roots};
      call->engine = program->choice()->Pick(which);
      call->Measure(which, false);
    }
    return call->engine;
  }

  // Where equal calls are one, another engine may take exponentially longer.
  bool IsScheduled(const Program& program, BodyKind kind) const {
    const int function = program.plan()->Find(FunctionName(kind));
    return function >= 0 && program.IsScheduled(function);
  }

  void LaunchBatched(Call* call) const {
    OpInputList inputs;
    std::vector<std::vector<batch::Value>> roots;
    absl::Status status = call->ctx->input_list("args", &inputs);
    if (status.ok()) status = CatchingAll([&] { return batch::RootsOf(inputs, map(), &roots); });
    if (!status.ok()) {
      call->Update(status);
      return call->Finish();
    }
    auto* runs = new batch::Runs(call->scope, max_depth_, Records(call));
    const size_t results = frame_output_ + (Records(call) ? 1 : 0);
    runs->Start(FunctionName(Kind(call)), std::move(roots), results, [this, call](batch::Runs* ended, const absl::Status& status) {
      call->Update(status.ok() ? CatchingAll([&] { return SetBatchedOutputs(call, *ended); }) : status);
      delete ended;
      call->Finish();
    });
  }

  absl::Status SetBatchedOutputs(Call* call, const batch::Runs& runs) const {
    TF_RETURN_IF_ERROR(batch::SetResults(call->ctx, runs, map(), shapes_));
    FramePtr<Frame> frame;
    if (Records(call)) {
      frame = FramePtr<Frame>(new Frame({}));
      frame->is_batched = true;
      frame->roots = runs.Raw(frame_output_);
      frame->environment = call->scope.environment;
    }
    if (call->ctx->output_required(frame_output_)) {
      call->ctx->set_output(frame_output_, ToTensor(std::move(frame)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckDepth(Call* call) const {
    if (call->invocations.empty()) return absl::OkStatus();
    const Invocation& first = *call->invocations[0];
    if (first.depth() <= max_depth_) return absl::OkStatus();
    const absl::Status status = TooDeep(max_depth_);
    call->scope.root->NoteError([&first] { return first.CallPath(); }, status);
    return status;
  }

  absl::Status SetOutputs(Call* call) const override {
    TF_RETURN_IF_ERROR(SetResults(call, shapes_));
    if (!Records(call)) {
      // Nobody reads the frame, or (an eager call without a tape) nobody looks into it.
      if (call->ctx->output_required(frame_output_)) {
        call->ctx->set_output(frame_output_, ToTensor(FramePtr<Frame>()));
      }
      return absl::OkStatus();
    }
    return SetFrame(call);
  }

  // The frame of a recorded call: of its invocation or, mapped, of all rows.
  absl::Status SetFrame(Call* call) const {
    std::vector<Tensor> frames;
    for (auto& invocation : call->invocations) {
      frames.push_back(std::move(invocation->results().back()));
    }
    FramePtr<Frame> frame;
    if (map()) {
      frame = FramePtr<Frame>(new Frame(std::move(frames)));
    } else {
      TF_RETURN_IF_ERROR(FromTensor(frames[0], &frame));
      if (!call->opens_environment) {
        call->ctx->set_output(frame_output_, std::move(frames[0]));
        return absl::OkStatus();
      }
      // A body gives a frame of its own; one that somebody else has too must not be changed.
      frames.clear();
      if (!frame->IsUnique()) frame = FramePtr<Frame>(new Frame(frame->values()));
    }
    if (call->opens_environment) {
      frame->environment = call->scope.environment;
      frame->is_shared = false;  // its gradient is that of the call from outside
    }
    call->ctx->set_output(frame_output_, ToTensor(std::move(frame)));
    return absl::OkStatus();
  }

  std::vector<bool> reads_;
  bool record_;
  bool batched_;
  bool by_cost_;
  int64_t max_depth_;
  std::vector<tensorflow::PartialTensorShape> shapes_;
  int frame_output_;
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>Invoke").Device(tensorflow::DEVICE_CPU), InvokeOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>Invoke")
                            .Device(tensorflow::DEVICE_GPU)
                            .Priority(kBesideVariables)
                            .HostMemory("args")
                            .HostMemory("captures")
                            .HostMemory("results")
                            .HostMemory("frame"),
                        InvokeOp);

}  // namespace
}  // namespace recgraph
