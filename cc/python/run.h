// One run of a step's graph: its channels, and how it ended.
#ifndef RECGRAPH_CC_PYTHON_RUN_H_
#define RECGRAPH_CC_PYTHON_RUN_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/channel.h"
#include "cc/core/history.h"
#include "cc/core/lock_order.h"
#include "cc/python/access.h"
#include "cc/python/replays.h"
#include "cc/python/timing.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// Told in place of a position in the history by an input that takes something else: the graph gets an empty tensor.
constexpr int kNoPosition = -1;

// When the graph is handed what Python tells it.
enum class Delivery {
  kAtOnce,     // by Python's thread, which has to wake others for it
  kSoon,       // by a courier, within `kSoon`, or when Python waits for the graph
  kOnRequest,  // when somebody waits for the graph, which starts only then: it is evaluated lazily
};

// Any thread may call anything.
class Run : public std::enable_shared_from_this<Run> {
 public:
  // Makes a run that the ops of its graph find by `id`; its graph is timed if that is asked for and possible now.
  static std::shared_ptr<Run> New(int slots, int cells, bool is_timed);
  static std::shared_ptr<Run> Find(int64_t id);
  ~Run();

  // This process was forked.
  static void NoteFork();

  int64_t id() const { return id_; }
  Channels<tensorflow::Tensor>& channels() { return channels_; }
  History<tensorflow::Tensor>& history() { return history_; }
  tensorflow::CancellationManager* cancellation() { return &cancellation_; }

  // Tells the graph values for slots, and leaves none.
  void Put(std::vector<std::pair<int, tensorflow::Tensor>>* values);

  // Gives Python a value.
  void Give(int slot, tensorflow::Tensor value);

  // Keeps what the graph gives to Python. To be called before it starts.
  void RecordIn(std::shared_ptr<Recording> recording) { recording_ = std::move(recording); }

  // This thread is to do all work of the graph. To be called before it starts.
  void WorkHere() { worker_ = std::this_thread::get_id(); }
  bool IsForThisThread() const { return worker_ == std::this_thread::get_id(); }

  // Does a piece of the graph's work, which counts as that.
  void Do(const std::function<void()>& work);

  // Lets `launch` start the graph, once: now, or with the first Hurry. A graph that is timed and not lazy is told all at
  // once, so that it is known what it waited for.
  void StartBy(std::function<void()> launch, Delivery delivery);

  // Somebody waits for the graph: it gets what Python has told it so far.
  void Hurry();

  // Stops the graph: what waits in it fails, and it makes no changes to variables. False, and without effect, if it has
  // begun to make them.
  bool Cancel();

  // The graph may make its changes now, all of them; false if it was cancelled.
  bool BeginCommit();
  bool HasCommitted();

  // The graph has ended. What it put into its channels can still be had.
  void Finish(const absl::Status& status);

  // Whether it ends within that time.
  bool EndsWithin(std::chrono::milliseconds patience);
  bool HasEnded() { return EndsWithin(std::chrono::milliseconds(0)); }
  bool IsTimed() const { return timer_ != nullptr; }

  // Waits for the end and gives the outcome.
  absl::Status Wait();

  // How the graph spent its time, once it has ended.
  const GraphTimes& times() const { return times_; }

  // Set by another thread that needs a value which the graph does not give: the step has to leave the graph.
  std::atomic<bool> is_unwanted{false};

  // To the step of this run. Set before the graph starts.
  std::shared_ptr<Access> access;

 private:
  Run(int64_t id, int slots, int cells, GraphTimer* timer)
      : id_(id), channels_(slots), history_(cells), timer_(timer) {}
  bool Collect();

  const int64_t id_;
  Channels<tensorflow::Tensor> channels_;
  History<tensorflow::Tensor> history_;
  tensorflow::CancellationManager cancellation_;
  GraphTimer* timer_;  // null if it is not timed
  std::thread::id worker_;  // nobody's, if any thread may work
  GraphTimes times_;
  Delivery delivery_ = Delivery::kAtOnce;
  Ordered<std::mutex, 4> holding_;  // guards what comes next
  std::vector<std::pair<int, tensorflow::Tensor>> held_;
  int idle_visits_ = 0;      // of the courier, one after another
  bool is_visited_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  bool has_ended_ = false;
  bool was_cancelled_ = false;
  bool has_committed_ = false;
  absl::Status status_;
  std::function<void()> launch_;  // null once the graph has been started
  std::shared_ptr<Recording> recording_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_RUN_H_
