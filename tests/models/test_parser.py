"""The parser: its loss is that of an eager walk, its trees are those of the largest scores, and it learns a shape."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import Tree, TreeBatch, Vocabulary, balanced, brackets, encode, linear, moderate, tree_of_spans
from recgraph.models import ParserHyper, SpanParser
from recgraph.models.parser import sentences, true_spans
from recgraph.train.optimizer import TreeOptimizer

HYPER = ParserHyper(embedding=6, hidden=5, span=7, dropout=0.0)
LETTERS = Vocabulary(("<unk>", *"abcdefgh"))
SIGNATURE = TreeBatch(*[tf.TensorSpec([None], tf.int32)] * 6)


def random_trees(count: int, seed: int, shape: Callable[..., Tree] = moderate) -> list[Tree]:
    """Trees of one to nine words."""
    rng = np.random.default_rng(seed)
    words = [rng.choice(list("abcdefgh"), rng.integers(1, 10)).tolist() for _ in range(count)]
    return [shape(sentence, rng) if shape is moderate else shape(sentence) for sentence in words]


def batch_of(trees: list[Tree]) -> TreeBatch:
    """Eager tensors."""
    return TreeBatch(*map(tf.constant, encode(trees, LETTERS)))


def make_model() -> SpanParser:
    """With large weights, so that scores differ."""
    model = SpanParser(len(LETTERS), HYPER, seed=1)
    model.embedding.assign(30 * model.embedding)
    return model


def span_score(model: SpanParser, tree: Tree, low: int, high: int) -> tf.Tensor:
    """The score of a span, from LSTMs that read one word after the other."""
    rows = [model.embedding[LETTERS.id(word)][None] for word in tree.tokens]

    def states(side: str, vectors: list[tf.Tensor]) -> list[tf.Tensor]:
        hidden = memory = tf.zeros([1, HYPER.hidden])
        made = [hidden]
        for vector in vectors:
            gates = vector @ getattr(model, f"{side}_kernel") + hidden @ getattr(model, f"{side}_recurrent")
            enter, exit_, keep, update = tf.split(gates + getattr(model, f"{side}_bias"), 4, 1)
            memory = tf.sigmoid(enter) * tf.tanh(update) + tf.sigmoid(keep) * memory
            hidden = tf.sigmoid(exit_) * tf.tanh(memory)
            made.append(hidden)
        return made

    ahead, back = states("forward", rows), states("backward", rows[::-1])[::-1]
    span = tf.concat([ahead[high] - ahead[low], back[high] - back[low]], 1)
    return (tf.tanh(span @ model.span_kernel + model.span_bias) @ model.score_kernel)[0, 0]


def cut_scores(model: SpanParser, tree: Tree, low: int, high: int) -> tf.Tensor:
    """For each cut."""
    return tf.stack(
        [span_score(model, tree, low, cut) + span_score(model, tree, cut, high) for cut in range(low + 1, high)]
    )


def unrolled(model: SpanParser, tree: Tree) -> tf.Tensor:
    """The loss of one tree, node by node."""
    spans = {span for span in brackets(tree) | {(0, len(tree.tokens))} if span[1] - span[0] > 1}
    losses = [tf.constant(0.0)]
    for low, high in spans:
        (cut,) = (c for c in range(low + 1, high) if ends(spans, low, c) and ends(spans, c, high))
        losses.append(-tf.nn.log_softmax(cut_scores(model, tree, low, high))[cut - low - 1])
    return tf.add_n(losses)


def ends(spans: set[tuple[int, int]], low: int, high: int) -> bool:
    """Whether it is a node: a word, or a bracket."""
    return high - low == 1 or (low, high) in spans


def test_loss_and_gradients_equal_an_eager_walk() -> None:
    """On trees of every shape, single words among them."""
    model = make_model()

    @tf.function(input_signature=[SIGNATURE])
    def step(batch: TreeBatch) -> tuple[tf.Tensor, tf.Tensor, list[Any]]:
        with tf.GradientTape() as tape:
            loss, cuts = model.loss(batch)
        return loss, cuts, tape.gradient(loss, model.trainable_variables)

    trees = random_trees(5, 1)
    loss, cuts, gradients = step(batch_of(trees))
    with tf.GradientTape() as tape:
        expected = tf.add_n([unrolled(model, tree) for tree in trees])
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)
    assert cuts[:, 1].numpy().tolist() == [len(tree.tokens) - 1 for tree in trees]
    for mine, theirs in zip(gradients, tape.gradient(expected, model.trainable_variables), strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(mine), tf.convert_to_tensor(theirs), rtol=1e-3, atol=1e-4)
    loss, cuts, _ = step(batch_of([])._replace(offsets=tf.zeros([1], tf.int32)))
    assert (float(loss), cuts.shape) == (0, [0, 2])


def test_the_tree_is_that_of_the_largest_scores() -> None:
    """Cut where an eager search cuts; the batch's own trees do not matter, and come back as they are."""
    model = make_model()
    trees = random_trees(6, 2)
    spans = tf.function(model.predict)(batch_of(trees)).numpy()
    true = tf.function(true_spans)(batch_of(trees)).numpy()
    for tree, found, own in zip(trees, spans, true, strict=True):
        words = tree.tokens
        parsed = tree_of_spans(words, found[: len(words) - 1])
        todo, expected = [(0, len(words))], set()
        while todo:
            low, high = todo.pop()
            if high - low > 1:
                expected.add((low, high))
                cut = low + 1 + int(tf.argmax(cut_scores(model, tree, low, high)))
                todo += [(low, cut), (cut, high)]
        assert brackets(parsed) == expected - {(0, len(words))}
        assert tree_of_spans(words, own[: len(words) - 1]) == tree.with_labels([-1] * len(tree))


def test_a_tree_does_not_depend_on_the_batch() -> None:
    """Sentences of one word, of many, and none at all; the shape is that of the trees' own spans."""
    model = make_model()
    model.engine = "batched"
    parse, own = (
        tf.function(function, input_signature=[SIGNATURE], autograph=False) for function in (model.predict, true_spans)
    )
    trees = [*random_trees(9, 3), balanced(["a"]), balanced(list("abcdefgh" * 5))]
    together = parse(batch_of(trees)).numpy()
    for tree, spans in zip(trees, together, strict=True):
        alone = parse(batch_of([tree])).numpy()
        assert alone.shape == own(batch_of([tree])).shape
        np.testing.assert_array_equal(spans[: alone.shape[1]], alone[0])
        assert not spans[len(tree.tokens) - 1 :].any()
    assert parse(batch_of([])._replace(offsets=tf.zeros([1], tf.int32))).shape[0] == 0


@pytest.mark.parametrize("branching", ["left", "right"])
def test_a_shape_is_learned(branching: str) -> None:
    """And found in sentences that were not seen."""
    shape = functools.partial(linear, branching=branching)
    hyper = ParserHyper(embedding=8, hidden=16, span=24, dropout=0.0, learning_rate=0.05, embedding_rate=0.05)
    model = SpanParser(len(LETTERS), hyper, seed=1)
    optimizer = TreeOptimizer(model)

    @tf.function(input_signature=[SIGNATURE])
    def step(batch: TreeBatch) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss, _ = model.loss(batch, tf.constant([1, 2]))
            loss /= tf.cast(tf.size(batch.roots), tf.float32)
        *weights, embedding = tape.gradient(loss, [*model.weights, model.embedding])
        optimizer.apply(model, weights, embedding)
        return loss

    batches = [batch_of(random_trees(20, seed, shape)) for seed in range(4)]
    losses = [float(step(batch)) for _ in range(8) for batch in batches]
    assert losses[-1] < 0.5 * losses[0]
    unseen = batch_of(random_trees(20, 99, shape))
    hits, cuts = tf.reduce_sum(tf.function(model.loss)(unseen)[1], 0)
    assert hits / cuts > 0.9


def test_words_are_read_from_left_to_right() -> None:
    """Whatever the shape of the tree over them."""
    words = sentences(batch_of([linear(list("abc")), balanced(["d"])]))
    assert words.numpy().tolist() == [[1, 2, 3, -1], [4, -1, -1, -1]]
