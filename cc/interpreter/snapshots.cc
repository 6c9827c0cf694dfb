// Whether Python objects are as they were: a snapshot has the attributes of objects and the members of containers, which
// are compared before each call of a graph that holds for them (`recgraph/speculate/observe/snapshots.py`).
//
// What is the very object that it was is told here; of the rest, Python is asked. A dictionary that has not been written
// since it was compared, which its version tells, is not gone through again. Nothing is kept alive: objects are held
// weakly, and containers are found where they were. Threading: all under the interpreter's lock. Python that is asked may
// change whatever it likes: nothing borrowed is used after it.

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

// Whether an object, which is somebody's, is the one of a weak reference.
bool IsAlive(PyObject* reference, PyObject* object) {
#if PY_VERSION_HEX < 0x030d0000
  return object != Py_None && PyWeakref_GET_OBJECT(reference) == object;  // None stands for the dead
#else
  return Alive(reference).get() == object;
#endif
}

// What `Holds` is called with.
struct Snapshot {
  // Whether the object found will do in place of what was `expected`.
  Answer IsAlike(PyObject* found, PyObject* expected) const { return AnswerOf(Call(is_alike, found, expected)); }

  PyObject* is_alike;
  PyTypeObject* held;     // a weak reference that stands for its object
  PyTypeObject* members;  // a tuple that stands for a container: its type, the number of its version, what it holds
  PyObject* inner;        // by type, the attribute in which a container that is around another one has it
  uint64_t* versions;     // of containers
  Py_ssize_t count;
  mutable int depth;  // of the container that is compared
};

// The first two of what stands for a container.
constexpr Py_ssize_t kHead = 2;

bool IsTheSame(PyObject* found, PyObject* expected, const Snapshot& snapshot);

// Whether a set has just these objects in this order.
bool HasTheSameInOrder(PyObject* set, PyObject* expected, const Snapshot& snapshot) {
  const Owned members(PyObject_GetIter(set));
  for (Py_ssize_t i = kHead; members != nullptr && i < PyTuple_GET_SIZE(expected); ++i) {
    const Owned member(PyIter_Next(members.get()));
    if (member == nullptr) PyErr_Clear();
    if (member == nullptr || !IsTheSame(member.get(), PyTuple_GET_ITEM(expected, i), snapshot)) return false;
  }
  if (members == nullptr) PyErr_Clear();
  return members != nullptr;
}

// The place of the version of a container, null if none is kept.
uint64_t* VersionIn(const Snapshot& snapshot, PyObject* expected) {
  const Py_ssize_t slot = PyLong_AsSsize_t(PyTuple_GET_ITEM(expected, 1));
  if (slot < 0) PyErr_Clear();  // it may be no number
  return slot < 0 || slot >= snapshot.count ? nullptr : snapshot.versions + slot;
}

// Whether the containers that are values of a dictionary, which was not written, hold the same.
bool ValuesHoldTheSame(PyObject* dictionary, PyObject* expected, Py_ssize_t count, const Snapshot& snapshot) {
  for (Py_ssize_t i = kHead; i < kHead + count; ++i) {
    PyObject* value = PyTuple_GET_ITEM(expected, count + i);
    if (Py_TYPE(value) != snapshot.members) continue;
    PyObject* key = PyTuple_GET_ITEM(expected, i);
    if (!PyUnicode_CheckExact(key)) return false;  // looking for others may run Python, and they may be held weakly
    PyObject* found = PyDict_GetItemWithError(dictionary, key);
    if (found == nullptr) PyErr_Clear();
    if (found == nullptr || !IsTheSame(found, value, snapshot)) return false;
  }
  return true;
}

// Whether a container holds just these objects in this order, if it is gone through as Python's own are.
bool HoldsTheSame(PyObject* container, PyObject* expected, const Snapshot& snapshot) {
  const Py_ssize_t size = PyTuple_GET_SIZE(expected) - kHead;
  const getiterfunc iterator = Py_TYPE(container)->tp_iter;
  if ((PyList_Check(container) && iterator == PyList_Type.tp_iter) ||
      (PyTuple_Check(container) && iterator == PyTuple_Type.tp_iter)) {
    if (PySequence_Fast_GET_SIZE(container) != size) return false;
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyObject* member = PySequence_Fast_GET_ITEM(container, i);
      if (!IsTheSame(member, PyTuple_GET_ITEM(expected, kHead + i), snapshot)) return false;
    }
    return true;
  }
  if (PyAnySet_Check(container) && iterator == PySet_Type.tp_iter) {
    return PySet_GET_SIZE(container) == size && HasTheSameInOrder(container, expected, snapshot);
  }
  if (!PyDict_Check(container) || iterator != PyDict_Type.tp_iter) return false;
  uint64_t* version = VersionIn(snapshot, expected);
  const Py_ssize_t half = size / 2;
  if (version != nullptr && VersionOf(container) == *version) {
    return ValuesHoldTheSame(container, expected, half, snapshot);
  }
  if (PyDict_GET_SIZE(container) != half) return false;
  PyObject *key, *value;
  for (Py_ssize_t place = 0, i = kHead; PyDict_Next(container, &place, &key, &value); ++i) {
    if (!IsTheSame(key, PyTuple_GET_ITEM(expected, i), snapshot)) return false;
    if (!IsTheSame(value, PyTuple_GET_ITEM(expected, half + i), snapshot)) return false;
  }
  if (version != nullptr) *version = VersionOf(container);
  return true;
}

// Whether a container of the same type holds the same. Deeper ones than any program has are left to Python.
bool IsTheSameContainer(PyObject* found, PyObject* expected, const Snapshot& snapshot) {
  constexpr int kDeep = 100;
  if (PyTuple_GET_SIZE(expected) < kHead || snapshot.depth >= kDeep) return false;
  PyTypeObject* type = Py_TYPE(found);
  if (reinterpret_cast<PyObject*>(type) != PyTuple_GET_ITEM(expected, 0)) return false;
  ++snapshot.depth;
  bool is_the_same = false;
  const bool is_pythons = type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type;
  PyObject* name = is_pythons ? nullptr : PyDict_GetItem(snapshot.inner, PyTuple_GET_ITEM(expected, 0));
  if (name == nullptr) {
    is_the_same = HoldsTheSame(found, expected, snapshot);
  } else {
    const Owned around(Py_NewRef(found)), inner(PyObject_GetAttr(found, name));
    if (inner == nullptr) PyErr_Clear();
    is_the_same = inner != nullptr && HoldsTheSame(inner.get(), expected, snapshot);
  }
  --snapshot.depth;
  return is_the_same;
}

// Whether what was found is the very object that was expected, or a container, gone through as Python's own are, of just
// these objects in this order. No Python of the program's runs.
bool IsTheSame(PyObject* found, PyObject* expected, const Snapshot& snapshot) {
  if (found == expected) return true;
  PyTypeObject* type = Py_TYPE(expected);
  if (type == snapshot.held) return IsAlive(expected, found);
  if (type == snapshot.members) return IsTheSameContainer(found, expected, snapshot);
  return PyWeakref_Check(expected) && PyType_IsSubtype(type, snapshot.held) && IsAlive(expected, found);
}

// Whether an attribute is what was expected; `...` stands for none of that name, and `NotImplemented` for anything.
Answer HasAttribute(PyObject* attributes, PyObject* name, PyObject* expected, const Snapshot& snapshot, bool* is_same) {
  const Owned found(Py_XNewRef(PyDict_GetItemWithError(attributes, name)));
  if (found == nullptr) return PyErr_Occurred() ? Answer::kError : expected == Py_Ellipsis ? Answer::kYes : Answer::kNo;
  if (expected == Py_Ellipsis) return Answer::kNo;
  if (expected == Py_NotImplemented) return Answer::kYes;
  if (IsTheSame(found.get(), expected, snapshot)) return Answer::kYes;
  *is_same = false;
  return snapshot.IsAlike(found.get(), expected);
}

// One object: a weak reference to it, names of attributes or None for all, what stands for their values, and the places
// of the containers among these that are to be compared though the dictionary of the object was not written.
struct Part {
  PyObject *owner, *names, *values, *followed;

  bool IsWhole() const { return names == Py_None; }
  // Where an attribute's name is, and its value: all of them are a dictionary's members.
  PyObject* NameOf(Py_ssize_t i) const { return IsWhole() ? PyTuple_GET_ITEM(values, kHead + i) : PyTuple_GET_ITEM(names, i); }
  PyObject* ValueOf(Py_ssize_t i) const { return PyTuple_GET_ITEM(values, IsWhole() ? kHead + Count() + i : i); }
  Py_ssize_t Count() const { return IsWhole() ? (PyTuple_GET_SIZE(values) - kHead) / 2 : PyTuple_GET_SIZE(names); }
};

// The parts of a tuple; false, with an error, if it is none.
bool Read(PyObject* given, Part* part) {
  if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 4) {
    PyErr_SetString(PyExc_TypeError, "a part has to be a tuple of four");
    return false;
  }
  *part = {PyTuple_GET_ITEM(given, 0), PyTuple_GET_ITEM(given, 1), PyTuple_GET_ITEM(given, 2), PyTuple_GET_ITEM(given, 3)};
  if (!PyWeakref_Check(part->owner)) {
    PyErr_SetString(PyExc_TypeError, "an owner of attributes has to be a weak reference");
    return false;
  }
  if (!(part->IsWhole() || PyTuple_Check(part->names)) || !PyTuple_Check(part->values) || !PyTuple_Check(part->followed)) {
    PyErr_SetString(PyExc_TypeError, "names, values and places have to be tuples");
    return false;
  }
  const Py_ssize_t size = PyTuple_GET_SIZE(part->values);
  if (part->IsWhole() ? size < kHead || size % 2 != 0 : PyTuple_GET_SIZE(part->names) != size) {
    PyErr_SetString(PyExc_ValueError, "there are not as many values as names");
    return false;
  }
  return true;
}

// Whether the containers hold what they held that were in attributes which have not changed.
Answer FollowedHold(const Part& part, PyObject* attributes, const Snapshot& snapshot) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(part.followed); ++i) {
    const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(part.followed, i));
    if (place < 0 || place >= part.Count()) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "there is no such place");
      return Answer::kError;
    }
    bool is_same;
    const Answer answer = HasAttribute(attributes, part.NameOf(place), part.ValueOf(place), snapshot, &is_same);
    if (answer != Answer::kYes) return answer;
  }
  return Answer::kYes;
}

// Whether an object that may have died is as it was.
Answer IsAsItWas(const Part& part, const Snapshot& snapshot, uint64_t* version) {
  const Owned thing = Alive(part.owner);
  if (thing == nullptr) return Answer::kNo;
  const Owned attributes(PyObject_GenericGetDict(thing.get(), nullptr));
  if (attributes == nullptr) return Answer::kError;
  if (VersionOf(attributes.get()) == *version) return FollowedHold(part, attributes.get(), snapshot);
  bool are_same = true;
  if (part.IsWhole() && PyDict_GET_SIZE(attributes.get()) != part.Count()) {
    return snapshot.IsAlike(attributes.get(), part.values);
  }
  for (Py_ssize_t i = 0; i < part.Count(); ++i) {
    const Answer answer = HasAttribute(attributes.get(), part.NameOf(i), part.ValueOf(i), snapshot, &are_same);
    if (answer != Answer::kYes) return answer;
  }
  if (are_same) *version = VersionOf(attributes.get());
  return Answer::kYes;
}

PyObject* Holds(PyObject*, PyObject* arguments) {
  PyObject* parts;
  Versions versions;
  Snapshot snapshot = {};
  if (!PyArg_ParseTuple(arguments, "O!w*OO!O!O!", &PyTuple_Type, &parts, &versions.buffer, &snapshot.is_alike, &PyType_Type,
                        &snapshot.held, &PyType_Type, &snapshot.members, &PyDict_Type, &snapshot.inner)) {
    return nullptr;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(parts);
  if (versions.size() < count) {
    PyErr_SetString(PyExc_ValueError, "there are not as many versions as parts");
    return nullptr;
  }
  if (!PyType_IsSubtype(snapshot.held, &_PyWeakref_RefType) || !PyType_IsSubtype(snapshot.members, &PyTuple_Type)) {
    PyErr_SetString(PyExc_TypeError, "a weak reference stands for an object, and a tuple for a container");
    return nullptr;
  }
  snapshot.versions = versions.data() + count;
  snapshot.count = versions.size() - count;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Part part;
    if (!Read(PyTuple_GET_ITEM(parts, i), &part)) return nullptr;
    const Answer answer = IsAsItWas(part, snapshot, versions.data() + i);
    if (answer == Answer::kError) return nullptr;
    if (answer == Answer::kNo) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

PyMethodDef module_methods[] = {
    {"holds", Guarded<Holds>, METH_VARARGS,
     "holds(parts, versions, is_alike, held, members, inner): whether objects are as they were.\n\n"
     "parts: a tuple of (weak reference, names, values, places): attributes, where ... is the value of one that is not\n"
     "there and NotImplemented of one that may be anything, or, if names is None, all of them, values being what stands\n"
     "for their dictionary. places: of the containers among values that are compared though the dictionary was not\n"
     "written. An object's value is a weak reference of the\n"
     "type held, a container's a tuple of the type members: its type, the number of its version (-1: none), and its\n"
     "members, of a dictionary the keys and then the values. versions: a writable array of 64-bit numbers, zeros at\n"
     "first, one for each part and then one for each container that has a number; it is for this function alone. inner:\n"
     "by type, the attribute by which a container that is around another one has that. is_alike(found, value) is asked\n"
     "about what is not the same. An object that has died is not as it was. Raises what is_alike raises."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_snapshots", "Whether Python objects are as they were.", 0, module_methods,
    nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__snapshots() { return CanTellVersions() ? PyModule_Create(&module) : nullptr; }
