// Tables of calls against a map, with hashes that are equal more often than not.
#include "cc/core/call_table.h"

#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace recgraph {
namespace batch {
namespace {

TEST(CallTable, KeepsTheFirstOfEqualCalls) {
  std::mt19937 random(1);
  for (const uint64_t hashes : {uint64_t{1}, uint64_t{3}, uint64_t{64}, uint64_t{1} << 40}) {
    for (const uint32_t kinds : {1u, 40u, 1000u}) {
      CallTable table;
      std::map<uint32_t, uint32_t> first;  // activation, by what it is given
      std::vector<uint32_t> given;         // of each activation
      for (int call = 0; call < 2000; ++call) {
        const uint32_t what = random() % kinds;
        const uint64_t hash = (what * 0x9E3779B97F4A7C15u) % hashes;
        const auto next = static_cast<uint32_t>(given.size());
        const uint32_t found = table.FindOrAdd(hash, next, [&](uint32_t other) { return given.at(other) == what; });
        ASSERT_EQ(found, first.emplace(what, next).first->second);
        if (found == next) given.push_back(what);
      }
      EXPECT_EQ(given.size(), first.size());
    }
  }
}

TEST(CallTable, ComparesOnlyWhereHashesAreEqual) {
  CallTable table;
  for (uint32_t i = 0; i < 1000; ++i) {
    const auto never = [](uint32_t) {
      ADD_FAILURE() << "compared with another hash";
      return false;
    };
    EXPECT_EQ(table.FindOrAdd(uint64_t{i} << 32, i, never), i);
  }
  int compared = 0;
  const auto is_other = [&compared](uint32_t) {
    ++compared;
    return false;
  };
  EXPECT_EQ(table.FindOrAdd(0, 1000, is_other), 1000);
  EXPECT_EQ(compared, 1);
}

}  // namespace
}  // namespace batch
}  // namespace recgraph
