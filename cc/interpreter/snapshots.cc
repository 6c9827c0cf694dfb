// Whether Python objects are as they were: a snapshot has the attributes of objects and the members of containers, which
// are compared before each call of a graph that holds for them (`recgraph/speculate/keras_state.py`).
//
// What is the very object that it was is told here; of the rest, Python is asked. Threading: all under the
// interpreter's lock. Python that is asked may change whatever it likes: nothing borrowed is used after it.

#include "cc/interpreter/owned.h"

namespace {

using recgraph::Owned;

enum class Answer { kYes, kNo, kError };

Answer AnswerOf(PyObject* asked) {
  const Owned answer(asked);
  if (answer == nullptr) return Answer::kError;
  const int is_true = PyObject_IsTrue(answer.get());
  return is_true < 0 ? Answer::kError : is_true ? Answer::kYes : Answer::kNo;
}

// A call with two arguments, without a tuple for them.
PyObject* Call(PyObject* function, PyObject* one, PyObject* other) {
  PyObject* arguments[] = {one, other};
  return PyObject_Vectorcall(function, arguments, 2, nullptr);
}

// Whether an object that may have died has the attributes `names`, in its dictionary, with `values`.
Answer HasAttributes(PyObject* reference, PyObject* names, PyObject* values, PyObject* is_alike) {
  if (!PyWeakref_Check(reference)) {
    PyErr_SetString(PyExc_TypeError, "an owner of attributes has to be a weak reference");
    return Answer::kError;
  }
  const Owned thing(Py_XNewRef(PyWeakref_GetObject(reference)));
  if (thing.get() == Py_None) return Answer::kNo;
  const Owned attributes(PyObject_GenericGetDict(thing.get(), nullptr));
  if (attributes == nullptr) return Answer::kError;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    const Owned found(Py_XNewRef(PyDict_GetItemWithError(attributes.get(), PyTuple_GET_ITEM(names, i))));
    if (found == nullptr) return PyErr_Occurred() ? Answer::kError : Answer::kNo;
    PyObject* expected = PyTuple_GET_ITEM(values, i);
    if (found.get() == expected) continue;
    const Answer answer = AnswerOf(Call(is_alike, found.get(), expected));
    if (answer != Answer::kYes) return answer;
  }
  return Answer::kYes;
}

// Whether a list, set or dictionary that is gone through as Python's own are has just these objects, in this order. No
// Python runs.
bool IsTheSame(PyObject* container, PyObject* values) {
  if (PyList_Check(container) && Py_TYPE(container)->tp_iter == PyList_Type.tp_iter) {
    if (PyList_GET_SIZE(container) != PyTuple_GET_SIZE(values)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
      if (PyList_GET_ITEM(container, i) != PyTuple_GET_ITEM(values, i)) return false;
    }
    return true;
  }
  if (PyAnySet_Check(container) && Py_TYPE(container)->tp_iter == PySet_Type.tp_iter) {
    if (PySet_GET_SIZE(container) != PyTuple_GET_SIZE(values)) return false;
    PyObject* member;
    Py_hash_t hash;
    for (Py_ssize_t place = 0, i = 0; _PySet_NextEntry(container, &place, &member, &hash); ++i) {
      if (member != PyTuple_GET_ITEM(values, i)) return false;
    }
    return true;
  }
  if (!PyDict_Check(container) || Py_TYPE(container)->tp_iter != PyDict_Type.tp_iter) return false;
  const Py_ssize_t size = PyDict_GET_SIZE(container);
  if (PyTuple_GET_SIZE(values) != 2 * size) return false;
  PyObject *key, *value;
  for (Py_ssize_t place = 0, i = 0; PyDict_Next(container, &place, &key, &value); ++i) {
    if (key != PyTuple_GET_ITEM(values, i) || value != PyTuple_GET_ITEM(values, size + i)) return false;
  }
  return true;
}

Answer HasMembers(PyObject* container, PyObject* values, PyObject* members, PyObject* is_alike) {
  if (IsTheSame(container, values)) return Answer::kYes;
  const Owned found(PyObject_CallOneArg(members, container));
  return found == nullptr ? Answer::kError : AnswerOf(Call(is_alike, found.get(), values));
}

PyObject* Holds(PyObject*, PyObject* arguments) {
  PyObject *parts, *members, *is_alike;
  if (!PyArg_ParseTuple(arguments, "O!OO", &PyTuple_Type, &parts, &members, &is_alike)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
    PyObject *owner, *names, *values;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(parts, i), "OOO!", &owner, &names, &PyTuple_Type, &values)) return nullptr;
    const bool has_attributes = PyTuple_Check(names);
    if (has_attributes && PyTuple_GET_SIZE(names) != PyTuple_GET_SIZE(values)) {
      PyErr_SetString(PyExc_ValueError, "there are not as many values as names");
      return nullptr;
    }
    const Answer answer = has_attributes ? HasAttributes(owner, names, values, is_alike)
                                         : HasMembers(owner, values, members, is_alike);
    if (answer == Answer::kError) return nullptr;
    if (answer == Answer::kNo) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

PyMethodDef module_methods[] = {
    {"holds", Holds, METH_VARARGS,
     "holds(parts, members, is_alike): whether objects are as they were.\n\n"
     "parts: a tuple of (weak reference, names, values) for attributes, and of (container, None, values) for members:\n"
     "a dictionary's keys, then its values. members(container) gives them, and is_alike(found, value) compares what\n"
     "is another object, or members that are. An object that has died is not as it was. Raises what these raise."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_snapshots", "Whether Python objects are as they were.", 0, module_methods,
    nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__snapshots() { return PyModule_Create(&module); }
