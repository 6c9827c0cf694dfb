// Blocks are disjoint, aligned and used again, on one thread and across threads.
#include "cc/core/memory_pool.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace recgraph {
namespace {

TEST(MemoryPoolTest, BlocksAreDisjointAlignedAndLargeEnough) {
  std::mt19937 random(5);
  std::vector<std::pair<unsigned char*, size_t>> live;
  for (int round = 0; round < 20000; ++round) {
    if (live.size() < 200 && random() % 3 != 0) {
      const size_t bytes = random() % 8 == 0 ? random() % 6'000'000 : random() % 5000;
      auto* memory = static_cast<unsigned char*>(MemoryPool::Allocate(bytes));
      ASSERT_NE(memory, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % MemoryPool::kAlignment, 0u);
      const size_t marked = bytes < 512 ? bytes : 512;
      std::memset(memory, round % 251, marked);
      if (bytes > 0) memory[bytes - 1] = round % 251;
      live.emplace_back(memory, bytes);
    } else if (!live.empty()) {
      const size_t which = random() % live.size();
      auto [memory, bytes] = live[which];
      if (bytes > 0) {
        EXPECT_EQ(memory[0], memory[bytes - 1]);
      }
      MemoryPool::Free(memory);
      live[which] = live.back();
      live.pop_back();
    }
  }
  for (auto& [memory, bytes] : live) MemoryPool::Free(memory);
  MemoryPool::Free(nullptr);
}

TEST(MemoryPoolTest, ABlockIsUsedAgain) {
  void* const first = MemoryPool::Allocate(1000);
  MemoryPool::Free(first);
  void* const second = MemoryPool::Allocate(990);
  EXPECT_EQ(first, second);
  MemoryPool::Free(second);
}

TEST(MemoryPoolTest, ObjectsAreDisjointAndUsedAgain) {
  std::mt19937 random(6);
  std::vector<std::pair<unsigned char*, size_t>> live;
  for (int round = 0; round < 20000; ++round) {
    if (live.size() < 300 && random() % 3 != 0) {
      const size_t bytes = random() % 1200 + 1;
      auto* memory = static_cast<unsigned char*>(MemoryPool::AllocateObject(bytes));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % 16, 0u);
      std::memset(memory, round % 251, bytes);
      live.emplace_back(memory, bytes);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      auto [memory, bytes] = live.back();
      live.pop_back();
      EXPECT_EQ(memory[0], memory[bytes - 1]);
      EXPECT_EQ(memory[0], memory[bytes / 2]);
      MemoryPool::FreeObject(memory, bytes);
    }
  }
  for (auto& [memory, bytes] : live) MemoryPool::FreeObject(memory, bytes);
  void* const first = MemoryPool::AllocateObject(100);
  MemoryPool::FreeObject(first, 100);
  void* const second = MemoryPool::AllocateObject(97);
  EXPECT_EQ(first, second);
  MemoryPool::FreeObject(second, 97);
  MemoryPool::FreeObject(nullptr, 10);
}

// One thread allocates, others free: what they free is found again, and nothing grows without end.
TEST(MemoryPoolTest, WhatOneThreadFreesAnotherFinds) {
  const int64_t before = MemoryPool::Waiting();
  for (int round = 0; round < 50; ++round) {
    std::vector<void*> blocks;
    for (int i = 0; i < 2000; ++i) {
      blocks.push_back(MemoryPool::Allocate(3000));
      std::memset(blocks.back(), i, 3000);
    }
    std::thread other([&] {
      for (void* block : blocks) MemoryPool::Free(block);
    });
    other.join();
    EXPECT_LE(MemoryPool::Waiting(), before + int64_t{2} * 2000 * 3072);
  }
  EXPECT_GT(MemoryPool::Waiting(), 0);
}

// There may be many threads: what each keeps to itself is little, and known.
TEST(MemoryPoolTest, ThreadsKeepLittle) {
#ifdef RECGRAPH_NO_POOL
  GTEST_SKIP() << "nothing is kept";
#endif
  constexpr int kThreads = 4;
  std::mutex mutex;
  std::condition_variable changed;
  int done = 0;
  bool end = false;
  const int64_t kept = MemoryPool::Kept();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (size_t bytes = 1 << 10; bytes <= 32 << 20; bytes *= 2) {
        std::vector<void*> blocks;
        for (int i = 0; i < (bytes > 1 << 20 ? 4 : 300); ++i) blocks.push_back(MemoryPool::Allocate(bytes));
        for (void* block : blocks) MemoryPool::Free(block);
      }
      std::unique_lock<std::mutex> lock(mutex);
      ++done;
      changed.notify_all();
      changed.wait(lock, [&] { return end; });
    });
  }
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done == kThreads; });
    EXPECT_LE(MemoryPool::Kept() - kept, kThreads * (MemoryPool::kMaxKept + (int64_t{1} << 20)));
    EXPECT_GT(MemoryPool::Kept(), kept);
    EXPECT_LE(MemoryPool::Waiting(), MemoryPool::kMaxWaiting + int64_t{MemoryPool::kRegion});
    end = true;
    changed.notify_all();
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(MemoryPool::Kept(), kept) << "nothing stays with threads that have ended";
}

TEST(MemoryPoolTest, KnowsWhatItHolds) {
  MemoryPool::ReleaseLarge();
  const int64_t before = MemoryPool::Held();
  PoolGrowth growth;
  EXPECT_FALSE(growth.Look());
  for (const size_t bytes : {size_t{200} << 20, size_t{100} << 20}) {
    void* const large = MemoryPool::Allocate(bytes);
    ASSERT_NE(large, nullptr);
    EXPECT_GE(MemoryPool::Held(), before + static_cast<int64_t>(bytes));
    EXPECT_FALSE(growth.Look());
    MemoryPool::Free(large);
    MemoryPool::ReleaseLarge();
    EXPECT_EQ(MemoryPool::Held(), before);
  }
  void* const large = MemoryPool::Allocate(PoolGrowth::kMuch);
  EXPECT_TRUE(growth.Look());
  EXPECT_FALSE(growth.Look()) << "it is as much as before";
  MemoryPool::Free(large);
  EXPECT_FALSE(growth.Look());
  EXPECT_EQ(MemoryPool::Allocate(~size_t{0} - 10), nullptr);
}

TEST(MemoryPoolTest, ThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<unsigned char*> handed;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 5000; ++i) {
        auto* mine = static_cast<unsigned char*>(MemoryPool::Allocate(random() % 3000 + 1));
        mine[0] = static_cast<unsigned char>(t);
        unsigned char* theirs = nullptr;
        {
          std::lock_guard<std::mutex> lock(mutex);
          handed.push_back(mine);
          if (handed.size() > 100) {
            std::swap(handed[random() % handed.size()], handed.back());
            theirs = handed.back();
            handed.pop_back();
          }
        }
        if (theirs != nullptr) {
          EXPECT_LT(theirs[0], 4);
          MemoryPool::Free(theirs);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (unsigned char* memory : handed) MemoryPool::Free(memory);
}

}  // namespace
}  // namespace recgraph
