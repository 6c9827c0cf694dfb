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
#include <utility>
#include <vector>

#include "cc/core/channel.h"
#include "cc/core/history.h"
#include "cc/python/access.h"
#include "cc/python/replays.h"
#include "cc/python/timing.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// Told in place of a position in the history by an input that takes something else: the graph gets an empty tensor.
constexpr int kNoPosition = -1;

// Any thread may call anything.
class Run {
 public:
  // Makes a run that the ops of its graph find by `id`; its graph is timed if that is asked for and possible now.
  static std::shared_ptr<Run> New(int slots, int cells, bool is_timed);
  static std::shared_ptr<Run> Find(int64_t id);
  ~Run();

  int64_t id() const { return id_; }
  Channels<tensorflow::Tensor>& channels() { return channels_; }
  History<tensorflow::Tensor>& history() { return history_; }
  tensorflow::CancellationManager* cancellation() { return &cancellation_; }

  // Gives the graph values for slots, now or with the next Start, and leaves none.
  void Put(std::vector<std::pair<int, tensorflow::Tensor>>* values);

  // Gives Python one.
  void Give(int slot, tensorflow::Tensor value);

  // Keeps what the graph gives to Python. To be called before it starts.
  void RecordIn(std::shared_ptr<Recording> recording) { recording_ = std::move(recording); }

  // Lets `launch` start the graph, once: now, or when somebody waits for it, who calls Start. The latter is lazy: such a
  // graph gets its values only then, and does not go on meanwhile with what nobody waits for.
  void StartBy(std::function<void()> launch, bool is_lazy);
  void Start();

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

  const int64_t id_;
  Channels<tensorflow::Tensor> channels_;
  History<tensorflow::Tensor> history_;
  tensorflow::CancellationManager cancellation_;
  GraphTimer* timer_;  // null if it is not timed
  GraphTimes times_;
  bool is_lazy_ = false;
  std::mutex holding_;  // guards what comes next
  std::vector<std::pair<int, tensorflow::Tensor>> held_;
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
