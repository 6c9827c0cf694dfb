"""Control edges that order nothing are taken out of graphs before they run, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from recgraph import tf_private


def _inputs(value: Callable[[Any], Any], of: str, waits: tuple[str, ...]) -> list[str]:
    """What an operation takes and waits for, once optimized, in a graph that reads a variable and then writes it.

    Args:
        value: makes of what was read what is written.
        of: the operation's name.
        waits: what it is to wait for.
    """
    graph = tf.Graph()
    with graph.as_default():
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[None, 3], name="handle")
        read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32, name="read")
        read.set_shape([None, 3])
        tf.constant(3.0, name="three")
        write = tf.raw_ops.AssignVariableOp(resource=handle, value=value(read), name="write")
        with tf.control_dependencies([write]):
            tf.no_op("end")
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        if node.name == of:
            node.input.extend(f"^{name}" for name in waits)
    config = tf.compat.v1.ConfigProto.FromString(tf_private.call_options())
    optimized = tf_private.run_grappler(graph_def, ["end"], config)
    return list(next(node.input for node in optimized.node if node.name == of))


@pytest.mark.parametrize(
    ("waits", "left"),
    [
        (("read",), ["^read"]),
        (("three",), []),
        (("read", "three"), ["^read"]),
        (("value",), []),
        (("value", "read"), ["^read"]),
    ],
)
def test_a_write_waits_for_what_orders_it(waits: tuple[str, ...], left: list[str]) -> None:
    def value(read: Any) -> Any:
        return tf.exp(read, name="value")

    assert _inputs(value, "write", waits) == ["handle", "value", *left]


def test_an_edge_stays_where_another_way_leads_by_a_shape_alone() -> None:
    def value(read: Any) -> Any:
        return tf.zeros(tf.shape(read), name="value")

    assert _inputs(value, "write", ("read",)) == ["handle", "value", "^read"]


@pytest.mark.parametrize(("factor", "taken"), [(None, "value"), (1.0, "mul")])
def test_copies_are_taken_away_and_products_are_not(factor: float | None, taken: str) -> None:
    """A product with one makes 0 of a denormal number."""

    def value(read: Any) -> Any:
        computed = tf.exp(read, name="value")
        return tf.tanh(tf.identity(computed) if factor is None else computed * factor, name="result")

    assert _inputs(value, "result", ()) == [taken]
