// The meeting points of the two runners of a co-executed step: numbered slots, each a queue of values that one side
// puts and the other takes, one after another or by position.
//
// The graph's side never blocks a thread: it leaves a callback with Take. Python's side may block: Wait. Any thread may
// call anything. Close ends the run: what waits is told so, and what is put later is dropped.
#ifndef RECGRAPH_CC_CORE_CHANNEL_H_
#define RECGRAPH_CC_CORE_CHANNEL_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cc/core/stretch.h"

namespace recgraph {

enum class Meeting { kValue, kClosed, kTimeout };

template <typename T>
class Channels {
 public:
  // Called once with the value, or with null when the channels are closed. No lock is held meanwhile, so it may use the
  // channels.
  using Taker = std::function<void(const T*)>;

  // Runs what it is given, now or soon, in a thread of its choice.
  using Post = std::function<void(std::function<void()>)>;

  explicit Channels(int slots) : slots_(slots) {}
  int slots() const { return static_cast<int>(slots_.size()); }
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  // Adds a value to a slot. Returns whether it was still wanted: false once the channels are closed.
  bool Put(int slot, T value) {
    std::vector<std::pair<int, T>> one;
    one.emplace_back(slot, std::move(value));
    return PutAll(&one);
  }

  // Adds values to slots, in that order, and leaves none in `values`. All takers are posted as one piece of work.
  bool PutAll(std::vector<std::pair<int, T>>* values) {
    std::shared_ptr<std::vector<std::pair<Taker, T>>> taken;  // shared: work can be copied, values perhaps not
    Post post;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      bool is_kept = false;
      for (auto& [slot, value] : *values) {
        if (closed_) break;
        Slot& place = slots_[slot];
        if (place.waiting.empty()) {
          place.values.emplace(place.put++, std::move(value));
          is_kept = true;
          continue;
        }
        Waiting& waiting = place.waiting.front();
        if (taken == nullptr) taken = std::make_shared<std::vector<std::pair<Taker, T>>>();
        taken->emplace_back(std::move(waiting.taker), std::move(value));
        post = std::move(waiting.post);
        place.waiting.pop_front();
        ++place.put;
      }
      if (is_kept) changed_.notify_all();
      values->clear();
      if (closed_) return false;
    }
    if (taken == nullptr) return true;
    Stretch::HandOver();
    post([taken] {
      const Stretch stretch;
      for (const auto& [taker, value] : *taken) taker(&value);
    });
    return true;
  }

  // Hands the slot's next value to `taker`: now if it is there, or else by way of `post` when it is put, as what comes
  // of it is not the work of the thread that puts. Closing calls the taker at once.
  void Take(int slot, Taker taker, Post post) {
    std::unique_lock<std::mutex> lock(mutex_);
    Slot& place = slots_[slot];
    if (!place.values.empty()) {
      T value = std::move(place.values.begin()->second);
      place.values.erase(place.values.begin());
      lock.unlock();
      taker(&value);
    } else if (closed_) {
      lock.unlock();
      taker(nullptr);
    } else {
      place.waiting.push_back({std::move(taker), std::move(post)});
    }
  }

  // Waits for the slot's next value and moves it to `value`. What was put before the channels were closed can still be
  // had afterwards.
  Meeting Wait(int slot, std::chrono::milliseconds patience, T* value) {
    return WaitFor(slot, patience, value, [](Slot& place) { return place.values.begin(); });
  }

  // The same for the value that was put as number `position`, from 0. It can be had once.
  Meeting Wait(int slot, int64_t position, std::chrono::milliseconds patience, T* value) {
    return WaitFor(slot, patience, value, [position](Slot& place) { return place.values.find(position); });
  }

  // Ends the run. Idempotent.
  void Close() {
    std::vector<Taker> takers;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return;
      closed_ = true;
      for (Slot& place : slots_) {
        for (Waiting& waiting : place.waiting) takers.push_back(std::move(waiting.taker));
        place.waiting.clear();
      }
      changed_.notify_all();
    }
    for (Taker& taker : takers) taker(nullptr);
  }

 private:
  struct Waiting {
    Taker taker;
    Post post;
  };

  struct Slot {
    std::map<int64_t, T> values;  // by position
    std::deque<Waiting> waiting;  // empty unless values is
    int64_t put = 0;              // how many values there have been
  };

  template <typename Find>
  Meeting WaitFor(int slot, std::chrono::milliseconds patience, T* value, Find find) {
    std::unique_lock<std::mutex> lock(mutex_);
    Slot& place = slots_[slot];
    changed_.wait_for(lock, patience, [&] { return closed_ || find(place) != place.values.end(); });
    auto found = find(place);
    if (found == place.values.end()) return closed_ ? Meeting::kClosed : Meeting::kTimeout;
    *value = std::move(found->second);
    place.values.erase(found);
    return Meeting::kValue;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  bool closed_ = false;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_CHANNEL_H_
