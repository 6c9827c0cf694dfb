// The kernel of Recgraph>InvokeGradient.
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/kernels/batch_run.h"
#include "cc/kernels/call_op.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/outer_products.h"
#include "cc/kernels/pool_allocator.h"
#include "cc/kernels/rows.h"
#include "tensorflow/core/framework/resource_var.h"

namespace recgraph {

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
  }

 protected:
  absl::Status Prepare(Call* call) override {
    FramePtr<Frame> frame;
    OpInputList grads;
    TF_RETURN_IF_ERROR(FromTensor(call->ctx->input(0), &frame));
    TF_RETURN_IF_ERROR(call->ctx->input_list("grads", &grads));
    if (frame->environment != nullptr) {
      call->scope.environment = frame->environment;
      call->own_sums = std::make_unique<Sums>(frame->environment->slots().size());
      call->scope.sums = call->own_sums.get();
    }
    if (call->own_root != nullptr) {
      const int64_t rows = frame->is_batched ? frame->roots.size() : frame->values().size();
      call->engine = frame->is_batched ? Engine::kBatched : Engine::kParallel;
      const CallClass which{true, map(), map() ? rows : 1};
      if (call->own_root->program()->choice()->HasPicked(which)) call->Measure(which, true);
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
    Program::Handle body;
    const absl::Status found = Function(call, ".grad", &body);
    const size_t count = call->invocations.size();
    if (!found.ok() || count == 0) {
      call->Update(found);
      AllDone(call);
      return;
    }
    call->pending.store(count, std::memory_order_relaxed);
    for (size_t i = 0; i < count; ++i) {
      call->invocations[i]->Start(body, [this, call](const absl::Status& status) {
        OneDone(call, status);
      });
    }
  }

 private:
  static bool IsBatched(const Tensor& tensor) {
    FramePtr<Frame> frame;
    return FromTensor(tensor, &frame).ok() && frame->is_batched;
  }

  void LaunchBatched(Call* call) const {
    std::vector<std::vector<batch::Value>> roots;
    const absl::Status status = BatchedRoots(call, &roots);
    if (!status.ok()) {
      call->Update(status);
      return call->Finish();
    }
    auto* runs = new batch::Runs(call->scope, std::numeric_limits<int64_t>::max(), true);
    runs->Start(entry() + ".grad", std::move(roots),
                [this, call](batch::Runs* ended, const absl::Status& status) {
                  call->Update(status);
                  if (status.ok()) {
                    call->Update(batch::SetResults(call->ctx, *ended, map(), results_shapes_));
                  }
                  delete ended;
                  if (call->Status().ok()) call->Update(SetSums(call));
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
      for (const Tensor& grad : grads) (*arguments)[row].push_back(CopyRow(grad, row));
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
    products.Run(call->ctx);
    return absl::OkStatus();
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
        TF_RETURN_IF_ERROR(sums->TakeDense(ctx, slot, dtype, like, &sum));
        break;
      case SumKind::kOuter: {
        auto factors = sums->TakeFactors(slot);
        if (factors.first.empty()) {
          TF_RETURN_IF_ERROR(SlotShape(ctx, call->scope.environment->slots()[slot], &like));
        } else {
          like = TensorShape({RowSize(factors.first[0]), RowSize(factors.second[0])});
        }
        sum = Tensor(ThePoolAllocator(), dtype, like);
        if (!sum.IsInitialized()) return errors::ResourceExhausted("no memory for a gradient of shape ", like.DebugString());
        TF_RETURN_IF_ERROR(products->Add(std::move(factors), &sum));
        break;
      }
      case SumKind::kRows: {
        const int first = results_shapes_.size();
        Tensor rows = NoRows(ctx->expected_output_dtype(*output + 1), sums_shapes_[*output + 1 - first]);
        sum = NoRows(dtype, sums_shapes_[*output - first]);
        TF_RETURN_IF_ERROR(sums->TakeRows(slot, &sum, &rows));
        ctx->set_output((*output)++, sum);
        sum = rows;
        break;
      }
    }
    ctx->set_output((*output)++, sum);
    return absl::OkStatus();
  }

  static int64_t RowSize(const Tensor& factor) { return factor.dims() == 2 ? factor.dim_size(1) : 0; }

  static absl::Status SlotShape(OpKernelContext* ctx, const Tensor& slot, TensorShape* shape) {
    if (slot.dtype() != tensorflow::DT_RESOURCE) {
      *shape = slot.shape();
      return absl::OkStatus();
    }
    tensorflow::core::RefCountPtr<tensorflow::Var> variable;
    TF_RETURN_IF_ERROR(
        LookupResource(ctx, slot.scalar<tensorflow::ResourceHandle>()(), &variable));
    tensorflow::tf_shared_lock lock(*variable->mu());
    *shape = variable->tensor()->shape();
    return absl::OkStatus();
  }

  std::vector<int> slots_;
  std::vector<SumKind> kinds_;
  std::vector<tensorflow::PartialTensorShape> sums_shapes_;
  std::vector<tensorflow::PartialTensorShape> results_shapes_;
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>InvokeGradient").Device(tensorflow::DEVICE_CPU), InvokeGradientOp);

}  // namespace
}  // namespace recgraph
