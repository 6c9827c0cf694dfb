// Who works on a step: its own thread, or for a moment another one.
#ifndef RECGRAPH_CC_PYTHON_ACCESS_H_
#define RECGRAPH_CC_PYTHON_ACCESS_H_

#include <mutex>

#include "cc/python/interpreter_lock.h"

namespace recgraph {

class Step;

// A value that a graph does not give makes its step leave the graph. Where another thread needs it, the step's own may
// be waiting for that thread, and do nothing. Then the other one does it.
struct Access {
  WithoutInterpreter<2> mutex;  // held by who works on the step; signals are handled meanwhile, and may use the step
  Step* step;                  // null once it has come to its end

  // Takes the mutex, with Python's lock or without: who has it may need that.
  void Lock() {
    if (mutex.try_lock()) return;
    const InterpreterUnlocked waiting;
    mutex.lock();
  }

  // While it lives others may work on the step, though this thread has the mutex around it.
  class Released {
   public:
    explicit Released(Access* access) : access_(access) { access_->mutex.unlock(); }
    ~Released() { access_->Lock(); }
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;

   private:
    Access* const access_;
  };
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_ACCESS_H_
