"""What the layers say of mistakes: in the words of the layer, with trees and nodes as the user has numbered them."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.errors import SignatureError


class Depth(rg.keras.TreeLayer):
    """The depth of binary trees."""

    output_size = 1

    def node(self, inputs: Any, child: Any) -> Any:
        left, right = tf.unstack(inputs, axis=1)
        return 1.0 + tf.maximum(child(left), child(right))


def ragged(trees: Any) -> tf.RaggedTensor:
    return tf.ragged.constant(trees, dtype=tf.int32, ragged_rank=1, inner_shape=(2,))


WRONG = [[], [[1, 2], [-1, -1], [3, -1], [-1, -1]], [[1, -1], [-1, 7]]]


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_a_child_beyond_its_tree(engine: str) -> None:
    """The first tree is empty: it has no row among the roots, but the user counts it."""
    layer = Depth(engine=engine, name="depth")
    for _ in range(2):  # at first it builds layers, then it is a function
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            layer(ragged(WRONG))
        assert str(error.value).splitlines() == [
            "layer 'depth': a node has a child at a position beyond its tree [recgraph]",
            f"  where:     {__file__}:{inspect.currentframe().f_lineno - 3}",  # type: ignore[union-attr]
            "  found:     node 1 of tree 2, which has [-1, 7]",
            "  expected:  a position from 0 to 1, or -1 for no child",
            "  next step: count positions from 0 in each tree",
            "  call path: depth[2] > left > right, 3 levels",
        ]


@pytest.mark.parametrize("position", [4, 2**31 - 1])
def test_in_batches_that_are_filled_up(position: int) -> None:
    trees = np.full([2, 3, 2], -1, np.int32)
    trees[1, 0] = [-1, position]
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        Depth()({"children": tf.constant(trees)}["children"])
    assert f"node 0 of tree 1, which has [-1, {position}]" in str(error.value)
    assert "a position from 0 to 2, or -1" in str(error.value)


def test_in_fit_the_operation_says_what_it_looked_for() -> None:
    """There the message is TensorFlow's."""
    model = keras.Sequential([Depth(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(tf.errors.InvalidArgumentError, match="child_at_a_position_within_its_tree"):
        model.fit(tf.constant([[[-1, 7]]]), tf.zeros([1, 1]), verbose=0)


def test_a_circle_is_of_nodes() -> None:
    layer = Depth(engine="batched", name="depth")
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        layer(tf.constant([[[-1, -1], [-1, -1]], [[1, -1], [0, -1]]]))
    assert str(error.value).startswith(
        "the recursion never ends, since it goes round in a circle: depth(node 0 of tree 1) > left(node 1 of tree 1) > "
        "left(node 0 of tree 1). No node"
    )
    assert "call path: depth[1], 1 level" in str(error.value)


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_nothing_stands_before_our_words(engine: str) -> None:
    """Neither names of TensorFlow's functions nor what Keras adds, with escape codes."""
    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        Depth(engine=engine, max_depth=3)(tf.constant([[[1, -1], [2, -1], [3, -1], [4, -1], [-1, -1]]]))
    assert str(error.value).startswith("the recursion is more than max_depth = 3 invocations deep")
    with rg.SubGraph("pick", outputs=tf.TensorSpec([]), engine=engine) as pick:
        pick.output(tf.gather([1.0, 2.0], pick.input(tf.int32)))
    for call in (lambda: pick(5), lambda: pick.map([1, 5])):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"^indices(\[\d\])? = 5 is not in \[0, 2\)") as other:
            call()
        for text in (str(error.value), str(other.value)):
            assert not any(part in text for part in ("function_node", "[Op:", "\x1b", "Exception encountered"))


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_results_of_several_shapes(engine: str) -> None:
    with rg.SubGraph("ones", outputs=tf.TensorSpec([None]), engine=engine) as ones:
        ones.output(tf.ones([ones.input(tf.int32)]))
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        ones.map([1, 2])
    assert str(error.value).startswith(
        "map: the results of rows 0 and 1 differ in shape: [1] and [2]. Let the body fill them up to one shape, or "
        "call the SubGraph for one row at a time"
    )


def zeros(*shapes: Any, dtype: Any = tf.float32) -> Any:
    made = tuple(tf.zeros(shape, dtype) for shape in shapes)
    return made if len(made) > 1 else made[0]


RETURNED = {
    "another size": (1, lambda: zeros([1, 3]), "float32[1, 3]", "set output_size = 3, or return what it says"),
    "two for one": (
        1,
        lambda: zeros([1, 3], [1, 1]),
        "(float32[1, 3], float32[1, 1])",
        "set output_size = (3, 1), or return what it says",
    ),
    "another dtype": (
        2,
        lambda: zeros([1, 2], dtype=tf.int32),
        "int32[1, 2]",
        "tf.cast the result to float32, or set output_size to a tf.TensorSpec with another dtype",
    ),
    "a matrix": (
        2,
        lambda: zeros([1, 2, 2]),
        "float32[1, 2, 2]",
        "set output_size = tf.TensorSpec((2, 2), tf.float32), or return what it says",
    ),
    "no batch of one": (
        2,
        lambda: zeros([2]),
        "float32[2]",
        "keep the leading dimension of 1: an invocation computes a batch of one",
    ),
    "nothing": (1, lambda: None, "None", "return tensors with a leading dimension of 1"),
    "a number": (1, lambda: 1.0, "1.0", "return tensors with a leading dimension of 1"),
}


@pytest.mark.parametrize("case", RETURNED)
def test_what_a_node_returns_is_told_in_terms_of_output_size(case: str) -> None:
    size, returned, found, advice = RETURNED[case]

    class Wrong(rg.keras.TreeLayer):
        output_size = size

        def node(self, inputs: Any, child: Any) -> Any:
            return returned()

    with pytest.raises(SignatureError) as error:
        Wrong(name="wrong")(ragged([[[-1, -1]]]))
    line = inspect.getsourcelines(Wrong.node)[1]
    assert str(error.value) == (
        f"layer 'wrong': node does not return what output_size says [signature]\n  where:     {__file__}:{line}\n"
        f"  found:     {found}\n  expected:  float32[1, {size}], since output_size is {size}\n  next step: {advice}"
    )


def test_a_function_of_a_layer_is_named() -> None:
    def twice(x: Any, recurse: Any) -> Any:
        return tf.concat([x, x], 1)

    with pytest.raises(SignatureError, match="layer 'sub': twice does not return what output_size says"):
        rg.keras.SubGraphLayer(twice, output_size=1, name="sub")(tf.ones([2, 1]))


def test_ragged_and_sparse_arguments() -> None:
    with rg.SubGraph("twice", outputs=tf.TensorSpec([2])) as twice:
        twice.output(twice.input(tf.float32, [2]) * 2.0)
    with pytest.raises(SignatureError) as error:
        twice(tf.ragged.constant([[1.0], [2.0, 3.0]]))
    assert str(error.value).startswith(
        "twice: argument 1 is a ragged tensor, and a SubGraph takes dense ones [signature]"
    )
    assert error.value.next_step == (
        "fill its rows up: value.to_tensor(); rg.keras.TreeLayer takes ragged batches of trees as they are"
    )
    with pytest.raises(SignatureError, match="is a sparse tensor") as error:
        twice(tf.sparse.from_dense([1.0, 0.0]))
    assert error.value.next_step == "convert it: tf.sparse.to_dense(value)"
