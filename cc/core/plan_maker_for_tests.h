// Plans written by hand, a node at a time, for the tests of what reads plans.
#ifndef RECGRAPH_CC_CORE_PLAN_MAKER_FOR_TESTS_H_
#define RECGRAPH_CC_CORE_PLAN_MAKER_FOR_TESTS_H_

#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/batch_plan.h"

namespace recgraph {
namespace batch {

using Slots = std::vector<int>;

// Makes the nodes of one function, each after those whose slots it reads.
class FunctionMaker {
 public:
  FunctionMaker(Plan* plan, int number) : plan_(plan), number_(number) {}

  Slots Arguments(int count) {
    function().arguments = count;
    return NewSlots(count);
  }

  Slots Block(const std::string& name, Slots reads, int writes, int priority) {
    batch::Block block{};
    block.function = number_;
    block.node = static_cast<int>(function().nodes.size());
    block.priority = priority;
    block.name = name;
    block.shared.assign(writes, false);
    Node& node = NewNode(NodeKind::kBlock, std::move(reads), writes);
    node.block = static_cast<int>(plan_->blocks.size());
    plan_->blocks.push_back(std::move(block));
    return node.writes;
  }

  Slots Call(int target, Slots reads, int writes) {
    Node& node = NewNode(NodeKind::kCall, std::move(reads), writes);
    node.targets = {target};
    node.site = 1;
    return node.writes;
  }

  // Of one of the targets; the selector is read first.
  Slots Branch(Slots targets, Slots reads, int writes, Selector selector = Selector::kBool) {
    Node& node = NewNode(NodeKind::kCall, std::move(reads), writes);
    node.targets = std::move(targets);
    node.selector = selector;
    return node.writes;
  }

  int Pack(Slots reads) { return NewNode(NodeKind::kPack, std::move(reads), 1).writes[0]; }
  int Join(Slots reads) { return NewNode(NodeKind::kJoin, std::move(reads), 1).writes[0]; }
  int IsEmpty(int frame) { return NewNode(NodeKind::kIsEmpty, {frame}, 1).writes[0]; }

  Slots Unpack(int frame, Slots indices) {
    Node& node = NewNode(NodeKind::kUnpack, {frame}, static_cast<int>(indices.size()));
    node.indices = std::move(indices);
    return node.writes;
  }

  // Ends the function: all results become known together.
  void Return(Slots results) {
    const int events = static_cast<int>(function().nodes.size()) + 1;
    function().results = std::move(results);
    function().groups = {std::vector<int>(function().results.size())};
    std::iota(function().groups[0].begin(), function().groups[0].end(), 0);
    function().events.resize(events);
    for (int n = 0; n + 1 < events; ++n) Listen(n, function().nodes[n].reads);
    const std::set<int> known = EventsOf(function().results);
    if (known.size() == 1) {
      function().events[*known.begin()].groups = {0};
      return;
    }
    NewNode(NodeKind::kWait, {}, 0);
    function().events.resize(events + 1);
    Listen(events - 1, function().results);
    function().events[events].groups = {0};
  }

 private:
  Function& function() { return plan_->functions[number_]; }

  Slots NewSlots(int count) {
    Slots slots(count);
    std::iota(slots.begin(), slots.end(), function().slots);
    function().slots += count;
    return slots;
  }

  Node& NewNode(NodeKind kind, Slots reads, int writes) {
    Node node{};
    node.kind = kind;
    node.reads = std::move(reads);
    node.writes = NewSlots(writes);
    node.event = static_cast<int>(function().nodes.size()) + 1;
    function().nodes.push_back(std::move(node));
    return function().nodes.back();
  }

  std::set<int> EventsOf(const Slots& reads) {
    std::set<int> events;
    for (const int slot : reads) {
      int event = 0;
      for (const Node& node : function().nodes) {
        for (const int written : node.writes) {
          if (written == slot) event = node.event;
        }
      }
      events.insert(event);
    }
    if (events.empty()) events.insert(0);
    return events;
  }

  void Listen(int node, const Slots& reads) {
    const std::set<int> events = EventsOf(reads);
    function().nodes[node].pending = static_cast<int>(events.size());
    for (const int event : events) function().events[event].consumers.push_back(node);
  }

  Plan* const plan_;
  const int number_;
};

// A plan of so many functions, to be made one after another.
inline Plan EmptyPlan(int functions) {
  Plan plan;
  plan.functions.resize(functions);
  for (int f = 0; f < functions; ++f) plan.names.push_back("function" + std::to_string(f));
  plan.labels = {"", "call"};
  return plan;
}

// tree(n, d) of a node and what comes from above, as function 0; 1 is its branch for leaves, 2 that for inner nodes.
// What an inner node hands down and what it makes of its children's results are blocks:
//   look(n) -> is_leaf, left, right;  leaf(n, d);  down(n, d) -> left's d, right's d;  up(n, d, left's, right's)
inline Plan TreePlan() {
  Plan plan = EmptyPlan(3);
  FunctionMaker tree(&plan, 0), leaf(&plan, 1), inner(&plan, 2);
  {
    const Slots in = tree.Arguments(2);
    const Slots look = tree.Block("look", {in[0]}, 3, 0);
    tree.Return(tree.Branch({1, 2}, {look[0], in[0], in[1], look[1], look[2]}, 1));
  }
  {
    const Slots in = leaf.Arguments(4);
    leaf.Return(leaf.Block("leaf", {in[0], in[1]}, 1, 2));
  }
  {
    const Slots in = inner.Arguments(4);
    const Slots down = inner.Block("down", {in[0], in[1]}, 2, 1);
    const int a = inner.Call(0, {in[2], down[0]}, 1)[0], b = inner.Call(0, {in[3], down[1]}, 1)[0];
    inner.Return(inner.Block("up", {in[0], in[1], a, b}, 1, 3));
  }
  FindOnlyUses(&plan);
  return plan;
}

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_PLAN_MAKER_FOR_TESTS_H_
