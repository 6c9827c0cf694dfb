// Every contribution counts once, whichever thread adds it, and the slots stay apart.
#include "cc/core/slot_sums.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace recgraph {
namespace {

constexpr int kThreads = 8;
constexpr int kSlots = 3;

// Stands for a gradient: rows of numbers.
using Rows = std::vector<int>;

struct Answer {
  bool good;
  bool ok() const { return good; }
};

bool AddTo(SlotSums<Rows>* sums, int slot, const Rows& value) {
  const auto begin = [&value](Rows* total) {
    *total = value;
    return true;
  };
  return sums->AddTotal(slot, begin, [&value](Rows* total) {
    for (size_t i = 0; i < value.size(); ++i) (*total)[i] += value[i];
    return false;
  });
}

Answer Anything(const SlotSums<Rows>::Pairs&) { return {true}; }

TEST(SlotSumsTest, BeginsWithTheFirstContributionAndAddsTheOthers) {
  SlotSums<Rows> sums(kSlots);
  EXPECT_TRUE(AddTo(&sums, 1, {1, 2}));
  EXPECT_FALSE(AddTo(&sums, 1, {10, 20}));
  Rows total;
  EXPECT_FALSE(sums.TakeTotal(0, &total));
  ASSERT_TRUE(sums.TakeTotal(1, &total));
  EXPECT_EQ(total, (Rows{11, 22}));
  EXPECT_FALSE(sums.TakeTotal(1, &total)) << "it was given up";
}

TEST(SlotSumsTest, KeepsPairsOfTwoKindsApart) {
  SlotSums<Rows> sums(kSlots);
  sums.AddPair(0, 2, {1}, {2}, Anything);
  sums.AddPair(1, 2, {3}, {4}, Anything);
  const auto pairs = sums.TakePairs(1, 2);
  EXPECT_EQ(pairs.first, (std::vector<Rows>{{3}}));
  EXPECT_EQ(pairs.second, (std::vector<Rows>{{4}}));
  EXPECT_EQ(sums.TakePairs(0, 2).first.size(), 1u);
  EXPECT_TRUE(sums.TakePairs(0, 2).first.empty()) << "they were given up";
}

TEST(SlotSumsTest, KeepsNothingOfAPairThatDoesNotFit) {
  SlotSums<Rows> sums(kSlots);
  EXPECT_FALSE(sums.AddPair(0, 0, {1}, {2}, [](const auto&) { return Answer{false}; }).ok());
  EXPECT_TRUE(sums.TakePairs(0, 0).first.empty());
}

TEST(SlotSumsTest, LosesNothingThatEightThreadsAdd) {
  constexpr int kRounds = 3000;
  SlotSums<Rows> sums(kSlots);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&sums, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kRounds; ++i) {
        const int slot = random() % kSlots;
        AddTo(&sums, slot, {1, slot});
        sums.AddPair(i % 2, slot, {t}, {t}, Anything);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int added = 0;
  size_t pairs = 0;
  for (int slot = 0; slot < kSlots; ++slot) {
    Rows total;
    ASSERT_TRUE(sums.TakeTotal(slot, &total));
    EXPECT_EQ(total[1], slot * total[0]);
    added += total[0];
    for (int kind = 0; kind < 2; ++kind) {
      const auto taken = sums.TakePairs(kind, slot);
      EXPECT_EQ(taken.first, taken.second);
      pairs += taken.first.size();
    }
  }
  EXPECT_EQ(added, kThreads * kRounds);
  EXPECT_EQ(pairs, static_cast<size_t>(kThreads * kRounds));
}

}  // namespace
}  // namespace recgraph
