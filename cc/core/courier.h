// A thread that goes round and brings what others have left, a moment later.
//
// To wake a thread costs the one who does it some microseconds. Who has many small things for others leaves them where
// the courier finds them, and goes on.
#ifndef RECGRAPH_CC_CORE_COURIER_H_
#define RECGRAPH_CC_CORE_COURIER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace recgraph {

class Courier {
 public:
  // Looks somewhere, and brings what is there. False if it is not worth coming back.
  using Visit = std::function<bool()>;

  explicit Courier(std::chrono::microseconds pace) : pace_(pace) {}
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Makes no visit any more once the present ones are over.
  ~Courier() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_closing_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  // Has the courier make this visit on every round, until it returns false. Any thread may call it, visits too.
  void Add(Visit visit) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
    visits_.push_back(std::move(visit));
    if (is_idle_) changed_.notify_all();
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      is_idle_ = true;
      changed_.wait(lock, [this] { return is_closing_ || !visits_.empty(); });
      is_idle_ = false;
      changed_.wait_for(lock, pace_, [this] { return is_closing_; });
      if (is_closing_) return;
      std::vector<Visit> visits, again;
      visits.swap(visits_);
      lock.unlock();
      for (Visit& visit : visits) {
        if (visit()) again.push_back(std::move(visit));
      }
      visits.clear();  // what they hold may be the last of it
      lock.lock();
      visits_.insert(visits_.end(), std::make_move_iterator(again.begin()), std::make_move_iterator(again.end()));
    }
  }

  const std::chrono::microseconds pace_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Visit> visits_;
  std::thread thread_;
  bool is_idle_ = false;  // until something is added
  bool is_closing_ = false;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_COURIER_H_
