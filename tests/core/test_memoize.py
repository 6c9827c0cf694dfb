"""`memoize=True`: calls that are given the same run once; values and gradients are those of recursion without it."""

from __future__ import annotations

import dataclasses
import gc
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import tensorflow as tf
from core.failing import nothing_is_left_behind, wait_until  # noqa: F401  (the fixture serves every test)
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import recgraph as rg
from recgraph import testing
from tests import sampling

INT, FLOAT, ROW = tf.TensorSpec([], tf.int32), tf.TensorSpec([]), tf.TensorSpec([2], tf.float64)
PROGRAMS = sampling.count("programs", 6)
LEAVES, NODES = 3, 11
# How a call hands on what it was given.
HANDED: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "same": lambda x: x,
    "identity": tf.identity,
    "stopped": tf.stop_gradient,
    "half": lambda x: x * 0.5,
    "reversed": tf.custom_gradient(lambda x: (tf.identity(x), lambda dy: -2 * dy)),
}


@dataclasses.dataclass(frozen=True)
class Program:
    """A recursion over a graph, in which the result of one call decides whether there is another one.

    Attributes:
        left, right: for each node that is no leaf, nodes below it.
        first, second: how the two calls hand on what they are given.
        takes: "row" if a call is given a row of numbers, else nothing but the node.
        loops: whether it calls `right` in a loop.
        gradient: the option.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    first: str
    second: str
    takes: str
    loops: bool
    gradient: str

    def make(self, memoize: bool) -> Any:
        """The SubGraph, and what it captures."""
        rng = np.random.default_rng(5)
        leaves, weights = (tf.Variable(rng.uniform(-1, 1, shape)) for shape in ([LEAVES, 2], [NODES, 2]))
        left, right = (tf.constant([0] * LEAVES + list(nodes)) for nodes in (self.left, self.right))
        inputs = (INT, ROW) if self.takes == "row" else (INT,)
        with rg.SubGraph("value", inputs, ROW, memoize=memoize, gradient=self.gradient) as value:
            n, *more = value.declared_arguments()
            handed = lambda how: [HANDED[how](x) for x in more]  # noqa: E731

            def again() -> tf.Tensor:
                return value(right[n], *handed(self.second))

            def both() -> tf.Tensor:
                first = value(left[n], *handed(self.first))
                grown = lambda: tf.tanh(first) * tf.gather(weights, n) + again()  # noqa: E731
                if self.loops:
                    grown = lambda: tf.while_loop(  # noqa: E731
                        lambda i, _: i < 2, lambda i, sum: (i + 1, tf.tanh(sum * first) + again()), (0, first)
                    )[1]
                return tf.cond(first[0] + first[1] > 0, grown, lambda: first * tf.gather(weights, n))

            leaf = lambda: tf.gather(leaves, n) * (tf.sin(more[0]) if more else 1)  # noqa: E731
            value.output(tf.cond(n < LEAVES, leaf, both))
        return value, [leaves, weights]


@st.composite
def random_programs(draw: st.DrawFn) -> Program:
    """Nodes are below later ones."""
    below = lambda: tuple(draw(st.integers(0, n - 1)) for n in range(LEAVES, NODES))  # noqa: E731
    how = st.sampled_from(["same", "same", "identity", "stopped", *sorted(HANDED)])
    gradient = draw(st.sampled_from(["cache", "recompute"]))
    takes = draw(st.sampled_from(["nothing", "row"]))
    left = below()
    right = left if draw(st.booleans()) else below()
    return Program(left, right, draw(how), draw(how), takes, draw(st.booleans()), gradient)


def derivatives(program: Program, memoize: bool, whole: bool) -> list[np.ndarray]:
    """A call of the last node, or of some at once, and gradients by all that it depends on."""
    value, captured = program.make(memoize)
    rows = tf.constant(np.random.default_rng(6).uniform(-1, 1, [3, 2]))
    x = rows if whole else rows[0]
    nodes = tf.constant([NODES - 1, NODES - 2, NODES - 1]) if whole else tf.constant(NODES - 1)
    with tf.GradientTape() as tape:
        tape.watch(x)
        given = [nodes, x] if program.takes == "row" else [nodes]
        result = value.map(*given) if whole else value(*given)
        loss = tf.reduce_sum(result * [1.0, 3.0])
    gradients = tape.gradient(loss, [*captured, x], unconnected_gradients="zero")
    return [tf.convert_to_tensor(one).numpy() for one in (result, *gradients)]


@pytest.mark.parametrize("start", range(2))
@pytest.mark.parametrize("policy", ["depth_first", "random"])
def test_random_recursions(start: int, policy: str) -> None:
    """Decided by values; what is handed on lies at one place, and only some of it has a gradient."""

    @seed(sampling.seed(start))
    @settings(max_examples=PROGRAMS, derandomize=False, database=None, phases=sampling.PHASES, deadline=None)
    @given(random_programs(), st.booleans())
    def check(program: Program, whole: bool) -> None:
        expected = derivatives(program, False, whole)
        with testing.policy(policy):
            found = derivatives(program, True, whole)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=str(program))

    check()


Recursion: TypeAlias = Callable[[Any, tf.Tensor, tf.Tensor, tf.Variable], Any]


def only_decides(f: Any, n: tf.Tensor, x: tf.Tensor, w: tf.Variable) -> Any:
    """A result that no gradient comes of, besides one of the same call that it does."""
    other = lambda: f(n - 1, x) * 0.5 + f(n - 2, x)  # noqa: E731
    return tf.cond(f(n - 1, x)[0] > 0.1, lambda: f(n - 2, x) * tf.gather(w, n) + f(n - 1, x), other)


def stopped(f: Any, n: tf.Tensor, x: tf.Tensor, w: tf.Variable) -> Any:
    """One caller stops the gradient, and one hands it down."""
    return tf.stop_gradient(f(n - 1, x)) * f(n - 2, x) + f(n - 1, x) * w[1]


def in_a_loop(f: Any, n: tf.Tensor, x: tf.Tensor, w: tf.Variable) -> Any:
    """As often as the argument says."""
    step = lambda i, sum: (i + 1 + i % 2, sum + f(n - 1 - i, x) * tf.gather(w, i))  # noqa: E731
    return tf.while_loop(lambda i, _: i < n, step, (tf.constant(0), tf.zeros([2], tf.float64)))[1]


def by_results(f: Any, n: tf.Tensor, x: tf.Tensor, w: tf.Variable) -> Any:
    """A shared result, which is one tensor for all callers, is an argument."""
    a, b = f(n - 1, x), f(n - 2, x) * 1.0
    return tf.cond(a[0] > b[1], lambda: f(n - 2, f(n - 2, x)) + a * w[2], lambda: f(n - 2, f(n - 2, x)) * f(n - 2, x))


def by_functions(f: Any, n: tf.Tensor, x: tf.Tensor, w: tf.Variable) -> Any:
    """Calls in a function of the user's."""
    both = tf.function(lambda y: tf.tanh(f(n - 1, y)) + f(n - 2, y))
    return both(x) * w[3]


@pytest.mark.parametrize("body", [only_decides, stopped, in_a_loop, by_results, by_functions])
def test_where_calls_and_gradients_part(body: Recursion) -> None:
    """Not every caller takes part in the gradient."""
    found = []
    for memoize in (False, True):
        w, x = tf.Variable(np.linspace(0.3, 0.9, 9)), tf.constant([0.4, 0.7], tf.float64)
        with rg.SubGraph(body.__name__, (INT, ROW), ROW, memoize=memoize) as f:
            n, y = f.declared_arguments()
            f.output(tf.cond(n < 2, lambda: tf.sin(y) * w[0], lambda: body(f, n, y, w)))  # noqa: B023
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = f(8, x)
        found.append([result, *tape.gradient(result, [w, x])])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), tf.convert_to_tensor(other), rtol=1e-9)
    asked, computed = asked_and_computed(f, f"{body.__name__}.rec")
    assert asked > computed


def asked_and_computed(subgraph: rg.SubGraph, function: str) -> tuple[int, int]:
    """What `explain` says of a function."""
    found = re.search(
        rf"^{re.escape(function)}: memoized, (\d+) calls asked for, (\d+) computed", subgraph.explain(), re.M
    )
    assert found is not None, subgraph.explain()
    return int(found[1]), int(found[2])


def make_fibonacci(scale: Any, name: str = "fibonacci", **options: Any) -> rg.SubGraph:
    """The second call is made because of what the first one gives."""
    with rg.SubGraph(name, INT, tf.TensorSpec([], tf.float64), memoize=True, **options) as fibonacci:
        n = fibonacci.declared_arguments()

        def below() -> tf.Tensor:
            first = fibonacci(n - 1)
            return tf.cond(first > 0, lambda: first + fibonacci(n - 2), lambda: first)

        fibonacci.output(tf.cond(n < 2, lambda: tf.cast(scale, tf.float64), below))
    return fibonacci


@pytest.mark.parametrize("engine", ["auto", "parallel", "batched"])
def test_what_values_decide_takes_as_long_as_it_has_calls(engine: str) -> None:
    """Both ways: the gradient of the 61st Fibonacci number by the first one is that number."""
    scale = tf.Variable(1.0, dtype=tf.float64)
    name = f"by_{engine}"  # programs that are written alike are one, and count together
    fibonacci = make_fibonacci(scale, name, engine=engine)
    with tf.GradientTape() as tape:
        result = fibonacci(60)
    assert result == 2504730781961
    assert tape.gradient(result, scale) == 2504730781961
    assert asked_and_computed(fibonacci, f"{name}.rec") == (119, 61)
    assert asked_and_computed(fibonacci, f"{name}.grad") == (118, 60)  # that from outside is nobody else's
    for _ in range(2):  # no table is left of a call
        np.testing.assert_array_equal(fibonacci.map(tf.constant([3, 60, 60])), [3, 2504730781961, 2504730781961])
    assert asked_and_computed(fibonacci, name) == (2 * (3 + 2 * 59), 2 * 61)
    if engine != "parallel":
        assert f"SubGraph '{name}', which is memoized, cannot be batched" in fibonacci.explain()


def test_calls_by_steps_of_collatz() -> None:
    """Of numbers up to 300; the result of a call decides what its caller returns, and all rows share."""
    with rg.SubGraph("steps", tf.TensorSpec([], tf.int64), INT, memoize=True) as steps:
        n = steps.declared_arguments()
        following = lambda: steps(tf.where(n % 2 == 0, n // 2, 3 * n + 1)) + 1  # noqa: E731
        steps.output(tf.cond(n == 1, lambda: 0, following))

    def expected(n: int) -> int:
        return 0 if n == 1 else 1 + expected(n // 2 if n % 2 == 0 else 3 * n + 1)

    numbers = list(range(1, 301))
    np.testing.assert_array_equal(steps.map(tf.constant(numbers, tf.int64)), [expected(n) for n in numbers])
    asked, computed = asked_and_computed(steps, "steps")
    assert asked < computed + 300


def test_a_game_is_decided_by_the_first_move_that_wins() -> None:
    """Take 1, 3 or 4: whoever takes the last one wins. As in alpha-beta search, other moves are not looked at then."""
    with rg.SubGraph("wins", INT, tf.TensorSpec([], tf.bool), memoize=True) as wins:
        n = wins.declared_arguments()
        no = lambda: tf.constant(False)  # noqa: E731

        def by(moves: list[int]) -> Callable[[], tf.Tensor]:
            if not moves:
                return no
            move = lambda: tf.cond(wins(n - moves[0]), by(moves[1:]), lambda: tf.constant(True))  # noqa: E731
            return lambda: tf.cond(n >= moves[0], move, no)

        wins.output(by([1, 3, 4])())
    np.testing.assert_array_equal(wins.map(tf.range(80)), [n % 7 not in (0, 2) for n in range(80)])


def test_adaptive_quadrature() -> None:
    """Parts are halved where the rule is not exact enough; ends are shared, and the gradient is that of the sum."""
    sharpness, most = tf.Variable(6.0, dtype=tf.float64), 1 << 12
    point, number = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float64)
    with rg.SubGraph("height", point, number, memoize=True) as height:
        x = tf.cast(height.declared_arguments(), tf.float64) / most
        height.output(tf.exp(-sharpness * x) * tf.sin(9 * x))
    with rg.SubGraph("area", (point, point), number, memoize=True) as area:
        a, b = area.declared_arguments()
        c, width = (a + b) // 2, tf.cast(b - a, tf.float64) / most
        ends = height(a) + height(b)
        coarse, fine = width * ends / 2, width * (ends + 4 * height(c)) / 6
        is_fine = (tf.abs(fine - coarse) < 1e-6) | (b - a <= 2)
        area.output(tf.cond(is_fine, lambda: fine, lambda: area(a, c) + area(c, b)))
    with tf.GradientTape() as tape:
        whole = area(0, most)
    xs = np.linspace(0, 1, 200_001)
    values = np.exp(-6 * xs) * np.sin(9 * xs)
    trapezes = lambda ys: float(np.mean((ys[1:] + ys[:-1]) / 2))  # noqa: E731
    np.testing.assert_allclose(whole, trapezes(values), rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(whole, sharpness), trapezes(-xs * values), rtol=1e-4)
    asked, computed = asked_and_computed(area, "height.rec")
    assert asked > 2 * computed


def make_echo(spec: tf.TensorSpec, twice: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]) -> rg.SubGraph:
    """Calls a memoized SubGraph with two arguments that are made of one."""
    with rg.SubGraph("echo", spec, spec, memoize=True) as echo:
        echo.output(tf.identity(echo.declared_arguments()))
    with rg.SubGraph("both", spec, (spec, spec)) as both:
        both.output(tuple(echo(x) for x in twice(both.declared_arguments())))
    return both


ARGUMENTS = {
    "integers": ([1, 2], lambda x: (x + 1, x + 1), 1),
    "other integers": ([1, 2], lambda x: (x + 1, x + 2), 2),
    "long ones": (np.arange(1000), lambda x: (x + 1, x + 1), 1),
    "long ones that differ in the middle": (
        np.arange(1000),
        lambda x: (x, x + tf.one_hot(500, 1000, dtype=x.dtype)),
        2,
    ),
    "none": (np.zeros([0], np.int32), lambda x: (x + 1, x + 2), 1),
    "booleans": ([True, False], lambda x: (~x, ~x), 1),
    "strings": (["a", "much longer than what is kept in place"], lambda x: (x + "!", x + "!"), 1),
    "other strings": (["a", "b"], lambda x: (x + "!", x + "?"), 2),
    "the same floats": ([1.0, 2.0], lambda x: (x, tf.identity(x)), 1),
    "equal floats": ([1.0, 2.0], lambda x: (x + 1, x * 1 + 1), 2),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_arguments_are_the_same(name: str) -> None:
    """Integers, booleans and strings by their value, others by where they lie."""
    value, twice, computed = ARGUMENTS[name]
    x = tf.constant(value)
    both = make_echo(tf.TensorSpec([None], x.dtype), twice)
    for found, expected in zip(both(x), twice(x), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert asked_and_computed(both, "echo") == (2, computed)


def test_what_comes_from_outside_has_its_own_gradient() -> None:
    """Though a tensor and what has stopped its gradient lie at one place."""
    x = tf.constant([0.5, 1.0, 1.5])
    with rg.SubGraph("square", (INT, tf.TensorSpec([3])), tf.TensorSpec([3]), memoize=True) as square:
        n, row = square.declared_arguments()
        square.output(tf.cond(n > 0, lambda: square(n - 1, row) * 1.0, lambda: row * row))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        stopped, same = tf.stop_gradient(x), tf.identity(x)
        with rg.SubGraph("sum", (tf.TensorSpec([3]),) * 3, tf.TensorSpec([3])) as both:
            a, b, c = both.declared_arguments()
            both.output(5 * square(2, a) + 3 * square(2, b) + square(2, c))
        first, second = both(stopped, x, same), both(x, stopped, stopped)
    np.testing.assert_allclose(tape.gradient(first, x), 2 * 4 * x)
    np.testing.assert_allclose(tape.gradient(second, x), 2 * 5 * x)


@pytest.mark.parametrize(
    ("how", "share", "shared"), [("same", 5, True), ("stopped", 0, False), ("reversed", -10, False)]
)
def test_which_gradients_are_added_up(how: str, share: int, shared: bool) -> None:
    """Where two calls are given one place in memory, and that has another gradient for each, each has its own."""
    x, vector = tf.constant([1.0, 2.0, 3.0]), tf.TensorSpec([3])
    with rg.SubGraph(f"square_{how}", (INT, vector), vector, memoize=True) as square:
        n, row = square.declared_arguments()
        square.output(tf.cond(n < 1, lambda: row * row, lambda: square(n - 1, row) * 1.0))
    with rg.SubGraph("top", vector, vector) as top:
        row = top.declared_arguments()
        top.output(5 * square(2, HANDED[how](row)) + 3 * square(2, row))
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = top(x)
    np.testing.assert_allclose(tape.gradient(result, x), 2 * x * (share + 3))
    assert asked_and_computed(top, f"square_{how}.rec") == (4, 3)
    assert (f"square_{how}.grad: memoized, 4 calls asked for, 3 computed" in top.explain()) == shared


def test_two_threads() -> None:
    """Each call has a table of its own."""
    scale = tf.Variable(1.0, dtype=tf.float64)
    fibonacci = make_fibonacci(scale)

    def slope(n: int) -> tuple[float, float]:
        with tf.GradientTape() as tape:
            result = fibonacci(n)
        return float(result), float(tape.gradient(result, scale))

    expected = [slope(30 + i % 3) for i in range(40)]
    with ThreadPoolExecutor(2) as pool, testing.policy("random"):
        assert list(pool.map(lambda i: slope(30 + i % 3), range(40))) == expected


def test_an_error_in_the_middle() -> None:
    """Whoever waits for what has failed ends, too; nothing is left, and the next call is well."""
    row, place = tf.Variable([1.0, 1.0]), tf.Variable(3)
    with rg.SubGraph("walk", INT, FLOAT, memoize=True) as walk:
        n = walk.declared_arguments()
        walk.output(tf.cond(n < 2, lambda: tf.gather(row, n + place), lambda: walk(n - 1) + walk(n - 2)))
    for _ in range(3):
        with tf.GradientTape(), pytest.raises(tf.errors.InvalidArgumentError) as caught:
            walk(40)
        assert re.search(r"is not in \[0, 2\)(.|\n)*call path: walk > ", str(caught.value))
    place.assign(0)
    assert walk(20) == 10946


def test_an_error_in_the_gradient() -> None:
    """It ends those that wait, and names the operation; nothing is left, and the next gradient is well."""
    scale = tf.Variable(0.0)
    with rg.SubGraph("below", INT, FLOAT, memoize=True) as below:
        n = below.declared_arguments()
        leaf = lambda: tf.debugging.check_numerics(scale * 1.0, "the leaf")  # noqa: E731
        below.output(tf.cond(n < 1, leaf, lambda: below(n - 1) + below(n - 1)))

    def slope(n: int) -> tf.Tensor:
        with tf.GradientTape() as tape:
            result = below(n)
        return tape.gradient(result, scale)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"in gradient(.|\n)*call path: below > n > "):
        slope(200)  # 2^200 is too large
    assert slope(100) == 2.0**100


CIRCLES = {
    "itself": ([0, 1], 1, "at(1) > at(1)"),
    "one above": ([0, 2, 3, 1], 3, "at(3) > at(1) > at(2) > at(3)"),
}


@pytest.mark.parametrize("policy", ["depth_first", "random"])
@pytest.mark.parametrize("name", CIRCLES)
def test_a_circle_is_named(name: str, policy: str) -> None:
    """Wherever it is entered."""
    table, start, text = CIRCLES[name]
    with rg.SubGraph("at", INT, FLOAT, memoize=True) as at:
        n = at.declared_arguments()
        at.output(tf.cond(n == 0, lambda: 1.0, lambda: tf.tanh(at(tf.gather(tf.constant(table), n)))))
    with testing.policy(policy), pytest.raises(tf.errors.InvalidArgumentError) as caught:
        at(start)
    assert f"goes round in a circle: {text.replace('at(', 'at(')}" in str(caught.value).replace("gather(", "at(")
    assert "call path: at > " in str(caught.value)
    assert at(0) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_a_circle_that_is_entered_at_two_places(seed: int) -> None:
    """Two rows wait for each other, and a third one for both: none hangs."""
    below = tf.constant([[1, 2], [0, 2], [3, 3], [3, 3]])
    with rg.SubGraph("at", INT, FLOAT, memoize=True) as at:
        n = at.declared_arguments()
        both = lambda: at(below[n, 0], name="left") + at(below[n, 1], name="right")  # noqa: E731
        at.output(tf.cond(n == 3, lambda: 1.0, both))
    with testing.policy("random"), pytest.raises(tf.errors.InvalidArgumentError) as caught:
        at.map(tf.random.experimental.stateless_shuffle(tf.constant([0, 1, 2, 0]), [seed, 1]))
    assert re.search(r"circle: \S+\(([01])\) > left\([01]\) > left\(\1\)\. No node", str(caught.value))
    assert at(2) == 2.0


def test_a_step_is_cancelled() -> None:
    """Whatever waits ends."""
    graph = tf.Graph()
    with graph.as_default():
        with rg.SubGraph("long", INT, FLOAT, memoize=True, engine="parallel") as long:
            n = long.declared_arguments()
            heavy = lambda x: tf.reduce_sum(tf.tanh(tf.fill([20_000], x)))  # noqa: E731
            long.output(tf.cond(n < 2, lambda: 1.0, lambda: heavy(long(n - 1) + long(n - 2) * 1e-9)))
        x = tf.constant(1.0)
        result = long(100_000)

        def break_off() -> int:
            time.sleep(0.2)
            raise ValueError("broken off")

        end = tf.py_function(break_off, [], tf.int32)
    with tf.compat.v1.Session(graph=graph) as session, pytest.raises(tf.errors.OpError, match="broken off"):
        session.run([result, end])
    assert x.shape == []


EFFECTS: dict[str, tuple[Callable[[], Any], str]] = {
    "random numbers": (lambda: tf.random.uniform([]), "draws random numbers"),
    "Python": (lambda: tf.py_function(lambda: 1.0, [], tf.float32), "runs Python"),
    "printing": (lambda: tf.print("now"), "has an effect"),
    "writing": (lambda: COUNT.assign(2.0), "has an effect"),
    "counting": (lambda: COUNT.assign_add(2.0), "has an effect"),
}
COUNT = tf.Variable(1.0)


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("name", EFFECTS)
def test_what_cannot_be_shared_is_refused(name: str, below: bool) -> None:
    """In the body, and in what it calls."""
    effect, words = EFFECTS[name]
    with rg.SubGraph("inner", INT, FLOAT, memoize=not below) as inner:
        inner.declared_arguments()
        effect()
        inner.output(1.0)
    with rg.SubGraph("outer", INT, FLOAT, memoize=below) as outer:
        outer.output(inner(outer.declared_arguments()))
    with pytest.raises(
        rg.errors.DefinitionError, match="memoize=True runs one of the calls that are given the same"
    ) as e:
        outer(1)
    assert words in str(e.value)
    assert f"{Path(__file__).name}:" in e.value.where


def save_doubling(folder: str) -> None:
    """A model with a SubGraph, of which nothing stays in this process."""
    module = tf.Module()
    with rg.SubGraph("doubled", INT, INT) as doubled:
        doubled.output(2 * doubled.declared_arguments())
    module.run = tf.function(lambda n: doubled(n), input_signature=[INT])
    tf.saved_model.save(module, folder)


def test_a_loaded_model_is_refused(tmp_path: Path) -> None:
    """What is in it is not looked at."""
    save_doubling(str(tmp_path / "model"))
    gc.collect()
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    with rg.SubGraph("calls", INT, INT, memoize=True) as calls:
        calls.output(loaded.run(calls.declared_arguments()))
    with pytest.raises(rg.errors.DefinitionError, match="what a loaded model does is not known"):
        calls(1)


def test_what_is_written_elsewhere_is_refused() -> None:
    """A read of it is not the same each time."""
    with rg.SubGraph("reads", INT, FLOAT, memoize=True) as reads:
        reads.output(COUNT.read_value() + tf.cast(reads.declared_arguments(), tf.float32))
    with rg.SubGraph("writes", INT, FLOAT) as writes:
        n = writes.declared_arguments()
        COUNT.assign_add(1.0)
        writes.output(reads(n))
    with pytest.raises(rg.errors.DefinitionError, match="what this one reads is written in the same program"):
        writes(1)


def test_a_saved_model_memoizes(tmp_path: Path) -> None:
    """The option is part of the program."""
    module = tf.Module()
    module.scale = tf.Variable(1.0, dtype=tf.float64)
    fibonacci = make_fibonacci(module.scale)
    module.run = tf.function(lambda n: fibonacci(n), input_signature=[INT])
    tf.saved_model.save(module, str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    with tf.GradientTape() as tape:
        result = loaded.run(60)
    assert result == 2504730781961
    assert tape.gradient(result, loaded.scale) == 2504730781961


def test_second_derivatives() -> None:
    """Of the product of a number's copies, as many as a small Fibonacci number."""
    scale = tf.Variable(1.1, dtype=tf.float64)
    with rg.SubGraph("product", INT, tf.TensorSpec([], tf.float64), memoize=True) as product:
        n = product.declared_arguments()
        product.output(tf.cond(n < 2, lambda: scale * 1.0, lambda: product(n - 1) * product(n - 2)))
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            result = product(6)  # 13 leaves
        first = inner.gradient(result, scale)
    np.testing.assert_allclose(result, 1.1**13)
    np.testing.assert_allclose(first, 13 * 1.1**12)
    np.testing.assert_allclose(outer.gradient(first, scale), 13 * 12 * 1.1**11)


def test_the_decorator_knows_the_option() -> None:
    """And substitutions keep it."""

    @rg.subgraph(memoize=True, outputs=tf.TensorSpec([], tf.int64), optimize=True)
    def paths(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        if i == 0 or j == 0:
            return tf.constant(1, tf.int64)
        return paths(i - 1, j) + paths(i, j - 1)

    assert paths(16, 16) == 601080390
    assert asked_and_computed(paths.subgraphs[0], "paths") == (2 * 16 * 16 + 1, 17 * 17 - 1)
