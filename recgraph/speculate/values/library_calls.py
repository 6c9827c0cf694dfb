"""Calls: of the user's functions, which are converted where they are called, of classes, of what libraries define."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from recgraph import native, tf_private
from recgraph.cpython import facts
from recgraph.defects import described
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.frames import FOLDER, watched
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException, RestartConversion
from recgraph.speculate.observe.syntax import arguments_of
from recgraph.speculate.script import draws, symbolic
from recgraph.speculate.script.assumptions import FittingInteger, SameDecision
from recgraph.speculate.script.contexts import Building, CalledBack
from recgraph.speculate.script.symbolic import (
    DynamicValue,
    Iteration,
    ListSegment,
    PartialShape,
    SymbolicValue,
    is_symbolic,
    rebuilt,
)
from recgraph.speculate.values import state

# Whose methods build as many operations as there are weights, or as were built before.
_UPDATING: Final = (tf.GradientTape, keras.Optimizer)


class Callback(SymbolicValue):
    """A function of the user's that a library may call: it is converted where that happens.

    Args:
        ev: the conversion.
        function: the user's.
        sequential: whether it is called just once, where the library is called, so that it may have effects.
    """

    autograph_info__ = None

    def __init__(self, ev: Evaluator, function: Any, sequential: bool = False) -> None:
        self.ev, self.function, self.sequential = ev, function, sequential
        self.__name__ = getattr(function, "__name__", "callback")
        self.__signature__ = inspect.signature(function)

    @tf.autograph.experimental.do_not_convert
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with contextlib.nullcontext() if self.sequential else called_back(self.ev), watched(None):
            result = self.ev.call(self.function, list(arguments), named)
            return argument(self.ev, result, list(arguments))


@contextlib.contextmanager
def called_back(ev: Evaluator) -> Iterator[None]:
    """While a library calls a function of the program's, perhaps in a graph of its own, where nothing is assumed."""
    around, count = ev.contexts.all(Building), len(ev.assertions)
    elsewhere = bool(around) and tf.compat.v1.get_default_graph() is not around[-1].graph
    before = state.ProgramState(ev)
    with ev.within(CalledBack(elsewhere)):
        yield
        if before.is_changed():
            ev.need_sequence("a change of a container, object or name outside")
        if elsewhere:
            del ev.assertions[count:]  # of branches and loops, without any assumption in them


def build(ev: Evaluator, function: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> Any:
    """A function that builds operations, or looks at known values only.

    A float of NumPy's becomes a tensor of its dtype where eager TensorFlow decides by it, and takes the dtype of others
    as a float of Python's does where this would be an error in a graph.
    """
    if not any(map(_is_numpy_float, symbolic.leaves([*arguments, *named.values()]))):
        return _built(ev, function, arguments, named)
    try:
        return state.attempt(ev, lambda before: _built(ev, function, arguments, named))
    except Inconvertible as reason:
        if reason.feature is not Feature.RAISES or _calls_back([*arguments, *named.values()]):
            raise
    given = [_as_pythons(ev, value) for value in arguments]
    return _built(ev, function, given, {name: _as_pythons(ev, value) for name, value in named.items()})


def _is_numpy_float(value: Any) -> bool:
    """Whether a value is a float of NumPy's that differs from call to call."""
    return isinstance(value, DynamicValue) and isinstance(value.example, np.floating)


def _as_pythons(ev: Evaluator, value: Any) -> Any:
    """A value with Python's floats in place of those of NumPy's that differ from call to call."""
    if _is_numpy_float(value):
        return ev.python(float, [value])
    return symbolic.mapped(functools.partial(_as_pythons, ev), value)


def _calls_back(given: list[Any]) -> bool:
    """Whether a library is given a function of the program's, to which it may give numbers."""
    kinds = SymbolicValue | types.FunctionType | types.MethodType | functools.partial
    return any(isinstance(one, kinds) and callable(one) for one in given)


def _built(ev: Evaluator, function: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> Any:
    owner = getattr(function, "__self__", None)
    beside = [one for one in symbolic.leaves([arguments, *named.values()]) if not isinstance(one, tf.DType)]
    others = [*beside, *_wanted(function, named)]
    if isinstance(owner, tf.Variable | keras.Variable):
        others.insert(0, owner)
    if isinstance(owner, tf.Variable) and function.__name__ in _ASSIGNING:
        arguments = [_for_variable(ev, owner, a) for a in arguments]
        named = {name: _for_variable(ev, owner, a) if name in _VALUES else a for name, a in named.items()}
    if function is tf.get_current_name_scope:
        name_scope_read(ev)
    if _is_summary(function):
        named = _without_summary(ev, function, named)
    values = [argument(ev, a, others) for a in arguments]
    keywords = {name: argument(ev, a, others) for name, a in named.items()}
    leaves = list(symbolic.leaves([values, keywords]))
    has_guessed = any(_is_guessed(ev, leaf) for leaf in leaves) and not any(isinstance(one, Callback) for one in leaves)
    if has_guessed and known.is_tensorflows(function):
        values, keywords = _as_given(ev, function, (arguments, named), (values, keywords))
    graph = tf_private.current_graph()
    before = graph.version
    try:
        with _undrawn(ev, function):
            result = function(*values, **keywords)
    except (Inconvertible, ProgramException, RestartConversion):
        raise
    except Exception as error:
        raise _reason(ev, function, error) from error
    if not isinstance(getattr(function, "__self__", None), _UPDATING):
        ev.built += graph.version - before
        ev.check_operations()
    if isinstance(result, symbolic.MUTABLE) and facts.references(result) > facts.OF_A_LOCAL:
        name = getattr(function, "__name__", type(function).__name__)
        raise ev.refuse(
            Feature.FRAMEWORK, f"{name} gives a {type(result).__name__} that something keeps and may change"
        )
    return result


@contextlib.contextmanager
def _undrawn(ev: Evaluator, function: Any) -> Iterator[None]:
    """What a library draws from the generators that everything shares is put back: the call will draw it.

    Another thread may draw meanwhile, a data set's for instance. So it has to be by a function that was met here.
    """
    before = draws.shared_states()
    try:
        yield
    except BaseException:
        if ev.may_have_drawn:
            draws.put_back_shared(before)
        raise
    if ev.may_have_drawn and draws.put_back_shared(before):
        name = getattr(function, "__name__", type(function).__name__)
        raise ev.refuse(Feature.RANDOM, f"{name} draws from a generator of Python's or NumPy's")


def _wanted(function: Any, named: dict[str, Any]) -> list[tf.DType]:
    """The dtype that a call asks for by name, which floats take; a cast makes tensors of its own of them first."""
    dtype = None if str(getattr(function, "__name__", "")).endswith("cast") else named.get("dtype")
    if isinstance(dtype, str):
        with contextlib.suppress(TypeError):
            dtype = tf.as_dtype(dtype)
    return [dtype] if isinstance(dtype, tf.DType) and dtype.is_floating else []


def _dtype_of(other: Any) -> tf.DType | None:
    """Returns what numbers beside a value take."""
    if isinstance(other, tf.DType):
        return other
    return tf.as_dtype(other.dtype) if isinstance(other, tf.Tensor | tf.Variable | keras.Variable) else None


_ASSIGNING = ("assign", "assign_add", "assign_sub")
_VALUES = ("value", "delta")


def _is_guessed(ev: Evaluator, value: Any) -> bool:
    """Whether a value is a tensor in place of a number, of a dtype that another argument has."""
    return id(value) in ev.numbers and value.dtype.is_integer and value.dtype != tf.int32


def _as_given(ev: Evaluator, function: Any, given: Any, guessed: Any) -> Any:
    """Arguments of which TensorFlow makes results of the dtypes that it makes of the numbers themselves.

    Args:
        ev: the conversion.
        function: TensorFlow's.
        given: the arguments and the named ones.
        guessed: the same, with tensors that have the dtypes of others in place of numbers.

    Raises:
        Inconvertible: neither these nor tensors of int32 do.
    """
    wanted = _results(ev, function, _mapped_numbers(ev, guessed))
    for number in (ev.numbers[id(leaf)][1] for leaf in symbolic.leaves(guessed) if id(leaf) in ev.numbers):
        if type(number.example) is int and not tf.int32.min <= number.example <= tf.int32.max:
            _integer(ev, number, None)  # TensorFlow makes something else of a small one, perhaps
    if _results(ev, function, guessed) == wanted:
        return guessed
    arguments, named = given
    alone = [argument(ev, a, []) for a in arguments], {name: argument(ev, a, []) for name, a in named.items()}
    if wanted is None or _results(ev, function, alone) != wanted:
        name = getattr(function, "__name__", function)
        raise ev.refuse(Feature.VALUE, f"{name} makes something else of a number than of a tensor")
    return alone


def _mapped_numbers(ev: Evaluator, value: Any) -> Any:
    """Arguments with numbers in place of the tensors that stand for them."""
    if id(value) in ev.numbers:
        example = ev.numbers[id(value)][1].example
        return 1 if example is None else example
    return symbolic.mapped(functools.partial(_mapped_numbers, ev), value)


def _results(ev: Evaluator, function: Any, given: Any) -> list[tf.DType] | None:
    """The dtypes of what a function gives, in a graph that is thrown away; None if it raises."""
    (arguments, named), count = given, len(ev.assertions)
    with tf_private.FuncGraph("try").as_default():
        try:
            found = function(*arguments, **named)
        except _RAISED:
            return None
        finally:
            del ev.assertions[count:]
    return [part.dtype for part in tf.nest.flatten(found, expand_composites=True) if isinstance(part, tf.Tensor)]


def _for_variable(ev: Evaluator, variable: tf.Variable, value: Any) -> Any:
    """What a variable is given: a number takes its dtype."""
    if not isinstance(value, DynamicValue) or value.is_array or ev.type_of(value) not in (int, float):
        return value
    dtype = variable.dtype
    if ev.type_of(value) is int and dtype.is_integer:
        return _integer(ev, value, dtype)
    if not dtype.is_floating:
        raise ev.refuse(Feature.RAISES, f"a float that differs from call to call, for a variable of {dtype.name}")
    return tf.identity(ev.tensor(value, dtype))


def name_scope_read(ev: Evaluator) -> None:
    """The program reads names that depend on the name scopes around the call."""
    if tf_private.current_graph() is not ev.graph:  # it has no names of its own yet
        raise ev.refuse(Feature.FRAMEWORK, "the name of a tf.name_scope is read where a tensor decides")
    if tf_private.name_scope() != tf_private.name_scope_in_graph():
        raise ev.refuse(Feature.FRAMEWORK, "a name is read below a tf.name_scope that begins with an underscore")
    ev.heap.asked_around(tf_private.name_scope, "the name scopes around the call", ev.where())


def _without_summary(ev: Evaluator, function: Callable[..., Any], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function that writes summaries, where nothing is around that lets it write any.

    Raises:
        Inconvertible: it may write, which could not be undone.
    """
    if tf_private.may_record_summaries():
        raise ev.refuse(Feature.SUMMARY, f"tf.summary.{function.__name__} may record summaries")
    ev.heap.asked_around(tf_private.may_record_summaries, "whether summaries may be recorded", ev.where())
    step = named.get("step")
    return {**named, "step": ev.tensor(step, tf.int64)} if isinstance(step, DynamicValue) else named


def _is_summary(function: Any) -> bool:
    """Whether a function writes summaries, whose step is an int64."""
    return getattr(tf.summary, str(getattr(function, "__name__", "")), None) is function


def _reason(ev: Evaluator, function: Any, error: Exception) -> Exception:
    """Why a call of a library's function failed; what our own code has raised in it, if it did."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Inconvertible | ProgramException | RestartConversion):
            return cause
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, tf.errors.OperatorNotAllowedInGraphError | NotImplementedError):
        return ev.refuse(Feature.IN_GRAPH, f"{getattr(function, '__name__', function)}: {described(error)}"[:300])
    if isinstance(error, _RAISED):
        return ev.refuse(Feature.RAISES, described(error))
    return error


_RAISED = (TypeError, ValueError, AssertionError, AttributeError, LookupError, RuntimeError, tf.errors.OpError)


def native_as_is(ev: Evaluator, function: Callable[..., Any], named: dict[str, Any]) -> Any:
    """A function that only moves the values that it is given."""
    try:
        return function(**named)
    except (TypeError, ValueError) as error:
        raise ev.refuse(Feature.RAISES, described(error)) from error


def argument(ev: Evaluator, value: Any, others: list[Any]) -> Any:
    """An argument as a library's function takes it."""
    if isinstance(value, PartialShape):
        value = list(value.dims)
    if isinstance(value, Iteration):
        return iter([argument(ev, member, others) for member in ev.members(value)])
    lifted = ev.lift(value)
    if any(isinstance(leaf, ListSegment) for leaf in symbolic.leaves([lifted])):
        raise ev.refuse_runs("a library function gets a list whose length only the graph knows")
    return _tensors_for_numbers(ev, lifted, others)


def _tensors_for_numbers(ev: Evaluator, value: Any, others: list[Any]) -> Any:
    if isinstance(value, DynamicValue):
        tensor = _number(ev, value, others)
        if not (value.is_array or isinstance(value.example, np.ndarray | np.generic)):
            ev.numbers[id(tensor)] = tensor, value
        return tensor
    if known.is_users_function(value):
        return Callback(ev, value)
    if isinstance(value, types.MethodType) and known.is_users_method(value):
        return Callback(ev, value)
    if isinstance(value, list | tuple) and any(isinstance(v, DynamicValue | list | tuple) for v in value):
        return rebuilt(value, [_tensors_for_numbers(ev, v, others) for v in value])
    return value


def _number(ev: Evaluator, value: DynamicValue, others: list[Any]) -> tf.Tensor:
    """A number for TensorFlow: beside tensors of floats it has their dtype, else what TensorFlow makes of it."""
    tensor = ev.tensor(value)
    if value.is_array or isinstance(value.example, np.ndarray | np.generic) or tensor.dtype in (tf.bool, tf.string):
        return tensor
    dtypes = [dtype for dtype in map(_dtype_of, others) if dtype is not None]
    if tensor.dtype.is_floating:
        return tf.cast(tensor, next((d for d in dtypes if d.is_floating), tf.float32))
    return _integer(ev, value, next((d for d in dtypes if d.is_integer), None))


def _integer(ev: Evaluator, value: DynamicValue, dtype: tf.DType | None) -> tf.Tensor:
    """An integer of a dtype that holds it: without another beside it int32 or, as in eager execution, int64."""
    wanted = dtype or tf.int32
    what = ev.noted(SameDecision, f"an integer within {wanted.name}")
    if value.tensor is None:
        fits = wanted.min <= value.example <= wanted.max
        ev.script.assume(f"({wanted.min} <= {value.name} <= {wanted.max}) is {fits}", what)
        if not fits and dtype is not None:
            raise ev.refuse(Feature.VALUE, f"an integer is out of the range of {wanted.name}")
        wanted = wanted if fits else tf.int64
    else:
        is_sure = wanted == tf.int64 or (value.limit is not None and value.limit <= _SURELY)
        if not is_sure:
            fits = (value.tensor >= wanted.min) & (value.tensor <= wanted.max)
            ev.assert_in_graph(fits, ev.noted(FittingInteger, what.what) if ev.inside(CalledBack) else what)
    return tf.identity(ev.tensor(value, wanted))  # the other stands for the number itself


# Integers of the graph that are known not to exceed this are dimensions, or have been int32: they fit.
_SURELY = 1 << 40

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
# Python calls these when it likes.
_AT_ANY_TIME = frozenset({"__del__", "<module>"})


@contextlib.contextmanager
def converted(ev: Evaluator) -> Iterator[None]:
    """While a library builds operations, what it calls of the user's becomes a part of the caller."""
    if ev.watch is None:
        ev.watch = native.frames().Watch()
        ev.watch.meet(functools.partial(_met, weakref.ref(ev)))
    with ev.within(Building(tf.compat.v1.get_default_graph())), watched(ev.watch):
        yield


def _met(of: weakref.ref[Evaluator], function: types.FunctionType) -> None:
    """A function is called whose code has not been seen in this conversion."""
    ev, code = of(), function.__code__
    assert ev is not None
    if code in REPLACED:
        ev.watch.handle(code, functools.partial(_replaced, of))
        return
    ev.may_have_drawn = ev.may_have_drawn or draws.may_draw(function, known.is_frameworks(function))
    is_left = code.co_name in _AT_ANY_TIME or not known.is_users(function) or known.is_generated(function)
    if is_left or not code.co_flags & inspect.CO_NEWLOCALS:
        ev.watch.handle(code, None)
    elif code.co_flags & _SUSPENDED:
        ev.watch.handle(code, None)
        raise ev.refuse(Feature.CALLEE, f"{code.co_qualname}, which a library resumes")
    else:
        ev.watch.handle(code, functools.partial(_called, of))


# Functions of libraries, by their code, that do something else while a call is converted. Given the values of their
# parameters, the rule gives what they return, or `PLAIN` to let them run.
REPLACED: dict[types.CodeType, Callable[[Evaluator, tuple[Any, ...]], Any]] = {}
PLAIN: Any = native.frames().PLAIN


def _replaced(of: weakref.ref[Evaluator], function: types.FunctionType, values: tuple[Any, ...]) -> Any:
    ev = of()
    assert ev is not None
    with watched(None):
        return REPLACED[function.__code__](ev, values)


def _called(of: weakref.ref[Evaluator], function: types.FunctionType, values: tuple[Any, ...]) -> Any:
    """A library calls a function of the user's."""
    ev = of()
    assert ev is not None
    if _is_no_part(values) or _is_made_here(function) or _is_traced(sys._getframe(1)):
        return PLAIN
    for value in values:
        if known.is_users_type(type(value)) and not isinstance(value, tuple | list | dict | set | frozenset):
            ev.heap.reached(value)
    arguments, named = arguments_of(function, values)
    is_once = (
        tf.compat.v1.get_default_graph() is ev.contexts.all(Building)[-1].graph
    )  # not in the body of a loop or branch of its own
    try:
        return Callback(ev, function, sequential=is_once)(*arguments, **named)
    except ProgramException as raised:  # Keras writes more into its message
        raise ev.refuse(Feature.RAISES, f"{function.__code__.co_qualname} raises in a library") from raised


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
