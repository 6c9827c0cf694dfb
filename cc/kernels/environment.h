// What the invocations of one call share: the captured outer tensors (the environment), read by
// slot number from any invocation, and the sums of the gradients of those slots, added to by any
// invocation of the gradient. Neither is carried from invocation to invocation.
#ifndef RECGRAPH_CC_KERNELS_ENVIRONMENT_H_
#define RECGRAPH_CC_KERNELS_ENVIRONMENT_H_

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "cc/core/frame_base.h"
#include "cc/core/slot_sums.h"
#include "cc/kernels/host.h"
#include "cc/kernels/packed_matrices.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// The call that an environment was opened by: frames that come of it are no use to another one's gradient.
struct CallIdentity {
  std::string program;  // its key
  std::string entry;
  bool map = false;
};

// Immutable to whoever reads it once a call has begun.
class Environment {
 public:
  explicit Environment(CallIdentity call) : call_(std::move(call)) {}

  // A slot is the tensor itself or, where `reads[i]`, the value that the variable behind a
  // captured handle has now: all invocations of a call see one value. `reads` has one for each capture.
  static absl::Status Make(tensorflow::OpKernelContext* ctx,
                           const tensorflow::OpInputList& captures,
                           const std::vector<bool>& reads, Environment* environment);

  const std::vector<tensorflow::Tensor>& slots() const { return slots_; }
  // Gives tensors among slots and arguments memory of their own where two share some: memoized calls take arguments for
  // the same where these lie at one place, and a gradient is due to each of what comes from outside.
  absl::Status Separate(absl::InlinedVector<tensorflow::Tensor, 2>* arguments);
  // Assigns to variables of accelerators what the invocations have assigned to their mirrors.
  absl::Status WriteBack() const;
  const CallIdentity& call() const { return call_; }

  // A slot's matrix packed, at its first use, once for all invocations; found in `kept`, or put there, where
  // that is not null.
  absl::Status Packed(int slot, bool transposed, PackedMatrices* kept, tensorflow::Tensor* packed) const;

 private:
  // A slot that is the handle of an accelerator's variable becomes that of a mirror on the host.
  absl::Status Mirror(tensorflow::OpKernelContext* ctx, tensorflow::Tensor* slot);

  const CallIdentity call_;
  std::vector<tensorflow::Tensor> slots_;
  std::vector<HostMirror> mirrors_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int, bool>, tensorflow::Tensor> packed_;
};

// Rows of floats wherever they lie that stand for transpose(a) b, and what they lie in.
struct ScatteredFactors {
  std::vector<const float*> a, b;
  int64_t width_a = 0, width_b = 0;
  // The product's rows, and the one that the first float of `a` counts for: the other rows are of other factors.
  int64_t height = 0, first = 0;
  FramePtr<FrameBase> keeps;
  std::vector<tensorflow::Tensor> tensors;
};

// What was added to a slot: the only contribution as it is; of more, the sum in doubles, complex ones for complex
// numbers. So the sum is rounded once, to what the slot has: in bfloat16, 256 + 1 is 256.
struct SlotTotal {
  tensorflow::Tensor sum;
  tensorflow::DataType dtype = tensorflow::DT_INVALID;  // of the first contribution
};

// How the contributions to one slot's gradient are kept until the call ends.
enum class SumKind {
  // The total so far.
  kDense,
  // Pairs (a [m, k], b [m, n]) that stand for transpose(a) b: multiplied at the end, over all their rows.
  kOuter,
  // Pairs (indices [m], rows [m, ...]): stacked along m, a sparse gradient.
  kRows,
};

// "dense", "outer" or "rows".
absl::Status ParseSumKind(const std::string& name, SumKind* kind);

using TensorPairs = SlotSums<tensorflow::Tensor, SlotTotal>::Pairs;

// Thread-safe.
class Sums {
 public:
  explicit Sums(int slots) : sums_(slots) {}

  // All contributions to a slot have one shape or, in pairs, rows of one shape and dtype: an InvalidArgument error
  // otherwise, or where the slot does not exist, and nothing is added. A dense one may be in more bits than the slot.
  absl::Status AddDense(int slot, const tensorflow::Tensor& value);
  absl::Status AddTotal(int slot, const SlotTotal& value);
  absl::Status AddPair(SumKind kind, int slot, const tensorflow::Tensor& first,
                       const tensorflow::Tensor& second);

  // As a pair of kind kOuter; a slot's rows are all of one width.
  absl::Status AddFactors(int slot, ScatteredFactors factors);

  // Adds all that `others` has, which is given up.
  absl::Status Absorb(Sums* others);

  int slots() const { return sums_.slots(); }

  // The total of a slot that exists, rounded to `dtype`; zeros of shape `like` where nothing was added.
  absl::Status TakeDense(int slot, tensorflow::DataType dtype, const tensorflow::TensorShape& like,
                         tensorflow::Tensor* total);
  // The pairs of kind kOuter.
  TensorPairs TakeFactors(int slot);
  std::vector<ScatteredFactors> TakeScattered(int slot);
  // The pairs of kind kRows, each half stacked along its first dimension; `indices` and `rows` come with dtype and
  // shape (of zero rows) for the case that nothing was added.
  absl::Status TakeRows(int slot, tensorflow::Tensor* indices, tensorflow::Tensor* rows);

 private:
  SlotSums<tensorflow::Tensor, SlotTotal> sums_;
  std::mutex mutex_;
  std::map<int, std::vector<ScatteredFactors>> scattered_;  // by slot; guarded by mutex_
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_ENVIRONMENT_H_
