"""The interface to the C++ device: begins and ends steps, and translates the numbers in a trace."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import keras
import tensorflow as tf

from recgraph import native, tf_private
from recgraph.coexec.generation import InputMeaning, Signature, StepResource
from recgraph.coexec.loops import Loops
from recgraph.coexec.operations import KINDS, PROGRAMS, WRITES, may_be_deferred, may_be_in_program, may_fail
from recgraph.coexec.trace import Trace, read_trace
from recgraph.core import program

# How names of files begin that are not the user's: TensorFlow, Keras, what runs steps and graphs, scripts.
_LIBRARIES = (
    "<recgraph: ",
    *(f"{Path(package.__file__).parent}/" for package in (tf, keras)),
    *(f"{Path(native.__file__).parents[1] / room}/" for room in ("auto", "coexec", "core", "speculate", "tf_private")),
)

NAME = "/job:localhost/replica:0/task:0/device:RECGRAPH:0"

# How the CPU is called in `tf.device`: code in such a scope is part of the step too, and None stands for any device.
_CPU_NAMES = (
    None,
    *(
        f"{prefix}{cpu}{index}"
        for prefix in (
            "",
            "/",
            "/device:",
            "/job:localhost/replica:0/task:0/",
            "/job:localhost/replica:0/task:0/device:",
        )
        for cpu in ("CPU", "cpu")
        for index in ("", ":0", ":*")
    ),
)


@functools.cache
def watch() -> ModuleType:
    """The extension module; from now on it sees which variables datasets use."""
    extension = native.coexec()
    extension.watch(KINDS)
    return extension


@functools.cache
def module() -> ModuleType:
    """The extension module, with the device registered."""
    extension = watch()
    extension.register(tf_private.context_handle(), NAME)
    os.register_at_fork(before=extension.before_fork, after_in_child=extension.after_fork)
    return extension


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a step ended.

    Attributes:
        was_coexecuted: whether the graph computed all of it.
        reason: why it left its graph; "" if it had none.
        where: the line at which it left it, `file:line`; "" if that was its end.
        times: of a step that was co-executed, how long what took, as `profile.read_times` reads it.
        trace: what it did, unless it was co-executed.
        code: the error of an operation that Python has not seen yet; 0 if there is none.
    """

    was_coexecuted: bool
    reason: str
    where: str
    times: Any
    trace: Trace | None
    code: int
    message: str


class _Open(threading.local):
    """The scopes of a thread: how many there are, and the one of TensorFlow that all of them share."""

    def __init__(self) -> None:
        self.count, self.device = 0, contextlib.ExitStack()


_open = _Open()


@contextlib.contextmanager
def scope() -> Iterator[None]:
    """Where the operations of a step are seen, also those in scopes for the CPU inside of it.

    Of loops that take turns, which `zip` makes, the first may end first; a scope of TensorFlow's has to end last.
    """
    if _open.count == 0:
        tf_private.stay_on_device(NAME, _CPU_NAMES)
        _open.device.enter_context(tf.device(NAME))
    _open.count += 1
    try:
        yield
    finally:
        _open.count -= 1
        if _open.count == 0:
            _open.device.close()


def begin(base: CodeType, plan: Any) -> bool:
    """Begins a step of this thread; False if that cannot be now."""
    return bool(module().begin(base, plan))


def threads(plan: Any) -> tuple[bool, float, float] | None:
    """Whether one thread does the work of a plan's graph, and seconds from step to step with all threads and with one.

    None if that has not been tried.
    """
    manner, with_all, with_one = module().threads(plan)
    return None if with_all < 0 else (bool(manner), with_all * 1e-9, with_one * 1e-9)


def wait(most: int = 0) -> tuple[int, str]:
    """Waits until at most so many graphs of steps of this thread still run; gives code and text of an error."""
    code, message = module().wait(most)
    return code, message


def end(owner: Any, was_raised: bool, may_run_ahead: bool = False) -> Outcome:
    """Ends it. If it may, its graph goes on computing while Python does, until `wait`.

    Args:
        owner: what compares the traces of its steps; see `Loops.trips`.
        was_raised: whether by an exception.
        may_run_ahead: whether what is left to compute may be computed later.
    """
    described, code, message = module().end(was_raised, may_run_ahead)
    was_coexecuted, reason, location, times, records, outside = described
    trips = functools.partial(_loops().trips, owner=owner)
    trace = None if records is None else read_trace(records, outside, trips)
    where = place(location) if location >= 0 else ""
    return Outcome(bool(was_coexecuted), reason, where, times, trace, code, message)


@functools.cache
def _loops() -> Loops:
    """The loops of all programs."""
    return Loops(module().call_sites, [tf_private.gradient_code()], module().forget_locations)


# More than those of a program; of functions that are made and dropped all day there is no end.
_SIGNATURES = 4096


@functools.lru_cache(_SIGNATURES)
def signature(number: int) -> Signature:
    """Type and attributes of an operation."""
    name, definition, results = module().signature(number)
    return Signature(name, dict(tf.compat.v1.NodeDef.FromString(definition).attr), results)


@functools.lru_cache(_SIGNATURES)
def _operations(number: int) -> frozenset[str]:
    """The types of operations that happen in one with this signature: itself, and those of functions and SubGraphs."""
    given = signature(number)
    if given.results is None:
        calls = [given.attributes] if given.name in PROGRAMS else []
        return frozenset([given.name]).union(*map(_operations_in_program, calls))
    calls = tf_private.attributes_in_function(given.name, PROGRAMS)
    return tf_private.operations_in_function(given.name).union(*map(_operations_in_program, calls))


def _operations_in_program(attributes: Mapping[str, Any]) -> frozenset[str]:
    """The types of operations in the SubGraphs that a call reaches. An eager call has only the key of its program."""
    found = program.find(attributes["key"].s.decode())
    library = tf.compat.v1.GraphDef().library.FromString(attributes["program"].s if found is None else found.library)
    names = {function.signature.name for function in library.function}
    return frozenset(node.op for function in library.function for node in function.node_def) - names


def conflict(trace: Trace) -> str:
    """Why a SubGraph that the trace calls cannot be part of a graph; "" if there is none."""
    for operation in trace.operations:
        types = _operations(operation.signature)
        if not types.isdisjoint(PROGRAMS):
            for name in sorted(types):
                if not may_be_in_program(name):
                    return f"a SubGraph contains {name}, whose effects must not happen before Python reaches the call"
    return ""


def resource(number: int) -> StepResource:
    """The variable with this number.

    Raises:
        ReferenceError: it is gone.
        ValueError: it is something else.
    """
    name, dtype, shape = module().resource(number)
    if dtype == 0:
        raise ValueError(f"{name} is not a variable")
    sizes = None if shape is None else [None if n < 0 else n for n in shape]
    return StepResource(name, tf.dtypes.as_dtype(dtype), tf.TensorShape(sizes))


def is_write(number: int) -> bool:
    """Whether operations with this signature change variables."""
    return not _operations(number).isdisjoint(WRITES)


def can_fail(number: int) -> bool:
    """Whether they may have an error that depends on values."""
    given = signature(number)
    dtype = given.attributes.get("T")
    types = () if dtype is None else dtype.list.type or (dtype.type,)
    is_integer = given.results is not None or any(tf.dtypes.as_dtype(kind).is_integer for kind in types if kind)
    return any(may_fail(name, is_integer) for name in _operations(number))


def is_gone(number: int) -> bool:
    """Whether they call a function that the program has let go of."""
    given = signature(number)
    return given.results is not None and not tf_private.has_function(given.name)


def can_be_deferred(number: int) -> bool:
    """Whether they change variables, and cannot fail once it is known that they may be done."""
    given = signature(number)
    return given.results is None and may_be_deferred(given.name)


def title(number: int) -> str:
    """What operations with this signature are called in explanations: their type, or the function that they call."""
    name = signature(number).name
    called = re.fullmatch(r"__(?:inference|forward|backward)_(?:speculated_)?(.+)_\d+", name)
    return f"the function {called[1]}" if called else name


def place(number: int) -> str:
    """A location as `file:line`, the innermost one outside of libraries."""
    frames = module().location(number)
    for file, line, _ in frames:
        if not file.startswith(_LIBRARIES):
            return f"{file}:{line}"
    return f"{frames[0][0]}:{frames[0][1]}" if frames else "?"


MEANING = InputMeaning(signature, resource, is_write)
