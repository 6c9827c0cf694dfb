// The batched engine without TensorFlow: activations of functions, values by reference, and the order in
// which blocks run. All activations that stand at the same block, of any tree and at any depth, are run
// as the rows of one batch. One thread runs a machine; what runs a block may use as many as it likes.
#ifndef RECGRAPH_CC_CORE_BATCH_MACHINE_H_
#define RECGRAPH_CC_CORE_BATCH_MACHINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/batch_plan.h"
#include "cc/core/batch_policy.h"
#include "cc/core/frame_base.h"
#include "cc/core/memory_pool.h"

namespace recgraph {
namespace batch {

// What values refer to. Reference-counted: a record may outlive its run, for the gradient.
class Holder : public FrameBase {
 public:
  // A stacked buffer; a frame's values; parts to be joined along their first dimension; the frames of a whole step.
  enum class Kind { kBuffer, kRecord, kJoin, kStep };
  explicit Holder(Kind kind) : kind(kind) {}
  RECGRAPH_POOLED_OBJECT
  const Kind kind;
};

// One row of a buffer; row -1 is the whole of it, a value that all activations share. Of a record or a
// join, everything.
struct Value {
  FramePtr<Holder> holder;
  int64_t row = 0;
};

using Values = std::vector<Value, PooledElements<Value>>;

// Values of an activation that are kept together: what its gradient needs, or parts of a join.
class Record final : public Holder {
 public:
  Record(Kind kind, Values values);
  const Values& values() const { return values_; }
  // The values, given up: only where the record is unique.
  Values TakeValues() { return std::move(values_); }

  // The one value that a join has become, null before its first use. Any thread may set it; the first counts.
  const Value* joined() const { return joined_.load(std::memory_order_acquire); }
  void SetJoined(Value whole) const;

 private:
  ~Record() override { delete joined_.load(); }

  Values values_;
  mutable std::atomic<const Value*> joined_{nullptr};
};

// One run of a function.
struct Activation {
  const Function* function;
  Activation* parent;   // null for a root
  const Node* call;     // the parent's node that made it
  int root;             // which root it belongs to
  int depth;
  int outstanding;      // events that it has yet to fire, and live children
  int index;            // which row of a map it runs for
  int rows;             // of a map
  int64_t arriving;     // groups of results that a loop or map waits for
  Value* gathered;      // of a map: the results of all rows; null otherwise
  Activation* previous;  // of all live ones
  Activation* next;
  Value* slots;
  uint16_t* pending;  // per node
};

// What a machine needs of the world of tensors.
class Backend {
 public:
  virtual ~Backend() = default;
  // Runs a block on `count` activations and sets the slots that its node writes. False ends the run.
  virtual bool RunBlock(const Block& block, const Node& node, Activation** activations, size_t count) = 0;
  // Whether two activations may be rows of one batch of a node whose rows may differ in shape; a number that is
  // the same for both where they may.
  virtual bool Alike(const Node& node, const Activation& one, const Activation& other) = 0;
  virtual uint64_t ShapesOf(const Node& node, const Activation& activation) = 0;
  // The number of the branch that a selector picks. False ends the run, as in Split.
  virtual bool Select(Selector selector, const Value& value, int* branch) = 0;
  virtual Value Bool(bool value) = 0;
  // Told where the arguments of a map have different numbers of rows, which ends the run.
  virtual void Mismatch(size_t rows, size_t others) = 0;
  // Told where a value is no frame, or a frame is not what its reader expects: `values` is how many it has, -1 for
  // no frame. Ends the run.
  virtual void BadFrame(int64_t values) = 0;
  // The rows of a tensor. False ends the run, as in Stack.
  virtual bool Split(const Value& value, std::vector<Value>* rows) = 0;
  // The values along a new first dimension.
  virtual bool Stack(const std::vector<Value>& values, const MapResult& like, Value* whole) = 0;
  // Whether calls of a function are scheduled as wholes: then they wait until they can be run together. Not those of
  // a function whose schedule was given up in this run, nor of what that calls.
  virtual bool IsScheduled(int function) = 0;
  // Runs such calls, whose arguments are in the first slots, and sets the slots of their results. `invocations` are
  // those below the calls.
  enum class Scheduled { kDone, kGaveUp, kCancelled, kFailed };
  virtual Scheduled RunCalls(int function, Activation** activations, size_t count, int64_t* invocations) = 0;
  virtual bool Cancelled() = 0;
  // Whether the process has so much memory that a run with very many live invocations should end.
  virtual bool MemoryIsShort() = 0;
};

struct MachineCounts {
  int64_t invocations = 0;  // branches and iterations not counted
  int64_t live = 0;         // invocations that have begun and not ended
  int64_t peak = 0;         // the most that were live at once
};

class Machine {
 public:
  enum class End { kDone, kFailed, kCancelled, kTooDeep, kTooMany };

  // Rows of one batch at most: more would make none cheaper, and what they take is seen between two batches.
  static constexpr size_t kLargestBatch = 1 << 17;
  // From so many live activations on, memory is looked at each time that so many have begun. From fewer on, whose values
  // are large then, it is looked at where the pool has grown much.
  static constexpr int64_t kMany = 1 << 17;
  static constexpr int64_t kFew = 1 << 5;
  static constexpr int64_t kLook = 1 << 15;
  // Events between two looks at whether the run was cancelled, where no block runs.
  static constexpr int64_t kEventsPerLook = 1 << 16;

  Machine(const Plan& plan, Backend* backend, BatchPolicy* policy, int64_t max_depth);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Adds a root. Only before Run.
  void AddRoot(int function, std::vector<Value> arguments);
  // Runs until every root has its results.
  End Run();

  // The results of a root, once Run is done.
  std::vector<Value>& results(int root) { return results_[root]; }
  const MachineCounts& counts() const { return counts_; }
  // Labels of the calls from the root, which has none, to `activation`; rows of a map have their numbers.
  std::vector<std::string> CallPath(const Activation* activation) const;
  // Where kTooDeep or kTooMany was found.
  const Activation* culprit() const { return culprit_; }

 private:
  struct Fired {
    Activation* activation;
    int event;  // negative where the calls of a loop or map have arrived
  };
  // Rows that can be one batch.
  struct Group {
    std::vector<Activation*> rows;
    int64_t depths = 0;
    uint64_t key = 0;
  };
  // What waits for a block: one group or, where rows may differ in shape, one for each shape, in the order of their
  // first rows.
  struct Queue {
    std::list<Group> groups;
    std::unordered_map<uint64_t, Group*> by_key;
    Group* latest = nullptr;  // by key, the one that had a row added
    size_t rows = 0;
    int64_t depths = 0;
  };

  Activation* NewActivation(const Function* function, Activation* parent, const Node* call);
  void Count(const Activation* invocation);
  void Retire(Activation* activation);
  void Release(Activation* activation);
  void Empty(Activation* activation);

  void Process(Activation* activation, int event);
  void Ready(Activation* activation, int node);
  void Unpack(Activation* activation, const Node& node);
  void UnpackFromStep(Activation* activation, const Node& node, const Value& frame);
  const Record* FrameIn(const Value& value);
  void Enqueue(Activation* activation, const Node& node);
  Group* GroupFor(Queue* queue, const Activation& activation, const Node& node);
  std::vector<Activation*> TakeBatch(int block);
  void Call(Activation* activation, const Node& node);
  void Deliver(Activation* activation, int group);
  void Forget(const Node& node, Activation** activations, size_t count);
  void Fire(Activation* activation, int event) { fired_.push_back({activation, event}); }
  void FindScheduled();
  void Begin(Activation* activation, bool is_invocation);
  int PickCalls() const;
  End RunCalls(int function);
  void Arrive(Activation* activation, int node);
  void CallFromLoop(Activation* loop, int node);
  void ArriveInLoop(Activation* loop, const Node& node);
  void BeginMap(Activation* map);
  void EndMap(Activation* map);
  void Stop(End end, const Activation* culprit);
  End RunNative();
  End RunBlocks();
  End RunOne(int block);

  const Plan& plan_;
  Backend* const backend_;
  BatchPolicy* const policy_;
  const int64_t max_depth_;
  std::vector<std::vector<Activation*>> free_;  // per function
  std::vector<Queue> queues_;                   // per block
  std::vector<std::vector<Activation*>> calls_;  // per function, those that wait to be scheduled
  std::vector<bool> is_scheduled_;              // per function
  std::vector<int> with_rows_;                  // blocks whose queue is not empty
  std::vector<ReadyBlock> ready_;
  std::vector<Fired> fired_;
  std::vector<std::vector<Value>> results_;  // per root
  Activation* live_ = nullptr;
  const Activation* culprit_ = nullptr;
  End end_ = End::kDone;  // the first reason to stop
  int64_t events_ = 0;    // so far
  int64_t begun_ = 0;     // activations, branches and iterations among them
  int64_t alive_ = 0;     // those that have not ended
  MachineCounts counts_;
  PoolGrowth growth_;
};

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_BATCH_MACHINE_H_
