// The manner that makes a thing come round sooner is taken, whatever else takes time now and then.
#include "cc/core/contest.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace recgraph {
namespace {

constexpr int kTrial = 4 * Contest::kBlock;

// The manners taken so many times, where each time takes what `duration` says of its manner and number.
std::vector<int> Taken(Contest* contest, int times, const std::function<int64_t(int, int)>& duration) {
  std::vector<int> taken;
  int64_t now = 0;
  for (int i = 0; i < times; ++i) {
    taken.push_back(contest->Next(now));
    now += duration(taken.back(), i);
  }
  return taken;
}

int CountOnes(const std::vector<int>& taken, int from, int to) {
  int ones = 0;
  for (int i = from; i < to; ++i) ones += taken[i];
  return ones;
}

TEST(Contest, TakesTheFirstBeforeAndBothInTheTrial) {
  Contest contest;
  const std::vector<int> taken = Taken(&contest, Contest::kBefore + kTrial, [](int, int) { return 1; });
  EXPECT_EQ(CountOnes(taken, 0, Contest::kBefore), 0);
  EXPECT_EQ(contest.median(0), -1);
  EXPECT_EQ(CountOnes(taken, Contest::kBefore, Contest::kBefore + kTrial), kTrial / 2);
}

TEST(Contest, TakesTheBetterOne) {
  for (int better : {0, 1}) {
    Contest contest;
    const int start = Contest::kBefore + kTrial, end = start + Contest::kTerm;
    const auto taken = Taken(&contest, end, [better](int manner, int) { return manner == better ? 90 : 100; });
    EXPECT_EQ(CountOnes(taken, start, end), better * Contest::kTerm);
    EXPECT_EQ(contest.manner(), better);
    EXPECT_EQ(contest.median(better), 90);
    EXPECT_EQ(contest.median(1 - better), 100);
  }
}

TEST(Contest, IsNotMisledByPausesNorByWhatGetsSlower) {
  Contest contest;
  const int start = Contest::kBefore + kTrial, end = start + Contest::kTerm;
  const auto taken = Taken(&contest, end, [](int manner, int i) {
    return (manner == 1 ? 900 : 1000) + 10 * i + (i % 5 == 0 ? 1000000 : 0);
  });
  EXPECT_EQ(CountOnes(taken, start, end), Contest::kTerm);
}

TEST(Contest, TheFirstTimesOfABlockDoNotCount) {
  Contest contest;
  const int start = Contest::kBefore + kTrial, end = start + Contest::kTerm;
  int since = 0, last = -1;
  const auto taken = Taken(&contest, end, [&](int manner, int) {
    since = manner == last ? since + 1 : 0;
    last = manner;
    return manner == 1 && since < Contest::kSkipped ? 100000 : manner == 1 ? 90 : 100;
  });
  EXPECT_EQ(CountOnes(taken, start, end), Contest::kTerm);
}

TEST(Contest, TakesTheSecondWhereTheyAreAboutAsGood) {
  const int start = Contest::kBefore + kTrial, end = start + Contest::kTerm;
  for (int second : {1040, 1060}) {
    Contest contest;
    const auto taken = Taken(&contest, end, [second](int manner, int) { return manner == 1 ? second : 1000; });
    EXPECT_EQ(CountOnes(taken, start, end), second == 1040 ? Contest::kTerm : 0);
  }
}

TEST(Contest, MayBeDecidedBefore) {
  for (int only : {0, 1}) {
    Contest contest(only);
    const int times = Contest::kBefore + kTrial + 1;
    const auto taken = Taken(&contest, times, [only](int manner, int) { return manner == only ? 100 : 90; });
    EXPECT_EQ(CountOnes(taken, 0, times), only * times);
    EXPECT_EQ(contest.median(only), -1);
  }
}

TEST(Contest, ThinksAgain) {
  Contest contest;
  const int period = kTrial + Contest::kTerm, end = Contest::kBefore + 2 * period;
  const auto taken = Taken(&contest, end, [&](int manner, int i) {
    const int better = i < Contest::kBefore + period ? 1 : 0;
    return manner == better ? 90 : 100;
  });
  EXPECT_EQ(CountOnes(taken, end - Contest::kTerm, end), 0);
  EXPECT_EQ(CountOnes(taken, Contest::kBefore + kTrial, Contest::kBefore + period), Contest::kTerm);
}

}  // namespace
}  // namespace recgraph
