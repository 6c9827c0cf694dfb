// C++ exceptions end where Python begins: the interpreter, which is written in C, cannot be left by one.
#ifndef RECGRAPH_CC_INTERPRETER_GUARDED_H_
#define RECGRAPH_CC_INTERPRETER_GUARDED_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <exception>
#include <new>
#include <type_traits>

#include "cc/interpreter/lock.h"

namespace recgraph {

// What `work()` gives; of an exception the failure, null or -1, with the Python exception that it stands for. Python's
// lock is held, before and after: what gives it up meanwhile has to be an object that takes it again.
template <typename Work>
auto CatchingForPython(const Work& work) noexcept -> decltype(work()) {
  using Result = decltype(work());
  try {
    return work();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_Format(PyExc_RuntimeError, "recgraph failed inside of its native code: %s", error.what());
  } catch (...) {
    StayHere();  // Python has ended
  }
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else {
    return -1;
  }
}

template <auto kFunction>
struct GuardedFunction;

template <typename Result, typename... Arguments, Result (*kFunction)(Arguments...)>
struct GuardedFunction<kFunction> {
  static Result Call(Arguments... arguments) noexcept {
    return CatchingForPython([&] { return kFunction(arguments...); });
  }
};

// A function for the interpreter's tables, from which no exception comes.
template <auto kFunction>
inline constexpr auto* Guarded = &GuardedFunction<kFunction>::Call;

}  // namespace recgraph

#endif  // RECGRAPH_CC_INTERPRETER_GUARDED_H_
