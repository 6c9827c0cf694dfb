// Invocations: how they start, how they are found, and what becomes of their errors.
#include "cc/kernels/invocation.h"

#include <mutex>
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "cc/core/batch_machine.h"
#include "cc/core/call_path.h"
#include "cc/core/memory_pool.h"
#include "cc/core/process_memory.h"
#include "cc/core/thread_counts.h"
#include "tensorflow/core/platform/env.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/shared_calls.h"

namespace recgraph {

using tensorflow::FunctionLibraryRuntime;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

namespace {

// What the executor calls to have a closure run. Small enough to live inside a std::function.
struct InvocationRunner {
  Invocation* invocation;
  void operator()(Task task) const {
    invocation->root()->Schedule(std::move(task));
  }
};

LiveCount all_invocations;
LiveCount all_plain_calls;

// The node that TensorFlow's message says an error came from: "... {{node NAME}} ...".
std::string FailedNode(const std::string& message) {
  constexpr char kOpen[] = "{{node ";
  const size_t open = message.find(kOpen);
  if (open == std::string::npos) return "";
  const size_t begin = open + sizeof(kOpen) - 1;
  const size_t end = message.find("}}", begin);
  return end == std::string::npos ? "" : message.substr(begin, end - begin);
}

}  // namespace

// A kernel's own runner may run everything on the calling thread: a
// function whose operations are run one by one is given such a one.
Submit Pool(OpKernelContext* ctx) {
  FunctionLibraryRuntime* const runtime = ctx->function_library();
  if (runtime != nullptr && runtime->runner() != nullptr && *runtime->runner()) {
    return Sending(*runtime->runner());
  }
  return Sending(*ctx->runner());
}

bool IsPoolThread() {
  // What TensorFlow's pools call their threads; it may change, and then their tasks wait a little longer.
  thread_local const bool is = [] {
    std::string name;
    return tensorflow::Env::Default()->GetCurrentThreadName(&name) && name.rfind("tf_", 0) == 0;
  }();
  return is;
}

InvocationCounts CountInvocations() {
  return {all_invocations.begun(), all_invocations.live(), all_invocations.peak()};
}

void CountBatchedInvocations(int64_t begun, int64_t live, int64_t above) {
  all_invocations.Add(begun, live, above);
}

void ResetPeakInvocations() { all_invocations.ResetPeak(); }

bool MemoryIsShort(int64_t live) {
  const int64_t limit = MemoryLimit();
  if (OwnMemory() <= limit) return false;
  MemoryPool::ReleaseLarge();
  return OwnMemory() > limit && (live >= batch::Machine::kMany || MemoryPool::Held() > limit / 4);
}

absl::Status CheckMemory() {
  constexpr int kCallsPerLook = 1 << 12;
  thread_local int calls = 0;
  thread_local PoolGrowth growth;
  const bool is_due = ++calls % kCallsPerLook == 0, has_grown = growth.Look();
  if (!is_due && !has_grown) return absl::OkStatus();
  const int64_t live = all_invocations.live() + all_plain_calls.live();
  if (live < (has_grown ? batch::Machine::kFew : batch::Machine::kMany)) return absl::OkStatus();
  return MemoryIsShort(live) ? TooMany(live) : absl::OkStatus();
}

CountedCall::CountedCall() { all_plain_calls.Add(1, 1); }
CountedCall::~CountedCall() { all_plain_calls.Add(0, -1); }

RootCall::RootCall(OpKernelContext* ctx, std::shared_ptr<Program> program, Submit submit)
    : program_(std::move(program)), cancellation_(ctx->cancellation_manager()),
      options_(ctx->step_id()) {
  scheduler_ = MakeScheduler(DefaultPolicy(), threads(), std::move(submit));
  options_.rendezvous = ctx->rendezvous();
  options_.cancellation_manager = &cancellation_;
  options_.collective_executor = ctx->collective_executor();
  options_.step_container = ctx->step_container();
  options_.stats_collector = ctx->stats_collector();
  // An invocation is the grain of parallelism: its own operations run on one thread.
  options_.run_all_kernels_inline = true;
  if (program_->memoizes()) shared_calls_ = std::make_shared<SharedCalls>(this);
}

RootCall::~RootCall() {
  if (shared_calls_ != nullptr) shared_calls_->Clear();
}

void RootCall::Schedule(Task task) {
  const std::shared_ptr<Scheduler> scheduler = scheduler_;
  scheduler->Schedule(shared_calls_ == nullptr ? std::move(task) : shared_calls_->Counted(std::move(task)));
}

absl::Status TooDeep(int64_t max_depth) {
  return errors::ResourceExhausted(
      "the recursion is more than max_depth = ", max_depth,
      " invocations deep: it may never end; if it does, give the SubGraph a larger max_depth");
}

absl::Status TooMany(int64_t live) {
  constexpr double kGb = 1e9;
  return errors::ResourceExhausted(
      "the recursion may never end: ", live, " invocations are live at once, and the process has ",
      absl::StrFormat("%.1f of the %.1f GB that it may have", OwnMemory() / kGb, MemoryLimit() / kGb),
      "; if it does end, call it for fewer roots at once or set RECGRAPH_MEMORY_GB");
}

void RootCall::NoteError(const std::function<std::vector<std::string>()>& call_path, const absl::Status& status) {
  if (absl::IsCancelled(status) || has_error_.exchange(true)) return;
  const absl::Status explained = Explain(call_path(), status);
  std::lock_guard<std::mutex> lock(mutex_);
  first_error_ = explained;
}

absl::Status RootCall::FirstError(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  return first_error_.ok() ? status : first_error_;
}

absl::Status RootCall::Explain(const std::vector<std::string>& call_path,
                               const absl::Status& status) const {
  std::string message(status.message());
  const std::string node = FailedNode(message);
  if (!node.empty()) {
    message += "\n  operation: " + node;
    const std::string origin = program_->Origin(node);
    if (!origin.empty()) message += " (" + origin + ")";
  }
  message += "\n  call path: " + FormatCallPath(call_path);
  return absl::Status(status.code(), message);
}

Invocation::Invocation(const Scope& scope, Tensors arguments, int results)
    : scope_(scope), depth_(scope.parent == nullptr ? 1 : scope.parent->depth() + 1),
      arguments_(std::move(arguments)), results_(results, Tensor(tensorflow::DT_INVALID)) {
  all_invocations.Add(1, 1);
  scope.root->CountInvocations(1);
}

Invocation::~Invocation() { all_invocations.Add(0, -1); }

Invocation* Invocation::Current(OpKernelContext* ctx) {
  if (ctx->runner() == nullptr) return nullptr;
  const auto* runner = ctx->runner()->target<InvocationRunner>();
  return runner == nullptr ? nullptr : runner->invocation;
}

void Invocation::Start(Program::Handle body, Done done) {
  std::function<void(Task)> runner = InvocationRunner{this};
  FunctionLibraryRuntime::Options options = scope_.root->options();
  options.runner = &runner;  // copied by Run before it returns
  scope_.root->program()->runtime()->Run(
      options, body, this, [this, done = std::move(done)](const absl::Status& status) {
        Stretch::TakeOver(root());
        if (!status.ok()) root()->NoteError([this] { return CallPath(); }, status);
        done(status);
      });
}

std::string Invocation::label() const { return WithRow(*scope_.label, scope_.row); }

std::vector<std::string> Invocation::CallPath() const {
  std::vector<std::string> labels;
  for (const Invocation* i = this; i != nullptr; i = i->scope_.parent) {
    labels.push_back(i->label());
  }
  std::reverse(labels.begin(), labels.end());
  return labels;
}

absl::Status Invocation::GetArg(int index, const Tensor** value) {
  if (index < 0 || static_cast<size_t>(index) >= arguments_.size()) {
    return errors::InvalidArgument("no argument ", index, " among ",
                                               arguments_.size());
  }
  *value = &arguments_[index];
  return absl::OkStatus();
}

bool Invocation::CanConsumeArg(int index) const {
  return index >= 0 && static_cast<size_t>(index) < arguments_.size();
}

void Invocation::ConsumeArg(int index, Tensor* value) {
  const Stretch stretch(root());
  *value = std::move(arguments_[index]);
}

absl::Status Invocation::SetRetval(int index, const Tensor& value) {
  if (index < 0 || static_cast<size_t>(index) >= results_.size()) {
    return errors::InvalidArgument("no result ", index, " among ", results_.size());
  }
  const Stretch stretch(root());
  results_[index] = value;
  return absl::OkStatus();
}

}  // namespace recgraph
