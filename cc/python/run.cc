// One run of a step's graph.
#include "cc/python/run.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "cc/core/courier.h"
#include "cc/core/stretch.h"

namespace recgraph {
namespace {

std::mutex& RegistryMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::unordered_map<int64_t, std::weak_ptr<Run>>& Registry() {
  static auto* registry = new std::unordered_map<int64_t, std::weak_ptr<Run>>;
  return *registry;
}

// How long a graph may have to wait for what it is told soon.
constexpr std::chrono::microseconds kSoon(500);

// So often the courier comes for nothing before he stays away: to call him costs what he is to save.
constexpr int kIdleVisits = 4;

std::atomic<Courier*>& TheCourier() {
  static auto* courier = new std::atomic<Courier*>(new Courier(kSoon));
  return *courier;
}

}  // namespace

// The old courier's thread is in the other process; nobody can take him apart.
void Run::NoteFork() { TheCourier() = new Courier(kSoon); }

std::shared_ptr<Run> Run::New(int slots, int cells, bool is_timed) {
  static int64_t last = 0;
  std::lock_guard<std::mutex> lock(RegistryMutex());
  std::shared_ptr<Run> run(new Run(++last, slots, cells, is_timed ? GraphTimer::Claim() : nullptr));
  Registry()[run->id_] = run;
  return run;
}

std::shared_ptr<Run> Run::Find(int64_t id) {
  std::lock_guard<std::mutex> lock(RegistryMutex());
  auto found = Registry().find(id);
  return found == Registry().end() ? nullptr : found->second.lock();
}

Run::~Run() {
  std::lock_guard<std::mutex> lock(RegistryMutex());
  Registry().erase(id_);
}

void Run::Put(std::vector<std::pair<int, tensorflow::Tensor>>* values) {
  if (values->empty()) return;
  if (delivery_ == Delivery::kAtOnce) {
    if (timer_ != nullptr) timer_->Given(values->front().first);
    channels_.PutAll(values);
    return;
  }
  std::lock_guard lock(holding_);
  std::move(values->begin(), values->end(), std::back_inserter(held_));
  values->clear();
  if (delivery_ == Delivery::kOnRequest || is_visited_) return;
  is_visited_ = true;
  idle_visits_ = 0;
  TheCourier().load()->Add([self = weak_from_this()] {
    const std::shared_ptr<Run> run = self.lock();
    return run != nullptr && run->Collect();
  });
}

// What the courier does here; whether he comes again.
bool Run::Collect() {
  std::lock_guard lock(holding_);
  idle_visits_ = held_.empty() ? idle_visits_ + 1 : 0;
  channels_.PutAll(&held_);
  return is_visited_ = idle_visits_ < kIdleVisits;
}

void Run::Give(int slot, tensorflow::Tensor value) {
  if (recording_ != nullptr) recording_->Add(slot, value);
  channels_.Put(slot, std::move(value));
}

void Run::Do(const std::function<void()>& work) {
  if (timer_ != nullptr) timer_->Begins();
  work();
  if (timer_ != nullptr) timer_->Ends();
}

void Run::StartBy(std::function<void()> launch, Delivery delivery) {
  delivery_ = delivery == Delivery::kSoon && IsTimed() ? Delivery::kAtOnce : delivery;
  if (delivery != Delivery::kOnRequest) return launch();
  std::lock_guard<std::mutex> lock(mutex_);
  launch_ = std::move(launch);
}

void Run::Hurry() {
  if (delivery_ == Delivery::kAtOnce) return;
  if (delivery_ == Delivery::kOnRequest) {
    std::function<void()> launch;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      launch.swap(launch_);
    }
    if (launch != nullptr) launch();
  }
  std::lock_guard lock(holding_);
  channels_.PutAll(&held_);
}

bool Run::Cancel() {
  const Stretch stretch;  // what waits in the graph goes on in this thread, to its end
  std::function<void()> launch;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (has_committed_) return false;
    was_cancelled_ = true;
    launch.swap(launch_);
  }
  if (launch != nullptr) {
    Finish(absl::CancelledError("the step left its graph before that started"));
    return true;
  }
  channels_.Close();
  history_.Close();
  cancellation_.StartCancel();
  return true;
}

bool Run::BeginCommit() {
  std::lock_guard<std::mutex> lock(mutex_);
  has_committed_ = !was_cancelled_;
  return has_committed_;
}

bool Run::HasCommitted() {
  std::lock_guard<std::mutex> lock(mutex_);
  return has_committed_;
}

void Run::Finish(const absl::Status& status) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (timer_ != nullptr) times_ = timer_->Release();
    has_ended_ = true;
    status_ = status;
    ended_.notify_all();
  }
  channels_.Close();
  history_.Close();
}

bool Run::EndsWithin(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  return ended_.wait_for(lock, patience, [this] { return has_ended_; });
}

absl::Status Run::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, [this] { return has_ended_; });
  return status_;
}

}  // namespace recgraph
