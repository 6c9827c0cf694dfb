// A replay finds what the recording of the same call wrote, whichever threads the calls ended on.
#include "cc/core/call_log.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/frame_base.h"

namespace recgraph {
namespace {

constexpr int kThreads = 8;

// An activation store in small: a frame that logs the frames of its calls, as with recompute.
class Frame : public FrameBase {
 public:
  explicit Frame(int64_t value) : value(value) {}

  const int64_t value;
  CallLog<FramePtr<Frame>> calls;
};

FramePtr<Frame> MakeFrame(int64_t value) { return FramePtr<Frame>(new Frame(value)); }

TEST(OccurrencesTest, CountsEachCallSiteFromZero) {
  Occurrences occurrences;
  EXPECT_EQ(occurrences.Next(7).occurrence, 0);
  EXPECT_EQ(occurrences.Next(7).occurrence, 1);
  EXPECT_EQ(occurrences.Next(3).occurrence, 0);
  EXPECT_EQ(occurrences.Next(7).site, 7);
}

TEST(CallLogTest, FindsWhatWasWrittenForThatCallAndNothingElse) {
  CallLog<int> log;
  log.Write({1, 0}, 10);
  log.Write({1, 1}, 11);
  log.Write({0, 1}, 1);
  int read = 0;
  EXPECT_TRUE(log.Read({1, 1}, &read));
  EXPECT_EQ(read, 11);
  EXPECT_FALSE(log.Read({2, 0}, &read));
  EXPECT_FALSE(log.Read({0, 0}, &read));
}

TEST(CallLogTest, EightThreadsRecordAndReplayTheCallsOfOneInvocation) {
  constexpr int kRounds = 200;
  constexpr int kCalls = 20;
  for (int round = 0; round < kRounds; ++round) {
    FramePtr<Frame> caller = MakeFrame(0);
    // Thread i has call site i in its hand, as the invocation of that site has.
    const auto run = [&caller](bool replay) {
      Occurrences occurrences;
      std::vector<std::thread> threads;
      for (int site = 0; site < kThreads; ++site) {
        threads.emplace_back([&, site] {
          for (int call = 0; call < kCalls; ++call) {
            const CallKey key = occurrences.Next(site);
            const int64_t value = key.site * 1000 + key.occurrence;
            FramePtr<Frame> frame;
            if (!replay) {
              caller->calls.Write(key, MakeFrame(value));
            } else if (!caller->calls.Read(key, &frame) || frame->value != value) {
              ADD_FAILURE() << "call " << call << " from site " << site;
            }
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    };
    run(false);
    run(true);
    caller = FramePtr<Frame>();
    ASSERT_EQ(FrameBase::Live().entries, 0);
  }
}

}  // namespace
}  // namespace recgraph
