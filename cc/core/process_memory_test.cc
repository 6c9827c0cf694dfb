// Memory that is taken is seen, and what is allowed can be said.
#include "cc/core/process_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace recgraph {
namespace {

TEST(ProcessMemoryTest, SeesWhatIsTaken) {
  const int64_t before = OwnMemory();
  ASSERT_GT(before, 0);
  const std::vector<char> taken(64 << 20, 'x');
  const char* const volatile seen = taken.data();  // else clang takes no memory for it
  ASSERT_NE(seen, nullptr);
  EXPECT_GT(OwnMemory() - before, 60 << 20) << taken.size();
}

TEST(ProcessMemoryTest, TheLimitIsThatOfTheMachineOrWhatTheUserSays) {
  unsetenv("RECGRAPH_MEMORY_GB");
  EXPECT_GT(MemoryLimit(), 2 * OwnMemory());
  setenv("RECGRAPH_MEMORY_GB", "1.5", 1);
  EXPECT_EQ(MemoryLimit(), 1'500'000'000);
  setenv("RECGRAPH_MEMORY_GB", "much", 1);
  EXPECT_NE(MemoryLimit(), 1'500'000'000);
  unsetenv("RECGRAPH_MEMORY_GB");
}

}  // namespace
}  // namespace recgraph
