// All work is done, by threads of the pool, several at a time where it is large; nobody waits for a thread that sleeps.
#include "cc/core/patient_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <vector>

namespace recgraph {
namespace {

TEST(PatientPool, DoesEverythingBeforeItEnds) {
  std::atomic<int> done{0};
  {
    PatientPool pool(2);
    for (int i = 0; i < 1000; ++i) pool.Schedule([&] { ++done; });
  }
  EXPECT_EQ(done, 1000);
}

TEST(PatientPool, KeepsTheOrderOfOneThread) {
  std::vector<int> done;
  {
    PatientPool pool(1);
    for (int i = 0; i < 100; ++i) pool.Schedule([&done, i] { done.push_back(i); });
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[i], i);
}

TEST(PatientPool, WorksInItsOwnThreads) {
  std::promise<bool> is_worker;
  PatientPool pool(1);
  pool.Schedule([&] { is_worker.set_value(PatientPool::IsWorker()); });
  EXPECT_TRUE(is_worker.get_future().get());
  EXPECT_FALSE(PatientPool::IsWorker());
}

// Each piece needs the others to be under way.
TEST(PatientPool, UsesAllThreads) {
  for (int round = 0; round < 20; ++round) {
    PatientPool pool(3);
    std::atomic<int> begun{0};
    for (int i = 0; i < 3; ++i) {
      pool.Schedule([&] {
        ++begun;
        while (begun < 3) std::this_thread::yield();
      });
    }
    while (begun < 3) std::this_thread::yield();
  }
}

TEST(PatientPool, WakesWhoSleeps) {
  PatientPool pool(2);
  for (int pause : {0, 1, 5, 20, 0, 20}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    std::promise<void> done;
    pool.Schedule([&] { done.set_value(); });
    const PatientPool::Urgency urgency(&pool);
    EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
}

TEST(PatientPool, TakesWorkFromWork) {
  std::atomic<int> done{0};
  {
    PatientPool pool(2);
    std::function<void(int)> split = [&](int depth) {
      ++done;
      if (depth == 0) return;
      for (int i = 0; i < 2; ++i) pool.Schedule([&split, depth] { split(depth - 1); });
    };
    pool.Schedule([&] { split(8); });
    while (done < 511) std::this_thread::yield();
  }
  EXPECT_EQ(done, 511);
}

TEST(PatientPool, TakesWorkFromManyThreads) {
  std::atomic<int> done{0};
  {
    PatientPool pool(2);
    std::vector<std::thread> givers;
    for (int i = 0; i < 4; ++i) {
      givers.emplace_back([&] {
        for (int j = 0; j < 500; ++j) pool.Schedule([&] { ++done; });
      });
    }
    for (std::thread& giver : givers) giver.join();
  }
  EXPECT_EQ(done, 2000);
}

}  // namespace
}  // namespace recgraph
