// Which nodes decide the structure, and what must not be among what they depend on. Each step looks at every function
// once; what is wrong with one is wrong with all that lead to it.
#include "cc/core/structure.h"

#include <algorithm>
#include <utility>

namespace recgraph {
namespace batch {
namespace {

// The number of the reason "".
constexpr int kNoReason = 0;

class Analysis {
 public:
  Analysis(const Plan& plan, std::vector<Structure::OfFunction>* functions, std::vector<std::string>* reasons,
           std::vector<int>* why)
      : plan_(plan), functions_(*functions), reasons_(*reasons), why_(*why) {
    const size_t count = plan.functions.size();
    functions_.resize(count);
    reasons_.assign(1, "");
    why_.assign(count, kNoReason);
    is_refused_.assign(count, false);
    writers_.resize(count);
    callers_.resize(count);
  }

  void Run() {
    FindCallers();
    ForAll([this](int f) { return Look(f); });
    RefusePacksWithJoins();
    RefuseRowsOfJoins();
    FindRecursion();
    ForAll([this](int f) { return Order(f); });
    FindWanted();
    ForAll([this](int f) { return FindUp(f); });
    FindMerging();
  }

 private:
  // Of a slot: the node that writes it, or -1 for an argument or a slot that nobody writes.
  struct Writers {
    std::vector<int> node;
    std::vector<bool> is_wanted;
    std::vector<bool> is_up;
  };
  struct Caller {
    int function;
    const Node* node;
  };

  size_t Count() const { return plan_.functions.size(); }

  // Gives a reason to a function, and to all that lead to it, where they have none.
  void Refuse(int function, std::string why) {
    const int reason = static_cast<int>(reasons_.size());
    reasons_.push_back(std::move(why));
    std::vector<int> stack{function};
    while (!stack.empty()) {
      const int f = stack.back();
      stack.pop_back();
      if (is_refused_[f]) continue;
      is_refused_[f] = true;
      if (why_[f] == kNoReason) why_[f] = reason;
      for (const Caller& caller : callers_[f]) stack.push_back(caller.function);
    }
  }

  // Calls `look` with each function that is not refused yet; it returns "" or why that one is.
  template <typename Look>
  void ForAll(const Look& look) {
    for (int f = 0; f < static_cast<int>(Count()); ++f) {
      if (is_refused_[f]) continue;
      if (std::string why = look(f); !why.empty()) Refuse(f, std::move(why));
    }
  }

  // Each node once for each function, however often it names that.
  void FindCallers() {
    for (size_t f = 0; f < Count(); ++f) {
      for (const Node& node : plan_.functions[f].nodes) {
        for (const int target : node.targets) {
          auto& callers = callers_[target];
          if (callers.empty() || callers.back().node != &node) callers.push_back({static_cast<int>(f), &node});
        }
      }
    }
  }

  // Whether a function is made of what can be scheduled.
  std::string Look(int f) {
    const Function& function = plan_.functions[f];
    if (function.kind != FunctionKind::kPlain) return "a loop or a map in a body";
    if (function.has_effects) return "effects";
    Structure::OfFunction& mine = functions_[f];
    mine.nodes.assign(function.nodes.size(), Stage::kDown);
    mine.calls.assign(function.nodes.size(), -1);
    writers_[f] = {std::vector<int>(function.slots, -1), std::vector<bool>(function.slots, false),
                   std::vector<bool>(function.slots, false)};
    for (size_t n = 0; n < function.nodes.size(); ++n) {
      const Node& node = function.nodes[n];
      for (const int slot : node.writes) {
        if (slot >= 0) writers_[f].node[slot] = static_cast<int>(n);
      }
      if (std::string why = LookAt(f, static_cast<int>(n), node); !why.empty()) return why;
    }
    return "";
  }

  std::string LookAt(int f, int n, const Node& node) {
    switch (node.kind) {
      case NodeKind::kBlock: {
        const Block& block = plan_.blocks[node.block];
        if (block.by_row || block.has_effect) return block.name + " runs row by row";
        return "";
      }
      case NodeKind::kCall:
        functions_[f].calls[n] = functions_[f].call_count++;
        return "";
      case NodeKind::kUnpack:
        functions_[f].nodes[n] = Stage::kStructure;
        return "";
      case NodeKind::kIsEmpty:
        return "a loop's frames";
      default:
        return "";
    }
  }

  std::vector<bool> LeadTo(NodeKind kind) const {
    return LeadTo([kind](const Node& node) { return node.kind == kind; });
  }

  // The functions that have such a node, or lead to one that has.
  template <typename IsSuch>
  std::vector<bool> LeadTo(const IsSuch& is_such) const {
    std::vector<bool> leads(Count(), false);
    std::vector<int> stack;
    for (size_t f = 0; f < Count(); ++f) {
      for (const Node& node : plan_.functions[f].nodes) {
        if (!is_such(node)) continue;
        stack.push_back(static_cast<int>(f));
        break;
      }
    }
    while (!stack.empty()) {
      const int f = stack.back();
      stack.pop_back();
      if (leads[f]) continue;
      leads[f] = true;
      for (const Caller& caller : callers_[f]) stack.push_back(caller.function);
    }
    return leads;
  }

  void RefusePacksWithJoins() {
    const std::vector<bool> packs = LeadTo(NodeKind::kPack), joins = LeadTo(NodeKind::kJoin);
    ForAll([&](int f) -> std::string {
      return packs[f] && joins[f] ? "a gradient through a concatenation of any length" : "";
    });
  }

  // What concatenations of any length give differs in shape from row to row. Other rows of unknown shape mostly do not.
  void RefuseRowsOfJoins() {
    const auto is_ragged = [this](const Node& node) {
      return node.kind == NodeKind::kBlock && plan_.blocks[node.block].ragged;
    };
    const std::vector<bool> joins = LeadTo(NodeKind::kJoin), ragged = LeadTo(is_ragged);
    ForAll([&](int f) -> std::string {
      functions_[f].is_hoped = ragged[f];
      if (!joins[f]) return "";
      for (const Node& node : plan_.functions[f].nodes) {
        if (is_ragged(node)) return "rows of " + plan_.blocks[node.block].name + " may differ in shape";
      }
      return "";
    });
  }

  // What leads to no function that reaches itself is taken away from its end, and is still fit to be called by others.
  void FindRecursion() {
    std::vector<int> open(Count(), 0), ended;
    for (size_t f = 0; f < Count(); ++f) {
      for (const Caller& caller : callers_[f]) ++open[caller.function];
    }
    for (size_t f = 0; f < Count(); ++f) {
      if (open[f] == 0) ended.push_back(static_cast<int>(f));
    }
    const int reason = static_cast<int>(reasons_.size());
    reasons_.push_back("no recursion");
    while (!ended.empty()) {
      const int f = ended.back();
      ended.pop_back();
      if (why_[f] == kNoReason) why_[f] = reason;
      for (const Caller& caller : callers_[f]) {
        if (--open[caller.function] == 0) ended.push_back(caller.function);
      }
    }
  }

  std::string Order(int f) {
    const std::string wrong = "its nodes wait for one another";
    const Function& function = plan_.functions[f];
    std::vector<int>& order = functions_[f].order;
    std::vector<int> waits(function.nodes.size(), 0);
    std::vector<std::vector<int>> readers(function.nodes.size());
    for (size_t n = 0; n < function.nodes.size(); ++n) {
      for (const int slot : function.nodes[n].reads) {
        const int writer = writers_[f].node[slot];
        if (writer < 0) {
          if (slot >= function.arguments) return wrong;
          continue;
        }
        readers[writer].push_back(static_cast<int>(n));
        ++waits[n];
      }
    }
    for (const int slot : function.results) {
      if (writers_[f].node[slot] < 0 && slot >= function.arguments) return wrong;
    }
    for (size_t n = 0; n < function.nodes.size(); ++n) {
      if (waits[n] == 0) order.push_back(static_cast<int>(n));
    }
    for (size_t i = 0; i < order.size(); ++i) {
      for (const int reader : readers[order[i]]) {
        if (--waits[reader] == 0) order.push_back(reader);
      }
    }
    return order.size() == function.nodes.size() ? "" : wrong;
  }

  // What must be known with the structure. Whoever calls a function that is not refused is asked for its arguments; a
  // caller that is refused itself need not know.
  void FindWanted() {
    for (size_t f = 0; f < Count(); ++f) {
      if (is_refused_[f]) continue;
      for (const Node& node : plan_.functions[f].nodes) {
        const bool selects = node.kind == NodeKind::kCall && node.selector != Selector::kNone;
        if (selects || node.kind == NodeKind::kUnpack) wanted_.emplace_back(static_cast<int>(f), node.reads[0]);
      }
    }
    while (!wanted_.empty()) {
      const auto [function, slot] = wanted_.back();
      wanted_.pop_back();
      if (!is_refused_[function]) Want(function, slot);
    }
    for (size_t f = 0; f < Count(); ++f) {
      if (is_refused_[f]) continue;
      const std::vector<bool>& wanted = writers_[f].is_wanted;
      functions_[f].decides.assign(wanted.begin(), wanted.begin() + plan_.functions[f].arguments);
    }
  }

  // What a slot depends on that must be known with the structure.
  void Want(int f, int slot) {
    if (writers_[f].is_wanted[slot]) return;
    writers_[f].is_wanted[slot] = true;
    const int writer = writers_[f].node[slot];
    if (writer < 0) {
      for (const Caller& caller : callers_[f]) {
        const int first = caller.node->selector == Selector::kNone ? 0 : 1;
        if (!is_refused_[caller.function]) wanted_.emplace_back(caller.function, caller.node->reads[first + slot]);
      }
      return;
    }
    const Node& node = plan_.functions[f].nodes[writer];
    switch (node.kind) {
      case NodeKind::kBlock:
        if (functions_[f].nodes[writer] == Stage::kStructure) return;  // another of its outputs was wanted
        functions_[f].nodes[writer] = Stage::kStructure;
        for (const int read : node.reads) wanted_.emplace_back(f, read);
        return;
      case NodeKind::kUnpack:
        wanted_.emplace_back(f, node.reads[0]);
        return;
      case NodeKind::kPack:
        return;
      default:
        Refuse(f, "results of calls decide which calls there are");
    }
  }

  std::string FindUp(int f) {
    Structure::OfFunction& mine = functions_[f];
    for (const int n : mine.order) {
      const Node& node = plan_.functions[f].nodes[n];
      bool reads_up = false;
      for (const int slot : node.reads) reads_up = reads_up || writers_[f].is_up[slot];
      if (reads_up && node.kind == NodeKind::kCall) return "a call is given results of another one";
      // Calls are found before they have results, and what is unpacked is found with them.
      if (reads_up && node.kind == NodeKind::kUnpack) return "a frame of results is read where it is made";
      if (!reads_up && node.kind != NodeKind::kCall) continue;
      mine.nodes[n] = Stage::kUp;
      mine.has_up = true;
      for (const int slot : node.writes) {
        if (slot >= 0) writers_[f].is_up[slot] = true;
      }
    }
    return "";
  }

  // What is scheduled has no effects, so that equal calls have equal results, but for what they add to sums. A gradient
  // is linear in the gradients that it is given; not so what it keeps for another gradient, nor where its results are
  // concatenated.
  void FindMerging() {
    const auto has_sums = [this](const Node& node) {
      return node.kind == NodeKind::kBlock && !plan_.blocks[node.block].sums.empty();
    };
    const std::vector<bool> packs = LeadTo(NodeKind::kPack), joins = LeadTo(NodeKind::kJoin), sums = LeadTo(has_sums);
    for (size_t f = 0; f < Count(); ++f) {
      if (is_refused_[f]) continue;
      Structure::OfFunction& mine = functions_[f];
      if (!plan_.functions[f].is_linear) {
        mine.merging = sums[f] ? Merging::kNever : Merging::kEqual;
        continue;
      }
      const bool is_decided = std::count(mine.decides.begin(), mine.decides.end(), true) >
                              (!mine.decides.empty() && mine.decides[0] ? 1 : 0);
      mine.merging = packs[f] || joins[f] || is_decided ? Merging::kNever : Merging::kGradients;
    }
  }

  const Plan& plan_;
  std::vector<Structure::OfFunction>& functions_;
  std::vector<std::string>& reasons_;
  std::vector<int>& why_;
  std::vector<bool> is_refused_;  // of each function: for a reason that all have that lead to it
  std::vector<Writers> writers_;
  std::vector<std::vector<Caller>> callers_;  // of each function
  std::vector<std::pair<int, int>> wanted_;
};

}  // namespace

Structures::Structures(const Plan& plan) : plan_(plan) { Analysis(plan, &functions_, &reasons_, &why_).Run(); }

std::unique_ptr<const Structure> Structures::Of(int root) const {
  if (why_[root] != kNoReason) return nullptr;
  std::vector<bool> is_reached(functions_.size(), false);
  std::vector<int> stack{root};
  while (!stack.empty()) {
    const int f = stack.back();
    stack.pop_back();
    if (is_reached[f]) continue;
    is_reached[f] = true;
    for (const Node& node : plan_.functions[f].nodes) stack.insert(stack.end(), node.targets.begin(), node.targets.end());
  }
  std::vector<bool> is_blamed = is_reached;
  for (size_t f = 0; f < functions_.size(); ++f) {
    if (functions_[root].is_hoped && !functions_[f].is_hoped) is_blamed[f] = false;
  }
  return std::make_unique<const Structure>(Structure{functions_, std::move(is_reached), std::move(is_blamed)});
}

}  // namespace batch
}  // namespace recgraph
