// How a call begins and ends.
#include "cc/kernels/call_op.h"

#include <cfenv>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/rows.h"
#include "cc/kernels/shared_calls.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/platform/hash.h"
#include "tsl/platform/denormal.h"
#include "tsl/platform/setround.h"

namespace recgraph {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

namespace {

// For so long, no thread of the pool has begun a task of an eager call that waits: then the calling thread does.
constexpr std::chrono::milliseconds kPatience{100};

// Those that wait to use resources that their bodies read and write, and those that use them.
Turns& Waiting() {
  static Turns* const turns = new Turns;  // outlives all threads
  return *turns;
}

// What a kernel's resources are known by.
std::vector<uint64_t> Resources(OpKernelContext* ctx) {
  std::vector<uint64_t> resources;
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    if (ctx->input_dtype(i) != tensorflow::DT_RESOURCE) continue;
    const auto handles = ctx->input(i).flat<tensorflow::ResourceHandle>();
    for (int64_t j = 0; j < handles.size(); ++j) {
      const tensorflow::ResourceHandle& handle = handles(j);
      resources.push_back(handle.IsRefCounting()
                              ? reinterpret_cast<uintptr_t>(handle.resource().get())
                              : tensorflow::Hash64(absl::StrCat(handle.container(), "/", handle.name())));
    }
  }
  return resources;
}

}  // namespace

void Call::Update(const absl::Status& new_status) {
  if (new_status.ok()) return;
  std::lock_guard<std::mutex> lock(mutex);
  if (status.ok() || absl::IsCancelled(status)) status = new_status;
}

absl::Status Call::Status() {
  std::lock_guard<std::mutex> lock(mutex);
  return status;
}

void Call::Measure(const CallClass& which, bool gradient) {
  own_root->BeginToCount();
  measured = {which, engine, gradient, std::chrono::steady_clock::now()};
}

void Call::Finish() {
  if (opens_environment) Update(CatchingAll([this] { return scope.environment->WriteBack(); }));
  const absl::Status result = Status();
  if (!result.ok()) ctx->SetStatus(Reported(result));
  if (result.ok() && measured) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - measured->start;
    own_root->program()->choice()->Add(measured->call, measured->engine, measured->gradient,
                                       elapsed.count(), own_root->invocations());
  }
  turn = nullptr;
  const tensorflow::AsyncOpKernel::DoneCallback report = std::move(done);
  const std::shared_ptr<SharedTasks> ended = std::move(tasks);
  const void* const above = own_root == nullptr ? scope.root : nullptr;
  Stretch::TakeOver(scope.root);  // all that its bodies have done
  delete this;
  Stretch::HandOver(above);
  if (ended != nullptr) ended->End();
  report();
}

// A call in a body leaves its error with the call from outside, which reports the first one; it ends its body as
// cancelled, so that no other error comes of it.
absl::Status Call::Reported(const absl::Status& result) const {
  if (own_root != nullptr) return own_root->FirstError(result);
  if (scope.root == nullptr) return result;  // it did not get as far as to belong to one
  const auto call_path = [this] {
    std::vector<std::string> path;
    if (scope.parent != nullptr) path = scope.parent->CallPath();
    path.push_back(*scope.label);
    return path;
  };
  scope.root->NoteError(call_path, result);
  return errors::Cancelled("an invocation below has failed");
}

CallOp::CallOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
  OP_REQUIRES_OK(ctx, ctx->GetAttr("entry", &entry_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("key", &key_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("program", &library_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("site", &site_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("map", &map_));
}

void CallOp::ComputeAsync(OpKernelContext* ctx, DoneCallback done) {
  Call* const call = new Call;
  call->ctx = ctx;
  call->done = std::move(done);
  Run(call);
}

void CallOp::Compute(OpKernelContext* ctx) {
  // As on TensorFlow's threads: which one an invocation runs on must not show in its results.
  const tsl::port::ScopedFlushDenormal flush;
  const tsl::port::ScopedSetRound round(FE_TONEAREST);
  const auto tasks = std::make_shared<SharedTasks>(Pool(ctx));
  Call* const call = new Call;
  call->ctx = ctx;
  call->tasks = tasks;
  call->done = [] {};
  Run(call);
  tasks->RunUntilEnd(IsPoolThread() ? std::chrono::milliseconds(0) : kPatience);
}

void CallOp::Run(Call* call) {
  Stretch::TakeOver(CallOf(call->ctx));
  const absl::Status status = CatchingAll([&] { return Begin(call); });
  if (!status.ok()) {
    call->Update(status);
    call->Finish();
  } else if (call->own_root != nullptr && takes_turns_.load(std::memory_order_relaxed) &&
             Invocation::Current(call->ctx) == nullptr) {
    LaunchInTurn(call);
  } else {
    Launch(call);
  }
}

// What begins a turn or gives it up runs on a thread of the executor: neither inside of the call whose turn has ended
// nor inside of a cancellation, which waits for its callbacks.
void CallOp::LaunchInTurn(Call* call) {
  RootCall* const root = call->own_root.get();
  const auto token = root->cancellation()->get_cancellation_token();
  // As soon as the turn can be given up or begins, the call may be over before this thread goes on: it holds the turn, too.
  const std::shared_ptr<Turns::Turn> turn = Waiting().Take(Resources(call->ctx), [this, call, root, token] {
    root->Schedule([this, call, root, token] {
      root->cancellation()->DeregisterCallback(token);
      Stretch::TakeOver(root);
      Launch(call);
    });
  });
  call->turn = turn;
  const auto give_up = [call, root, turn, token] {
    const Stretch stretch(root);
    if (!turn->GiveUp()) return;
    root->Schedule([call, root, token] {
      root->cancellation()->DeregisterCallback(token);
      Stretch::TakeOver(root);
      call->Update(errors::Cancelled("the step was cancelled"));
      call->Finish();
    });
  };
  // Where it is cancelled already, whoever begins sees it.
  root->cancellation()->RegisterCallback(token, Following(give_up));
  Turns::Begin(turn);
}

absl::Status CallOp::Begin(Call* call) {
  Scope& scope = call->scope;
  scope.label = &site_;
  scope.row = map_ ? 0 : -1;
  if (!key_.empty()) {
    std::shared_ptr<Program> program;
    TF_RETURN_IF_ERROR(FindProgram(call->ctx, &program));
    // Python functions in bodies would see the tapes and scopes of a thread that is not TensorFlow's own.
    if (call->tasks != nullptr) call->tasks->Prepare(program->threads(), !program->runs_python());
    call->own_root = std::make_unique<RootCall>(
        call->ctx, std::move(program), call->tasks == nullptr ? Pool(call->ctx) : call->tasks->submit());
    scope.root = call->own_root.get();
  } else {
    Invocation* const parent = Invocation::Current(call->ctx);
    if (parent == nullptr) {
      return errors::FailedPrecondition(
          name(), ": this call of ", entry_,
          " was made while a SubGraph was being defined and can only run inside of one");
    }
    scope.root = parent->root();
    scope.parent = parent;
    scope.environment = parent->shared_environment();
    scope.sums = parent->sums();
  }
  if (scope.root->cancelled()) return errors::Cancelled("the step was cancelled");
  TF_RETURN_IF_ERROR(CheckMemory());
  return Prepare(call);
}

absl::Status CallOp::FindProgram(OpKernelContext* ctx, std::shared_ptr<Program>* program) {
  std::lock_guard<std::mutex> lock(mutex_);
  *program = library_.empty() ? registered_.lock() : program_;
  if (*program != nullptr) return absl::OkStatus();
  TF_RETURN_IF_ERROR(Program::Get(ctx->function_library(), key_, library_, program));
  library_.empty() ? registered_ = *program : program_ = *program;
  takes_turns_ = (*program)->TakesTurns(entry_);
  return absl::OkStatus();
}

Scope CallOp::NextScope(const Call& call) const {
  Scope scope = call.scope;
  if (map_) scope.row = call.invocations.size();
  return scope;
}

std::string CallOp::FunctionName(BodyKind kind) const {
  constexpr const char* kSuffixes[] = {"", ".rec", ".grad"};
  return entry_ + kSuffixes[static_cast<int>(kind)];
}

absl::Status CallOp::FindBody(Call* call, BodyKind kind, Body* body) {
  const auto place = static_cast<int>(kind);
  if (knows_body_[place].load(std::memory_order_acquire)) {
    *body = bodies_[place];
    return absl::OkStatus();
  }
  Program* const program = call->scope.root->program();
  const std::string name = FunctionName(kind);
  TF_RETURN_IF_ERROR(program->Function(name, &body->handle));
  body->runs_in_order = program->RunsInOrder(name);
  body->is_memoized = program->IsMemoized(name);
  body->adds_up = kind == BodyKind::kRecorded && program->IsMemoized(FunctionName(BodyKind::kGradient));
  if (key_.empty() || !library_.empty()) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!knows_body_[place].load(std::memory_order_relaxed)) bodies_[place] = *body;
    knows_body_[place].store(true, std::memory_order_release);
  }
  return absl::OkStatus();
}

void CallOp::StartAll(Call* call, BodyKind kind) {
  Body body;
  call->Update(FindBody(call, kind, &body));
  const size_t count = call->invocations.size();
  if (count == 0 || !call->Status().ok()) return AllDone(call);
  if (call->tasks != nullptr) call->tasks->LeaveFirst();
  if (count > 1 && body.runs_in_order) return StartInOrder(call, 0, body.handle);
  call->pending.store(count, std::memory_order_relaxed);
  // The call may be over before the last row has been started, and what it shares is to know of all of them first.
  const std::shared_ptr<SharedCalls> shared = call->scope.root->shared_calls();
  if (shared != nullptr) shared->BeginWork();
  for (size_t i = 0; i < count; ++i) StartOne(call, i, kind, body);
  if (shared != nullptr) shared->EndWork();
}

void CallOp::StartOne(Call* call, size_t row, BodyKind kind, const Body& body) const {
  Invocation* const invocation = call->invocations[row].get();
  Invocation::Done done = [this, call](const absl::Status& status) { OneDone(call, status); };
  if (!body.is_memoized || (kind == BodyKind::kGradient && !invocation->is_gradient())) {
    return invocation->Start(body.handle, std::move(done));
  }
  SharedCalls* const shared = call->scope.root->shared_calls().get();
  if (kind == BodyKind::kGradient) return shared->StartGradient(invocation, body.handle, std::move(done));
  shared->Start(invocation, body.handle, body.adds_up, std::move(done));
}

void CallOp::StartInOrder(Call* call, size_t row, Program::Handle body) const {
  call->invocations[row]->Start(body, [this, call, row, body](const absl::Status& status) {
    call->Update(status);
    if (status.ok() && call->scope.root->cancelled()) call->Update(errors::Cancelled("the step was cancelled"));
    if (!call->Status().ok() || row + 1 == call->invocations.size()) return AllDone(call);
    // Not on the stack of the one that has ended: there may be any number of rows.
    call->scope.root->Schedule([this, call, row, body] { StartInOrder(call, row + 1, body); });
  });
}

void CallOp::OneDone(Call* call, const absl::Status& status) const {
  call->Update(status);
  if (call->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) AllDone(call);
}

void CallOp::AllDone(Call* call) const {
  if (call->own_root != nullptr && call->own_root->shared_calls() != nullptr && call->Status().ok()) {
    call->Update(call->own_root->shared_calls()->CheckGradients());
  }
  if (call->Status().ok()) call->Update(CatchingAll([&] { return SetOutputs(call); }));
  call->Finish();
}

absl::Status CallOp::SetResults(Call* call,
                                const std::vector<tensorflow::PartialTensorShape>& shapes) const {
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!map_) {
      TF_RETURN_IF_ERROR(SetOutput(call->ctx, i, std::move(call->invocations[0]->results()[i])));
      continue;
    }
    std::vector<Tensor> rows;
    for (auto& invocation : call->invocations) {
      rows.push_back(std::move(invocation->results()[i]));
    }
    Tensor stacked;
    TF_RETURN_IF_ERROR(
        StackRows(rows, call->ctx->expected_output_dtype(i), shapes[i], &stacked));
    TF_RETURN_IF_ERROR(SetOutput(call->ctx, i, std::move(stacked)));
  }
  return absl::OkStatus();
}

}  // namespace recgraph
