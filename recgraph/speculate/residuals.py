"""Python values that differ from call to call: operators and functions on them run in the script, before the graph or
after it, or in the graph where they come out of it.
"""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.speculate import (
    arithmetic,
    arrays,
    calls,
    containers,
    guarding,
    known,
    probing,
    protocols,
    searching,
    shapes,
    showing,
    sizes,
)
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.reasons import Inconvertible
from recgraph.speculate.values import Residual, Run, StandIn, fixed, is_symbolic, is_tensor_like, mapped, read_variable

_NUMBER_DTYPES = frozenset({tf.bool, tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.uint8, tf.uint16, tf.uint32,
                      tf.uint64, tf.int8, tf.int16, tf.int32, tf.int64})  # fmt: skip


@functools.cache
def _eager_tensor() -> tf.Tensor:
    """One with the attributes of every eager tensor; on import it would settle how many threads TensorFlow has."""
    with tf.init_scope():
        return tf.constant(0.0)


def operate(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """A Python operator on values of any kind."""
    operands = [shapes.as_value(ev, o) if isinstance(o, shapes.PartialShape) else o for o in operands]
    if any(map(protocols.is_object, operands)) and not _takes_as_number(ev, operands):
        return protocols.operate(ev, function, operands)
    if function in (operator.mod, operator.imod) and showing.is_text(operands[0]):
        return python(ev, function, operands)
    if any(map(is_tensor_like, operands)):
        return _on_tensors(ev, function, operands)
    if len(operands) == 2 and (found := _of_containers(ev, function, operands)) is not NotImplemented:
        return found
    return python(ev, function, [containers.lift(ev, o) for o in operands])


def _takes_as_number(ev: Evaluator, operands: Sequence[Any]) -> bool:
    """Whether a tensor on the left takes what is on the right as it would a number, before that is asked itself."""
    if len(operands) < 2 or not is_tensor_like(operands[0]):
        return False
    if hasattr(type(operands[1]), "__array__"):
        raise ev.refuse("operator", f"a tensor makes a tensor of a {type(operands[1]).__name__}")
    return isinstance(operands[1], int | float | complex | str | bytes | list | tuple)


_JOINING = (operator.add, operator.iadd, operator.mul, operator.imul, operator.or_, operator.ior)
_NUMBERS = (bool, int, float, complex)


def _of_containers(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """What only moves the members of containers, or does not look at them; else `NotImplemented`."""
    kinds = [type(o.example if isinstance(o, Residual) and not o.late else o) for o in operands]
    if function in (operator.eq, operator.ne) and kinds[0] is not kinds[1]:
        families = ["number" if kind in _NUMBERS else kind for kind in kinds]
        if all(kind in known.DATA_TYPES and kind not in (set, frozenset) for kind in kinds) and len(set(families)) == 2:
            return function is operator.ne
    if function in (operator.eq, operator.ne) and any(map(protocols.is_object, leaves(operands))):
        return _compared(ev, function, operands)
    if function not in _JOINING or not any(isinstance(o, list | tuple | dict) for o in operands):
        return NotImplemented
    whole = [containers.opened(ev, o) for o in operands]
    if not all(isinstance(o, containers.COLLECTIONS) or type(o) in known.DATA_TYPES for o in whole):
        return NotImplemented
    _check_size(ev, function, whole, {})
    try:
        return function(*whole)
    except TypeError as error:
        raise ev.raised(error) from error


def _compared(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Whether two lists or tuples are equal that hold objects of the user's, which decide about themselves."""
    one, other = (containers.opened(ev, operand) for operand in operands)
    if not isinstance(one, list | tuple) or not isinstance(other, list | tuple):
        return NotImplemented
    pairs = zip(one, other, strict=False)
    equal = len(one) == len(other) and all(searching.is_or_equals(ev, a, b) for a, b in pairs)
    return equal is (function is operator.eq)


def _on_tensors(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    dtype = next(tf.as_dtype(o.dtype) for o in operands if is_tensor_like(o))
    lifted = [_beside(ev, o, dtype) for o in operands]
    if any(isinstance(o, tf.Variable) for o in lifted[:1]) and function in known.IN_PLACE:
        raise ev.refuse("in-place variable", "an in-place operator on a variable")
    return calls.native(ev, function, lifted, {})


def _beside(ev: Evaluator, value: Any, dtype: tf.DType) -> Any:
    """An operand of an operator whose other operand is a tensor: numbers take its dtype, as in eager."""
    if isinstance(value, Residual):
        tensor = as_tensor(ev, value)
        if isinstance(value.example, np.ndarray | np.generic) or tensor.dtype == dtype:
            return tensor
        if value.is_array:
            raise ev.refuse("array", f"an array of {tensor.dtype.name} beside a tensor of {dtype.name}")
        if tensor.dtype.is_floating and not (dtype.is_floating or dtype.is_complex):
            raise ev.refuse("raises", "a float beside an integer tensor")
        return tf.cast(tensor, dtype)
    return containers.lift(ev, value)


def as_tensor(ev: Evaluator, value: Residual, dtype: tf.DType | None = None) -> tf.Tensor:
    """A tensor of the graph with the value: int64 or float64 for numbers unless another dtype is wanted."""
    if value.tensor is not None:
        return value.tensor if dtype is None else tf.cast(value.tensor, dtype)
    if value.late:
        raise ev.refuse("late value", "a value that is known only after the graph is used by it")
    example = value.example
    if isinstance(example, np.ndarray | np.generic):
        array = np.asarray(example)
        kind = assumption("type", "dtype and rank of an array", ev.where())
        ev.script.assume(f"{value.name}.dtype == {ev.script.constant(array.dtype)}", kind)
        ev.script.assume(f"{value.name}.shape == {array.shape}", kind)
        return ev.heap.fed(value.name, tf.TensorSpec(array.shape, array.dtype))
    natural = {bool: tf.bool, int: tf.int64, float: tf.float64, str: tf.string, bytes: tf.string}.get(type(example))
    if natural is None:
        raise ev.refuse("value", f"a {type(example).__name__} that differs from call to call")
    if known.may_change_type(type(example)):
        kind = assumption("type", f"a {type(example).__name__}", ev.where())
        ev.script.assume(f"type({value.name}) is {ev.script.constant(type(example))}", kind)
    tensor = ev.heap.fed(value.name, tf.TensorSpec([], natural))
    return tensor if dtype is None else tf.cast(tensor, dtype)


def python(
    ev: Evaluator,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: dict[str, Any] | None = None,
) -> Any:
    """A pure function of Python's: now, where its arguments are known; else in the script."""
    named = named or {}
    if arguments and function in protocols.METHODS and protocols.is_object(arguments[0]):
        return protocols.builtin(ev, function, arguments)
    if arguments and showing.by_class(function, arguments[0]):
        if function is ascii:
            return python(ev, showing.escaped, [python(ev, repr, arguments)])
        return protocols.builtin(ev, function, arguments)
    as_given = showing.shown if showing.makes_text(function, arguments) else containers.lift
    arguments = [as_given(ev, a) for a in arguments]
    named = {name: as_given(ev, a) for name, a in named.items()}
    flat = list(leaves([*arguments, *named.values()]))
    protocols.check(ev, function, flat)
    if not any(isinstance(a, Residual | showing.Showing) or is_symbolic(a) for a in flat):
        if arrays.may_change(function, arguments, named):
            _check_made(ev, flat)
        _check_size(ev, function, arguments, named)
        try:
            found = function(*arguments, **named)
            return ev.heap.make(found) if isinstance(found, np.ndarray) else found
        except Exception as error:
            raise ev.raised(error) from error
    of_graph = any(is_symbolic(a) or (isinstance(a, Residual) and a.tensor is not None) for a in flat)
    if of_graph and not named and not any(isinstance(a, Run) for a in flat):
        made = arrays.look(function, arguments) or arrays.apply(ev, function, arguments)
        made = made or arithmetic.apply(ev, function, arguments)
        if made is not None:
            return made
    if arguments and arrays.is_early(arguments[0]) and function in known.IN_PLACE:
        return arrays.changed(ev, function, arguments[0], arguments[1:])
    if arrays.is_changed_by(function, arguments):
        in_script(ev, function, arguments, named)
        return arguments[0]
    return in_script(ev, function, arguments, named)


def _check_made(ev: Evaluator, values: Sequence[Any]) -> None:
    """That arrays which a call may change were made by the call that is converted."""
    for value in values:
        if isinstance(value, np.ndarray) and not ev.heap.is_made(value):
            raise ev.refuse("array", "an array may be changed that was there before")


def _check_size(ev: Evaluator, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> None:
    """That what the program may not come to, in this call, does not take all memory."""
    if sizes.is_large(function, *arguments, **named) and guarding.is_guarded(ev):
        raise ev.refuse("size", "a large result where the graph decides whether the program comes to it")


def leaves(values: Any) -> Any:
    """All that containers hold."""
    for value in values:
        if isinstance(value, list | tuple | set | frozenset | collections.deque):
            yield from leaves(value)
        elif isinstance(value, dict):
            yield from leaves(value.values())
        elif isinstance(value, slice):
            yield from (value.start, value.stop, value.step)
        else:
            yield value


def in_script(ev: Evaluator, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> Residual:
    """A call that the script makes: before the graph where all arguments are known then, else after it."""
    residuals = [a for a in leaves([*arguments, *named.values()]) if isinstance(a, Residual)]
    symbolic = any(is_symbolic(a) or isinstance(a, showing.Showing) for a in leaves([*arguments, *named.values()]))
    for array in {id(a): a for a in residuals if arrays.is_array(a) and a.tensor.shape.rank != 0}.values():
        if not showing.makes_text(function, arguments):
            arrays.keep(ev, array)
    name = ev.script.name()
    call = ev.script.constant(function)
    everything = [*leaves([*arguments, *named.values()])]
    has_early = any(arrays.is_early(a) or isinstance(a, np.ndarray) for a in everything)
    if has_early and arrays.may_change(function, arguments, named):
        raise ev.refuse("array", "an array may be changed that was there before the graph")
    if symbolic or any(a.late for a in residuals):
        ev.need_sequence("a value that is known only after the graph")
        found, is_pure = probing.results(function, arguments, named), probing.is_pure(function, arguments, named)
        is_pure = is_pure and not _were_changed(ev, residuals)
        given, keywords = showing.settled(list(arguments)), showing.settled(dict(named))
        ev.effects.append(calls.LateCall(name, call, given, keywords, is_pure, found is None))
        texts = showing.TEXTS if showing.gives_text(function, arguments) else ()
        return Residual(name, late=True, samples=found or texts)
    code = ", ".join([*(ev.code(a) for a in arguments), *(f"{k}={ev.code(v)}" for k, v in named.items())])
    examples = [*map(example_of, arguments)]
    examples_named = {k: example_of(v) for k, v in named.items()}
    _check_size(ev, function, examples, examples_named)
    if sizes.may_grow(function, *examples, **examples_named) and guarding.is_guarded(ev):
        ev.script.scope["is_large"] = sizes.is_large
        ev.script.assume(f"not is_large({call}, {code})", ev.noted("cost", "a result of moderate size"))
    try:
        example = arrays.note_views(function(*examples, **examples_named), everything)
    except Exception as error:
        if "read-only" in str(error):
            raise ev.refuse("array", "an array may be changed that was there before") from error
        raise _raised_in_script(ev, f"{call}({code})", error) from error
    kind = "presence" if ev.handlers else "raises"
    failing = ev.script.number(assumption(kind, f"{getattr(function, '__name__', function)}", ev.where()))
    ev.script.before += [f"try: {name} = {call}({code})", f"except Exception: return broken({failing})"]
    return Residual(name, example)


def _were_changed(ev: Evaluator, values: Sequence[Residual]) -> bool:
    """Whether the call has done something to arrays after the graph, before which nothing may look at them."""
    arrays_of_numpy = {id(value) for value in values if value.is_array and value.tensor is None}
    changed = (leaf for effect in ev.effects if not effect.is_pure for leaf in leaves(effect.arguments))
    return bool(arrays_of_numpy) and any(id(leaf) in arrays_of_numpy for leaf in changed)


def _raised_in_script(ev: Evaluator, code: str, error: Exception) -> Inconvertible:
    """What a call raises that the script makes: the same kind of exception in each run."""
    if not ev.handlers:
        return ev.refuse("raises", f"{type(error).__name__}: {error}")
    name, kind = ev.script.name(), ev.script.constant(type(error))
    number = ev.script.number(ev.noted("decision", f"{type(error).__name__} is raised"))
    ev.script.before += [
        f"try: {name} = {code}",
        f"except Exception as error: {name} = error.with_traceback(None)",
        f"if type({name}) is not {kind}: return broken({number})",
    ]
    return ev.raised(Residual(name, error.with_traceback(None)))


def example_of(value: Any) -> Any:
    """A value with the examples of the residuals in it."""
    if isinstance(value, Residual):
        return value.example
    return fixed(value) if isinstance(value, np.ndarray) else mapped(example_of, value)


def type_of(ev: Evaluator, value: Residual) -> type:
    """The type of a value that differs from call to call."""
    if value.is_array:
        return arrays.type_of(value)
    if value.tensor is not None:
        return {tf.bool: bool, tf.int64: int, tf.float64: float}[value.tensor.dtype]
    if value.late:
        raise ev.refuse("late value", "the type of a value that is known only after the graph")
    kind = type(value.example)
    same = assumption("type", f"a {kind.__name__}", ev.where())
    ev.script.assume(f"type({value.name}) is {ev.script.constant(kind)}", same)
    return kind


def attribute(ev: Evaluator, owner: Residual, name: str) -> Any:
    """An attribute or method of a value that differs from call to call."""
    if owner.is_array and (found := arrays.attribute(ev, owner, name)) is not None:
        return found
    if owner.late:
        return Method(owner, name)
    value = getattr(owner.example, name, None)
    if isinstance(owner.example, np.ndarray) and name in ("shape", "ndim", "dtype", "size"):
        as_tensor(ev, owner)  # assumes dtype and shape
        return value
    if callable(value):
        return Method(owner, name)
    return in_script(ev, getattr, [owner, name], {})


class Method(StandIn):
    """A method of a residual, of a plain value with residuals in it, or of a tensor."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Calls it in the script."""
        example, late = self.owner, is_symbolic(self.owner)
        if isinstance(example, Residual):
            example, late = example.example, example.late
        if arrays.is_early(self.owner) and self.name in arrays.METHODS_ON_COPIES and not named:
            arrays.changed(ev, self.name, self.owner, arguments)
            return None
        if not late and not isinstance(example, (*known.DATA_TYPES, np.ndarray, np.generic)):
            raise ev.refuse("method", f"{type(example).__name__}.{self.name} runs eagerly")
        return in_script(ev, operator.methodcaller(self.name, *()) if not arguments and not named else _call_method,
                         [self.owner] if not arguments and not named else [self.owner, self.name, *arguments],
                         named)  # fmt: skip


def _call_method(owner: Any, name: str, /, *arguments: Any, **named: Any) -> Any:
    return getattr(owner, name)(*arguments, **named)


def tensor_attribute(ev: Evaluator, owner: Any, name: str) -> Any:
    """An attribute of a tensor of the graph. What only eager tensors have is made after the graph."""
    if name == "numpy" and isinstance(owner, tf.Tensor):
        return arrays.Numpy(owner)
    if name in ("numpy", "tolist", "__str__", "__repr__", "__format__"):
        return Method(owner, name)
    if name == "shape" and isinstance(owner, tf.Tensor):
        return shapes.of(ev, owner)
    if name == "device":
        raise ev.refuse("device", "the device of a tensor")
    if isinstance(owner, tf.Tensor) and not hasattr(_eager_tensor(), name):
        raise ev.refuse("raises", f"an eager tensor has no {name}")
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise ev.refuse("raises", str(error)) from error


def number_of(ev: Evaluator, kind: type, value: Any) -> Any:
    """`float(x)`, `int(x)` or `bool(x)` of a tensor: a number that comes out of the graph."""
    value = read_variable(value)
    if value.dtype not in _NUMBER_DTYPES or value.shape.num_elements() not in (None, 1):
        raise ev.refuse("raises", f"{kind.__name__} of a tensor of several elements")
    scalar = tf.reshape(value, [])
    if not (scalar.dtype.is_floating or scalar.dtype.is_integer or scalar.dtype.is_bool):
        raise ev.refuse("number", f"{kind.__name__} of a tensor of {scalar.dtype.name}")
    if kind is int and scalar.dtype.is_floating:
        whole = tf.cast(scalar, tf.float64)
        return arithmetic.to_integer(ev, tf.where(whole < 0, tf.math.ceil(whole), tf.floor(whole)))
    if kind is int and scalar.dtype == tf.uint64:
        raise ev.refuse("number", "an integer of 64 bits without a sign")
    wanted = {float: tf.float64, int: tf.int64, bool: tf.bool}[kind]
    limit = None if kind is not int or scalar.dtype in (tf.int64, tf.bool) else 1 << 32
    return Residual("", tensor=tf.cast(scalar, wanted), late=True, limit=limit)
