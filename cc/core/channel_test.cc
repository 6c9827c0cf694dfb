// Every value arrives once and in order, whoever comes first; closing wakes all who wait.
#include "cc/core/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace recgraph {
namespace {

constexpr std::chrono::milliseconds kLong(20000);
constexpr std::chrono::milliseconds kNone(0);
const Channels<int>::Post kAtOnce = [](const std::function<void()>& work) { work(); };

TEST(Channels, GivesWhatWasPutBefore) {
  Channels<int> channels(2);
  EXPECT_TRUE(channels.Put(1, 7));
  int value = 0;
  EXPECT_EQ(channels.Wait(1, kLong, &value), Meeting::kValue);
  EXPECT_EQ(value, 7);
}

TEST(Channels, TellsThatNothingCame) {
  Channels<int> channels(1);
  int value = 0;
  EXPECT_EQ(channels.Wait(0, kNone, &value), Meeting::kTimeout);
}

TEST(Channels, CallsATakerThatWasThereFirst) {
  Channels<int> channels(1);
  std::vector<int> taken;
  channels.Take(0, [&](const int* value) { taken.push_back(*value); }, kAtOnce);
  channels.Take(0, [&](const int* value) { taken.push_back(10 * *value); }, kAtOnce);
  channels.Put(0, 1);
  channels.Put(0, 2);
  EXPECT_EQ(taken, (std::vector<int>{1, 20}));
}

TEST(Channels, LeavesTheTakersWorkToWhoIsPosted) {
  Channels<int> channels(1);
  std::vector<std::function<void()>> posted;
  const auto post = [&](std::function<void()> work) { posted.push_back(std::move(work)); };
  int taken = 0;
  channels.Put(0, 1);
  channels.Take(0, [&](const int* value) { taken += *value; }, post);
  EXPECT_EQ(taken, 1);
  channels.Take(0, [&](const int* value) { taken += *value; }, post);
  channels.Put(0, 10);
  EXPECT_EQ(taken, 1);
  ASSERT_EQ(posted.size(), 1u);
  posted[0]();
  EXPECT_EQ(taken, 11);
}

TEST(Channels, PostsTheTakersOfSeveralValuesAsOne) {
  Channels<int> channels(3);
  int posts = 0;
  const auto post = [&](const std::function<void()>& work) { ++posts, work(); };
  std::vector<int> taken;
  for (int slot : {0, 0, 2}) channels.Take(slot, [&](const int* value) { taken.push_back(*value); }, post);
  std::vector<std::pair<int, int>> values = {{0, 1}, {1, 2}, {2, 3}, {0, 4}, {0, 5}};
  EXPECT_TRUE(channels.PutAll(&values));
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(posts, 1);
  EXPECT_EQ(taken, (std::vector<int>{1, 3, 4}));
  int value = 0;
  EXPECT_EQ(channels.Wait(1, kNone, &value), Meeting::kValue);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(channels.Wait(0, 2, kNone, &value), Meeting::kValue);
  EXPECT_EQ(value, 5);
  values = {{0, 6}};
  channels.Close();
  EXPECT_FALSE(channels.PutAll(&values));
  EXPECT_TRUE(values.empty());
}

TEST(Channels, KeepsTheOrderOfASlot) {
  Channels<int> channels(1);
  for (int i = 0; i < 3; ++i) channels.Put(0, i);
  std::vector<int> taken;
  for (int i = 0; i < 3; ++i) channels.Take(0, [&](const int* value) { taken.push_back(*value); }, kAtOnce);
  EXPECT_EQ(taken, (std::vector<int>{0, 1, 2}));
}

TEST(Channels, GivesValuesByPosition) {
  Channels<int> channels(1);
  for (int i = 0; i < 3; ++i) channels.Put(0, 10 + i);
  int value = 0;
  EXPECT_EQ(channels.Wait(0, 2, kNone, &value), Meeting::kValue);
  EXPECT_EQ(value, 12);
  EXPECT_EQ(channels.Wait(0, 0, kNone, &value), Meeting::kValue);
  EXPECT_EQ(value, 10);
  EXPECT_EQ(channels.Wait(0, 0, kNone, &value), Meeting::kTimeout);
  EXPECT_EQ(channels.Wait(0, kNone, &value), Meeting::kValue);
  EXPECT_EQ(value, 11);
}

TEST(Channels, ClosingTellsTakersAndRefusesValues) {
  Channels<int> channels(2);
  int told = 0;
  channels.Take(0, [&](const int* value) { told += value == nullptr; }, kAtOnce);
  channels.Put(1, 5);
  channels.Close();
  channels.Close();
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(channels.Put(0, 1));
  channels.Take(0, [&](const int* value) { told += value == nullptr; }, kAtOnce);
  EXPECT_EQ(told, 2);
  int value = 0;
  EXPECT_EQ(channels.Wait(1, kLong, &value), Meeting::kValue);
  EXPECT_EQ(value, 5);
  EXPECT_EQ(channels.Wait(1, kLong, &value), Meeting::kClosed);
}

TEST(Channels, ATakerMayUseTheChannels) {
  Channels<int> channels(2);
  channels.Take(0, [&](const int* value) { channels.Put(1, *value + 1); }, kAtOnce);
  channels.Put(0, 1);
  int value = 0;
  EXPECT_EQ(channels.Wait(1, kLong, &value), Meeting::kValue);
  EXPECT_EQ(value, 2);
}

TEST(Channels, WakesAThreadThatWaits) {
  Channels<std::unique_ptr<int>> channels(1);
  std::thread other([&] { channels.Put(0, std::make_unique<int>(3)); });
  std::unique_ptr<int> value;
  EXPECT_EQ(channels.Wait(0, kLong, &value), Meeting::kValue);
  EXPECT_EQ(*value, 3);
  other.join();
}

TEST(Channels, ManyThreadsLoseNothing) {
  constexpr int kValues = 2000;
  constexpr int kSlots = 4;
  Channels<int> channels(kSlots);
  std::atomic<long> sum{0};
  std::vector<std::thread> threads;
  for (int slot = 0; slot < kSlots; ++slot) {
    threads.emplace_back([&, slot] {
      for (int i = 0; i < kValues; ++i) channels.Put(slot, i);
    });
    threads.emplace_back([&, slot] {
      for (int i = 0; i < kValues; ++i) {
        if (i % 2 == 0) {
          channels.Take(slot, [&](const int* value) { sum += *value; }, kAtOnce);
        } else {
          int value = 0;
          if (channels.Wait(slot, kLong, &value) == Meeting::kValue) sum += value;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, static_cast<long>(kSlots) * kValues * (kValues - 1) / 2);
}

TEST(Channels, ClosingMeetsPuttingAndTaking) {
  for (int round = 0; round < 200; ++round) {
    Channels<int> channels(1);
    std::atomic<int> answers{0};
    std::thread taking([&] {
      for (int i = 0; i < 10; ++i) channels.Take(0, [&](const int*) { ++answers; }, kAtOnce);
    });
    std::thread putting([&] {
      for (int i = 0; i < 5; ++i) channels.Put(0, i);
    });
    channels.Close();
    taking.join();
    putting.join();
    EXPECT_EQ(answers, 10);
  }
}

}  // namespace
}  // namespace recgraph
