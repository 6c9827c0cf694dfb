// Everything that is left for the courier is brought, in order, and nothing is looked at longer than it asks for.
#include "cc/core/courier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace recgraph {
namespace {

constexpr std::chrono::microseconds kPace(100);

TEST(Courier, NeedsNoThreadForNothing) { Courier courier(kPace); }

TEST(Courier, ComesUntilItIsNotWorthIt) {
  std::atomic<int> visits{0};
  std::promise<void> last, next;
  Courier courier(kPace);
  courier.Add([&] {
    if (++visits < 10) return true;
    last.set_value();
    return false;
  });
  last.get_future().wait();
  courier.Add([&next] {
    next.set_value();
    return false;
  });
  next.get_future().wait();
  EXPECT_EQ(visits, 10);
}

TEST(Courier, LetsGoOfWhatItVisits) {
  auto held = std::make_shared<int>(1);
  std::weak_ptr<int> watched = held;
  std::promise<void> next;
  Courier courier(kPace);
  courier.Add([held] { return false; });
  held = nullptr;
  while (!watched.expired()) std::this_thread::yield();
}

TEST(Courier, StopsWhileItIsOnItsWay) {
  std::atomic<int> visits{0};
  {
    Courier courier(kPace);
    courier.Add([&visits] {
      ++visits;
      return true;
    });
    while (visits == 0) std::this_thread::yield();
  }
  const int before = visits;
  std::this_thread::sleep_for(10 * kPace);
  EXPECT_EQ(visits, before);
}

TEST(Courier, AVisitMayAddAnother) {
  std::promise<void> done;
  Courier courier(kPace);
  courier.Add([&] {
    courier.Add([&done] {
      done.set_value();
      return false;
    });
    return false;
  });
  done.get_future().wait();
}

// A box that many threads put numbers into, as a run of a graph is used: it asks for a visit when it has none.
class Box {
 public:
  void Put(const std::shared_ptr<Box>& self, Courier* courier, int number) {
    std::lock_guard<std::mutex> lock(mutex_);
    left_.push_back(number);
    if (is_visited_) return;
    is_visited_ = true;
    courier->Add([self] { return self->Collect(); });
  }

  size_t brought() {
    std::lock_guard<std::mutex> lock(mutex_);
    return brought_.size();
  }

  std::vector<int> numbers() { return brought_; }

 private:
  bool Collect() {
    std::lock_guard<std::mutex> lock(mutex_);
    is_visited_ = !left_.empty();
    brought_.insert(brought_.end(), left_.begin(), left_.end());
    left_.clear();
    return is_visited_;
  }

  std::mutex mutex_;
  std::vector<int> left_, brought_;
  bool is_visited_ = false;
};

TEST(Courier, BringsAllThatSeveralThreadsLeaveInTheirOrder) {
  constexpr int kThreads = 3, kNumbers = 2000;
  std::vector<std::shared_ptr<Box>> boxes;
  for (int i = 0; i < kThreads; ++i) boxes.push_back(std::make_shared<Box>());
  Courier courier(kPace);
  std::vector<std::thread> threads;
  for (const std::shared_ptr<Box>& box : boxes) {
    threads.emplace_back([&courier, box] {
      for (int i = 0; i < kNumbers; ++i) {
        box->Put(box, &courier, i);
        if (i % 500 == 0) std::this_thread::sleep_for(5 * kPace);  // the courier stops coming meanwhile
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::shared_ptr<Box>& box : boxes) {
    while (box->brought() < kNumbers) std::this_thread::yield();
    for (int i = 0; i < kNumbers; ++i) ASSERT_EQ(box->numbers()[i], i);
  }
}

}  // namespace
}  // namespace recgraph
