"""The top-down TreeLSTM: losses equal an eager walk, and trees are made where computed values say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import (
    DependencyTree,
    TopDownBatch,
    Vocabulary,
    completion_questions,
    generate_dependencies,
    top_down_batch,
)
from recgraph.models import Hyper, TopDownTreeLSTM
from recgraph.models.baselines import IterativeTopDown
from recgraph.models.baselines.top_down import in_order
from recgraph.models.td_tree_lstm import LEFT, NEXT, RIGHT
from recgraph.train.optimizer import TreeOptimizer

LETTERS = Vocabulary(("<unk>", *"abcdefgh"))
SIGNATURE = TopDownBatch(*[tf.TensorSpec([None], tf.int32)] * 5)


def random_trees(count: int, seed: int) -> list[DependencyTree]:
    """Trees of one to nine words, heads anywhere."""
    rng = np.random.default_rng(seed)
    trees = []
    for _ in range(count):
        size = int(rng.integers(1, 10))
        place, heads = rng.permutation(size), [-1] * size
        for number in range(1, size):
            heads[place[number]] = int(place[rng.integers(number)])
        trees.append(DependencyTree(tuple(rng.choice(list("abcdefgh"), size)), tuple(heads)))
    return trees


def batch_of(trees: list[DependencyTree], vocabulary: Vocabulary = LETTERS) -> TopDownBatch:
    """Eager tensors."""
    return TopDownBatch(*map(tf.constant, top_down_batch(trees, vocabulary)))


def make_model(words: int = len(LETTERS), gradient: str = "cache") -> TopDownTreeLSTM:
    """A small model with large weights, so that all decisions occur."""
    model = TopDownTreeLSTM(words, Hyper(embedding=5, hidden=6), seed=3)
    model.gradient = gradient
    model.embedding.assign(20 * model.embedding)
    model.edge_kernel.assign(4 * model.edge_kernel)
    return model


def unrolled(model: TopDownTreeLSTM, trees: list[DependencyTree]) -> tuple[tf.Tensor, tf.Tensor]:
    """Losses of words and of edges, one node at a time, on `DependencyTree` itself."""
    words: list[tf.Tensor] = []
    edges: list[tf.Tensor] = []

    def decide(edge: int, logits: tf.Tensor, there: bool) -> None:
        edges.append(-tf.math.log_sigmoid(logits[edge] if there else -logits[edge]))

    def visit(tree: DependencyTree, node: int, state: Any) -> tuple[tf.Tensor, tf.Tensor]:
        word = LETTERS.id(tree.words[node])
        words.append(-tf.nn.log_softmax(model.word_logits(state))[0, word])
        vector = model.embedding[word][None]
        logits = model.edge_logits(vector, state)
        below = tree.children[node]
        for side, chain in ((LEFT, [c for c in below if c < node][::-1]), (RIGHT, [c for c in below if c > node])):
            decide(side, logits, bool(chain))
            edge, before = side, (vector, logits, state)
            for number, child in enumerate(chain):
                inner = model.cell(edge, before[0], before[2])
                before = (*visit(tree, child, inner), inner)
                edge = NEXT[side]
                decide(edge, before[1], number + 1 < len(chain))
        return vector, logits

    for tree in trees:
        visit(tree, tree.root, model.root_state())
    return tf.add_n(words), tf.add_n(edges)


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
def test_loss_and_gradients_equal_an_eager_walk(gradient: str) -> None:
    """On trees of every arity, heads on either side."""
    model = make_model(gradient=gradient)

    def losses(batch: TopDownBatch) -> tuple[tf.Tensor, tf.Tensor, list[Any]]:
        with tf.GradientTape() as tape:
            loss, scores = model.loss(batch)
        return loss, scores, tape.gradient(loss, model.trainable_variables)

    step = tf.function(losses, input_signature=[SIGNATURE])
    for seed in range(2):
        trees = random_trees(5, seed)
        loss, scores, gradients = step(batch_of(trees))
        with tf.GradientTape() as tape:
            words, edges = unrolled(model, trees)
            expected = words + edges
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
        assert -float(tf.reduce_sum(scores)) == pytest.approx(float(words), rel=1e-5)
        for mine, theirs in zip(gradients, tape.gradient(expected, model.trainable_variables), strict=True):
            np.testing.assert_allclose(tf.convert_to_tensor(mine), tf.convert_to_tensor(theirs), rtol=1e-3, atol=1e-5)
    assert step.experimental_get_tracing_count() == 1


def test_the_iterative_twin_has_the_same_losses_and_gradients() -> None:
    """One loop over given trees, and the recursion."""
    model = make_model()
    batch = batch_of(random_trees(12, 5))
    found = {}
    for name, network in {"recursive": model, "iterative": IterativeTopDown(model)}.items():

        @tf.function(input_signature=[SIGNATURE], autograph=False)
        def run(batch: TopDownBatch, network: Any = network) -> Any:
            with tf.GradientTape() as tape:
                loss, likelihoods = network.loss(batch)
            gradients = tape.gradient(loss, model.trainable_variables)
            return loss, likelihoods, network.predict(batch), [tf.convert_to_tensor(g) for g in gradients]

        found[name] = run(batch)
    for mine, theirs in zip(*map(tf.nest.flatten, (found["recursive"], found["iterative"])), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_generated_trees_are_trees_of_many_shapes_and_follow_their_seed() -> None:
    """The same seed makes the same tree; heads are places in the sentence."""
    model = make_model()
    roots = tf.range(20) % len(LETTERS)
    seeds = tf.stack([tf.range(20), tf.ones(20, tf.int32)], 1)
    generate = tf.function(model.generate)
    words, heads = generate(roots, seeds, 5)
    again, _ = generate(roots, seeds, 5)
    assert words.to_list() == again.to_list()
    pairs = zip(words.to_list(), heads.to_list(), strict=True)
    trees = [DependencyTree(tuple(map(str, numbers)), tuple(above)) for numbers, above in pairs]
    assert [int(tree.words[tree.root]) for tree in trees] == roots.numpy().tolist()
    assert len({tree.heads for tree in trees}) > 5
    assert max(map(len, trees)) > 5


@pytest.mark.parametrize("at_random", [True, False])
def test_the_iterative_twin_makes_the_same_trees(at_random: bool) -> None:
    """A benchmark between programs that differ would say nothing."""
    model = make_model()
    roots = tf.range(16) % len(LETTERS)
    seeds = tf.stack([tf.range(16), tf.zeros(16, tf.int32)], 1) if at_random else None
    words, heads = tf.function(model.generate)(roots, seeds, 5)
    nodes = tf.function(IterativeTopDown(model).generate)(roots, seeds, 5)
    for mine, mine_heads, theirs in zip(words.to_list(), heads.to_list(), nodes, strict=True):
        assert (mine, mine_heads) == in_order(theirs.numpy())


def test_what_is_likely_is_generated() -> None:
    """A word that is certain, and edges to the left only, three levels deep."""
    model = make_model()
    model.word_bias.assign(100 * tf.one_hot(4, len(LETTERS)))
    model.edge_bias.assign([100.0, -100.0, -100.0, -100.0])
    words, heads = tf.function(model.generate)(tf.constant([7]), None, 3)
    assert words.to_list() == [[4, 4, 4, 7]]
    assert heads.to_list() == [[1, 2, 3, -1]]


@pytest.mark.long
def test_training_completes_sentences() -> None:
    """After a few steps the right word is likelier than those of other classes, which chance finds one time in five."""
    trees = generate_dependencies(260, seed=1)
    vocabulary = Vocabulary.build(trees)
    model = TopDownTreeLSTM(len(vocabulary), Hyper(embedding=16, hidden=24, learning_rate=0.1, embedding_rate=1.0))
    optimizer = TreeOptimizer(model)

    @tf.function(input_signature=[SIGNATURE])
    def step(batch: TopDownBatch) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss, _ = model.loss(batch)
            loss /= tf.cast(tf.size(batch.words), tf.float32)
        *weights, embedding = tape.gradient(loss, [*model.weights, model.embedding])
        optimizer.apply(model, weights, embedding)
        return loss

    losses = [float(step(batch_of(trees[i : i + 20], vocabulary))) for _ in range(3) for i in range(0, 200, 20)]
    assert losses[-1] < 0.6 * losses[0]
    questions = completion_questions(trees[200:], seed=2)
    filled = batch_of([tree for question in questions for tree in question.filled()], vocabulary)
    chosen = tf.function(lambda batch: model.choose(batch, 5))(filled)
    assert np.mean(chosen.numpy() == [question.answer for question in questions]) > 0.6
