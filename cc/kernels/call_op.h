// What Recgraph>Invoke and Recgraph>InvokeGradient have in common: asynchronous kernels that start
// one invocation (or, mapped, one per row) on the executor's threads and return at once.
#ifndef RECGRAPH_CC_KERNELS_CALL_OP_H_
#define RECGRAPH_CC_KERNELS_CALL_OP_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/engine_choice.h"
#include "cc/core/turns.h"
#include "cc/kernels/environment.h"
#include "cc/kernels/frame.h"
#include "cc/kernels/invocation.h"
#include "cc/kernels/program.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace recgraph {

// One execution of a kernel: its invocations, and what to do when the last of them is done.
struct Call {
  tensorflow::OpKernelContext* ctx;
  tensorflow::AsyncOpKernel::DoneCallback done;
  Scope scope;
  std::shared_ptr<SharedTasks> tasks;  // set where a thread waits for the call, and may run what belongs to it
  std::unique_ptr<RootCall> own_root;  // set where the call comes from outside of any body
  std::unique_ptr<Sums> own_sums;
  bool opens_environment = false;
  Engine engine = Engine::kParallel;
  std::vector<std::unique_ptr<Invocation>> invocations;
  std::atomic<int64_t> pending{0};
  // Of a call whose cost is noted, for the choice between engines.
  struct Measured {
    CallClass call;
    Engine engine;
    bool gradient;
    std::chrono::steady_clock::time_point start;
  };
  std::optional<Measured> measured;
  std::shared_ptr<Turns::Turn> turn;  // of a call from outside whose bodies read and write state
  std::mutex mutex;
  absl::Status status;  // guarded by mutex

  void Update(const absl::Status& new_status);
  // What the executor is told of an error.
  absl::Status Reported(const absl::Status& result) const;
  absl::Status Status();
  // Notes what the call costs from here on.
  void Measure(const CallClass& which, bool gradient);
  // Reports to the executor and ends the call.
  void Finish();
};

// Of kernels for accelerators, which run on the host: TensorFlow takes them only beside variables that are there.
constexpr int kBesideVariables = -1;

// What an invocation runs of a SubGraph: its body, the one that also yields a frame, or the gradient.
enum class BodyKind { kPlain = 0, kRecorded = 1, kGradient = 2 };

class CallOp : public tensorflow::AsyncOpKernel {
 public:
  explicit CallOp(tensorflow::OpKernelConstruction* ctx);
  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override;
  // Of an eager call. The thread waits, and helps where nobody else runs the invocations: it may be one of the threads
  // that run them itself, in a Python function that a graph calls, and all the others may be, too.
  void Compute(tensorflow::OpKernelContext* ctx) override;
  // A call from outside may run here as a whole: then others of the graph are not to wait for it on the same thread. One
  // inside of a body is cheap to start.
  bool IsExpensive() override { return !key_.empty(); }

 protected:
  // Fills in scope and invocations; starts nothing.
  virtual absl::Status Prepare(Call* call) = 0;
  // Starts the invocations, if there are any; ends the call when the last one is done.
  virtual void Launch(Call* call) = 0;
  // Sets the kernel's outputs when all invocations have succeeded.
  virtual absl::Status SetOutputs(Call* call) const = 0;

  // Of the call's next invocation.
  Scope NextScope(const Call& call) const;
  // The function's name in the program.
  std::string FunctionName(BodyKind kind) const;
  // Starts all invocations at once or, where the program says so, each when the one before has ended: bodies that read
  // and write the same state. The call is over when the last one is; also where there are none.
  void StartAll(Call* call, BodyKind kind);
  // One invocation less to wait for.
  void OneDone(Call* call, const absl::Status& status) const;
  // Sets the outputs and ends the call.
  void AllDone(Call* call) const;
  // Sets outputs `0..shapes.size()`: the results of the only row or, mapped, of all rows stacked.
  absl::Status SetResults(Call* call,
                          const std::vector<tensorflow::PartialTensorShape>& shapes) const;

  bool map() const { return map_; }
  const std::string& entry() const { return entry_; }

 private:
  // A function of a program.
  struct Body {
    Program::Handle handle = tensorflow::kInvalidHandle;
    bool runs_in_order = false;
    bool is_memoized = false;
    bool adds_up = false;  // of one that is memoized and yields a frame: whether gradients are added up
  };
  absl::Status FindBody(Call* call, BodyKind kind, Body* body);
  // Starts invocation `row`, or has it wait for one that is given the same.
  void StartOne(Call* call, size_t row, BodyKind kind, const Body& body) const;
  // Starts invocation `row` and, when it has ended well, the next one.
  void StartInOrder(Call* call, size_t row, Program::Handle body) const;
  void Run(Call* call);
  absl::Status Begin(Call* call);
  // Launches a call from outside when no other one uses the same resources.
  void LaunchInTurn(Call* call);
  absl::Status FindProgram(tensorflow::OpKernelContext* ctx, std::shared_ptr<Program>* program);

  std::string entry_;
  std::string key_;
  std::string library_;
  std::string site_;
  bool map_;
  std::atomic<bool> takes_turns_{false};  // set with program_
  std::mutex mutex_;
  std::shared_ptr<Program> program_;  // of a call that carries it; guarded by mutex_
  // Of one that does not: TensorFlow keeps the kernels of eager calls for ever. Guarded by mutex_.
  std::weak_ptr<Program> registered_;
  // The functions of a program that stays the same as long as the kernel is there, by kind: the one that the kernel
  // belongs to, or carries. Set before `knows_body_` is.
  Body bodies_[3];
  std::atomic<bool> knows_body_[3] = {};
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_CALL_OP_H_
