// The sums of what the invocations of one gradient call contribute to the slots of the environment:
// per slot a running total, and pairs of two kinds that are kept as they come. What a value is, and
// how two are added, is the user's business, so that this can be tested without TensorFlow.
//
// Thread-safe: any thread may add to any slot; each slot has a lock of its own.
#ifndef RECGRAPH_CC_CORE_SLOT_SUMS_H_
#define RECGRAPH_CC_CORE_SLOT_SUMS_H_

#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace recgraph {

// A total may be something else than what is added.
template <typename Value, typename Total = Value>
class SlotSums {
 public:
  struct Pairs {
    std::vector<Value> first;
    std::vector<Value> second;
  };

  // Pairs of kinds 0 to `kKinds` are kept apart.
  static constexpr int kKinds = 2;

  explicit SlotSums(int slots) : slots_(slots) {}

  int slots() const { return static_cast<int>(slots_.size()); }

  // Calls `begin(&total)` for the first contribution to the slot's total and `add(&total)` for every
  // later one, under the slot's lock; returns what that returns.
  template <typename Begin, typename Add>
  auto AddTotal(int slot, const Begin& begin, const Add& add) {
    Slot& sum = slots_[slot];
    std::lock_guard<std::mutex> lock(sum.mutex);
    if (sum.has_total) return add(&sum.total);
    sum.has_total = true;
    return begin(&sum.total);
  }

  // Keeps a pair if `fits(pairs so far)` returns something that is ok(), and returns that.
  template <typename Fits>
  auto AddPair(int kind, int slot, const Value& first, const Value& second, const Fits& fits) {
    Slot& sum = slots_[slot];
    std::lock_guard<std::mutex> lock(sum.mutex);
    Pairs& pairs = sum.pairs[kind];
    auto status = fits(static_cast<const Pairs&>(pairs));
    if (status.ok()) {
      pairs.first.push_back(first);
      pairs.second.push_back(second);
    }
    return status;
  }

  // The total so far, which is given up; false where nothing was added.
  bool TakeTotal(int slot, Total* total) {
    Slot& sum = slots_[slot];
    std::lock_guard<std::mutex> lock(sum.mutex);
    if (!sum.has_total) return false;
    sum.has_total = false;
    *total = std::move(sum.total);
    return true;
  }

  // The pairs so far, which are given up.
  Pairs TakePairs(int kind, int slot) {
    Slot& sum = slots_[slot];
    std::lock_guard<std::mutex> lock(sum.mutex);
    return std::exchange(sum.pairs[kind], Pairs());
  }

 private:
  struct Slot {
    std::mutex mutex;
    bool has_total = false;
    Total total;
    Pairs pairs[kKinds];
  };

  std::deque<Slot> slots_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_SLOT_SUMS_H_
