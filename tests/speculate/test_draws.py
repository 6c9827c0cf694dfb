"""What a call takes before its graph is given back where the call is not made: random numbers, elements of datasets."""

from __future__ import annotations

import copy
import gc
import random
import time
import weakref
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import tf_private
from recgraph.speculate import Speculated
from recgraph.speculate.script.draws import Draws, Rehearsal, may_draw


def test_elements_that_were_given_back_come_again_in_their_order() -> None:
    """By every way of taking one; then the iterator goes on by itself and is freed like any other."""
    iterator = iter(tf.data.Dataset.range(9))
    with Draws() as draws:
        assert [int(draws.take(iterator)) for _ in range(4)] == [0, 1, 2, 3]
    assert int(next(iterator)) == 0
    assert int(iterator.get_next()) == 1
    assert int(iterator.get_next_as_optional().get_value()) == 2
    assert [int(element) for element in iterator] == [3, 4, 5, 6, 7, 8]
    with Draws() as draws, pytest.raises(StopIteration):
        draws.take(iterator)
    reference = weakref.ref(iterator)
    del iterator
    gc.collect()
    assert reference() is None


def test_elements_that_are_kept_do_not_come_again() -> None:
    """The call was made."""
    iterator = iter(tf.data.Dataset.range(9))
    with Draws() as draws:
        draws.take(iterator)
        draws.keep()
    assert int(next(iterator)) == 1


def test_a_graph_that_would_miss_an_element_is_refused() -> None:
    """A `tf.function` takes from the iterator itself, past what was given back."""
    iterator = iter(tf.data.Dataset.range(9))
    with Draws() as draws:
        draws.take(iterator)
    taking = tf.function(lambda: next(iterator))
    with pytest.raises(RuntimeError, match="take them with next"):
        taking()
    assert int(next(iterator)) == 0
    assert int(taking()) == 1


def test_generators_that_share_their_bits_are_put_back() -> None:
    """And each draws what it would have drawn."""
    bits = np.random.PCG64(3)
    one, other = np.random.Generator(bits), np.random.Generator(bits)
    before = bits.state
    with Draws() as draws:
        draws(one, "random")
        draws(other, "integers", 10)
    assert bits.state == before


@pytest.mark.parametrize("generator", [random.Random(3), np.random.RandomState(3), np.random.default_rng(3)])
def test_a_generator_from_which_another_thread_has_drawn_stays_as_it_is(generator: Any) -> None:
    """That thread would get its numbers again, or another call would get them."""
    array, first = np.arange(8), copy.deepcopy(generator)
    with Draws() as draws:
        shuffled = draws.shuffled(generator, "shuffle", array)
        before = list(shuffled)
        others = generator.random()
    later = generator.random()
    assert list(shuffled) == before
    first.shuffle(np.arange(8))
    assert [others, later] == [first.random(), first.random()]
    again = copy.deepcopy(generator).random()
    with Draws() as draws:
        draws.shuffled(generator, "shuffle", array)
    assert generator.random() == again


def test_a_thread_that_draws_does_not_hinder_a_conversion() -> None:
    """A data set's function draws while the step is converted: TensorFlow draws nothing, so nothing is put back."""

    def elements() -> Iterator[float]:
        while True:
            yield random.random()

    random.seed(11)
    shared = random.Random(11)
    data = iter(tf.data.Dataset.from_generator(elements, output_signature=tf.TensorSpec([])).batch(50).prefetch(8))
    net, optimizer = keras.Sequential([keras.layers.LSTM(4), keras.layers.Dense(1)]), keras.optimizers.Adam()

    @rg.function(mode="speculate")
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(net(tf.reshape(x, [10, 5, 1])) ** 2)
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    net(tf.zeros([1, 5, 1]))
    optimizer.build(net.trainable_variables)
    random.setstate(shared.getstate())
    seen: list[float] = []
    for batch in data:
        step(batch)
        seen += batch.numpy().tolist()
        if step.calls["graph"] == 3:
            break
        assert step.calls["eager"] < 20, step.explain()
    assert len(seen) == len(set(seen)), "some numbers have come twice"


_LIBRARY = """
import random, numpy as np
from numpy.random import rand
from random import gauss as normal, getstate

def by_module(): return random.random()
def by_package(): return np.random.rand()
def by_name(): return rand() + normal(0, 1)
def by_import():
    from random import random
    return random()
def by_closure(draw=None):
    draw = random.choice
    return lambda: draw([1])
def by_attribute(thing): return thing.generator.choice([1])
def by_none(thing): return np.float32(thing.size), getstate(), bytes(thing.f)
"""


def test_it_is_seen_which_functions_may_draw() -> None:
    """By the names that they read; of libraries that are not known also by names of methods."""
    library: dict[str, Any] = {"__name__": "library"}
    exec(_LIBRARY, library)
    for name in ("by_module", "by_package", "by_name", "by_import"):
        assert may_draw(library[name], is_known=True), name
    assert may_draw(library["by_closure"](), is_known=True)
    assert may_draw(library["by_attribute"], is_known=False)
    assert not may_draw(library["by_attribute"], is_known=True)
    assert not may_draw(library["by_none"], is_known=True)
    assert not may_draw(tf.compat.as_bytes, is_known=True)
    assert not may_draw(random.Random.getstate, is_known=False)
    assert may_draw(random.Random.randint, is_known=False)


def test_a_rehearsal_leaves_generators_to_other_threads() -> None:
    """It draws what they are about to draw, without them."""
    generator, copied = random.Random(5), random.Random(5)
    rehearsal = Rehearsal()
    with rehearsal:
        first = rehearsal(generator, "random")
        mark = rehearsal.mark()
        second = rehearsal(generator, "random")
        rehearsal.reset(mark)
        assert rehearsal(generator, "random") == second
    assert [first, second] == [copied.random(), copied.random()]
    assert generator.random() == first


def test_an_exception_of_the_call_leaves_the_generator_where_eager_execution_does() -> None:
    """The eager call draws anew, and raises."""
    generator = np.random.default_rng(1)

    def step(x: tf.Tensor) -> tf.Tensor:
        noise = generator.random()
        tf.debugging.assert_less(x, 5.0)
        return x * noise

    called = Speculated(step)
    for i in range(6):
        called(tf.constant(float(i) / 2.0))
    assert called.calls["graph"] > 0
    expected = np.random.default_rng(1)
    drawn = [expected.random() for _ in range(8)]
    with pytest.raises(tf.errors.InvalidArgumentError):
        called(tf.constant(7.0))
    assert generator.random() == drawn[7]


def test_whether_a_value_is_an_iterator_over_a_dataset() -> None:
    """One of the program's classes is not: it may do more than take."""
    assert tf_private.is_iterator(iter(tf.data.Dataset.range(3)))
    assert not tf_private.is_iterator(iter([1, 2, 3]))


def test_a_clock_is_read_where_the_program_reads_it() -> None:
    """At the beginning before the graph runs and at the end after it: the difference is what the step took."""
    w = tf.Variable(tf.eye(300))
    stamps: list[int] = []

    @rg.function(mode="speculate", strict=True)
    def step(x: tf.Tensor) -> Any:
        begin = time.perf_counter()
        for _ in range(30):
            x = x @ w
        stamps.append(time.perf_counter_ns())
        return x, begin, time.perf_counter() - begin

    parts = []
    for _ in range(8):
        before = time.perf_counter()
        _, begin, took = step(tf.ones([300, 300]))
        after = time.perf_counter()
        assert before <= begin <= begin + took <= after
        assert begin <= stamps[-1] * 1e-9 <= after
        parts.append(took / (after - before))
    assert step.calls["graph"] == 5
    assert max(parts[3:]) > 0.5
