// Nothing is lost that many threads count, and the peak is never too small.
#include "cc/core/thread_counts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace recgraph {
namespace {

TEST(ThreadCountsTest, AddsUpWhatAllThreadsCount) {
  ThreadCounts<2> counts;
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&counts, i] {
      for (int j = 0; j < 1000; ++j) {
        counts.Add(0, 1);
        counts.Add(1, -i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts.Sum(0), 20 * 1000);
  EXPECT_EQ(counts.Sum(1), -1000 * 190);
}

TEST(LiveCountTest, IsExactForOneThread) {
  for (const int64_t depth : {10, 1000}) {
    LiveCount count;
    for (int64_t i = 0; i < depth; ++i) {
      count.Add(1, 1);
      EXPECT_EQ(count.live(), i + 1);
    }
    for (int64_t i = 0; i < depth; ++i) count.Add(0, -1);
    EXPECT_EQ(count.begun(), depth);
    EXPECT_EQ(count.live(), 0);
    EXPECT_EQ(count.peak(), depth);
    count.ResetPeak();
    EXPECT_EQ(count.peak(), 0);
    count.Add(1, 1);
    EXPECT_EQ(count.peak(), 1);
  }
}

TEST(LiveCountTest, ManyAtOnce) {
  LiveCount count;
  count.Add(1, 1);
  count.Add(500, 200, 300);
  EXPECT_EQ(count.live(), 201);
  EXPECT_EQ(count.peak(), 501);
  count.Add(0, -200);
  EXPECT_EQ(count.live(), 1);
  EXPECT_EQ(count.peak(), 501);
}

TEST(LiveCountTest, ThePeakIsNotTooSmallAndLittleTooLargeForManyThreads) {
  constexpr int kThreads = 4, kDepth = 200;
  LiveCount count;
  std::atomic<int> arrived{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kDepth; ++j) count.Add(1, 1);
      ++arrived;
      while (arrived < kThreads) std::this_thread::yield();
      for (int round = 0; round < 50; ++round) {
        for (int j = 0; j < 40; ++j) count.Add(0, -1);
        for (int j = 0; j < 40; ++j) count.Add(1, 1);
      }
      for (int j = 0; j < kDepth; ++j) count.Add(0, -1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count.begun(), kThreads * (kDepth + 50 * 40));
  EXPECT_EQ(count.live(), 0);
  EXPECT_GE(count.peak(), kThreads * kDepth);
  EXPECT_LE(count.peak(), kThreads * (kDepth + 2 * LiveCount::kOwn + 1));
}

}  // namespace
}  // namespace recgraph
