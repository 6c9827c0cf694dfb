// Steps that Python is through with while their graphs still compute.
#include "cc/python/pending.h"

#include <utility>

#include "cc/python/interpreter_lock.h"
#include "cc/python/resources.h"

namespace recgraph {

std::unique_lock<WithoutInterpreter<2>> Line::Lock() {
  std::unique_lock<WithoutInterpreter<2>> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    const InterpreterUnlocked waiting;
    lock.lock();
  }
  return lock;
}

void Line::Add(std::unique_ptr<Step> step) {
  const auto lock = Lock();
  steps_.push_back(std::move(step));
}

std::shared_ptr<Run> Line::LastRun() {
  const auto lock = Lock();
  return steps_.empty() ? nullptr : steps_.back()->run();
}

const Plan* Line::LastPlan() {
  const auto lock = Lock();
  return steps_.empty() ? nullptr : steps_.back()->plan();
}

absl::Status Line::Settle(size_t most) {
  const auto lock = Lock();
  absl::Status status = std::exchange(kept_, absl::OkStatus());
  while (steps_.size() > most || (!steps_.empty() && (!status.ok() || steps_.front()->HasFinished()))) {
    std::unique_ptr<Step> first = std::move(steps_.front());
    steps_.pop_front();
    if (status.ok()) {
      status = first->Settle();
    } else {
      first->Discard(status, kBefore);
    }
  }
  return status;
}

void Line::SettleForOther() {
  const auto lock = Lock();
  kept_ = Settle(0);
}

const std::shared_ptr<Line>& ThisLine() {
  thread_local const auto line = std::make_shared<Line>();
  return line;
}

absl::Status SettleBefore(const tensorflow::EagerOperation& operation) {
  if (ThisLine()->LastPlan() == nullptr) return absl::OkStatus();
  bool is_seen = SignatureOf(operation).kind == Kind::kOpaque;
  for (Handle* input : operation.Inputs()) {
    is_seen |= input->DataType() == tensorflow::DT_RESOURCE && ResourceNumber(input, false) != kUnknownResource;
  }
  return is_seen ? ThisLine()->Settle(0) : absl::OkStatus();
}

}  // namespace recgraph
