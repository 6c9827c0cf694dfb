// Python's global lock, which some of TensorFlow's functions hold when they execute an operation, and others do not.
//
// The order of all locks of this folder. A thread takes a lock only while it holds none that stands below it here:
//
//   1. Line::mutex_        (pending.h)  held while a line of steps is settled, which waits for graphs
//   2. Access::mutex       (access.h)   held by who works on a step
//   3. Python's own lock                held by whoever runs Python; 1 and 2 are never waited for with it: who has one of
//                                       them may need it, to handle signals or to do an operation again. Both are tried
//                                       first, and waited for under InterpreterUnlocked.
//   4. Run::holding_       (run.h)      then Run::mutex_, Value::mutex_ (value.h), Channels (cc/core)
//   5. all others: registries of runs, resources, signatures, pipelines and those present, Replays::mutex_,
//      Timing::mutex_, the executor's and the courier's. They guard a few lines, in which nothing is called that takes
//      another lock or waits.
//
// Locks of places 1 to 4 are `Ordered` (cc/core/lock_order.h), but for those with conditions: in tests the process ends
// where one is waited for out of order, so every test of this folder is a test of this list. Not of 1 against 2, which
// count as one there: who works on a step of its own waits for lines in which that step is not.
//
// Nobody waits for a graph, a value or a thread while holding one of 3 to 5. The mutexes of variables are TensorFlow's;
// shadow_ops.cc takes several, in the order of their addresses.
#ifndef RECGRAPH_CC_PYTHON_INTERPRETER_LOCK_H_
#define RECGRAPH_CC_PYTHON_INTERPRETER_LOCK_H_

#include <Python.h>

#include <mutex>

#include "cc/core/lock_order.h"
#include "cc/interpreter/lock.h"

namespace recgraph {

constexpr int kInterpreter = 3;

// Takes Python's lock by `take`. A thread for which Python has ended stays in there.
template <typename Take>
void TakeInterpreter(const Take& take) noexcept {
  if (!HasInterpreter()) LockOrder::Waits(kInterpreter);
  try {
    take();
  } catch (...) {
    StayHere();
  }
}

// While it lives, this thread has the lock, whether it had it before or not.
class InterpreterLocked {
 public:
  InterpreterLocked() {
    TakeInterpreter([this] { state_ = PyGILState_Ensure(); });
  }
  ~InterpreterLocked() { PyGILState_Release(state_); }
  InterpreterLocked(const InterpreterLocked&) = delete;
  InterpreterLocked& operator=(const InterpreterLocked&) = delete;

 private:
  PyGILState_STATE state_;
};

// A lock of place 1 or 2: nobody waits for it with Python's own.
template <int kPlace>
class WithoutInterpreter : public Ordered<std::recursive_mutex, kPlace> {
 public:
  void lock() {
    const bool has_interpreter = HasInterpreter();
    if (has_interpreter) LockOrder::Takes(kInterpreter);
    Ordered<std::recursive_mutex, kPlace>::lock();
    if (has_interpreter) LockOrder::Releases(kInterpreter);
  }
};

// While it lives, this thread does not have the lock: it waits for something that may need it.
class InterpreterUnlocked {
 public:
  InterpreterUnlocked() : state_(HasInterpreter() ? PyEval_SaveThread() : nullptr) {}
  ~InterpreterUnlocked() {
    if (state_ != nullptr) TakeInterpreter([this] { PyEval_RestoreThread(state_); });
  }
  InterpreterUnlocked(const InterpreterUnlocked&) = delete;
  InterpreterUnlocked& operator=(const InterpreterUnlocked&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_INTERPRETER_LOCK_H_
