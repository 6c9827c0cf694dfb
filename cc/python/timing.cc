// What the two runners of a co-executed step do with their time.
#include "cc/python/timing.h"

#include <chrono>
#include <utility>

#include "tsl/platform/tracing.h"
#include "xla/tsl/profiler/backends/cpu/threadpool_listener_state.h"

namespace recgraph {
namespace {

using tsl::tracing::EventCategory;

GraphTimer& Timer() {
  static auto* timer = new GraphTimer;
  return *timer;
}

// Called on the thread that works. Pieces of work lie within each other: a kernel in a closure of a pool.
class Collector : public tsl::tracing::EventCollector {
 public:
  void RecordEvent(uint64_t) const override {}
  void StartRegion(uint64_t) const override { Timer().Begins(); }
  void StopRegion() const override { Timer().Ends(); }
};

}  // namespace

int64_t Now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

DeviceShare& DeviceShare::Get() {
  static auto* share = new DeviceShare;
  return *share;
}

GraphTimer* GraphTimer::Claim() {
  static auto* collector = new Collector;
  GraphTimer& timer = Timer();
  std::lock_guard<std::mutex> lock(timer.mutex_);
  if (timer.is_claimed_ || tsl::profiler::threadpool_listener::IsEnabled()) return nullptr;
  timer.is_claimed_ = true;
  timer.working_ = 0;
  timer.given_ = -1;
  timer.began_at_ = timer.silent_since_ = Now();
  timer.stalls_.clear();
  for (EventCategory category : {EventCategory::kRunClosure, EventCategory::kCompute}) {
    tsl::tracing::SetEventCollector(category, collector);
  }
  tsl::profiler::threadpool_listener::Activate();
  return &timer;
}

GraphTimes GraphTimer::Release() {
  tsl::profiler::threadpool_listener::Deactivate();
  std::lock_guard<std::mutex> lock(mutex_);
  EndSilence();
  is_claimed_ = false;
  return {true, Now() - began_at_, std::move(stalls_)};
}

void GraphTimer::Begins() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (working_++ == 0) EndSilence();
}

void GraphTimer::Ends() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (working_ == 0) return;  // it began before the timer was claimed
  if (--working_ == 0) silent_since_ = Now();
}

void GraphTimer::Given(int slot) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (working_ > 0) return;
  given_ = slot;
  given_at_ = Now();
}

void GraphTimer::EndSilence() {
  if (working_ <= 1 && given_ >= 0) stalls_[given_] += given_at_ - silent_since_;
  given_ = -1;
}

}  // namespace recgraph
