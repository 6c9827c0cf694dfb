// Python's global lock, and what happens to threads that ask for it when Python ends.
#ifndef RECGRAPH_CC_INTERPRETER_LOCK_H_
#define RECGRAPH_CC_INTERPRETER_LOCK_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <unistd.h>

namespace recgraph {

// Whether this thread has Python's lock. PyGILState_Check says yes to every thread once the process has had a
// sub-interpreter, as mod_wsgi, Blender and some test runners make them.
inline bool HasInterpreter() {
#if PY_VERSION_HEX < 0x030c0000
  // The state of whoever has the lock; of another thread it may be gone, so it is only compared.
  PyThreadState* const holder = _PyThreadState_UncheckedGet();
  return holder != nullptr && holder == PyGILState_GetThisThreadState();
#elif PY_VERSION_HEX < 0x030d0000
  return _PyThreadState_UncheckedGet() != nullptr;  // the state of this thread, which it has with the lock alone
#else
  return PyThreadState_GetUnchecked() != nullptr;
#endif
}

// For ever. When Python ends, it ends other threads that ask for its lock, until CPython 3.14, where they wait. Their
// C++ is left by an unwinding that is no exception, which nobody may stop, and for which destructors, TensorFlow and
// whatever else does not expect it end the process. So who catches it does what CPython 3.14 does.
[[noreturn]] inline void StayHere() {
  while (true) pause();
}

}  // namespace recgraph

#endif  // RECGRAPH_CC_INTERPRETER_LOCK_H_
