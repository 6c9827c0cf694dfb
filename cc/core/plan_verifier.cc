// The rules, function by function; each returns at the first thing that breaks one.
#include "cc/core/plan_verifier.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace recgraph {
namespace batch {
namespace {

constexpr int kNobody = -1;
constexpr int kDense = 0;  // kinds of sums; the other two, outer and rows, have two outputs
constexpr int kSumKinds = 3;

template <typename Number>
std::string Text(Number number) {
  return std::to_string(number);
}

int Size(const Plan& plan) { return static_cast<int>(plan.functions.size()); }
template <typename Item>
int Size(const std::vector<Item>& items) {
  return static_cast<int>(items.size());
}

bool AllWithin(const std::vector<int>& numbers, int low, int end) {
  return std::all_of(numbers.begin(), numbers.end(), [=](int number) { return number >= low && number < end; });
}

// Whether `numbers` are first, first + 1, ... up to `count` of them.
bool CountsUp(const std::vector<int>& numbers, int first, int count) {
  if (Size(numbers) != count) return false;
  for (int i = 0; i < count; ++i) {
    if (numbers[i] != first + i) return false;
  }
  return true;
}

// One function.
class FunctionVerifier {
 public:
  // `groups` has for each function a number that is the same where groups of results are.
  FunctionVerifier(const Plan& plan, int index, const std::vector<int>& groups)
      : plan_(plan), index_(index), function_(plan.functions[index]), groups_(groups) {}

  // Of all functions first: what the others read of the functions that they call.
  std::string VerifyResults() const { return Named(VerifyGroups()); }

  std::string Verify() {
    std::string wrong = VerifyNumbers();
    for (size_t i = 0; wrong.empty() && i < function_.nodes.size(); ++i) {
      wrong = VerifyNode(function_.nodes[i]);
      if (!wrong.empty()) wrong = "node " + Text(i) + ": " + wrong;
    }
    if (wrong.empty()) {
      switch (function_.kind) {
        case FunctionKind::kPlain: wrong = VerifyOrder(); break;
        case FunctionKind::kLoop: wrong = VerifyLoop(); break;
        case FunctionKind::kMap: wrong = VerifyMap(); break;
      }
    }
    return Named(wrong);
  }

 private:
  std::string Named(const std::string& wrong) const {
    if (wrong.empty()) return "";
    const std::string name = index_ < Size(plan_.names) ? plan_.names[index_] : Text(index_);
    return "function '" + name + "': " + wrong;
  }

  // Single numbers against what they count or number.
  std::string VerifyNumbers() {
    const Function& f = function_;
    const int kind = static_cast<int>(f.kind);
    if (kind < 0 || kind > static_cast<int>(FunctionKind::kMap)) return "no kind of function: " + Text(kind);
    if (f.arguments < 0 || f.slots < f.arguments) return Text(f.slots) + " slots for " + Text(f.arguments) + " arguments";
    if (!AllWithin(f.results, 0, f.slots)) return "a result is no slot";
    if (f.events.empty()) return "it has no event for its beginning";
    for (const Event& event : f.events) {
      if (!AllWithin(event.consumers, 0, Size(f.nodes))) return "an event is for a node that does not exist";
      if (!AllWithin(event.groups, 0, Size(f.groups))) return "an event tells of a group that does not exist";
    }
    for (const Node& node : f.nodes) {
      if (!AllWithin(node.reads, 0, f.slots)) return "a node reads a slot that does not exist";
      if (!AllWithin(node.writes, -1, f.slots)) return "a node writes a slot that does not exist";
    }
    return VerifyWrites();
  }

  // So many slots as there are values, each written once.
  std::string VerifyWrites() {
    std::vector<bool> written(function_.slots, false);
    int values = function_.arguments;
    for (int i = 0; i < Size(function_.nodes); ++i) {
      for (int slot : function_.nodes[i].writes) {
        if (slot < 0) continue;
        if (slot < function_.arguments) return "node " + Text(i) + " writes to an argument";
        if (written[slot]) return "slot " + Text(slot) + " is written twice";
        written[slot] = true;
        ++values;
      }
    }
    if (values != function_.slots) return Text(function_.slots) + " slots for " + Text(values) + " values";
    return "";
  }

  std::string VerifyNode(const Node& node) const {
    const int reads = Size(node.reads), writes = Size(node.writes);
    if (node.kind != NodeKind::kUnpack && !node.indices.empty()) return "it unpacks nothing and has indices";
    if (node.kind != NodeKind::kCall && (!node.targets.empty() || node.selector != Selector::kNone)) {
      return "it is no call and has targets";
    }
    if (node.kind != NodeKind::kBlock && node.block != -1) return "it is no block and names one";
    switch (node.kind) {
      case NodeKind::kBlock: return VerifyBlockNode(node);
      case NodeKind::kCall: return VerifyCall(node);
      case NodeKind::kPack: return writes == 1 ? "" : "a frame is packed into " + Text(writes) + " slots";
      case NodeKind::kJoin:
        if (reads < 1) return "nothing is joined";
        return writes == 1 ? "" : "parts are joined into " + Text(writes) + " slots";
      case NodeKind::kIsEmpty: return reads == 1 && writes == 1 ? "" : "it looks at one frame and gives one answer";
      case NodeKind::kUnpack: return VerifyUnpack(node);
      case NodeKind::kWait: return reads == 0 && writes == 0 ? "" : "a wait has no values";
    }
    return "no kind of node: " + Text(static_cast<int>(node.kind));
  }

  // Each value of a frame is unpacked once: it may be moved.
  static std::string VerifyUnpack(const Node& node) {
    if (node.reads.size() != 1) return "it unpacks " + Text(node.reads.size()) + " frames";
    if (node.indices.size() != node.writes.size()) return "it unpacks other values than it writes";
    std::vector<int> indices = node.indices;
    std::sort(indices.begin(), indices.end());
    if (!indices.empty() && indices[0] < 0) return "it unpacks a value with a negative number";
    if (std::adjacent_find(indices.begin(), indices.end()) != indices.end()) return "it unpacks a value twice";
    return "";
  }

  std::string VerifyBlockNode(const Node& node) const {
    if (function_.kind != FunctionKind::kPlain) return "a block in a loop or map";
    if (node.block < 0 || node.block >= Size(plan_.blocks)) return "it runs a block that does not exist";
    const Block& block = plan_.blocks[node.block];
    const bool is_own = block.function == index_ && block.node >= 0 && block.node < Size(function_.nodes) &&
                        &function_.nodes[block.node] == &node;
    if (!is_own) return "it runs block " + Text(node.block) + ", which names another node";
    if (block.shared.size() != node.writes.size()) return "block " + Text(node.block) + " has other outputs";
    if (!AllWithin(node.writes, 0, function_.slots)) return "a block writes a value that nobody reads";
    return "";
  }

  std::string VerifyCall(const Node& node) const {
    const int selector = static_cast<int>(node.selector);
    if (selector < 0 || selector > static_cast<int>(Selector::kIndex)) return "no kind of selector: " + Text(selector);
    const int first = node.selector == Selector::kNone ? 0 : 1;
    const int given = Size(node.reads) - first;
    if (given < 0) return "it reads nothing to select by";
    if (node.targets.empty()) return "it calls nothing";
    if (first == 0 && node.targets.size() > 1) return "it calls several functions and selects none";
    if (!AllWithin(node.targets, 0, Size(plan_))) return "it calls a function that does not exist";
    if (node.site < 0 || node.site >= Size(plan_.labels)) return "its label does not exist";
    const int groups = groups_[node.targets[0]];
    for (int target : node.targets) {
      const Function& callee = plan_.functions[target];
      if (callee.arguments != given) return "it gives " + Text(given) + " arguments for " + Text(callee.arguments);
      if (callee.results.size() != node.writes.size()) return "it expects other results than the function has";
      if (groups_[target] != groups) return "functions that it may call give their results in other groups";
    }
    return "";
  }

  // Each result is in one group, so that it arrives once.
  std::string VerifyGroups() const {
    std::vector<int> times(function_.results.size(), 0);
    for (const auto& group : function_.groups) {
      if (!AllWithin(group, 0, Size(function_.results))) return "a group has a result that does not exist";
      for (int result : group) ++times[result];
    }
    if (std::any_of(times.begin(), times.end(), [](int count) { return count != 1; })) {
      return "a result is not in exactly one group";
    }
    return "";
  }

  // A plain function: events, what they tell of, and that all of them come to be.
  std::string VerifyOrder() {
    std::string wrong = FindFirers();
    if (wrong.empty()) wrong = FindAwaited();
    for (int i = 0; wrong.empty() && i < Size(function_.nodes); ++i) {
      for (int slot : function_.nodes[i].reads) {
        if (!Awaits(i, slot)) wrong = "node " + Text(i) + " does not wait for slot " + Text(slot) + ", which it reads";
      }
    }
    if (wrong.empty()) wrong = VerifyDelivery();
    if (wrong.empty()) wrong = VerifyThatAllRun();
    return wrong;
  }

  // The node that fires each event, and the event that tells of each slot.
  std::string FindFirers() {
    firer_.assign(function_.events.size(), kNobody);
    told_by_.assign(function_.slots, 0);
    for (int i = 0; i < Size(function_.nodes); ++i) {
      const Node& node = function_.nodes[i];
      const int count = node.kind == NodeKind::kCall ? Size(plan_.functions[node.targets[0]].groups) : 1;
      if (count == 0) continue;  // a call without results: nothing can wait for it
      if (node.event < 1 || node.event > Size(function_.events) - count) {
        return "node " + Text(i) + " fires an event that does not exist";
      }
      for (int event = node.event; event < node.event + count; ++event) {
        if (firer_[event] != kNobody) return "event " + Text(event) + " is fired twice";
        firer_[event] = i;
      }
      NoteEvents(node);
    }
    for (int event = 1; event < Size(function_.events); ++event) {
      if (firer_[event] == kNobody) return "event " + Text(event) + " is never fired";
    }
    return "";
  }

  void NoteEvents(const Node& node) {
    for (int slot : node.writes) {
      if (slot >= 0) told_by_[slot] = node.event;
    }
    if (node.kind != NodeKind::kCall) return;
    const auto& groups = plan_.functions[node.targets[0]].groups;
    for (int group = 0; group < Size(groups); ++group) {
      for (int result : groups[group]) {
        if (node.writes[result] >= 0) told_by_[node.writes[result]] = node.event + group;
      }
    }
  }

  // The events that each node waits for; so many as it counts.
  std::string FindAwaited() {
    awaited_.assign(function_.nodes.size(), {});
    for (int event = 0; event < Size(function_.events); ++event) {
      for (int node : function_.events[event].consumers) awaited_[node].push_back(event);
    }
    for (int i = 0; i < Size(function_.nodes); ++i) {
      auto& events = awaited_[i];  // sorted, as events were gone through in order
      if (events.empty() || Size(events) != function_.nodes[i].pending) {
        return "node " + Text(i) + " counts " + Text(function_.nodes[i].pending) + " events and waits for " +
               Text(events.size());
      }
      if (std::adjacent_find(events.begin(), events.end()) != events.end()) {
        return "node " + Text(i) + " waits for one event twice";
      }
    }
    return "";
  }

  bool IsArgument(int slot) const { return slot < function_.arguments; }
  bool Awaits(int node, int slot) const {
    return IsArgument(slot) || std::binary_search(awaited_[node].begin(), awaited_[node].end(), told_by_[slot]);
  }

  // Each group of results is told of once, when what writes it is done.
  std::string VerifyDelivery() const {
    std::vector<int> times(function_.groups.size(), 0);
    for (int event = 0; event < Size(function_.events); ++event) {
      for (int group : function_.events[event].groups) {
        if (++times[group] > 1) break;  // found below
        for (int result : function_.groups[group]) {
          const int slot = function_.results[result];
          const bool is_there = IsArgument(slot) || told_by_[slot] == event ||
                                (firer_[event] != kNobody && Awaits(firer_[event], slot));
          if (!is_there) return "result " + Text(result) + " is given before it is there";
        }
      }
    }
    if (std::any_of(times.begin(), times.end(), [](int count) { return count != 1; })) {
      return "a group of results is not given exactly once";
    }
    return "";
  }

  // Runs all nodes, in an order that their events allow.
  std::string VerifyThatAllRun() const {
    std::vector<int> pending, events = {0};
    for (const auto& awaited : awaited_) pending.push_back(Size(awaited));
    std::vector<std::vector<int>> fired(function_.nodes.size());
    for (int event = 1; event < Size(function_.events); ++event) fired[firer_[event]].push_back(event);
    size_t ran = 0;
    while (!events.empty()) {
      const int event = events.back();
      events.pop_back();
      for (int node : function_.events[event].consumers) {
        if (--pending[node] > 0) continue;
        ++ran;
        events.insert(events.end(), fired[node].begin(), fired[node].end());
      }
    }
    return ran == function_.nodes.size() ? "" : "nodes wait for each other in a circle";
  }

  // What loops and maps have in common: calls of all arguments, and nothing at their beginning.
  std::string VerifyCalls(int calls) const {
    const Event& beginning = function_.events[0];
    if (function_.events.size() != 1 || !beginning.consumers.empty() || !beginning.groups.empty()) {
      return "a loop or map has events of its own";
    }
    if (Size(function_.nodes) != calls) return "it has " + Text(function_.nodes.size()) + " nodes";
    for (const Node& node : function_.nodes) {
      if (node.kind != NodeKind::kCall || node.selector != Selector::kNone) return "it calls no function";
      if (!CountsUp(node.reads, 0, function_.arguments)) return "its calls are not given its arguments";
    }
    return "";
  }

  std::string VerifyLoop() const {
    const std::string wrong = VerifyCalls(2);
    if (!wrong.empty()) return wrong;
    const int variables = function_.arguments;
    const Node &condition = function_.nodes[0], &body = function_.nodes[1];
    if (!CountsUp(condition.writes, variables, 1)) return "the condition of a loop gives one value";
    if (!CountsUp(body.writes, variables + 1, variables)) return "the body of a loop gives its variables";
    for (const Node& node : function_.nodes) {
      if (plan_.functions[node.targets[0]].groups.empty()) return "a loop waits for results that never come";
    }
    if (!AllWithin(function_.results, 0, variables)) return "a loop's results are its variables";
    return "";
  }

  std::string VerifyMap() const {
    const std::string wrong = VerifyCalls(1);
    if (!wrong.empty()) return wrong;
    if (function_.arguments == 0) return "a map over nothing";
    const int results = Size(function_.results);
    if (!CountsUp(function_.results, function_.arguments, results)) return "a map's results are not in order";
    if (!CountsUp(function_.nodes[0].writes, function_.arguments, results)) return "a map gives other results";
    if (function_.map_results.size() != function_.results.size()) return "a map does not say what its results are";
    for (const MapResult& result : function_.map_results) {
      if (!std::all_of(result.shape.begin(), result.shape.end(), [](int size) { return size >= 0; })) {
        return "a result of a map has a negative size";
      }
    }
    return "";
  }

  const Plan& plan_;
  const int index_;
  const Function& function_;
  const std::vector<int>& groups_;
  std::vector<int> firer_;                 // per event, a node; nobody fires event 0
  std::vector<int> told_by_;               // per slot, an event
  std::vector<std::vector<int>> awaited_;  // per node, events
};

std::string VerifyBlock(const Plan& plan, const Block& block) {
  if (block.function < 0 || block.function >= Size(plan)) return "it is of a function that does not exist";
  const auto& nodes = plan.functions[block.function].nodes;
  if (block.node < 0 || block.node >= Size(nodes)) return "it is of a node that does not exist";
  if (nodes[block.node].kind != NodeKind::kBlock || &plan.blocks[0] + nodes[block.node].block != &block) {
    return "the node that it names runs another";
  }
  for (const Capture& capture : block.captures) {
    const int form = static_cast<int>(capture.form);
    if (capture.slot < 0 || form < 0 || form > static_cast<int>(Form::kPackedTransposed)) return "a capture is none";
  }
  if (block.sums.size() % 3 != 0) return "a sum is not complete";
  // Sums come after the values that are kept, side by side.
  int64_t output = static_cast<int64_t>(block.shared.size());
  for (size_t i = 0; i < block.sums.size(); i += 3) {
    if (block.sums[i] < 0 || block.sums[i] >= kSumKinds) return "no kind of sum: " + Text(block.sums[i]);
    if (block.sums[i + 1] < 0) return "a sum is for no slot";
    if (block.sums[i + 2] != output) return "a sum is not among the outputs";
    output += block.sums[i] == kDense ? 1 : 2;
  }
  return "";
}

// Functions that lead to themselves by calls that are not invocations: nothing would count how deep they go.
std::string VerifyRecursion(const Plan& plan) {
  enum Mark : char { kNew, kOpen, kDone };
  std::vector<Mark> marks(plan.functions.size(), kNew);
  std::vector<std::vector<int>> callees(plan.functions.size());
  for (size_t i = 0; i < plan.functions.size(); ++i) {
    for (const Node& node : plan.functions[i].nodes) {
      if (node.kind != NodeKind::kCall || node.site != 0) continue;
      callees[i].insert(callees[i].end(), node.targets.begin(), node.targets.end());
    }
  }
  for (int root = 0; root < Size(plan); ++root) {
    std::vector<std::pair<int, size_t>> path;  // function, its next callee
    if (marks[root] == kNew) path.emplace_back(root, 0);
    while (!path.empty()) {
      auto& [function, next] = path.back();
      marks[function] = kOpen;
      if (next == callees[function].size()) {
        marks[function] = kDone;
        path.pop_back();
        continue;
      }
      const int callee = callees[function][next++];
      if (marks[callee] == kOpen) return "function " + Text(callee) + " calls itself, and no call is an invocation";
      if (marks[callee] == kNew) path.emplace_back(callee, 0);
    }
  }
  return "";
}

// For each function a number that is the same where groups of results are.
std::vector<int> NumberGroups(const Plan& plan) {
  std::map<std::vector<std::vector<int>>, int> known;
  std::vector<int> numbers;
  for (const Function& function : plan.functions) {
    numbers.push_back(known.emplace(function.groups, static_cast<int>(known.size())).first->second);
  }
  return numbers;
}

}  // namespace

std::string VerifyPlan(const Plan& plan) {
  if (plan.names.size() != plan.functions.size()) return "functions without names";
  const std::vector<int> groups = NumberGroups(plan);
  std::string wrong;
  for (int i = 0; wrong.empty() && i < Size(plan); ++i) wrong = FunctionVerifier(plan, i, groups).VerifyResults();
  for (int i = 0; wrong.empty() && i < Size(plan); ++i) wrong = FunctionVerifier(plan, i, groups).Verify();
  if (!wrong.empty()) return wrong;
  for (size_t i = 0; i < plan.blocks.size(); ++i) {
    wrong = VerifyBlock(plan, plan.blocks[i]);
    if (!wrong.empty()) return "block " + Text(i) + ": " + wrong;
  }
  return VerifyRecursion(plan);
}

}  // namespace batch
}  // namespace recgraph
