// A hook at the evaluation of Python frames (PEP 523): in a thread that has a Watch, calls of chosen functions go to
// handlers of ours in their place. The functions themselves stay as they are.
//
// Threading: everything here runs under the interpreter's lock. Each thread has a Watch of its own, or none.

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE
#include <Python.h>

#include "internal/pycore_frame.h"

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/interpreter/guarded.h"
#include "cc/interpreter/owned.h"
#include "cc/interpreter/stack_limit.h"

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000
#error "the layout of frames is that of CPython 3.11 to 3.13"
#endif

namespace {

using recgraph::Guarded;
using recgraph::Owned;

// What is done with the calls of one thread.
struct Watch {
  PyObject_HEAD
  // By code object: a handler, or None to leave its calls alone. Both are owned.
  std::unordered_map<PyCodeObject*, PyObject*>* handlers;
  PyObject* met;    // called with each function whose code has no entry; null if nobody wants to know
  bool is_meeting;  // what `met` itself calls is not told to it
};

thread_local Watch* current = nullptr;  // owned
int watching = 0;                       // threads that have a Watch
_PyFrameEvalFunction evaluate_before = nullptr;
PyObject* plain = nullptr;        // what a handler gives to let the call happen
PyObject* own_folder = nullptr;  // frames of files in it are left out of tracebacks

// What a frame has, whatever the interpreter's version calls it. Both are borrowed.
PyCodeObject* CodeOf(_PyInterpreterFrame* frame) {
#if PY_VERSION_HEX < 0x030d0000
  return frame->f_code;
#else
  return _PyFrame_GetCode(frame);
#endif
}

PyObject* FunctionOf(_PyInterpreterFrame* frame) {
#if PY_VERSION_HEX < 0x030c0000
  return reinterpret_cast<PyObject*>(frame->f_func);
#else
  return frame->f_funcobj;
#endif
}

PyObject* Plainly(PyThreadState* thread, _PyInterpreterFrame* frame, int throws) {
  _PyFrameEvalFunction evaluate = evaluate_before != nullptr ? evaluate_before : _PyEval_EvalFrameDefault;
  return evaluate(thread, frame, throws);
}

// Takes a frame that is not evaluated off the stack. Until CPython 3.11 the caller of the hook does that; since 3.12 who
// evaluates a frame clears it, and what clears it is not exported. So the interpreter is told that the frame has raised
// before its first instruction, where no handler is.
#if PY_VERSION_HEX < 0x030c0000
void Discard(PyThreadState*, _PyInterpreterFrame*) {}
#else
void Discard(PyThreadState* thread, _PyInterpreterFrame* frame) {
  PyObject* raised = PyErr_GetRaisedException();
  PyErr_SetNone(PyExc_GeneratorExit);
  Py_XDECREF(_PyEval_EvalFrameDefault(thread, frame, 1));
  PyErr_SetRaisedException(raised);  // in place of ours
}
#endif

// The interpreter itself calls Python from Python without C's stack. Through a hook it does need it, in every thread, and
// deeper than the stack goes there is no memory: what Python says of too deep a recursion comes before. A generator that
// goes on is told so where it stands, since CPython 3.12.
PyObject* RefuseForDepth([[maybe_unused]] PyThreadState* thread, [[maybe_unused]] _PyInterpreterFrame* frame) {
  PyErr_SetString(PyExc_RecursionError,
                  "maximum recursion depth exceeded: the stack of this thread is used up. While any thread is in "
                  "rg.speculation(), calls of Python functions take C stack in all threads: recurse outside of it, or in "
                  "a thread with a larger threading.stack_size()");
#if PY_VERSION_HEX < 0x030c0000
  return nullptr;
#else
  return _PyEval_EvalFrameDefault(thread, frame, 1);
#endif
}

// The values of a function's parameters, in the order of its signature: here `*args` comes after names to be given by
// keyword.
PyObject* Parameters(_PyInterpreterFrame* frame) {
  const PyCodeObject* code = CodeOf(frame);
  const Py_ssize_t positional = code->co_argcount, named = code->co_kwonlyargcount;
  const bool star = (code->co_flags & CO_VARARGS) != 0, stars = (code->co_flags & CO_VARKEYWORDS) != 0;
  PyObject* values = PyTuple_New(positional + named + star + stars);
  if (values == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
    Py_ssize_t from = i;
    if (star && i == positional) from = positional + named;
    if (star && i > positional && i <= positional + named) from = i - 1;
    PyTuple_SET_ITEM(values, i, Py_NewRef(frame->localsplus[from]));
  }
  return values;
}

// Whether a traceback begins in a file of ours.
bool BeginsHere(PyTracebackObject* traceback) {
  PyCodeObject* code = PyFrame_GetCode(traceback->tb_frame);
  const bool is_ours =
      own_folder != nullptr && PyUnicode_Tailmatch(code->co_filename, own_folder, 0, PY_SSIZE_T_MAX, -1) == 1;
  Py_DECREF(code);
  return is_ours;
}

// The user's traceback goes from the caller to the function.
void LeaveUsOut() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  while (traceback != nullptr && BeginsHere(reinterpret_cast<PyTracebackObject*>(traceback))) {
    PyObject* next = Py_XNewRef(reinterpret_cast<PyObject*>(reinterpret_cast<PyTracebackObject*>(traceback)->tb_next));
    Py_DECREF(traceback);
    traceback = next;
  }
  PyErr_Restore(type, value, traceback);
}

// Calls a handler, which the caller holds, in place of a function.
PyObject* Handled(PyThreadState* thread, _PyInterpreterFrame* frame, PyObject* handler) {
  PyObject* result = nullptr;
  if (PyObject* parameters = Parameters(frame)) {
    result = PyObject_CallFunctionObjArgs(handler, FunctionOf(frame), parameters, nullptr);
    Py_DECREF(parameters);
    if (result == plain) {
      Py_DECREF(result);
      return Plainly(thread, frame, 0);
    }
    if (result == nullptr) LeaveUsOut();
  }
  Discard(thread, frame);
  return result;
}

// The handler of a function's calls; None if they are left alone, null if asking for it has failed. It is owned, as what
// happens until it is called may run Python, which may take it out of the Watch.
Owned HandlerOf(_PyInterpreterFrame* frame, Watch* watch) {
  auto found = watch->handlers->find(CodeOf(frame));
  if (found == watch->handlers->end() && watch->met != nullptr && !watch->is_meeting) {
    Py_INCREF(watch);
    watch->is_meeting = true;
    PyObject* met = Py_NewRef(watch->met);
    PyObject* ignored = PyObject_CallFunctionObjArgs(met, FunctionOf(frame), nullptr);
    Py_DECREF(met);
    watch->is_meeting = false;
    found = watch->handlers->find(CodeOf(frame));
    Owned handler(Py_NewRef(found != watch->handlers->end() && current == watch ? found->second : Py_None));
    Py_DECREF(watch);
    if (ignored == nullptr) return nullptr;
    Py_DECREF(ignored);
    return handler;
  }
  return Owned(Py_NewRef(found != watch->handlers->end() ? found->second : Py_None));
}

PyObject* Evaluate(PyThreadState* thread, _PyInterpreterFrame* frame, int throws) {
  if (recgraph::IsStackShort()) return RefuseForDepth(thread, frame);
  // With a debugger the program runs as it is written.
  if (current == nullptr || throws || thread->c_tracefunc != nullptr) return Plainly(thread, frame, throws);
  Owned handler = HandlerOf(frame, current);
  if (handler == nullptr) {
    Discard(thread, frame);
    return nullptr;
  }
  if (handler.get() != Py_None) return Handled(thread, frame, handler.get());
  handler = nullptr;  // nothing is to be done after the call, which may be the last one that the stack has room for
  return Plainly(thread, frame, 0);
}

// The type.

PyObject* WatchNew(PyTypeObject* type, PyObject*, PyObject*) {
  auto handlers = std::make_unique<std::unordered_map<PyCodeObject*, PyObject*>>();
  auto* self = reinterpret_cast<Watch*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->handlers = handlers.release();
  self->met = nullptr;
  self->is_meeting = false;
  return reinterpret_cast<PyObject*>(self);
}

int WatchTraverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Watch*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->met);
  for (auto& entry : *self->handlers) {
    Py_VISIT(entry.first);
    Py_VISIT(entry.second);
  }
  return 0;
}

int WatchClear(PyObject* object) {
  auto* self = reinterpret_cast<Watch*>(object);
  Py_CLEAR(self->met);
  std::unordered_map<PyCodeObject*, PyObject*> handlers;
  handlers.swap(*self->handlers);
  for (auto& entry : handlers) {
    Py_DECREF(entry.first);
    Py_DECREF(entry.second);
  }
  return 0;
}

void WatchDealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  WatchClear(object);
  delete reinterpret_cast<Watch*>(object)->handlers;
  type->tp_free(object);
  Py_DECREF(type);
}

// Lets go of code that nobody else has: of functions that are gone, such as those of a cell that was executed again.
void Tidy(Watch* watch) {
  std::vector<std::pair<PyCodeObject*, PyObject*>> gone;  // not freed before the end: that may run Python
  for (auto entry = watch->handlers->begin(); entry != watch->handlers->end();) {
    if (Py_REFCNT(entry->first) > 1) {
      ++entry;
    } else {
      gone.push_back(*entry);
      entry = watch->handlers->erase(entry);
    }
  }
  for (auto& [code, handler] : gone) {
    Py_DECREF(code);
    Py_DECREF(handler);
  }
}

PyObject* WatchHandle(PyObject* object, PyObject* arguments) {
  auto* self = reinterpret_cast<Watch*>(object);
  PyObject *code, *handler;
  if (!PyArg_ParseTuple(arguments, "O!O", &PyCode_Type, &code, &handler)) return nullptr;
  auto [place, is_new] = self->handlers->try_emplace(reinterpret_cast<PyCodeObject*>(code), handler);
  Py_INCREF(handler);
  if (is_new) {
    Py_INCREF(code);
    Tidy(self);
  } else {
    Py_DECREF(std::exchange(place->second, handler));
  }
  Py_RETURN_NONE;
}

PyObject* WatchMeet(PyObject* object, PyObject* met) {
  auto* self = reinterpret_cast<Watch*>(object);
  PyObject* before = self->met;
  self->met = met == Py_None ? nullptr : Py_NewRef(met);
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

PyMethodDef watch_methods[] = {
    {"handle", Guarded<WatchHandle>, METH_VARARGS,
     "handle(code, handler): calls of this code go to handler(function, parameters)."},
    {"meet", Guarded<WatchMeet>, METH_O,
     "meet(met): functions whose code has no handler go to met(function) first; None ends it."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot watch_slots[] = {
    {Py_tp_doc, const_cast<char*>("What is done with the calls of one thread.")},
    {Py_tp_new, reinterpret_cast<void*>(Guarded<WatchNew>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(WatchDealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(WatchTraverse)},
    {Py_tp_clear, reinterpret_cast<void*>(WatchClear)},
    {Py_tp_methods, watch_methods},
    {0, nullptr},
};

PyType_Spec watch_spec = {
    "recgraph.native._frames.Watch", sizeof(Watch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, watch_slots};

PyTypeObject* watch_type = nullptr;

// The module.

PyObject* Activate(PyObject*, PyObject* watch) {
  if (watch != Py_None && !PyObject_TypeCheck(watch, watch_type)) {
    PyErr_SetString(PyExc_TypeError, "a Watch or None");
    return nullptr;
  }
  PyObject* before = current != nullptr ? reinterpret_cast<PyObject*>(current) : Py_NewRef(Py_None);
  watching += (watch != Py_None) - (current != nullptr);
  current = watch != Py_None ? reinterpret_cast<Watch*>(Py_NewRef(watch)) : nullptr;
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  const _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  if (watching > 0 && now != Evaluate) {
    evaluate_before = now == _PyEval_EvalFrameDefault ? nullptr : now;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, Evaluate);
  } else if (watching == 0 && now == Evaluate) {
    _PyInterpreterState_SetEvalFrameFunc(
        interpreter, evaluate_before != nullptr ? evaluate_before : _PyEval_EvalFrameDefault);
  }
  return before;
}

PyObject* LeaveOut(PyObject*, PyObject* folder) {
  if (!PyUnicode_Check(folder)) {
    PyErr_SetString(PyExc_TypeError, "a folder");
    return nullptr;
  }
  Py_XSETREF(own_folder, Py_NewRef(folder));
  Py_RETURN_NONE;
}

// The state of a thread, null if it has ended.
PyThreadState* ThreadOf(unsigned long identity) {
  PyThreadState* thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  while (thread != nullptr && thread->thread_id != identity) thread = PyThreadState_Next(thread);
  return thread;
}

// Whoever walks along the frames of a running thread makes an object for each. Until CPython 3.11 that may begin a garbage
// collection, a finalizer in it may hand the interpreter's lock to the other thread, and this may leave the very frame
// whose object is made: what is walked along then is memory of somebody else. Here nothing is collected meanwhile, so the
// lock stays where it is.
PyObject* StackOf(PyObject*, PyObject* identity) {
  const unsigned long wanted = PyLong_AsUnsignedLong(identity);
  if (PyErr_Occurred()) return nullptr;
  const Owned frames(PyList_New(0));
  if (frames == nullptr) return nullptr;
  const int was_enabled = PyGC_Disable();
  PyThreadState* thread = ThreadOf(wanted);
  bool is_done = true;
  Owned frame(thread == nullptr ? nullptr : reinterpret_cast<PyObject*>(PyThreadState_GetFrame(thread)));
  while (frame != nullptr && is_done) {
    is_done = PyList_Append(frames.get(), frame.get()) == 0;
    frame = Owned(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.get()))));
  }
  if (was_enabled) PyGC_Enable();
  return is_done ? Py_NewRef(frames.get()) : nullptr;
}

PyMethodDef module_methods[] = {
    {"stack_of", Guarded<StackOf>, METH_O,
     "stack_of(identity): the frames of the thread of this identity, the innermost first; none if it has ended."},
    {"activate", Guarded<Activate>, METH_O, "activate(watch): makes it this thread's, None for none; gives the one before."},
    {"leave_out", Guarded<LeaveOut>, METH_O, "leave_out(folder): tracebacks begin after the frames of files in this folder."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_frames", "Calls of chosen functions go to handlers.", -1, module_methods,
    nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__frames() {
  watch_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&watch_spec));
  if (watch_type == nullptr) return nullptr;
  PyObject* made = PyModule_Create(&module);
  plain = PyBaseObject_Type.tp_alloc(&PyBaseObject_Type, 0);
  if (made == nullptr || plain == nullptr || PyModule_AddObjectRef(made, "PLAIN", plain) < 0 ||
      PyModule_AddObjectRef(made, "Watch", reinterpret_cast<PyObject*>(watch_type)) < 0) {
    return nullptr;
  }
  return made;
}
