// Where in the program an operation is.
#include "cc/python/location.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace recgraph {
namespace {

// A call site: code, which is kept alive, and the instruction in it.
using Site = std::pair<PyCodeObject*, int>;
using Stack = std::vector<Site>;

// Guarded by the interpreter's lock.
struct Locations {
  std::map<Stack, int> numbers;
  std::vector<const Stack*> stacks;
};

Locations& All() {
  static auto* locations = new Locations;
  return *locations;
}

Stack CurrentStack(PyCodeObject* base) {
  Stack stack;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const bool is_base = code == base;
    if (!is_base) stack.emplace_back(code, PyFrame_GetLasti(frame));
    Py_DECREF(code);  // the frame keeps it
    PyFrameObject* caller = is_base ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  return stack;
}

}  // namespace

int Locate(PyCodeObject* base) {
  PyGILState_STATE state = PyGILState_Ensure();
  Stack stack = CurrentStack(base);
  Locations& all = All();
  auto [place, is_new] = all.numbers.try_emplace(std::move(stack), static_cast<int>(all.stacks.size()));
  if (is_new) {
    for (const Site& site : place->first) Py_INCREF(site.first);
    all.stacks.push_back(&place->first);
  }
  const int number = place->second;
  PyGILState_Release(state);
  return number;
}

namespace {

// A tuple with what `describe` gives for each site of a location.
template <typename Function>
PyObject* Described(int location, Function describe) {
  const Locations& all = All();
  if (location < 0 || location >= static_cast<int>(all.stacks.size())) {
    PyErr_SetString(PyExc_IndexError, "no such location");
    return nullptr;
  }
  const Stack& stack = *all.stacks[location];
  PyObject* result = PyTuple_New(static_cast<Py_ssize_t>(stack.size()));
  for (size_t i = 0; result != nullptr && i < stack.size(); ++i) {
    PyObject* site = describe(stack[i].first, stack[i].second);
    if (site == nullptr) {
      Py_DECREF(result);
      return nullptr;
    }
    PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(i), site);
  }
  return result;
}

}  // namespace

PyObject* DescribeLocation(int location) {
  return Described(location, [](PyCodeObject* code, int offset) {
    return Py_BuildValue("(OiO)", code->co_filename, PyCode_Addr2Line(code, offset), code->co_qualname);
  });
}

PyObject* CallSites(int location) {
  return Described(location, [](PyCodeObject* code, int offset) { return Py_BuildValue("(Oi)", code, offset); });
}

}  // namespace recgraph
