// Environments and gradient sums, and the ops that invocations reach them by.
#include "cc/kernels/environment.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "cc/core/row_kernels.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/frame.h"
#include "cc/kernels/invocation.h"
#include "cc/kernels/pool_allocator.h"
#include "tensorflow/core/framework/resource_var.h"
#include "cc/kernels/errors.h"

namespace recgraph {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::Var;

namespace {

// The variable's value now. A variable in copy-on-read mode is written to in place, row by row,
// so that its buffer cannot be shared.
absl::Status ReadVariable(OpKernelContext* ctx, const Tensor& handle, Tensor* value) {
  HeldVariable held;
  TF_RETURN_IF_ERROR(FindVariable(ctx, handle, &held));
  Var* const variable = held.variable.get();
  tensorflow::tf_shared_lock lock(*variable->mu());
  const Stretch reading(variable);
  if (!variable->is_initialized) {
    return errors::FailedPrecondition("captured variable is not initialized: ",
                                                  variable->DebugString());
  }
  if (held.accelerator == nullptr && variable->copy_on_read_mode.load()) return Copy(*variable->tensor(), value);
  return ValueOnHost(held, value);
}

// In what a sum of numbers is kept; DT_INVALID for what is not added up.
tensorflow::DataType WideOf(tensorflow::DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_HALF:
    case tensorflow::DT_BFLOAT16:
    case tensorflow::DT_FLOAT:
    case tensorflow::DT_DOUBLE:
      return tensorflow::DT_DOUBLE;
    case tensorflow::DT_COMPLEX64:
    case tensorflow::DT_COMPLEX128:
      return tensorflow::DT_COMPLEX128;
    default:
      return tensorflow::DT_INVALID;
  }
}

template <typename T, typename Wide>
void AddWide(const Tensor& value, Tensor* total) {
  const T* const from = value.flat<T>().data();
  Wide* const to = total->flat<Wide>().data();
  const int64_t count = total->NumElements();
  if constexpr (std::is_same_v<T, float>) {
    BestRowKernels().add_wide(count, from, to);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] += static_cast<Wide>(from[i]);
  }
}

// Of `total`, rounded. To half types by way of float, as what is computed in these.
template <typename T, typename Wide>
void Narrow(const Tensor& total, Tensor* narrow) {
  const Wide* const from = total.flat<Wide>().data();
  T* const to = narrow->flat<T>().data();
  const int64_t count = total.NumElements();
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 2) {
      to[i] = static_cast<T>(static_cast<float>(from[i]));
    } else {
      to[i] = static_cast<T>(from[i]);
    }
  }
}

#define FOR_ADDED_TYPES(CASE)                                                                                      \
  CASE(Eigen::half, double)                                                                                        \
  CASE(Eigen::bfloat16, double)                                                                                    \
  CASE(float, double)                                                                                              \
  CASE(double, double)                                                                                             \
  CASE(tensorflow::complex64, tensorflow::complex128)                                                              \
  CASE(tensorflow::complex128, tensorflow::complex128)

// `total` is of the wide dtype.
void AddTo(const Tensor& value, Tensor* total) {
  switch (value.dtype()) {
#define ADD_CASE(T, Wide)                    \
  case tensorflow::DataTypeToEnum<T>::value: \
    return AddWide<T, Wide>(value, total);
    FOR_ADDED_TYPES(ADD_CASE)
#undef ADD_CASE
    default: return;
  }
}

absl::Status Rounded(const Tensor& total, tensorflow::DataType dtype, Tensor* rounded) {
  if (total.dtype() == dtype || WideOf(dtype) != total.dtype()) {  // then it is not what is expected, which is said later
    *rounded = total;
    return absl::OkStatus();
  }
  TF_RETURN_IF_ERROR(Allocate(dtype, total.shape(), rounded));
  switch (dtype) {
#define NARROW_CASE(T, Wide)                 \
  case tensorflow::DataTypeToEnum<T>::value: \
    Narrow<T, Wide>(total, rounded);         \
    break;
    FOR_ADDED_TYPES(NARROW_CASE)
#undef NARROW_CASE
    default: break;
  }
  return absl::OkStatus();
}
#undef FOR_ADDED_TYPES

// The total in the wide dtype, in which others can be added to it.
absl::Status Widen(SlotTotal* total) {
  const tensorflow::DataType wide = WideOf(total->sum.dtype());
  if (wide == tensorflow::DT_INVALID) {
    return errors::Unimplemented("no gradient sum for dtype ", tensorflow::DataTypeString(total->sum.dtype()));
  }
  if (wide == total->sum.dtype()) return absl::OkStatus();
  Tensor sum;
  TF_RETURN_IF_ERROR(Allocate(wide, total->sum.shape(), &sum));
  if (sum.TotalBytes() > 0) std::memset(sum.data(), 0, sum.TotalBytes());
  AddTo(total->sum, &sum);
  total->sum = std::move(sum);
  return absl::OkStatus();
}

// Tensors as messages show them: `float [2,3]`.
std::string Describe(tensorflow::DataType dtype, const TensorShape& shape) {
  return absl::StrCat(tensorflow::DataTypeString(dtype), " ", shape.DebugString());
}
std::string Describe(const Tensor& tensor) { return Describe(tensor.dtype(), tensor.shape()); }

absl::Status Differ(int slot, const char* what, const std::string& first, const std::string& other) {
  return errors::InvalidArgument("gradients of one captured tensor (slot ", slot, ") ", what, ": ", first, " and ",
                                 other);
}
absl::Status Differ(int slot, const char* what, const Tensor& first, const Tensor& other) {
  return Differ(slot, what, Describe(first), Describe(other));
}

// Whether the rows of two tensors can lie in one.
bool RowsFit(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  for (int i = 1; i < a.dims(); ++i) {
    if (a.dim_size(i) != b.dim_size(i)) return false;
  }
  return true;
}

// Stacks `parts` along their first dimension; keeps `whole` where there are none. Their rows fit.
absl::Status Stack(const std::vector<Tensor>& parts, Tensor* whole) {
  if (parts.empty()) return absl::OkStatus();
  TensorShape shape = parts[0].shape();
  int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.dim_size(0);
  TF_RETURN_IF_ERROR(shape.SetDimWithStatus(0, rows));
  TF_RETURN_IF_ERROR(Allocate(parts[0].dtype(), shape, whole));
  char* to = static_cast<char*>(whole->data());
  for (const Tensor& part : parts) {
    if (part.TotalBytes() > 0) std::memcpy(to, part.data(), part.TotalBytes());
    to += part.TotalBytes();
  }
  return absl::OkStatus();
}

absl::Status NoSlot(int slot, int slots) {
  return errors::InvalidArgument("there is no slot ", slot, " among ", slots, " captured tensors");
}

int PairKind(SumKind kind) { return kind == SumKind::kOuter ? 0 : 1; }

}  // namespace

absl::Status Environment::Make(OpKernelContext* ctx, const OpInputList& captures,
                               const std::vector<bool>& reads, Environment* environment) {
  environment->slots_.resize(captures.size());
  for (int i = 0; i < captures.size(); ++i) {
    Tensor* slot = &environment->slots_[i];
    if (reads[i]) {
      TF_RETURN_IF_ERROR(ReadVariable(ctx, captures[i], slot));
    } else {
      *slot = captures[i];
      if (slot->dtype() == tensorflow::DT_RESOURCE) TF_RETURN_IF_ERROR(environment->Mirror(ctx, slot));
    }
  }
  return absl::OkStatus();
}

absl::Status Environment::Separate(absl::InlinedVector<Tensor, 2>* arguments) {
  std::vector<Tensor*> all;
  for (Tensor& argument : *arguments) all.push_back(&argument);
  for (Tensor& slot : slots_) all.push_back(&slot);
  const auto has_gradient = [](Tensor* tensor) {
    return WideOf(tensor->dtype()) != tensorflow::DT_INVALID && tensor->NumElements() > 0;
  };
  all.erase(std::remove_if(all.begin(), all.end(), [&](Tensor* tensor) { return !has_gradient(tensor); }), all.end());
  const auto begin = [](const Tensor* tensor) { return reinterpret_cast<uintptr_t>(tensor->data()); };
  std::stable_sort(all.begin(), all.end(), [&](Tensor* a, Tensor* b) { return begin(a) < begin(b); });
  uintptr_t end = 0;  // of what lies before
  for (Tensor* tensor : all) {
    const uintptr_t first = begin(tensor);
    if (first < end) TF_RETURN_IF_ERROR(Copy(*tensor, tensor));
    end = std::max(end, first + tensor->TotalBytes());
  }
  return absl::OkStatus();
}

absl::Status Environment::Mirror(OpKernelContext* ctx, Tensor* slot) {
  const tensorflow::ResourceHandle* resource = nullptr;
  TF_RETURN_IF_ERROR(ScalarOf(*slot, &resource));
  const std::string& host = HostDevice(*ctx->function_library())->name();
  if (resource->device() == host || !IsOnAccelerator(ctx, *resource)) return absl::OkStatus();
  HeldVariable held;
  TF_RETURN_IF_ERROR(FindVariable(ctx, *slot, &held));
  const tensorflow::ResourceHandle original = *resource;  // which goes with the slot
  mirrors_.emplace_back();
  return HostMirror::Make(std::move(held), host, original, &mirrors_.back(), slot);
}

absl::Status Environment::WriteBack() const {
  for (const HostMirror& mirror : mirrors_) TF_RETURN_IF_ERROR(mirror.WriteBack());
  return absl::OkStatus();
}

absl::Status Environment::Packed(int slot, bool transposed, PackedMatrices* kept,
                                 Tensor* packed) const {
  std::lock_guard<std::mutex> lock(mutex_);
  Tensor& known = packed_[{slot, transposed}];
  if (known.NumElements() == 0) {
    TF_RETURN_IF_ERROR(kept != nullptr ? kept->Get(slot, transposed, slots_[slot], &known)
                                       : PackMatrix(slots_[slot], transposed, &known));
  }
  *packed = known;
  return absl::OkStatus();
}

absl::Status Sums::AddDense(int slot, const Tensor& value) { return AddTotal(slot, {value, value.dtype()}); }

absl::Status Sums::AddTotal(int slot, const SlotTotal& value) {
  if (slot < 0 || slot >= slots()) return NoSlot(slot, slots());
  const auto begin = [&value](SlotTotal* total) {
    total->dtype = value.dtype;
    return Copy(value.sum, &total->sum);
  };
  return sums_.AddTotal(slot, begin, [slot, &value](SlotTotal* total) {
    const Tensor& sum = total->sum;
    if (WideOf(value.sum.dtype()) != WideOf(sum.dtype()) || value.sum.shape() != sum.shape()) {
      return Differ(slot, "differ in shape or dtype", Describe(total->dtype, sum.shape()),
                    Describe(value.dtype, value.sum.shape()));
    }
    TF_RETURN_IF_ERROR(Widen(total));
    AddTo(value.sum, &total->sum);
    return absl::OkStatus();
  });
}

absl::Status Sums::AddPair(SumKind kind, int slot, const Tensor& first, const Tensor& second) {
  if (slot < 0 || slot >= slots()) return NoSlot(slot, slots());
  if (!tensorflow::DataTypeCanUseMemcpy(first.dtype()) || !tensorflow::DataTypeCanUseMemcpy(second.dtype())) {
    return Differ(slot, "are no numbers", first, second);
  }
  if (first.dims() == 0 || second.dims() == 0 || first.dim_size(0) != second.dim_size(0)) {
    return Differ(slot, "are a pair of different length", first, second);
  }
  const auto fits = [&](const TensorPairs& pairs) {
    for (const auto& [others, added] : {std::make_pair(&pairs.first, &first),
                                        std::make_pair(&pairs.second, &second)}) {
      if (!others->empty() && !RowsFit(others->front(), *added)) {
        return Differ(slot, "have rows of different width or dtype", others->front(), *added);
      }
    }
    return absl::OkStatus();
  };
  return sums_.AddPair(PairKind(kind), slot, first, second, fits);
}

absl::Status Sums::AddFactors(int slot, ScatteredFactors factors) {
  if (slot < 0 || slot >= slots()) return NoSlot(slot, slots());
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ScatteredFactors>& known = scattered_[slot];
  if (!known.empty() && (known[0].height != factors.height || known[0].width_b != factors.width_b)) {
    return errors::InvalidArgument("gradients of one captured tensor (slot ", slot, ") have rows of different width");
  }
  known.push_back(std::move(factors));
  return absl::OkStatus();
}

std::vector<ScatteredFactors> Sums::TakeScattered(int slot) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = scattered_.find(slot);
  return found == scattered_.end() ? std::vector<ScatteredFactors>() : std::exchange(found->second, {});
}

absl::Status Sums::Absorb(Sums* others) {
  for (int slot = 0; slot < others->sums_.slots(); ++slot) {
    for (ScatteredFactors& factors : others->TakeScattered(slot)) {
      TF_RETURN_IF_ERROR(AddFactors(slot, std::move(factors)));
    }
    SlotTotal total;
    if (others->sums_.TakeTotal(slot, &total)) TF_RETURN_IF_ERROR(AddTotal(slot, total));
    for (const SumKind kind : {SumKind::kOuter, SumKind::kRows}) {
      const TensorPairs pairs = others->sums_.TakePairs(PairKind(kind), slot);
      for (size_t i = 0; i < pairs.first.size(); ++i) {
        TF_RETURN_IF_ERROR(AddPair(kind, slot, pairs.first[i], pairs.second[i]));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Sums::TakeDense(int slot, tensorflow::DataType dtype, const TensorShape& like, Tensor* total) {
  SlotTotal known;
  if (sums_.TakeTotal(slot, &known)) {
    if (known.sum.dtype() != dtype) TF_RETURN_IF_ERROR(Widen(&known));  // the only one may be in more bits than the slot
    return Rounded(known.sum, dtype, total);
  }
  TF_RETURN_IF_ERROR(Allocate(dtype, like, total));
  if (total->TotalBytes() > 0) std::memset(total->data(), 0, total->TotalBytes());
  return absl::OkStatus();
}

TensorPairs Sums::TakeFactors(int slot) {
  return sums_.TakePairs(PairKind(SumKind::kOuter), slot);
}

absl::Status Sums::TakeRows(int slot, Tensor* indices, Tensor* rows) {
  const TensorPairs pairs = sums_.TakePairs(PairKind(SumKind::kRows), slot);
  TF_RETURN_IF_ERROR(Stack(pairs.first, indices));
  return Stack(pairs.second, rows);
}

namespace {

absl::Status CurrentInvocation(OpKernelContext* ctx, const OpKernel& op, Invocation** invocation) {
  *invocation = Invocation::Current(ctx);
  if (*invocation != nullptr) return absl::OkStatus();
  return errors::FailedPrecondition(op.name(), " (", op.type_string(),
                                                ") ran outside of an invocation");
}

// The value of an environment slot.
class CaptureOp : public OpKernel {
 public:
  explicit CaptureOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slot", &slot_));
  }

  void Compute(OpKernelContext* ctx) override {
    Invocation* invocation;
    OP_REQUIRES_OK(ctx, CurrentInvocation(ctx, *this, &invocation));
    const Stretch stretch(invocation->root());
    OP_REQUIRES(ctx, invocation->environment() != nullptr, errors::InvalidArgument("nothing is captured here"));
    const auto& slots = invocation->environment()->slots();
    OP_REQUIRES(ctx, static_cast<size_t>(slot_) < slots.size(), NoSlot(slot_, slots.size()));
    OP_REQUIRES_OK(ctx, SetOutput(ctx, 0, slots[slot_]));
  }
  bool IsExpensive() override { return false; }

 private:
  int slot_;
};

// Adds one contribution to the gradient of an environment slot.
class AccumulateOp : public OpKernel {
 public:
  explicit AccumulateOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string kind;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slot", &slot_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("kind", &kind));
    OP_REQUIRES_OK(ctx, ParseSumKind(kind, &kind_));
    const int values = kind_ == SumKind::kDense ? 1 : 2;
    OP_REQUIRES(ctx, ctx->num_inputs() == values,
                errors::InvalidArgument(name(), ": a sum of kind '", kind, "' is made of ", values, " values, not ",
                                        ctx->num_inputs()));
  }

  void Compute(OpKernelContext* ctx) override {
    Invocation* invocation;
    OP_REQUIRES_OK(ctx, CurrentInvocation(ctx, *this, &invocation));
    const Stretch stretch(invocation->root());
    Sums* sums = invocation->sums();
    OP_REQUIRES(ctx, sums != nullptr, errors::InvalidArgument(name(), " adds to a sum in a forward call"));
    if (kind_ == SumKind::kDense) {
      OP_REQUIRES_OK(ctx, sums->AddDense(slot_, ctx->input(0)));
    } else {
      OP_REQUIRES_OK(ctx, sums->AddPair(kind_, slot_, ctx->input(0), ctx->input(1)));
    }
  }
  bool IsExpensive() override { return false; }

 private:
  int slot_;
  SumKind kind_;
};

// Whether a variable has the value that a call has read: in the same memory it has, as the call refers to that.
bool HasValue(const Tensor& known, const Tensor& now) {
  if (known.dtype() != now.dtype() || known.shape() != now.shape()) return false;
  return known.data() == now.data() || std::memcmp(known.data(), now.data(), known.TotalBytes()) == 0;
}

class CheckCapturesOp : public OpKernel {
 public:
  explicit CheckCapturesOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slots", &numbers_));
    OP_REQUIRES(ctx, static_cast<int>(numbers_.size()) == ctx->num_inputs() - 1,
                errors::InvalidArgument("a slot for each variable expected, found ", numbers_.size()));
  }

  void Compute(OpKernelContext* ctx) override {
    FramePtr<Frame> frame;
    OP_REQUIRES_OK(ctx, FromTensor(ctx->input(0), &frame));
    OP_REQUIRES(ctx, frame->environment != nullptr, errors::InvalidArgument("a frame of no call from outside"));
    const std::vector<Tensor>& slots = frame->environment->slots();
    for (size_t i = 0; i < numbers_.size(); ++i) {
      const size_t slot = numbers_[i];
      OP_REQUIRES(ctx, slot < slots.size(), NoSlot(numbers_[i], slots.size()));
      Tensor now;
      OP_REQUIRES_OK(ctx, ReadVariable(ctx, ctx->input(i + 1), &now));
      OP_REQUIRES(ctx, HasValue(slots[slot], now),
                  errors::FailedPrecondition(
                      "a variable of shape ", now.shape().DebugString(), " that a SubGraph has read was assigned "
                      "before the second derivative of the call was taken, which would be that of a call now; take "
                      "the derivative before you assign"));
    }
  }

 private:
  std::vector<int> numbers_;
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>Capture").Device(tensorflow::DEVICE_CPU), CaptureOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>CheckCaptures").Device(tensorflow::DEVICE_CPU), CheckCapturesOp);
REGISTER_KERNEL_BUILDER(
    Name("Recgraph>CheckCaptures").Device(tensorflow::DEVICE_GPU).HostMemory("frame").HostMemory("variables"),
    CheckCapturesOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>Accumulate").Device(tensorflow::DEVICE_CPU), AccumulateOp);

}  // namespace

absl::Status ParseSumKind(const std::string& name, SumKind* kind) {
  if (name == "dense") {
    *kind = SumKind::kDense;
  } else if (name == "outer") {
    *kind = SumKind::kOuter;
  } else if (name == "rows") {
    *kind = SumKind::kRows;
  } else {
    return errors::InvalidArgument("unknown kind of sum: ", name);
  }
  return absl::OkStatus();
}

}  // namespace recgraph
