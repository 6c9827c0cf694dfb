// The three policies. See scheduler.h for the contract.
#include "cc/core/scheduler.h"

#include <chrono>
#include <cstddef>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace recgraph {
namespace {

class FifoScheduler : public Scheduler {
 public:
  explicit FifoScheduler(Submit submit) : submit_(std::move(submit)) {}
  void Schedule(Task task) override { submit_(std::move(task)); }

 private:
  const Submit submit_;
};

// A thread that drains tasks keeps a stack of its own, which no other thread sees: pushing and
// popping cost no lock. Work moves to another thread only when it is submitted to the pool.
class DepthFirstScheduler : public Scheduler {
 public:
  DepthFirstScheduler(int parallelism, Submit submit)
      : parallelism_(parallelism), submit_(std::move(submit)) {}

  void Schedule(Task task) override {
    Drain* drain = current_drain;
    if (drain == nullptr || drain->scheduler != this) {
      StartDrain(std::move(task));
      return;
    }
    drain->tasks.push_back(std::move(task));
    if (drain->tasks.size() > kKeep && draining_.load(std::memory_order_relaxed) < parallelism_) {
      HandOverOldest(drain);
    }
  }

 private:
  // A thread keeps this many ready tasks for itself before it wakes another one. Measured: 1 is better
  // than 2 for trees and no worse for trivial calls (benchmarks/RESULTS.md).
  static constexpr size_t kKeep = 1;

  struct Drain {
    DepthFirstScheduler* scheduler;
    std::deque<Task> tasks;
  };
  static thread_local Drain* current_drain;

  void HandOverOldest(Drain* drain) {
    Task oldest = std::move(drain->tasks.front());
    drain->tasks.pop_front();
    StartDrain(std::move(oldest));
  }

  void StartDrain(Task task) {
    draining_.fetch_add(1, std::memory_order_relaxed);
    auto self = std::static_pointer_cast<DepthFirstScheduler>(shared_from_this());
    submit_([self = std::move(self), task = std::move(task)]() mutable {
      self->RunAll(std::move(task));
    });
  }

  void RunAll(Task first) {
    Drain drain{this, {}};
    Drain* const outer = std::exchange(current_drain, &drain);
    first();
    first = nullptr;
    while (!drain.tasks.empty()) {
      Task task = std::move(drain.tasks.back());
      drain.tasks.pop_back();
      task();
    }
    current_drain = outer;
    draining_.fetch_sub(1, std::memory_order_relaxed);
  }

  const int parallelism_;
  const Submit submit_;
  std::atomic<int> draining_{0};
};

thread_local DepthFirstScheduler::Drain* DepthFirstScheduler::current_drain = nullptr;

class RandomScheduler : public Scheduler {
 public:
  explicit RandomScheduler(Submit submit)
      : submit_(std::move(submit)), random_(std::random_device{}()) {}

  void Schedule(Task task) override {
    auto self = std::static_pointer_cast<RandomScheduler>(shared_from_this());
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    submit_([self = std::move(self)] { self->RunOne(); });
  }

 private:
  void RunOne() {
    Task task;
    unsigned delay_us;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      std::swap(tasks_[random_() % tasks_.size()], tasks_.back());
      task = std::move(tasks_.back());
      tasks_.pop_back();
      delay_us = random_() % 8 == 0 ? random_() % 100 : 0;
    }
    if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    task();
  }

  const Submit submit_;
  std::mutex mutex_;
  std::mt19937 random_;
  std::vector<Task> tasks_;
};

constexpr struct {
  Policy policy;
  const char* name;
} kPolicies[] = {{Policy::kFifo, "fifo"},
                 {Policy::kDepthFirst, "depth_first"},
                 {Policy::kRandom, "random"}};

std::atomic<Policy> default_policy{Policy::kDepthFirst};

}  // namespace

bool ParsePolicy(const std::string& name, Policy* policy) {
  for (const auto& entry : kPolicies) {
    if (name == entry.name) {
      *policy = entry.policy;
      return true;
    }
  }
  return false;
}

const char* PolicyName(Policy policy) {
  for (const auto& entry : kPolicies) {
    if (policy == entry.policy) return entry.name;
  }
  return "unknown";
}

Policy DefaultPolicy() { return default_policy.load(std::memory_order_relaxed); }

void SetDefaultPolicy(Policy policy) { default_policy.store(policy, std::memory_order_relaxed); }

std::shared_ptr<Scheduler> MakeScheduler(Policy policy, int parallelism, Submit submit) {
  switch (policy) {
    case Policy::kFifo:
      return std::make_shared<FifoScheduler>(std::move(submit));
    case Policy::kRandom:
      return std::make_shared<RandomScheduler>(std::move(submit));
    case Policy::kDepthFirst:
      break;
  }
  return std::make_shared<DepthFirstScheduler>(parallelism, std::move(submit));
}

}  // namespace recgraph
