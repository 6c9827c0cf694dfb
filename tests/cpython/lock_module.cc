// An extension module for tests/cpython/test_interpreter_lock.py: what the native modules do with Python's lock.
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

#include "cc/interpreter/guarded.h"
#include "cc/interpreter/owned.h"
#include "cc/python/interpreter_lock.h"

namespace {

using recgraph::Guarded;

// Whether this thread has the lock, whether it has while another thread could run Python, and whether another one has.
PyObject* WhoHas(PyObject*, PyObject*) {
  const bool here = recgraph::HasInterpreter();
  bool released = true, elsewhere = true;
  {
    const recgraph::InterpreterUnlocked unlocked;
    released = recgraph::HasInterpreter();
  }
  std::thread([&elsewhere] { elsewhere = recgraph::HasInterpreter(); }).join();
  return Py_BuildValue("(iii)", here, released, elsewhere);
}

// Waits without the lock, as a thread that needs a value of a graph; then asks for it in a destructor.
PyObject* Sleep(PyObject*, PyObject* milliseconds) {
  {
    const recgraph::Owned held(Py_NewRef(milliseconds));
    const std::chrono::milliseconds time(PyLong_AsLong(milliseconds));
    const recgraph::InterpreterUnlocked unlocked;
    std::this_thread::sleep_for(time);
  }
  Py_RETURN_NONE;
}

// The same by a thread that is not Python's.
PyObject* SleepElsewhere(PyObject*, PyObject* milliseconds) {
  const std::chrono::milliseconds time(PyLong_AsLong(milliseconds));
  std::thread([time] {
    std::this_thread::sleep_for(time);
    const recgraph::InterpreterLocked locked;
  }).detach();
  Py_RETURN_NONE;
}

PyObject* Throw(PyObject*, PyObject* kind) {
  const recgraph::InterpreterUnlocked unlocked;
  if (kind == Py_None) throw std::bad_alloc();
  throw std::length_error("of a vector");
}

PyMethodDef methods[] = {
    {"who_has", Guarded<WhoHas>, METH_NOARGS, nullptr},
    {"sleep", Guarded<Sleep>, METH_O, nullptr},
    {"sleep_elsewhere", Guarded<SleepElsewhere>, METH_O, nullptr},
    {"throw", Guarded<Throw>, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "lock_module", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_lock_module() { return PyModule_Create(&definition); }
