// Decoding of plans. Numbers are checked once, here, so that the machine need not.
#include "cc/core/batch_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace recgraph {
namespace batch {
namespace {

constexpr int64_t kVersion = 3;

class Reader {
 public:
  Reader(const std::vector<int64_t>& code, const std::vector<std::string>& strings)
      : code_(code), strings_(strings) {}

  bool ok() const { return ok_; }
  bool at_end() const { return next_ == code_.size(); }
  void Fail() { ok_ = false; }

  int Int(int64_t low, int64_t high) {
    if (!ok_ || next_ >= code_.size()) return Failed();
    const int64_t value = code_[next_++];
    if (value < low || value > high) return Failed();
    return static_cast<int>(value);
  }
  int Count() { return Int(0, static_cast<int64_t>(code_.size())); }
  int Any() { return Int(-1, 1 << 30); }

  std::vector<int> List(int64_t low, int64_t high) {
    std::vector<int> list(Count());
    for (int& value : list) value = Int(low, high);
    return list;
  }

  std::string String() {
    const int index = Int(0, static_cast<int64_t>(strings_.size()) - 1);
    return ok_ ? strings_[index] : "";
  }

 private:
  int Failed() {
    ok_ = false;
    return 0;
  }

  const std::vector<int64_t>& code_;
  const std::vector<std::string>& strings_;
  size_t next_ = 0;
  bool ok_ = true;
};

Node ReadNode(Reader* in, int slots, int functions, int blocks) {
  Node node;
  node.kind = static_cast<NodeKind>(in->Int(0, 6));
  node.pending = in->Int(0, UINT16_MAX);
  node.reads = in->List(0, slots - 1);
  node.writes = in->List(-1, slots - 1);
  node.event = in->Any();
  switch (node.kind) {
    case NodeKind::kBlock:
      node.block = in->Int(0, blocks - 1);
      break;
    case NodeKind::kCall:
      node.selector = static_cast<Selector>(in->Int(0, 2));
      node.site = in->Count();
      node.targets = in->List(0, functions - 1);
      if (node.targets.empty()) in->Fail();
      if (node.selector != Selector::kNone && node.reads.empty()) in->Fail();
      break;
    case NodeKind::kUnpack:
      node.indices = in->List(0, 1 << 20);
      break;
    case NodeKind::kPack:
    case NodeKind::kIsEmpty:
    case NodeKind::kJoin:
    case NodeKind::kWait:
      break;
  }
  return node;
}

Function ReadFunction(Reader* in, int functions, int blocks) {
  Function function;
  function.kind = static_cast<FunctionKind>(in->Int(0, 2));
  function.arguments = in->Count();
  function.slots = in->Int(function.arguments, 1 << 20);
  function.has_effects = in->Int(0, 1) == 1;
  function.results = in->List(0, function.slots - 1);
  function.groups.resize(in->Count());
  const int results = function.results.size();
  for (auto& group : function.groups) group = in->List(0, results - 1);
  function.events.resize(in->Count());
  const int groups = function.groups.size();
  for (Event& event : function.events) {
    event.consumers = in->List(0, 1 << 20);
    event.groups = in->List(0, groups - 1);
  }
  function.nodes.resize(in->Count());
  for (Node& node : function.nodes) node = ReadNode(in, function.slots, functions, blocks);
  if (function.kind == FunctionKind::kMap) {
    for (int i = 0; i < results && in->ok(); ++i) {
      MapResult result;
      result.is_frame = in->Int(0, 1) == 1;
      result.dtype = in->Count();
      result.shape = in->List(0, 1 << 30);
      function.map_results.push_back(std::move(result));
    }
  }
  const size_t calls = function.kind == FunctionKind::kLoop ? 2 : 1;
  if (function.kind != FunctionKind::kPlain && function.nodes.size() != calls) in->Fail();
  return function;
}

Block ReadBlock(Reader* in) {
  Block block;
  block.function = in->Count();
  block.node = in->Count();
  block.priority = in->Count();
  block.by_row = in->Int(0, 1) == 1;
  block.has_effect = in->Int(0, 1) == 1;
  block.ragged = in->Int(0, 1) == 1;
  block.work = in->Any();
  const std::vector<int> captures = in->List(0, 1 << 20);
  if (captures.size() % 2 != 0) in->Fail();
  for (size_t i = 0; i + 1 < captures.size(); i += 2) {
    if (captures[i + 1] > static_cast<int>(Form::kPackedTransposed)) in->Fail();
    block.captures.push_back({captures[i], static_cast<Form>(captures[i + 1])});
  }
  for (int shared : in->List(0, 1)) block.shared.push_back(shared == 1);
  block.sums = in->List(0, 1 << 20);
  block.name = in->String();
  return block;
}

// What single numbers cannot show: that they fit each other.
bool IsConsistent(const Plan& plan) {
  for (const Function& function : plan.functions) {
    for (const Event& event : function.events) {
      for (int node : event.consumers) {
        if (node >= static_cast<int>(function.nodes.size())) return false;
      }
    }
    for (const Node& node : function.nodes) {
      // Each value of a frame is unpacked once: it may be moved.
      std::vector<int> indices = node.indices;
      std::sort(indices.begin(), indices.end());
      if (std::adjacent_find(indices.begin(), indices.end()) != indices.end()) return false;
      size_t fired = 1;
      if (node.kind == NodeKind::kCall) {
        const size_t given = node.reads.size() - (node.selector == Selector::kNone ? 0 : 1);
        const size_t groups = plan.functions[node.targets[0]].groups.size();
        for (int target : node.targets) {
          const Function& callee = plan.functions[target];
          if (static_cast<size_t>(callee.arguments) != given) return false;
          if (callee.results.size() != node.writes.size()) return false;
          if (callee.groups.size() != groups) return false;
        }
        fired = groups;
      }
      if (function.kind == FunctionKind::kPlain && node.event + fired > function.events.size()) return false;
    }
  }
  for (const Block& block : plan.blocks) {
    if (block.function >= static_cast<int>(plan.functions.size())) return false;
    const Function& function = plan.functions[block.function];
    if (block.node >= static_cast<int>(function.nodes.size())) return false;
    if (block.shared.size() != function.nodes[block.node].writes.size()) return false;
    if (block.sums.size() % 3 != 0) return false;
  }
  return true;
}

// Loops and maps read their slots again and again.
void FindOnlyUses(Function* function) {
  std::vector<int> uses(function->slots, function->kind == FunctionKind::kPlain ? 0 : 2);
  for (const Node& node : function->nodes) {
    for (int slot : node.reads) ++uses[slot];
  }
  for (int slot : function->results) ++uses[slot];
  for (Node& node : function->nodes) {
    for (int slot : node.reads) node.only_use.push_back(uses[slot] == 1);
  }
  for (int slot : function->results) function->only_use.push_back(uses[slot] == 1);
}

}  // namespace

void FindOnlyUses(Plan* plan) {
  for (Function& function : plan->functions) FindOnlyUses(&function);
}

int Plan::Find(const std::string& name) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<int>(i);
  }
  return -1;
}

std::string DecodePlan(const std::vector<int64_t>& code, const std::vector<std::string>& strings,
                       Plan* plan) {
  Reader in(code, strings);
  if (in.Int(0, 1 << 20) != kVersion) return "a plan of another version of recgraph";
  const int functions = in.Count();
  const int blocks = in.Count();
  const int labels = in.Count();
  for (int i = 0; i < functions && in.ok(); ++i) plan->names.push_back(in.String());
  for (int i = 0; i < labels && in.ok(); ++i) plan->labels.push_back(in.String());
  for (int i = 0; i < functions && in.ok(); ++i) {
    plan->functions.push_back(ReadFunction(&in, functions, blocks));
  }
  for (int i = 0; i < blocks && in.ok(); ++i) plan->blocks.push_back(ReadBlock(&in));
  if (!in.ok() || !in.at_end() || !IsConsistent(*plan)) return "a damaged plan";
  FindOnlyUses(plan);
  return "";
}

}  // namespace batch
}  // namespace recgraph
