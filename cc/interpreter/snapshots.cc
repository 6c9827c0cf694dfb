// Whether Python objects are as they were: a snapshot has the attributes of objects and the members of containers, which
// are compared before each call of a graph that holds for them (`recgraph/speculate/observe/keras_state.py`).
//
// What is the very object that it was is told here; of the rest, Python is asked. A dictionary that has not been written
// since it was compared, which its version tells, is not gone through again. Threading: all under the interpreter's lock.
// Python that is asked may change whatever it likes: nothing borrowed is used after it.

#include <cstdint>
#include <unordered_map>

#include "cc/interpreter/guarded.h"
#include "cc/interpreter/owned.h"

namespace {

using recgraph::Guarded;
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

// The versions that dictionaries had when they held the very objects of the snapshot, one for each part; 0 is none.
struct Versions {
  ~Versions() {
    if (buffer.obj != nullptr) PyBuffer_Release(&buffer);
  }
  uint64_t* data() { return static_cast<uint64_t*>(buffer.buf); }
  Py_ssize_t size() const { return buffer.len / static_cast<Py_ssize_t>(sizeof(uint64_t)); }

  Py_buffer buffer = {};
};

#if PY_VERSION_HEX < 0x030c0000

// The interpreter counts (PEP 509).
uint64_t VersionOf(PyObject* dictionary) { return reinterpret_cast<PyDictObject*>(dictionary)->ma_version_tag; }
bool CanTellVersions() { return true; }

#else

// We count, as the interpreter tells us of each change of a dictionary that it watches for us. Of attributes that an
// object holds beside its dictionary neither this nor the interpreter's own count tells (3.13): these dictionaries have
// no version.
class DictionaryVersions {
 public:
  static bool Begin() { return (watcher_ = PyDict_AddWatcher(Changed)) >= 0; }

  static uint64_t Of(PyObject* dictionary) {
    if (reinterpret_cast<PyDictObject*>(dictionary)->ma_values != nullptr) return ++last_;  // never again the same
    uint64_t& version = versions_[dictionary];
    if (version != 0) return version;
    if (PyDict_Watch(watcher_, dictionary) < 0) {
      PyErr_Clear();
      versions_.erase(dictionary);
      return ++last_;
    }
    return version = ++last_;
  }

 private:
  static int Changed(PyDict_WatchEvent, PyObject* dictionary, PyObject*, PyObject*) {
    versions_.erase(dictionary);
    return 0;
  }

  static inline int watcher_ = -1;
  static inline uint64_t last_ = 0;
  static inline std::unordered_map<PyObject*, uint64_t> versions_;  // of what has not changed since it was asked for
};

uint64_t VersionOf(PyObject* dictionary) { return DictionaryVersions::Of(dictionary); }
bool CanTellVersions() { return DictionaryVersions::Begin(); }

#endif

// The object of a weak reference, null if it has died.
Owned Alive(PyObject* reference) {
#if PY_VERSION_HEX < 0x030d0000
  PyObject* thing = PyWeakref_GetObject(reference);
  return Owned(thing == Py_None ? nullptr : Py_XNewRef(thing));
#else
  PyObject* thing = nullptr;
  PyWeakref_GetRef(reference, &thing);  // fails only for what is no weak reference
  return Owned(thing);
#endif
}

// Whether an object that may have died has the attributes `names`, in its dictionary, with `values`; none of a name
// whose value is `...`.
Answer HasAttributes(PyObject* reference, PyObject* names, PyObject* values, PyObject* is_alike, uint64_t* version) {
  if (!PyWeakref_Check(reference)) {
    PyErr_SetString(PyExc_TypeError, "an owner of attributes has to be a weak reference");
    return Answer::kError;
  }
  const Owned thing = Alive(reference);
  if (thing == nullptr) return Answer::kNo;
  const Owned attributes(PyObject_GenericGetDict(thing.get(), nullptr));
  if (attributes == nullptr) return Answer::kError;
  if (VersionOf(attributes.get()) == *version) return Answer::kYes;
  bool are_same = true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    const Owned found(Py_XNewRef(PyDict_GetItemWithError(attributes.get(), PyTuple_GET_ITEM(names, i))));
    PyObject* expected = PyTuple_GET_ITEM(values, i);
    if (found == nullptr) {
      if (PyErr_Occurred()) return Answer::kError;
      if (expected != Py_Ellipsis) return Answer::kNo;
      continue;
    }
    if (expected == Py_Ellipsis) return Answer::kNo;
    if (found.get() == expected) continue;
    are_same = false;
    const Answer answer = AnswerOf(Call(is_alike, found.get(), expected));
    if (answer != Answer::kYes) return answer;
  }
  if (are_same) *version = VersionOf(attributes.get());
  return Answer::kYes;
}

// Whether a set, which is as large as `values`, has just these objects in this order.
bool HasTheSameInOrder(PyObject* set, PyObject* values) {
  const Owned members(PyObject_GetIter(set));
  for (Py_ssize_t i = 0; members != nullptr && i < PyTuple_GET_SIZE(values); ++i) {
    const Owned member(PyIter_Next(members.get()));
    if (member.get() != PyTuple_GET_ITEM(values, i)) {
      PyErr_Clear();
      return false;
    }
  }
  PyErr_Clear();
  return members != nullptr;
}

// Whether a list, set or dictionary that is gone through as Python's own are has just these objects, in this order. No
// Python runs.
bool IsTheSame(PyObject* container, PyObject* values, uint64_t* version) {
  if (PyList_Check(container) && Py_TYPE(container)->tp_iter == PyList_Type.tp_iter) {
    if (PyList_GET_SIZE(container) != PyTuple_GET_SIZE(values)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
      if (PyList_GET_ITEM(container, i) != PyTuple_GET_ITEM(values, i)) return false;
    }
    return true;
  }
  if (PyAnySet_Check(container) && Py_TYPE(container)->tp_iter == PySet_Type.tp_iter) {
    if (PySet_GET_SIZE(container) != PyTuple_GET_SIZE(values)) return false;
    return HasTheSameInOrder(container, values);
  }
  if (!PyDict_Check(container) || Py_TYPE(container)->tp_iter != PyDict_Type.tp_iter) return false;
  if (VersionOf(container) == *version) return true;
  const Py_ssize_t size = PyDict_GET_SIZE(container);
  if (PyTuple_GET_SIZE(values) != 2 * size) return false;
  PyObject *key, *value;
  for (Py_ssize_t place = 0, i = 0; PyDict_Next(container, &place, &key, &value); ++i) {
    if (key != PyTuple_GET_ITEM(values, i) || value != PyTuple_GET_ITEM(values, size + i)) return false;
  }
  *version = VersionOf(container);
  return true;
}

Answer HasMembers(PyObject* container, PyObject* values, PyObject* members, PyObject* is_alike, uint64_t* version) {
  if (IsTheSame(container, values, version)) return Answer::kYes;
  const Owned found(PyObject_CallOneArg(members, container));
  return found == nullptr ? Answer::kError : AnswerOf(Call(is_alike, found.get(), values));
}

PyObject* Holds(PyObject*, PyObject* arguments) {
  PyObject *parts, *members, *is_alike;
  Versions versions;
  if (!PyArg_ParseTuple(arguments, "O!w*OO", &PyTuple_Type, &parts, &versions.buffer, &members, &is_alike)) {
    return nullptr;
  }
  if (versions.size() != PyTuple_GET_SIZE(parts)) {
    PyErr_SetString(PyExc_ValueError, "there are not as many versions as parts");
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
    PyObject* part = PyTuple_GET_ITEM(parts, i);
    if (!PyTuple_Check(part) || PyTuple_GET_SIZE(part) != 3 || !PyTuple_Check(PyTuple_GET_ITEM(part, 2))) {
      PyErr_SetString(PyExc_TypeError, "a part has to be a tuple of three, the last of them a tuple");
      return nullptr;
    }
    PyObject *owner = PyTuple_GET_ITEM(part, 0), *names = PyTuple_GET_ITEM(part, 1), *values = PyTuple_GET_ITEM(part, 2);
    const bool has_attributes = PyTuple_Check(names);
    if (has_attributes && PyTuple_GET_SIZE(names) != PyTuple_GET_SIZE(values)) {
      PyErr_SetString(PyExc_ValueError, "there are not as many values as names");
      return nullptr;
    }
    uint64_t* version = versions.data() + i;
    const Answer answer = has_attributes ? HasAttributes(owner, names, values, is_alike, version)
                                         : HasMembers(owner, values, members, is_alike, version);
    if (answer == Answer::kError) return nullptr;
    if (answer == Answer::kNo) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

PyMethodDef module_methods[] = {
    {"holds", Guarded<Holds>, METH_VARARGS,
     "holds(parts, versions, members, is_alike): whether objects are as they were.\n\n"
     "parts: a tuple of (weak reference, names, values) for attributes, where ... says that there is no such attribute,\n"
     "and of (container, None, values) for members: a dictionary's keys, then its values. versions: a writable array of a 64-bit number for each part, zeros at\n"
     "first, which is for this function alone. members(container) gives them, and is_alike(found, value) compares what\n"
     "is another object, or members that are. An object that has died is not as it was. Raises what these raise."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_snapshots", "Whether Python objects are as they were.", 0, module_methods,
    nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__snapshots() { return CanTellVersions() ? PyModule_Create(&module) : nullptr; }
