// Calls from outside, run by the batched engine: the machine of cc/core with blocks that are TensorFlow
// functions, one machine for each thread.
#ifndef RECGRAPH_CC_KERNELS_BATCH_RUN_H_
#define RECGRAPH_CC_KERNELS_BATCH_RUN_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/batch_machine.h"
#include "cc/core/process_memory.h"
#include "cc/core/schedule.h"
#include "cc/kernels/batch_buffer.h"
#include "cc/kernels/environment.h"
#include "cc/kernels/invocation.h"
#include "cc/kernels/program.h"
#include "cc/kernels/row_blocks.h"

namespace recgraph {
namespace batch {

class Run final : public Backend {
 public:
  // `scope` as of a call of the other engine, its row that of the first root; its sums may be null in a
  // forward run. The run gives up when `stop` is set, and sets it when it fails; large batches may use other
  // threads where it is `alone`; one that records, for a gradient, does not expect to see its weights again.
  Run(const Scope& scope, int64_t max_depth, std::atomic<bool>* stop, bool alone, bool records);

  // Runs `function`, which has at least so many results, once for each root; on the calling thread.
  absl::Status Call(const std::string& function, std::vector<std::vector<Value>> roots, size_t results);

  // Finds the activations of such a call without running more of it than decides them, and lays them out: `step` knows
  // them then, and `frames` has one for each root where the function `records`.
  absl::Status Tabulate(const std::string& function, std::vector<std::vector<Value>> roots, bool records,
                        const LevelLayout& layout, LevelTables* tables, FramePtr<StepFrame>* step, std::vector<Value>* frames);

  const Value& result(int root, size_t index) { return machine_->results(root)[index]; }

  ~Run() override;

  bool RunBlock(const Block& block, const Node& node, Activation** activations, size_t count) override;
  bool Alike(const Node& node, const Activation& one, const Activation& other) override;
  uint64_t ShapesOf(const Node& node, const Activation& activation) override;
  bool Select(Selector selector, const Value& value, int* branch) override;
  Value Bool(bool value) override;
  void Mismatch(size_t rows, size_t others) override;
  void BadFrame(int64_t values) override;
  bool Split(const Value& value, std::vector<Value>* rows) override;
  bool Stack(const std::vector<Value>& values, const MapResult& like, Value* whole) override;
  bool IsScheduled(int function) override;
  Scheduled RunCalls(int function, Activation** activations, size_t count, int64_t* invocations) override;
  bool Cancelled() override {
    return stop_->load(std::memory_order_relaxed) || scope_.root->cancelled();
  }
  bool MemoryIsShort() override { return recgraph::MemoryIsShort(machine_->counts().live); }

 private:
  // All rows at once or, where the block does, one by one.
  bool RunRows(const Block& block, const Node& node, Activation** activations, size_t count);
  // The same by a row program, where there is one for these rows: `is_done` says whether it was; false is no error.
  absl::Status TryRowProgram(const Block& block, const Node& node, Activation** activations, size_t count,
                             bool is_large, bool* is_done);
  absl::Status TryBlock(const Block& block, const Node& node, Activation** activations, size_t count,
                        Program::BlockMode mode);
  void FindFailure(const Block& block, const Node& node, Activation** activations, size_t count,
                   const absl::Status& status);
  absl::Status Inputs(const Block& block, const Node& node, Activation** activations, size_t count,
                      std::vector<tensorflow::Tensor>* inputs, std::vector<bool>* fresh);
  // The block's function for stacked rows; `fresh` ones may be written to. Captured tensors are added to the inputs.
  absl::Status RunOperations(const Block& block, Program::BlockMode mode, std::vector<tensorflow::Tensor> inputs,
                             std::vector<bool> fresh, std::vector<tensorflow::Tensor>* outputs);
  absl::Status Keep(const Block& block, const Node& node, Activation** activations, size_t count,
                    std::vector<tensorflow::Tensor>* outputs);
  // Whether the environment and the function are what the plan takes them for.
  absl::Status Check(const std::string& function, const std::vector<std::vector<Value>>& roots, size_t results,
                     int* index) const;
  bool Look(const Schedule* schedule);
  absl::Status TabulateAll(int function, const std::vector<const Value*>& arguments, size_t roots, bool records,
                           const LevelLayout& layout, LevelTables* tables, StepFrame* step, std::vector<Value>* frames);
  void GiveUp(int function);
  Scheduled Endless(const Schedule::Cycle& cycle, const Activation* root);
  Scheduled FailedAt(const Schedule::Place& place, Activation** roots, const absl::Status& status);
  Scheduled ScheduleFor(int function, Activation** activations, size_t count, int64_t* invocations);
  // What a row program has computed, as values of the activations and as contributions to sums.
  absl::Status KeepResults(const Block& block, const Node& node, Activation** activations, size_t count,
                           const LoweredBlock& lowered, const char* const* const* inputs,
                           std::vector<tensorflow::Tensor> outputs);
  absl::Status RunMachine(int index, std::vector<std::vector<Value>> roots);
  absl::Status AddSums(const Block& block, const std::vector<tensorflow::Tensor>& outputs);
  void Publish(const MachineCounts& counts);
  // `below` are labels of call sites below the activation.
  void NoteError(const absl::Status& status, const Activation* activation, const std::vector<std::string>& below = {});
  bool Succeeded(const absl::Status& status);

  const Scope scope_;
  const Plan& plan_;
  const int64_t max_depth_;
  const Way way_;
  std::vector<const Structure*> given_up_;  // of calls that could not be scheduled in this run
  std::vector<bool> is_given_up_;           // of each function, once there are some
  std::unique_ptr<BatchPolicy> policy_;
  std::unique_ptr<Machine> machine_;
  MachineCounts published_;  // what the counts of the process know of
  absl::Status status_;
  std::atomic<bool>* const stop_;
  const bool alone_;
  PackedMatrices* const kept_;  // null where nothing is to be kept
  RowBlockRunner row_blocks_;
  Value bools_[2];
};

// The runs of one call: its roots are dealt out to as many threads as pay, in a way that depends on their
// number alone. Each run has sums of its own, which are added up in order.
class Runs {
 public:
  using Done = std::function<void(Runs*, const absl::Status&)>;

  Runs(const Scope& scope, int64_t max_depth, bool records)
      : scope_(scope), max_depth_(max_depth), records_(records) {}

  // Runs the first part here, the others on other threads; `done` runs on the thread that ends last, perhaps
  // before this returns, and deletes this object. The function has at least `results` results, or it is an error.
  void Start(const std::string& function, std::vector<std::vector<Value>> roots, size_t results, Done done);

  // Result `index` of every root.
  std::vector<Value> Raw(size_t index) const;
  // Of all roots stacked, or of the only one.
  absl::Status Stacked(size_t index, tensorflow::DataType dtype,
                       const tensorflow::PartialTensorShape& shape, tensorflow::Tensor* result) const;
  absl::Status Single(size_t index, tensorflow::Tensor* result) const;

 private:
  struct Part {
    std::unique_ptr<Sums> sums;  // null where it adds to the call's own
    std::unique_ptr<Run> run;
    std::vector<std::vector<Value>> roots;
    int count = 0;
    absl::Status status;
  };
  void Divide(std::vector<std::vector<Value>> roots);
  void RunPart(Part* part);
  void End();

  const Scope scope_;
  const int64_t max_depth_;
  const bool records_;
  std::string function_;
  size_t results_ = 0;
  Done done_;
  std::vector<Part> parts_;
  std::atomic<int> pending_{0};
  std::atomic<bool> stop_{false};
};

// The arguments of each root: the tensors as they are or, mapped, a row of each.
absl::Status RootsOf(const tensorflow::OpInputList& inputs, bool map,
                     std::vector<std::vector<Value>>* roots);

// Sets outputs `0..shapes.size()` to the results of the only root or, mapped, of all roots stacked.
absl::Status SetResults(tensorflow::OpKernelContext* ctx, const Runs& runs, bool map,
                        const std::vector<tensorflow::PartialTensorShape>& shapes);

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_BATCH_RUN_H_
