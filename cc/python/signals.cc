// Signals that come while Python's thread waits for the graph.
#include "cc/python/signals.h"

#include <Python.h>

#include <new>

#include "cc/python/interpreter_lock.h"
#include "cc/python/step.h"

namespace recgraph {
namespace {

struct Raised {
  PyObject *type, *value, *traceback;
};

// A pending call: the interpreter makes it where it would have run the handler itself.
int RaiseAgain(void* argument) {
  auto* raised = static_cast<Raised*>(argument);
  PyErr_Restore(raised->type, raised->value, raised->traceback);
  delete raised;
  return -1;
}

// Without a pending call: Ctrl-C comes a second time, any other exception is told of.
void RaiseLater(const Raised& raised) {
  const bool is_interrupt = PyErr_GivenExceptionMatches(raised.type, PyExc_KeyboardInterrupt) != 0;
  PyErr_Restore(raised.type, raised.value, raised.traceback);
  if (is_interrupt) {
    PyErr_Clear();
    PyErr_SetInterrupt();
  } else {
    PyErr_WriteUnraisable(nullptr);
  }
}

// Raises the exception that is set once the thread is back in Python.
void RaiseInPython() {
  Raised raised;
  PyErr_Fetch(&raised.type, &raised.value, &raised.traceback);
  auto* const kept = new (std::nothrow) Raised(raised);
  if (kept != nullptr && Py_AddPendingCall(RaiseAgain, kept) == 0) return;
  delete kept;  // 31 others are on their way, or there is no memory
  RaiseLater(raised);
}

}  // namespace

bool HandleSignals() {
  const InterpreterLocked locked;
  bool has_raised = false;
  {
    Step::Suspended outside;  // what a handler does is not part of the operation that waits
    has_raised = PyErr_CheckSignals() < 0;
  }
  if (has_raised) RaiseInPython();
  return has_raised;
}

}  // namespace recgraph
