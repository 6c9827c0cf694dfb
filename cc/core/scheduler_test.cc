// Every policy runs every task exactly once, and none of them by recursion; the order is what its name says.
#include "cc/core/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace recgraph {
namespace {

constexpr int kThreads = 8;

// A first-in-first-out pool in place of TensorFlow's. Run returns when nothing is queued or running.
class Pool {
 public:
  Submit submit() {
    return [this](Task task) {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
      ++submitted_;
      changed_.notify_one();
    };
  }

  void Run(int threads) {
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back([this] { Work(); });
    for (std::thread& worker : workers) worker.join();
  }

  int submitted() {
    std::lock_guard<std::mutex> lock(mutex_);
    return submitted_;
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !tasks_.empty() || running_ == 0; });
      if (tasks_.empty()) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      ++running_;
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      if (--running_ == 0 && tasks_.empty()) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  int running_ = 0;
  int submitted_ = 0;
};

// Schedules a binary tree of tasks, each of which schedules its two children.
void ScheduleTree(Scheduler* scheduler, int depth, std::atomic<int>* ran) {
  scheduler->Schedule([=] {
    ran->fetch_add(1);
    if (depth == 0) return;
    ScheduleTree(scheduler, depth - 1, ran);
    ScheduleTree(scheduler, depth - 1, ran);
  });
}

void ScheduleChain(Scheduler* scheduler, int depth, std::atomic<int>* ran) {
  scheduler->Schedule([=] {
    ran->fetch_add(1);
    if (depth > 1) ScheduleChain(scheduler, depth - 1, ran);
  });
}

// The order in which a parent's ten children run on one thread.
std::vector<int> OrderOfTen(Policy policy) {
  Pool pool;
  std::vector<int> order;
  auto scheduler = MakeScheduler(policy, 1, pool.submit());
  scheduler->Schedule([&] {
    for (int i = 0; i < 10; ++i) scheduler->Schedule([&order, i] { order.push_back(i); });
  });
  pool.Run(1);
  return order;
}

class EveryPolicyTest : public ::testing::TestWithParam<std::tuple<Policy, int>> {
 protected:
  Policy policy() const { return std::get<0>(GetParam()); }
  int threads() const { return std::get<1>(GetParam()); }

  std::shared_ptr<Scheduler> Make(Pool* pool) const {
    return MakeScheduler(policy(), threads(), pool->submit());
  }
};

TEST_P(EveryPolicyTest, RunsEveryTaskOfATreeOnce) {
  Pool pool;
  std::atomic<int> ran{0};
  auto scheduler = Make(&pool);
  ScheduleTree(scheduler.get(), 11, &ran);
  pool.Run(threads());
  EXPECT_EQ(ran, (1 << 12) - 1);
}

TEST_P(EveryPolicyTest, RunsEachOfManyTasksOnceWhenEightThreadsSchedule) {
  constexpr int kEach = 500;
  Pool pool;
  auto scheduler = Make(&pool);
  std::vector<std::atomic<int>> counts(kThreads * kEach);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kThreads; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < kEach; ++i) {
        scheduler->Schedule([&counts, at = caller * kEach + i] { counts[at].fetch_add(1); });
      }
    });
  }
  pool.Run(threads());
  for (std::thread& caller : callers) caller.join();
  pool.Run(threads());
  for (const std::atomic<int>& count : counts) ASSERT_EQ(count, 1);
}

TEST_P(EveryPolicyTest, NeverRunsATaskInsideTheCallThatSchedulesIt) {
  Pool pool;
  auto scheduler = Make(&pool);
  std::atomic<int> nested{0};
  // Per thread, and not per task: on another thread the child may well run before Schedule returns.
  static thread_local bool scheduling = false;
  scheduler->Schedule([&] {
    for (int i = 0; i < 100; ++i) {
      scheduling = true;
      scheduler->Schedule([&] { nested += scheduling ? 1 : 0; });
      scheduling = false;
    }
  });
  pool.Run(threads());
  EXPECT_EQ(nested, 0);
}

TEST_P(EveryPolicyTest, FollowsALongChainOnAConstantStack) {
  constexpr int kDepth = 100000;
  Pool pool;
  std::atomic<int> ran{0};
  auto scheduler = Make(&pool);
  ScheduleChain(scheduler.get(), kDepth, &ran);
  pool.Run(threads());
  EXPECT_EQ(ran, kDepth);
}

TEST_P(EveryPolicyTest, RunsWhatWasScheduledWhenItsOwnerIsGoneAndThenIsFreed) {
  Pool pool;
  std::atomic<int> ran{0};
  auto scheduler = Make(&pool);
  const std::weak_ptr<Scheduler> watch = scheduler;
  for (int i = 0; i < 20; ++i) scheduler->Schedule([&] { ran.fetch_add(1); });
  scheduler.reset();
  pool.Run(threads());
  EXPECT_EQ(ran, 20);
  EXPECT_TRUE(watch.expired());
}

TEST_P(EveryPolicyTest, DestroysWhatATaskHoldsOnceItHasRun) {
  Pool pool;
  auto scheduler = Make(&pool);
  auto value = std::make_shared<int>(1);
  scheduler->Schedule([&scheduler, value] {
    for (int i = 0; i < 20; ++i) scheduler->Schedule([value] {});
  });
  pool.Run(threads());
  EXPECT_EQ(value.use_count(), 1);
}

TEST_P(EveryPolicyTest, KeepsTwoStepsOnOnePoolApart) {
  Pool pool;
  std::atomic<int> ran{0};
  auto outer = Make(&pool);
  auto inner = Make(&pool);
  for (int i = 0; i < 50; ++i) {
    outer->Schedule([&] {
      ran.fetch_add(1);
      inner->Schedule([&] {
        ran.fetch_add(1);
        outer->Schedule([&] { ran.fetch_add(1); });
      });
    });
  }
  pool.Run(threads());
  EXPECT_EQ(ran, 150);
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicyTest,
                         ::testing::Combine(::testing::Values(Policy::kFifo, Policy::kDepthFirst,
                                                              Policy::kRandom),
                                            ::testing::Values(1, 2, kThreads)),
                         [](const auto& test) {
                           return std::string(PolicyName(std::get<0>(test.param))) + "_" +
                                  std::to_string(std::get<1>(test.param)) + "_threads";
                         });

TEST(PolicyOrderTest, FifoRunsInTheOrderOfScheduling) {
  EXPECT_EQ(OrderOfTen(Policy::kFifo), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(PolicyOrderTest, DepthFirstRunsTheNewestFirst) {
  EXPECT_EQ(OrderOfTen(Policy::kDepthFirst), (std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
}

TEST(PolicyOrderTest, RandomDoesNotRepeatOneOrder) {
  const std::vector<int> first = OrderOfTen(Policy::kRandom);
  bool differs = false;
  for (int i = 0; i < 20 && !differs; ++i) differs = OrderOfTen(Policy::kRandom) != first;
  EXPECT_TRUE(differs);
}

TEST(DepthFirstTest, WakesNoOtherThreadForAChain) {
  Pool pool;
  std::atomic<int> ran{0};
  auto scheduler = MakeScheduler(Policy::kDepthFirst, kThreads, pool.submit());
  ScheduleChain(scheduler.get(), 1000, &ran);
  pool.Run(kThreads);
  EXPECT_EQ(pool.submitted(), 1);
}

TEST(DepthFirstTest, WakesNoOtherThreadWhereThereIsNone) {
  Pool pool;
  std::atomic<int> ran{0};
  auto scheduler = MakeScheduler(Policy::kDepthFirst, 1, pool.submit());
  ScheduleTree(scheduler.get(), 10, &ran);
  pool.Run(1);
  EXPECT_EQ(pool.submitted(), 1);
}

TEST(DepthFirstTest, HandsTheOldestOverWhenWorkPilesUp) {
  Pool pool;
  auto scheduler = MakeScheduler(Policy::kDepthFirst, 2, pool.submit());
  std::vector<int> order;
  scheduler->Schedule([&] {
    for (int i = 0; i < 4; ++i) scheduler->Schedule([&order, i] { order.push_back(i); });
  });
  pool.Run(1);  // one thread, so that the order is known: its own tasks, then what it gave away
  EXPECT_EQ(order, (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(pool.submitted(), 2);
}

TEST(DepthFirstTest, LeavesTheTasksOfAnotherStepToThePool) {
  Pool pool;
  auto outer = MakeScheduler(Policy::kDepthFirst, 2, pool.submit());
  auto inner = MakeScheduler(Policy::kDepthFirst, 2, pool.submit());
  outer->Schedule([&] { inner->Schedule([] {}); });
  pool.Run(1);
  EXPECT_EQ(pool.submitted(), 2);
}

TEST(PolicyNameTest, IsReadBackAsThePolicyItNames) {
  for (const Policy policy : {Policy::kFifo, Policy::kDepthFirst, Policy::kRandom}) {
    Policy parsed = policy == Policy::kFifo ? Policy::kRandom : Policy::kFifo;
    EXPECT_TRUE(ParsePolicy(PolicyName(policy), &parsed));
    EXPECT_EQ(parsed, policy);
  }
}

TEST(PolicyNameTest, RefusesAnotherNameAndLeavesThePolicyAlone) {
  Policy policy = Policy::kRandom;
  EXPECT_FALSE(ParsePolicy("breadth_first", &policy));
  EXPECT_EQ(policy, Policy::kRandom);
}

TEST(DefaultPolicyTest, IsWhatWasSetLast) {
  const Policy before = DefaultPolicy();
  SetDefaultPolicy(Policy::kFifo);
  EXPECT_EQ(DefaultPolicy(), Policy::kFifo);
  SetDefaultPolicy(before);
}

}  // namespace
}  // namespace recgraph
