// Large blocks are disjoint, used again, and given back: the one first that was freed first.
#include "cc/core/large_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace recgraph {
namespace {

constexpr size_t kMega = size_t{1} << 20;

TEST(LargeBlocks, AreAlignedDisjointAndLargeEnough) {
  LargeBlocks blocks;
  std::mt19937 random(3);
  struct Live {
    LargeBlocks::Block block;
    size_t bytes;
    unsigned char mark;
  };
  std::vector<Live> live;
  int64_t used = 0;
  for (int round = 0; round < 3000; ++round) {
    if (live.size() < 12 && random() % 3 != 0) {
      const size_t bytes = 2 * kMega + random() % (10 * kMega);
      const LargeBlocks::Block block = blocks.Allocate(bytes);
      ASSERT_NE(block.memory, nullptr);
      ASSERT_GE(block.bytes, bytes);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block.memory) % (2 * kMega), 0u);
      const auto mark = static_cast<unsigned char>(round % 251);
      auto* const memory = static_cast<unsigned char*>(block.memory);
      memory[0] = memory[bytes / 2] = memory[bytes - 1] = mark;
      live.push_back({block, bytes, mark});
      used += static_cast<int64_t>(block.bytes);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      const auto [block, bytes, mark] = live.back();
      live.pop_back();
      const auto* const memory = static_cast<const unsigned char*>(block.memory);
      EXPECT_TRUE(memory[0] == mark && memory[bytes / 2] == mark && memory[bytes - 1] == mark);
      used -= static_cast<int64_t>(block.bytes);
      blocks.Free(block);
    }
    ASSERT_EQ(blocks.held(), used + blocks.waiting());
    ASSERT_LE(blocks.waiting(), LargeBlocks::kLeastWaiting);
  }
  for (const Live& each : live) blocks.Free(each.block);
}

TEST(LargeBlocks, AreUsedAgainForWhatIsNotMuchSmaller) {
  LargeBlocks blocks;
  const LargeBlocks::Block first = blocks.Allocate(10 * kMega), second = blocks.Allocate(12 * kMega);
  blocks.Free(first);
  blocks.Free(second);
  const LargeBlocks::Block again = blocks.Allocate(9 * kMega);
  EXPECT_EQ(again.memory, first.memory) << "the smallest that is large enough";
  EXPECT_EQ(again.bytes, first.bytes);
  const LargeBlocks::Block small = blocks.Allocate(4 * kMega);
  EXPECT_NE(small.memory, second.memory);
  EXPECT_EQ(blocks.Allocate(12 * kMega).memory, second.memory);
  EXPECT_EQ(blocks.waiting(), 0);
  for (const LargeBlocks::Block& block : {again, small, second}) blocks.Free(block);
}

// The blocks of a step wait for the next one, however much that is.
TEST(LargeBlocks, AsMuchWaitsAsWasInUse) {
  LargeBlocks blocks;
  std::vector<LargeBlocks::Block> step;
  for (int i = 0; i < 10; ++i) step.push_back(blocks.Allocate(50 * kMega));
  for (const LargeBlocks::Block& block : step) blocks.Free(block);
  EXPECT_EQ(blocks.waiting(), static_cast<int64_t>(500 * kMega));
  blocks.ReleaseWaiting();
  EXPECT_EQ(blocks.waiting(), 0);
  EXPECT_EQ(blocks.held(), 0);
}

TEST(LargeBlocks, WhatWasFreedFirstIsGivenBackFirst) {
  LargeBlocks blocks;
  const LargeBlocks::Block first = blocks.Allocate(150 * kMega), second = blocks.Allocate(160 * kMega);
  blocks.Free(first);
  blocks.Free(second);
  EXPECT_EQ(blocks.waiting(), static_cast<int64_t>(310 * kMega));
  blocks.Free(blocks.Allocate(100 * kMega));
  EXPECT_EQ(blocks.waiting(), static_cast<int64_t>(260 * kMega)) << "without the first";
  EXPECT_EQ(blocks.Allocate(160 * kMega).memory, second.memory);
  blocks.Free(second);
}

TEST(LargeBlocks, WhatIsNotInUseAnyMoreIsGivenBack) {
  using std::chrono::milliseconds;
  LargeBlocks blocks(milliseconds(20));
  std::vector<LargeBlocks::Block> step;
  for (int i = 0; i < 10; ++i) step.push_back(blocks.Allocate(50 * kMega));
  for (const LargeBlocks::Block& block : step) blocks.Free(block);
  EXPECT_EQ(blocks.waiting(), static_cast<int64_t>(500 * kMega));
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(milliseconds(30));
    blocks.Free(blocks.Allocate(3 * kMega));
  }
  EXPECT_LE(blocks.waiting(), LargeBlocks::kLeastWaiting);
}

TEST(LargeBlocks, WhatWaitsIsGivenBackWhereThereIsNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "they end the process where so much is asked for";
#endif
  LargeBlocks blocks;
  blocks.Free(blocks.Allocate(50 * kMega));
  EXPECT_EQ(blocks.Allocate(SIZE_MAX / 4).memory, nullptr);
  EXPECT_EQ(blocks.held(), 0);
}

TEST(LargeBlocks, ThreadsAtOnce) {
  LargeBlocks blocks;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&blocks, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 500; ++i) {
        const LargeBlocks::Block block = blocks.Allocate(2 * kMega + random() % (4 * kMega));
        auto* const memory = static_cast<unsigned char*>(block.memory);
        std::memset(memory, t, 100);
        std::this_thread::yield();
        for (int at = 0; at < 100; ++at) EXPECT_EQ(memory[at], t);
        blocks.Free(block);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(blocks.held(), blocks.waiting());
}

}  // namespace
}  // namespace recgraph
