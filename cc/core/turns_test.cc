// Nobody has a turn beside another who uses the same thing, nobody is forgotten, and others are not waited for.
#include "cc/core/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace recgraph {
namespace {

// Takes turns, and notes who has begun.
struct People {
  explicit People(std::vector<std::vector<uint64_t>> things) {
    for (size_t i = 0; i < things.size(); ++i) {
      held.push_back(turns.Take(things[i], [this, i] { begun += static_cast<char>('a' + i); }));
      Turns::Begin(held.back().get());
    }
  }

  Turns turns;
  std::string begun;
  std::vector<std::unique_ptr<Turns::Turn>> held;
};

TEST(Turns, AreTakenInOrder) {
  People people({{1}, {1}, {1}});
  EXPECT_EQ(people.begun, "a");
  people.held[0] = nullptr;
  EXPECT_EQ(people.begun, "ab");
  people.held[1] = nullptr;
  EXPECT_EQ(people.begun, "abc");
}

TEST(Turns, WithOtherThingsAreTakenAtOnce) {
  People people({{1}, {2}, {}, {3, 4}, {4, 1}, {2, 5}});
  EXPECT_EQ(people.begun, "abcd");
  people.held[0] = nullptr;
  EXPECT_EQ(people.begun, "abcd");  // the fifth waits for the fourth, too
  people.held[3] = nullptr;
  EXPECT_EQ(people.begun, "abcde");
  people.held[1] = nullptr;
  EXPECT_EQ(people.begun, "abcdef");
}

TEST(Turns, AreNotTakenBeforeOneWhoWaits) {
  People people({{1}, {1, 2}, {2}});
  EXPECT_EQ(people.begun, "a");
  people.held[0] = nullptr;
  EXPECT_EQ(people.begun, "ab");
}

TEST(Turns, CanBeGivenUp) {
  People people({{1}, {1, 2}, {2}});
  EXPECT_FALSE(people.held[0]->GiveUp());
  EXPECT_TRUE(people.held[1]->GiveUp());
  EXPECT_FALSE(people.held[1]->GiveUp());
  EXPECT_EQ(people.begun, "ac");
  people.held[0] = nullptr;
  EXPECT_EQ(people.begun, "ac");
}

TEST(Turns, OfManyThreadsLoseNothing) {
  constexpr int kThings = 4, kThreads = 4, kTimes = 2000;
  Turns turns;
  std::vector<int> counts(kThings, 0);  // not atomic: guarded by turns
  std::atomic<int> added{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(number);
      for (int i = 0; i < kTimes; ++i) {
        const uint64_t one = random() % kThings, other = random() % kThings;
        std::atomic<bool> has_begun{false};
        const auto turn = turns.Take({one, other}, [&has_begun] { has_begun = true; });
        Turns::Begin(turn.get());
        while (!has_begun) std::this_thread::yield();
        ++counts[one];
        if (other != one) ++counts[other];
        added += other != one ? 2 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int sum = 0;
  for (int count : counts) sum += count;
  EXPECT_EQ(sum, added);
}

}  // namespace
}  // namespace recgraph
