"""What is finite in a gradient stays finite: nothing is put together of which a part may get no gradient."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.optimize import choosing, evaluate, generalizing, gradients, problem, terms
from recgraph.optimize.bridge import functions, gradient_flow
from recgraph.optimize.bridge.emission import Emission
from recgraph.optimize.evaluate import IllFormed, Shape
from recgraph.optimize.operators import CONSTANTS
from recgraph.optimize.problem import Leaf, Problem
from recgraph.optimize.terms import Apply, Equation, TensorVariable, Term
from tests import sampling

MATRICES = [(*sizes, 1, 1) for sizes in itertools.product((1, 2, 3), repeat=2)]
IMAGES = [(1, 2, 2, 1), (1, 3, 2, 1), (1, 1, 1, 1), (1, 1, 1, 2), (2, 2, 1, 1), (2, 2, 1, 2)]
NAMES = {number: name for name, number in CONSTANTS.items()}
ROW, SQUARE = tf.TensorSpec([4, 32]), (32, 32)


# Rules.


class FourAxes(Emission):
    """Terms as operations on tensors of four axes."""

    def _make(self, term: Apply) -> tf.Tensor:
        if term.operator in ("bias", "gain"):
            return (tf.add if term.operator == "bias" else tf.multiply)(*map(self, term.arguments))
        if term.operator == "matmul":
            x, y = (self(one)[:, :, 0, 0] for one in term.arguments)
            return (x @ y)[:, :, None, None]
        if term.operator == "transpose":
            return tf.transpose(self(term.arguments[0]), [1, 0, 2, 3])
        return super()._make(term)


def instances(rule: Equation, count: int) -> Iterator[tuple[Problem, tuple[Term, ...], dict[str, Shape]]]:
    """A rule with numbers for sizes: its source as a problem, and its target."""
    choices = IMAGES if "conv" in str(rule) else MATRICES
    sampler = generalizing.Sampler(rule, dict.fromkeys(terms.variables(terms.all_terms(rule)), choices), 1)
    kinds = terms.parameters(rule)
    for chosen, shapes in sampler(rule.source, count):
        if not evaluate.is_meant(rule, chosen, shapes):
            continue
        leaves = {name: Leaf(shape) for name, shape in shapes.items()}
        inputs: dict[Term, Term] = {TensorVariable(name): TensorVariable(name) for name in shapes}
        named = ("map", "zip", "padding", "activation")
        sizes = {name: NAMES[size] if kinds[name] in named else size for name, size in chosen.items()}
        blank = Problem((), leaves)
        try:
            source, target = (tuple(problem.instantiate(blank, t, inputs, sizes) for t in side) for side in rule.sides)
        except IllFormed:  # it is used where its target has a shape
            continue
        given = Problem(source, leaves, (frozenset(range(len(source))),))
        yield given, tuple(map(given.shared, target)), shapes


def with_specials(shape: Shape, random: np.random.Generator) -> tf.Tensor:
    """Random numbers, with some infinities, NaN and zeros."""
    made = random.normal(size=shape)
    for _ in range(random.integers(0, 3)):
        place = tuple(random.integers(0, size) for size in shape)
        made[place] = random.choice([np.inf, -np.inf, np.nan, 0.0], p=[0.35, 0.35, 0.15, 0.15])
    return tf.constant(made)


def computed(given: Problem, roots: tuple[Term, ...], inputs: dict[str, tf.Tensor], upstream: list[tf.Tensor]) -> Any:
    """The results, and the gradients of the inputs, zeros where there are none."""
    with tf.GradientTape() as tape:
        tape.watch(list(inputs.values()))
        emission = FourAxes(given, lambda t, as_row: inputs[t.name] if isinstance(t, TensorVariable) else None)
        emission.want(roots)
        results = [emission(root) for root in roots]
    found = tape.gradient(results, list(inputs.values()), upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [one.numpy() for one in results], [one.numpy() for one in found]


@pytest.mark.parametrize("rule", sampling.share(choosing.rules()[:: 1 if sampling.ALL else 4]), ids=str)
def test_a_rule_keeps_what_is_finite(rule: Equation) -> None:
    """In values NaN and infinities are where they were; in gradients there are none where there were none."""
    random = np.random.default_rng(0)
    for given, target, shapes in instances(rule, 12):
        if not gradients.are_kept(given, target):
            continue
        for _ in range(3):
            inputs = {name: with_specials(shape, random) for name, shape in shapes.items()}
            dims = [given.dims(root) for root in given.roots]
            upstream = [tf.constant(np.where(random.random(d) < 0.2, 0.0, random.normal(size=d))) for d in dims]
            (values, before), (others, after) = (
                computed(given, roots, inputs, upstream) for roots in (given.roots, target)
            )
            for a, b in zip(values, others, strict=True):
                assert np.array_equal(np.isnan(a), np.isnan(b))
                assert np.array_equal(np.isinf(a), np.isinf(b))
            for a, b in zip(before, after, strict=True):
                assert np.isfinite(b)[np.isfinite(a)].all(), inputs


@pytest.mark.parametrize(
    ("texts", "made", "differentiated", "expected"),
    [
        (("x @ y", "x @ z"), ("first(1, 2, x @ concat(1, y, z))", "rest(1, 2, x @ concat(1, y, z))"), {0, 1}, True),
        (("x @ y", "x @ z"), ("first(1, 2, x @ concat(1, y, z))", "rest(1, 2, x @ concat(1, y, z))"), {0}, False),
        (("x @ y", "x @ z"), ("first(1, 2, x @ concat(1, y, z))", "rest(1, 2, x @ concat(1, y, z))"), set(), True),
        (("first(1, 1, x) @ first(0, 1, y)",), ("first(1, 1, x) @ first(0, 1, y)",), {0}, True),
        (("tanh(first(0, 1, x))", "tanh(rest(0, 1, x))"), ("first(0, 1, tanh(x))", "rest(0, 1, tanh(x))"), {1}, False),
        (("first(0, 1, tanh(x))", "y"), ("first(0, 1, tanh(x))", "y"), {0}, True),
        (("first(0, 1, x) @ y",), ("first(0, 1, x @ y)",), {0}, False),
        (("first(0, 1, x @ y)",), ("first(0, 1, x) @ y",), {0}, True),
        (
            ("first(1, 1, x @ concat(1, y, z))", "rest(1, 1, x @ concat(1, y, z))"),
            ("x @ first(1, 1, y)", "rest(1, 1, x @ concat(1, y, z))"),
            {0, 1},
            False,
        ),
    ],
)  # fmt: skip
def test_no_operator_gets_zeros_for_a_part(
    texts: tuple[str, ...], made: tuple[str, ...], differentiated: set[int], expected: bool
) -> None:
    """But where it did before."""
    leaves = {name: Leaf((2, 2, 1, 1)) for name in "xyz"}
    given = Problem(tuple(map(terms.read_term, texts)), leaves, (frozenset(differentiated),) if differentiated else ())
    target = tuple(given.shared(terms.read_term(text)) for text in made)
    assert gradients.are_kept(given, target) is expected


# The flow of gradients.


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (tf.identity, True),
        (tf.stop_gradient, None),
        (lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), None),
        (lambda x: tf.cast(x > 0, tf.float32), None),
        (tf.floor, None),
        (lambda x: tf.where(x > 0, x, 0.0), True),
        (lambda x: tf.gather(x, [0, 1]), True),
        (lambda x: tf.linalg.matvec(x, tf.ones([32])), True),
        (lambda x: tf.one_hot(tf.argmax(x, 1), 3), None),
        (lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x), lambda: tf.zeros_like(x)), True),
        (lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.stop_gradient(x), lambda: tf.zeros_like(x)), None),
        (lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y)), (0, x))[1], True),
        (lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.zeros([4], tf.int32), x), True),
        (lambda x: tf.math.igamma(x, 1.0), True),
        (lambda x: tf.map_fn(tf.tanh, x), True),
    ],
)  # fmt: skip
def test_what_hands_on_a_gradient(use: Callable[[tf.Tensor], tf.Tensor], expected: bool | None) -> None:
    """As TensorFlow does it: there is a gradient where a tape has one."""
    graph = tf.function(lambda x: use(tf.tanh(x)), autograph=False).get_concrete_function(ROW).graph
    (inner,) = [op for op in graph.get_operations() if op.type == "Tanh"][:1]
    assert gradient_flow.of_function(graph)[id(graph)].arrival(inner.outputs[0]) is expected
    x = tf.ones(ROW.shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = use(tf.tanh(x))
    assert (tape.gradient(y, x) is None) is (expected is None)


# Programs.


def weights(count: int) -> list[tf.Variable]:
    return [tf.Variable(tf.random.stateless_normal(SQUARE, [0, i]) * 0.1) for i in range(count)]


def nonfinite(tensors: list[tf.Tensor | None]) -> list[np.ndarray]:
    return [np.zeros(1, bool) if one is None else ~np.isfinite(one.numpy()) for one in tensors]


WAYS: list[Callable[[tf.Tensor], tf.Tensor]] = [
    tf.identity,
    tf.identity,
    tf.stop_gradient,
    lambda x: tf.cast(x > 0, tf.float32),
]
FUNCTIONS = [tf.tanh, tf.sigmoid, tf.nn.relu, tf.exp, tf.identity]


def random_program(seed: int, matrices: list[tf.Variable]) -> Callable[..., tuple[tf.Tensor, ...]]:
    """Functions of products, of which some get a gradient and others none, and which are added or returned."""

    def program(*inputs: tf.Tensor) -> tuple[tf.Tensor, ...]:
        random = np.random.default_rng(seed)
        parts = []
        for _ in range(5):
            product = inputs[random.integers(len(inputs))] @ matrices[random.integers(len(matrices))]
            if random.random() < 0.4:
                product += inputs[random.integers(len(inputs))] @ matrices[random.integers(len(matrices))]
            made = FUNCTIONS[random.integers(len(FUNCTIONS))](product)
            parts.append(WAYS[random.integers(len(WAYS))](made))
        return parts[0] * parts[1], parts[2] + parts[3], parts[4]

    return program


@pytest.fixture
def as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form that was found is used, whatever was measured."""
    monkeypatch.setattr(functions, "MARGIN", float("inf"))


def gradients_of(function: Any, inputs: list[tf.Tensor], matrices: list[tf.Variable]) -> list[tf.Tensor | None]:
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.add_n([tf.reduce_sum(one) for one in function(*inputs)])
    return tape.gradient(loss, [*inputs, *matrices])


@pytest.mark.parametrize("search", ["backtracking", "saturation"])
@pytest.mark.parametrize("seed", sampling.share(range(40 if sampling.ALL else 6)))
@pytest.mark.usefixtures("as_found")
def test_random_programs_keep_finite_gradients(seed: int, search: str) -> None:
    """With an infinity in each input and each weight, one after another."""
    matrices = weights(3)
    plain = tf.function(random_program(seed, matrices), autograph=False).get_concrete_function(ROW, ROW)
    fast = rg.optimize(plain, seconds=0.4, search=search)
    for number in range(5):
        inputs = [tf.random.stateless_normal(ROW.shape, [1, i]) for i in range(2)]
        kept = [tf.constant(one) for one in matrices]
        if number < 2:
            inputs[number] = tf.tensor_scatter_nd_update(inputs[number], [[0, 0]], [np.inf])
        else:
            matrices[number - 2].assign(tf.tensor_scatter_nd_update(kept[number - 2], [[0, 0]], [np.inf]))
        before, after = (nonfinite(gradients_of(one, inputs, matrices)) for one in (plain, fast))
        for a, b in zip(before, after, strict=True):
            assert not (b & ~a).any(), fast.explain()
        for variable, value in zip(matrices, kept, strict=True):
            variable.assign(value)


@pytest.mark.usefixtures("as_found")
def test_targets_without_a_gradient_are_put_together_by_themselves() -> None:
    """Two products of a target become one, and two that are trained; not all four."""
    w, u, v, t = weights(4)

    @tf.function(autograph=False)
    def losses(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        trained = tf.tanh(x @ w), tf.tanh(x @ u)
        return *trained, *map(tf.stop_gradient, (tf.tanh(x @ v), tf.tanh(x @ t)))

    assert "matmul 4 -> 2" in rg.optimize(losses, ROW, seconds=0.4).explain()
    assert "matmul 4 -> 1" in rg.optimize(losses, ROW, seconds=0.4, gradients=False).explain()


def recursion(engine: Any, is_optimized: bool, matrices: list[tf.Variable]) -> rg.SubGraph:
    """Rows and targets, which get no gradient, down to depth 0."""
    w, u, v = matrices
    with rg.SubGraph(f"rows_{is_optimized}", outputs=(ROW, ROW), engine=engine, optimize=is_optimized) as made:
        x, y, n = made.input(ROW), made.input(ROW), made.input(tf.int32)

        def cell(p: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return tf.tanh(p @ w) * tf.sigmoid(p @ u) + tf.tanh(p @ v), tf.stop_gradient(y @ w)

        made.output(tf.cond(n < 1, lambda: cell(x), lambda: cell(made(x, y, n - 1)[0])))
    return made


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_a_body_keeps_finite_gradients(engine: Any) -> None:
    """A branch whose second result gets no gradient: its product is not put together with the others."""
    matrices, found = weights(3), []
    target = tf.tensor_scatter_nd_update(tf.ones(ROW.shape), [[0, 0]], [np.inf])
    for is_optimized in (False, True):
        rows = recursion(engine, is_optimized, matrices)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(rows(tf.ones(ROW.shape) * 0.1, target, 2)[0])
        found.append(nonfinite(tape.gradient(loss, matrices)))
    assert "matmul 4 -> 2" in rows.explain()
    for before, after in zip(*found, strict=True):
        assert not (after & ~before).any()


@pytest.mark.usefixtures("as_found")
def test_the_gates_of_a_cell_are_still_put_together() -> None:
    """Also where one of them gets its gradient by another result alone."""
    w = weights(8)

    @tf.function(autograph=False)
    def cell(x: tf.Tensor, h: tf.Tensor, c: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        gate = [x @ w[2 * i] + h @ w[2 * i + 1] for i in range(4)]
        c = tf.sigmoid(gate[0]) * c + tf.sigmoid(gate[1]) * tf.tanh(gate[2])
        return tf.sigmoid(gate[3]) * tf.tanh(c), c

    assert "matmul 8 -> 1" in rg.optimize(cell, ROW, ROW, ROW, seconds=1).explain()


@pytest.mark.usefixtures("as_found")
def test_a_result_that_is_not_used_gets_zeros_in_both_forms() -> None:
    """TensorFlow differentiates all results of a function if one of them gets a gradient: nothing is kept apart."""
    w, u = weights(2)
    target = tf.tensor_scatter_nd_update(tf.ones(ROW.shape), [[0, 0]], [np.inf])

    @tf.function(autograph=False)
    def both(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tf.tanh(x @ w), tf.tanh(y @ w), tf.tanh(x @ u)

    plain = both.get_concrete_function(ROW, ROW)
    fast = rg.optimize(plain, seconds=0.4)
    assert "matmul 3 -> " in fast.explain()
    before, after = (
        nonfinite(gradients_of(lambda x, y, one=one: one(x, y)[:1], [tf.ones(ROW.shape), target], [w, u]))
        for one in (plain, fast)
    )
    assert before[2].any()
    for a, b in zip(before, after, strict=True):
        assert not (b & ~a).any()


def test_what_does_not_tell_is_put_together_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation whose gradient function cannot be asked may hand on a gradient or none."""
    ask = gradient_flow._gets_one
    monkeypatch.setattr(gradient_flow, "_gets_one", lambda op: None if op.type == "Softplus" else ask(op))
    w = weights(4)

    @tf.function(autograph=False)
    def several(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        asked = tf.math.softplus(x @ w[0]), tf.math.softplus(x @ w[1])
        return *asked, tf.nn.elu(x @ w[2]), tf.nn.elu(x @ w[3])

    graph = several.get_concrete_function(ROW).graph
    flow = gradient_flow.of_function(graph)[id(graph)]
    products = [op.outputs[0] for op in graph.get_operations() if op.type == "MatMul"]
    assert [flow.arrival(one) for one in products] == [False, False, True, True]
    expected = frozenset({2, 3}), frozenset({0, 2, 3}), frozenset({1, 2, 3})
    assert flow.of_roots(products, lambda op: False) == expected
    assert "matmul 4 -> 3" in rg.optimize(several, ROW, seconds=0.4).explain()
