// Steps that Python is through with while their graphs still compute.
#include "cc/python/pending.h"

#include <deque>
#include <utility>

#include "cc/python/resources.h"

namespace recgraph {
namespace {

thread_local std::deque<std::unique_ptr<Step>> line;

}  // namespace

void AddPending(std::unique_ptr<Step> step) { line.push_back(std::move(step)); }

const Step* LastPending() { return line.empty() ? nullptr : line.back().get(); }

absl::Status SettlePending(size_t most) {
  absl::Status status;
  while (line.size() > most || (!line.empty() && (!status.ok() || line.front()->HasFinished()))) {
    std::unique_ptr<Step> first = std::move(line.front());
    line.pop_front();
    if (status.ok()) {
      status = first->Settle();
    } else {
      first->Discard(status, kBefore);
    }
  }
  return status;
}

absl::Status SettleBefore(const tensorflow::EagerOperation& operation) {
  if (line.empty()) return absl::OkStatus();
  bool is_seen = SignatureOf(operation).kind == Kind::kOpaque;
  for (Handle* input : operation.Inputs()) {
    is_seen |= input->DataType() == tensorflow::DT_RESOURCE && ResourceNumber(input, false) != kUnknownResource;
  }
  return is_seen ? SettlePending(0) : absl::OkStatus();
}

}  // namespace recgraph
