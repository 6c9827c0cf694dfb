// What a user reads in an error: the path from the root to the invocation that failed.
#include "cc/core/call_path.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace recgraph {
namespace {

std::vector<std::string> Numbered(int count) {
  std::vector<std::string> labels;
  for (int i = 0; i < count; ++i) labels.push_back("s" + std::to_string(i));
  return labels;
}

TEST(CallPathTest, ShowsEveryCallSiteOfAShortPath) {
  EXPECT_EQ(FormatCallPath({"tree_lstm", "right", "right", "left"}),
            "tree_lstm > right > right > left, 4 levels");
}

TEST(CallPathTest, NamesTheRowOfAMap) {
  EXPECT_EQ(WithRow("trees", 3), "trees[3]");
  EXPECT_EQ(WithRow("trees", -1), "trees");
}

TEST(CallPathTest, CountsTheRootAloneAsOneLevel) {
  EXPECT_EQ(FormatCallPath({"tree_lstm"}), "tree_lstm, 1 level");
}

TEST(CallPathTest, NeverReplacesASingleLabelByAnEllipsis) {
  const std::string text = FormatCallPath(Numbered(17));
  EXPECT_EQ(text.find("more"), std::string::npos) << text;
  EXPECT_NE(text.find("s7 > s8 > s9"), std::string::npos) << text;
}

TEST(CallPathTest, KeepsBothEndsOfALongPathAndSaysHowManyAreMissing) {
  EXPECT_EQ(FormatCallPath(Numbered(18)),
            "s0 > s1 > s2 > s3 > s4 > s5 > s6 > s7 > ... 2 more ... > "
            "s10 > s11 > s12 > s13 > s14 > s15 > s16 > s17, 18 levels");
}

TEST(CallPathTest, StaysReadableForARunawayRecursion) {
  const std::string text = FormatCallPath(std::vector<std::string>(1000000, "self"));
  EXPECT_LT(text.size(), 200u);
  EXPECT_NE(text.find("... 999984 more ..."), std::string::npos) << text;
  EXPECT_NE(text.find("1000000 levels"), std::string::npos) << text;
}

}  // namespace
}  // namespace recgraph
