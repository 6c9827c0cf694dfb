// Tasks that a pool of threads is to run, or the thread that waits for them all: where every thread of the pool waits
// for something like it, as Python functions in graphs do that call SubGraphs, nobody else is left to run them.
#ifndef RECGRAPH_CC_CORE_SHARED_TASKS_H_
#define RECGRAPH_CC_CORE_SHARED_TASKS_H_

#include <algorithm>
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

  // At most `threads` of the pool's run tasks at once; `helps` is whether the thread that waits may run any. Before the
  // first task.
  void Prepare(int threads, bool helps) {
    threads_ = threads;
    helps_ = helps;
  }

  // To be called before the first task where the thread that waits is about to do so: if it may run tasks, the first one
  // is left to it, and one thread less of the pool is woken.
  void LeaveFirst() {
    if (!helps_) return;
    std::lock_guard<std::mutex> lock(mutex_);
    waiter_ = Waiter::kFree;
    threads_ = std::max(0, threads_ - 1);
  }

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

  // Returns after End. Runs tasks meanwhile: at once if it may or, else, when the pool has taken none for so long as
  // `patience`. One thread calls this, once.
  void RunUntilEnd(std::chrono::milliseconds patience) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (patience.count() > 0 && !helps_) WaitForPool(&lock, patience);
    while (true) {
      waiter_ = Waiter::kFree;
      changed_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      waiter_ = Waiter::kBusy;
      RunOne(&lock);
    }
  }

 private:
  // What the thread that waits does: it leaves tasks to the pool, takes the next one, or runs one.
  enum class Waiter { kAway, kFree, kBusy };

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
    bool by_waiter, by_pool;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
      by_waiter = waiter_ == Waiter::kFree && tasks_.size() == 1;
      by_pool = !by_waiter && workers_ < threads_;
      if (by_pool) ++workers_;
    }
    if (by_waiter) changed_.notify_one();
    if (by_pool) pool_([self = shared_from_this()] { self->Work(); });
  }

  // Whoever adds a task sees that somebody is here who takes it, or takes it to the pool.
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!tasks_.empty()) RunOne(&lock);
    --workers_;
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
  std::deque<Task> tasks_;
  int64_t taken_ = 0;
  int threads_ = 1;
  bool helps_ = false;
  int workers_ = 0;  // of the pool, there or on their way
  Waiter waiter_ = Waiter::kAway;
  bool ended_ = false;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_SHARED_TASKS_H_
