"""Functions of the user's that a library calls while it builds operations: each is converted where that happens.

The `call` of a layer, an activation, a learning rate, a constraint: eagerly Keras calls them in every step, with all
that they do to Python. The interpreter tells of each such call before it happens (PEP 523), so neither the library nor
the user's objects are changed. What a `tf.function` calls runs as it is: eagerly, too, it does when that is traced.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.speculate import calls, known
from recgraph.speculate.binding import arguments_of
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.frames import FOLDER, watched
from recgraph.speculate.reasons import Raised
from recgraph.speculate.values import is_symbolic

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
# Python calls these when it likes.
_AT_ANY_TIME = frozenset({"__del__", "<module>"})


@contextlib.contextmanager
def converted(ev: Evaluator) -> Iterator[None]:
    """While a library builds operations, what it calls of the user's becomes a part of the caller."""
    if ev.watch is None:
        ev.watch = native.frames().Watch()
        ev.watch.meet(functools.partial(_met, weakref.ref(ev)))
    ev.building.append(tf.compat.v1.get_default_graph())
    try:
        with watched(ev.watch):
            yield
    finally:
        ev.building.pop()


def _met(of: weakref.ref[Evaluator], function: types.FunctionType) -> None:
    """A function is called whose code has not been seen in this conversion."""
    ev, code = of(), function.__code__
    assert ev is not None
    is_left = code.co_name in _AT_ANY_TIME or not known.is_users(function) or known.is_generated(function)
    if is_left or not code.co_flags & inspect.CO_NEWLOCALS:
        ev.watch.handle(code, None)
    elif code.co_flags & _SUSPENDED:
        ev.watch.handle(code, None)
        raise ev.refuse("callee", f"{code.co_qualname}, which a library resumes")
    else:
        ev.watch.handle(code, functools.partial(_called, of))


def _called(of: weakref.ref[Evaluator], function: types.FunctionType, values: tuple[Any, ...]) -> Any:
    """A library calls a function of the user's."""
    ev = of()
    assert ev is not None
    if _is_no_part(values) or _is_made_here(function) or _is_traced(sys._getframe(1)):
        return native.frames().PLAIN
    for value in values:
        if known.is_users_type(type(value)) and not isinstance(value, tuple | list | dict | set | frozenset):
            ev.heap.reached(value)
    arguments, named = arguments_of(function, values)
    is_once = tf.compat.v1.get_default_graph() is ev.building[-1]  # not in the body of a loop or branch of its own
    try:
        return calls.Callback(ev, function, sequential=is_once)(*arguments, **named)
    except Raised as raised:  # Keras writes more into its message
        raise ev.refuse("raises", f"{function.__code__.co_qualname} raises in a library") from raised


def _is_no_part(values: tuple[Any, ...]) -> bool:
    """Whether a call is none of the program's: a handler of signals is given a frame, one of log records itself."""
    return any(isinstance(value, types.FrameType | logging.Handler) for value in values)


def _is_made_here(function: types.FunctionType) -> bool:
    """Whether a function holds tensors of the graph: one that was seen to compute only has made it."""
    cells = [cell for cell in function.__closure__ or () if cell != types.CellType()]
    return any(is_symbolic(cell.cell_contents) for cell in cells)


def _is_traced(frame: types.FrameType | None) -> bool:
    """Whether a `tf.function` calls what a frame belongs to."""
    while frame is not None and not frame.f_code.co_filename.startswith(FOLDER):
        if frame.f_code is tf_private.TRACING:
            return True
        frame = frame.f_back
    return False
