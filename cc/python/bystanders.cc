// Threads that use variables of steps which run elsewhere.
#include "cc/python/bystanders.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "cc/kernels/checked.h"
#include "cc/python/interpreter_lock.h"
#include "cc/python/pipelines.h"
#include "cc/python/resources.h"
#include "cc/python/signature.h"
#include "cc/python/step.h"
#include "tensorflow/core/common_runtime/eager/eager_op_rewrite_registry.h"

namespace recgraph {

struct Presence::Entry {
  std::shared_ptr<Run> run;
  std::shared_ptr<const Variables> variables;
  std::weak_ptr<Line> line;
};

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Entries = std::vector<std::shared_ptr<const Presence::Entry>>;

// A step that has done nothing for so long may be waiting for us; and one that still goes on after so long, too.
constexpr milliseconds kLook(20);
constexpr milliseconds kMost(2000);

// Between looks at a step whose graph has ended already.
constexpr milliseconds kShort(1);

// Of passes over eager operations; those of TensorFlow have other numbers.
constexpr int kOrdinal = 41'000;

struct Present {
  std::mutex mutex;
  Entries entries;
  std::atomic<int> count{0};
};

std::atomic<Present*>& AllPresent() {
  static auto* present = new std::atomic<Present*>(new Present);
  return *present;
}

thread_local bool is_unwatched = false;

Entries Snapshot() {
  Present& present = *AllPresent().load();
  std::lock_guard<std::mutex> lock(present.mutex);
  return present.entries;
}

bool IsAnyPresent() { return AllPresent().load(std::memory_order_relaxed)->count.load(std::memory_order_relaxed) > 0; }

Uses UsesOf(const tensorflow::EagerOperation& operation) {
  Uses uses;
  for (Handle* input : operation.Inputs()) {
    if (input->DataType() != tensorflow::DT_RESOURCE || ValueOf(input) != nullptr) continue;
    const int number = ResourceNumber(input, false);
    if (number != kUnknownResource) uses.push_back({number, true});
  }
  if (!uses.empty()) {
    const Signature& signature = SignatureOf(operation);
    if (signature.kind == Kind::kHarmless) return {};
    for (Use& use : uses) use.is_write = signature.may_write;
  }
  AddPipelineUses(operation, &uses);
  return uses;
}

Uses UsesOf(const Plan& plan) {
  Uses uses;
  for (int number : plan.variables->all) uses.push_back({number, plan.variables->written.count(number) > 0});
  return uses;
}

// Whether it matters what of this is done first.
bool AreOrdered(const Variables& variables, const Uses& uses) {
  return absl::c_any_of(uses, [&variables](const Use& use) {
    return (use.is_write ? variables.all : variables.written).count(use.resource) > 0;
  });
}

void WaitForStep(const Presence::Entry& entry, const Uses& uses) {
  if (!AreOrdered(*entry.variables, uses)) return;
  const InterpreterUnlocked waiting;
  const Clock::time_point deadline = Clock::now() + kMost;
  size_t done = Step::kNothing;
  while (true) {
    if (Clock::now() > deadline) done = Step::kAnything;
    switch (Step::MakeWay(*entry.run, uses, &done)) {
      case Step::Turn::kYours:
        return;
      case Step::Turn::kAtEnd:
        if (const std::shared_ptr<Line> line = entry.line.lock()) line->SettleForOther();
        return;
      case Step::Turn::kLater:
        if (entry.run->HasEnded()) {
          std::this_thread::sleep_for(kShort);
        } else {
          entry.run->EndsWithin(kLook);
        }
    }
  }
}

// But not for those of a line.
void WaitForAll(const Uses& uses, const Line* but) {
  if (uses.empty()) return;
  for (const auto& entry : Snapshot()) {
    if (but == nullptr || entry->line.lock().get() != but) WaitForStep(*entry, uses);
  }
}

// A pass that changes nothing.
class Pass : public tensorflow::EagerOpRewrite {
 public:
  Pass() : EagerOpRewrite("recgraph", __FILE__, std::to_string(__LINE__)) {}

  absl::Status Run(tensorflow::EagerOperation* operation, std::unique_ptr<tensorflow::EagerOperation>*) override {
    return CatchingAll([operation] {
      NotePipeline(*operation);
      if (!is_unwatched) recgraph::WaitForSteps(*operation);
      return absl::OkStatus();
    });
  }
};

}  // namespace

Presence::Presence(std::shared_ptr<Run> run, std::shared_ptr<const Variables> variables, std::weak_ptr<Line> line)
    : entry_(new Entry{std::move(run), std::move(variables), std::move(line)}) {
  Present& present = *AllPresent().load();
  std::lock_guard<std::mutex> lock(present.mutex);
  present.entries.push_back(entry_);
  ++present.count;
}

Presence::~Presence() {
  Present& present = *AllPresent().load();
  std::lock_guard<std::mutex> lock(present.mutex);
  const auto found = absl::c_find(present.entries, entry_);
  if (found == present.entries.end()) return;  // it is of before a fork
  present.entries.erase(found);
  --present.count;
}

// What the other process has may be locked.
void Presence::NoteFork() { AllPresent() = new Present; }

void WatchBystanders() {
  using Registry = tensorflow::EagerOpRewriteRegistry;
  Registry::Global()->Register(Registry::PRE_EXECUTION, kOrdinal, std::make_unique<Pass>());
}

Unwatched::Unwatched() : was_unwatched_(std::exchange(is_unwatched, true)) {}
Unwatched::~Unwatched() { is_unwatched = was_unwatched_; }

void WaitForSteps(const tensorflow::EagerOperation& operation) {
  if (IsAnyPresent()) WaitForAll(UsesOf(operation), nullptr);
}

void WaitForSteps(const Plan& plan) {
  if (IsAnyPresent()) WaitForAll(UsesOf(plan), ThisLine().get());
}

}  // namespace recgraph
