// How a step parts with its graph: it waits for a value, leaves it, or comes to its end.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "cc/python/bystanders.h"
#include "cc/python/device.h"
#include "cc/python/location.h"
#include "cc/python/pending.h"
#include "cc/python/signals.h"
#include "cc/python/step.h"
#include "cc/python/tensors.h"

namespace recgraph {
namespace {

using tensorflow::Tensor;

constexpr char kSignal[] = "a signal";
constexpr int64_t kLongStep = 10'000'000;

// When the graph should be told what Python tells it, after a step that took `whole` nanoseconds, of which Python waited
// `waited` for the graph's end. A later start must not matter, and it is Python's time that counts.
Delivery NextDelivery(int64_t whole, int64_t waited) {
  return whole < kLongStep || waited > whole / 20 ? Delivery::kAtOnce : Delivery::kSoon;
}

}  // namespace

// Notes what an outside input was, for the trace.
void Step::Describe(Input* input) {
  if (input->external == nullptr || input->resource >= 0) return;
  const Tensor& tensor = *input->tensor;
  const bool is_small = tensorflow::DataTypeCanUseMemcpy(tensor.dtype()) && IsSmall(tensor);
  input->described = std::make_unique<const Described>(
      Described{ShapeOf(tensor), is_small, is_small ? std::string(tensor.tensor_data()) : ""});
}

absl::Status Step::Materialise(Value* value) {
  std::lock_guard working(access_->mutex);
  const int64_t began_at = Now();
  while (HasGraph()) {
    if (value->slot() < 0) return Leave("a value that is not fetched is needed");
    switch (value->Receive(kPatience)) {
      case Meeting::kValue:
        stalls_.push_back({Locate(base_), value->node, Now() - began_at});
        return absl::OkStatus();
      case Meeting::kClosed:
        return Leave("an operation failed");
      case Meeting::kTimeout:
        const std::string why = WhyToWaitNoLonger();
        if (!why.empty()) return Leave(why);
    }
  }
  if (!failure_.ok()) return failure_;
  return value->Peek() != nullptr ? absl::OkStatus() : absl::InternalError("a tensor of this step has no value");
}

// What has been done has to be done again in any case when the program does not come to its end. Then the value is
// there, and the exception is raised where eager execution raises it: after the operation. A handler that needs a value
// has the step leave its graph itself.
std::string Step::WhyToWaitNoLonger() const {
  if (run_->is_unwanted) return kAnotherThread;
  return HandleSignals() || !HasGraph() ? kSignal : "";
}

// Waits for an output of a node, of the trip at `position` if it is in a loop. Returns why it did not come; "" if it did.
std::string Step::Await(const Node& node, int number, size_t output, int position, Tensor* value) {
  const int64_t began_at = Now();
  std::string why;
  Meeting meeting = Meeting::kTimeout;
  run_->Hurry();
  while (meeting == Meeting::kTimeout && why.empty()) {
    meeting = run_->channels().Wait(node.fetches[output], position, kPatience, value);
    if (meeting == Meeting::kTimeout) why = WhyToWaitNoLonger();
  }
  stalls_.push_back({node.location, number, Now() - began_at});
  return meeting == Meeting::kClosed ? "failed" : why;
}

void Step::Attend(Run& run, Value* value) {
  std::unique_lock working(run.access->mutex, std::try_to_lock);
  Step* step = working.owns_lock() ? run.access->step : nullptr;
  if (step == nullptr || step->run_.get() != &run || step->is_ending_) return;
  if (value->slot() >= 0) return;
  step->LeaveAt(step->plan_->nodes[value->node].location, kAnotherThread).IgnoreError();  // the value has the error
}

bool Step::StandsBefore(const Uses& uses) const {
  return absl::c_any_of(uses, [this](const Use& use) {
    if (use.is_write) return plan_->variables->all.count(use.resource) > 0;  // the graph may have read it already
    return plan_->variables->written.count(use.resource) > 0 && absl::c_any_of(records_, [&use](const Record& record) {
      if (!record.signature->may_write) return false;
      return absl::c_any_of(record.inputs, [&use](const Input& input) { return input.resource == use.resource; });
    });
  });
}

Step::Turn Step::MakeWay(Run& run, const Uses& uses, size_t* done) {
  std::unique_lock working(run.access->mutex, std::try_to_lock);
  if (!working.owns_lock()) return Turn::kLater;
  Step* step = run.access->step;
  if (step == nullptr) return Turn::kAtEnd;
  if (step->run_.get() != &run || step->is_ending_ || !step->StandsBefore(uses)) return Turn::kYours;
  const std::vector<Record>& records = step->records_;
  if (step != Current() && *done != kAnything && std::exchange(*done, records.size()) != records.size()) {
    return Turn::kLater;
  }
  step->LeaveAt(records.empty() ? -1 : records.back().location, kAnothersUse).IgnoreError();  // the values have the error
  return Turn::kYours;
}

void Step::LetGo() {
  presence_ = nullptr;
  run_ = nullptr;
}

absl::Status Step::Leave(const std::string& reason) { return LeaveAt(is_ending_ ? -1 : Locate(base_), reason); }

absl::Status Step::LeaveAt(int location, const std::string& reason) {
  if (!HasGraph()) return failure_;
  left_at_ = location;
  run_->Cancel();
  const absl::Status before = line_->Settle(0);  // what the program has done before this step comes first
  if (!before.ok()) Discard(before, kBefore);
  return before.ok() ? DoAgain(reason) : before;
}

void Step::PrepareFork() {
  std::lock_guard working(access_->mutex);
  if (!HasGraph()) return;
  std::shared_ptr<Run> run = run_;
  Leave("the process was forked").IgnoreError();  // whoever needs a value that is not there gets the error
  run->Wait().IgnoreError();
}

absl::Status Step::DoAgain(const std::string& reason) {
  reason_ = reason;
  LetGo();
  std::vector<std::vector<HandlePtr>> results(records_.size());
  size_t index = 0;
  for (; failure_.ok() && index < records_.size(); ++index) failure_ = Redo(index, &results);
  for (size_t i = failure_.ok() ? index : index - 1; i < records_.size(); ++i) {
    for (ValuePtr& value : records_[i].outputs) value->Fail(failure_);
  }
  return failure_;
}

void Step::Discard(const absl::Status& error, const std::string& reason) {
  failure_ = error;
  reason_ = reason;
  was_coexecuted_ = false;
  run_->Cancel();
  LetGo();
  for (Record& record : records_) {
    for (ValuePtr& value : record.outputs) value->Fail(error);
  }
}

// A value that the graph has given stays what it was, as Python may have seen it. It could come out otherwise now if
// another thread has written variables of the step.
absl::Status Step::Redo(size_t index, std::vector<std::vector<HandlePtr>>* results) {
  Record& record = records_[index];
  std::vector<HandlePtr>& values = (*results)[index];
  bool is_known = record.signature->kind == Kind::kPure;
  for (ValuePtr& value : record.outputs) {
    values.push_back(value->Peek());
    is_known &= values.back() != nullptr;
  }
  if (is_known) return absl::OkStatus();
  std::vector<Handle*> inputs;
  for (const Input& input : record.inputs) {
    inputs.push_back(input.value == nullptr ? input.external.get()
                                            : (*results)[input.value->record][input.value->output].get());
  }
  std::vector<Handle*> made(record.outputs.size());
  int count = static_cast<int>(made.size());
  TF_RETURN_IF_ERROR(RunWith(record.signature->name, record.signature->attributes, inputs, made.data(), &count));
  for (int i = 0; i < count; ++i) {
    HandlePtr value(made[i]);
    if (values[i] != nullptr) continue;
    if (record.outputs[i]->is_alive()) record.outputs[i]->Set(value.get());
    values[i] = std::move(value);
  }
  return absl::OkStatus();
}

const Way* Step::WayToEnd() const {
  for (const Way& way : *next_) {
    if (way.node == plan_->end()) return &way;
  }
  return nullptr;
}

std::string Step::WhyNotToCommit() const {
  if (run_->is_unwanted) return kAnotherThread;
  if (WayToEnd() == nullptr) return "new path: the step ends here";
  for (const Record& record : records_) {
    for (const ValuePtr& value : record.outputs) {
      if (value->is_alive() && value->slot() < 0 && value->Peek() == nullptr) {
        return "a tensor that is not fetched outlives the step: " + record.signature->name;
      }
    }
  }
  return "";
}

absl::Status Step::Commit(bool may_run_ahead) {
  Tell(*WayToEnd());
  if (plan_->commit >= 0) Tell(plan_->commit, 0);
  Send();
  was_coexecuted_ = true;
  run_->Hurry();
  if (may_run_ahead && !run_->IsTimed() && !plan_->IsLazy()) {
    was_ahead_ = true;
    plan_->is_busy = false;
    return absl::OkStatus();
  }
  const absl::Status before = line_->Settle(0);  // if one of them has failed, it is done again before this one
  if (!before.ok()) Discard(before, kBefore);
  return before.ok() ? Settle() : before;
}

absl::Status Step::Settle() {
  const int64_t began_at = Now();
  while (!run_->EndsWithin(kPatience)) {
    if (!HandleSignals() || !run_->Cancel()) continue;
    Discard(absl::CancelledError("the step was interrupted before its graph had ended"), kSignal);
    return failure_;
  }
  const absl::Status outcome = run_->Wait();
  stalls_.push_back({-1, -1, Now() - began_at});
  graph_times_ = run_->times();
  if (!plan_->IsLazy()) plan_->delivery = NextDelivery(nanoseconds(), stalls_.back().nanoseconds);
  const bool has_happened = outcome.ok() || run_->HasCommitted();
  if (!has_happened || (!ReceiveAll() && IsReplayed())) {
    was_coexecuted_ = false;
    return DoAgain(absl::IsAborted(outcome) ? "another thread has written a variable of the step" : "an operation failed");
  }
  LetGo();
  return outcome;
}

// Takes what outlives the step. Whether it was there, which in a replayed step it may not be.
bool Step::ReceiveAll() {
  bool has_all = true;
  for (Record& record : records_) {
    for (ValuePtr& value : record.outputs) {
      if (value->is_alive()) has_all &= value->Receive(std::chrono::milliseconds(0)) == Meeting::kValue;
    }
  }
  return has_all;
}

absl::Status Step::End(bool was_raised, bool may_run_ahead) {
  std::lock_guard working(access_->mutex);
  absl::Status status;
  is_ending_ = true;
  if (HasGraph()) {
    const std::string why = was_raised ? "an exception" : WhyNotToCommit();
    status = why.empty() ? Commit(may_run_ahead) : Leave(why);
  }
  Detach();
  if (was_coexecuted_) return status;  // an error here is one of the last writes
  for (Record& record : records_) {
    for (Input& input : record.inputs) Describe(&input);
  }
  return was_raised ? absl::OkStatus() : status;
}

}  // namespace recgraph
