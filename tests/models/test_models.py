"""The recursive models compute what the same networks compute when plain Python unrolls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import TreeBatch
from recgraph.models import MODELS, MVRNN, RNTN, Hyper, TreeLSTM, TreeModel, TreeRNN
from recgraph.models.baselines import Iterative, unrolled

VOCABULARY = 31
SEED = tf.constant([3, 4])
HYPER = {
    "tree_lstm": Hyper(embedding=6, hidden=5, dropout=0.4),
    "tree_gru": Hyper(embedding=6, hidden=5, dropout=0.4),
    "tree_rnn": Hyper(embedding=5, hidden=5, dropout=0.4),
    "rntn": Hyper(embedding=4, hidden=4, dropout=0.4),
    "mv_rnn": Hyper(embedding=18, hidden=3, dropout=0.4),
}
MakeBatch = Callable[..., TreeBatch]


def make(name: str, gradient: str = "cache") -> TreeModel:
    """A small model whose weights are large enough for every gate to matter."""
    model = MODELS[name](VOCABULARY, HYPER[name], seed=7)
    model.gradient = gradient
    model.embedding.assign(20 * model.embedding)
    return model


def dense(gradient: Any) -> np.ndarray:
    """A gradient as an array, sparse or not."""
    return tf.convert_to_tensor(gradient).numpy()


def loss_and_gradients(model: TreeModel, loss: Any, batch: TreeBatch) -> tuple[float, list[Any]]:
    """In eager mode, or in the graph that `loss` brings along."""
    with tf.GradientTape() as tape:
        value, _ = loss(batch, SEED)
    return float(value), tape.gradient(value, model.trainable_variables)


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_equal_the_unrolled_network(name: str, gradient: str, make_batch: MakeBatch) -> None:
    """With dropout, unlabelled nodes, single words and trees of every shape."""
    model = make(name, gradient)
    step = tf.function(lambda batch: loss_and_gradients_in_graph(model, model.loss, batch))
    for seed in range(4):
        batch = make_batch(6, seed)
        loss, gradients = step(batch)
        expected, expected_gradients = loss_and_gradients(model, lambda *a: unrolled(model, *a), batch)
        assert float(loss) == pytest.approx(expected, rel=1e-5)
        for mine, theirs in zip(gradients, expected_gradients, strict=True):
            np.testing.assert_allclose(dense(mine), dense(theirs), rtol=1e-4, atol=1e-5)


def loss_and_gradients_in_graph(model: TreeModel, loss: Any, batch: TreeBatch) -> tuple[tf.Tensor, list[Any]]:
    """Tensors, to be called inside a `tf.function`."""
    with tf.GradientTape() as tape:
        value, _ = loss(batch, SEED)
    return value, tape.gradient(value, model.trainable_variables)


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_all_nodes_are_in_the_order_of_the_batch(name: str, make_batch: MakeBatch) -> None:
    """Otherwise a picture shows the sentiment of another phrase."""
    model = make(name)
    batch = make_batch(9, 5)
    scores = tf.function(model.predict)(batch)
    np.testing.assert_allclose(scores, unrolled(model, batch)[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_scores_at_the_roots_are_those_of_inference(name: str, make_batch: MakeBatch) -> None:
    """The accuracy that training reports is that of the model without dropout."""
    model = make(name)
    batch = make_batch(5, 6)
    _, roots = tf.function(model.loss)(batch, SEED)
    np.testing.assert_allclose(roots, tf.gather(unrolled(model, batch)[1], batch.roots), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_iterative_twin_computes_the_same(name: str, make_batch: MakeBatch) -> None:
    """A benchmark between programs that differ would say nothing."""
    model = make(name)
    twin = Iterative(model)
    step = tf.function(lambda batch: loss_and_gradients_in_graph(model, twin.loss, batch))
    for seed in range(2):
        batch = make_batch(6, seed)
        loss, gradients = step(batch)
        expected, expected_gradients = loss_and_gradients(model, lambda *a: unrolled(model, *a), batch)
        assert float(loss) == pytest.approx(expected, rel=1e-5)
        for mine, theirs in zip(gradients, expected_gradients, strict=True):
            np.testing.assert_allclose(dense(mine), dense(theirs), rtol=1e-4, atol=1e-5)
        scores = tf.function(twin.predict)(batch)
        np.testing.assert_allclose(scores, unrolled(model, batch)[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("implementation", ["recursive", "iterative"])
@pytest.mark.parametrize("name", MODELS)
def test_an_empty_batch_has_no_loss_and_no_scores(name: str, implementation: str, make_batch: MakeBatch) -> None:
    """The last batch of a filtered data set may be one."""
    model = make(name)
    network = model if implementation == "recursive" else Iterative(model)
    batch = make_batch(0)
    loss, roots = tf.function(network.loss)(batch, SEED)
    assert float(loss) == 0
    assert roots.shape == [0, 5]
    assert tf.function(network.predict)(batch).shape == [0, 5]


@pytest.mark.parametrize("name", MODELS)
def test_the_embedding_has_a_sparse_gradient(name: str, make_batch: MakeBatch) -> None:
    """A dense one is as large as the vocabulary, whatever the batch."""
    model = make(name)
    batch = make_batch(3, 1)
    _, gradients = tf.function(lambda b: loss_and_gradients_in_graph(model, model.loss, b))(batch)
    by_name = dict(zip([v.name for v in model.trainable_variables], gradients, strict=True))
    rows = by_name["embedding:0"]
    assert isinstance(rows, tf.IndexedSlices)
    assert set(rows.indices.numpy()) == {word for word in batch.words.numpy() if word >= 0}


def test_a_node_without_label_has_no_loss(make_batch: MakeBatch) -> None:
    """Neutral phrases of the binary task, phrases nobody labelled."""
    model = make("tree_rnn")
    batch = make_batch(4, 2)
    bare = batch._replace(labels=-tf.ones_like(batch.labels))
    loss, _ = tf.function(model.loss)(bare, SEED)
    assert float(loss) == 0


def test_dropout_depends_on_its_seed_alone(make_batch: MakeBatch) -> None:
    """Invocations run in any order; what they drop must not depend on it."""
    model = make("tree_lstm")
    batch = make_batch(4, 2)
    loss = tf.function(model.loss)
    first, again, other = (float(loss(batch, tf.constant(seed))[0]) for seed in ([1, 2], [1, 2], [1, 3]))
    assert first == pytest.approx(again, rel=1e-6)
    assert abs(first - other) > 1e-3


def test_a_model_is_traced_once_for_batches_of_any_size(make_batch: MakeBatch) -> None:
    """A new graph for every batch would be slower than Python."""
    model = make("tree_lstm")
    specs = TreeBatch(*[tf.TensorSpec([None], tf.int32)] * 6)
    predict = tf.function(model.predict, input_signature=[specs])
    for count in (1, 4, 0):
        predict(make_batch(count))
    assert predict.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("model", [TreeRNN, RNTN])
def test_sizes_that_cannot_work_are_refused(model: type[TreeModel]) -> None:
    """A leaf's state is its word's vector."""
    with pytest.raises(ValueError, match=r"embedding and hidden must be equal in this model, found 300 and 150"):
        model(10, Hyper(embedding=300, hidden=150))


def test_a_word_without_room_for_its_matrix_is_refused() -> None:
    """Its vector, a diagonal and two factors share one row."""
    with pytest.raises(ValueError, match=r"embedding must be an even multiple of hidden in this model, found 24 and 8"):
        MVRNN(10, Hyper(embedding=24, hidden=8))


def test_the_matrix_of_a_word_is_that_of_the_paper() -> None:
    """Identity, diagonal and product of two factors, transposed."""
    model = make("mv_rnn")
    row = model.embed(tf.constant([3]))
    vector, matrix = model.leaf(row)
    own, diagonal, tall, wide = np.split(row.numpy()[0], [3, 6, 12])
    np.testing.assert_array_equal(vector, own[None])
    expected = np.eye(3) + np.diag(diagonal) + tall.reshape(3, 2) @ wide.reshape(2, 3)
    np.testing.assert_allclose(np.reshape(matrix, [3, 3]), expected, rtol=1e-5)


def test_a_matrix_changes_the_other_vector() -> None:
    """Equations 2 and 3 of the paper: p = g(W [B a; A b]), P = W_M [A; B], with A, B and P as they are there."""
    model, rng = make("mv_rnn"), np.random.default_rng(0)
    (a, b), (left, right) = rng.normal(size=[2, 3]), rng.normal(size=[2, 3, 3])
    state = [
        (tf.constant(v[None], tf.float32), tf.constant(m.T.reshape(1, 9), tf.float32))
        for v, m in ((a, left), (b, right))
    ]
    vector, matrix = model.compose(*state)
    kernel, matrix_kernel = model.kernel.numpy().T, model.matrix_kernel.numpy().T
    np.testing.assert_allclose(vector[0], np.tanh(kernel @ np.concatenate([right @ a, left @ b])), rtol=1e-5)
    expected = matrix_kernel @ np.concatenate([left, right])
    np.testing.assert_allclose(np.reshape(matrix, [3, 3]).T, expected, rtol=1e-5)


def test_the_mixture_of_a_gated_node_lies_between_its_parts() -> None:
    """With all weights zero the parts are equal: a third of each child, and the candidate is zero."""
    model = make("tree_gru")
    for weight in model.weights:
        weight.assign(tf.zeros_like(weight))
    left, right = tf.fill([1, 5], 3.0), tf.fill([1, 5], -1.5)
    (state,) = model.compose((left,), (right,))
    np.testing.assert_allclose(state, tf.fill([1, 5], 0.5), rtol=1e-6)
    model.mixture_bias.assign(tf.repeat([0.0, 50.0, 0.0], 5))
    np.testing.assert_allclose(model.compose((left,), (right,))[0], left, rtol=1e-6)


def test_vectors_of_another_shape_are_refused() -> None:
    """The message says which size to set."""
    with pytest.raises(ValueError, match=r"expected shape \(10, 300\).*found \(10, 50\). Set Hyper.embedding to 50"):
        TreeLSTM(10, vectors=np.zeros([10, 50], np.float32))


def test_given_vectors_are_the_first_embedding() -> None:
    """Pre-trained vectors arrive in the model."""
    vectors = np.random.default_rng(0).normal(size=[10, 30]).astype(np.float32)
    np.testing.assert_array_equal(TreeRNN(10, vectors=vectors).embedding, vectors)
