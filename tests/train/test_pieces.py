"""Metrics, optimizer, checkpoints and history of a training run, each against a slow and obvious computation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from recgraph import native
from recgraph.data import TreeBatch
from recgraph.models import RNTN, Hyper, TreeRNN
from recgraph.train import metrics
from recgraph.train.checkpoints import CheckpointError, Checkpoints
from recgraph.train.history import History, read_log
from recgraph.train.optimizer import EPSILON, TreeOptimizer
from recgraph.train.settings import RunError, Settings, load_settings, require_same


def batch_of(labels: list[int], roots: list[int]) -> TreeBatch:
    """A batch of which only labels and roots matter."""
    nothing = tf.constant([], tf.int32)
    return TreeBatch(nothing, nothing, nothing, tf.constant(labels), nothing, tf.constant(roots))


def test_fine_and_binary_accuracy_at_roots_and_nodes() -> None:
    """Neutral and unlabelled nodes have no binary accuracy; the sides are summed probabilities, not the argmax."""
    rows = [
        [0.9, 0.1, 0.0, 0.0, 0.0],  # label 0: right, negative: right
        [0.0, 0.2, 0.5, 0.2, 0.1],  # label 3: predicted neutral, but positive is likelier than negative
        [0.0, 0.0, 0.9, 0.1, 0.0],  # label 2: right, and no binary trial
        [0.0, 0.0, 0.0, 0.0, 1.0],  # no label
    ]
    counts = metrics.count(batch_of([0, 3, 2, -1], [1, 2, 3]), tf.math.log(tf.constant(rows) + 1e-9))
    np.testing.assert_array_equal(counts, [[1, 2], [2, 3], [1, 1], [2, 2]])
    assert metrics.accuracies(counts.numpy())["nodes_binary"] == 1.0


def test_accuracy_of_the_binary_task() -> None:
    """Two classes: fine-grained and binary are the same."""
    counts = metrics.count(batch_of([0, 1, -1], [1]), tf.constant([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_array_equal(counts, [[0, 1], [1, 2], [0, 1], [1, 2]])


def test_a_metric_without_trials_is_left_out() -> None:
    """Not a division by zero."""
    assert metrics.accuracies(np.zeros([4, 2])) == {}


def test_correlations_of_scores() -> None:
    """Known values; equal values share a rank; a constant has no correlation, and no scores have no figures."""
    true = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    figures = metrics.relatedness(np.array([1.0, 1.0, 2.0, 4.0, 8.0]), true)
    assert figures["pearson"] == pytest.approx(np.corrcoef([1, 1, 2, 4, 8], true)[0, 1])
    assert figures["spearman"] == pytest.approx(np.corrcoef([1.5, 1.5, 3, 4, 5], true)[0, 1])
    assert figures["mse"] == pytest.approx((0 + 1 + 1 + 0 + 9) / 5)
    assert metrics.relatedness(np.full(5, 3.0), true)["pearson"] == 0
    assert metrics.relatedness(np.zeros(0), np.zeros(0)) == {}


@pytest.mark.parametrize("sparse", [True, False])
def test_the_optimizer_is_adagrad_with_decay_and_plain_descent(sparse: bool) -> None:
    """Against the formulas in numpy, two steps, with a word that occurs twice."""
    model = TreeRNN(6, Hyper(embedding=3, hidden=3, l2=0.1, learning_rate=0.5, embedding_rate=0.2))
    optimizer = TreeOptimizer(model)
    weight, embedding = model.weights[0].numpy(), model.embedding.numpy()
    total = np.zeros_like(weight)
    rng = np.random.default_rng(0)
    for _ in range(2):
        gradients = [rng.normal(size=w.shape).astype(np.float32) for w in model.weights]
        rows = tf.IndexedSlices(tf.ones([3, 3]), tf.constant([1, 4, 1]), tf.constant([6, 3]))
        optimizer.apply(model, [tf.constant(g) for g in gradients], rows if sparse else tf.convert_to_tensor(rows))
        gradient = gradients[0] + 0.1 * weight
        total += gradient**2
        weight = weight - 0.5 * gradient / (np.sqrt(total) + EPSILON)
        embedding[[1, 4]] -= 0.2 * np.array([[2.0], [1.0]], np.float32)
    np.testing.assert_allclose(model.weights[0], weight, rtol=1e-5)
    np.testing.assert_allclose(model.embedding, embedding, rtol=1e-5)


def test_the_tensor_of_an_rntn_learns_at_a_tenth_of_the_rate() -> None:
    """At the whole rate the sum over all pairs saturates the tanh, and the model hardly learns."""
    model = RNTN(6, Hyper(embedding=2, hidden=2, l2=0.0, learning_rate=0.5))
    before = [weight.numpy() for weight in model.weights]
    TreeOptimizer(model).apply(model, [tf.ones_like(weight) for weight in model.weights], None)
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_allclose(value - weight, 0.05 if weight is model.tensor else 0.5, rtol=1e-5)


def checkpoints(folder: Path, value: float = 0.0, keep: int = 3) -> tuple[tf.Variable, Checkpoints]:
    """A variable and its checkpoints."""
    variable = tf.Variable(tf.fill([1000], value))
    return variable, Checkpoints(tf.train.Checkpoint(v=variable), folder, keep)


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    """A long run does not fill the disk."""
    _, saved = checkpoints(tmp_path)
    for epoch in range(1, 6):
        saved.save(epoch)
    assert saved.epochs() == [3, 4, 5]
    assert len(list(tmp_path.iterdir())) == 6


def damage(folder: Path, epoch: int, ending: str) -> None:
    """Cuts a file of a checkpoint in half."""
    (path,) = folder.glob(f"epoch-{epoch:04d}.{ending}*")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("ending", ["index", "data"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path, ending: str) -> None:
    """One epoch is lost, not the run."""
    variable, saved = checkpoints(tmp_path)
    for epoch in (1, 2):
        variable.assign(tf.fill([1000], float(epoch)))
        saved.save(epoch)
    damage(tmp_path, 2, ending)
    assert saved.restore() == 1
    assert float(variable[0]) == 1.0
    assert saved.epochs() == [1]


def test_when_all_checkpoints_are_damaged_the_error_says_what_to_do(tmp_path: Path) -> None:
    """Starting again in silence would throw the run away."""
    _, saved = checkpoints(tmp_path)
    saved.save(1)
    damage(tmp_path, 1, "data")
    with pytest.raises(CheckpointError, match=r"(?s)every checkpoint in this folder is damaged.*--fresh"):
        saved.restore()


def test_no_checkpoint_is_not_an_error(tmp_path: Path) -> None:
    """A new run."""
    assert checkpoints(tmp_path / "none")[1].restore() is None


def record(epoch: int) -> dict[str, object]:
    """A record as the trainer makes them."""
    return {"epoch": epoch, "loss": 1.5, "root": 0.5, "trees_per_second": 9.0, "dev": {"root": 0.25}, "best": True}


def test_a_continued_history_drops_what_is_done_again(tmp_path: Path) -> None:
    """A run that was killed between its log and its checkpoint has no epoch twice."""
    history = History(tmp_path, 0)
    history.add(record(1))
    history.add(record(2))
    history.close()
    History(tmp_path, 1).close()
    assert [entry["epoch"] for entry in read_log(tmp_path / "log.jsonl")] == [1]


def test_tensorboard_can_read_the_events(tmp_path: Path) -> None:
    """The values are there under their names."""
    history = History(tmp_path, 0)
    history.add(record(1))
    history.close()
    (path,) = (tmp_path / "tensorboard").iterdir()
    events = [tf.compat.v1.Event.FromString(r.numpy()) for r in tf.data.TFRecordDataset([str(path)])]
    values = {value.tag: value.simple_value for event in events for value in event.summary.value}
    assert events[0].file_version == "brain.Event:2"
    assert values == {"loss": 1.5, "train/root": 0.5, "trees_per_second": 9.0, "dev/root": 0.25}


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    """All of them."""
    settings = Settings("rntn", "/data", task="binary", hyper={"hidden": 7, "embedding": 7})
    settings.save(tmp_path)
    assert load_settings(tmp_path) == settings
    assert settings.full_hyper().classes == 2
    assert settings.full_hyper().hidden == 7


def test_other_settings_are_named_in_the_error(tmp_path: Path) -> None:
    """More epochs are fine; another seed is another run."""
    old = Settings("rntn", "/data")
    require_same(old, Settings("rntn", "/data", epochs=99), tmp_path)
    with pytest.raises(RunError, match=r"(?s)found: +seed=2.*expected: +seed=0.*--fresh"):
        require_same(old, Settings("rntn", "/data", seed=2), tmp_path)


@pytest.mark.parametrize("text", ["{", json.dumps({"model": "rntn"}), json.dumps({"colour": "red"})])
def test_damaged_settings_are_an_error_with_the_file(tmp_path: Path, text: str) -> None:
    """Not a traceback from the inside."""
    (tmp_path / "settings.json").write_text(text)
    with pytest.raises(RunError, match=r"the settings of this run cannot be read"):
        load_settings(tmp_path)


def test_an_update_leaves_alone_what_was_read_before() -> None:
    """A value that somebody holds does not change with the variable."""
    model = TreeRNN(10, Hyper(embedding=4, hidden=4), seed=1)
    optimizer = TreeOptimizer(model)
    before = [weight.read_value() for weight in model.weights]
    kept = [tensor.numpy().copy() for tensor in before]
    optimizer.apply(model, [tf.ones_like(weight) for weight in model.weights], None)
    for tensor, values, weight in zip(before, kept, model.weights, strict=True):
        np.testing.assert_array_equal(tensor, values)
        assert not np.array_equal(weight.numpy(), values)


def test_an_update_of_the_wrong_shape() -> None:
    """It names the shapes, and changes nothing."""
    weight, accumulator = tf.Variable(tf.ones([2, 3])), tf.Variable(tf.zeros([2, 3]))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"of one shape, found float\[2,3\] for a gradient \[3,2\]"
    ):
        native.ops().recgraph_apply_adagrad(
            weight.handle, accumulator.handle, tf.ones([3, 2]), rate=0.1, epsilon=0.0, decay=0.0
        )
    np.testing.assert_array_equal(weight, tf.ones([2, 3]))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_rows_that_occur_twice_are_updated_twice(dtype: tf.DType) -> None:
    """As TensorFlow's scattering does; who has read the variable keeps what was read."""
    rng = np.random.default_rng(5)
    start, gradient = (rng.normal(size=shape).astype(np.float32) for shape in ([7, 5, 3], [2, 4, 5, 3]))
    ours, theirs = tf.Variable(start), tf.Variable(start)
    indices = tf.constant([[0, 6, 0, 2], [2, 3, 0, 6]], dtype)
    before = ours.read_value()
    native.ops().recgraph_descend_rows(ours.handle, indices, gradient, rate=0.3)
    tf.raw_ops.ResourceScatterSub(resource=theirs.handle, indices=indices, updates=np.float32(0.3) * gradient)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(before, start)


@pytest.mark.parametrize(
    ("indices", "shape", "message"),
    [
        ([0, 7], [2, 3], r"indices\[1\] = 7 is not in \[0, 7\)"),
        ([-1, 0], [2, 3], r"indices\[0\] = -1 is not in \[0, 7\)"),
        ([0, 1], [3, 2], r"must be \[2,3\], found \[3,2\]"),
    ],
)
def test_rows_that_cannot_be_updated(indices: list[int], shape: list[int], message: str) -> None:
    """Nothing is written."""
    table = tf.Variable(tf.ones([7, 3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        native.ops().recgraph_descend_rows(table.handle, indices, tf.ones(shape), rate=1.0)
    np.testing.assert_array_equal(table, tf.ones([7, 3]))
