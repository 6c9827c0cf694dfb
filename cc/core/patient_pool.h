// Threads that share the machine with somebody who must not be slowed down: they never spin, and to give them work is
// cheap.
//
// A thread that has nothing to do looks for work again and again, after short pauses; after some it sleeps until it is
// woken. One at a time does so, the others sleep at once. Work is taken up at the latest when the next pause ends, so
// who gives it while somebody looks wakes nobody, unless somebody waits for what the pool does. For small pieces of
// work that one thread keeps up with, the others are hardly seen; large ones are spread over all of them. Where the
// system can be told so (Linux), a thread that wakes takes no core away from one that works.
#ifndef RECGRAPH_CC_CORE_PATIENT_POOL_H_
#define RECGRAPH_CC_CORE_PATIENT_POOL_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

namespace recgraph {

// Any thread may call anything.
class PatientPool {
 public:
  using Work = std::function<void()>;

  // At most `threads`, made when they are needed.
  explicit PatientPool(int threads) : threads_(threads) {}
  PatientPool(const PatientPool&) = delete;
  PatientPool& operator=(const PatientPool&) = delete;

  // Does what is still to be done, with the threads that there are. Nobody may give it work any more but its own.
  ~PatientPool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_closing_ = true;
      looking_.notify_all();
      sleeping_.notify_all();
    }
    for (std::thread& thread : made_) thread.join();
  }

  // Lets a thread do it, in the order in which work comes.
  void Schedule(Work work) {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(work));
    Provide();
  }

  // While it lives somebody waits for what the pool does: pauses end when there is work.
  class Urgency {
   public:
    explicit Urgency(PatientPool* pool) : pool_(pool) {
      std::lock_guard<std::mutex> lock(pool_->mutex_);
      ++pool_->urgencies_;
      pool_->Provide();
    }
    ~Urgency() {
      std::lock_guard<std::mutex> lock(pool_->mutex_);
      --pool_->urgencies_;
    }
    Urgency(const Urgency&) = delete;
    Urgency& operator=(const Urgency&) = delete;

   private:
    PatientPool* const pool_;
  };

  // Whether this thread is one of a pool.
  static bool IsWorker() { return is_worker_; }

 private:
  static constexpr std::chrono::microseconds kPause{200};
  static constexpr int kLooks = 10;  // before it sleeps

  // While work waits, a thread looks for it or was told to. With the lock.
  void Provide() {
    if (waiting_.empty() || is_called_) return;
    if (is_looking_) {
      if (urgencies_ == 0) return;
      looking_.notify_one();
    } else if (asleep_ > 0) {
      sleeping_.notify_one();
    } else if (static_cast<int>(made_.size()) < threads_ && !is_closing_) {
      made_.emplace_back([this] { Serve(); });
    } else {
      return;
    }
    is_called_ = true;
  }

  static void LetOthersWork() {
#ifdef __linux__
    const sched_param ordinary{};
    sched_setscheduler(0, SCHED_BATCH, &ordinary);  // a wish: all is right without it
#endif
  }

  void Serve() {
    is_worker_ = true;
    LetOthersWork();
    std::unique_lock<std::mutex> lock(mutex_);
    is_called_ = false;
    while (true) {
      if (waiting_.empty()) Idle(&lock);
      if (waiting_.empty() && is_closing_) return;
      if (waiting_.empty()) continue;
      Work work = std::move(waiting_.front());
      waiting_.pop_front();
      Provide();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  void Idle(std::unique_lock<std::mutex>* lock) {
    if (!is_looking_) {
      is_looking_ = true;
      for (int i = 0; i < kLooks && waiting_.empty() && !is_closing_; ++i) looking_.wait_for(*lock, kPause);
      is_looking_ = is_called_ = false;
    }
    if (!waiting_.empty() || is_closing_) return;
    ++asleep_;
    sleeping_.wait(*lock, [this] { return is_called_ || is_closing_; });
    --asleep_;
    is_called_ = false;
  }

  inline static thread_local bool is_worker_ = false;

  const int threads_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable looking_;
  std::condition_variable sleeping_;
  std::deque<Work> waiting_;
  std::vector<std::thread> made_;
  bool is_looking_ = false;
  bool is_called_ = false;  // a thread was made or woken, and has not come yet
  int asleep_ = 0;
  int urgencies_ = 0;
  bool is_closing_ = false;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_PATIENT_POOL_H_
