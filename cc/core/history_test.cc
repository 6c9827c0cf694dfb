// Histories: values by position, readers that come before them, and the end.
#include "cc/core/history.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace recgraph {
namespace {

TEST(History, GivesWhatWasPutAsOftenAsItIsWanted) {
  History<int> history(2);
  history.Put(1, 7);
  history.Put(1, 8);
  std::vector<int> seen;
  for (int position : {1, 0, 1}) history.Read(1, position, [&](const int* value) { seen.push_back(*value); });
  EXPECT_EQ(seen, (std::vector<int>{8, 7, 8}));
}

TEST(History, CallsReadersThatWereThereFirst) {
  History<int> history(1);
  std::vector<int> seen;
  for (int position : {1, 0, 1}) history.Read(0, position, [&](const int* value) { seen.push_back(*value); });
  history.Put(0, 5);
  EXPECT_EQ(seen, (std::vector<int>{5}));
  history.Put(0, 6);
  EXPECT_EQ(seen, (std::vector<int>{5, 6, 6}));
}

TEST(History, ClosingTellsReadersAndKeepsWhatIsThere) {
  History<int> history(1);
  history.Put(0, 5);
  int told = 0;
  auto reader = [&](const int* value) { told += value == nullptr ? 1 : 10; };
  history.Read(0, 1, reader);
  history.Close();
  history.Close();
  EXPECT_EQ(told, 1);
  history.Put(0, 6);
  history.Read(0, 1, reader);
  EXPECT_EQ(told, 2);
  history.Read(0, 0, reader);
  EXPECT_EQ(told, 12);
}

TEST(History, ManyThreadsReadEverything) {
  constexpr int kValues = 1000;
  History<int> history(1);
  std::atomic<int64_t> sum{0};
  auto read = [&] {
    for (int i = 0; i < kValues; ++i) history.Read(0, i, [&](const int* value) { sum += *value; });
  };
  std::thread one(read);
  std::thread two(read);
  for (int i = 0; i < kValues; ++i) history.Put(0, i);
  one.join();
  two.join();
  EXPECT_EQ(sum, int64_t{kValues} * (kValues - 1));
}

}  // namespace
}  // namespace recgraph
