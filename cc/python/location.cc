// Where in the program an operation is.
#include "cc/python/location.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/python/interpreter_lock.h"

namespace recgraph {
namespace {

// A call site: code, which is kept alive, and the instruction in it.
using Site = std::pair<PyCodeObject*, int>;
using Stack = std::vector<Site>;

// Guarded by the interpreter's lock.
struct Locations {
  std::map<Stack, int> numbers;
  std::unordered_map<int, const Stack*> stacks;
  int next = 0;  // numbers of locations that are forgotten are not given again
};

Locations& AllLocations() {
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
  const InterpreterLocked locked;
  Stack stack = CurrentStack(base);
  Locations& all = AllLocations();
  auto [place, is_new] = all.numbers.try_emplace(std::move(stack), all.next);
  if (is_new) {
    for (const Site& site : place->first) Py_INCREF(site.first);
    all.stacks[all.next++] = &place->first;
  }
  return place->second;
}

namespace {

// A tuple with what `describe` gives for each site of a location.
template <typename Function>
PyObject* DescribeCode(int location, Function describe) {
  const Locations& all = AllLocations();
  if (location < 0 || location >= all.next) {
    PyErr_SetString(PyExc_IndexError, "no such location");
    return nullptr;
  }
  const auto found = all.stacks.find(location);
  const Stack stack = found == all.stacks.end() ? Stack() : *found->second;
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

PyObject* ForgetLocations() {
  Locations& all = AllLocations();
  std::map<PyCodeObject*, Py_ssize_t> held;
  for (const auto& [stack, number] : all.numbers) {
    for (const Site& site : stack) ++held[site.first];
  }
  const auto is_gone = [&held](const Site& site) { return Py_REFCNT(site.first) == held[site.first]; };
  PyObject* const numbers = PyList_New(0);
  std::vector<PyCodeObject*> released;  // not freed before the end, as others may be where they were
  bool done = numbers != nullptr;
  for (const auto& [stack, number] : all.numbers) {
    if (!done || std::none_of(stack.begin(), stack.end(), is_gone)) continue;
    PyObject* const one = PyLong_FromLong(number);
    done = one != nullptr && PyList_Append(numbers, one) == 0;
    Py_XDECREF(one);
  }
  // Nothing is forgotten that could not be told of.
  for (auto entry = all.numbers.begin(); done && entry != all.numbers.end();) {
    if (std::any_of(entry->first.begin(), entry->first.end(), is_gone)) {
      for (const Site& site : entry->first) released.push_back(site.first);
      all.stacks.erase(entry->second);
      entry = all.numbers.erase(entry);
    } else {
      ++entry;
    }
  }
  for (PyCodeObject* code : released) Py_DECREF(code);
  if (done) return numbers;
  Py_XDECREF(numbers);
  return nullptr;
}

PyObject* DescribeLocation(int location) {
  return DescribeCode(location, [](PyCodeObject* code, int offset) {
    return Py_BuildValue("(OiO)", code->co_filename, PyCode_Addr2Line(code, offset), code->co_qualname);
  });
}

PyObject* CallSites(int location) {
  return DescribeCode(location, [](PyCodeObject* code, int offset) { return Py_BuildValue("(Oi)", code, offset); });
}

}  // namespace recgraph
