"""The small programs that the tests of the core share, each as SubGraphs and as the plain Python that defines it.

Shape letters: `H` = 3, the size of a state.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import recgraph as rg

# A binary tree, the root last: ((0 1) (2 (3 4))). -1: no child.
LEFT = [-1, -1, 0, -1, -1, -1, 4, 3, 2]
RIGHT = [-1, -1, 1, -1, -1, -1, 5, 6, 7]
ROOT = 8
# Children of the nodes of a tree of any arity, from ROW[i] to ROW[i + 1]; the root is node 0.
CHILDREN = [1, 2, 3, 4, 5, 6, 7]
ROW = [0, 3, 3, 4, 6, 7, 7, 7, 7]

Arguments = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """A program twice.

    Attributes:
        name: for messages.
        make: makes the SubGraph; takes the SubGraph's options.
        reference: the same in Python, on eager tensors.
        arguments: calls to make.
        variables: what it captures and can be differentiated for.
    """

    name: str
    make: Callable[..., Callable[..., Any]]
    reference: Callable[..., Any]
    arguments: Sequence[Arguments]
    variables: Callable[[], Sequence[tf.Variable]] = tuple

    def __str__(self) -> str:
        return self.name


def seeded(*shape: int, seed: int = 0) -> np.ndarray:
    """float32 numbers of a standard normal distribution."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


@functools.cache
def node_values() -> tf.Variable:
    """A number for every node of the trees, float32 [9]."""
    return tf.Variable(seeded(9), name="node_values")


@functools.cache
def weights() -> tuple[tf.Variable, tf.Variable, tf.Variable]:
    """Embedding [9, H], kernel [2 H, H] and bias [H] of the tree RNN."""
    return tf.Variable(seeded(9, 3)), tf.Variable(seeded(6, 3)), tf.Variable(seeded(3))


# Factorial.


def make_factorial(**options: Any) -> rg.SubGraph:
    """n! as int64; `x` rides along so that there is something to differentiate."""
    with rg.SubGraph("factorial", outputs=tf.TensorSpec([], tf.float64), **options) as factorial:
        n, x = factorial.input(tf.int64), factorial.input(tf.float64)
        factorial.output(tf.cond(n < 2, lambda: x, lambda: tf.cast(n, tf.float64) * factorial(n - 1, x)))
    return factorial


def factorial_reference(n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """x n!"""
    return x if n < 2 else tf.cast(n, tf.float64) * factorial_reference(n - 1, x)


# Fibonacci.


def make_fibonacci(**options: Any) -> rg.SubGraph:
    """Two calls in one body, of which only integers come back."""
    with rg.SubGraph("fibonacci", outputs=tf.TensorSpec([], tf.int32), **options) as fibonacci:
        n = fibonacci.input(tf.int32)
        fibonacci.output(tf.cond(n < 2, lambda: n, lambda: fibonacci(n - 1) + fibonacci(n - 2)))
    return fibonacci


def fibonacci_reference(n: tf.Tensor) -> tf.Tensor:
    """The n-th Fibonacci number."""
    return n if n < 2 else fibonacci_reference(n - 1) + fibonacci_reference(n - 2)


# Even and odd.


def make_even(**options: Any) -> rg.SubGraph:
    """Mutual recursion: both are declared, then both are defined."""
    specs: dict[str, Any] = {"inputs": tf.TensorSpec([], tf.int32), "outputs": tf.TensorSpec([], tf.bool), **options}
    even, odd = rg.SubGraph("even", **specs), rg.SubGraph("odd", **specs)
    with even:
        n = even.input(tf.int32)
        even.output(tf.cond(n > 0, lambda: odd(n - 1), lambda: tf.constant(True)))
    with odd:
        m = odd.input(tf.int32)
        odd.output(tf.cond(m > 0, lambda: even(m - 1), lambda: tf.constant(False)))
    return even


def even_reference(n: tf.Tensor) -> tf.Tensor:
    """Whether n is even."""
    return tf.constant(True) if n <= 0 else tf.logical_not(even_reference(n - 1))


# Tree sum.


def make_tree_sum(**options: Any) -> rg.SubGraph:
    """The sum of the values below and at a node of a binary tree."""
    left, right, values = tf.constant(LEFT), tf.constant(RIGHT), node_values()
    with rg.SubGraph("tree_sum", outputs=tf.TensorSpec([]), **options) as tree_sum:
        node = tree_sum.input(tf.int32)
        below = tf.cond(left[node] < 0, lambda: 0.0, lambda: tree_sum(left[node]) - tree_sum(right[node]))
        tree_sum.output(below + values[node])
    return tree_sum


def tree_sum_reference(node: tf.Tensor) -> tf.Tensor:
    """As `make_tree_sum`. The right subtree counts negative, so that swapped children are found out."""
    below: Any = 0.0
    if LEFT[int(node)] >= 0:
        below = tree_sum_reference(LEFT[int(node)]) - tree_sum_reference(RIGHT[int(node)])
    return below + node_values()[int(node)]


# Tree RNN.


def make_tree_rnn(**options: Any) -> rg.SubGraph:
    """The plain recursive network: states [1, H]."""
    left, right = tf.constant(LEFT), tf.constant(RIGHT)
    embedding, kernel, bias = weights()
    with rg.SubGraph("tree_rnn", outputs=tf.TensorSpec([1, 3]), **options) as tree_rnn:
        node = tree_rnn.input(tf.int32)

        def inner() -> tf.Tensor:
            children = tf.concat([tree_rnn(left[node]), tree_rnn(right[node])], 1)
            return tf.tanh(tf.matmul(children, kernel) + bias)

        tree_rnn.output(tf.cond(left[node] < 0, lambda: tf.gather(embedding, node[None]), inner))
    return tree_rnn


def tree_rnn_reference(node: tf.Tensor) -> tf.Tensor:
    """As `make_tree_rnn`."""
    embedding, kernel, bias = weights()
    if LEFT[int(node)] < 0:
        return tf.gather(embedding, [int(node)])
    children = [tree_rnn_reference(LEFT[int(node)]), tree_rnn_reference(RIGHT[int(node)])]
    return tf.tanh(tf.matmul(tf.concat(children, 1), kernel) + bias)


# List fold.


def make_list_fold(**options: Any) -> rg.SubGraph:
    """A fold from the right over a list, whose length is not known statically."""
    with rg.SubGraph("list_fold", outputs=tf.TensorSpec([]), **options) as list_fold:
        items, start = list_fold.input(tf.float32, [None]), list_fold.input(tf.float32)
        more = tf.size(items) > 0
        list_fold.output(tf.cond(more, lambda: tf.sin(items[0] + 2.0 * list_fold(items[1:], start)), lambda: start))
    return list_fold


def list_fold_reference(items: tf.Tensor, start: tf.Tensor) -> tf.Tensor:
    """As `make_list_fold`."""
    return start if len(items) == 0 else tf.sin(items[0] + 2.0 * list_fold_reference(items[1:], start))


# Two outputs.


def make_two_outputs(**options: Any) -> rg.SubGraph:
    """How many nodes, and the product of their values: a nest of an integer and a float."""
    left, right, values = tf.constant(LEFT), tf.constant(RIGHT), node_values()
    outputs = {"size": tf.TensorSpec([], tf.int32), "product": tf.TensorSpec([])}
    with rg.SubGraph("two_outputs", outputs=outputs, **options) as two_outputs:
        node = two_outputs.input(tf.int32)

        def inner() -> dict[str, tf.Tensor]:
            a, b = two_outputs(left[node]), two_outputs(right[node])
            return {"size": a["size"] + b["size"] + 1, "product": a["product"] * b["product"] * values[node]}

        two_outputs.output(tf.cond(left[node] < 0, lambda: {"size": 1, "product": values[node]}, inner))
    return two_outputs


def two_outputs_reference(node: tf.Tensor) -> dict[str, tf.Tensor]:
    """As `make_two_outputs`."""
    own = node_values()[int(node)]
    if LEFT[int(node)] < 0:
        return {"size": tf.constant(1), "product": own}
    a, b = two_outputs_reference(LEFT[int(node)]), two_outputs_reference(RIGHT[int(node)])
    return {"size": a["size"] + b["size"] + 1, "product": a["product"] * b["product"] * own}


# Zero trips.


def make_zero_trips(**options: Any) -> rg.SubGraph:
    """A tree of any arity: a loop over the children, which at a leaf makes no trip."""
    children, row, values = tf.constant(CHILDREN), tf.constant(ROW), node_values()
    with rg.SubGraph("zero_trips", outputs=tf.TensorSpec([]), **options) as zero_trips:
        node, x = zero_trips.input(tf.int32), zero_trips.input(tf.float32)

        def step(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, 0.5 * total * total + zero_trips(children[i], x * values[node])

        _, total = tf.while_loop(lambda i, total: i < row[node + 1], step, [row[node], x])
        zero_trips.output(total)
    return zero_trips


def zero_trips_reference(node: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """As `make_zero_trips`."""
    total = x
    for i in range(ROW[int(node)], ROW[int(node) + 1]):
        total = 0.5 * total * total + zero_trips_reference(CHILDREN[i], x * node_values()[int(node)])
    return total


def _float(value: Any) -> tf.Tensor:
    return tf.constant(value, tf.float32)


PROGRAMS = (
    Program(
        "factorial",
        make_factorial,
        factorial_reference,
        [(tf.constant(n, tf.int64), tf.constant(1.5, tf.float64)) for n in (1, 2, 6)],
    ),
    Program("fibonacci", make_fibonacci, fibonacci_reference, [(tf.constant(n),) for n in (0, 1, 7)]),
    Program("even_odd", make_even, even_reference, [(tf.constant(n),) for n in (0, 1, 6)]),
    Program(
        "tree_sum", make_tree_sum, tree_sum_reference, [(tf.constant(n),) for n in (0, ROOT)], lambda: [node_values()]
    ),
    Program("tree_rnn", make_tree_rnn, tree_rnn_reference, [(tf.constant(n),) for n in (1, ROOT)], weights),
    Program(
        "list_fold",
        make_list_fold,
        list_fold_reference,
        [(tf.constant(seeded(n)), _float(0.3)) for n in (0, 1, 5)],
    ),
    Program(
        "two_outputs",
        make_two_outputs,
        two_outputs_reference,
        [(tf.constant(n),) for n in (1, ROOT)],
        lambda: [node_values()],
    ),
    Program(
        "zero_trips",
        make_zero_trips,
        zero_trips_reference,
        [(tf.constant(n), _float(0.7)) for n in (1, 3, 0)],
        lambda: [node_values()],
    ),
)

Result = tuple[list[np.ndarray], list[np.ndarray]]


def run(
    function: Callable[..., Any], arguments: Arguments, variables: Sequence[tf.Variable | tf.Tensor] = ()
) -> Result:
    """Values, flat, and the gradients of the sum of all continuous outputs for all that they can depend on."""
    watched = [argument for argument in arguments if argument.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch([*watched, *variables])
        flat = [tf.convert_to_tensor(value) for value in tf.nest.flatten(function(*arguments))]
        total = tf.add_n([tf.constant(0.0, tf.float64), *[_weighted(value, i) for i, value in enumerate(flat)]])
    gradients = tape.gradient(total, [*watched, *variables], unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [np.asarray(value.numpy()) for value in flat], [
        tf.convert_to_tensor(gradient).numpy() for gradient in gradients
    ]


def _weighted(value: tf.Tensor, place: int) -> tf.Tensor:
    """A different weight for every output, so that gradients of two outputs cannot be mixed up unseen."""
    if not value.dtype.is_floating:
        return tf.constant(0.0, tf.float64)
    return tf.cast(1 + place, tf.float64) * tf.reduce_sum(tf.cast(value, tf.float64))


def assert_same(actual: Result, expected: Result, tolerance: float = 1e-5) -> None:
    """Values and gradients agree, relative to the larger of 1 and what is expected."""
    for kind, mine, theirs in zip(("value", "gradient"), actual, expected, strict=True):
        for i, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            message = f"{kind} {i}"
            assert one.dtype == other.dtype, message
            if one.dtype.kind in "fc":
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=message)
            else:
                np.testing.assert_array_equal(one, other, err_msg=message)


def check(program: Program, **options: Any) -> None:
    """A program's SubGraph does what its reference does, eagerly and in a tf.function."""
    subgraph = program.make(**options)
    staged = tf.function(subgraph)
    for arguments in program.arguments:
        expected = run(program.reference, arguments, program.variables())
        assert_same(run(subgraph, arguments, program.variables()), expected)
        assert_same(run(staged, arguments, program.variables()), expected)
