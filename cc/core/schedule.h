// A call whose structure is known before its values: first all its activations are found, then every block is run for
// as many of them at once as can be, in an order that is worked out before. There are no events, no counted references
// and no value that is handed on: a value is a row of what a block has computed in the whole step, and where it is
// follows from the order. The gradient reads the same tables, so that nothing is recorded or looked up again.
#ifndef RECGRAPH_CC_CORE_SCHEDULE_H_
#define RECGRAPH_CC_CORE_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/batch_machine.h"
#include "cc/core/batch_plan.h"
#include "cc/core/call_table.h"
#include "cc/core/memory_pool.h"
#include "cc/core/structure.h"

namespace recgraph {
namespace batch {

// The rows that a block has computed for one of its results, of all its activations; or values from outside.
struct RowsOfStep {
  const char* data = nullptr;
  int64_t bytes = 0;                // from a row to the next; 0 where all are one
  const uint32_t* order = nullptr;  // the row of each activation; null where rows are numbered as they lie
  const void* kind = nullptr;       // what the backend knows of them
  FramePtr<Holder> holder;          // that has them
};

// A value of an activation: its number among the rows of a result, or a frame's or a join's activation.
struct RowRef {
  uint32_t source;
  uint32_t row;

  static constexpr uint32_t kFrame = 1u << 31;
  static constexpr uint32_t kJoin = 1u << 30;
  // Zeros of the kind that the source with the other bits has, where neither of those above is set.
  static constexpr uint32_t kZeros = 1u << 29;

  bool operator==(const RowRef& other) const { return source == other.source && row == other.row; }
  bool IsZeros() const { return (source & (kFrame | kJoin | kZeros)) == kZeros; }
};

// All activations of a step. For one that records also the frame of each of them: the value of one is this object, and
// the row `source << 32 | activation`.
class StepFrame final : public Holder {
 public:
  struct Activations {
    int slots = 0;
    std::vector<RowRef> values;  // of each activation, all slots
    const RowRef* of(uint32_t activation) const { return values.data() + size_t{activation} * slots; }
    RowRef* of(uint32_t activation) { return values.data() + size_t{activation} * slots; }
  };
  // Where frames come from: a function's pack, in this step or in an earlier one.
  struct FrameSource {
    const StepFrame* step;
    int function;
    const std::vector<int>* packed;  // slots
    uint32_t rows;    // added to the sources of its values
    uint32_t frames;  // added to the sources of its frames

    // A value of that step as one of the step that has this source.
    RowRef InThisStep(RowRef ref) const {
      if (ref.source & RowRef::kFrame) {
        ref.source += frames;
      } else if (!(ref.source & RowRef::kJoin)) {
        ref.source += rows;
      }
      return ref;
    }
  };

  explicit StepFrame(const Plan& plan) : Holder(Kind::kStep), functions(plan.functions.size()) {}

  // The values of a frame, by their number; what is no frame is a row of `sources`.
  RowRef ValueOf(RowRef frame, size_t index) const;
  size_t SizeOf(RowRef frame) const { return frames[frame.source & ~RowRef::kFrame].packed->size(); }
  // A row as a value.
  Value ToValue(RowRef ref) const;
  // Lets go of the rows of blocks that no frame refers to.
  void KeepFramesOnly();
  static RowRef FrameOf(const Value& value) {
    return {static_cast<uint32_t>(value.row >> 32), static_cast<uint32_t>(value.row)};
  }

  std::vector<Activations> functions;
  std::vector<RowsOfStep> sources;
  size_t own_sources = 0;  // the first ones are of blocks, those after them are from outside
  bool has_merged = false;  // a frame, or one of an earlier step that it has, may be of several calls
  std::vector<FrameSource> frames;
  std::vector<std::vector<uint32_t>> orders;  // by block
  // Of a step whose values are in arenas: where the rows of each source are there, and the arenas' sizes by class.
  struct InArena {
    int64_t first = -1;            // -1: they are in none
    bool is_one = false;           // for all activations
    std::vector<uint32_t> places;  // of each row, where they are not one after another
    int64_t of(uint32_t row) const {
      if (!places.empty()) return places[row];
      return is_one || first < 0 ? first : first + row;
    }
  };
  std::vector<InArena> in_arenas;
  std::vector<int64_t> arena_sizes;
  std::vector<FramePtr<Holder>> kept;         // earlier steps
  std::shared_ptr<const void> program;        // has what FrameSource points to
};

// What a schedule needs of the world of tensors.
class ScheduleBackend {
 public:
  virtual ~ScheduleBackend() = default;
  // A value from outside as rows of which it is number `row`; false for one that cannot be.
  virtual bool Import(const Value& value, RowsOfStep* rows, uint32_t* row) = 0;
  virtual bool IsSameKind(const void* one, const void* other) = 0;
  // Runs a block for `count` rows, the results of which are rows `first` and following of `results`. Those are made at
  // the block's first run, for `total` rows, or made larger.
  virtual bool RunScheduled(int block, int64_t count, int64_t first, int64_t total, const char* const* const* inputs,
                            const std::vector<const void*>& kinds, RowsOfStep* results) = 0;
  // Runs a block for one row by itself: whether that is an error, which is then known to the backend.
  virtual bool IsError(int block, const std::vector<const char*>& row, const std::vector<const void*>& kinds) = 0;
  // The branch that a row picks; false where it is no selector.
  virtual bool SelectRow(Selector selector, const void* kind, const char* data, int* branch) = 0;
  // Whether values of this kind are integers or booleans, for which there are no gradients.
  virtual bool IsDiscrete(const void* kind) = 0;
  // Makes room for `count` rows of a kind, all of them zeros.
  virtual bool MakeRows(const void* kind, int64_t count, RowsOfStep* rows) = 0;
  // Writes the sum of rows of a kind, rounded once; false where they are no numbers.
  virtual bool AddRows(const void* kind, const std::vector<const char*>& rows, char* sum) = 0;
  // The bytes that a row has, and how they are told to people.
  virtual int64_t SizeOf(const void* kind) = 0;
  virtual std::string TextOf(const void* kind, const char* data) = 0;
  // The parts of a join as one value.
  virtual bool JoinRows(const std::vector<std::pair<const RowsOfStep*, uint32_t>>& parts, Value* whole) = 0;
  virtual bool IsCancelled() = 0;
  virtual bool IsShortOfMemory() = 0;
};

// How the values of a schedule are laid out for an executor that is not this one (recgraph/levels): in arenas, one for
// each class of rows, those of one dtype and shape. Row 0 of each is zeros.
struct LevelLayout {
  size_t classes = 0;
  std::vector<std::vector<int>> of_blocks;  // of each block, the class of each slot that it writes
  std::vector<int> of_arguments;            // of the root; -1 for a frame, and for what only decides the structure
  int64_t width = 0;                        // of the chunks that levels are cut into; 0: levels are run as a whole
  // Sizes that tables and arenas are made up to, so that few are different; `width` is not 0 then.
  bool is_padded = false;
  // The least sizes of what has been decided first, of all arenas; and of reads, steps and results.
  std::vector<int64_t> least_known, least_arenas, least_tables;
  // The size that `rows` are made up to, in place `i` of such a list.
  int64_t Room(int64_t rows, const std::vector<int64_t>& least, size_t i) const;
};

// What such an executor needs to know of one call.
struct LevelTables {
  struct Component {
    std::vector<int> members;  // blocks
    // Of each step: which member runs, the first of its rows, how many, and of each slot that it writes the first row of
    // the slot's arena; all have as many columns.
    std::vector<int32_t> steps;
    size_t columns = 0;
    size_t count() const { return columns == 0 ? 0 : steps.size() / columns; }
  };
  std::vector<Component> components;
  std::vector<int> blocks;                               // that are run by steps, in the plan's order
  std::vector<std::vector<std::vector<int32_t>>> reads;  // of each of those, of each slot that it reads: rows
  std::vector<int32_t> rows;                             // of each of those, how many
  std::vector<int> known;                                // blocks that have run: they decide the structure
  std::vector<int64_t> known_rows;                       // of each of those, how many
  std::vector<uint32_t> known_sources;                   // of each of those, the source of its first result
  std::vector<int64_t> sizes;                            // of each class, how many rows its arena has
  std::vector<std::vector<int32_t>> results;             // of each result that is no frame, of each root: its row
};

class Schedule {
 public:
  // kEndless: an invocation is given what it was given before, and nothing else decides what it calls. The last three
  // only where calls were merged: to find these errors in another way might take exponentially longer.
  enum class End { kDone, kGaveUp, kEndless, kCancelled, kFailed, kTooDeep, kTooMany };

  // How a call goes round in a circle.
  struct Cycle {
    struct Call {
      int site;  // 0 for a root
      std::string arguments;  // those that decide
    };
    uint32_t root = 0;
    std::vector<Call> above;  // from the root to the first invocation of the circle
    std::vector<Call> calls;  // from that to the one that is given the same
  };

  // The call sites from a root down to an activation.
  struct Place {
    uint32_t root = 0;
    std::vector<int> sites;
  };

  // `step` is filled. Nothing is given up for but what another way of running the call finds out, too.
  Schedule(const Plan& plan, const Structure& structure, ScheduleBackend* backend, FramePtr<StepFrame> step,
           int64_t max_depth);

  // Runs `function` for roots with such arguments, and gives their results.
  End Run(int function, const std::vector<const Value*>& arguments, size_t roots,
          const std::vector<std::vector<Value>*>& results);

  // Finds all activations and the order of the blocks' rows, and runs what decides these alone.
  End Discover(int function, const std::vector<const Value*>& arguments, size_t roots);
  // Where all rows are in arenas, and in which steps the blocks are to be run, once they are discovered; the step knows
  // it, too. False where a value has no place in an arena: the concatenation of any number of parts, or the sum of what
  // several callers of one call give it.
  bool Tabulate(int function, size_t roots, const LevelLayout& layout, LevelTables* tables);
  // The results of the roots, after that: rows of arenas and, where the function `records`, of each root its frame.
  bool FindResults(int function, size_t roots, bool records, LevelTables* tables, std::vector<Value>* frames) const;

  // Activations that are no branches.
  int64_t invocations() const { return invocations_; }
  // Calls that were one with another.
  int64_t merged() const { return merged_; }
  // Where a run is endless.
  const Cycle& cycle() const { return cycle_; }
  // Where one has failed, or is too deep.
  const Place& place() const { return place_; }

 private:
  struct Child {
    int32_t function = -1;  // -1: not called yet
    uint32_t activation = 0;
  };
  // Who has called an activation: one of `function`, by its node.
  struct Caller {
    int32_t function = -1;  // -1: it is a root
    uint32_t activation = 0;
    const Node* node = nullptr;
  };
  using Callers = std::vector<std::vector<Caller>>;  // of each function and activation
  struct OfFunction {
    uint32_t count = 0;   // of activations
    uint32_t begun = 0;   // of those, how many have been looked at
    std::vector<Child> children;  // of each activation, all calls
    std::vector<bool> is_merged;  // of each of those up to the last that is one with a call that was there before
    std::vector<int32_t> depths;
    CallTable table;              // of its activations, by what they are given
  };
  // Blocks that can lead to rows for each other, and the sums that are added up among them.
  struct Component {
    std::vector<int> blocks;
    std::vector<std::vector<uint32_t>> sums;  // of each time
  };
  // All callers of the activations of a function, in the order of these.
  struct Edges {
    std::vector<uint32_t> ends;  // of each activation, the end of its callers
    std::vector<Caller> callers;
    size_t begin(uint32_t activation) const { return activation == 0 ? 0 : ends[activation - 1]; }
    size_t count(uint32_t activation) const { return ends[activation] - begin(activation); }
  };
  // When a row can be read: in the component with this priority, at this time; in later components at any.
  struct Moment {
    int priority = -1;
    int32_t time = 0;
  };
  // What an activation is given by several callers, added up.
  struct Sum {
    uint32_t source;
    uint32_t row;
    uint32_t parts_end;  // in `parts_`; they begin where those of the sum before end
    Moment moment;
  };
  struct Segment {
    int function;
    uint32_t begin, end;
  };
  struct OfBlock {
    std::vector<int32_t> times;         // of each activation
    std::vector<uint32_t> activations;  // in the order of the rows
    std::vector<uint32_t> ends;         // of each time, the first row of the next
    uint32_t done = 0;                  // rows of a block that decides the structure
  };

  // By priority.
  std::map<int, Component> InOrder();
  // Gives a row of a class of arenas to each value from outside, to what has been run, and to shared results.
  void PlaceImports(int function, size_t roots, const LevelLayout& layout, std::vector<int64_t>* next,
                    LevelTables* tables);
  // The same to what the blocks of a component compute, chunk by chunk as they run.
  void PlaceComponent(const std::vector<int>& members, const LevelLayout& layout, std::vector<int64_t>* next,
                      LevelTables* tables);
  void PlaceChunk(int block, uint32_t first, uint32_t last, int member, const LevelLayout& layout,
                  std::vector<int64_t>* next, LevelTables::Component* made);
  bool FindReads(LevelTables* tables) const;
  bool IsTabulated(int block) const;
  // The row of its class of arenas; -1 where it has none.
  int64_t ArenaRow(RowRef ref) const;
  End RunAll(int function, const std::vector<const Value*>& arguments, size_t roots,
             const std::vector<std::vector<Value>*>& results);
  End DiscoverAll(int function, const std::vector<const Value*>& arguments, size_t roots);
  End WhyGivenUp(int function, uint32_t roots);
  bool AddRoots(int function, const std::vector<const Value*>& arguments, size_t roots);
  bool ImportValue(const Value& value, RowRef* ref);
  bool ImportFrame(const Value& value, RowRef* ref);
  End Inspect();
  End InspectSegment(const Segment& segment);
  bool InspectNode(const Segment& segment, int index);
  bool RunNow(const Segment& segment, const Node& node);
  void Unpack(const Segment& segment, const Node& node, bool* fits);
  bool Call(const Segment& segment, const Node& node, int call);
  void CallAll(const Segment& segment, const Node& node, int call);
  void CallMerged(const Segment& segment, const Node& node, int call);
  // The first of a call's reads that is an argument.
  static int FirstArgument(const Node& node) { return node.selector == Selector::kNone ? 0 : 1; }
  void PassArguments(const RowRef* from, const Node& node, int target, uint32_t child);
  // Tables have no sums of what several callers give a gradient: each call is one by itself there. Where no calls were
  // merged, there is a gradient for each frame.
  bool IsMergedWhenEqual(int function) const {
    const Merging merging = structure_.functions[function].merging;
    return merging == Merging::kEqual || (merging == Merging::kGradients && !must_explain_ && step_->has_merged);
  }
  // Whether a call, by its number among all of a function's activations, is one with a call that was there before.
  bool IsMerged(int function, size_t call) const {
    const std::vector<bool>& is_merged = functions_[function].is_merged;
    return call < is_merged.size() && is_merged[call];
  }
  // Whether two rows are one: of what is the same for all activations there is one alone.
  bool IsSameRow(RowRef one, RowRef other) const {
    return one == other || (one.source == other.source && IsOneForAll(one.source));
  }
  bool IsOneForAll(uint32_t source) const;
  // The activation of a call's target that is given the same, or the one that it would be. `known` are the hashes of
  // what the last call was given.
  struct KnownHash {
    RowRef ref{UINT32_MAX, 0};
    uint64_t hash = 0;
  };
  uint32_t FindCall(const RowRef* from, const Node& node, uint32_t next, std::vector<KnownHash>* known);
  // Of equal arguments the same.
  uint64_t HashOfArgument(RowRef ref) const;
  bool IsCalledWith(const RowRef* from, const Node& node, uint32_t activation) const;
  // The bytes that stand for an argument, where it is known by its value; null where it is known by its row.
  std::pair<const char*, int64_t> ValueOf(RowRef ref) const;
  // Lets calls be one with roots that are given the same.
  void NoteRoots(int function, uint32_t roots);
  // How many of the arguments tell calls of a function apart.
  size_t KeysOf(int function) const;
  // The first of so many.
  uint32_t NewActivations(int function, uint32_t count);
  void DropActivations(int function, uint32_t from);
  // Puts what calls nothing behind all callers.
  void PutCallersFirst();
  // Puts callers before those that they call; false if they go round in a circle.
  bool PutInOrder(const std::vector<Edges>& edges);
  // Whether a way down from a root is too long; the first such way is its place then.
  bool IsTooDeep(int function, uint32_t roots);
  // The call sites of a function by call; 0 of branches.
  std::vector<int> SitesOf(int function) const;
  using Levels = std::vector<std::vector<int32_t>>;  // of each function and activation, how many there are below
  Levels LevelsBelow() const;
  std::vector<Edges> FindEdges() const;
  void SetCycleOf(const std::vector<Edges>& edges, const std::vector<std::vector<uint32_t>>& open);
  // Hands arguments down again, those of merged calls as sums.
  void GoDown(const std::vector<Edges>& edges);
  void AddUp(int function, uint32_t activation, const Edges& edges);
  RowRef NewSum(int function, size_t argument);
  static RowRef ZerosLike(RowRef ref);
  bool Select(const Segment& segment, const Node& node);
  // Looks upwards from some of the last activations, `steps` invocations in all.
  bool FindCycle(int64_t steps);
  Callers FindCallers() const;
  // How many invocations there are between two that are given the same, on the way up; 0 where none are found.
  int64_t FindCycleAbove(const Callers& callers, Child from, int64_t* steps) const;
  void SetCycle(const Callers& callers, Child from, int64_t length);
  // The invocation that an activation is, or is a branch of.
  static Child InvocationOf(const Callers& callers, Child activation);
  // The invocation above one; its function is -1 where there is none.
  static Child Above(const Callers& callers, Child invocation);
  // What an invocation is given that decides what it calls: whether it is the same, and a number that is the same then.
  bool IsGivenTheSame(Child one, Child other) const;
  uint64_t HashOf(Child invocation) const;
  // A row's bytes; none of a frame.
  std::pair<const char*, int64_t> BytesOf(RowRef ref) const;
  Cycle::Call Describe(int site, int function, uint32_t activation) const;
  static int SiteOf(const Callers& callers, Child activation);
  void TimeOf(const Node& node, const RowRef* slots, uint32_t activation);
  Moment MomentOf(RowRef ref) const;
  void GoUp();
  void Sort(int block);
  End Execute();
  bool RunBlock(int block, uint32_t first, uint32_t last);
  bool RunSum(uint32_t sum);
  bool RunRows(const Node& node, int function, const uint32_t* activations, uint32_t count, uint32_t first,
               uint32_t total);
  bool Results(int function, size_t roots, const std::vector<std::vector<Value>*>& results);
  bool Join(RowRef join, Value* whole);
  // Which of the rows that a block could not be run for is an error.
  void FindFailure(int block, int function, const uint32_t* activations, uint32_t count,
                   const std::vector<const char* const*>& inputs, const std::vector<const void*>& kinds);
  Place PlaceOf(Child activation) const;
  const char* Find(RowRef ref, const RowsOfStep** rows) const;
  const char* FindZeros(RowRef ref, const RowsOfStep** rows) const;

  const Plan& plan_;
  const Structure& structure_;
  ScheduleBackend* const backend_;
  const FramePtr<StepFrame> step_;
  const int64_t max_depth_;
  std::vector<uint32_t> first_source_;                   // of each block, its first result
  std::vector<int> block_of_;                            // of each source that is a block's, the block; kSums of sums
  std::vector<std::vector<uint32_t>> frame_source_;      // of each function and node
  std::vector<std::pair<int, const Node*>> joins_;       // by source
  std::vector<std::vector<uint32_t>> join_source_;
  std::vector<OfFunction> functions_;
  std::vector<OfBlock> blocks_;
  std::vector<Segment> segments_;                        // in the order in which they were found
  size_t last_round_ = 0;                                // the first of those that were found last
  PoolGrowth growth_;
  std::unordered_map<const Holder*, uint32_t> imported_;
  std::unordered_map<const Holder*, std::pair<uint32_t, uint32_t>> imported_steps_;
  std::vector<const char*> pointers_;
  std::vector<int> branches_;  // of the activations of a segment
  int64_t invocations_ = 0;
  int64_t activations_ = 0;
  int64_t merged_ = 0;
  bool gradients_are_merged_ = false;
  bool is_out_of_order_ = false;  // a call is merged with one that may have come before its caller
  static constexpr int kSums = -2;
  std::vector<Sum> sums_;
  std::vector<RowRef> parts_;                                // of all sums
  std::map<std::pair<int, size_t>, uint32_t> sum_source_;    // of a function and argument
  std::unordered_map<uint32_t, std::vector<uint32_t>> sums_of_;  // of a source, by row
  mutable std::unordered_map<uint32_t, RowsOfStep> zeros_;   // by source
  mutable std::vector<int8_t> is_discrete_;                  // of each source: -1 where that was not asked yet
  int64_t next_search_;  // for a cycle: at so many activations
  bool may_be_endless_ = false, is_too_deep_ = false, has_failed_ = false;
  bool must_explain_ = false;  // for tables: nobody else finds out why there is no schedule
  Place place_;
  Cycle cycle_;
};

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_SCHEDULE_H_
