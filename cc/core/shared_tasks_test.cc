// Tasks that a pool and the thread that waits for them share: each is run once, by whoever is free.
#include "cc/core/shared_tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace recgraph {
namespace {

constexpr std::chrono::milliseconds kAtOnce{0};
constexpr std::chrono::milliseconds kPatiently{10};

// `count` tasks, each of which adds the next; the last one ends it.
void Chain(const std::shared_ptr<SharedTasks>& tasks, const Submit& submit, int count, std::atomic<int>* ran) {
  submit([=] {
    ++*ran;
    count > 1 ? Chain(tasks, submit, count - 1, ran) : tasks->End();
  });
}

TEST(SharedTasks, AreRunByTheOneThatWaitsWhereThePoolRunsNone) {
  for (const auto patience : {kAtOnce, kPatiently}) {
    std::vector<Task> pool;
    const auto tasks = std::make_shared<SharedTasks>([&](Task task) { pool.push_back(std::move(task)); });
    std::atomic<int> ran{0};
    Chain(tasks, tasks->submit(), 1000, &ran);
    tasks->RunUntilEnd(patience);
    EXPECT_EQ(ran, 1000);
    for (const Task& late : pool) late();  // the pool is free again, and finds nothing
    EXPECT_EQ(ran, 1000);
  }
}

TEST(SharedTasks, AreLeftToAPoolThatRunsThem) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  const auto tasks = std::make_shared<SharedTasks>([&](Task task) {
    std::lock_guard<std::mutex> lock(mutex);
    threads.emplace_back(std::move(task));
  });
  const auto waiting = std::this_thread::get_id();
  std::atomic<bool> helped{false};
  tasks->submit()([&] {
    helped = std::this_thread::get_id() == waiting;
    std::this_thread::sleep_for(3 * kPatiently);
    tasks->End();
  });
  tasks->RunUntilEnd(std::chrono::minutes(1));
  EXPECT_FALSE(helped);
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedTasks, AreRunOnceWhereBothTakeThem) {
  constexpr int kTasks = 2000;
  std::vector<std::atomic<int>> runs(kTasks);
  std::atomic<int> left{kTasks};
  std::mutex mutex;
  std::vector<Task> pool;
  const auto add_to_pool = [&](Task task) {
    std::lock_guard<std::mutex> lock(mutex);
    pool.push_back(std::move(task));
  };
  const auto tasks = std::make_shared<SharedTasks>(add_to_pool);
  tasks->Prepare(kTasks, false);
  for (int i = 0; i < kTasks; ++i) {
    tasks->submit()([&, i] {
      ++runs[i];
      if (--left == 0) tasks->End();
    });
  }
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&, worker] {
      for (int i = worker; i < kTasks; i += 3) pool[i]();
    });
  }
  tasks->RunUntilEnd(kAtOnce);
  for (std::thread& thread : workers) thread.join();
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(SharedTasks, WakeNoMoreThreadsThanThereAre) {
  std::vector<Task> pool;
  const auto tasks = std::make_shared<SharedTasks>([&](Task task) { pool.push_back(std::move(task)); });
  tasks->Prepare(2, false);
  int ran = 0;
  for (int i = 0; i < 100; ++i) tasks->submit()([&] { ++ran; });
  EXPECT_EQ(pool.size(), 2);
  for (const Task& worker : std::exchange(pool, {})) worker();
  EXPECT_EQ(ran, 100);
  tasks->submit()([&] { tasks->End(); });
  EXPECT_EQ(pool.size(), 1);  // both have gone
  pool[0]();
  tasks->RunUntilEnd(std::chrono::minutes(1));
}

TEST(SharedTasks, AreBegunByTheOneThatWaitsWhereItHasNothingElseToDo) {
  std::vector<Task> pool;
  const auto tasks = std::make_shared<SharedTasks>([&](Task task) { pool.push_back(std::move(task)); });
  tasks->Prepare(2, true);
  tasks->LeaveFirst();
  std::atomic<int> ran{0};
  Chain(tasks, tasks->submit(), 1000, &ran);
  EXPECT_TRUE(pool.empty());
  tasks->RunUntilEnd(std::chrono::minutes(1));
  EXPECT_EQ(ran, 1000);
  EXPECT_LE(pool.size(), 1);  // what the chain adds while it runs goes to the pool
}

TEST(SharedTasks, AreTakenByTheOneThatWaitsWhereThePoolIsLate) {
  std::vector<Task> pool;
  const auto tasks = std::make_shared<SharedTasks>([&](Task task) { pool.push_back(std::move(task)); });
  tasks->Prepare(2, true);
  tasks->submit()([&] { tasks->End(); });
  EXPECT_EQ(pool.size(), 1);
  tasks->RunUntilEnd(std::chrono::minutes(1));
  pool[0]();
}

TEST(SharedTasks, MayEndBeforeAnybodyWaits) {
  const auto tasks = std::make_shared<SharedTasks>([](const Task&) {});
  tasks->End();
  tasks->RunUntilEnd(kAtOnce);
  tasks->RunUntilEnd(kPatiently);
}

}  // namespace
}  // namespace recgraph
