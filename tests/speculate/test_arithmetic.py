"""Numbers that come out of the graph are Python's, bit for bit, for all kinds of operands."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from recgraph.speculate import Speculated
from recgraph.speculate.values import arithmetic

_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 7.5, -7.5, 3.0, 1e300, -1e-100, float("inf"), float("nan"), 2.0**53]
_INTEGERS = [0, 1, -1, 2, -3, 7, 10, 2**31, -(2**31), 2**53, 2**53 + 1, 3 * 10**9, 2**62, -(2**63), 2**63 - 1]
_OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.lt,
    operator.ge, operator.eq, operator.ne,
]  # fmt: skip


def _outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        found = function(*arguments)
    except (ArithmeticError, ValueError) as error:
        return type(error).__name__, str(error)
    return type(found).__name__, found.hex() if isinstance(found, float) else found


def _compare(function: Callable[..., Any], cases: list[tuple[tf.Tensor, ...]]) -> Speculated:
    """The same for all operands; some cases first, so that a graph is made."""
    speculated = Speculated(function)
    for case in [*cases[:4], *cases]:
        assert _outcome(speculated, *case) == _outcome(function, *case), (case, speculated.explain())
    return speculated


@pytest.mark.parametrize("function", _OPERATORS)
@pytest.mark.parametrize("kinds", ["ff", "ii", "if", "fi"])
def test_operators(function: Any, kinds: str) -> None:
    """Zeros with signs, what is no number, integers that are too large: Python's results and exceptions."""
    values = {"f": _FLOATS, "i": _INTEGERS}
    dtypes = {"f": tf.float64, "i": tf.int64}
    first, second = kinds

    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        return function(_number(first, x), _number(second, y))

    pairs = [(5, 3), (7, 2), (9, 4), (8, 5), *((x, y) for x in values[first] for y in values[second])]
    cases = [(tf.constant(x, dtypes[first]), tf.constant(y, dtypes[second])) for x, y in pairs]
    _compare(step, cases)


def _number(kind: str, x: tf.Tensor) -> Any:
    return float(x) if kind == "f" else int(x)


@pytest.mark.parametrize("function", [round, math.floor, math.ceil, math.sqrt, math.isnan, abs, operator.neg])
def test_functions_of_one_number(function: Any) -> None:
    """Rounding to the even, roots of negative numbers, infinity as an integer."""

    def step(x: tf.Tensor) -> Any:
        return function(float(x))

    cases = [(tf.constant(x, tf.float64),) for x in [1.5, 2.5, 0.3, 2.0, *(x for x in _FLOATS if x > 0), *_FLOATS]]
    speculated = _compare(step, cases)
    assert function in arithmetic.RULES
    assert speculated.calls["graph"] > 0, speculated.explain()


def test_a_wrong_remainder_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's own remainder has other signs of zero."""

    def wrong(made: arithmetic.NumberOperation) -> Any:
        return made.result(tf.math.floormod(*made.integers))

    monkeypatch.setitem(arithmetic.RULES, operator.mod, wrong)
    with pytest.raises(AssertionError):
        test_operators(operator.mod, "ff")
