"""A speculated function as a citizen of Python: tapes around it, threads, copies, methods, memory, limits."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import types
import weakref
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.speculate import Speculated
from recgraph.speculate.observe.reasons import Inconvertible
from recgraph.speculate.run import function


def _converted(step: Speculated, *arguments: Any) -> Speculated:
    for _ in range(5):
        step(*arguments)
    assert step.calls["graph"] > 0, step.explain()
    return step


@rg.function
def doubled(x: tf.Tensor) -> tf.Tensor:
    """Of this module, so that it can be pickled."""
    return x * 2.0


def test_gradients_flow_through_a_call() -> None:
    """To the arguments, to variables, and twice."""
    w = tf.Variable([1.0, 2.0])
    step = _converted(Speculated(lambda x: tf.reduce_sum(x**3 * w)), tf.ones([2]))
    x = tf.constant([2.0, 3.0])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = step(x)
        to_x, to_w = tape.gradient(loss, [x, w])
    np.testing.assert_allclose(to_x, 3 * x**2 * w)
    np.testing.assert_allclose(to_w, x**3)
    np.testing.assert_allclose(outer.gradient(to_x, x), 6 * x * w)
    assert step.calls["graph"] >= 3


def test_gradients_flow_into_state_that_the_call_kept() -> None:
    """A tensor that was put into an attribute is connected with what it was computed from."""
    w, held = tf.Variable(3.0), types.SimpleNamespace(y=None)

    def keep(x: tf.Tensor) -> None:
        held.y = x * w

    step = _converted(Speculated(keep), tf.constant(2.0))
    with tf.GradientTape() as tape:
        step(tf.constant(5.0))
        loss = held.y * 2.0
    assert float(tape.gradient(loss, w)) == 10.0


def test_converted_under_a_tape() -> None:
    """The tape is there from the first call on; a sparse gradient stays one."""
    table = tf.Variable(tf.reshape(tf.range(12.0), [6, 2]))

    def look_up(words: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.gather(table, words) ** 2)

    step = Speculated(look_up)
    for _ in range(6):
        with tf.GradientTape() as tape:
            loss = step(tf.constant([1, 4]))
        gradient = tape.gradient(loss, table)
        assert isinstance(gradient, tf.IndexedSlices)
        np.testing.assert_allclose(gradient.values, 2 * tf.gather(table, [1, 4]))
        assert tape.watched_variables() == (table,)
    assert step.calls["graph"] == 3


def test_the_call_of_a_model() -> None:
    """A decorated method that Keras calls."""

    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(2, kernel_initializer="ones")
            self.dense.build([None, 3])
            self.built = True

        @rg.function
        def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
            """Keras calls it."""
            return self.dense(x) * (2.0 if training else 1.0)

    net = Net()
    for i in range(12):
        training = i % 2 == 0
        np.testing.assert_allclose(net(tf.ones([1, 3]), training=training), [[6.0, 6.0] if training else [3.0, 3.0]])
    assert Net.call.calls["graph"] > 4, Net.call.explain()


def test_a_jacobian_vector_product_through_a_call() -> None:
    """Forward mode."""
    step = _converted(Speculated(lambda x: x * x), tf.constant(3.0))
    x = tf.constant(3.0)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
        y = step(x)
    assert float(accumulator.jvp(y)) == 6.0


def test_inside_of_a_graph_function() -> None:
    """There it is the plain function."""
    step = _converted(Speculated(lambda x: x + 1.0), tf.constant(1.0))
    before = dict(step.calls)
    assert float(tf.function(lambda x: step(x) * 2.0)(tf.constant(3.0))) == 8.0
    assert step.calls == before


def test_a_refusal_in_a_function_that_tensorflow_calls_leaves_nothing_behind() -> None:
    """`tf.map_fn` would leave a caching device in the variable scope of the program, with which no strategy works."""

    def step(x: tf.Tensor) -> Any:
        seen = []
        return tf.map_fn(lambda row: row + len(seen) + (seen.append(row) or 0.0), x)

    called = Speculated(step)
    for _ in range(5):
        called(tf.ones([2]))
    assert called.calls["graph"] == 0
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        assert tf.Variable(1.0).numpy() == 1.0


def test_in_the_scope_of_a_distribution_strategy() -> None:
    """It runs eagerly, since strategies have a say in variables."""
    step = _converted(Speculated(lambda x: x + 1.0), tf.constant(1.0))
    before = dict(step.calls)
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        assert float(step(tf.constant(3.0))) == 4.0
    assert step.calls == before


def test_threads_call_one_function() -> None:
    """Each has its own results, and the sum of what they write is right."""
    w = tf.Variable(0.0)

    def add(x: tf.Tensor) -> tf.Tensor:
        w.assign_add(x)
        return x * 2.0

    step = Speculated(add)
    wrong: list[float] = []

    def work(k: int) -> None:
        for i in range(40):
            if float(step(tf.constant(float(k)))) != 2.0 * k:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert float(w) == 40 * 6.0


def test_a_function_that_calls_itself() -> None:
    """Recursion that a Python number ends."""

    @Speculated
    def power(x: tf.Tensor, n: int) -> tf.Tensor:
        return x if n == 0 else x * power(x, n - 1)

    assert [float(power(tf.constant(2.0), n)) for n in (1, 3, 3, 3, 3, 2, 3)] == [4, 16, 16, 16, 16, 8, 16]


class Model:
    """With a speculated method."""

    def __init__(self, w: float) -> None:
        self.w, self.n = tf.Variable(w), 0

    @rg.function
    def step(self, x: tf.Tensor) -> tf.Tensor:
        """Counts, and reads its own variable."""
        self.n += 1
        return x * self.w


def test_instances_share_a_method_but_nothing_else() -> None:
    """Variables and Python state are each object's own."""
    one, two = Model(1.0), Model(2.0)
    for _ in range(8):
        assert float(one.step(tf.constant(3.0))) == 3.0
        assert float(two.step(tf.constant(3.0))) == 6.0
    assert (one.n, two.n) == (8, 8)
    assert Model.step.calls["graph"] > 4


def test_copies_and_pickles() -> None:
    """As with functions, a copy is the same one; what is found by its name is pickled by its name."""
    assert copy.copy(doubled) is doubled
    assert copy.deepcopy({"f": doubled})["f"] is doubled
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    model = Model(2.0)
    method = Speculated(model.step.__func__.function.__get__(model))
    copied = copy.deepcopy({"m": method, "o": model})
    assert copied["m"]._owner[0] is copied["o"]


def test_objects_are_not_kept_alive() -> None:
    """Neither arguments nor models nor variables outlive what the user holds of them."""

    class Net:
        def __init__(self) -> None:
            self.w = tf.Variable(tf.ones([3]))

    @Speculated
    def step(net: Any, x: tf.Tensor) -> tf.Tensor:
        net.last = x * net.w
        return net.last

    net, x = Net(), tf.ones([3])
    _converted(step, net, x)
    dead = [weakref.ref(net), weakref.ref(net.w), weakref.ref(x)]
    del net, x
    gc.collect()
    assert [reference() is None for reference in dead] == [True, True, True]
    assert all(graph.is_obsolete for graph in step._graphs)
    for _ in range(20):
        other = Net()
        other.w.assign([1.0, 2.0, 3.0])
        np.testing.assert_array_equal(step(other, tf.ones([3])), [1.0, 2.0, 3.0])


def test_shapes_relax_along_the_lattice() -> None:
    """(4, 8) and (3, 8) have a graph each; (2, 8) then gives (None, 8) for all, and (5, 8) makes no further graph."""
    step = Speculated(lambda x: x * 2.0)
    for _ in range(5):
        step(tf.ones([4, 8]))
    assert len(step._graphs) == 1
    for rows in (3, 3, 4, 3):
        step(tf.ones([rows, 8]))
    assert len(step._graphs) == 2
    assert step.calls["fallback"] == 1
    for rows in (2, 2, 5, 4, 3):
        step(tf.ones([rows, 8]))
    assert len(step._graphs) == 1
    assert step.calls["fallback"] == 2
    for columns in (7, 6, 5):
        step(tf.ones([2, columns]))
    assert len(step._graphs) == 1
    assert step.calls["fallback"] == 3


def test_the_smaller_last_batch_of_an_epoch_has_a_graph_of_its_own() -> None:
    """It was seen before the first graph is made: no call of a later epoch runs eagerly."""
    step = Speculated(lambda x: x * 2.0)
    for _ in range(4):
        for rows in (4, 4, 3):
            step(tf.ones([rows, 8]))
    assert [graph.runs for graph in step._graphs] == [3, 6]
    assert step.calls == {"eager": 3, "graph": 9, "fallback": 0}


def test_tensors_that_change_their_shapes_independently_get_an_open_graph() -> None:
    """Two shapes of each of four would be sixteen graphs."""
    step = Speculated(lambda *tensors: tf.add_n([tf.reduce_sum(tensor) for tensor in tensors]))
    for i in range(64):
        sizes = [1 + (i >> bit & 1) for bit in range(4)]
        assert float(step(*(tf.ones([size]) for size in sizes))) == sum(sizes)
    assert len(step._graphs) <= function.MAX_OF_SHAPES + 1
    assert step.calls["graph"] > 50


def test_a_flag_has_two_graphs() -> None:
    """Neither is thrown away when the other is called."""
    step = Speculated(lambda x, flag: x * 2.0 if flag else x)
    for i in range(20):
        step(tf.ones([2]), i % 2 == 0)
    assert len(step._graphs) == 2
    assert step.calls["graph"] >= 14


def test_what_keeps_breaking_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new callee in every call: no more graphs are made after a while, and explain says what broke."""
    monkeypatch.setattr(function, "MAX_BREAKS", 4)
    step = Speculated(lambda f, x: f(x))
    for i in range(30):
        kind = type("Kind", (), {"__call__": eval("lambda self, x: x * 2.0", {}), "i": i})
        assert float(step(kind(), tf.constant(2.0))) == 4.0
    assert step.given_up
    assert step._graphs == []
    assert "broke" in step.explain() or "runs eagerly" in step.explain()


def test_conversions_have_to_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each is good for a few calls, there are no more after some time."""
    monkeypatch.setattr(function, "MAX_SECONDS", 0.0)

    def step(rows: list[tf.Tensor]) -> tf.Tensor:
        first, *others = rows
        return first + len(others)

    called = Speculated(step)
    for i in range(12):
        assert float(called([tf.constant(2.0)] * (i // 4 + 1))) == 2.0 + i // 4
    assert "conversions took" in called.given_up, called.given_up
    assert called.calls["graph"] > 0


def test_there_is_a_limit_of_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits none of them runs eagerly."""
    monkeypatch.setattr(function, "MAX_GRAPHS", 2)

    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        for _ in range(n):
            x = x + 1.0
        return x

    called = Speculated(step)
    for i in range(30):
        assert float(called(tf.constant(0.0), i % 5)) == i % 5
    assert len(called._graphs) <= 2


def test_a_strict_function_says_what_it_does_not_convert() -> None:
    """With the user's line."""

    def step(x: tf.Tensor) -> Any:
        import math

        return x * math.pi

    called = Speculated(step, strict=True)
    for _ in range(3):
        called(tf.constant(1.0))
    with pytest.raises(Inconvertible, match=r"test_function\.py:\d+"):
        called(tf.constant(1.0))


def test_wrong_arguments_raise_as_they_do_without_us() -> None:
    """With Python's own messages."""
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        doubled()
    with pytest.raises(TypeError, match="unexpected keyword"):
        doubled(tf.ones([1]), y=1)


def test_functions_that_an_observed_function_makes_have_their_names() -> None:
    """Messages tell them."""

    def step(x: tf.Tensor) -> Any:
        class Inner:
            def method(self) -> None:
                pass

        return Inner, Inner.method, lambda: x

    for apart in (False, True):
        called = rg.function(step) if apart else Speculated(step)
        for _ in range(4):
            names = [[made.__qualname__ for made in function(tf.ones([2]))] for function in (step, called)]
            assert names[0] == names[1]
