// Which nodes decide the structure, and what must not be among what they depend on.
#include "cc/core/structure.h"

#include <utility>

namespace recgraph {
namespace batch {
namespace {

class Analysis {
 public:
  Analysis(const Plan& plan, int root) : plan_(plan), root_(root) { structure_.functions.resize(plan.functions.size()); }

  std::string Run() {
    if (!Reach()) return why_;
    if (!IsRecursive()) return "no recursion";
    for (size_t f = 0; f < plan_.functions.size(); ++f) {
      if (structure_.functions[f].is_reached && !Order(static_cast<int>(f))) return "its nodes wait for one another";
    }
    while (!wanted_.empty()) {
      const auto [function, slot] = wanted_.back();
      wanted_.pop_back();
      if (!Want(function, slot)) return why_;
    }
    for (size_t f = 0; f < plan_.functions.size(); ++f) {
      if (!structure_.functions[f].is_reached) continue;
      const std::vector<bool>& wanted = writers_[f].is_wanted;
      structure_.functions[f].decides.assign(wanted.begin(), wanted.begin() + plan_.functions[f].arguments);
    }
    return FindUp() ? "" : why_;
  }

  Structure Take() { return std::move(structure_); }

 private:
  // Of a slot: the node that writes it, or -1 for an argument or a slot that nobody writes.
  struct Writers {
    std::vector<int> node;
    std::vector<bool> is_wanted;
    std::vector<bool> is_up;
  };

  bool Refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // The functions that there are, and that each is made of what can be scheduled.
  bool Reach() {
    std::vector<int> stack{root_};
    writers_.resize(plan_.functions.size());
    while (!stack.empty()) {
      const int f = stack.back();
      stack.pop_back();
      Structure::OfFunction& mine = structure_.functions[f];
      if (mine.is_reached) continue;
      mine.is_reached = true;
      const Function& function = plan_.functions[f];
      if (function.kind != FunctionKind::kPlain) return Refuse("a loop or a map in a body");
      if (function.has_effects) return Refuse("effects");
      mine.nodes.assign(function.nodes.size(), Stage::kDown);
      mine.calls.assign(function.nodes.size(), -1);
      writers_[f] = {std::vector<int>(function.slots, -1), std::vector<bool>(function.slots, false),
                     std::vector<bool>(function.slots, false)};
      for (size_t n = 0; n < function.nodes.size(); ++n) {
        const Node& node = function.nodes[n];
        for (const int slot : node.writes) {
          if (slot >= 0) writers_[f].node[slot] = static_cast<int>(n);
        }
        if (!ReachNode(f, static_cast<int>(n), node, &stack)) return false;
      }
    }
    return true;
  }

  bool ReachNode(int f, int n, const Node& node, std::vector<int>* stack) {
    switch (node.kind) {
      case NodeKind::kBlock: {
        const Block& block = plan_.blocks[node.block];
        if (block.by_row || block.has_effect) return Refuse(block.name + " runs row by row");
        if (block.ragged) return Refuse("rows of " + block.name + " may differ in shape");
        return true;
      }
      case NodeKind::kCall:
        structure_.functions[f].calls[n] = structure_.functions[f].call_count++;
        stack->insert(stack->end(), node.targets.begin(), node.targets.end());
        for (const int target : node.targets) callers_.push_back({f, &node, target});
        if (node.selector != Selector::kNone) wanted_.emplace_back(f, node.reads[0]);
        return true;
      case NodeKind::kUnpack:
        structure_.functions[f].nodes[n] = Stage::kStructure;
        wanted_.emplace_back(f, node.reads[0]);
        return true;
      case NodeKind::kIsEmpty:
        return Refuse("a loop's frames");
      case NodeKind::kPack:
      case NodeKind::kJoin:
        (node.kind == NodeKind::kPack ? has_packs_ : has_joins_) = true;
        return !(has_packs_ && has_joins_) || Refuse("a gradient through a concatenation of any length");
      default:
        return true;
    }
  }

  // Whether some function reaches itself.
  bool IsRecursive() const {
    const size_t count = plan_.functions.size();
    std::vector<std::vector<int>> next(count);
    for (const Caller& caller : callers_) next[caller.function].push_back(caller.target);
    enum { kNew, kOpen, kDone };
    std::vector<int> state(count, kNew);
    std::vector<std::pair<int, size_t>> stack{{root_, 0}};
    state[root_] = kOpen;
    while (!stack.empty()) {
      auto& [f, at] = stack.back();
      if (at == next[f].size()) {
        state[f] = kDone;
        stack.pop_back();
        continue;
      }
      const int target = next[f][at++];
      if (state[target] == kOpen) return true;
      if (state[target] == kNew) {
        state[target] = kOpen;
        stack.emplace_back(target, 0);
      }
    }
    return false;
  }

  bool Order(int f) {
    const Function& function = plan_.functions[f];
    std::vector<int>& order = structure_.functions[f].order;
    std::vector<int> waits(function.nodes.size(), 0);
    std::vector<std::vector<int>> readers(function.nodes.size());
    for (size_t n = 0; n < function.nodes.size(); ++n) {
      for (const int slot : function.nodes[n].reads) {
        const int writer = writers_[f].node[slot];
        if (writer < 0) {
          if (slot >= function.arguments) return false;
          continue;
        }
        readers[writer].push_back(static_cast<int>(n));
        ++waits[n];
      }
    }
    for (const int slot : function.results) {
      if (writers_[f].node[slot] < 0 && slot >= function.arguments) return false;
    }
    for (size_t n = 0; n < function.nodes.size(); ++n) {
      if (waits[n] == 0) order.push_back(static_cast<int>(n));
    }
    for (size_t i = 0; i < order.size(); ++i) {
      for (const int reader : readers[order[i]]) {
        if (--waits[reader] == 0) order.push_back(reader);
      }
    }
    return order.size() == function.nodes.size();
  }

  // What a slot depends on that must be known with the structure.
  bool Want(int f, int slot) {
    if (writers_[f].is_wanted[slot]) return true;
    writers_[f].is_wanted[slot] = true;
    const int writer = writers_[f].node[slot];
    if (writer < 0) {
      for (const Caller& caller : callers_) {
        if (caller.target != f) continue;
        const int first = caller.node->selector == Selector::kNone ? 0 : 1;
        wanted_.emplace_back(caller.function, caller.node->reads[first + slot]);
      }
      return true;
    }
    const Node& node = plan_.functions[f].nodes[writer];
    switch (node.kind) {
      case NodeKind::kBlock:
        structure_.functions[f].nodes[writer] = Stage::kStructure;
        for (const int read : node.reads) wanted_.emplace_back(f, read);
        return true;
      case NodeKind::kUnpack:
        wanted_.emplace_back(f, node.reads[0]);
        return true;
      case NodeKind::kPack:
        return true;
      default:
        return Refuse("results of calls decide which calls there are");
    }
  }

  bool FindUp() {
    for (size_t f = 0; f < plan_.functions.size(); ++f) {
      Structure::OfFunction& mine = structure_.functions[f];
      if (!mine.is_reached) continue;
      for (const int n : mine.order) {
        const Node& node = plan_.functions[f].nodes[n];
        bool reads_up = false;
        for (const int slot : node.reads) reads_up = reads_up || writers_[f].is_up[slot];
        if (reads_up && node.kind == NodeKind::kCall) return Refuse("a call is given results of another one");
        // Calls are found before they have results, and what is unpacked is found with them.
        if (reads_up && node.kind == NodeKind::kUnpack) return Refuse("a frame of results is read where it is made");
        if (!reads_up && node.kind != NodeKind::kCall) continue;
        mine.nodes[n] = Stage::kUp;
        mine.has_up = true;
        for (const int slot : node.writes) {
          if (slot >= 0) writers_[f].is_up[slot] = true;
        }
      }
    }
    return true;
  }

  struct Caller {
    int function;
    const Node* node;
    int target;
  };

  const Plan& plan_;
  const int root_;
  Structure structure_;
  std::vector<Writers> writers_;
  std::vector<Caller> callers_;
  std::vector<std::pair<int, int>> wanted_;
  bool has_packs_ = false, has_joins_ = false;
  std::string why_;
};

}  // namespace

std::unique_ptr<const Structure> Structure::Make(const Plan& plan, int root, std::string* why) {
  Analysis analysis(plan, root);
  *why = analysis.Run();
  if (!why->empty()) return nullptr;
  return std::make_unique<const Structure>(analysis.Take());
}

}  // namespace batch
}  // namespace recgraph
