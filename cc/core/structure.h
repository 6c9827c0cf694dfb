// Whether the structure of a call can be known before its values are: which calls there are, and what each block reads
// of which other. That is so where no result of a call has a say in it, as in every network over given trees or graphs
// (Cortex, MLSys 2021, and Cavs, ATC 2018, call it inspection). Worked out once for a program.
#ifndef RECGRAPH_CC_CORE_STRUCTURE_H_
#define RECGRAPH_CC_CORE_STRUCTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/batch_plan.h"

namespace recgraph {
namespace batch {

// What a node or a slot depends on.
enum class Stage {
  kStructure,  // decides which calls there are, so that it is computed while these are found
  kDown,       // on arguments, and on no result of a call
  kUp,         // on results of calls
};

// Which calls of a function are one call.
enum class Merging {
  kNever,
  kEqual,     // those that are given the same
  kGradients  // those that are given the same frame: the gradients that they are given are added up
};

// Of calls of one function, the root. What is known of a function does not depend on the root: all structures of a plan
// share it.
struct Structure {
  struct OfFunction {
    std::vector<int> order;    // of its nodes: after those whose slots they read
    std::vector<Stage> nodes;  // of each node
    std::vector<int> calls;    // of each node, its number among the calls; -1 for others
    int call_count = 0;
    bool has_up = false;       // a node of stage kUp
    std::vector<bool> decides;  // of each argument, whether the structure depends on it
    Merging merging = Merging::kNever;
    bool is_hoped = false;  // it has, or leads to, rows of unknown shape, which may turn out to be of several
  };
  const std::vector<OfFunction>& functions;  // of the plan
  std::vector<bool> is_reached;              // by the root
  // What is not scheduled any more where schedules of the root come to nothing: those functions alone of which that could
  // be expected, if there are any, and else all that it reaches.
  std::vector<bool> is_blamed;
};

// The structures of a plan: worked out in time and memory in proportion to its size.
class Structures {
 public:
  explicit Structures(const Plan& plan);

  // Why calls of a function have no structure: values decide it, it has no recursion that would pay, or a node has
  // effects or cannot be run for many rows. "" where they have one.
  const std::string& Why(int root) const { return reasons_[why_[root]]; }
  // The structure of what `root` reaches; null where there is none. Refers to these structures and to the plan.
  std::unique_ptr<const Structure> Of(int root) const;

 private:
  const Plan& plan_;
  std::vector<Structure::OfFunction> functions_;
  std::vector<std::string> reasons_;  // the first is ""
  std::vector<int> why_;              // of each function, its reason
};

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_STRUCTURE_H_
