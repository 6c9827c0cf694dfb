// Python objects as rows of a table: a walk over all that can be reached from some of them, and a column for each of
// their attributes that a graph looks at (`recgraph/speculate/values/tables.py`).
//
// Threading: everything here runs under the interpreter's lock. Attributes may be properties: what they run may change
// the objects, and what they give may be held by nobody else.
//
// What a row holds is what Python finds in the object, or its class, without asking `__getattr__`: that is run where the
// program reads the attribute, and not for all objects.

#include "cc/interpreter/guarded.h"
#include "cc/interpreter/owned.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using recgraph::Guarded;
using recgraph::Owned;

constexpr int32_t kNothing = -1;  // the row of None
constexpr int32_t kAbsent = -2;   // where an object has no such attribute

// What a column holds: rows of objects, lists of them as members and ends, numbers (integers of 32 bits or, as
// `kLong`, of 64), or nothing but a method of the class, which no object has replaced.
enum class Kind { kLink, kLinks, kBool, kInt, kLong, kFloat, kMethod };

// What some objects may have in place of a value: of links, None is one.
enum class Lacking : int { kNone = 0, kNothing = 1, kAbsent = 2 };

// An attribute of all objects. The values are bytes, as an array of the column's type has them; where values may be
// lacking, the places have the row of each object that has one, `kNothing` or `kAbsent`.
struct Column {
  PyObject* name;  // borrowed
  Kind kind;
  Lacking lacking;
  std::string values, ends, places;
  Owned method;  // of the class, where the column is none but that

  // Whether a part of the result says which objects have a value. Links say it themselves.
  bool HasPlaces() const { return lacking != Lacking::kNone && kind != Kind::kLink && kind != Kind::kMethod; }

  template <typename T>
  static void Append(std::string* to, T value) {
    to->append(reinterpret_cast<const char*>(&value), sizeof value);
  }
};

// The objects that were reached, in the order of their rows.
class Walk {
 public:
  Walk(PyObject* kind, std::vector<Column> columns) : kind_(kind), columns_(std::move(columns)) {}

  // Each function that can fail gives false then, with the exception set.
  bool Run(PyObject* roots) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(roots); ++i) {
      int32_t row;
      if (!Enter(PyTuple_GET_ITEM(roots, i), &row)) return false;
      Column::Append(&roots_, row);
    }
    for (Column& column : columns_) {
      if (column.kind == Kind::kLinks) Column::Append<int32_t>(&column.ends, 0);
      if (column.kind == Kind::kMethod) {
        column.method.reset(PyObject_GetAttr(kind_, column.name));
        if (column.method == nullptr) return false;
      }
    }
    for (size_t row = 0; row < things_.size(); ++row) {  // grows while it is gone through
      for (Column& column : columns_) {
        if (!Read(static_cast<int32_t>(row), &column)) return false;
      }
    }
    return true;
  }

  // Whether no object leads back to itself along these attributes; false with the exception set if one does.
  bool HasNoCircle(PyObject* followed) const {
    std::vector<const Column*> along;
    for (const Column& column : columns_) {
      const int found = PySequence_Contains(followed, column.name);
      if (found < 0) return false;
      if (found && (column.kind == Kind::kLink || column.kind == Kind::kLinks)) along.push_back(&column);
    }
    std::vector<State> state(things_.size(), State::kUnseen);
    std::vector<std::pair<size_t, std::vector<int32_t>>> path;  // from an object to this one: each, and what is left
    for (size_t root = 0; root < state.size() && !along.empty(); ++root) {
      if (state[root] != State::kUnseen) continue;
      path.emplace_back(root, Next(along, root));
      state[root] = State::kOnPath;
      while (!path.empty()) {
        auto& [row, left] = path.back();
        if (left.empty()) {
          state[row] = State::kDone;
          path.pop_back();
          continue;
        }
        const int32_t value = left.back();
        left.pop_back();
        if (value < 0) continue;
        const auto next = static_cast<size_t>(value);
        if (state[next] == State::kDone) continue;
        if (state[next] == State::kOnPath) {
          PyErr_SetString(PyExc_RecursionError, "an object leads back to itself");
          return false;
        }
        state[next] = State::kOnPath;
        path.emplace_back(next, Next(along, next));
      }
    }
    return true;
  }

  // The rows of the roots, then of each column but those of methods the values, of lists the ends, and the places where
  // values may be lacking.
  PyObject* Result() const {
    Owned made(PyList_New(0));
    if (made == nullptr || !Add(made.get(), roots_)) return nullptr;
    for (const Column& column : columns_) {
      if (column.kind == Kind::kMethod) continue;
      if (!Add(made.get(), column.values)) return nullptr;
      if (column.kind == Kind::kLinks && !Add(made.get(), column.ends)) return nullptr;
      if (column.HasPlaces() && !Add(made.get(), column.places)) return nullptr;
    }
    return made.release();
  }

 private:
  enum class State { kUnseen, kOnPath, kDone };

  // The rows that a row leads to.
  static std::vector<int32_t> Next(const std::vector<const Column*>& along, size_t row) {
    std::vector<int32_t> found;
    for (const Column* column : along) {
      const auto* values = reinterpret_cast<const int32_t*>(column->values.data());
      if (column->kind == Kind::kLink) {
        found.push_back(values[row]);
      } else {
        const auto* ends = reinterpret_cast<const int32_t*>(column->ends.data());
        found.insert(found.end(), values + ends[row], values + ends[row + 1]);
      }
    }
    return found;
  }

  static bool Add(PyObject* list, const std::string& bytes) {
    Owned made(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
    return made != nullptr && PyList_Append(list, made.get()) == 0;
  }

  // The row of an object, a new one if it is new.
  bool Enter(PyObject* thing, int32_t* row) {
    const auto [place, is_new] = rows_.try_emplace(thing, static_cast<int32_t>(things_.size()));
    *row = place->second;
    if (!is_new) return true;
    if (reinterpret_cast<PyObject*>(Py_TYPE(thing)) != kind_) return IsAnother(thing);
    if (things_.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      PyErr_SetString(PyExc_OverflowError, "too many objects");
      return false;
    }
    things_.emplace_back(Py_NewRef(thing));
    return true;
  }

  static bool IsAnother(PyObject* value) {
    PyErr_SetString(PyExc_TypeError, Py_TYPE(value)->tp_name);
    return false;
  }

  // Reads an attribute of the object of a row.
  bool Read(int32_t row, Column* column) {
    PyObject* thing = things_[row].get();
    Owned value(PyObject_GenericGetAttr(thing, column->name));
    if (value == nullptr) {
      if (column->lacking != Lacking::kAbsent || !PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
      PyErr_Clear();
    }
    if (column->kind == Kind::kMethod) return IsMethod(thing, value.get(), column->method.get());
    const bool is_there = value != nullptr && value.get() != Py_None;
    if (!is_there && column->lacking == Lacking::kNone && column->kind != Kind::kLink) return IsAnother(value.get());
    const int32_t place = is_there ? row : value == nullptr ? kAbsent : kNothing;
    if (column->HasPlaces()) Column::Append(&column->places, place);
    switch (column->kind) {
      case Kind::kLink:
        return Link(is_there ? value.get() : nullptr, place, column);
      case Kind::kLinks:
        return Links(is_there ? value.get() : nullptr, column);
      default:
        return Number(is_there ? value.get() : nullptr, column);
    }
  }

  // Whether an object has nothing of its own in place of a method of its class.
  static bool IsMethod(PyObject* thing, PyObject* value, PyObject* method) {
    if (!PyMethod_Check(value)) return IsAnother(value);
    return (PyMethod_GET_SELF(value) == thing && PyMethod_GET_FUNCTION(value) == method) || IsAnother(value);
  }

  // In each of these `value` is null where there is none.

  bool Link(PyObject* value, int32_t row, Column* column) {
    if (value != nullptr && !Enter(value, &row)) return false;
    Column::Append(&column->values, row);
    return true;
  }

  bool Links(PyObject* value, Column* column) {
    if (value != nullptr) {
      if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return IsAnother(value);
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
        int32_t row;
        if (!Enter(PySequence_Fast_GET_ITEM(value, i), &row)) return false;
        Column::Append(&column->values, row);
      }
    }
    Column::Append(&column->ends, static_cast<int32_t>(column->values.size() / sizeof(int32_t)));
    return true;
  }

  // A number of just the column's type; where there is none, zero.
  static bool Number(PyObject* value, Column* column) {
    const bool is_there = value != nullptr;
    if (column->kind == Kind::kBool) {
      if (is_there && !PyBool_Check(value)) return IsAnother(value);
      Column::Append<uint8_t>(&column->values, value == Py_True);
    } else if (column->kind == Kind::kInt || column->kind == Kind::kLong) {
      if (is_there && !PyLong_CheckExact(value)) return IsAnother(value);
      const long long number = is_there ? PyLong_AsLongLong(value) : 0;
      if (number == -1 && PyErr_Occurred()) return false;
      if (column->kind == Kind::kInt && number != static_cast<int32_t>(number)) {
        PyErr_SetString(PyExc_OverflowError, "an integer of more than 32 bits");
        return false;
      }
      Column::Append<int64_t>(&column->values, number);
    } else {
      if (is_there && !PyFloat_CheckExact(value)) return IsAnother(value);
      Column::Append<double>(&column->values, is_there ? PyFloat_AS_DOUBLE(value) : 0.0);
    }
    return true;
  }

  PyObject* kind_;  // borrowed
  std::vector<Column> columns_;
  std::string roots_;
  std::unordered_map<PyObject*, int32_t> rows_;
  std::vector<Owned> things_;
};

bool KindOf(const char* text, Kind* kind) {
  static const std::pair<const char*, Kind> kKinds[] = {{"link", Kind::kLink},
                                                        {"links", Kind::kLinks},
                                                        {"bool", Kind::kBool},
                                                        {"int", Kind::kInt},
                                                        {"long", Kind::kLong},
                                                        {"float", Kind::kFloat},
                                                        {"method", Kind::kMethod}};
  for (const auto& [name, value] : kKinds) {
    if (std::strcmp(text, name) == 0) {
      *kind = value;
      return true;
    }
  }
  PyErr_Format(PyExc_ValueError, "a column cannot hold '%s'", text);
  return false;
}

PyObject* Columns(PyObject*, PyObject* arguments) {
  PyObject *kind, *plan, *roots, *followed;
  if (!PyArg_ParseTuple(arguments, "O!O!O!O!", &PyType_Type, &kind, &PyTuple_Type, &plan, &PyTuple_Type, &roots,
                        &PyTuple_Type, &followed)) {
    return nullptr;
  }
  std::vector<Column> columns;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(plan); ++i) {
    Column column{};
    const char* text;
    int lacking;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(plan, i), "Usi", &column.name, &text, &lacking) ||
        !KindOf(text, &column.kind)) {
      return nullptr;
    }
    column.lacking = static_cast<Lacking>(lacking);
    columns.push_back(std::move(column));
  }
  Walk walk(kind, std::move(columns));
  return walk.Run(roots) && walk.HasNoCircle(followed) ? walk.Result() : nullptr;
}

PyMethodDef module_methods[] = {
    {"columns", Guarded<Columns>, METH_VARARGS,
     "columns(kind, plan, roots, followed): the objects of a class that can be reached from roots, as columns.\n\n"
     "plan: a tuple of (attribute, 'link', 'links', 'bool', 'int', 'long', 'float' or 'method', what may be lacking:\n"
     "0 for nothing, 1 where some may be None, 2 where some objects may have no such attribute). Gives bytes: the\n"
     "rows of the roots (int32), then of each column but methods its values (int32, int32, bool, int64, int64,\n"
     "float64), of 'links' the ends of each object's members (int32, with a zero before), and, where values of another kind than\n"
     "'link' may be lacking, the places (int32): the object's own row, -1 for None, -2 where there is no attribute.\n"
     "Raises TypeError where a class is another, AttributeError, OverflowError, and RecursionError where an object\n"
     "leads back to itself along the attributes of 'followed'."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_objects", "Python objects as rows of a table.", 0, module_methods,
    nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__objects() { return PyModule_Create(&module); }
