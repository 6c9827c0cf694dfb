// The order in which the batched engine runs blocks that have rows.
#ifndef RECGRAPH_CC_CORE_BATCH_POLICY_H_
#define RECGRAPH_CC_CORE_BATCH_POLICY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace recgraph {
namespace batch {

// What a policy knows of a block with ready rows.
struct ReadyBlock {
  int block;
  int priority;
  size_t rows;
  double depth;  // mean depth of the activations
};

// Which block runs next.
class BatchPolicy {
 public:
  virtual ~BatchPolicy() = default;
  // An index into `ready`, which is not empty.
  virtual size_t Pick(const std::vector<ReadyBlock>& ready) = 0;
};

enum class Order {
  // The block whose rows can least be joined by more later; of equals the one with most rows.
  kAgenda,
  // The block with the deepest activations.
  kDepth,
  // The block with the shallowest activations.
  kHeight,
  // Any, for tests of everything else.
  kRandom,
};
std::unique_ptr<BatchPolicy> MakeBatchPolicy(Order order);
// "agenda", "depth", "height" or "random"; false for another name.
bool ParseOrder(const std::string& name, Order* order);
const char* OrderName(Order order);

// The order of runs that start from now on. Atomic.
Order DefaultOrder();
void SetDefaultOrder(Order order);

// How calls are run; all ways give the same results. For comparisons in tests.
enum class Way {
  // Calls whose structure no result decides by a schedule of the whole call; the others as next.
  kScheduled,
  // Blocks by row programs, where their operations have steps in those; the others as next.
  kRowPrograms,
  // Blocks by TensorFlow's operations.
  kOperations,
};
// "scheduled", "row_programs" or "operations"; false for another name.
bool ParseWay(const std::string& name, Way* way);
const char* WayName(Way way);

// The way of runs that start from now on. Atomic.
Way DefaultWay();
void SetDefaultWay(Way way);

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_BATCH_POLICY_H_
