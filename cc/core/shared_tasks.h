// Tasks that a pool of threads is to run, or the thread that waits for them all: where every thread of the pool waits
// for something like it, as Python functions in graphs do that call SubGraphs, nobody else is left to run them.
#ifndef RECGRAPH_CC_CORE_SHARED_TASKS_H_
#define RECGRAPH_CC_CORE_SHARED_TASKS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "cc/core/scheduler.h"

namespace recgraph {

class SharedTasks : public std::enable_shared_from_this<SharedTasks> {
 public:
  explicit SharedTasks(Submit pool) : pool_(std::move(pool)) {}

  // For a scheduler: puts a task where both find it. Keeps this object alive.
  Submit submit() {
    return [self = shared_from_this()](Task task) { self->Add(std::move(task)); };
  }

  // Nothing is left to wait for. Any thread may say so, also the one that waits, inside of a task; the caller keeps
  // this object until it returns.
  void End() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

  // Returns after End. Runs tasks meanwhile: at once or, where `patience` is above zero, from when the pool has taken
  // none for so long. One thread calls this, once.
  void RunUntilEnd(std::chrono::milliseconds patience) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (patience.count() > 0) WaitForPool(&lock, patience);
    helps_ = true;
    while (true) {
      changed_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
      if (ended_) return;
      RunOne(&lock);
    }
  }

 private:
  // Until the end, or until a task has waited for long. The wait is bounded, as tasks that the pool takes, and that it
  // does not take, tell nobody: the pool runs most calls all by itself, and waking this thread would cost them.
  void WaitForPool(std::unique_lock<std::mutex>* lock, std::chrono::milliseconds patience) {
    int64_t seen = -1;
    while (!changed_.wait_for(*lock, patience, [this] { return ended_; })) {
      if (!tasks_.empty() && seen == taken_) return;
      seen = taken_;
    }
  }

  void Add(Task task) {
    bool helps;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
      helps = helps_;
    }
    if (helps) changed_.notify_one();
    pool_([self = shared_from_this()] {
      std::unique_lock<std::mutex> lock(self->mutex_);
      if (!self->tasks_.empty()) self->RunOne(&lock);
    });
  }

  void RunOne(std::unique_lock<std::mutex>* lock) {
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    ++taken_;
    lock->unlock();
    task();
    task = nullptr;
    lock->lock();
  }

  const Submit pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // each also counts as one of the pool's, which may find it gone
  int64_t taken_ = 0;
  bool helps_ = false;
  bool ended_ = false;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_SHARED_TASKS_H_
