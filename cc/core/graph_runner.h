// The thread of the graph runner: it does one thing after another, beside the thread of the program.
#ifndef RECGRAPH_CC_CORE_GRAPH_RUNNER_H_
#define RECGRAPH_CC_CORE_GRAPH_RUNNER_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace recgraph {

class GraphRunner {
 public:
  GraphRunner() = default;
  GraphRunner(const GraphRunner&) = delete;
  GraphRunner& operator=(const GraphRunner&) = delete;

  // Waits for everything that was launched.
  ~GraphRunner() {
    if (process_ != processes_) return;  // the thread is not in this process, which nobody would ever end
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      state_->is_closing = true;
      state_->changed.notify_all();
    }
    if (state_->thread.joinable()) state_->thread.join();
    delete state_;
  }

  // Runs `body` on the runner's thread, after all that was launched before. Any thread may call it.
  void Launch(std::function<void()> body) {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->thread.joinable()) state_->thread = std::thread(Work, state_);
    state_->waiting.push_back(std::move(body));
    state_->changed.notify_all();
  }

  // This process was forked: the threads of runners made before have stayed in the other one.
  static void NoteFork() { ++processes_; }

 private:
  // Left behind after a fork: whoever takes a condition apart waits for threads that wait for it.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> waiting;
    bool is_closing = false;
    std::thread thread;
  };

  static void Work(State* state) {
    std::unique_lock<std::mutex> lock(state->mutex);
    while (true) {
      state->changed.wait(lock, [state] { return state->is_closing || !state->waiting.empty(); });
      if (state->waiting.empty()) return;
      std::function<void()> body = std::move(state->waiting.front());
      state->waiting.pop_front();
      lock.unlock();
      body();
      body = nullptr;
      lock.lock();
    }
  }

  inline static std::atomic<int> processes_{0};

  State* const state_ = new State;
  const int process_ = processes_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_GRAPH_RUNNER_H_
