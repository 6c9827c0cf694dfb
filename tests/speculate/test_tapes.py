"""Tapes around a speculated call see what they would see eagerly: gradients, and where there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.speculate.passes import outer_tape
from tests.speculate import comparing

ONE, TWO, TABLE = tf.Variable(2.0), tf.Variable(3.0), tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def _several_results(x: tf.Tensor) -> Any:
    return x * ONE, x * TWO + tf.stop_gradient(ONE), tf.cast(x > 0.0, tf.float32), tf.argmax([x, ONE])


def _sparse_and_dense(x: tf.Tensor) -> Any:
    return tf.reduce_sum(tf.gather(TABLE, [0, 2])) * x, x * ONE


def _one_result(x: tf.Tensor) -> Any:
    return (x**3 * ONE + tf.floor(TWO),)


def _lists(x: tf.Tensor) -> Any:
    return [x * factor for factor in (1.0, ONE, TWO)]


def _a_loop_of_tensors(x: tf.Tensor) -> Any:
    y = x
    for _ in tf.range(3):
        y = y * ONE
    return y, x * 2.0


def _calls_of_graphs(x: tf.Tensor) -> Any:
    return _graph(x), x * TWO


@tf.function
def _graph(x: tf.Tensor) -> tf.Tensor:
    return x * ONE


FUNCTIONS = [_several_results, _sparse_and_dense, _one_result, _lists, _a_loop_of_tensors, _calls_of_graphs]
SOURCES = [ONE, TWO, TABLE]


def _gradients(function: Callable[..., Any], make_tape: Callable[[], tf.GradientTape]) -> list[Any]:
    """Of each result and of pairs of them, to all that they may depend on."""
    seen = []
    x = tf.constant(2.0)
    count = len(function(x))
    for targets in [*([i] for i in range(count)), [0, count - 1]]:
        with make_tape() as tape:
            tape.watch([x, ONE, TWO, TABLE])
            results = function(x)
            loss = tf.add_n([results[i] * 2.0 for i in targets if results[i].dtype == tf.float32] or [results[0]])
        seen.append(comparing.plain(tape.gradient(loss, [x, *SOURCES])))
        if make_tape is not _persistent:
            continue
        seen.append(comparing.plain([tape.gradient(result, [x, *SOURCES]) for result in results]))
        seen.append(len(tape.watched_variables()))
    return seen


def _persistent() -> tf.GradientTape:
    return tf.GradientTape(persistent=True)


def _choosy() -> tf.GradientTape:
    return tf.GradientTape(watch_accessed_variables=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make_tape", [tf.GradientTape, _persistent, _choosy], ids=["plain", "persistent", "choosy"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_are_eagers(function: Any, make_tape: Any) -> None:
    """None where it is None, sparse where it is sparse."""
    called = rg.function(function)
    for _ in range(5):
        called(tf.constant(2.0))
    assert called.calls["graph"] == 2, called.explain()
    assert comparing.differences(_gradients(function, make_tape), _gradients(called, make_tape)) == []
    assert called.calls["fallback"] == 0


def test_second_gradients_of_one_of_several_results() -> None:
    """Through the groups that the tapes record."""

    def function(x: tf.Tensor) -> Any:
        return x**3 * ONE, x**2 * TWO

    called = rg.function(function)
    seen = []
    for one in (function, *[called] * 5):
        x = tf.constant(2.0)
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                first, second = one(x)
                both = first + second
            slopes = tape.gradient(first, x), tape.gradient(both, x)
        second_slopes = [outer.gradient(s, [x, ONE, TWO], unconnected_gradients="zero") for s in slopes]
        seen.append(comparing.plain(second_slopes))  # see "Known differences": there we have zeros for None
    assert called.calls["graph"] == 2
    assert all(comparing.differences(seen[0], other) == [] for other in seen[1:])


def test_a_tape_that_does_not_record_sees_nothing() -> None:
    """Stopped, or ended before the call."""
    called = rg.function(_several_results)
    for _ in range(5):
        with tf.GradientTape(persistent=True) as tape:
            x = tf.constant(1.0)
            tape.watch(x)
            with tape.stop_recording():
                stopped = called(x)[0]
        after = called(x)[0]
        assert tape.gradient(stopped, x) is None
        assert tape.gradient(after, x) is None


@tf.custom_gradient
def _no_zeros(x: tf.Tensor) -> Any:
    return tf.identity(x), lambda g: tf.where(tf.equal(g, 0.0), tf.ones_like(g), g)


def _rows_and_their_sum(x: tf.Tensor) -> Any:
    return tf.reduce_sum(tf.gather(TABLE, [0, 2])) * x, tf.reduce_sum(TABLE) * x


def _a_gradient_of_its_own(x: tf.Tensor) -> Any:
    return x * ONE, _no_zeros(ONE) * x


def _a_way_of_one_result(x: tf.Tensor) -> Any:
    y = x
    if x > 1.0:
        y = x * ONE
    return y, x * ONE


def _one_branch_for_two_results(x: tf.Tensor) -> Any:
    first, second = (x * ONE, x * TWO) if x > 1.0 else (x + ONE, x + TWO)
    return first, second


@pytest.mark.parametrize(
    "function",
    [_rows_and_their_sum, _a_gradient_of_its_own, _a_way_of_one_result, _one_branch_for_two_results],
    ids=lambda f: f.__name__,
)
def test_each_result_has_its_own_gradients(function: Any) -> None:
    """What the others depend on, and how, makes no difference."""

    def found(called: Any) -> list[Any]:
        seen = []
        for i in range(12):
            x = tf.constant(float(i % 3))
            with tf.GradientTape(persistent=True) as tape:
                results = called(x)
            seen.append(comparing.plain([tape.gradient(one, SOURCES) for one in results]))
        return seen

    called = rg.function(function, mode="speculate")
    assert comparing.differences(found(function), found(called)) == [], called.explain()


def test_an_optimizer_leaves_alone_what_the_loss_does_not_depend_on() -> None:
    """Zeros in place of None would let Adam move a weight that has a momentum."""

    def train(call: Any) -> list[float]:
        ONE.assign(2.0), TWO.assign(3.0)
        optimizer = keras.optimizers.Adam(0.1)
        optimizer.build([ONE, TWO])
        for i in range(8):
            with tf.GradientTape() as tape:
                first, second = call(tf.constant(1.0))[:2]
                loss = first**2 + second**2 if i < 4 else first**2
            pairs = zip(tape.gradient(loss, [ONE, TWO]), [ONE, TWO], strict=True)
            optimizer.apply_gradients([(gradient, variable) for gradient, variable in pairs if gradient is not None])
        values = [float(ONE), float(TWO)]
        ONE.assign(2.0), TWO.assign(3.0)
        return values

    np.testing.assert_allclose(train(rg.function(_several_results)), train(_several_results), rtol=1e-5)


def test_without_groups_the_comparison_finds_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that finds nothing would agree with anything."""
    monkeypatch.setattr(outer_tape, "groups", lambda graph, outputs, watched: [(list(range(len(outputs))), [0, 1, 2])])
    with pytest.raises(AssertionError):
        test_gradients_are_eagers(_several_results, tf.GradientTape)


def test_a_tape_around_a_loop_with_a_branch_finds_nothing_where_no_round_used_a_variable() -> None:
    weight = tf.Variable(0.5)

    def step(sign: tf.Tensor, rounds: tf.Tensor) -> tf.Tensor:
        y = tf.constant(1.0)
        while rounds > 0:
            if sign > 0:
                y = y + weight * 2.0
            rounds = rounds - 1
        return y

    def found(function: Any, i: int) -> float | None:
        with tf.GradientTape() as tape:
            y = function(tf.constant(-1.0 if i % 4 == 3 or i % 5 == 2 else 1.0), tf.constant(1 + i % 3))
        gradient = tape.gradient(y, weight)
        return None if gradient is None else float(gradient)

    converted = rg.function(step, mode="speculate")
    for i in range(16):
        assert found(converted, i) == found(step, i)


# Of both, the first number is 0 where slopes shall be infinite.
EDGE, OTHER = tf.Variable([0.5, 1.0]), tf.Variable([2.0, 3.0])


def _infinite_slopes(x: tf.Tensor) -> Any:
    return EDGE * x, tf.math.log(EDGE), tf.sqrt(EDGE) * OTHER


def _infinite_slopes_of_what_is_shared(x: tf.Tensor) -> Any:
    root = tf.sqrt(EDGE)
    return root, root * OTHER * x, tf.norm(EDGE - EDGE) + EDGE


def _an_infinite_slope_beside_a_branch(x: tf.Tensor) -> Any:
    y = OTHER * x if x > 1.0 else OTHER * 2.0
    return y, tf.math.log(EDGE), EDGE * 3.0


def _an_infinite_slope_beside_a_loop(x: tf.Tensor) -> Any:
    y = OTHER * x
    for _ in tf.range(3):
        y = y * OTHER
    return y * EDGE, tf.math.rsqrt(EDGE), y


def _an_infinite_slope_in_a_branch(x: tf.Tensor) -> Any:
    y = EDGE * 2.0
    logarithm = tf.math.log(EDGE)
    if x > 1.0:
        y = y + logarithm
    return y, OTHER * x


def _an_infinite_slope_in_a_function(x: tf.Tensor) -> Any:
    return _logarithm(EDGE), EDGE * x * OTHER


def _an_infinite_slope_of_rows(x: tf.Tensor) -> Any:
    return tf.gather(OTHER, [1]) * x, tf.math.log(EDGE), tf.sqrt(EDGE) * x


def _an_infinite_slope_in_a_loop_of_tensorflows(x: tf.Tensor) -> Any:
    logarithm = tf.math.log(EDGE)
    return tf.while_loop(lambda i, y: i < x - 1.0, lambda i, y: (i + 1.0, y + logarithm), [0.0, EDGE * 2.0])


@tf.function
def _logarithm(x: tf.Tensor) -> tf.Tensor:
    return tf.math.log(x)


def _all_gradients(called: Any, x: tf.Tensor, persistent: bool) -> list[Any]:
    """Of each sum of some results, also of its gradients, to the variables."""
    found, sources = [], [EDGE, OTHER]
    count = len(called(x))
    for some in range(1, 2**count):
        taken = [i for i in range(count) if some >> i & 1]
        with tf.GradientTape(persistent=persistent) as outer:
            with tf.GradientTape() as tape:
                results = called(x)
                total = tf.add_n([tf.reduce_sum(results[i]) * (i + 1.0) for i in taken])
            first = tape.gradient(total, sources)
            slopes = tf.add_n([tf.reduce_sum(one) for one in first if one is not None])
        second = outer.gradient(slopes, sources, unconnected_gradients="zero")
        found.append(comparing.plain([first, second]))
        with tf.GradientTape(persistent=persistent) as tape:
            results = called(x)
        found += [comparing.plain(tape.gradient(results[i], sources)) for i in taken[: None if persistent else 1]]
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        _infinite_slopes,
        _infinite_slopes_of_what_is_shared,
        _an_infinite_slope_beside_a_branch,
        _an_infinite_slope_beside_a_loop,
        _an_infinite_slope_in_a_branch,
        _an_infinite_slope_in_a_function,
        _an_infinite_slope_of_rows,
    ],
    ids=lambda f: f.__name__,
)
def test_infinite_slopes_of_what_is_not_differentiated_change_nothing(function: Any, persistent: bool) -> None:
    """A result that has no gradient, or a way that was not taken, gives nothing, not zeros times infinity."""
    called = rg.function(function, mode="speculate")
    for i in range(8):
        x = tf.constant(float(i % 2 + 1) if i > 3 else 1.0)
        EDGE.assign([0.0 if i in (5, 6, 7) else 0.5, 1.0])
        expected, found = (_all_gradients(one, x, persistent) for one in (function, called))
        assert comparing.differences(expected, found) == [], called.explain()
    assert called.calls["graph"] > 0, called.explain()


def test_with_zeros_the_comparison_finds_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of straight code, and beside a branch."""
    monkeypatch.setattr(outer_tape, "_zeros_are_computed", lambda *given: False)
    for function in (_infinite_slopes, _an_infinite_slope_beside_a_branch):
        with pytest.raises(AssertionError, match="nan"):
            test_infinite_slopes_of_what_is_not_differentiated_change_nothing(function, False)


def test_a_loop_of_tensorflows_that_would_give_nan_runs_eagerly() -> None:
    """A round of it cannot be assumed."""
    called = rg.function(_an_infinite_slope_in_a_loop_of_tensorflows, mode="speculate")
    for i in range(8):
        EDGE.assign([0.0 if i > 4 else 0.5, 1.0])
        expected, found = [], []
        for one, seen in ((_an_infinite_slope_in_a_loop_of_tensorflows, expected), (called, found)):
            with tf.GradientTape() as tape:
                result = one(tf.constant(float(i % 2 + 1)))[1]
            seen.append(comparing.plain(tape.gradient(result, EDGE)))
        assert comparing.differences(expected, found) == [], called.explain()
    text = "a round of tf.while_loop that does not use a tensor gives it zeros, and what is infinite makes them NaN"
    assert text in called.explain()


def _many_results_beside_a_function(x: tf.Tensor) -> Any:
    return [_logarithm(OTHER) * x, *(tf.sqrt(EDGE * float(i)) for i in range(1, outer_tape.MOST_APART + 1))]


def test_too_many_results_to_be_differentiated_one_by_one_run_eagerly() -> None:
    """Without a tape they are a graph."""
    called = rg.function(_many_results_beside_a_function, mode="speculate")
    for i in range(8):
        called(tf.constant(float(i % 2 + 1)))
    assert called.calls["graph"] > 0, called.explain()
    EDGE.assign([0.0, 1.0])
    for i in range(4):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(called(tf.constant(float(i % 2 + 1)))[1])
        np.testing.assert_allclose(tape.gradient(total, EDGE), [np.inf, 0.5])
    text = "zeros stand for the gradients of results that nothing uses, and what is infinite would make them NaN"
    assert text in called.explain()
