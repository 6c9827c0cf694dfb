"""Calls that may give back the very tensors that they were given: what is one object eagerly is one after a graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.speculate.run.function import Speculated
from tests import sampling

HELD = tf.constant([5.0, 6.0])
# What one way of a branch, or a round of a loop, may make of a tensor. All but two of them are other tensors, and most
# may share its memory.
MAKERS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "itself": lambda x: x,
    "held": lambda x: HELD,
    "computed": lambda x: x + 1.0,
    "identity": tf.identity,
    "negated twice": lambda x: tf.negative(tf.negative(x)),
    "stopped": tf.stop_gradient,
    "times one": lambda x: x * 1.0,
    "plus zero": lambda x: 0.0 + x,
    "reshaped": lambda x: tf.reshape(x, [2]),
    "sliced": lambda x: x[:],
    "cast": lambda x: tf.cast(x, tf.float32),
    "copied twice": lambda x: tf.ensure_shape(tf.identity(x), [2]),
    "concatenated": lambda x: tf.concat([x], 0),
    "function": tf.function(lambda x: tf.identity(x)),
}
Ways = tuple[Callable[[tf.Tensor], tf.Tensor], Callable[[tf.Tensor], tf.Tensor]]


def _branch(one: Any, other: Any) -> Any:
    def step(x: tf.Tensor, c: tf.Tensor) -> Any:
        return one(x) if c > 0 else other(x)

    return step


def _conditional(one: Any, other: Any) -> Any:
    def step(x: tf.Tensor, c: tf.Tensor) -> Any:
        return tf.cond(c > 0, lambda: one(x), lambda: other(x))

    return step


def _rounds(one: Any, other: Any) -> Any:
    def step(x: tf.Tensor, c: tf.Tensor) -> Any:
        for i in tf.range(c + 1):
            x = one(x) if i > 0 else other(x)
        return x

    return step


def _library_loop(one: Any, other: Any) -> Any:
    def step(x: tf.Tensor, c: tf.Tensor) -> Any:
        y = other(x)
        return y, tf.while_loop(lambda k, _: k < c, lambda k, y: (k + 1, one(y)), (tf.constant(0), y))[1]

    return step


def _nested(one: Any, other: Any) -> Any:
    def step(x: tf.Tensor, c: tf.Tensor) -> Any:
        y = x * 2.0
        if c > 0:
            while tf.reduce_sum(y) < 9.0:
                y = y + tf.cast(c, tf.float32)
            z = one(x) if c > 1 else y
        else:
            z = other(y)
        return {"y": y, "z": [z]}

    return step


def _seen(result: Any, x: tf.Tensor, tape: tf.GradientTape) -> Any:
    """The values of results, which of them and of the tensors before are one, and the gradient."""
    flat = tf.nest.flatten(result)
    ones = [[one is other for other in (x, HELD, *flat)] for one in flat]
    total = tape.gradient([one for one in flat if one is not HELD], x)
    return [one.numpy().tolist() for one in flat], ones, None if total is None else total.numpy().tolist()


def _called(step: Any, i: int) -> Any:
    """What a call gives; in every other one a tape watches from before it, in the rest from after it."""
    x, c = tf.constant([1.0, 2.0 + i]), tf.constant((0, 1, 2, 0, 2)[i % 5])
    with tf.GradientTape() as tape:
        if i % 2:
            tape.watch(x)
        result = step(x, c)
        tape.watch(x)
        result = [result, tf.nest.map_structure(lambda one: one * 3.0, result)]
    return _seen(result, x, tape)


FORMS = {
    "branch": _branch,
    "tf.cond": _conditional,
    "rounds": _rounds,
    "tf.while_loop": _library_loop,
    "nested": _nested,
}
PAIRS = list(itertools.product(MAKERS, MAKERS))
CASES = [
    (form, *pair)
    for i, form in enumerate(FORMS)
    for pair in PAIRS
    if sampling.ALL or pair in PAIRS[i::11] or pair in (("identity", "itself"), ("stopped", "stopped"))
]


@pytest.mark.parametrize(("form", "one", "other"), CASES)
def test_what_is_one_tensor_is_one(form: str, one: str, other: str) -> None:
    """Also for a tape that watches it after the call."""
    step = FORMS[form](MAKERS[one], MAKERS[other])
    graph = Speculated(step)
    for i in range(10):
        assert _called(graph, i) == _called(step, i), f"call {i}"


@pytest.mark.parametrize("maker", ["computed", "identity", "times one"])
@pytest.mark.parametrize("form", [form for form in FORMS if form != "nested"])
def test_no_way_is_assumed(form: str, maker: str) -> None:
    """Memory tells what is computed anew from what is passed on, and a copy is made anew."""
    graph = rg.function(FORMS[form](MAKERS[maker], MAKERS["itself"]), mode="speculate")
    for i in range(12):
        _called(graph, i)
    is_librarys = form == "tf.while_loop" and maker != "computed"
    assert graph.calls == ({"eager": 12, "graph": 0} if is_librarys else {"eager": 3, "graph": 9}) | {"fallback": 0}


def test_kinds_and_sizes() -> None:
    """Tensors of any size and dtype that can have a gradient; one without members has no memory, and is a new one."""

    def step(x: tf.Tensor, c: tf.Tensor) -> Any:
        if c > 0:
            x = x + x
        return x

    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64):
        for shape in ([], [1], [3, 2], [0, 2]):
            graph = Speculated(step)
            for i in range(6):
                x = tf.ones(shape, dtype)
                result = graph(x, tf.constant(i % 2))
                assert result.dtype == dtype
                assert result.shape == shape
                assert (result is x) is (i % 2 == 0 and (0 not in shape or i < 3))


def test_many_branches_after_each_other() -> None:
    """Looking through them needs no room on Python's stack."""

    def step(x: tf.Tensor, c: tf.Tensor) -> Any:
        for i in range(300):
            if c > i:
                x = x + 1.0
        return x

    graph = rg.function(step, mode="speculate")
    for i in range(6):
        x = tf.constant([1.0, 2.0])
        result = graph(x, tf.constant(i % 2 * 400))
        assert result.numpy().tolist() == [1.0 + i % 2 * 300, 2.0 + i % 2 * 300]
        assert (result is x) is (i % 2 == 0)
    assert graph.calls == {"eager": 3, "graph": 3, "fallback": 0}
