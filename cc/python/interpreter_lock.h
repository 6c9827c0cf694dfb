// Python's global lock, which some of TensorFlow's functions hold when they execute an operation, and others do not.
#ifndef RECGRAPH_CC_PYTHON_INTERPRETER_LOCK_H_
#define RECGRAPH_CC_PYTHON_INTERPRETER_LOCK_H_

#include <Python.h>

namespace recgraph {

// While it lives, this thread does not have the lock: it waits for something that may need it.
class InterpreterUnlocked {
 public:
  InterpreterUnlocked() : state_(PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}

  ~InterpreterUnlocked() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* const state_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_INTERPRETER_LOCK_H_
