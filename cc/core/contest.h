// Which of two manners of doing a thing, again and again, makes it come round sooner.
#ifndef RECGRAPH_CC_CORE_CONTEST_H_
#define RECGRAPH_CC_CORE_CONTEST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace recgraph {

// Used by one thread at a time. Manners are 0 and 1. The first is taken until they are tried: in blocks, in the order
// 0 1 1 0, so that what changes steadily meanwhile counts for both. What is measured is the time from one beginning to
// the next, as it is this that is to be short; its median, as there are pauses that have nothing to do with it. Where
// they are about as good, it is the second.
class Contest {
 public:
  static constexpr int kBefore = 16;  // times before the first trial
  static constexpr int kBlock = 8;    // times in one manner
  static constexpr int kSkipped = 2;  // of a block, as they may have to do with the one before
  static constexpr int kMargin = 20;  // such a part of the time is not worth much
  static constexpr int kTerm = 1000;  // times that the better one is taken before both are tried again

  Contest() = default;

  // Takes this manner each time.
  explicit Contest(int only) : only_(only), manner_(only) {}

  // Which manner to take this time, which begins `now`, in nanoseconds.
  int Next(int64_t now) {
    if (only_ >= 0) return only_;
    if (began_at_ >= 0 && is_counted_) times_[manner_].push_back(now - began_at_);
    began_at_ = now;
    if (left_ > 0) {
      --left_;
      is_counted_ = false;
      return manner_;
    }
    const int block = tried_ / kBlock;
    if (block == static_cast<int>(kOrder.size())) return Decide();
    is_counted_ = tried_ % kBlock >= kSkipped;
    ++tried_;
    return manner_ = kOrder[block];
  }

  int manner() const { return manner_; }

  // What was found of a manner in the last trial, in nanoseconds; -1 if there has been none.
  int64_t median(int manner) const { return medians_[manner]; }

 private:
  static constexpr std::array<int, 4> kOrder = {0, 1, 1, 0};

  int Decide() {
    for (int manner : {0, 1}) {
      medians_[manner] = Median(&times_[manner]);
      times_[manner].clear();
    }
    manner_ = medians_[1] < medians_[0] + medians_[0] / kMargin ? 1 : 0;
    tried_ = 0;
    left_ = kTerm - 1;
    is_counted_ = false;
    return manner_;
  }

  static int64_t Median(std::vector<int64_t>* times) {
    const auto middle = times->begin() + times->size() / 2;
    std::nth_element(times->begin(), middle, times->end());
    return *middle;
  }

  int only_ = -1;
  int manner_ = 0;
  std::array<int64_t, 2> medians_ = {-1, -1};
  int left_ = kBefore;  // times until the next trial
  int tried_ = 0;       // times in this trial
  bool is_counted_ = false;
  int64_t began_at_ = -1;
  std::array<std::vector<int64_t>, 2> times_;  // of a trial, by manner
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_CONTEST_H_
