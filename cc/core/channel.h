// The meeting points of the two runners of a co-executed step: numbered slots, each a queue of values that one side
// puts and the other takes.
//
// The graph's side never blocks a thread: it leaves a callback with Take. Python's side may block: Wait. Any thread may
// call anything. Close ends the run: what waits is told so, and what is put later is dropped.
#ifndef RECGRAPH_CC_CORE_CHANNEL_H_
#define RECGRAPH_CC_CORE_CHANNEL_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace recgraph {

enum class Meeting { kValue, kClosed, kTimeout };

template <typename T>
class Channels {
 public:
  // Called once with the value, or with null when the channels are closed: by the thread that puts or closes, or at
  // once. No lock is held meanwhile, so it may use the channels.
  using Taker = std::function<void(const T*)>;

  explicit Channels(int slots) : slots_(slots) {}
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  // Adds a value to a slot. Returns whether it was still wanted: false once the channels are closed.
  bool Put(int slot, T value) {
    Taker taker;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return false;
      Slot& place = slots_[slot];
      if (place.takers.empty()) {
        place.values.push_back(std::move(value));
        changed_.notify_all();
        return true;
      }
      taker = std::move(place.takers.front());
      place.takers.pop_front();
    }
    taker(&value);
    return true;
  }

  // Hands the slot's next value to `taker`, now or when it is put.
  void Take(int slot, Taker taker) {
    std::unique_lock<std::mutex> lock(mutex_);
    Slot& place = slots_[slot];
    if (!place.values.empty()) {
      T value = std::move(place.values.front());
      place.values.pop_front();
      lock.unlock();
      taker(&value);
    } else if (closed_) {
      lock.unlock();
      taker(nullptr);
    } else {
      place.takers.push_back(std::move(taker));
    }
  }

  // Waits for the slot's next value and moves it to `value`. What was put before the channels were closed can still be
  // had afterwards.
  Meeting Wait(int slot, std::chrono::milliseconds patience, T* value) {
    std::unique_lock<std::mutex> lock(mutex_);
    Slot& place = slots_[slot];
    changed_.wait_for(lock, patience, [&] { return closed_ || !place.values.empty(); });
    if (!place.values.empty()) {
      *value = std::move(place.values.front());
      place.values.pop_front();
      return Meeting::kValue;
    }
    return closed_ ? Meeting::kClosed : Meeting::kTimeout;
  }

  // Ends the run. Idempotent.
  void Close() {
    std::vector<Taker> takers;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return;
      closed_ = true;
      for (Slot& place : slots_) {
        for (Taker& taker : place.takers) takers.push_back(std::move(taker));
        place.takers.clear();
      }
      changed_.notify_all();
    }
    for (Taker& taker : takers) taker(nullptr);
  }

 private:
  struct Slot {
    std::deque<T> values;
    std::deque<Taker> takers;  // empty unless values is
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  bool closed_ = false;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_CHANNEL_H_
