// Which engine is taken, how often the other one is tried, and what that costs.
#include "cc/core/engine_choice.h"

#include <string>

#include "gtest/gtest.h"

namespace recgraph {
namespace {

constexpr CallClass kMapped{true, true, 25};
constexpr CallClass kSingle{false, false, 1};

bool IsBatched(Engine engine) { return engine == Engine::kBatched; }

// Makes `calls` calls that cost so much by either engine; what they have cost together.
double Make(EngineChoice* choice, const CallClass& call, int calls, double parallel, double batched) {
  double total = 0;
  for (int i = 0; i < calls; ++i) {
    const Engine engine = choice->Pick(call);
    const double cost = IsBatched(engine) ? batched : parallel;
    choice->Add(call, engine, false, cost, 10);
    total += cost;
  }
  return total;
}

TEST(EngineChoice, TakesTheCheaperAndLooksAgain) {
  EngineChoice choice;
  int batched = 0;
  EXPECT_FALSE(choice.HasPicked(kMapped));
  for (int i = 0; i < 1000; ++i) {
    const Engine engine = choice.Pick(kMapped);
    batched += IsBatched(engine) ? 1 : 0;
    choice.Add(kMapped, engine, false, IsBatched(engine) ? 1e-3 : 2e-3, 100);
    choice.Add(kMapped, engine, true, IsBatched(engine) ? 1e-3 : 5e-4, 100);
  }
  EXPECT_EQ(batched, 1000 - 4 - 6);
  EXPECT_TRUE(choice.HasPicked(kMapped));
  EXPECT_NE(choice.Report().find("training, 16 or more roots: batched, 25.00 us"), std::string::npos);
}

TEST(EngineChoice, SingleCallsAreAClassOfTheirOwn) {
  EngineChoice choice;
  const CallClass one_row{false, true, 1};
  EXPECT_FALSE(IsBatched(choice.Pick(kSingle)));  // there may be no other
  EXPECT_FALSE(choice.HasPicked(one_row));
  EXPECT_TRUE(IsBatched(choice.Pick(one_row)));
  EXPECT_NE(choice.Report().find("inference, single calls: still trying both"), std::string::npos);
  Make(&choice, kSingle, 30, 1, 2);
  Make(&choice, one_row, 30, 2, 1);
  EXPECT_NE(choice.Report().find("inference, single calls: parallel"), std::string::npos);
  EXPECT_NE(choice.Report().find("inference, 1 or more roots: batched"), std::string::npos);
}

TEST(EngineChoice, LookingAgainCostsLittleHoweverDearTheOtherIs) {
  for (const double dearer : {1.5, 10.0, 1000.0}) {
    EngineChoice choice;
    Make(&choice, kSingle, 8, 1, dearer);
    EXPECT_LT(Make(&choice, kSingle, 100'000, 1, dearer), 1.1 * 100'000) << dearer;
  }
}

TEST(EngineChoice, AnInterruptedCallDecidesNothing) {
  for (int interrupted = 0; interrupted < 12; ++interrupted) {
    EngineChoice choice;
    for (int i = 0; i < 20; ++i) {
      const Engine engine = choice.Pick(kSingle);
      const double cost = IsBatched(engine) ? 1 : 2;
      choice.Add(kSingle, engine, false, i == interrupted ? 100 * cost : cost, 1);
    }
    EXPECT_NE(choice.Report().find("single calls: batched"), std::string::npos) << interrupted;
  }
}

TEST(EngineChoice, FollowsWhatCallsCostNow) {
  EngineChoice choice;
  Make(&choice, kSingle, 1000, 1, 2);
  EXPECT_LT(Make(&choice, kSingle, 10'000, 4, 2), 1.2 * 2 * 10'000);
}

}  // namespace
}  // namespace recgraph
