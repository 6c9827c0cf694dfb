// A step of a program, as the device sees it: either traced, every operation run as usual and noted, or walked along a
// plan while a graph computes.
#ifndef RECGRAPH_CC_PYTHON_STEP_H_
#define RECGRAPH_CC_PYTHON_STEP_H_

#include <Python.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/python/access.h"
#include "cc/python/input.h"
#include "cc/python/plan.h"
#include "cc/python/resources.h"
#include "cc/python/signature.h"
#include "cc/python/timing.h"
#include "cc/python/value.h"
#include "tensorflow/core/common_runtime/eager/eager_operation.h"

namespace recgraph {

using Outputs = absl::InlinedVector<ValuePtr, 1>;

class Line;      // of steps, pending.h
class Presence;  // of a graph, bystanders.h

struct Record {
  const Signature* signature;
  int location;
  int node;              // of the plan; -1 if the operation was traced
  int position;          // how often that node was done before
  bool has_open_shapes;  // they depend on values
  bool is_foreseen;      // Python's thread knows without the graph that it does not fail, and its shapes
  Inputs inputs;
  Outputs outputs;
  int chain = -1;  // the longest one of operations that Python's thread would do to know the outputs; -1: not counted
  std::vector<HandlePtr> known = {};  // the outputs, if it did
};

// An operation with resources that did not become part of the graph.
struct HostUse {
  const Signature* signature;
  int resource;  // -1: any
};

// Between two looks whether something else is wanted than what Python waits for.
constexpr std::chrono::milliseconds kPatience(50);

// Why a step has not happened after one that has not.
constexpr char kBefore[] = "a step before it failed";

// Why a step has left its graph.
constexpr char kAnotherThread[] = "another thread needs a value";
constexpr char kAnothersUse[] = "another thread uses a variable of the step";

// Belongs to the thread that made it, which alone calls its methods, Attend and MakeWay apart.
class Step {
 public:
  // The step of this thread, or null: outside of steps, and while one runs an operation.
  static Step* Current();

  // While it lives this thread has no step.
  class Suspended {
   public:
    Suspended();
    ~Suspended();

   private:
    Step* const step_;
  };

  // Begins a step. `base` is the code under whose frame the program runs. With a plan its graph is started.
  Step(PyCodeObject* base, std::shared_ptr<Plan> plan);
  ~Step();

  int64_t number() const { return number_; }

  // Does one operation of the program.
  absl::Status Execute(const tensorflow::EagerOperation& operation, Handle** results, int* count);

  // Makes sure that a value of this step is there.
  absl::Status Materialise(Value* value);

  // Has the step of a run leave its graph, if its own thread does nothing with it now and it is not at its end, where
  // another thread waits for `value` and the graph does not give it. Any thread.
  static void Attend(Run& run, Value* value);

  // Whose turn it is, where something else is to be done with variables of the step of a run. `done` tells how far the
  // step had come at the last look; if it has not gone on since, it leaves its graph. Any thread.
  enum class Turn { kYours, kLater, kAtEnd };
  static constexpr size_t kNothing = static_cast<size_t>(-1), kAnything = static_cast<size_t>(-2);
  static Turn MakeWay(Run& run, const Uses& uses, size_t* done);

  // This process is about to be forked, and only this thread will be in the other one: the step goes on without graph.
  void PrepareFork();

  // The program has come to the step's end; `was_raised` tells that an exception brought it there. Afterwards the
  // variables and all tensors are what they would be without us.
  absl::Status End(bool was_raised, bool may_run_ahead);

  // After an end at which the graph was left to itself: whether it has finished; waits for it, or until a signal comes,
  // and then the step has not happened; says that it must not happen, and why.
  bool IsPending() const { return HasGraph() && was_coexecuted_; }
  bool HasFinished() const { return run_->HasEnded(); }
  absl::Status Settle();
  void Discard(const absl::Status& error, const std::string& reason);

  // Whether the whole step was computed by the graph, and if not, why it left it; "" if it never had one.
  bool was_coexecuted() const { return was_coexecuted_; }
  const std::string& reason() const { return reason_; }
  // The location at which it left the graph; -1 if that was its end.
  int left_at() const { return left_at_; }

  const Plan* plan() const { return plan_.get(); }
  const std::shared_ptr<Run>& run() const { return run_; }
  const std::vector<Record>& records() const { return records_; }
  const std::vector<HostUse>& host_uses() const { return host_uses_; }

  // How long the step has taken, how long the program waited for the graph, and what the graph did meanwhile.
  int64_t nanoseconds() const { return Now() - began_at_; }
  const std::vector<PythonStall>& stalls() const { return stalls_; }
  const GraphTimes& graph_times() const { return graph_times_; }

 private:
  absl::Status DoExecute(const tensorflow::EagerOperation& operation, Handle** results, int* count);
  void Detach();  // its thread is in no step any more, and no other one can leave its graph
  bool HasGraph() const { return run_ != nullptr; }
  absl::Status Classify(const Signature& signature, const tensorflow::EagerOperation& operation, Inputs* inputs) const;
  bool IsImmediate(const Signature& signature, const Inputs& inputs) const;
  absl::Status RunOutside(const Signature& signature, const tensorflow::EagerOperation& operation,
                          const Inputs& inputs, Handle** results, int* count);
  bool AnswerShape(const Signature& signature, const Inputs& inputs, Handle** results);
  absl::Status Trace(const Signature& signature, const tensorflow::EagerOperation& operation, Inputs inputs,
                     Handle** results, int* count);
  absl::Status Walk(const Signature& signature, Inputs* inputs, Handle** results, int* count, bool* is_done);
  // What is known of an operation that may fail, or has outputs whose shapes depend on values, before the graph is
  // asked: whether Python has to wait for it, and if not, the outputs if they are there.
  struct Outcome {
    bool is_awaited;
    std::vector<tensorflow::Tensor> values;
  };
  Outcome Foresee(const Signature& signature, const Inputs& inputs, bool has_shapes);
  bool IsForeseen(const Signature& signature, const Inputs& inputs, bool has_shapes);
  int ChainOf(const Signature& signature, const Inputs& inputs) const;
  HandlePtr Known(const Input& input, int depth);
  std::vector<HandlePtr> Compute(const Signature& signature, const Inputs& inputs, int depth);
  std::string Await(const Node& node, int number, size_t output, int position, tensorflow::Tensor* value);
  const Way* Match(const Signature& signature, const Inputs& inputs) const;
  int SourceOf(const Input& input, const PlannedInput& planned) const;
  bool Fits(const Input& input, const Source& source) const;
  void Tell(int slot, int index);
  void Tell(const Way& way);
  void Feed(const Node& node, const Inputs& inputs);
  void Send() { run_->Put(&outbox_); }
  void Launch();
  void Replay();
  bool IsReplayed() const { return plan_->replays.mode() == Replays::Mode::kReplay; }

  // Leaves the graph: what the program has done so far is done again from the records, at once.
  absl::Status Leave(const std::string& reason);
  absl::Status LeaveAt(int location, const std::string& reason);
  absl::Status DoAgain(const std::string& reason);
  void LetGo();  // of the graph
  bool StandsBefore(const Uses& uses) const;
  absl::Status Redo(size_t index, std::vector<std::vector<HandlePtr>>* results);
  absl::Status Commit(bool may_run_ahead);
  bool ReceiveAll();
  std::string WhyNotToCommit() const;
  std::string WhyToWaitNoLonger() const;
  static void Describe(Input* input);
  const Way* WayToEnd() const;

  const int64_t number_;
  PyCodeObject* const base_;
  Line* const line_;
  const std::shared_ptr<Access> access_;
  std::shared_ptr<Plan> plan_;
  std::shared_ptr<Run> run_;
  std::unique_ptr<Presence> presence_;  // while there is a run that others have to know of
  std::vector<Record> records_;
  std::vector<HostUse> host_uses_;
  const std::vector<Way>* next_ = nullptr;  // what may come now
  std::vector<int> last_;                   // the last record of each node of the plan; -1 for none
  absl::Status failure_;  // an operation of the graph had this error, which Python may not have seen yet
  bool was_coexecuted_ = false;
  bool was_ahead_ = false;  // the plan is no longer this step's
  std::vector<std::pair<int, tensorflow::Tensor>> outbox_;  // what the graph is told of this operation
  std::string reason_;
  int left_at_ = -1;
  bool is_ending_ = false;
  size_t counted_ = 0;           // the records with a chain
  bool was_unforeseen_ = false;  // the operation that comes now should have been, and was not
  const int64_t began_at_ = Now();
  std::vector<PythonStall> stalls_;
  GraphTimes graph_times_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_STEP_H_
