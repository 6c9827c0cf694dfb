// The order in which ready pieces of work run: a policy behind an interface. A piece of work (a
// task) is what TensorFlow's executor wants run for one invocation: its next ready operations.
//
// Threads are TensorFlow's: a scheduler starts none, it submits to the executor's pool. Schedule
// may be called from any thread, also from inside a running task, and never blocks and never runs
// the task before it returns.
#ifndef RECGRAPH_CC_CORE_SCHEDULER_H_
#define RECGRAPH_CC_CORE_SCHEDULER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace recgraph {

using Task = std::function<void()>;
// Hands a task to the executor's pool of threads.
using Submit = std::function<void(Task)>;

class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  virtual ~Scheduler() = default;
  virtual void Schedule(Task task) = 0;
};

enum class Policy {
  // First in, first out: every task goes to the end of the pool's queue (the paper, 5.4.1).
  kFifo,
  // The awake thread takes the newest task; the oldest is handed over when a thread is idle.
  kDepthFirst,
  // A ready task picked at random, after a random delay: for tests of everything else.
  kRandom,
};

// "fifo", "depth_first" or "random"; false for any other name.
bool ParsePolicy(const std::string& name, Policy* policy);
const char* PolicyName(Policy policy);

// The policy that new steps start with. Atomic.
Policy DefaultPolicy();
void SetDefaultPolicy(Policy policy);

// `parallelism`: how many threads the pool behind `submit` has, at least 1.
std::shared_ptr<Scheduler> MakeScheduler(Policy policy, int parallelism, Submit submit);

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_SCHEDULER_H_
