// Which block each policy picks.
#include "cc/core/batch_policy.h"

#include <vector>

#include "gtest/gtest.h"

namespace recgraph {
namespace batch {
namespace {

size_t Pick(Order order, const std::vector<ReadyBlock>& ready) { return MakeBatchPolicy(order)->Pick(ready); }

TEST(BatchPolicy, TheAgendaTakesTheSmallestPriorityAndOfEqualsTheMostRows) {
  EXPECT_EQ(Pick(Order::kAgenda, {{0, 2, 90, 1}, {1, 1, 1, 1}, {2, 3, 90, 1}}), 1u);
  EXPECT_EQ(Pick(Order::kAgenda, {{0, 2, 90, 1}, {1, 1, 1, 1}, {2, 1, 5, 1}, {3, 1, 4, 1}}), 2u);
}

TEST(BatchPolicy, DepthTakesTheDeepestAndHeightTheShallowest) {
  const std::vector<ReadyBlock> ready = {{0, 1, 9, 3.5}, {1, 2, 9, 7}, {2, 3, 9, 2}};
  EXPECT_EQ(Pick(Order::kDepth, ready), 1u);
  EXPECT_EQ(Pick(Order::kHeight, ready), 2u);
}

TEST(BatchPolicy, NamesAreThoseThatAreParsed) {
  for (const char* name : {"agenda", "depth", "height", "random"}) {
    Order order;
    ASSERT_TRUE(ParseOrder(name, &order));
    EXPECT_STREQ(OrderName(order), name);
  }
  Order order;
  EXPECT_FALSE(ParseOrder("largest", &order));
}

}  // namespace
}  // namespace batch
}  // namespace recgraph
