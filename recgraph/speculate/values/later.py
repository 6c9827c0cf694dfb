"""Python values that differ from call to call: operators and functions on them run in the script, before the graph or
after it, or in the graph where they come out of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe.known import DATA_TYPES, IN_PLACE
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.observe.syntax import site_of
from recgraph.speculate.script import stand_ins
from recgraph.speculate.script.assumptions import SameLength
from recgraph.speculate.script.stand_ins import COLLECTIONS, MadeFunction, MemberRun, Residual, Showing, is_symbolic
from recgraph.speculate.values import arithmetic, arrays, objects, script_calls, texts
from recgraph.speculate.values.arrays import _FLOATS, _INTEGERS, _METHODS, METHODS_ON_COPIES
from recgraph.speculate.values.objects import METHODS


def operate(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """A Python operator of which neither an object of the user's nor a tensor decides."""
    if len(operands) == 2 and (found := _of_containers(ev, function, operands)) is not NotImplemented:
        return found
    return ev.python(function, [ev.lift(o) for o in operands])


def takes_as_number(ev: Evaluator, value: Any) -> bool:
    """Whether a tensor on the left takes what is on the right as it would a number, before that is asked itself."""
    if hasattr(type(value), "__array__"):
        raise ev.refuse(
            Feature.OPERATOR, f"an operator converts a {type(value).__name__} to a tensor by its __array__ method"
        )
    return isinstance(value, int | float | complex | str | bytes | list | tuple)


_JOINING = (operator.add, operator.iadd, operator.mul, operator.imul, operator.or_, operator.ior)
_NUMBERS = (bool, int, float, complex)


def _of_containers(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """What only moves the members of containers, or does not look at them; else `NotImplemented`."""
    kinds = [type(o.example if isinstance(o, Residual) and not o.late else o) for o in operands]
    if function in (operator.eq, operator.ne) and kinds[0] is not kinds[1]:
        families = ["number" if kind in _NUMBERS else kind for kind in kinds]
        if all(kind in DATA_TYPES and kind not in (set, frozenset) for kind in kinds) and len(set(families)) == 2:
            return function is operator.ne
    if function in (operator.eq, operator.ne) and any(map(objects.is_object, stand_ins.leaves(operands))):
        return _compared(ev, function, operands)
    if function not in _JOINING or not any(isinstance(o, list | tuple | dict) for o in operands):
        return NotImplemented
    whole = [ev.opened(o) for o in operands]
    if not all(isinstance(o, COLLECTIONS) or type(o) in DATA_TYPES for o in whole):
        return NotImplemented
    script_calls._check_size(ev, function, whole, {})
    try:
        return function(*whole)
    except TypeError as error:
        raise ev.raised(error) from error


def _compared(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Whether two lists or tuples are equal that hold objects of the user's, which decide about themselves."""
    one, other = (ev.opened(operand) for operand in operands)
    if not isinstance(one, list | tuple) or not isinstance(other, list | tuple):
        return NotImplemented
    pairs = zip(one, other, strict=False)
    equal = len(one) == len(other) and all(objects.is_or_equals(ev, a, b) for a, b in pairs)
    return equal is (function is operator.eq)


def python(
    ev: Evaluator,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: dict[str, Any] | None = None,
) -> Any:
    """A pure function of Python's: now, where its arguments are known; else in the script."""
    named = named or {}
    if arguments and function in METHODS and objects.is_object(arguments[0]):
        return objects.builtin(ev, function, arguments)
    if arguments and texts.by_class(function, arguments[0]):
        if function is ascii:
            return ev.python(script_calls.escaped, [ev.python(repr, arguments)])
        return objects.builtin(ev, function, arguments)
    as_given = texts.shown if script_calls.makes_text(function, arguments) else Evaluator.lift
    arguments = [as_given(ev, a) for a in arguments]
    named = {name: as_given(ev, a) for name, a in named.items()}
    flat = list(stand_ins.leaves([*arguments, *named.values()]))
    objects.check(ev, function, flat)
    if not any(isinstance(a, Residual | Showing) or is_symbolic(a) for a in flat):
        if arrays.may_change(function, arguments, named):
            _check_made(ev, flat)
        script_calls._check_size(ev, function, arguments, named)
        try:
            found = function(*arguments, **named)
            return ev.heap.make(found) if isinstance(found, np.ndarray) else found
        except Exception as error:
            raise ev.raised(error) from error
    of_graph = any(is_symbolic(a) or (isinstance(a, Residual) and a.tensor is not None) for a in flat)
    if of_graph and not named and not any(isinstance(a, MemberRun) for a in flat):
        made = arrays.look(function, arguments) or arrays.apply(ev, function, arguments)
        made = made or arithmetic.apply(ev, function, arguments)
        if made is not None:
            return made
    if arguments and arrays.is_early(arguments[0]) and function in IN_PLACE:
        return script_calls.changed(ev, function, arguments[0], arguments[1:])
    if arrays.is_changed_by(function, arguments):
        script_calls.in_script(ev, function, arguments, named)
        return arguments[0]
    return script_calls.in_script(ev, function, arguments, named)


def _check_made(ev: Evaluator, values: Sequence[Any]) -> None:
    """That arrays which a call may change were made by the call that is converted."""
    for value in values:
        if isinstance(value, np.ndarray) and not ev.heap.is_made(value):
            raise ev.refuse(Feature.ARRAY, "the call may modify an array that it did not make")


class Method(MadeFunction):
    """A method of a residual, of a plain value with residuals in it, or of a tensor."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Calls it in the script."""
        example, late = self.owner, is_symbolic(self.owner)
        if isinstance(example, Residual):
            example, late = example.example, example.late
        if arrays.is_early(self.owner) and self.name in METHODS_ON_COPIES and not named:
            script_calls.changed(ev, self.name, self.owner, arguments)
            return None
        if not late and not isinstance(example, (*DATA_TYPES, np.ndarray, np.generic)):
            raise ev.refuse(Feature.METHOD, f"{type(example).__name__}.{self.name} runs eagerly")
        if arguments or named:
            return script_calls.in_script(ev, stand_ins.call_method, [self.owner, self.name, *arguments], named)
        return script_calls.in_script(ev, operator.methodcaller(self.name), [self.owner], {})


class Later(Kind):
    """A Python value that differs from call to call: operations on it run in the script, or in the graph."""

    name = "a value that differs from call to call"

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Every `Residual`."""
        return isinstance(value, Residual)

    def truth(self) -> Any:
        """In the graph where it comes out of it."""
        if self.it.is_array and self.it.tensor is not None:
            return self.ev.truth(self.it.tensor)
        if self.it.tensor is not None:
            return tf.cast(self.it.tensor, tf.bool)
        if self.it.late:
            raise self.ev.refuse(
                Feature.LATE_DECISION, "the program branches on a value that is known only after the graph has run"
            )
        return self.it

    def type(self) -> type:
        """Assumed, unless the graph knows it."""
        return script_calls.type_of(self.ev, self.it)

    def call(self, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Which function it is, is assumed."""
        return self.ev.call(self.ev.concrete(self.it), arguments, named)

    def get(self, name: str) -> Any:
        """An attribute, or a method to be called."""
        ev, owner = self.ev, self.it
        if owner.is_array and (found := array_attribute(ev, owner, name)) is not None:
            return found
        if owner.late:
            return Method(owner, name)
        value = getattr(owner.example, name, None)
        if isinstance(owner.example, np.ndarray) and name in ("shape", "ndim", "dtype", "size"):
            script_calls.as_tensor(ev, owner)  # assumes dtype and shape
            return value
        return Method(owner, name) if callable(value) else script_calls.in_script(ev, getattr, [owner, name], {})

    def put(self, name: str, value: Any) -> None:
        """Is refused."""
        raise self.ev.refuse(Feature.ATTRIBUTE, "an attribute of a tensor or number is assigned")

    def item(self, index: Any) -> Any:
        """In the graph where that knows it; else in the script."""
        if self.it.is_array and (found := arrays.item(self.it, index)) is not None:
            return found
        return script_calls.in_script(self.ev, stand_ins.get_item, [self.it, self.ev.lift(index)], {})

    def set_item(self, index: Any, value: Any) -> None:
        """Of an array."""
        if not self.it.is_array:
            raise self.ev.refuse(Feature.INDEX, "an item is assigned in a value that varies from call to call")
        script_calls.in_script(self.ev, operator.setitem, [self.it, self.ev.lift(index), self.ev.lift(value)], {})

    def contains(self, member: Any) -> Any:
        """In the script."""
        if is_symbolic(member):
            raise self.ev.refuse(Feature.IN, "`in` is used with a tensor")
        return self.ev.python(stand_ins.contains, [self.it, member])

    def members(self) -> list[Any]:
        """As many as there are in this call, which is assumed."""
        ev, iterable = self.ev, self.it
        if iterable.is_array and (members := arrays.members(iterable)) is not None:
            return members
        if iterable.late or not isinstance(iterable.example, np.ndarray | list | tuple | str | range):
            raise ev.refuse(
                Feature.ITERATOR,
                "a loop iterates over a value that varies and is no range, list, tuple, string or array",
            )
        count = len(iterable.example)
        trips = SameLength(f"{count} rounds of a loop", ev.where(), (site_of(ev.frame.syntax, ev.here, "trips"), 0))
        ev.script.assume(f"len({iterable.name}) == {count}", trips)
        return [script_calls.in_script(ev, stand_ins.get_item, [iterable, i], {}) for i in range(count)]

    def length(self) -> Any:
        """Known where the graph knows it."""
        if arrays.is_array(self.it) and self.it.tensor.shape.rank and self.it.tensor.shape[0] is not None:
            return int(self.it.tensor.shape[0])
        return self.ev.python(len, [self.it])

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """In the graph or the script."""
        return operate(self.ev, function, operands)


def array_attribute(ev: Evaluator, array: Residual, name: str) -> Any:
    """An attribute of an array; None where NumPy has to be asked."""
    shape = array.tensor.shape if array.tensor is not None else tf.TensorShape(None)
    if array.tensor is None or not shape.is_fully_defined():
        return None
    facts = {"shape": tuple(shape), "ndim": shape.rank, "size": shape.num_elements()}
    if name == "dtype":
        return np.dtype(array.tensor.dtype.as_numpy_dtype)
    return facts.get(name, ArrayMethod(array, name) if name in _METHODS or name in ("item", "tolist") else None)


class ArrayMethod(MadeFunction):
    """A method of an array that looks at it."""

    def __init__(self, array: Residual, name: str) -> None:
        self.array, self.name = array, name

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Calls it, in the graph where that is the same."""
        if not arguments and not named and self.array.tensor is not None:
            if self.name in _METHODS:
                found = arrays.look(getattr(np, self.name), [self.array])
            else:
                found = _as_python(ev, self.array.tensor, self.name)
            if found is not None:
                return found
        return Method(self.array, self.name).call(ev, arguments, named)


def _as_python(ev: Evaluator, tensor: tf.Tensor, name: str) -> Residual | None:
    """`item()`, or `tolist()` of one number."""
    kinds = {tf.bool: bool, **dict.fromkeys(_FLOATS, float), **dict.fromkeys(_INTEGERS, int)}
    if tensor.dtype not in kinds or tensor.shape.num_elements() != 1 or (name == "tolist" and tensor.shape.rank != 0):
        return None
    found: Residual = arithmetic.number_of(ev, kinds[tensor.dtype], tensor)
    return found
