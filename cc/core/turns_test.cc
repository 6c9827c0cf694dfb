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
      Turns::Begin(held.back());
    }
  }

  Turns turns;
  std::string begun;
  std::vector<std::shared_ptr<Turns::Turn>> held;
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
        Turns::Begin(turn);
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

// What a kernel does whose step is cancelled at this moment: the call, and with it the owner's turn, is over.
TEST(Turns, CanBeGivenUpBeforeTheyBegin) {
  Turns turns;
  std::shared_ptr<Turns::Turn> owners = turns.Take({1}, [] { FAIL() << "it was given up"; });
  const std::shared_ptr<Turns::Turn> turn = owners;
  std::thread([&] {
    EXPECT_TRUE(turn->GiveUp());
    owners = nullptr;
  }).join();
  Turns::Begin(turn);
  bool has_begun = false;
  const auto next = turns.Take({1}, [&has_begun] { has_begun = true; });
  Turns::Begin(next);
  EXPECT_TRUE(has_begun);
}

// Another thread begins a turn, which is over at once, while its owner is still in Begin.
TEST(Turns, MayEndBeforeBeginReturns) {
  for (int i = 0; i < 500; ++i) {
    Turns turns;
    std::shared_ptr<Turns::Turn> first = turns.Take({1}, [] {}), second;
    Turns::Begin(first);
    std::atomic<bool> is_ready{false}, has_begun{false};
    second = turns.Take({1}, [&] {
      second = nullptr;
      has_begun = true;
    });
    const std::shared_ptr<Turns::Turn> turn = second;
    std::thread other([&] {
      while (!is_ready) {
      }
      first = nullptr;
    });
    is_ready = true;
    Turns::Begin(turn);
    other.join();
    EXPECT_TRUE(has_begun);
  }
}

// Each turn begins or is given up, never both, whichever comes at which moment; and then others have theirs.
TEST(Turns, AreGivenUpAtAnyMoment) {
  constexpr int kThreads = 4, kTimes = 1000;
  Turns turns;
  std::atomic<int> begun{0}, given_up{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(number);
      for (int i = 0; i < kTimes; ++i) {
        std::atomic<bool> has_begun{false}, is_free{false};
        const uint64_t thing = random() % 2;
        std::shared_ptr<Turns::Turn> turn = turns.Take({thing}, [&has_begun] { has_begun = true; });
        bool was_given_up = false;
        std::thread cancelling([&, turn, spins = random() % 64] {
          while (!is_free) {
          }
          for (unsigned spin = 0; spin < spins; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
          was_given_up = turn->GiveUp();
        });
        is_free = true;
        Turns::Begin(turn);
        cancelling.join();
        while (!was_given_up && !has_begun) std::this_thread::yield();  // whoever begins it is about to tell
        EXPECT_NE(was_given_up, has_begun.load());
        ++(was_given_up ? given_up : begun);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(begun + given_up, kThreads * kTimes);
  bool has_begun = false;
  const auto last = turns.Take({0, 1}, [&has_begun] { has_begun = true; });
  Turns::Begin(last);
  EXPECT_TRUE(has_begun);
}

}  // namespace
}  // namespace recgraph
