// Frames are counted, shared and freed exactly once, however deep they hang and whichever thread lets go.
#include "cc/core/frame_base.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace recgraph {
namespace {

constexpr int kThreads = 8;

// A frame with callees, as an invocation has; its destructor reports that it ran.
class Frame : public FrameBase {
 public:
  explicit Frame(std::atomic<int64_t>* destroyed = nullptr, int64_t bytes = 0)
      : destroyed_(destroyed) {
    AccountFor(bytes);
  }

  std::vector<FramePtr<Frame>> callees;

 protected:
  ~Frame() override {
    if (destroyed_ != nullptr) destroyed_->fetch_add(1);
  }

 private:
  std::atomic<int64_t>* const destroyed_;
};

template <typename... Args>
FramePtr<Frame> MakeFrame(Args... args) {
  return FramePtr<Frame>(new Frame(args...));
}

FramePtr<Frame> MakeChain(int64_t depth, std::atomic<int64_t>* destroyed) {
  FramePtr<Frame> top = MakeFrame(destroyed);
  for (int64_t i = 1; i < depth; ++i) {
    FramePtr<Frame> caller = MakeFrame(destroyed);
    caller->callees.push_back(std::move(top));
    top = std::move(caller);
  }
  return top;
}

void InThreads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// Every test begins and ends with an empty store: the counters are the process's own.
class FrameTest : public ::testing::Test {
 protected:
  void SetUp() override { ExpectNothingLive(); }
  void TearDown() override { ExpectNothingLive(); }

  static void ExpectNothingLive() {
    EXPECT_EQ(FrameBase::Live().entries, 0);
    EXPECT_EQ(FrameBase::Live().bytes, 0);
  }
};

TEST_F(FrameTest, CountsEntriesAndBytesWhileTheyLive) {
  FramePtr<Frame> frame = MakeFrame(nullptr, int64_t{100});
  FramePtr<Frame> other = MakeFrame(nullptr, int64_t{20});
  frame->AccountFor(5);
  EXPECT_EQ(FrameBase::Live().entries, 2);
  EXPECT_EQ(FrameBase::Live().bytes, 125);
  frame = FramePtr<Frame>();
  EXPECT_EQ(FrameBase::Live().entries, 1);
  EXPECT_EQ(FrameBase::Live().bytes, 20);
}

TEST_F(FrameTest, LivesUntilItsLastOwnerLetsGo) {
  std::atomic<int64_t> destroyed{0};
  FramePtr<Frame> first = MakeFrame(&destroyed);
  FramePtr<Frame> second = first;
  FramePtr<Frame> third = std::move(first);
  EXPECT_FALSE(first);  // NOLINT: a moved-from pointer is empty
  third = second;
  second = FramePtr<Frame>();
  EXPECT_EQ(destroyed, 0);
  third = FramePtr<Frame>();
  EXPECT_EQ(destroyed, 1);
}

TEST_F(FrameTest, SurvivesAssignmentToItself) {
  std::atomic<int64_t> destroyed{0};
  FramePtr<Frame> frame = MakeFrame(&destroyed);
  FramePtr<Frame>& same = frame;
  frame = same;
  EXPECT_TRUE(frame);
  EXPECT_EQ(destroyed, 0);
}

TEST_F(FrameTest, FreesACalleeSharedByTwoCallersOnce) {
  std::atomic<int64_t> destroyed{0};
  {
    FramePtr<Frame> shared = MakeFrame(&destroyed);
    FramePtr<Frame> left = MakeFrame(&destroyed);
    FramePtr<Frame> right = MakeFrame(&destroyed);
    left->callees.push_back(shared);
    right->callees.push_back(shared);
    right->callees.push_back(shared);
  }
  EXPECT_EQ(destroyed, 3);
}

TEST_F(FrameTest, FreesAMillionNestedFramesWithoutAStackOverflow) {
  constexpr int64_t kDepth = 1000000;
  std::atomic<int64_t> destroyed{0};
  FramePtr<Frame> top = MakeChain(kDepth, &destroyed);
  EXPECT_EQ(FrameBase::Live().entries, kDepth);
  top = FramePtr<Frame>();
  EXPECT_EQ(destroyed, kDepth);
}

TEST_F(FrameTest, HasFreedEverythingWhenTheOutermostReleaseReturns) {
  std::atomic<int64_t> destroyed{0};
  FramePtr<Frame> root = MakeFrame(&destroyed);
  for (int i = 0; i < 100; ++i) root->callees.push_back(MakeChain(100, &destroyed));
  root = FramePtr<Frame>();
  EXPECT_EQ(destroyed, 1 + 100 * 100);
}

TEST_F(FrameTest, LosesNoReferenceThatEightThreadsTakeAndDrop) {
  constexpr int kShared = 16;
  constexpr int kRounds = 5000;
  std::atomic<int64_t> destroyed{0};
  std::vector<FramePtr<Frame>> shared;
  for (int i = 0; i < kShared; ++i) shared.push_back(MakeFrame(&destroyed, int64_t{8}));
  InThreads(kThreads, [&](int seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < kRounds; ++round) {
      FramePtr<Frame> caller = MakeFrame(&destroyed, int64_t{1});
      caller->callees.push_back(shared[random() % kShared]);
      caller->callees.push_back(shared[random() % kShared]);
    }
  });
  EXPECT_EQ(destroyed, kThreads * kRounds);
  EXPECT_EQ(FrameBase::Live().entries, kShared);
  EXPECT_EQ(FrameBase::Live().bytes, 8 * kShared);
}

TEST_F(FrameTest, FreesAFrameOnceWhenEightThreadsDropItAtTheSameTime) {
  constexpr int kRounds = 500;
  std::atomic<int64_t> destroyed{0};
  for (int round = 0; round < kRounds; ++round) {
    std::vector<FramePtr<Frame>> owners(kThreads, MakeChain(10, &destroyed));
    std::atomic<int> ready{0};
    InThreads(kThreads, [&](int i) {
      ready.fetch_add(1);
      while (ready.load() < kThreads) std::this_thread::yield();
      owners[i] = FramePtr<Frame>();
    });
    ASSERT_EQ(destroyed, 10 * (round + 1));
  }
}

TEST_F(FrameTest, SeesWhatAnotherThreadWroteBeforeItLetGo) {
  // The last owner destroys what the others have written: without release and acquire on the
  // count, ThreadSanitizer reports the vector of callees.
  constexpr int kRounds = 500;
  std::atomic<int64_t> destroyed{0};
  for (int round = 0; round < kRounds; ++round) {
    FramePtr<Frame> writers_half = MakeFrame(&destroyed);
    FramePtr<Frame> others_half = writers_half;
    std::thread writer([&] {
      writers_half->callees.push_back(MakeFrame(&destroyed));
      writers_half = FramePtr<Frame>();
    });
    std::thread other([&] { others_half = FramePtr<Frame>(); });
    writer.join();
    other.join();
  }
  EXPECT_EQ(destroyed, 2 * kRounds);
}

}  // namespace
}  // namespace recgraph
