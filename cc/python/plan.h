// The trace graph of a step as the device walks it: nodes with their successors, and what to tell the graph on the way.
//
// Python makes it (recgraph/coexec/plan.py says what the numbers mean) together with the function that the graph runs.
#ifndef RECGRAPH_CC_PYTHON_PLAN_H_
#define RECGRAPH_CC_PYTHON_PLAN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cc/core/contest.h"
#include "cc/core/graph_runner.h"
#include "cc/python/run.h"
#include "cc/python/shapes.h"
#include "cc/python/value.h"

namespace recgraph {

// Where an input may come from.
struct Source {
  enum class From { kOperation = 0, kFeed = 1, kConstant = 2, kResource = 3, kHistory = 4 };
  From from;
  int number;  // the node, or the resource
  int slot;    // of a feed; for kHistory where the graph is told which time the node was done
  int output = 0;
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  std::string bytes = {};        // of a constant
  bool has_rank = false;
  Dimensions shape = {};         // of a constant or feed; -1 for any size
};

struct PlannedInput {
  int select;  // the slot that says which of the sources it is; -1 if there is one
  std::vector<Source> sources;
};

// What the graph is told in a slot: a case of a switch, or that another trip of a loop follows.
struct Message {
  int slot;
  int value;
};

// What may come after a node, and what the graph has to know then.
struct Way {
  int node;  // number of nodes: the end of the step
  std::vector<Message> messages;
};

struct Node {
  const Signature* signature;
  int location;
  bool is_sync;  // Python waits for the outputs: the operation may fail, or its shapes depend on values
  std::vector<PlannedInput> inputs;
  std::vector<int> fetches;  // the slot of each output, or -1
  std::vector<Way> next;
  ShapeCache shapes;
};

// The variables of a step, by number.
struct Variables {
  std::set<int> all, written;
};

// Used by one step at a time.
struct Plan {
  std::string function;  // the name of the graph's function
  std::string config;    // a ConfigProto
  std::vector<HandlePtr> resources;  // the function's inputs after the run's number: handles of variables
  std::shared_ptr<const Variables> variables;
  int slots;
  int cells;   // of the history
  int commit;  // the slot that lets the changes of variables take place; -1 if there are none
  std::vector<Node> nodes;
  std::vector<Way> first;
  std::atomic<bool> is_busy{false};
  int runs = 0;
  std::atomic<Delivery> delivery{Delivery::kAtOnce};  // in the next step; on request in all or none
  Contest threads;  // all of TensorFlow's do the graph's work, or one, which costs less processor time
  Replays replays;
  std::shared_ptr<void> kept;  // what has to live as long as graphs run
  GraphRunner runner;          // the last, so that it ends first

  // Whether the next run is one of those that are timed: the first, but for two that warm up, and some of the others.
  bool IsTimed() { return ++runs % 16 == 0 || (runs > 2 && runs < 16); }

  bool IsLazy() const { return delivery == Delivery::kOnRequest; }
  int end() const { return static_cast<int>(nodes.size()); }
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_PLAN_H_
