// A program in the form that the batched engine runs: functions whose nodes are blocks of operations, calls
// and frames. Made in Python (recgraph/batch), where it can be printed; decoded here.
//
// A node runs when all events that it waits for have been fired. Event 0 is the frame's beginning; a block
// fires one when its rows are computed, a call one for each group of results, so that what needs only some
// results of a call does not wait for the others.
#ifndef RECGRAPH_CC_CORE_BATCH_PLAN_H_
#define RECGRAPH_CC_CORE_BATCH_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace recgraph {
namespace batch {

// A wait does nothing: it gathers events where something needs them all.
enum class NodeKind { kBlock = 0, kCall = 1, kPack = 2, kUnpack = 3, kIsEmpty = 4, kJoin = 5, kWait = 6 };

// What picks one of a call's targets.
enum class Selector { kNone = 0, kBool = 1, kIndex = 2 };

struct Node {
  NodeKind kind;
  int pending;              // how many events it waits for
  std::vector<int> reads;   // slots; a call's selector comes first
  std::vector<int> writes;  // slots, or -1 for a result that nobody reads
  std::vector<bool> only_use;  // per read: nothing else reads this slot, its value may be moved
  int event;                // the (first) event that it fires
  int block = -1;           // kBlock
  Selector selector = Selector::kNone;  // kCall
  int site = 0;  // kCall: its label; 0 for branches and loops, which have none
  std::vector<int> targets;             // kCall: functions
  std::vector<int> indices;             // kUnpack: which values of the frame
};

struct Event {
  std::vector<int> consumers;  // nodes
  std::vector<int> groups;     // of this function's results that are there now
};

enum class FunctionKind {
  kPlain = 0,
  // Node 0 calls the condition, node 1 the body; arguments and results are the variables.
  kLoop = 1,
  // Node 0 is called once for every row of the arguments; the results are stacked.
  kMap = 2,
};

// A result of a map: a frame, or a tensor whose dtype and shape stand here for the case of no rows.
struct MapResult {
  bool is_frame;
  int dtype;
  std::vector<int> shape;
};

struct Function {
  FunctionKind kind;
  int arguments;
  int slots;
  bool has_effects = false;              // others may see when it runs
  bool is_linear = false;                // a gradient, in all arguments but the first, the frame
  std::vector<int> results;              // slots
  std::vector<bool> only_use;            // per result: nothing else reads its slot
  std::vector<std::vector<int>> groups;  // of results that become known together
  std::vector<Event> events;
  std::vector<Node> nodes;
  std::vector<MapResult> map_results;  // kMap
};

// A captured tensor as a block reads it: as it is or, a matrix, packed for products with its rows.
enum class Form { kRaw = 0, kPacked = 1, kPackedTransposed = 2 };

struct Capture {
  int slot;  // of the environment
  Form form;
};

struct Block {
  int function;
  int node;
  // Blocks with a smaller number can lead to rows for those with a larger one, not the other way round.
  int priority;
  bool by_row;      // its operations have no form for many rows
  bool has_effect;  // running it a second time would be seen
  bool ragged;  // rows may differ in shape
  int work;     // multiplications in the matrix products of one row
  std::vector<Capture> captures;    // inputs after those the node reads
  std::vector<bool> shared;         // outputs without rows, one for each slot that the node writes
  std::vector<int> sums;            // triples (kind, slot of the environment, first output)
  std::string name;                 // of its function in the program
};

struct Plan {
  std::vector<Function> functions;
  std::vector<Block> blocks;
  std::vector<std::string> names;   // of functions
  std::vector<std::string> labels;  // of call sites
  int captures = 0;                 // slots that an environment must have

  // The number of a function, or -1.
  int Find(const std::string& name) const;
};

// Sets `only_use` of all functions and nodes. DecodePlan does it.
void FindOnlyUses(Plan* plan);

// Decodes what recgraph/batch/plan.py encodes, and verifies it. Returns "" or what is wrong with it.
std::string DecodePlan(const std::vector<int64_t>& code, const std::vector<std::string>& strings,
                       Plan* plan);

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_BATCH_PLAN_H_
