"""Call paths name a call by what it is called with: in plain Python, and where AutoGraph has rewritten it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg

# ((0 1) 2), the root last; node 1 has no word.
LEFT = [-1, -1, -1, 0, 3]
RIGHT = [-1, -1, -1, 1, 2]
WORD = [0, 99, 1, -1, -1]
SCALAR = tf.TensorSpec([])


def failing_path(call: Callable[[], Any]) -> str:
    """The call path of the lookup that fails."""
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        call()
    return str(caught.value).split("call path: ")[1].split(", ")[0]


def trees() -> types.SimpleNamespace:
    """The tree's arrays, as a user's data object has them."""
    return types.SimpleNamespace(left=tf.constant(LEFT), right=tf.constant(RIGHT), word=tf.constant(WORD))


def test_in_a_recursive_function() -> None:
    """The decorator rewrites the function."""
    left, right, word = tf.constant(LEFT), tf.constant(RIGHT), tf.constant(WORD)

    @rg.subgraph(outputs=SCALAR)
    def tree_lstm(node):  # type: ignore[no-untyped-def]
        if left[node] < 0:
            return tf.gather([1.0, 2.0], word[node])
        return tree_lstm(left[node]) + tree_lstm(right[node])

    assert failing_path(lambda: tree_lstm(4)) == "tree_lstm > left > right"


def test_of_attributes_and_names() -> None:
    """`tree.left[node]` is `left`; a name bound before is that name; no name at all leaves the SubGraph's."""
    tree = trees()

    @rg.subgraph(outputs=SCALAR)
    def walk(node):  # type: ignore[no-untyped-def]
        if node == 4:
            return walk(tree.left[node])
        if node == 3:
            second = tree.right[node] + tf.constant(0)
            return walk(second)
        return tf.gather([1.0, 2.0], tree.word[node])

    assert failing_path(lambda: walk(4)) == "walk > left > second"

    @rg.subgraph(outputs=SCALAR)
    def nameless(node):  # type: ignore[no-untyped-def]
        if node == 4:
            return nameless(1)
        return tf.gather([1.0, 2.0], tree.word[node])

    assert failing_path(lambda: nameless(4)) == "nameless > nameless"


def test_in_a_loop_and_with_several_arguments() -> None:
    """The first argument labels; `for` and starred arguments are rewritten too."""
    tree = trees()

    @rg.subgraph(outputs=SCALAR)
    def visit(node, scale):  # type: ignore[no-untyped-def]
        total = tf.gather([0.0, 1.0, 2.0], tree.word[node] + 1) * scale
        if node > 2:
            for child in tf.stack([tree.left[node], tree.right[node]]):
                total += visit(child, scale * 0.5)
        return total

    assert failing_path(lambda: visit(4, 1.0)) == "visit > child > child"

    @rg.subgraph(outputs=SCALAR)
    def spread(node, scale):  # type: ignore[no-untyped-def]
        following = (node - 1, scale)
        return spread(*following) if node > 1 else tf.gather([scale], tree.word[node])

    assert failing_path(lambda: spread(3, 1.0)) == "spread > following > following"


@pytest.mark.parametrize("rewritten", [True, False])
def test_in_the_body_of_a_with_block(rewritten: bool) -> None:
    """The same path, whether a tf.function converts the definition or not."""
    tree = trees()

    def run() -> tf.Tensor:
        with rg.SubGraph("tree_lstm", outputs=SCALAR) as tree_lstm:
            node = tree_lstm.input(tf.int32)

            def inner() -> tf.Tensor:
                return tree_lstm(tree.left[node]) + tree_lstm(tree.right[node])

            leaf = lambda: tf.gather([1.0, 2.0], tree.word[node])  # noqa: E731
            tree_lstm.output(tf.cond(tree.left[node] < 0, leaf, inner))
        return tree_lstm(4)

    assert failing_path(tf.function(run, autograph=rewritten)) == "tree_lstm > left > right"


def test_given_by_name() -> None:
    """`name=` comes first, also in rewritten code."""

    @rg.subgraph(outputs=SCALAR)
    def named(n):  # type: ignore[no-untyped-def]
        return named(n - 1, name="deeper") if n > 0 else tf.gather([1.0], n + 9)

    assert failing_path(lambda: named(2)) == "named > deeper > deeper"
    assert failing_path(lambda: named.map([0, 1])) in {"named[0]", "named[1] > deeper"}


def test_the_line_of_a_call_is_the_users() -> None:
    """Not one of the wrappers that TensorFlow generates for our ops, of which nobody has the source."""
    with rg.SubGraph("endless", outputs=tf.TensorSpec([], tf.int32), max_depth=3) as endless:
        n = endless.input(tf.int32)
        made = endless(n + 1)
        endless.output(made)
    assert made.op.type == "Recgraph>Invoke"
    from recgraph.core import origin

    assert origin.of_operation(made.op).rsplit(":", 1)[0] == __file__
