// Locks that are taken in another order are told of, and no others.
#include "cc/core/lock_order.h"

#include <gtest/gtest.h>

#include <mutex>
#include <utility>
#include <vector>

namespace recgraph {
namespace {

std::vector<std::pair<int, int>>& Violations() {
  static std::vector<std::pair<int, int>> violations;
  return violations;
}

class LockOrderTest : public testing::Test {
 protected:
  void SetUp() override {
    Violations().clear();
    LockOrder::SetViolated([](int place, int held) { Violations().emplace_back(place, held); });
  }

  Ordered<std::recursive_mutex, 1> first_;
  Ordered<std::recursive_mutex, 2> second_;
  Ordered<std::mutex, 4> last_;
};

TEST_F(LockOrderTest, AllowsTheOrder) {
  for (int i = 0; i < 2; ++i) {
    const std::lock_guard one(first_);
    const std::lock_guard two(second_);
    const std::lock_guard three(last_);
  }
  EXPECT_TRUE(Violations().empty());
}

TEST_F(LockOrderTest, TellsOfAnother) {
  {
    const std::lock_guard three(last_);
    const std::lock_guard one(first_);
  }
  const std::lock_guard two(second_);
  const std::lock_guard one(first_);
  EXPECT_EQ(Violations(), (std::vector<std::pair<int, int>>{{1, 4}, {1, 2}}));
}

TEST_F(LockOrderTest, LetsAThreadTakeAgainWhatItHas) {
  const std::lock_guard one(first_);
  const std::lock_guard two(second_);
  const std::lock_guard again(first_);
  EXPECT_TRUE(Violations().empty());
}

TEST_F(LockOrderTest, DoesNotMindWhoOnlyTries) {
  const std::lock_guard three(last_);
  ASSERT_TRUE(first_.try_lock());
  first_.unlock();
  EXPECT_TRUE(Violations().empty());
  const std::lock_guard one(first_);
  EXPECT_EQ(Violations().size(), 1);
}

TEST(LockOrderDeathTest, EndsTheProcessInTests) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("RECGRAPH_DEFECTS", "raise", 1);
  const auto wrongly = [] {
    Ordered<std::mutex, 2> later;
    Ordered<std::mutex, 1> earlier;
    const std::lock_guard one(later);
    const std::lock_guard two(earlier);
  };
  EXPECT_DEATH(wrongly(), "place 1 is waited for by a thread that holds one of place 2");
}

}  // namespace
}  // namespace recgraph
