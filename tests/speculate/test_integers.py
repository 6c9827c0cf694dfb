"""Python's integers that TensorFlow is given: they become what eager execution makes of them, also where int32 ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from recgraph.speculate import Speculated
from tests.speculate import comparing

_NUMBERS = (1, 2, 3, 4, 5, 6, 2**40, 2**40 + 1, -(2**35), 300, 2**31 - 1, 2**31, 7)
_INTS, _BYTES, _FLOATS = tf.ones([2], tf.int32), tf.ones([2], tf.int8), tf.ones([2])
_WAYS: dict[str, Callable[[int], Any]] = {
    "product": lambda n: _INTS * n,
    "of_bytes": lambda n: _BYTES * n,
    "reflected": lambda n: n - _INTS,
    "constant": lambda n: tf.constant(n) + 0,
    "added": lambda n: tf.add(_INTS, n),
    "added_to": lambda n: tf.add(n, _INTS),
    "bytes_added": lambda n: tf.add(_BYTES, n),
    "filled": lambda n: tf.fill([2], n),
    "maximum": lambda n: tf.maximum(_INTS, n),
    "stacked": lambda n: tf.stack([n, 1]),
    "cast": lambda n: tf.cast(n, tf.int64),
    "cast_to_float": lambda n: tf.cast(n, tf.float32),
    "floats": lambda n: _FLOATS * n,
    "chosen": lambda n: tf.where(_INTS > 0, n, _INTS),
    "range": lambda n: tf.range(n, n + 2),
    "as_string": lambda n: tf.strings.as_string(n),
    "in_a_format": lambda n: tf.strings.format("{} {}", (n, [n])),
    "of_a_tensor": lambda n: tf.fill([2], int(tf.constant(n, tf.int64)) + 1),
}


def _outcome(step: Callable[[int], Any], number: int) -> Any:
    try:
        return comparing.plain(step(number))
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", _WAYS)
def test_integers_beyond_int32(name: str) -> None:
    """No bit is lost without a word: a call with a number that does not fit gets another graph, or none."""
    step = _WAYS[name]
    called = Speculated(step)
    for number in _NUMBERS:
        assert comparing.differences(_outcome(step, number), _outcome(called, number)) == [], (number, called.explain())
    assert called.calls["graph"] > 0, called.explain()


@pytest.mark.parametrize("dtype", [tf.int64, tf.int32, tf.int16, tf.uint8, tf.float32, tf.float64, tf.bfloat16])
def test_integers_for_variables(dtype: tf.DType) -> None:
    """A variable that is assigned a number gives it its own dtype."""

    def make() -> tuple[Callable[[int], Any], tf.Variable]:
        v = tf.Variable(tf.zeros([], dtype))

        def step(n: int) -> Any:
            v.assign(n)
            v.assign_add(n)
            v.assign_sub(delta=n)
            return v.read_value()

        return step, v

    (step, one), (inner, other) = make(), make()
    called = Speculated(inner)
    for i in range(8):
        assert comparing.differences(comparing.plain(step(i)), comparing.plain(called(i))) == []
        assert comparing.differences(comparing.plain(one), comparing.plain(other)) == []
    assert called.calls["graph"] > 0, called.explain()


def test_a_float_for_a_variable_of_integers() -> None:
    """What eager execution refuses is refused with its exception."""
    v = tf.Variable(0)

    def step(n: float) -> None:
        v.assign(n)

    called = Speculated(step)
    for i in range(6):
        with pytest.raises(TypeError, match="Cannot convert"):
            called(i + 0.5)
    assert called.calls["graph"] == 0
