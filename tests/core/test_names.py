"""Names that users choose never meet those that a program gives its own functions and nodes."""

from __future__ import annotations

import pytest
import tensorflow as tf

import recgraph as rg

FLOAT = tf.TensorSpec([])


@pytest.mark.parametrize("engine", ["parallel", "batched"])
@pytest.mark.parametrize(
    "names",
    [
        "recgraph_plan",
        "recgraph.plan",
        "x x_rec",
        "x_rec x",
        "x x.rec",
        "x x_grad",
        "x.grad x",
        "x x",
        "x x_2 x",
        "x/y x_y",
    ],
)
def test_names_that_look_like_ours(names: str, engine: str) -> None:
    """Each SubGraph multiplies what the one before it gives."""
    subgraphs: list[rg.SubGraph] = []
    for name in names.split():
        with rg.SubGraph(name, outputs=FLOAT, engine=engine) as subgraph:
            x = subgraph.input(tf.float32)
            subgraph.output(x * (subgraphs[-1](x) if subgraphs else 1.0))
        subgraphs.append(subgraph)
    count = len(subgraphs)
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.function(subgraphs[-1])(x)
    assert (float(y), float(tape.gradient(y, x))) == (3.0**count, count * 3.0 ** (count - 1))


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_scopes_that_look_like_branches(engine: str) -> None:
    """A branch in a branch, and one in a scope with the name of the branch."""
    with rg.SubGraph("x", outputs=FLOAT, engine=engine) as subgraph:
        x = subgraph.input(tf.float32)
        inner = lambda: tf.cond(x > 1.0, lambda: x * 2.0, lambda: x * 3.0, name="b")  # noqa: E731
        first = tf.cond(x > 0.0, inner, lambda: x * 5.0, name="a")
        with tf.name_scope("a/then"):
            second = tf.cond(x > 1.0, lambda: x * 7.0, lambda: x * 11.0, name="b")
        with tf.name_scope("a"), tf.name_scope("then/b"):
            third = tf.cond(x > 1.0, lambda: x * 13.0, lambda: x * 17.0, name="then")
        subgraph.output(first + second + third)
    for value, slope in ((2.0, 2.0 + 7.0 + 13.0), (0.5, 3.0 + 11.0 + 17.0), (-1.0, 5.0 + 11.0 + 17.0)):
        with tf.GradientTape() as tape:
            x = tf.constant(value)
            tape.watch(x)
            y = subgraph(x)
        assert (float(y), float(tape.gradient(y, x))) == (slope * value, slope)
