// Threads that use variables of steps which run elsewhere.
//
// A graph keeps what its step writes to itself until that is over, and may have read a variable long before the step comes
// to it. Whoever uses such a variable meanwhile waits for the end of the step: it is as if that had been earlier. But the
// step's thread may be waiting for this very one, and go on with nothing. Then the step leaves its graph.
#ifndef RECGRAPH_CC_PYTHON_BYSTANDERS_H_
#define RECGRAPH_CC_PYTHON_BYSTANDERS_H_

#include <memory>

#include "cc/python/pending.h"
#include "cc/python/plan.h"
#include "cc/python/run.h"
#include "tensorflow/core/common_runtime/eager/eager_operation.h"

namespace recgraph {

// While it lives, a step has a graph with these variables, and has not come to its end.
class Presence {
 public:
  Presence(std::shared_ptr<Run> run, std::shared_ptr<const Variables> variables, std::weak_ptr<Line> line);
  ~Presence();

  // This process was forked: the steps of other threads are not in this one.
  static void NoteFork();

  struct Entry;

 private:
  const std::shared_ptr<const Entry> entry_;
};

// Sees the eager operations of all threads from now on. Once per process.
void WatchBystanders();

// While it lives, operations of this thread wait for nobody: they are the library's own.
class Unwatched {
 public:
  Unwatched();
  ~Unwatched();

 private:
  const bool was_unwatched_;
};

// Waits until an operation, or a step of this thread with this plan, may use its variables. The latter does not wait for
// this thread's own steps, after which its graph comes anyway. Not with a lock that a step's end needs.
void WaitForSteps(const tensorflow::EagerOperation& operation);
void WaitForSteps(const Plan& plan);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_BYSTANDERS_H_
