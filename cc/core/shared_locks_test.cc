// Readers of several variables wait for no writer that waits for them, and leave no mutex taken.
#include "cc/core/shared_locks.h"

#include <gtest/gtest.h>

#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace recgraph {
namespace {

struct Variable {
  std::shared_mutex* mu() { return &mutex; }
  std::shared_mutex mutex;
};

bool CanWrite(Variable* variable) {
  bool can = false;
  std::thread([&] {
    can = variable->mutex.try_lock();
    if (can) variable->mutex.unlock();
  }).join();
  return can;
}

TEST(SharedLocks, AreTakenInOneOrderAndOnce) {
  Variable all[3];
  std::vector<Variable*> variables = {&all[2], &all[0], &all[2], &all[1], &all[0]};
  PutInOrder(&variables);
  EXPECT_EQ(variables, (std::vector<Variable*>{&all[0], &all[1], &all[2]}));
}

TEST(SharedLocks, AreGivenBackByAnException) {
  Variable all[2];
  const std::vector<Variable*> variables = {&all[0], &all[1]};
  try {
    const SharedLocks<Variable> locks(variables);
    EXPECT_FALSE(CanWrite(&all[0]));
    throw std::length_error("of a vector");
  } catch (const std::length_error&) {
  }
  EXPECT_TRUE(CanWrite(&all[0]));
  EXPECT_TRUE(CanWrite(&all[1]));
}

TEST(SharedLocks, DoNotMeetAWriterOfSeveral) {
  Variable all[2];
  std::vector<Variable*> variables = {&all[1], &all[0]};
  PutInOrder(&variables);
  int value = 0;  // not atomic: guarded by both
  std::thread writer([&] {
    for (int i = 0; i < 2000; ++i) {
      std::lock_guard<std::shared_mutex> first(all[0].mutex);
      std::lock_guard<std::shared_mutex> second(all[1].mutex);
      ++value;
    }
  });
  int seen = 0;
  for (int i = 0; i < 2000; ++i) {
    const SharedLocks<Variable> locks(variables);
    EXPECT_LE(seen, value);
    seen = value;
  }
  writer.join();
  EXPECT_EQ(value, 2000);
}

}  // namespace
}  // namespace recgraph
