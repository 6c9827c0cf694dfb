"""The eager runtime: tapes, seeds, devices, and how a function is called."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import forwardprop_util as _forwardprop_util
from tensorflow.python.eager import imperative_grad as _imperative_grad

# A gradient function is offered to a tape before anything is recorded: whether a tape is listening decides
# whether an eager call keeps its activations.
from tensorflow.python.eager import record as _record
from tensorflow.python.framework import config as _config
from tensorflow.python.framework import ops as _ops
from tensorflow.python.ops import resource_variable_ops as _resource_variable_ops
from tensorflow.python.trackable import data_structures as _data_structures

from recgraph.tf_private import rewriting, taping
from recgraph.tf_private.cancelling import execute
from recgraph.tf_private.graphs import EagerTensor
from recgraph.tf_private.surroundings import replaces_operations

# Seeds of operations are taken modulo this.
_MAX_SEED = 2**31 - 1
# PyCapsule_GetPointer.
_CAPSULE_POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
# Operations, those of functions included, from which on a graph is optimized once.
_LARGE = 8000


def tape_is_recording(tensors: list[tf.Tensor]) -> bool:
    """Whether a gradient tape would record an eager operation on these inputs."""
    return bool(_record.could_possibly_record()) and bool(_record.should_record_backprop(tensors))


def gradient_code() -> CodeType:
    """The code in which one instruction calls all the gradient functions of a tape, from C."""
    return _imperative_grad.imperative_grad.__code__


def a_tape_is_listening() -> bool:
    """Whether a gradient tape or accumulator of this thread may record what is done now."""
    return bool(_record.could_possibly_record())


def places_of_tangents(tensors: list[tf.Tensor]) -> Any:
    """Of which of these tensors each `tf.autodiff.ForwardAccumulator` has a tangent; nothing where none has any."""
    return _forwardprop_util.pack_tangents(tensors).indices


def without_recording() -> Any:
    """A context in which no gradient tape or accumulator of this thread records or follows what is done."""
    return _record.stop_recording()


def watch_variables(graph: Any) -> None:
    """Tells whoever watches reads of variables in this thread of those that `graph` reads, as reading them would."""
    for variable in graph._watched_variables:
        _resource_variable_ops.variable_accessed(variable)


# The attribute by which a container that TensorFlow has put around one of Python's, to track what that holds, has it.
ATTRIBUTES_OF_WRAPPERS: Final[dict[type, str]] = {
    _data_structures.ListWrapper: "_storage",
    _data_structures._DictWrapper: "__wrapped__",
    _data_structures._TupleWrapper: "__wrapped__",
}


def wrapped_container(container: Any) -> Any:
    """What is in a container that TensorFlow has put around another one, to track what that holds; else as it is."""
    name = ATTRIBUTES_OF_WRAPPERS.get(type(container))
    return container if name is None else getattr(container, name)


def executing_eagerly() -> bool:
    """Whether operations run at once; `tf.executing_eagerly` is false inside of autographed Python."""
    return bool(_context.executing_eagerly())


def connection() -> Any:
    """What stands for the servers that this process is connected to; None where it is to none."""
    return _context.context()._server_def


def scope_device() -> str:
    """The device that the innermost `tf.device` names, as far as it does."""
    return _context.context().device_name or ""


def is_coexecuted() -> bool:
    """Whether what this thread asks for goes to the device of co-execution, which runs it later."""
    return (_context.context().device_name or "").endswith("RECGRAPH:0")


def remote_task(device: str) -> str:
    """`/job:worker/replica:0/task:1` of a device of another process; "" of this one's."""
    spec, own = tf.DeviceSpec.from_string(device), _context.context()._server_def
    is_own = spec.job in (None, "localhost")  # what this process is called before it is connected
    if own is None or is_own or (spec.job, spec.task or 0) == (own.job_name, own.task_index):
        return ""
    return f"/job:{spec.job}/replica:{spec.replica or 0}/task:{spec.task or 0}"


def on_this_process() -> Any:
    """A context in which eager operations run here, whatever `tf.device` is around it."""
    own = _context.context()._server_def
    if own is None:
        return contextlib.nullcontext()
    return tf.device(f"/job:{own.job_name}/replica:0/task:{own.task_index}/device:CPU:0")


def require_peer(task: str, seconds: float) -> None:
    """Returns if a worker of the cluster answers; there is no public way to ask.

    Raises:
      tf.errors.OpError: it does not, or it has been started again.
    """
    _context.context().check_collective_ops_peer_health(task, int(seconds * 1000))


def tell_cluster(key: str, text: str) -> None:
    """Has the first worker keep a text for all, whether or not the programs of these get to run Python.

    Raises:
      tf.errors.OpError: the first worker does not answer, or there is a text already.
    """
    _context.context().set_config_key_value(key, text)


def told_in_cluster(key: str, seconds: float) -> str:
    """The text that a worker has told, or tells within so many seconds.

    Raises:
      tf.errors.OpError: there is none, or the first worker does not answer.
    """
    return str(_context.context().get_config_key_value(key, int(seconds * 1000)))


def abort_collectives(message: str) -> None:
    """Breaks off all collectives of this process, now and from here on."""
    _context.context().abort_collective_ops(tf.errors.DEADLINE_EXCEEDED, message)


def eagerly() -> Any:
    """A context in which operations run at once, also inside of an explicit graph, which `tf.init_scope` keeps."""
    return _context.eager_mode()


def next_seeds() -> tuple[int, int]:
    """The seeds that the next eager random operation would have; drawing them is what it does first."""
    context = _context.context()
    seeds = context._seed % _MAX_SEED, context._internal_operation_seed() % _MAX_SEED
    return (0, _MAX_SEED) if seeds == (0, 0) else seeds


def global_seed() -> int | None:
    """What `tf.random.set_seed` was given."""
    return _context.context()._seed


def seed_generator_state() -> Any:
    """Where the generator is that eager random operations draw their seeds from."""
    context = _context.context()
    return (context._rng, context._rng.getstate()) if context._seed is not None else None


def set_seed_generator_state(state: Any) -> None:
    """Puts it back."""
    if state is not None:
        state[0].setstate(state[1])


def variable_dtype(handle: tf.Tensor) -> tf.DType:
    """The dtype of the variable behind an eager handle."""
    return tf.dtypes.as_dtype(handle._handle_data.shape_and_type[0].dtype)


def eager_constant(value: Any, dtype: tf.DType) -> tf.Tensor:
    """An eager tensor, with memory of its own; `tf.constant` takes several times as long."""
    context = _context.context()
    value = value.copy() if isinstance(value, np.ndarray) else value  # TensorFlow shares what is aligned well enough
    return EagerTensor(value, context.device_name, dtype.as_datatype_enum)


def shape_of(tensor: tf.Tensor) -> tuple[int, ...]:
    """The shape of an eager tensor; `tensor.shape` is an object that takes ten times as long to compare."""
    shape: tuple[int, ...] = tensor._shape_tuple()
    return shape


def address(tensor: tf.Tensor) -> int:
    """Where an eager tensor of numbers lies, in the memory of its device."""
    if "CPU" in tensor.backing_device:
        start: int = np.frombuffer(tensor, np.uint8).ctypes.data
        return start
    capsule = tf.experimental.dlpack.to_dlpack(tensor)
    described = _CAPSULE_POINTER(capsule, b"dltensor")
    return ctypes.c_void_p.from_address(described).value or 0  # DLPack's structure begins with the address


def is_deterministic() -> bool:
    """Whether `tf.config.experimental.enable_op_determinism` was called; that cannot be asked for publicly."""
    return bool(_config.is_op_determinism_enabled())


def fast_call(function: Any) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """Calls a concrete function with tensors alone, past everything that is for tapes where there are none.

    What it captures has to be complete, and the variables that it reads have to be as trainable in a call as they are
    now. Errors are raised as the runtime gives them. It computes what eager execution does: see `_faithful_options`.
    """
    captured, watched = function.captured_inputs, taping.trainable(function.graph.variables)
    context, name, count = _context.context(), function._inference_function.name, len(function.outputs)
    could_record, text = _record.could_possibly_record, name.decode()
    options = _faithful_options(context, function.graph)
    attributes = tuple(part for pair in options.as_attrs().items() for part in pair)

    def call(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        if could_record():
            return _taped(options, attributes, function, list(tensors))
        taping.tell_watchers(watched)
        return execute(text, count, [*tensors, *captured], attributes, context, may_repeat=True)

    return call


def _taped(options: Any, attributes: Any, function: Any, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    context = _context.context()
    before = context.function_call_options
    context.function_call_options = options
    try:
        made: list[tf.Tensor] = taping.call(function, tensors, attributes, may_repeat=True)
        return made
    finally:
        context.function_call_options = before


def _multiplies_halves(graph: Any) -> bool:
    """Whether a product of matrices is one of half precision, for which TensorFlow's fused operation is a hundred times
    as slow as the product and what follows it.
    """
    products = (op for op in graph.get_operations() if op.type == "MatMul")
    return any(op.get_attr("T") == tf.float16 for op in products)


def _is_large(graph: Any) -> bool:
    """Whether a graph with its functions is so large that each pass of TensorFlow's optimizer takes seconds."""
    functions = (function.graph for function in graph._functions.values())
    bodies = (body for body in functions if body is not None)
    return len(graph.get_operations()) + sum(len(body.get_operations()) for body in bodies) >= _LARGE


def _faithful_options(context: Any, graph: Any = None) -> Any:
    """Options with which a graph computes what eager execution does: see `rewriting.keep_values`.

    A large `graph` is optimized once, not twice: the second pass takes as long and finds little.
    """
    options = context.function_call_options
    config = tf.compat.v1.ConfigProto.FromString(options.config_proto_serialized)
    rewrites = config.graph_options.rewrite_options
    if graph is not None and _multiplies_halves(graph):
        rewrites.remapping = rewrites.OFF
    if graph is not None and _is_large(graph):
        rewrites.meta_optimizer_iterations = rewrites.ONE
    rewriting.keep_values(rewrites)
    return type(options)(options.executor_type, config)


_has_forked = [False]

os.register_at_fork(after_in_child=lambda: _has_forked.__setitem__(0, True))


class _Thread(threading.local):
    """What is asked of a thread once."""

    def __init__(self) -> None:
        # Python knows nothing of threads that it has not started, and makes a stand-in where it is asked.
        self.is_of_python = not isinstance(threading.current_thread(), threading._DummyThread)


_thread = _Thread()


def is_plainly_eager() -> bool:
    """Whether operations run at once, and nothing around has a say in it: no distribution strategy, nor what
    `surroundings.replaces_operations` names.

    Nor in a forked process: the threads that run graphs have stayed in the other one. Nor in one of these threads, in
    a Python function that a graph calls: the graph that would be run there waits for another of them, and if each is
    in such a function, all wait for ever.
    """
    if _has_forked[0] or not _thread.is_of_python:
        return False
    is_eager = _context.executing_eagerly() and not _ops.get_default_graph()._distribution_strategy_stack
    return is_eager and not replaces_operations()


def context_handle() -> Any:
    """The eager runtime's context, as a capsule: a device of ours is registered with it from C++."""
    context = _context.context()
    context.ensure_initialized()
    return context._handle


def call_options(function: Any = None) -> bytes:
    """The serialised configuration with which eager execution runs functions, or one, that compute what it does."""
    options = _faithful_options(_context.context(), None if function is None else function.graph)
    return bytes(options.config_proto_serialized)


def function_name(function: Any) -> bytes:
    """The name under which the eager runtime knows a concrete function."""
    return bytes(function._inference_function.name)


def has_function(name: str) -> bool:
    """Whether the eager runtime knows a function by this name; it forgets those that Python has let go of."""
    return bool(_context.context().has_function(name))


def known_functions() -> int:
    """How many functions the eager runtime knows."""
    return len(_context.context().list_function_names())


def stay_on_device(name: str, others: tuple[str | None, ...]) -> None:
    """Lets `tf.device` scopes for `others`, opened in a scope for the device `name`, stay on that device.

    What a name stands for in a scope is looked up in a cache of TensorFlow's, which is empty at first and again after
    the devices have changed; with entries of our own there is nothing to patch.
    """
    cache = _context._device_parsing_cache
    if (name, others[0]) not in cache:
        cache.update({(name, other): (name, tf.DeviceSpec.from_string(name)) for other in others})


def raise_status(code: int, message: str) -> None:
    """Raises what TensorFlow raises for an error of its runtime."""
    raise tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, message)
