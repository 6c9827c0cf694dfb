// One run of a SubGraph's body, and the call from outside that it belongs to. Invocations form a
// tree: each knows its parent and its call site. The executor's kernels find the invocation they
// run for through the runner they were started with, which nested branches and loops inherit.
#ifndef RECGRAPH_CC_KERNELS_INVOCATION_H_
#define RECGRAPH_CC_KERNELS_INVOCATION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "cc/core/scheduler.h"
#include "cc/core/shared_tasks.h"
#include "cc/core/stretch.h"
#include "cc/core/thread_counts.h"
#include "cc/kernels/environment.h"
#include "cc/kernels/program.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace recgraph {

class Invocation;
class SharedCalls;

using Tensors = absl::InlinedVector<tensorflow::Tensor, 2>;

// Counts over the whole process.
struct InvocationCounts {
  int64_t total = 0;
  int64_t live = 0;
  int64_t peak = 0;
};
InvocationCounts CountInvocations();
// Adds what a batched run has come to since it last said: how many have begun, how many more are live, and how
// many more than now were live at once in the meantime.
void CountBatchedInvocations(int64_t begun, int64_t live, int64_t above);
// Forgets the peak: it starts again from what is live.
void ResetPeakInvocations();

// The error of a recursion that is too deep.
absl::Status TooDeep(int64_t max_depth);
// The error of a recursion that takes all memory.
absl::Status TooMany(int64_t live);
// Whether memory is short because of `live` invocations: there are very many, or much of it is what the pool holds.
bool MemoryIsShort(int64_t live);
// TooMany where that is so. Looks now and then only, and where the pool has grown much.
absl::Status CheckMemory();

// A plain call of a function in a body: as an invocation where memory is looked at, and nowhere else.
class CountedCall {
 public:
  CountedCall();
  ~CountedCall();
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;
};

// The way to the inter-op threads.
Submit Pool(tensorflow::OpKernelContext* ctx);
// Whether the calling thread is one of TensorFlow's.
bool IsPoolThread();

// One call from outside of any body: what all invocations below it share.
class RootCall {
 public:
  // `submit`: the way to the threads that run its tasks.
  RootCall(tensorflow::OpKernelContext* ctx, std::shared_ptr<Program> program, Submit submit);
  ~RootCall();

  Program* program() const { return program_.get(); }
  const std::shared_ptr<Program>& shared_program() const { return program_; }
  // Has a task run. Another thread may run it, and end this call with it, before this returns.
  void Schedule(Task task);
  // Its memoized calls; null where the program has none.
  const std::shared_ptr<SharedCalls>& shared_calls() const { return shared_calls_; }
  // How many the executor has.
  int threads() const { return program_->threads(); }
  const tensorflow::FunctionLibraryRuntime::Options& options() const { return options_; }
  // Has invocations counted from now on. Only before any has begun.
  void BeginToCount() { invocations_ = std::make_unique<ThreadCounts<1>>(); }
  int64_t invocations() const { return invocations_->Sum(0); }
  void CountInvocations(int64_t count) {
    if (invocations_ != nullptr) invocations_->Add(0, count);
  }
  bool cancelled() { return cancellation_.IsCancelled(); }
  tensorflow::CancellationManager* cancellation() { return &cancellation_; }

  // Keeps the first error that is not a consequence of another one, with where it happened: `call_path` gives that. It
  // is called for this one error alone: a path is as long as the recursion is deep, and every level has an error.
  void NoteError(const std::function<std::vector<std::string>()>& call_path, const absl::Status& status);
  // What the call from outside is to report in place of `status`.
  absl::Status FirstError(const absl::Status& status);

 private:
  absl::Status Explain(const std::vector<std::string>& call_path, const absl::Status& status) const;

  std::atomic<bool> has_error_{false};  // whether first_error_ is one

  const std::shared_ptr<Program> program_;
  tensorflow::CancellationManager cancellation_;
  std::shared_ptr<Scheduler> scheduler_;
  std::shared_ptr<SharedCalls> shared_calls_;
  std::unique_ptr<ThreadCounts<1>> invocations_;  // null where nobody wants to know
  tensorflow::FunctionLibraryRuntime::Options options_;
  std::mutex mutex_;
  absl::Status first_error_;
};

// What an invocation inherits from the one that made it, or was given by the call from outside.
struct Scope {
  RootCall* root = nullptr;
  Invocation* parent = nullptr;
  const std::string* label = nullptr;  // of the call site; outlives the invocation
  int64_t row = -1;  // of a mapped call, or -1
  std::shared_ptr<const Environment> environment;
  Sums* sums = nullptr;
  bool is_gradient = false;  // of a call from outside that is one, in which gradients call gradients alone
};

class Invocation final : public tensorflow::CallFrameInterface {
 public:
  using Done = std::function<void(const absl::Status&)>;

  Invocation(const Scope& scope, Tensors arguments, int results);
  ~Invocation() override;

  // The invocation that `ctx`'s kernel runs for; null outside of any.
  static Invocation* Current(tensorflow::OpKernelContext* ctx);

  // Starts the body and returns; `done` runs on a thread of the executor. The caller keeps this
  // object until then.
  void Start(Program::Handle body, Done done);

  RootCall* root() const { return scope_.root; }
  const Invocation* parent() const { return scope_.parent; }
  bool is_gradient() const { return scope_.is_gradient; }
  // Of its call site, with the row of a `map`.
  std::string label() const;
  const Environment* environment() const { return scope_.environment.get(); }
  const std::shared_ptr<const Environment>& shared_environment() const {
    return scope_.environment;
  }
  Sums* sums() const { return scope_.sums; }
  int64_t depth() const { return depth_; }
  std::vector<std::string> CallPath() const;
  // Before it starts.
  Tensors& arguments() { return arguments_; }
  const Tensors& arguments() const { return arguments_; }
  // Of no dtype where the body has given none.
  Tensors& results() { return results_; }

  size_t num_args() const override { return arguments_.size(); }
  size_t num_retvals() const override { return results_.size(); }
  absl::Status GetArg(int index, const tensorflow::Tensor** value) override;
  void ConsumeArg(int index, tensorflow::Tensor* value) override;
  bool CanConsumeArg(int index) const override;
  absl::Status SetRetval(int index, const tensorflow::Tensor& value) override;

 private:
  const Scope scope_;
  const int64_t depth_;
  Tensors arguments_;
  Tensors results_;
};

// What the stretches of a kernel in a body have in common: its call.
inline const void* CallOf(tensorflow::OpKernelContext* ctx) {
#ifdef RECGRAPH_THREAD_SANITIZER
  const Invocation* const invocation = Invocation::Current(ctx);
  if (invocation != nullptr) return invocation->root();
#endif
  (void)ctx;
  return nullptr;
}

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_INVOCATION_H_
