// Steps that Python is through with while their graphs still compute.
//
// A thread has a line of them, all with the same plan, whose graphs run one after another. What is seen of them goes
// through here: before something else is done with their variables, it waits for them.
#ifndef RECGRAPH_CC_PYTHON_PENDING_H_
#define RECGRAPH_CC_PYTHON_PENDING_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

#include "cc/python/interpreter_lock.h"
#include "cc/python/step.h"

namespace recgraph {

// Any thread may call anything, with Python's lock or without; a line belongs to one.
class Line {
 public:
  // Puts a step at the end.
  void Add(std::unique_ptr<Step> step);

  // Of the last step; null if there is none.
  std::shared_ptr<Run> LastRun();
  const Plan* LastPlan();

  // Waits until there are at most `most` steps. One whose graph failed is done again, at once. If it fails then as
  // well, its error is the result, and the steps behind it have not happened.
  absl::Status Settle(size_t most);

  // The same with all steps, for another thread: an error is kept for this one.
  void SettleForOther();

 private:
  // Who settles has the mutex while a graph computes, and takes Python's lock now and then to handle signals: so nobody
  // waits for the mutex with Python's lock (see the order of locks in interpreter_lock.h).
  std::unique_lock<WithoutInterpreter<2>> Lock();

  WithoutInterpreter<2> mutex_;  // a signal that comes meanwhile may lead here again
  std::deque<std::unique_ptr<Step>> steps_;
  absl::Status kept_;
};

// The line of this thread.
const std::shared_ptr<Line>& ThisLine();

// Waits for all steps of this thread before an operation outside of steps that may use one of their variables.
absl::Status SettleBefore(const tensorflow::EagerOperation& operation);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_PENDING_H_
