"""Arithmetic of Python numbers that come out of the graph, done in it: as Python does, or an assertion breaks.

Integers have 64 bits in the graph. What is known of their size (`DynamicValue.limit`) mostly tells that this is enough;
else the graph checks it, and a call with larger ones runs eagerly.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf

from recgraph.speculate.machine.evaluator import Evaluator, registering
from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script.assumptions import Assumption, FittingInteger, NoException
from recgraph.speculate.script.symbolic import HELD, DynamicValue, read_variable
from recgraph.speculate.values import arrays

_FULL: Final = 1 << 63
_EXACT_IN_FLOAT: Final = 1 << 53
# By how much a number may grow in a round of a loop without a check: it takes years until it is too large.
_STEP: Final = 1 << 32
_Rule = Callable[["NumberOperation"], DynamicValue]
RULES: dict[Any, _Rule] = {}
# Says how a function of numbers is done in the graph.
rule = registering(RULES)


class NumberOperation:
    """One operation on numbers.

    Attributes:
        tensors: the operands, int64 or float64.
        limits: of integers, what their absolute values do not exceed; None if nothing is known.
        is_float: whether the operands are floats, or made floats for the operation.
        mixed: whether integers were among floats.
        is_bool: whether all are truth values, which the tensors are then, too.
        had_bool: whether one was.
    """

    def __init__(self, ev: Evaluator, function: Any, arguments: Sequence[Any], node: ast.AST) -> None:
        self.ev, self.function, self.node = ev, function, node
        self.tensors = [_tensor(ev, a) for a in arguments]
        self.limits = [_limit(a, t) for a, t in zip(arguments, self.tensors, strict=True)]
        floats = [tensor.dtype == tf.float64 for tensor in self.tensors]
        self.is_bool = all(tensor.dtype == tf.bool for tensor in self.tensors)
        self.had_bool = any(tensor.dtype == tf.bool for tensor in self.tensors)
        self.is_float, self.mixed = any(floats), any(floats) and not all(floats)
        if not self.is_bool:
            self.tensors = [tf.cast(t, tf.float64 if self.is_float else tf.int64) for t in self.tensors]

    @property
    def integers(self) -> list[tf.Tensor]:
        """The operands, truth values as numbers."""
        return [tf.cast(t, tf.int64) if t.dtype == tf.bool else t for t in self.tensors]

    def result(self, tensor: tf.Tensor, limit: int | None = None) -> DynamicValue:
        """A number that comes out of the graph."""
        return DynamicValue("", tensor=tensor, late=True, limit=limit)

    def hold(self, condition: tf.Tensor, kind: type[Assumption], what: str) -> None:
        """Goes on only where a condition holds."""
        self.ev.assert_in_graph(condition, self.ev.noted(kind, what, at=self.node))

    def hold_exact(self) -> None:
        """Goes on only where all integers are floats exactly."""
        for tensor, limit in zip(self.tensors, self.limits, strict=True):
            if limit is None or limit >= _EXACT_IN_FLOAT:
                small = tf.abs(tf.cast(tensor, tf.float64)) < float(_EXACT_IN_FLOAT)
                self.hold(small, FittingInteger, "an integer that is a float exactly")

    def hold_divisor(self, value: Any) -> None:
        """Goes on only where the divisor is not 0."""
        if isinstance(value, DynamicValue):
            self.hold(tf.not_equal(self.tensors[1], 0), NoException, "the divisor is not 0")


def apply(ev: Evaluator, function: Any, arguments: Sequence[Any]) -> DynamicValue | None:
    """The value of a function of numbers in the graph; None where it is not done there."""
    how = RULES.get(function) if known.is_hashable(function) else None
    if how is not None and getattr(function, "__module__", "") == "math":
        arguments = [_as_number(ev, a) for a in arguments]
    if how is None or not all(_is_number(a) for a in arguments) or (how is _rounding and len(arguments) > 1):
        return None
    if function in _DIVISIONS and not isinstance(arguments[1], DynamicValue) and not arguments[1]:
        raise ev.refuse(Feature.RAISES, "ZeroDivisionError")
    made = NumberOperation(ev, function, arguments, ev.here)
    if function in _DIVISIONS:
        made.hold_divisor(arguments[1])
    return how(made)


def extreme(ev: Evaluator, function: Any, members: Sequence[Any]) -> DynamicValue | None:
    """`min` or `max` of numbers of one type; None where it is not found in the graph."""
    if not members or not all(map(_is_number, members)):
        return None
    made = NumberOperation(ev, function, members, ev.here)
    if made.mixed or made.is_bool or made.had_bool:
        return None
    best, *others = made.tensors
    for other in others:
        best = tf.where(other > best if function is max else other < best, other, best)
    known = [limit for limit in made.limits if limit is not None]
    return made.result(best, max(known) if len(known) == len(members) else None)


def _as_number(ev: Evaluator, value: Any) -> Any:
    """A number for the functions of `math`, which take those of NumPy's, too."""
    is_float = arrays.is_array(value) and value.tensor.dtype.is_floating
    return number_of(ev, float, value.tensor) if is_float and value.tensor.shape.rank == 0 else value


def _is_number(value: Any) -> bool:
    if isinstance(value, DynamicValue):
        kinds = (tf.bool, tf.int64, tf.float64)
        if value.is_array or (value.late and value.tensor is None):
            return False
        return value.tensor.dtype in kinds if value.tensor is not None else type(value.example) in (bool, int, float)
    return type(value) in (bool, float) or (type(value) is int and abs(value) < _FULL)


def _tensor(ev: Evaluator, value: Any) -> tf.Tensor:
    return ev.tensor(value)


def _limit(value: Any, tensor: tf.Tensor) -> int | None:
    if tensor.dtype == tf.bool:
        return 1
    if isinstance(value, DynamicValue):
        return value.limit
    return abs(value) if isinstance(value, int) else 0


def kept_in_loop(ev: Evaluator, value: DynamicValue) -> tf.Tensor:
    """An integer that goes into a branch's or loop's variable: it is smaller than those may be."""
    tensor = ev.tensor(value)
    if tensor.dtype == tf.int64 and (value.limit is None or value.limit > HELD + _STEP):
        small = tf.logical_and(tensor < HELD, tensor > -HELD)
        ev.assert_in_graph(small, ev.noted(FittingInteger, "an integer of 62 bits"))
    return tensor


@rule(operator.add, operator.iadd, operator.sub, operator.isub, operator.mul, operator.imul)
def _arithmetic(made: NumberOperation) -> DynamicValue:
    if made.is_float:
        return made.result(made.function(*made.tensors))
    one, other = made.limits
    tensors = made.integers
    multiplies = made.function in (operator.mul, operator.imul)
    limit = None if one is None or other is None else one * other if multiplies else one + other
    if limit is None or limit >= _FULL:
        size = tf.abs(made.function(*(tf.cast(t, tf.float64) for t in tensors)))
        made.hold(size < float(HELD), FittingInteger, "an integer of 62 bits")
        limit = HELD
    return made.result(made.function(*tensors), limit)


@rule(operator.neg, operator.pos, operator.abs, abs)
def _sign(made: NumberOperation) -> DynamicValue:
    tensor = made.integers[0]
    if not made.is_float and (made.limits[0] is None or made.limits[0] >= _FULL):
        made.hold(tensor > -_FULL, FittingInteger, "an integer of 63 bits")
    function = {operator.pos: tf.identity, operator.neg: tf.negative}.get(made.function, tf.abs)
    return made.result(function(tensor), None if made.is_float else made.limits[0])


@rule(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
def _comparison(made: NumberOperation) -> DynamicValue:
    if made.mixed:
        made.hold_exact()
    return made.result(made.function(*made.integers))


@rule(operator.and_, operator.or_, operator.xor, operator.iand, operator.ior, operator.ixor)
def _bits(made: NumberOperation) -> DynamicValue:
    if made.is_float:
        raise made.ev.refuse(Feature.RAISES, f"{made.function.__name__} of floats", at=made.node)
    on_bools, on_integers = _LOGICAL[made.function]
    if made.is_bool:
        return made.result(on_bools(*made.tensors))
    known = [limit for limit in made.limits if limit is not None]
    return made.result(on_integers(*made.integers), 2 * max(known) + 1 if len(known) == 2 else None)


_AND, _OR = (tf.logical_and, tf.bitwise.bitwise_and), (tf.logical_or, tf.bitwise.bitwise_or)
_XOR = tf.math.logical_xor, tf.bitwise.bitwise_xor
_LOGICAL: Final[dict[Any, tuple[Any, Any]]] = {
    operator.and_: _AND, operator.iand: _AND, operator.or_: _OR, operator.ior: _OR, operator.xor: _XOR,
    operator.ixor: _XOR,
}  # fmt: skip


@rule(operator.truediv, operator.itruediv)
def _division(made: NumberOperation) -> DynamicValue:
    if not made.is_float:
        made.hold_exact()
    one, other = (tf.cast(t, tf.float64) for t in made.integers)
    return made.result(one / other)


@rule(operator.floordiv, operator.ifloordiv)
def _floor_division(made: NumberOperation) -> DynamicValue:
    one, other = made.integers
    if made.is_float:
        return made.result(_divmod(one, other)[0])
    _hold_smallest(made)
    return made.result(one // other, made.limits[0])


@rule(operator.mod, operator.imod)
def _remainder(made: NumberOperation) -> DynamicValue:
    one, other = made.integers
    if made.is_float:
        return made.result(_divmod(one, other)[1])
    _hold_smallest(made)
    return made.result(tf.math.floormod(one, other), made.limits[1])


def _hold_smallest(made: NumberOperation) -> None:
    """The smallest integer has no opposite."""
    if made.limits[0] is None or made.limits[0] >= _FULL:
        made.hold(made.integers[0] > -_FULL, FittingInteger, "an integer of 63 bits")


def _divmod(one: tf.Tensor, other: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Python's `divmod` of floats, step by step."""
    rest = tf.truncatemod(one, other)
    quotient = (one - rest) / other
    zero = tf.zeros([], tf.float64)
    is_off = tf.logical_and(tf.not_equal(rest, 0), tf.not_equal(rest < 0, other < 0))
    quotient = tf.where(is_off, quotient - 1.0, quotient)
    rest = tf.where(is_off, rest + other, rest)
    rest = tf.where(tf.equal(rest, 0), _with_sign(zero, other), rest)
    floor = tf.floor(quotient)
    floor = tf.where(quotient - floor > 0.5, floor + 1.0, floor)
    return tf.where(tf.equal(quotient, 0), _with_sign(zero, one / other), floor), rest


def _with_sign(value: tf.Tensor, sign: tf.Tensor) -> tf.Tensor:
    is_negative = tf.bitcast(sign, tf.int64) < 0
    return tf.where(is_negative, -value, value)


_DIVISIONS: Final = frozenset({
    operator.truediv, operator.itruediv, operator.floordiv, operator.ifloordiv, operator.mod, operator.imod
})  # fmt: skip


@rule(math.isnan, math.isinf, math.isfinite)
def _kind_of_float(made: NumberOperation) -> DynamicValue:
    function = {math.isnan: tf.math.is_nan, math.isinf: tf.math.is_inf}.get(made.function, tf.math.is_finite)
    return made.result(function(tf.cast(made.integers[0], tf.float64)))


@rule(math.sqrt)
def _root(made: NumberOperation) -> DynamicValue:
    value = tf.cast(made.integers[0], tf.float64)
    made.hold(value >= 0.0, NoException, "a root of a number that is not negative")
    return made.result(tf.sqrt(value))


@rule(math.floor, math.ceil, round)
def _rounding(made: NumberOperation) -> DynamicValue:
    if not made.is_float:
        return made.result(made.integers[0], made.limits[0])
    function = {math.floor: tf.floor, math.ceil: tf.math.ceil}.get(made.function, tf.round)
    with made.ev.at(made.node):
        return to_integer(made.ev, function(made.tensors[0]))


def to_integer(ev: Evaluator, whole: tf.Tensor) -> DynamicValue:
    """A float without a fraction as an integer."""
    fits = tf.abs(tf.cast(whole, tf.float64)) < float(HELD)  # false for what is not a number
    ev.assert_in_graph(fits, ev.noted(FittingInteger, "a float as an integer of 62 bits"))
    return DynamicValue("", tensor=tf.cast(whole, tf.int64), late=True, limit=HELD)


_NUMBER_DTYPES = frozenset({tf.bool, tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.uint8, tf.uint16, tf.uint32,
                      tf.uint64, tf.int8, tf.int16, tf.int32, tf.int64})  # fmt: skip


def number_of(ev: Evaluator, kind: type, value: Any) -> Any:
    """`float(x)`, `int(x)` or `bool(x)` of a tensor: a number that comes out of the graph."""
    value = read_variable(value)
    if value.dtype not in _NUMBER_DTYPES or value.shape.num_elements() not in (None, 1):
        raise ev.refuse(Feature.RAISES, f"{kind.__name__} of a tensor of several elements")
    scalar = tf.reshape(value, [])
    if not (scalar.dtype.is_floating or scalar.dtype.is_integer or scalar.dtype.is_bool):
        raise ev.refuse(Feature.NUMBER, f"{kind.__name__} of a tensor of {scalar.dtype.name}")
    if kind is int and scalar.dtype.is_floating:
        whole = tf.cast(scalar, tf.float64)
        return to_integer(ev, tf.where(whole < 0, tf.math.ceil(whole), tf.floor(whole)))
    if kind is int and scalar.dtype == tf.uint64:
        raise ev.refuse(Feature.NUMBER, "int() of a uint64 tensor")
    wanted = {float: tf.float64, int: tf.int64, bool: tf.bool}[kind]
    limit = None if kind is not int or scalar.dtype in (tf.int64, tf.bool) else 1 << 32
    return DynamicValue("", tensor=tf.cast(scalar, wanted), late=True, limit=limit)
