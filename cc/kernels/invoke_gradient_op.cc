// The kernel of Recgraph>InvokeGradient.
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/kernels/batch_run.h"
#include "cc/kernels/call_op.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/outer_products.h"
#include "cc/kernels/pool_allocator.h"
#include "cc/kernels/rows.h"
#include "cc/kernels/shared_calls.h"
#include "tensorflow/core/framework/resource_var.h"

namespace recgraph {

using tensorflow::DataTypeVector;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

class InvokeGradientOp : public CallOp {
 public:
  explicit InvokeGradientOp(OpKernelConstruction* ctx) : CallOp(ctx) {
    std::vector<std::string> kinds;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slots", &slots_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("kinds", &kinds));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("sums_shapes", &sums_shapes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("results_shapes", &results_shapes_));
    for (const std::string& kind : kinds) {
      kinds_.emplace_back();
      OP_REQUIRES_OK(ctx, ParseSumKind(kind, &kinds_.back()));
    }
    OP_REQUIRES_OK(ctx, CheckAttributes(ctx));
  }

 protected:
  absl::Status Prepare(Call* call) override {
    FramePtr<Frame> frame;
    OpInputList grads;
    TF_RETURN_IF_ERROR(FromTensor(call->ctx->input(0), &frame));
    TF_RETURN_IF_ERROR(CheckFrame(*call, *frame));
    TF_RETURN_IF_ERROR(call->ctx->input_list("grads", &grads));
    if (frame->environment != nullptr) {
      call->scope.environment = frame->environment;
      call->own_sums = std::make_unique<Sums>(frame->environment->slots().size());
      call->scope.sums = call->own_sums.get();
    }
    call->scope.is_gradient = call->scope.parent == nullptr || call->scope.parent->is_gradient();
    if (call->own_root != nullptr) {
      const int64_t rows = frame->is_batched ? frame->roots.size() : frame->values().size();
      call->engine = frame->is_batched ? Engine::kBatched : Engine::kParallel;
      const CallClass which{true, map(), map() ? rows : 1};
      if (call->own_root->program()->choice()->HasPicked(which)) call->Measure(which, true);
      if (call->own_root->shared_calls() != nullptr) call->own_root->shared_calls()->ExpectGradients(*frame);
    }
    if (frame->is_batched) return absl::OkStatus();
    std::vector<Tensors> arguments;
    if (map()) {
      TF_RETURN_IF_ERROR(SplitFrames(*frame, grads, &arguments));
    } else {
      arguments.emplace_back();
      arguments[0].push_back(call->ctx->input(0));
      arguments[0].insert(arguments[0].end(), grads.begin(), grads.end());
    }
    for (Tensors& row : arguments) {
      call->invocations.push_back(
          std::make_unique<Invocation>(NextScope(*call), std::move(row), results_shapes_.size()));
    }
    return absl::OkStatus();
  }

  void Launch(Call* call) override {
    if (IsBatched(call->ctx->input(0))) {
      LaunchBatched(call);
      return;
    }
    StartAll(call, BodyKind::kGradient);
  }

 private:
  // The attributes tell of as many outputs as there are.
  absl::Status CheckAttributes(OpKernelConstruction* ctx) const {
    DataTypeVector results, sums;
    TF_RETURN_IF_ERROR(ctx->GetAttr("Tout", &results));
    TF_RETURN_IF_ERROR(ctx->GetAttr("Tsums", &sums));
    size_t tensors = 0;
    for (const SumKind kind : kinds_) tensors += kind == SumKind::kRows ? 2 : 1;
    if (results_shapes_.size() != results.size()) {
      return errors::InvalidArgument(name(), ": 'results_shapes' has ", results_shapes_.size(), " shapes for ",
                                     results.size(), " results");
    }
    if (slots_.size() != kinds_.size() || tensors != sums.size() || sums_shapes_.size() != sums.size()) {
      return errors::InvalidArgument(name(), ": sums of ", slots_.size(), " slots and ", kinds_.size(), " kinds, with ",
                                     sums_shapes_.size(), " shapes, cannot be ", sums.size(), " tensors");
    }
    for (const int slot : slots_) {
      if (slot < 0) return errors::InvalidArgument(name(), ": there is no slot ", slot);
    }
    return absl::OkStatus();
  }

  // The frame is one of this program, and has what the gradient needs.
  absl::Status CheckFrame(const Call& call, const Frame& frame) const {
    if (frame.is_tabulated) return errors::InvalidArgument("the frame is that of a call in levels, which has no values");
    const Environment* environment = frame.environment.get();
    if (environment == nullptr) {
      if (call.own_root != nullptr || frame.is_batched) {
        return errors::InvalidArgument("the frame is not that of a call from outside of a SubGraph: ",
                                       "its gradient is taken inside of the one that has made it");
      }
      environment = call.scope.environment.get();
    }
    if (frame.environment != nullptr) {
      const CallIdentity& made_by = environment->call();
      if (made_by.program != call.scope.root->program()->key()) {
        return errors::InvalidArgument("the frame is that of a call of another program: of ", made_by.entry,
                                       ", it is no use to the gradient of ", entry());
      }
      if (made_by.entry != entry()) {
        return errors::InvalidArgument("the frame is that of a call of ", made_by.entry, ", not of ", entry());
      }
      if (made_by.map != map()) {
        return errors::InvalidArgument("the frame is ", made_by.map ? "" : "not ", "that of a map");
      }
    }
    for (const int slot : slots_) {
      if (static_cast<size_t>(slot) < environment->slots().size()) continue;
      return errors::InvalidArgument("there is no slot ", slot, " among ", environment->slots().size(),
                                     " captured tensors");
    }
    if (!slots_.empty() && frame.environment == nullptr && call.scope.sums == nullptr) {
      return errors::InvalidArgument("sums are those of a gradient call");
    }
    return absl::OkStatus();
  }

  static bool IsBatched(const Tensor& tensor) {
    FramePtr<Frame> frame;
    return FromTensor(tensor, &frame).ok() && frame->is_batched;
  }

  void LaunchBatched(Call* call) const {
    std::vector<std::vector<batch::Value>> roots;
    const absl::Status status = CatchingAll([&] { return BatchedRoots(call, &roots); });
    if (!status.ok()) {
      call->Update(status);
      return call->Finish();
    }
    auto* runs = new batch::Runs(call->scope, std::numeric_limits<int64_t>::max(), true);
    runs->Start(FunctionName(BodyKind::kGradient), std::move(roots), results_shapes_.size(),
                [this, call](batch::Runs* ended, const absl::Status& status) {
                  call->Update(status);
                  if (status.ok()) {
                    call->Update(
                        CatchingAll([&] { return batch::SetResults(call->ctx, *ended, map(), results_shapes_); }));
                  }
                  delete ended;
                  if (call->Status().ok()) call->Update(CatchingAll([&] { return SetSums(call); }));
                  call->Finish();
                });
  }

  // The frame of each root, and its row of the gradients.
  absl::Status BatchedRoots(Call* call, std::vector<std::vector<batch::Value>>* roots) const {
    OpInputList grads;
    const bool last = IsLastReader(call->ctx->input(0));
    FramePtr<Frame> frame;
    TF_RETURN_IF_ERROR(FromTensor(call->ctx->input(0), &frame));
    TF_RETURN_IF_ERROR(call->ctx->input_list("grads", &grads));
    if (grads.size() > 0) {
      TF_RETURN_IF_ERROR(batch::RootsOf(grads, map(), roots));
    } else {
      roots->resize(frame->roots.size());
    }
    if (roots->size() != frame->roots.size()) {
      return errors::InvalidArgument("gradient of ", frame->roots.size(), " mapped invocations for ",
                                     roots->size(), " rows");
    }
    // The last reader lets the frames go while it walks down, each on the thread that has used it.
    for (size_t i = 0; i < roots->size(); ++i) {
      batch::Value& root = frame->roots[i];
      (*roots)[i].insert((*roots)[i].begin(), last ? std::move(root) : root);
    }
    return absl::OkStatus();
  }

  static absl::Status SplitFrames(const Frame& frame, const OpInputList& grads,
                                  std::vector<Tensors>* arguments) {
    const int64_t rows = frame.values().size();
    for (const Tensor& grad : grads) {
      if (grad.dims() == 0 || grad.dim_size(0) != rows) {
        return errors::InvalidArgument("gradient of ", rows,
                                                   " mapped invocations has shape ",
                                                   grad.shape().DebugString());
      }
    }
    arguments->resize(rows);
    for (int64_t row = 0; row < rows; ++row) {
      (*arguments)[row].push_back(frame.values()[row]);
      for (const Tensor& grad : grads) {
        (*arguments)[row].emplace_back();
        TF_RETURN_IF_ERROR(CopyRow(grad, row, &(*arguments)[row].back()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status SetOutputs(Call* call) const override {
    TF_RETURN_IF_ERROR(SetResults(call, results_shapes_));
    return SetSums(call);
  }

  absl::Status SetSums(Call* call) const {
    OuterProducts products;
    int output = results_shapes_.size();
    for (size_t i = 0; i < slots_.size(); ++i) {
      TF_RETURN_IF_ERROR(SetSum(call, i, &products, &output));
    }
    return products.Run(call->ctx);
  }

  // Sets the next outputs to the sum of slot number `i`; a product is there when `products` have run.
  absl::Status SetSum(Call* call, size_t i, OuterProducts* products, int* output) const {
    OpKernelContext* const ctx = call->ctx;
    Sums* const sums = call->scope.sums;
    const int slot = slots_[i];
    const tensorflow::DataType dtype = ctx->expected_output_dtype(*output);
    TensorShape like;
    Tensor sum;
    switch (kinds_[i]) {
      case SumKind::kDense:
        TF_RETURN_IF_ERROR(SlotShape(ctx, call->scope.environment->slots()[slot], &like));
        TF_RETURN_IF_ERROR(CheckDtype(dtype));
        TF_RETURN_IF_ERROR(sums->TakeDense(slot, dtype, like, &sum));
        break;
      case SumKind::kOuter: {
        auto factors = sums->TakeFactors(slot);
        auto scattered = sums->TakeScattered(slot);
        if (!scattered.empty()) {
          like = TensorShape({scattered[0].height, scattered[0].width_b});
        } else if (factors.first.empty()) {
          TF_RETURN_IF_ERROR(SlotShape(ctx, call->scope.environment->slots()[slot], &like));
        } else {
          like = TensorShape({RowSize(factors.first[0]), RowSize(factors.second[0])});
        }
        TF_RETURN_IF_ERROR(CheckDtype(dtype));
        TF_RETURN_IF_ERROR(Allocate(dtype, like, &sum));
        TF_RETURN_IF_ERROR(products->Add(std::move(factors), std::move(scattered), &sum));
        break;
      }
      case SumKind::kRows: {
        const int first = results_shapes_.size();
        Tensor rows;
        TF_RETURN_IF_ERROR(
            NoRows(ctx->expected_output_dtype(*output + 1), sums_shapes_[*output + 1 - first], &rows));
        TF_RETURN_IF_ERROR(NoRows(dtype, sums_shapes_[*output - first], &sum));
        TF_RETURN_IF_ERROR(sums->TakeRows(slot, &sum, &rows));
        TF_RETURN_IF_ERROR(SetOutput(ctx, (*output)++, sum));
        sum = rows;
        break;
      }
    }
    return SetOutput(ctx, (*output)++, sum);
  }

  // Sums are numbers: TensorFlow ends the process where it is asked to fill anything else with zeros.
  static absl::Status CheckDtype(tensorflow::DataType dtype) {
    if (tensorflow::DataTypeCanUseMemcpy(dtype)) return absl::OkStatus();
    return errors::InvalidArgument("a gradient cannot be a sum of type ", tensorflow::DataTypeString(dtype));
  }

  static int64_t RowSize(const Tensor& factor) { return factor.dims() == 2 ? factor.dim_size(1) : 0; }

  static absl::Status SlotShape(OpKernelContext* ctx, const Tensor& slot, TensorShape* shape) {
    if (slot.dtype() != tensorflow::DT_RESOURCE) {
      *shape = slot.shape();
      return absl::OkStatus();
    }
    HeldVariable held;
    TF_RETURN_IF_ERROR(FindVariable(ctx, slot, &held));
    tensorflow::tf_shared_lock lock(*held.variable->mu());
    const Stretch reading(held.variable.get());
    *shape = held.variable->tensor()->shape();
    return absl::OkStatus();
  }

  std::vector<int> slots_;
  std::vector<SumKind> kinds_;
  std::vector<tensorflow::PartialTensorShape> sums_shapes_;
  std::vector<tensorflow::PartialTensorShape> results_shapes_;
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>InvokeGradient").Device(tensorflow::DEVICE_CPU), InvokeGradientOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>InvokeGradient")
                            .Device(tensorflow::DEVICE_GPU)
                            .Priority(kBesideVariables)
                            .HostMemory("frame")
                            .HostMemory("grads")
                            .HostMemory("primals")
                            .HostMemory("results")
                            .HostMemory("sums"),
                        InvokeGradientOp);

}  // namespace
}  // namespace recgraph
