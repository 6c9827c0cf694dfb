// Everything that is launched is done, once and in order, on a thread of its own.
#include "cc/core/graph_runner.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "cc/core/channel.h"
#include "cc/core/history.h"

namespace recgraph {
namespace {

TEST(GraphRunner, DoesOneThingAfterAnother) {
  std::vector<int> done;
  {
    GraphRunner runner;
    for (int i = 0; i < 100; ++i) runner.Launch([&done, i] { done.push_back(i); });
  }
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[i], i);
}

TEST(GraphRunner, HasAThreadOfItsOwn) {
  std::promise<std::thread::id> thread;
  GraphRunner runner;
  runner.Launch([&thread] { thread.set_value(std::this_thread::get_id()); });
  EXPECT_NE(thread.get_future().get(), std::this_thread::get_id());
}

TEST(GraphRunner, NeedsNoThreadForNothing) { GraphRunner runner; }

TEST(GraphRunner, TakesFromSeveralThreads) {
  std::atomic<int> done{0};
  {
    GraphRunner runner;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 200; ++j) runner.Launch([&done] { ++done; });
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(done, 800);
}

TEST(GraphRunner, LetsGoOfWhatIsDone) {
  auto held = std::make_shared<int>(1);
  std::weak_ptr<int> watched = held;
  GraphRunner runner;
  std::promise<void> next;
  runner.Launch([held] {});
  held = nullptr;
  runner.Launch([&next] { next.set_value(); });
  next.get_future().wait();
  EXPECT_TRUE(watched.expired());
}

// What steps do: a program gives values and takes results, and stops some of the graphs in the middle.
TEST(GraphRunner, RunsGraphsThatMeetTheProgramAndAreStopped) {
  constexpr int kRuns = 60;
  constexpr int kValues = 20;
  int finished = 0;
  {
    GraphRunner runner;
    for (int run = 0; run < kRuns; ++run) {
      auto channels = std::make_shared<Channels<int>>(2);
      auto history = std::make_shared<History<int>>(1);
      runner.Launch([channels, history] {
        for (int i = 0; i < kValues; ++i) {
          std::promise<int> taken;
          channels->Take(
              0, [&taken](const int* value) { taken.set_value(value == nullptr ? -1 : *value); },
              [](const std::function<void()>& work) { work(); });
          const int value = taken.get_future().get();
          if (value < 0) break;
          history->Put(0, value);
          history->Read(0, i, [channels](const int* kept) { channels->Put(1, kept == nullptr ? -1 : *kept + 1); });
        }
        channels->Close();
        history->Close();
      });
      for (int i = 0; i < kValues; ++i) {
        channels->Put(0, i);
        int result = 0;
        if (run % 3 == 1 && i == run % kValues) {
          channels->Close();
          history->Close();
          break;
        }
        ASSERT_EQ(channels->Wait(1, i, std::chrono::milliseconds(20000), &result), Meeting::kValue);
        EXPECT_EQ(result, i + 1);
        finished += i == kValues - 1;
      }
    }
  }
  EXPECT_EQ(finished, kRuns - kRuns / 3);
}

TEST(GraphRunner, CanBeTakenApartInAForkedProcess) {
  auto* runner = new GraphRunner;
  std::promise<void> running;
  runner->Launch([&running] { running.set_value(); });
  running.get_future().wait();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // it would wait for a thread that is not there
    GraphRunner::NoteFork();
    delete runner;
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  delete runner;
}

}  // namespace
}  // namespace recgraph
