// The order in which locks are taken, looked after: a thread that waits for a lock while it holds one that comes later
// in the order may wait for ever, some day, for a thread that does so the other way round. A lock that is taken in
// another order is told of at once, also where nobody waits.
#ifndef RECGRAPH_CC_CORE_LOCK_ORDER_H_
#define RECGRAPH_CC_CORE_LOCK_ORDER_H_

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace recgraph {

// Counts the locks that the threads hold, by their places in the order.
class LockOrder {
 public:
  static constexpr int kPlaces = 6;
  using Violated = void (*)(int place, int held);

  // Before the thread waits for a lock that it has not.
  static void Waits(int place) {
    if (held_[place] > 0) return;  // a recursive one
    for (int later = place + 1; later < kPlaces; ++later) {
      if (held_[later] > 0) violated_(place, later);
    }
  }
  static void Takes(int place) { ++held_[place]; }
  static void Releases(int place) { --held_[place]; }

  // What is done about one; by default, the process ends where `RECGRAPH_DEFECTS` is "raise", as it is in tests.
  static void SetViolated(Violated violated) { violated_ = violated; }

 private:
  static void End(int place, int held) {
    static const bool is_fatal = [] {
      const char* const defects = std::getenv("RECGRAPH_DEFECTS");
      return defects != nullptr && std::strcmp(defects, "raise") == 0;
    }();
    if (!is_fatal) return;
    std::fprintf(stderr, "recgraph: a lock of place %d is waited for by a thread that holds one of place %d\n", place, held);
    std::abort();
  }

  inline static thread_local std::array<int, kPlaces> held_{};
  inline static Violated violated_ = &End;
};

// A mutex with a place in the order, from 1 on.
template <typename Mutex, int kPlace>
class Ordered {
 public:
  static_assert(kPlace > 0 && kPlace < LockOrder::kPlaces);

  void lock() {
    LockOrder::Waits(kPlace);
    mutex_.lock();
    LockOrder::Takes(kPlace);
  }

  // Never waits, so it may come in any order.
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    LockOrder::Takes(kPlace);
    return true;
  }

  void unlock() {
    LockOrder::Releases(kPlace);
    mutex_.unlock();
  }

 private:
  Mutex mutex_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_LOCK_ORDER_H_
