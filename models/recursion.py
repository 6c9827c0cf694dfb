"""The recursion over a batch of trees that all models share, on `SubGraph`.

A SubGraph is made inside the traced function that uses it: it captures the arrays of the batch as outer tensors and the
weights as variables, and an invocation gets only the number of its node.
"""

from __future__ import annotations

from typing import Any, Protocol

import tensorflow as tf

import recgraph as rg
from recgraph.data import whole
from recgraph.models import losses
from recgraph.models.hyper import Hyper, State


class Cells(Protocol):
    """What the recursion needs of a `TreeModel`, which says what each does."""

    hyper: Hyper
    optimize: bool | None

    @property
    def state_sizes(self) -> tuple[int, ...]: ...
    def subgraph(self, purpose: str, inputs: Any, outputs: Any) -> Any: ...
    def embed(self, words: tf.Tensor) -> tf.Tensor: ...
    def leaf(self, vector: tf.Tensor) -> State: ...
    def compose(self, left: State, right: State) -> State: ...
    def logits(self, hidden: tf.Tensor) -> tf.Tensor: ...


def loss(model: Cells, batch: Any, dropout_seed: tf.Tensor | losses.Draws | None) -> tuple[tf.Tensor, tf.Tensor]:
    """See `TreeModel.loss`. An invocation returns its state and the loss of its subtree: training needs no more."""
    batch = whole(batch)
    target, weight = losses.targets(batch)
    table = tf.stack([batch.words, batch.left, batch.right, target], 1)  # one lookup a node in place of four
    keep = losses.dropout_rows(model.hyper, batch, dropout_seed)
    outputs = {"state": _state_spec(model), "loss": tf.TensorSpec([1])}
    with _subgraph(model, "loss", outputs) as tree:
        node = tree.input(tf.int32)
        word, left, right, label = tf.unstack(tf.gather(table, node), num=4)

        def leaf() -> tuple[State, tf.Tensor]:
            return model.leaf(model.embed(word[None])), tf.zeros([1])

        def inner() -> tuple[State, tf.Tensor]:
            below_left, below_right = tree(left), tree(right)
            state = model.compose(below_left["state"], below_right["state"])
            return state, below_left["loss"] + below_right["loss"]

        state, below = tf.cond(word >= 0, leaf, inner)
        hidden = state[0] if keep is None else state[0] * tf.stop_gradient(tf.gather(keep, node))
        own = losses.node_losses(model.logits(hidden), label[None], tf.gather(weight, node))
        tree.output({"state": state, "loss": below + own})

    results = tree.map(batch.roots)
    roots = tf.reshape(tf.stop_gradient(results["state"][0]), [-1, model.hyper.hidden])
    return tf.reduce_sum(results["loss"]), model.logits(roots)


def predict(model: Cells, batch: Any) -> tf.Tensor:
    """See `TreeModel.predict`. Scores travel up with the state: left, right, own is the order of the batch."""
    batch = whole(batch)
    table = tf.stack([batch.words, batch.left, batch.right], 1)
    classes = model.hyper.classes
    outputs = {"state": _state_spec(model), "logits": tf.TensorSpec([None, classes])}
    with _subgraph(model, "word", outputs) as of_word:  # equal calls are one: a word is computed once, not each leaf
        state = model.leaf(model.embed(of_word.input(tf.int32)[None]))
        of_word.output({"state": state, "logits": model.logits(state[0])})
    with _subgraph(model, "predict", outputs) as tree:
        node = tree.input(tf.int32)
        word, left, right = tf.unstack(tf.gather(table, node), num=3)

        def leaf() -> tuple[State, tf.Tensor]:
            found = of_word(word)
            return found["state"], found["logits"]

        def inner() -> tuple[State, tf.Tensor]:
            below_left, below_right = tree(left), tree(right)
            state = model.compose(below_left["state"], below_right["state"])
            own = model.logits(state[0])
            return state, tf.concat([below_left["logits"], below_right["logits"], own], 0)

        state, logits = tf.cond(word >= 0, leaf, inner)
        tree.output({"state": state, "logits": logits})

    return _all_scores(tree, batch, classes, model.optimize)


def _all_scores(tree: Any, batch: Any, classes: int, optimize: bool | None) -> tf.Tensor:
    """The scores of all trees, float32 `[N, C]`. `map` stacks its results, so trees are filled up to the largest."""
    sizes = batch.offsets[1:] - batch.offsets[:-1]
    largest = tf.reduce_max(tf.concat([[0], sizes], 0))
    shape = tf.TensorSpec([None, classes])
    with rg.SubGraph("filled_up", tf.TensorSpec([], tf.int32), shape, tree.engine, optimize=optimize) as filled:
        scores = tree(filled.input(tf.int32))["logits"]
        filled.output(tf.pad(scores, [[0, largest - tf.shape(scores)[0]], [0, 0]]))
    return tf.gather_nd(filled.map(batch.roots), tf.where(tf.sequence_mask(sizes, largest)))


def _subgraph(model: Cells, purpose: str, outputs: Any) -> Any:
    """A SubGraph over node numbers."""
    return model.subgraph(purpose, tf.TensorSpec([], tf.int32), outputs)


def _state_spec(model: Cells) -> tuple[tf.TensorSpec, ...]:
    return tuple(tf.TensorSpec([1, size]) for size in model.state_sizes)
