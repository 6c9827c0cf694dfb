// The Python module `recgraph.native._coexec`: registers the device, makes plans, begins and ends steps.
#include <Python.h>

#include <climits>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "cc/interpreter/guarded.h"
#include "cc/python/bystanders.h"
#include "cc/python/device.h"
#include "cc/python/interpreter_lock.h"
#include "cc/python/location.h"
#include "cc/python/pending.h"
#include "cc/python/plan_reader.h"
#include "cc/python/resources.h"
#include "cc/python/signature.h"
#include "cc/python/step.h"
#include "tensorflow/c/eager/tfe_context_internal.h"
#include "tensorflow/core/framework/resource_handle.h"

namespace recgraph {
namespace {

using tensorflow::Tensor;

constexpr char kPlan[] = "recgraph.plan";

PyObject* Raise(const absl::Status& status) {
  PyErr_SetString(PyExc_RuntimeError, std::string(status.message()).c_str());
  return nullptr;
}

// Whether `number` is an int that fits; else there is a Python exception.
bool Read(PyObject* number, int* result) {
  const long read = PyLong_AsLong(number);
  if (read == -1 && PyErr_Occurred()) return false;
  if (read < INT_MIN || read > INT_MAX) {
    PyErr_Format(PyExc_OverflowError, "%ld is no number of ours", read);
    return false;
  }
  *result = static_cast<int>(read);
  return true;
}

PyObject* Watch(PyObject*, PyObject* kinds) {
  KindTable table;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  if (!PyDict_Check(kinds)) return PyErr_Format(PyExc_TypeError, "kinds are a dict, not %R", Py_TYPE(kinds));
  while (PyDict_Next(kinds, &position, &key, &value)) {
    const char* const name = PyUnicode_AsUTF8(key);
    if (name == nullptr) return nullptr;
    int kind;
    if (!Read(value, &kind)) return nullptr;
    table[name] = static_cast<Kind>(kind);
  }
  SetKinds(std::move(table));
  WatchBystanders();
  Py_RETURN_NONE;
}

PyObject* Register(PyObject*, PyObject* arguments) {
  PyObject* capsule;
  const char* name;
  if (!PyArg_ParseTuple(arguments, "Os", &capsule, &name)) return nullptr;
  auto* context = static_cast<TFE_Context*>(PyCapsule_GetPointer(capsule, nullptr));
  if (context == nullptr) return nullptr;
  auto* eager = static_cast<tensorflow::EagerContext*>(tensorflow::unwrap(context));
  absl::Status status = CoexecutionDevice::Register(eager, name);
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

void DeletePlan(PyObject* capsule) {
  auto* plan = static_cast<std::shared_ptr<Plan>*>(PyCapsule_GetPointer(capsule, kPlan));
  const InterpreterUnlocked waiting;  // for its runner
  delete plan;
}

// Whether Python is ending, when its lock is no longer to be had.
bool PythonEnds() {
#if PY_VERSION_HEX < 0x030d0000
  return _Py_IsFinalizing() != 0;
#else
  return Py_IsFinalizing() != 0;
#endif
}

// plan(description, kept): the second is let go of when no step needs the plan any more.
PyObject* MakePlan(PyObject*, PyObject* arguments) {
  PyObject *described, *kept;
  if (!PyArg_ParseTuple(arguments, "OO", &described, &kept)) return nullptr;
  auto plan = std::make_unique<std::shared_ptr<Plan>>(ReadPlan(described));
  if (*plan == nullptr) return nullptr;
  (*plan)->kept = std::shared_ptr<PyObject>(Py_NewRef(kept), [](PyObject* object) {
    if (PythonEnds()) return;
    const InterpreterLocked locked;
    Py_DECREF(object);
  });
  PyObject* const capsule = PyCapsule_New(plan.get(), kPlan, DeletePlan);
  if (capsule != nullptr) plan.release();
  return capsule;
}

// replay(plan, mode, key): see Replays; the modes are 0 off, 1 record, 2 replay.
PyObject* Replay(PyObject*, PyObject* arguments) {
  PyObject* capsule;
  int mode, key;
  if (!PyArg_ParseTuple(arguments, "Oii", &capsule, &mode, &key)) return nullptr;
  auto* held = static_cast<std::shared_ptr<Plan>*>(PyCapsule_GetPointer(capsule, kPlan));
  if (held == nullptr) return nullptr;
  if (mode < 0 || mode > 2) return PyErr_Format(PyExc_ValueError, "%d is no mode of replaying", mode);
  (*held)->replays.Set(static_cast<Replays::Mode>(mode), key);
  Py_RETURN_NONE;
}

// threads(plan): whether one thread does the work of the graph now, and nanoseconds from step to step with all threads and
// with one, or -1.
PyObject* Threads(PyObject*, PyObject* capsule) {
  auto* held = static_cast<std::shared_ptr<Plan>*>(PyCapsule_GetPointer(capsule, kPlan));
  if (held == nullptr) return nullptr;
  const Contest& threads = (*held)->threads;
  return Py_BuildValue("(iLL)", threads.manner(), static_cast<long long>(threads.median(0)),
                       static_cast<long long>(threads.median(1)));
}

bool IsOf(const Plan* plan, PyObject* capsule) {
  if (capsule == Py_None) return false;
  auto* held = static_cast<std::shared_ptr<Plan>*>(PyCapsule_GetPointer(capsule, kPlan));
  return held != nullptr && held->get() == plan;
}

// begin(base, plan): false if the plan is in use by another thread, or this one is in a step already.
PyObject* Begin(PyObject*, PyObject* arguments) {
  PyObject *base, *capsule;
  if (!PyArg_ParseTuple(arguments, "O!O", &PyCode_Type, &base, &capsule)) return nullptr;
  if (Step::Current() != nullptr) Py_RETURN_FALSE;
  const Plan* before = ThisLine()->LastPlan();
  if (before != nullptr && !IsOf(before, capsule)) Py_RETURN_FALSE;
  std::shared_ptr<Plan> plan;
  if (capsule != Py_None) {
    auto* held = static_cast<std::shared_ptr<Plan>*>(PyCapsule_GetPointer(capsule, kPlan));
    if (held == nullptr) return nullptr;
    plan = *held;
    if (plan->is_busy.exchange(true)) Py_RETURN_FALSE;
  }
  try {
    if (plan != nullptr) {
      const InterpreterUnlocked waiting;
      WaitForSteps(*plan);
    }
    new Step(reinterpret_cast<PyCodeObject*>(base), plan);
  } catch (...) {
    if (plan != nullptr) plan->is_busy = false;
    throw;
  }
  Py_RETURN_TRUE;
}

PyObject* ShapeTuple(const Dimensions& shape) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(shape.size()));
  for (size_t i = 0; tuple != nullptr && i < shape.size(); ++i) {
    PyObject* const size = PyLong_FromLongLong(shape[i]);
    if (size == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), size);
  }
  return tuple;
}

// Formats with "#" would do the same, and depend on a macro before the first `#include <Python.h>` of a unit.
PyObject* BytesOf(const std::string& bytes) {
  return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
}

// (from, number, output, dtype, shape, bytes), as recgraph/coexec/trace.py reads it.
PyObject* DescribeInput(const Input& input) {
  if (input.value != nullptr) {
    return Py_BuildValue("(iiiiOO)", 0, input.value->record, input.value->output, input.dtype, Py_None, Py_None);
  }
  if (input.resource >= 0) return Py_BuildValue("(iiiiOO)", 3, input.resource, 0, input.dtype, Py_None, Py_None);
  const Described& tensor = *input.described;
  if (!tensor.is_small) return Py_BuildValue("(iiiiNO)", 1, 0, 0, input.dtype, ShapeTuple(tensor.shape), Py_None);
  return Py_BuildValue("(iiiiNN)", 2, 0, 0, input.dtype, ShapeTuple(tensor.shape), BytesOf(tensor.bytes));
}

// (dtype, shape, whether Python needs the value).
PyObject* DescribeOutput(const Value& value) {
  const bool is_needed = value.was_read() || value.is_alive();
  return Py_BuildValue("(iNi)", value.dtype, ShapeTuple(value.shape), is_needed ? 1 : 0);
}

template <typename Items, typename Function>
PyObject* TupleOf(const Items& items, Function describe) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(items.size()));
  Py_ssize_t i = 0;
  for (const auto& item : items) {
    PyObject* described = tuple == nullptr ? nullptr : describe(item);
    if (described == nullptr) {
      Py_XDECREF(tuple);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple, i++, described);
  }
  return tuple;
}

PyObject* DescribeRecord(const Record& record) {
  PyObject* inputs = TupleOf(record.inputs, DescribeInput);
  if (inputs == nullptr) return nullptr;
  PyObject* outputs = TupleOf(record.outputs, [](const ValuePtr& value) { return DescribeOutput(*value); });
  return Py_BuildValue("(iiiiNN)", record.signature->number, record.location, record.has_open_shapes ? 1 : 0,
                       record.is_foreseen ? 1 : 0, inputs, outputs);
}

// (slot, nanoseconds), as all stalls of the graph.
PyObject* DescribeStalls(const GraphTimes& times) {
  return TupleOf(times.stalls, [](const auto& stall) {
    return Py_BuildValue("(iL)", stall.first, static_cast<long long>(stall.second));
  });
}

// (nanoseconds, the program's stalls, nanoseconds of the graph or -1, its stalls), as recgraph/coexec/profile.py reads it.
PyObject* DescribeTimes(const Step& step) {
  PyObject* stalls = TupleOf(step.stalls(), [](const PythonStall& stall) {
    return Py_BuildValue("(iiL)", stall.location, stall.node, static_cast<long long>(stall.nanoseconds));
  });
  if (stalls == nullptr) return nullptr;
  const GraphTimes& graph = step.graph_times();
  return Py_BuildValue("(LNLN)", static_cast<long long>(step.nanoseconds()), stalls,
                       graph.is_known ? static_cast<long long>(graph.nanoseconds) : -1LL, DescribeStalls(graph));
}

PyObject* DescribeStep(const Step& step) {
  if (step.was_coexecuted()) return Py_BuildValue("(isiNOO)", 1, "", -1, DescribeTimes(step), Py_None, Py_None);
  PyObject* records = TupleOf(step.records(), DescribeRecord);
  if (records == nullptr) return nullptr;
  PyObject* uses = TupleOf(step.host_uses(), [](const HostUse& use) {
    return Py_BuildValue("(si)", use.signature->name.c_str(), use.resource);
  });
  return Py_BuildValue("(isiONN)", 0, step.reason().c_str(), step.left_at(), Py_None, records, uses);
}

// wait(most): waits until the graphs of at most that many steps of this thread still run: (error code, error text).
PyObject* Wait(PyObject*, PyObject* most) {
  int count;
  if (!Read(most, &count)) return nullptr;
  if (count < 0) return PyErr_Format(PyExc_ValueError, "%d steps cannot be left", count);
  absl::Status status;
  {
    const InterpreterUnlocked waiting;
    status = ThisLine()->Settle(static_cast<size_t>(count));
  }
  return Py_BuildValue("(is)", static_cast<int>(status.code()), std::string(status.message()).c_str());
}

// end(was_raised, may_run_ahead): ((was co-executed, why not, where it left the graph, its times if it did not, the trace and
// the uses of resources outside of it if it did), error code, error text).
PyObject* End(PyObject*, PyObject* arguments) {
  int was_raised, may_run_ahead;
  if (!PyArg_ParseTuple(arguments, "pp", &was_raised, &may_run_ahead)) return nullptr;
  std::unique_ptr<Step> step(Step::Current());
  if (step == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this thread is in no step");
    return nullptr;
  }
  absl::Status status;
  {
    const InterpreterUnlocked waiting;
    status = step->End(was_raised != 0, may_run_ahead != 0);
  }
  PyObject* described = DescribeStep(*step);
  {
    const InterpreterUnlocked waiting;
    if (step->IsPending()) ThisLine()->Add(std::move(step));
    step.reset();
  }
  return Py_BuildValue("(Nis)", described, static_cast<int>(status.code()), std::string(status.message()).c_str());
}

PyObject* BeforeFork(PyObject*, PyObject*) {
  {
    const InterpreterUnlocked waiting;
    ThisLine()->Settle(0).IgnoreError();
    if (Step::Current() != nullptr) Step::Current()->PrepareFork();
  }
  Py_RETURN_NONE;
}

PyObject* AfterFork(PyObject*, PyObject*) {
  GraphRunner::NoteFork();
  Run::NoteFork();
  Presence::NoteFork();
  Py_RETURN_NONE;
}

// share(is_on): (operations, nanoseconds) since the last call, while it was on.
PyObject* ReadShare(PyObject*, PyObject* is_on) {
  const int on = PyObject_IsTrue(is_on);
  if (on < 0) return nullptr;
  DeviceShare& share = DeviceShare::Get();
  share.is_on = on == 1;
  return Py_BuildValue("(LL)", static_cast<long long>(share.operations.exchange(0)),
                       static_cast<long long>(share.nanoseconds.exchange(0)));
}

PyObject* IsInStep(PyObject*, PyObject*) { return PyBool_FromLong(Step::Current() != nullptr); }

// signature(number): (type, node definition as bytes, dtypes of the results if it is a function, else None).
PyObject* DescribeSignature(PyObject*, PyObject* number) {
  int index;
  if (!Read(number, &index)) return nullptr;
  const Signature* signature = FindSignature(index);
  if (signature == nullptr) {
    PyErr_SetString(PyExc_IndexError, "no such signature");
    return nullptr;
  }
  const std::string definition = signature->definition.SerializeAsString();
  PyObject* results = Py_None;
  if (signature->kind == Kind::kCall) {
    results = TupleOf(signature->outputs, [](tensorflow::DataType dtype) { return PyLong_FromLong(dtype); });
  } else {
    Py_INCREF(results);
  }
  return Py_BuildValue("(sNN)", signature->name.c_str(), BytesOf(definition), results);
}

// resource(number): (name, dtype, shape or None), dtype 0 if it is not a variable.
PyObject* DescribeResource(PyObject*, PyObject* number) {
  int index;
  if (!Read(number, &index)) return nullptr;
  HandlePtr handle = FindResource(index);
  const Tensor* tensor;
  if (handle == nullptr || !TensorOf(handle.get(), &tensor).ok() || tensor->NumElements() != 1) {
    PyErr_SetString(PyExc_ReferenceError, "this variable is gone");
    return nullptr;
  }
  const auto& resource = tensor->flat<tensorflow::ResourceHandle>()(0);
  if (resource.dtypes_and_shapes().size() != 1) return Py_BuildValue("(siO)", resource.name().c_str(), 0, Py_None);
  const tensorflow::DtypeAndPartialTensorShape variable = resource.dtypes_and_shapes()[0];  // they are copies
  if (variable.shape.unknown_rank()) return Py_BuildValue("(siO)", resource.name().c_str(), variable.dtype, Py_None);
  Dimensions shape;
  for (int i = 0; i < variable.shape.dims(); ++i) shape.push_back(variable.shape.dim_size(i));
  return Py_BuildValue("(siN)", resource.name().c_str(), variable.dtype, ShapeTuple(shape));
}

PyObject* DescribePlace(PyObject*, PyObject* number) {
  int location;
  return Read(number, &location) ? DescribeLocation(location) : nullptr;
}

PyObject* DescribeCallSites(PyObject*, PyObject* number) {
  int location;
  return Read(number, &location) ? CallSites(location) : nullptr;
}

PyObject* Forget(PyObject*, PyObject*) { return ForgetLocations(); }

PyMethodDef methods[] = {
    {"watch", Guarded<Watch>, METH_O, "watch(kinds): sees all eager operations from now on. Once."},
    {"register", Guarded<Register>, METH_VARARGS, "register(context, name): makes the device known to TensorFlow."},
    {"plan", Guarded<MakePlan>, METH_VARARGS, "plan(description, kept): a plan, for begin."},
    {"begin", Guarded<Begin>, METH_VARARGS, "begin(base, plan): begins a step of this thread."},
    {"end", Guarded<End>, METH_VARARGS, "end(was_raised, may_run_ahead): ends the step and says what it was."},
    {"threads", Guarded<Threads>, METH_O, "threads(plan): by how many threads its graph is run, and why."},
    {"replay", Guarded<Replay>, METH_VARARGS, "replay(plan, mode, key): whether steps record what graphs give, or do without."},
    {"wait", Guarded<Wait>, METH_O, "wait(most): waits for the graphs of steps that have ended."},
    {"before_fork", Guarded<BeforeFork>, METH_NOARGS, "before_fork(): ends the graphs of this thread's steps."},
    {"after_fork", Guarded<AfterFork>, METH_NOARGS, "after_fork(): says that this is the new process."},
    {"share", Guarded<ReadShare>, METH_O, "share(is_on): how long the device took for how many operations, and whether to count."},
    {"is_in_step", Guarded<IsInStep>, METH_NOARGS, "is_in_step(): whether this thread is in a step."},
    {"signature", Guarded<DescribeSignature>, METH_O, "signature(number): type and definition of an operation."},
    {"resource", Guarded<DescribeResource>, METH_O, "resource(number): name, dtype and shape of a variable."},
    {"call_sites", Guarded<DescribeCallSites>, METH_O, "call_sites(number): code and offset of each frame, innermost first."},
    {"location", Guarded<DescribePlace>, METH_O, "location(number): the frames of a location, innermost first."},
    {"forget_locations", Guarded<Forget>, METH_NOARGS, "forget_locations(): those in code that is gone; gives their numbers."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_coexec", "The device of co-execution.", -1, methods,
                          nullptr,               nullptr,   nullptr,                        nullptr};

}  // namespace
}  // namespace recgraph

PyMODINIT_FUNC PyInit__coexec() { return PyModule_Create(&recgraph::definition); }
