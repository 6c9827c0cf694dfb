// All parts are done, by whomever, and an exception in one of them reaches nobody.
#include "cc/core/parts.h"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace recgraph {
namespace {

// Hands each task to a thread of its own.
struct Threads {
  ~Threads() {
    for (std::thread& thread : all) thread.join();
  }
  void operator()(std::function<void()> task) const { all.emplace_back(std::move(task)); }
  mutable std::vector<std::thread> all;
};

TEST(Parts, AreAllDone) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const Threads threads;
    std::vector<int> done(4, 0);
    EXPECT_TRUE(DoParts(4, threads, [&](int part) { return ++done[part] > 0; }));
    EXPECT_EQ(done, std::vector<int>(4, 1));
  }
}

TEST(Parts, OneThatIsNotDoneIsTold) {
  const Threads threads;
  EXPECT_FALSE(DoParts(3, threads, [](int part) { return part != 2; }));
  EXPECT_FALSE(DoParts(1, threads, [](int) { return false; }));
}

TEST(Parts, AnExceptionStaysInside) {
  for (const int where : {0, 1, 2}) {
    const Threads threads;
    std::vector<int> done(3, 0);
    EXPECT_FALSE(DoParts(3, threads, [&](int part) {
      if (part == where) throw std::length_error("of a vector");
      return ++done[part] > 0;
    }));
    std::vector<int> expected(3, 1);
    expected[where] = 0;
    EXPECT_EQ(done, expected);
  }
}

TEST(Parts, ThatCannotBeHandedOverAreDoneHere) {
  const auto here = std::this_thread::get_id();
  std::vector<std::thread::id> by(3);
  const auto refuse = [](const std::function<void()>&) { throw std::bad_alloc(); };
  EXPECT_TRUE(DoParts(3, refuse, [&](int part) {
    by[part] = std::this_thread::get_id();
    return true;
  }));
  EXPECT_EQ(by, std::vector<std::thread::id>(3, here));
}

}  // namespace
}  // namespace recgraph
