// Decoding of plans: that numbers are there and are no larger than memory can hold. Whether they fit each other is
// what cc/core/plan_verifier.h says.
#include "cc/core/batch_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cc/core/plan_verifier.h"

namespace recgraph {
namespace batch {
namespace {

constexpr int64_t kVersion = 3;
constexpr int64_t kMostSlots = 1 << 16;  // of a plan without numbers
constexpr int64_t kMostText = 1 << 20;   // of a plan without strings

class Reader {
 public:
  Reader(const std::vector<int64_t>& code, const std::vector<std::string>& strings)
      : code_(code), strings_(strings) {
    for (const std::string& text : strings) text_left_ += 64 * static_cast<int64_t>(text.size());
  }

  bool ok() const { return ok_; }
  bool at_end() const { return next_ == code_.size(); }
  size_t position() const { return next_; }

  int Int(int64_t low, int64_t high) {
    if (!ok_ || next_ >= code_.size()) return Failed();
    const int64_t value = code_[next_];
    if (value < low || value > high) return Failed();
    ++next_;
    return static_cast<int>(value);
  }
  // A count of things of so many numbers at least: there are no more than the numbers that are left explain, so that
  // memory can be had for all of them before any is read.
  int Count(int64_t each = 1) { return Int(0, (static_cast<int64_t>(code_.size() - next_) - 1) / each); }
  // A number that is no more than there are numbers in the plan.
  int Number() { return Int(0, static_cast<int64_t>(code_.size())); }
  int Any() { return Int(-1, 1 << 30); }

  std::vector<int> List(int64_t low, int64_t high) {
    std::vector<int> list(Count());
    for (int& value : list) value = Int(low, high);
    return list;
  }

  // Slots cost memory and time without being spelled out: so many numbers allow only so many of them.
  int Slots(int arguments) {
    const int slots = Int(arguments, 1 << 20);
    slots_ += slots;
    if (slots_ > kMostSlots + 64 * static_cast<int64_t>(code_.size())) return Failed();
    return slots;
  }

  std::string String() {
    const int index = Int(0, static_cast<int64_t>(strings_.size()) - 1);
    if (!ok_) return "";
    // The same one may be named by everything: so many strings allow only so much text.
    text_left_ -= static_cast<int64_t>(strings_[index].size());
    if (text_left_ < 0) Failed();
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
  int64_t slots_ = 0;  // of all functions so far
  int64_t text_left_ = kMostText;
  bool ok_ = true;
};

// Numbers of what has no lists: kind, count of events, reads, writes and event of a node; an event's two lists.
constexpr int64_t kNodeNumbers = 5;
constexpr int64_t kEventNumbers = 2;

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
      node.site = in->Number();
      node.targets = in->List(0, functions - 1);
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
  function.arguments = in->Number();
  function.slots = in->Slots(function.arguments);
  const int facts = in->Int(0, 3);
  function.has_effects = (facts & 1) != 0;
  function.is_linear = (facts & 2) != 0;
  function.results = in->List(0, function.slots - 1);
  function.groups.resize(in->Count());
  const int results = function.results.size();
  for (auto& group : function.groups) group = in->List(0, results - 1);
  function.events.resize(in->Count(kEventNumbers));
  const int groups = function.groups.size();
  for (Event& event : function.events) {
    event.consumers = in->List(0, 1 << 20);
    event.groups = in->List(0, groups - 1);
  }
  function.nodes.resize(in->Count(kNodeNumbers));
  for (Node& node : function.nodes) node = ReadNode(in, function.slots, functions, blocks);
  if (function.kind == FunctionKind::kMap) {
    for (int i = 0; i < results && in->ok(); ++i) {
      MapResult result;
      result.is_frame = in->Int(0, 1) == 1;
      result.dtype = in->Number();
      result.shape = in->List(0, 1 << 30);
      function.map_results.push_back(std::move(result));
    }
  }
  return function;
}

Block ReadBlock(Reader* in) {
  Block block;
  block.function = in->Number();
  block.node = in->Number();
  block.priority = in->Number();
  block.by_row = in->Int(0, 1) == 1;
  block.has_effect = in->Int(0, 1) == 1;
  block.ragged = in->Int(0, 1) == 1;
  block.work = in->Any();
  const int captures = in->Count();
  for (int i = 0; i + 1 < captures && in->ok(); i += 2) {
    const int slot = in->Int(0, 1 << 20);
    block.captures.push_back({slot, static_cast<Form>(in->Int(0, static_cast<int>(Form::kPackedTransposed)))});
  }
  if (captures % 2 != 0) in->Int(1, 0);  // a slot without a form
  for (int shared : in->List(0, 1)) block.shared.push_back(shared == 1);
  block.sums = in->List(0, 1 << 20);
  block.name = in->String();
  return block;
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
  if (!in.ok() || !in.at_end()) {
    return "a damaged plan: number " + std::to_string(in.position()) + " of " + std::to_string(code.size()) +
           " is not what it should be";
  }
  const std::string wrong = VerifyPlan(*plan);
  if (!wrong.empty()) return "a damaged plan: " + wrong;
  for (const Block& block : plan->blocks) {
    for (const Capture& capture : block.captures) plan->captures = std::max(plan->captures, capture.slot + 1);
    for (size_t i = 1; i < block.sums.size(); i += 3) plan->captures = std::max(plan->captures, block.sums[i] + 1);
  }
  FindOnlyUses(plan);
  return "";
}

}  // namespace batch
}  // namespace recgraph
