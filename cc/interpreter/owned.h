// A reference to a Python object that is given back where it goes out of scope.
#ifndef RECGRAPH_CC_INTERPRETER_OWNED_H_
#define RECGRAPH_CC_INTERPRETER_OWNED_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>

#include "cc/interpreter/lock.h"

namespace recgraph {

struct Release {
  // Without the lock only where Python has ended, which throws threads out of what they do.
  void operator()(PyObject* object) const {
    if (HasInterpreter()) Py_DECREF(object);
  }
};
using Owned = std::unique_ptr<PyObject, Release>;

}  // namespace recgraph

#endif  // RECGRAPH_CC_INTERPRETER_OWNED_H_
