"""Effects in bodies: both engines run every one of them once, in the order that the program gives them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from core.failing import check_text, nothing_is_left_behind  # noqa: F401  (the fixture serves every test)

import recgraph as rg
from recgraph import testing

INT = tf.TensorSpec([], tf.int32)
WAYS = [("parallel", policy) for policy in testing.POLICIES] + [
    ("batched", policy) for policy in testing.BATCH_POLICIES
]


@pytest.fixture(params=WAYS, ids="-".join)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each engine under each of its policies."""
    name, policy = request.param
    with (testing.policy if name == "parallel" else testing.batch_policy)(policy):
        yield name


class Log:
    """What bodies have noted, in order."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def add(self, word: tf.Tensor | str) -> None:
        """An operation that notes a word: stateful, so that what is written before comes before."""

        def note(word: bytes) -> np.int32:
            self.words.append(word.decode())
            return np.int32(0)

        tf.numpy_function(note, [word], tf.int32)

    def take(self) -> list[str]:
        """The words, which are forgotten."""
        words, self.words = self.words, []
        return words


def name_of(kind: str, n: tf.Tensor) -> tf.Tensor:
    """A word for an event at n."""
    return tf.strings.join([kind, tf.strings.as_string(n)])


def test_every_invocation_counts_once(engine: str) -> None:
    """Also where nobody waits for the counter."""
    visits = tf.Variable(0)
    with rg.SubGraph("counting", outputs=INT, engine=engine) as counting:
        n = counting.input(tf.int32)
        visits.assign_add(1)
        counting.output(tf.cond(n > 0, lambda: counting(n - 1) + counting(n - 1), lambda: 1))
    for function in (counting, tf.function(counting)):
        visits.assign(0)
        assert int(function(3)) == 8
        assert int(visits) == 15
    visits.assign(0)
    assert counting.map(tf.constant([3, 0, 2, 2, 1, 3, 0, 1])).numpy().tolist() == [8, 1, 4, 4, 2, 8, 1, 2]
    assert int(visits) == 15 + 1 + 7 + 7 + 3 + 15 + 1 + 3


def test_a_body_reads_what_it_has_just_written(engine: str) -> None:
    """And what it read before is not changed by that."""
    count = tf.Variable(10)
    with rg.SubGraph("next_number", outputs=(INT, INT, INT), engine=engine) as next_number:
        before = count.read_value()
        count.assign_add(1)
        after = count.read_value()
        count.assign(3 * count)
        next_number.output((before, after, count.read_value()))
    assert [int(value) for value in next_number()] == [10, 11, 33]
    assert int(count) == 33


def test_a_result_comes_after_all_effects_of_the_call(engine: str) -> None:
    """Though the callee had it long before: what uses it sees what was written below."""
    log = Log()
    with rg.SubGraph("chain", outputs=INT, engine=engine) as chain:
        n = chain.input(tf.int32)
        log.add(name_of("down", n))
        tf.cond(n > 0, lambda: chain(n - 1), lambda: 7)
        chain.output(n)
        log.add(name_of("up", n))
    expected = [*(f"down{n}" for n in range(4, -1, -1)), *(f"up{n}" for n in range(5))]
    for function in (chain, tf.function(chain)):
        function(4)
        assert log.take() == expected


def test_control_dependencies_order_calls(engine: str) -> None:
    """The second call begins when the first has ended."""
    log = Log()
    with rg.SubGraph("visited", outputs=INT, engine=engine) as visited:
        n = visited.input(tf.int32)
        log.add(name_of("in", n))
        visited.output(tf.cond(n > 0, lambda: visited(n // 2), lambda: 0) + n)
        log.add(name_of("out", n))
    with rg.SubGraph("both", outputs=INT, engine=engine) as both:
        m = both.input(tf.int32)
        first = visited(m) + 0
        with tf.control_dependencies([first]):
            both.output(visited(m + 1))
    both(2)
    first_words, second_words = (
        ["in2", "in1", "in0", "out0", "out1", "out2"],
        ["in3", "in1", "in0", "out0", "out1", "out3"],
    )
    assert log.take() == first_words + second_words


def test_what_stands_around_calls_stays_there(engine: str) -> None:
    """Two calls may run at the same time, but not before what is written before both, nor after what is after both."""
    log = Log()
    with rg.SubGraph("around", outputs=INT, engine=engine) as around:
        n = around.input(tf.int32)

        def twice() -> tf.Tensor:
            log.add(name_of("before", n))
            left, right = around(n - 1), around(n - 1)
            log.add(name_of("after", n))
            return left + right

        around.output(tf.cond(n > 0, twice, lambda: 1))
    assert int(around(2)) == 4
    words = log.take()
    assert sorted(words[1:-1]) == ["after1", "after1", "before1", "before1"]
    assert (words[0], words[-1]) == ("before2", "after2")


def test_branches_with_nothing_but_effects(engine: str) -> None:
    """A branch that gives nothing, and its sibling that does nothing."""
    log = Log()
    with rg.SubGraph("logged", outputs=INT, engine=engine) as logged:
        n = logged.input(tf.int32)
        tf.cond(n % 2 == 1, lambda: log.add(name_of("odd", n)), lambda: None)
        tf.cond(n > 0, lambda: logged(n - 1), lambda: 0)
        tf.switch_case(n % 3, [lambda: log.add(name_of("third", n)), lambda: None])
        logged.output(n)
    logged(6)
    assert log.take() == ["odd5", "odd3", "odd1", "third0", "third3", "third6"]


def test_iterations_keep_their_order(engine: str) -> None:
    """Each begins when the one before has done all that it does, its calls included."""
    log = Log()
    with rg.SubGraph("looped", outputs=INT, engine=engine) as looped:
        n = looped.input(tf.int32)

        def step(i: tf.Tensor) -> tf.Tensor:
            log.add(tf.strings.join([name_of("", n), name_of(".", i)]))
            tf.cond(n > 0, lambda: looped(n - 1), lambda: 0)
            return i + 1

        looped.output(tf.while_loop(lambda i: i < 2, step, [0])[0])
    looped(2)
    assert log.take() == [
        *["2.0", "1.0", "0.0", "0.1", "1.1", "0.0", "0.1"],
        *["2.1", "1.0", "0.0", "0.1", "1.1", "0.0", "0.1"],
    ]


def test_a_map_ends_after_the_effects_of_its_rows(engine: str) -> None:
    """Rows in any order; what uses the result after them."""
    log = Log()
    with rg.SubGraph("row", outputs=INT, engine=engine) as row:
        n = row.input(tf.int32)
        row.output(2 * n)
        log.add(name_of("row", n))
    with rg.SubGraph("rows", outputs=INT, engine=engine) as rows:
        m = rows.input(tf.int32)
        total = tf.reduce_sum(row.map(tf.range(m)))
        log.add(name_of("total", total))
        rows.output(total)
    assert int(rows(3)) == 6
    words = log.take()
    assert (sorted(words[:3]), words[3:]) == (["row0", "row1", "row2"], ["total6"])


def test_a_table_as_a_memory(engine: str) -> None:
    """Fibonacci numbers that were computed once are looked up."""
    known = tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, default_value=-1)
    with rg.SubGraph("fibonacci", outputs=INT, engine=engine) as fibonacci:
        n = fibonacci.input(tf.int32)

        def compute() -> tf.Tensor:
            first = fibonacci(n - 1)
            with tf.control_dependencies([first + 0]):
                value = first + fibonacci(n - 2)
            known.insert(n, value)
            return value

        found = known.lookup(n)
        fibonacci.output(tf.cond(n < 2, lambda: n, lambda: tf.cond(found >= 0, lambda: found, compute)))
    before = testing.counters().invocations
    assert int(fibonacci(25)) == 75025
    assert testing.counters().invocations - before == 2 * 25 - 1
    assert int(known.size()) == 24


def test_gradients_of_bodies_with_effects(engine: str) -> None:
    """Forward effects happen once, and not again for the gradient."""
    visits, weight = tf.Variable(0), tf.Variable(1.5)
    with rg.SubGraph("power", outputs=tf.TensorSpec([]), engine=engine) as power:
        n, x = power.input(tf.int32), power.input()
        visits.assign_add(1)
        power.output(tf.cond(n > 0, lambda: weight * power(n - 1, x), lambda: x))
    with tf.GradientTape() as tape:
        y = power.map(tf.constant([2, 3]), tf.ones([2]))
    assert float(tf.convert_to_tensor(tape.gradient(y, weight))) == pytest.approx(2 * 1.5 + 3 * 1.5**2)
    assert int(visits) == 7


def test_printing(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A line for each invocation, in the order of a chain."""
    with rg.SubGraph("printed", outputs=INT, engine=engine) as printed:
        n = printed.input(tf.int32)
        tf.print("at", n)
        printed.output(tf.cond(n > 0, lambda: printed(n - 1), lambda: 0))
    printed(3)
    assert capfd.readouterr().err.splitlines() == ["at 3", "at 2", "at 1", "at 0"]


def test_python_in_a_body(engine: str) -> None:
    """It runs once for every invocation."""
    seen: list[int] = []

    def see(n: int) -> int:
        seen.append(int(n))
        return n

    with rg.SubGraph("seeing", outputs=INT, engine=engine) as seeing:
        n = seeing.input(tf.int32)
        same = tf.ensure_shape(tf.numpy_function(see, [n], tf.int32), [])
        seeing.output(tf.cond(n > 0, lambda: seeing(n - 1) + same, lambda: same))
    assert seeing.map(tf.constant([3, 1])).numpy().tolist() == [6, 1]
    assert sorted(seen) == [0, 0, 1, 1, 2, 3]


def test_python_that_fails_runs_once(engine: str) -> None:
    """Also where the engine has to find out which invocation it was."""
    seen: list[int] = []

    def see(n: np.ndarray) -> np.ndarray:
        seen.append(int(n))
        if n == 1:
            raise ValueError("one is too few")
        return n

    with rg.SubGraph("seeing", outputs=INT, engine=engine) as seeing:
        n = seeing.input(tf.int32)
        same = tf.ensure_shape(tf.numpy_function(see, [n], tf.int32), [])
        seeing.output(tf.cond(same > 0, lambda: seeing(n - 1), lambda: same))
    with pytest.raises(tf.errors.InvalidArgumentError, match="one is too few") as caught:
        seeing(4)
    check_text(caught.value, None, "PyFunc", "call path: seeing > n > n > n", "test_effects.py:")
    assert seen == [4, 3, 2, 1]


@pytest.mark.parametrize("policy", ["agenda", "depth", "height"])
def test_rows_of_a_map_have_an_order_that_does_not_depend_on_threads(policy: str) -> None:
    """In the batched engine."""
    log = Log()
    with rg.SubGraph("row", outputs=INT, engine="batched") as row:
        n = row.input(tf.int32)
        log.add(name_of("row", n))
        row.output(tf.cond(n % 3 > 0, lambda: row(n - 1), lambda: n))
    orders = []
    with testing.batch_policy(policy):
        for _ in range(5):
            row.map(tf.range(100))
            orders.append(log.take())
    assert len(orders[0]) == 199
    assert all(order == orders[0] for order in orders)


def test_random_numbers(engine: str) -> None:
    """Every invocation has its own."""
    with rg.SubGraph("noise", outputs=tf.TensorSpec([None]), engine=engine) as noise:
        n = noise.input(tf.int32)
        own = tf.random.uniform([1])
        noise.output(tf.cond(n > 0, lambda: tf.concat([own, noise(n - 1)], 0), lambda: own))
    assert len(set(noise(20).numpy().tolist())) == 21


def test_checks(engine: str) -> None:
    """The user's message comes before the error that it foretells."""
    with rg.SubGraph("checked", outputs=INT, engine=engine) as checked:
        n = checked.input(tf.int32)
        with tf.control_dependencies([tf.debugging.assert_less(n, 3, "n is too large")]):
            value = tf.gather([0, 1, 4], tf.identity(n))
        checked.output(value)
    assert checked.map(tf.constant([2, 1])).numpy().tolist() == [4, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="n is too large"):
        checked.map(tf.constant([1, 3, 2]))
