"""Bodies that read and write the same state: as Python would run them, one invocation after another, in any engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import testing
from tests import sampling

RUNS = sampling.count("repeats", 60)  # invocations of the large test, per engine
INT = tf.TensorSpec([], tf.int32)
WAYS = [("parallel", "random"), ("parallel", "depth_first"), ("batched", None), ("auto", None)]


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(filter(None, way)))
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each engine; the parallel one in an order at random, too."""
    name, policy = request.param
    with testing.policy(policy or "depth_first"):
        yield name


def in_all_ways(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """A function called eagerly, in a tf.function."""
    return [function, tf.function(function)]


def test_tickets_are_those_of_a_loop(engine: str) -> None:
    """By assign(read + 1) and by assign_add with a read: no number twice, none lost, in the order of the rows."""
    drawn = tf.Variable(0)
    added = tf.Variable(0)
    with rg.SubGraph("ticket", outputs=(INT, INT), engine=engine) as ticket:
        ticket.input(tf.int32)
        drawn.assign(drawn.read_value() + 1)
        added.assign_add(2)
        ticket.output((drawn.read_value(), added.read_value()))
    for function in in_all_ways(ticket.map):
        drawn.assign(0)
        added.assign(0)
        first, second = function(tf.zeros([RUNS], tf.int32))
        assert first.numpy().tolist() == list(range(1, RUNS + 1))
        assert second.numpy().tolist() == list(range(2, 2 * RUNS + 1, 2))
        assert (int(drawn), int(added)) == (RUNS, 2 * RUNS)


def walked(n: int, state: list[int]) -> int:
    """What the recursion of the next test does, in Python."""
    before = state[0]
    below = walked(n - 1, state) + 3 * walked(n - 2, state) if n > 0 else before
    state[0] = (2 * state[0] + below + before) % 10007
    return (below + state[0]) % 10007


def test_recursion_that_does_not_commute(engine: str) -> None:
    """Reads before the calls, writes after them, in a branch: the value that Python gives, not any value."""
    number = tf.Variable(1)
    with rg.SubGraph("walk", outputs=INT, engine=engine) as walk:
        n = walk.input(tf.int32)
        before = number.read_value()
        below = tf.cond(n > 0, lambda: walk(n - 1) + 3 * walk(n - 2), lambda: before)
        number.assign((2 * number.read_value() + below + before) % 10007)
        walk.output((below + number.read_value()) % 10007)
    for function in in_all_ways(walk):
        number.assign(1)
        state = [1]
        assert int(function(5)) == walked(5, state)
        assert int(number) == state[0]
    number.assign(1)
    state = [1]
    rows = [4, 0, 3, 2, 5]
    assert walk.map(tf.constant(rows)).numpy().tolist() == [walked(n, state) for n in rows]


def test_loops_functions_and_maps_in_bodies(engine: str) -> None:
    """A section in an iteration, one in a tf.function, and one in rows that a body maps."""
    count = tf.Variable(0)

    @tf.function
    def draw() -> tf.Tensor:
        count.assign(count.read_value() + 1)
        return count.read_value()

    with rg.SubGraph("leaf", outputs=INT, engine=engine) as leaf:
        m = leaf.input(tf.int32)
        leaf.output(10 * draw() + m)
    with rg.SubGraph("outer", outputs=tf.TensorSpec([4], tf.int32), engine=engine) as outer:
        n = outer.input(tf.int32)
        _, total = tf.while_loop(lambda i, _: i < n, lambda i, total: (i + 1, 7 * total + leaf(i)), [0, 0])
        outer.output(tf.concat([[total], leaf.map(tf.stack([n, n, n]))], 0))

    def in_python(n: int) -> list[int]:
        nonlocal drawn
        total = 0
        for i in range(n):
            drawn += 1
            total = 7 * total + 10 * drawn + i
        drawn += 3
        return [total] + [10 * (drawn - 2 + i) + n for i in range(3)]

    for function in in_all_ways(outer.map):
        count.assign(0)
        drawn = 0
        assert function(tf.constant([2, 0, 3])).numpy().tolist() == [in_python(n) for n in (2, 0, 3)]


def test_tables_strings_and_ring_buffers(engine: str) -> None:
    """Look up, change, put back."""
    table = tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, default_value=0)
    text = tf.Variable("")
    ring, head = tf.Variable(tf.zeros([5], tf.int32)), tf.Variable(0)
    with rg.SubGraph("note", outputs=INT, engine=engine) as note:
        n = note.input(tf.int32)
        seen = table.lookup(n % 3) + 1
        table.insert(n % 3, seen)
        text.assign(tf.strings.join([text.read_value(), tf.strings.as_string(n)]))
        ring.scatter_nd_update([[head.read_value()]], [n])
        head.assign((head.read_value() + 1) % 5)
        note.output(seen)
    assert note.map(tf.range(9)).numpy().tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert text.numpy() == b"012345678"
    assert ring.numpy().tolist() == [5, 6, 7, 8, 4]
    assert int(head) == 4


def test_masks_of_keras_are_those_of_eager_calls(engine: str) -> None:
    """Dropout, GaussianNoise, SeedGenerator: a mask for each invocation, those that a loop would draw."""
    layers = [tf.keras.layers.Dropout(0.5, seed=3), tf.keras.layers.GaussianNoise(1.0, seed=4)]
    generator = tf.keras.random.SeedGenerator(5)
    ones = tf.ones([8, 16])
    for layer in layers:
        layer(ones[0], training=True)
    states = [layer.seed_generator.state for layer in layers] + [generator.state]
    start = [state.numpy() for state in states]

    def draw(x: tf.Tensor) -> tf.Tensor:
        drawn = [layer(x, training=True) for layer in layers]
        return tf.stack([*drawn, tf.keras.random.uniform([16], seed=generator)])

    with rg.SubGraph("draw", outputs=tf.TensorSpec([3, 16]), engine=engine) as drawing:
        drawing.output(draw(drawing.input(tf.float32, [16])))
    expected = np.stack([draw(x).numpy() for x in ones])
    assert len({row.tobytes() for row in expected}) == 8
    for state, value in zip(states, start, strict=True):
        state.assign(value)
    np.testing.assert_allclose(drawing.map(ones).numpy(), expected, rtol=1e-6)


def test_moving_averages_and_metrics(engine: str) -> None:
    """BatchNormalization in training, and a metric: what the same calls leave behind eagerly."""
    batches = tf.random.stateless_normal([6, 4, 3], [1, 2])
    norms = [tf.keras.layers.BatchNormalization(momentum=0.9) for _ in range(2)]
    means = [tf.keras.metrics.Mean() for _ in range(2)]
    for norm in norms:
        norm(batches[0], training=False)
    with rg.SubGraph("normalised", outputs=tf.TensorSpec([4, 3]), engine=engine) as normalised:
        x = normalised.input(tf.float32, [4, 3])
        y = norms[0](x, training=True)
        means[0].update_state(x)
        normalised.output(y)
    got = normalised.map(batches)
    for batch, row in zip(batches, got, strict=True):
        np.testing.assert_allclose(norms[1](batch, training=True), row, rtol=1e-4, atol=1e-5)
        means[1].update_state(batch)
    for mine, theirs in zip(norms[0].variables, norms[1].variables, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(means[0].result(), means[1].result(), rtol=1e-5)


def test_gradients_beside_state(engine: str) -> None:
    """A scale that counts its uses: the gradient is that of the values that the forward invocations saw."""
    uses = tf.Variable(0.0)
    with rg.SubGraph("scaled", outputs=tf.TensorSpec([]), engine=engine) as scaled:
        x = scaled.input(tf.float32)
        uses.assign(uses.read_value() + 1.0)
        scaled.output(x * x * uses.read_value())
    xs = tf.constant([1.0, 2.0, 3.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(xs)
        total = tf.reduce_sum(scaled.map(xs))
    assert float(total) == 1 + 8 + 27 + 64
    assert tape.gradient(total, xs).numpy().tolist() == [2.0, 8.0, 18.0, 32.0]
    assert float(uses) == 4.0


def test_a_failing_row_ends_the_call(engine: str) -> None:
    """Rows after it do not run, and the next call does."""
    count = tf.Variable(0)
    with rg.SubGraph("checked", outputs=INT, engine=engine) as checked:
        n = checked.input(tf.int32)
        count.assign(count.read_value() + 1)
        with tf.control_dependencies([tf.debugging.assert_less(n, 3)]):
            checked.output(n + 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="checked"):
        checked.map(tf.range(9))
    assert int(count) == 4
    assert checked.map(tf.zeros([3], tf.int32)).numpy().tolist() == [0, 0, 0]
    assert int(count) == 7


def test_sums_and_reads_alone_keep_their_parallelism() -> None:
    """The batched engine runs what needs no order, and says why it does not run the rest."""
    visits, scale = tf.Variable(0), tf.Variable(2)
    with rg.SubGraph("counted", outputs=INT, engine="batched") as counted:
        n = counted.input(tf.int32)
        visits.assign_add(1)
        counted.output(scale * n)
    assert counted.map(tf.range(4)).numpy().tolist() == [0, 2, 4, 6]
    assert "runs parallel" not in counted.explain()
    with rg.SubGraph("numbered", outputs=INT, engine="batched") as numbered:
        n = numbered.input(tf.int32)
        visits.assign(visits.read_value() + n)
        numbered.output(n)
    numbered.map(tf.range(4))
    assert "state that the bodies read and write, one invocation after another" in numbered.explain()
    assert "test_state.py" in numbered.explain()


def test_a_variable_handed_over_is_the_captured_one(engine: str) -> None:
    """A resource as an input crashed the batched engine; it may be one that the bodies capture, too."""
    count = tf.Variable(5)
    with rg.SubGraph("given", outputs=INT, engine=engine) as given:
        handle = given.input(tf.resource)
        n = given.input(tf.int32)
        before = count.read_value()
        tf.raw_ops.AssignVariableOp(resource=handle, value=before + n)
        given.output(count.read_value())
    for function in in_all_ways(given):
        count.assign(5)
        assert int(function(count.handle, 3)) == 8
        assert int(count) == 8


def test_in_a_session(engine: str) -> None:
    """The same in a graph of TensorFlow 1."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        count = tf.compat.v1.Variable(0, use_resource=True)
        with rg.SubGraph("counting", outputs=INT, engine=engine) as counting:
            counting.input(tf.int32)
            counting.output(count.assign(count.read_value() + 1))
        numbers = counting.map(tf.zeros([20], tf.int32))
        session.run(count.initializer)
        assert session.run(numbers).tolist() == list(range(1, 21))
        assert session.run(numbers).tolist() == list(range(21, 41))


def test_calls_on_two_threads_take_turns(engine: str) -> None:
    """Two SubGraphs that share layers and a counter, one recursive: nothing is lost, no mask comes twice."""
    dropout, noise = tf.keras.layers.Dropout(0.5, seed=1), tf.keras.layers.GaussianNoise(1.0, seed=2)
    norm, mean = tf.keras.layers.BatchNormalization(momentum=0.999), tf.keras.metrics.Mean()
    for layer in (dropout, noise, norm):
        layer(tf.ones([1, 64]), training=True)
    mean.update_state(0.0)
    mean.reset_state()
    norm.moving_mean.assign(tf.zeros([64]))
    count = tf.Variable(0)
    row = tf.TensorSpec([64])

    def use(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        mean.update_state(x[0])
        norm(x[None], training=True)
        count.assign(count.read_value() + 1)
        return dropout(x[None], training=True)[0], noise(x[None], training=True)[0], count.read_value()

    with rg.SubGraph("flat", outputs=(row, row, INT), engine=engine) as flat:
        flat.output(use(flat.input(tf.float32, [64])))
    with rg.SubGraph("down", outputs=(row, row, INT), engine=engine) as down:
        n, x = down.input(tf.int32), down.input(tf.float32, [64])
        used = use(x)
        below = tf.cond(n > 0, lambda: down(n - 1, x), lambda: used)
        down.output(tuple(tf.identity(one) + 0 * other for one, other in zip(used, below, strict=True)))
    drawn: list[Any] = []

    def call(function: Callable[[], Any]) -> None:
        drawn.extend([tensor.numpy() for tensor in function()] for _ in range(RUNS // 20))

    graph = tf.function(lambda: flat.map(tf.ones([10, 64])))
    calls = [lambda: flat.map(tf.ones([10, 64])), graph, lambda: [t[None] for t in down(9, tf.ones([64]))]]
    threads = [threading.Thread(target=call, args=(function,)) for function in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used_times = RUNS // 20 * 30
    assert (int(count), float(mean.count)) == (used_times, used_times)
    np.testing.assert_allclose(norm.moving_mean, np.full(64, 1.0 - 0.999**used_times), rtol=1e-3)
    masks, noises, tickets = (np.concatenate(of) for of in zip(*drawn, strict=True))
    for one in (masks, noises, tickets):
        assert len({value.tobytes() for value in one}) == len(one)


def test_a_call_that_waits_for_its_turn_can_be_cancelled() -> None:
    """A session with a limit of time goes on when it is over, whoever has the turn."""
    reached = threading.Event()
    results: list[int] = []
    with tf.Graph().as_default():
        state = tf.compat.v1.get_variable("state", [], tf.int32, tf.zeros_initializer(), use_resource=True)
        is_over = tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, 0)
        with rg.SubGraph("endless", outputs=INT) as endless:
            n = endless.input(tf.int32)
            (m,) = tf.while_loop(lambda _: tf.equal(is_over.lookup(0), 0), lambda m: (m + 1,), (n,))
            endless.output(state.assign(state.read_value() + m))
        with tf.control_dependencies([tf.py_function(reached.set, [], [])]):
            first = endless(tf.constant(0))
        second, end = endless(tf.constant(1)), is_over.insert(0, 1)
        session = tf.compat.v1.Session()
        session.run(state.initializer)
    thread = threading.Thread(target=lambda: results.append(session.run(first)))
    thread.start()
    assert reached.wait(60)
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(second, options=tf.compat.v1.RunOptions(timeout_in_ms=300))
    assert thread.is_alive()
    session.run(end)
    thread.join(60)
    assert not thread.is_alive()
    assert session.run(second) == results[0] + 1
    session.close()


def test_calls_are_cancelled_at_any_moment_of_their_turns() -> None:
    """Before they wait, while they do, as they begin: each is over, and those behind them have their turns."""
    with tf.Graph().as_default():
        state = tf.compat.v1.get_variable("counted", [], tf.int32, tf.zeros_initializer(), use_resource=True)
        with rg.SubGraph("count", outputs=INT) as count:
            n = count.input(tf.int32)
            (m,) = tf.while_loop(lambda m: m < 200, lambda m: (m + 1,), (n,))
            count.output(state.assign(state.read_value() + tf.minimum(m, 1)))
        calls = tf.add_n([count(tf.constant(i)) for i in range(4)])
        session = tf.compat.v1.Session()
        session.run(state.initializer)

    def call(number: int) -> tuple[int, int]:
        ended = cancelled = 0
        for i in range(40):
            try:
                session.run(calls, options=tf.compat.v1.RunOptions(timeout_in_ms=1 + (i + number) % 4))
                ended += 1
            except (tf.errors.DeadlineExceededError, tf.errors.CancelledError):
                cancelled += 1
        return ended, cancelled

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(call, range(4)))
    ended, cancelled = (sum(each) for each in zip(*outcomes, strict=True))
    assert (ended + cancelled, cancelled > 0) == (160, True)
    before = session.run(state)
    assert 4 * ended <= before <= 4 * (ended + cancelled)
    session.run(calls)
    assert session.run(state) == before + 4
    session.close()


def test_python_in_a_body_may_call_it_again() -> None:
    """Who has a turn must not wait for one that has none."""
    count = tf.Variable(0)
    with rg.SubGraph("inner", outputs=INT) as inner:
        n = inner.input(tf.int32)
        inner.output(count.assign(count.read_value() + n))
    with rg.SubGraph("outer", outputs=INT) as outer:
        n = outer.input(tf.int32)
        count.assign(count.read_value() + n)
        (called,) = tf.py_function(lambda one: [0 * inner(one)], [n], [tf.int32])
        called.set_shape([])
        outer.output(n + called)
    assert int(outer(3)) == 3
    assert int(inner(0)) in (3, 6)  # the order of the two is not promised
