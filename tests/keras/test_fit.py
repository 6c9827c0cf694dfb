"""`fit` and its relatives after `rg.keras.compile`: what `run_eagerly=True` gives, at the speed of graphs."""

from __future__ import annotations

import gc
import http.server
import pdb
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.models.zoo.fitted import FITTED

# Whose steps are Python, too, that a graph of Keras's own does once or not at all.
NOT_FOR_KERAS = {"imperative", "pairs_of_trees", "siamese"}
# Rounding of numbers with few digits.
TOLERANCE = {"mixed_bfloat16": 2e-2, "mixed_float16": 5e-3}


def fitted(name: str, epochs: int = 4, compiled: bool = False, **options: Any) -> tuple[Any, Any, Any]:
    """A program, its history, and its steps if they are ours."""
    keras.utils.set_random_seed(3)
    made = FITTED[name](run_eagerly=not compiled, **options)
    steps = rg.keras.compile(made.model) if compiled else None
    history = made.model.fit(**made.arguments, epochs=epochs, verbose=0).history
    return made, history, steps


def assert_alike(one: dict[str, Any], other: dict[str, Any], tolerance: float = 2e-4) -> None:
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(other[name], values, rtol=tolerance, atol=tolerance / 10, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTED)
def test_histories_weights_and_predictions_are_those_of_eager_execution(name: str) -> None:
    eager, history, _ = fitted(name)
    ours, mine, steps = fitted(name, compiled=True)
    tolerance = TOLERANCE.get(name, 2e-4)
    assert_alike(history, mine, tolerance)
    assert steps.train.calls["graph"] > 0
    assert steps.train.given_up == ""
    for one, other in zip(eager.model.get_weights(), ours.model.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, rtol=50 * tolerance, atol=5 * tolerance)
    if name not in ("gan", "contrastive", "vae"):  # of these `predict` is of no interest
        predicted = [made.model.predict(made.inputs, batch_size=8, verbose=0) for made in (eager, ours)]
        for one, other in zip(*map(keras.tree.flatten, predicted), strict=True):
            np.testing.assert_allclose(other, one, rtol=50 * tolerance, atol=5 * tolerance)


class Received(http.server.BaseHTTPRequestHandler):
    """Takes what RemoteMonitor sends."""

    def do_POST(self) -> None:
        self.server.received.append(self.rfile.read(int(self.headers["Content-Length"])))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[Any]:
    """A server that keeps what it is sent, as `received`."""
    made: Any = http.server.HTTPServer(("127.0.0.1", 0), Received)
    made.received = []
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def callbacks(folder: Path, seen: list[Any], server: Any) -> list[Any]:
    """All that Keras has, but OrbaxCheckpoint, which needs another package."""
    kinds = keras.callbacks
    return [
        kinds.BackupAndRestore(folder / "backup"),
        kinds.CSVLogger(folder / "log.csv"),
        kinds.EarlyStopping("loss", patience=2, min_delta=0.02, restore_best_weights=True),
        kinds.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append((batch, sorted(logs)))),
        kinds.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        kinds.ModelCheckpoint(folder / "best.keras", "loss", save_best_only=True),
        kinds.ModelCheckpoint(folder / "weights-{epoch}.weights.h5", save_weights_only=True, save_freq=2),
        kinds.ReduceLROnPlateau("loss", patience=1, min_delta=0.1),
        kinds.RemoteMonitor(f"http://127.0.0.1:{server.server_port}"),
        kinds.SwapEMAWeights(swap_on_epoch=True),
        kinds.TensorBoard(folder / "board", histogram_freq=1, update_freq="batch"),
        kinds.TerminateOnNaN(),
    ]


@pytest.mark.slow
def test_callbacks_do_what_they_do(tmp_path: Path, server: Any) -> None:
    histories, seen, files = [], [], []
    for compiled in (False, True):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input([8]), keras.layers.Dense(16, "relu"), keras.layers.Dense(3)])
        optimizer = keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.9)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, metrics=["accuracy"], run_eagerly=not compiled)
        steps = rg.keras.compile(model) if compiled else None
        made = FITTED["perceptron"]()
        folder, batches = tmp_path / str(compiled), []
        folder.mkdir()
        done = model.fit(**made.arguments, epochs=8, verbose=0, callbacks=callbacks(folder, batches, server))
        histories.append(done.history)
        seen.append(batches)
        files.append({str(path.relative_to(folder)) for path in folder.rglob("*") if "events" not in path.name})
    assert_alike(*histories)
    assert seen[0] == seen[1]
    assert files[0] == files[1]
    assert len(histories[0]["loss"]) < 8  # it was stopped early
    assert len(server.received) == 2 * len(histories[0]["loss"])
    assert steps is not None
    assert steps.train.calls["fallback"] == 0
    assert steps.train.way == "graph"


def compared(make: Any, run: Any) -> Any:
    """What `run` gives for a model that runs eagerly, compared with one whose steps are ours; these."""
    results = []
    for compiled in (False, True):
        keras.utils.set_random_seed(5)
        model = make(run_eagerly=not compiled)
        steps = rg.keras.compile(model) if compiled else None
        results.append(run(model))
    for one, other in zip(*map(tf.nest.flatten, results), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
    return steps


def small(**options: Any) -> keras.Model:
    model = keras.Sequential([keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.2, seed=1), keras.layers.Dense(1)])
    model.compile(**{"optimizer": "adam", "loss": "mse", "metrics": ["mae"], **options})
    return model


X, Y = np.linspace(-1, 1, 60, dtype=np.float32).reshape(20, 3), np.linspace(0, 1, 20, dtype=np.float32)[:, None]


def test_steps_on_one_batch() -> None:
    def run(model: Any) -> Any:
        found = [model.train_on_batch(X, Y) for _ in range(8)]
        found += [model.train_on_batch(X, Y, sample_weight=np.linspace(0, 1, 20)) for _ in range(6)]
        found += [model.train_on_batch(X, Y, return_dict=True)["loss"]]
        found += [model.test_on_batch(X, Y) for _ in range(6)]
        return [*found, *(model.predict_on_batch(X) for _ in range(6))]

    steps = compared(small, run)
    assert min(step.calls["graph"] for step in (steps.train, steps.test, steps.predict)) > 2


@pytest.mark.parametrize("options", [{}, {"steps_per_execution": 3}])
def test_evaluate_and_predict(options: Any) -> None:
    """With a last batch that is smaller."""

    def run(model: Any) -> Any:
        model.fit(X, Y, batch_size=8, epochs=3, verbose=0, validation_split=0.3)
        found = [model.evaluate(X, Y, batch_size=6, verbose=0) for _ in range(3)]
        return found, [model.predict(X, batch_size=6, verbose=0) for _ in range(3)]

    steps = compared(lambda **more: small(**options, **more), run)
    assert min(step.calls["graph"] for step in (steps.train, steps.test, steps.predict)) > 2


def test_generators_and_numbers_of_steps() -> None:
    def batches() -> Any:
        while True:
            yield X[:8], Y[:8]
            yield X[8:], Y[8:]

    def run(model: Any) -> Any:
        history = model.fit(batches(), steps_per_epoch=5, epochs=3, verbose=0).history
        return list(history.values()), model.predict(X, steps=1, verbose=0)

    compared(small, run)


def test_means_of_several_losses_for_batches_of_many_sizes() -> None:
    """Keras counts examples by static shapes there, which a graph for all shapes would not have."""

    def make(**options: Any) -> Any:
        inputs = keras.Input([3])
        model = keras.Model(inputs, [keras.layers.Dense(1)(inputs), keras.layers.Dense(1)(inputs)])
        model.compile("sgd", ["mse", "mae"], **options)
        return model

    def run(model: Any) -> Any:
        return [model.evaluate(X, [Y, Y], batch_size=size, verbose=0) for size in (6, 7, 8, 9, 6, 7, 8, 9, 7)]

    compared(make, run)


def test_output_that_is_sparse_ragged_or_a_number() -> None:
    class Odd(keras.Model):
        def call(self, x: Any) -> Any:
            return tf.reduce_sum(x)

        def predict_step(self, data: Any) -> Any:
            x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
            return {
                "sum": tf.reduce_sum(x),
                "ragged": tf.RaggedTensor.from_tensor(x),
                "sparse": tf.sparse.from_dense(x),
            }

    results = []
    for compiled in (False, True):
        model = Odd()
        model.compile("sgd", "mse", steps_per_execution=2, run_eagerly=not compiled)
        if compiled:
            rg.keras.compile(model)
        found = [model.predict(X, batch_size=6, verbose=0) for _ in range(2)][-1]
        results.append([found["sum"], found["ragged"].to_tensor(), tf.sparse.to_dense(found["sparse"])])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


class Talking(keras.Model):
    """A step with a print, a list, and something that no converter takes."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.seen: list[float] = []
        self.stops = False

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, data: Any) -> Any:
        logs = super().train_step(data)
        self.seen.append(float(logs["loss"]))
        print("loss", len(self.seen))
        if self.stops:
            pdb.set_trace()
        return logs


def test_python_in_a_step_runs_once_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    model = Talking()
    model.compile("sgd", "mse")
    steps = rg.keras.compile(model)
    history = model.fit(X, Y, batch_size=4, epochs=4, verbose=0).history["loss"]
    assert capsys.readouterr().out.split() == " ".join(f"loss {i + 1}" for i in range(20)).split()
    assert len(model.seen) == 20
    assert model.seen[-1] == pytest.approx(history[-1])
    assert steps.train.calls["graph"] > 10


def test_a_step_may_log_nothing_under_a_name() -> None:
    class Silent(Talking):
        def train_step(self, data: Any) -> Any:
            return {**keras.Model.train_step(self, data), "norm": None}

    model = _compiled(Silent())
    steps = rg.keras.compile(model)
    history = model.fit(X, Y, batch_size=4, epochs=2, verbose=0).history
    assert history["norm"] == [None, None]
    assert steps.train.calls["graph"] > 0


def test_a_debugger_stops_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []
    monkeypatch.setattr(pdb, "set_trace", lambda: stops.append(len(model.seen)))
    model = Talking()
    model.compile("sgd", "mse")
    rg.keras.compile(model)
    model.fit(X, Y, batch_size=4, epochs=2, verbose=0)
    model.stops = True
    model.fit(X, Y, batch_size=10, epochs=1, verbose=0)
    assert stops == [11, 12]


def test_explanations_after_an_epoch() -> None:
    model = small()
    steps = rg.keras.compile(model)
    model.fit(X, Y, batch_size=4, epochs=2, verbose=0, validation_data=(X, Y))
    text = steps.explain()
    assert "train_step: 3 eager, 7 graph" in text
    assert "test_step:" in text
    assert "<section" in text.html()


def test_a_step_that_cannot_be_converted_runs_in_another_way_or_raises() -> None:
    class Importing(Talking):
        def train_step(self, data: Any) -> Any:
            import math

            return {"loss": math.fsum([float(keras.Model.train_step(self, data)["loss"])])}

    losses = []
    for compiled in (False, True):
        keras.utils.set_random_seed(1)
        model = Importing()
        model.compile("sgd", "mse", run_eagerly=not compiled)
        steps = rg.keras.compile(model) if compiled else None
        losses.append(model.fit(X, Y, batch_size=2, epochs=3, verbose=0).history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert steps is not None
    assert "Import" in steps.train.given_up
    rg.keras.compile(model := _compiled(Importing()), strict=True)
    with pytest.raises(rg.errors.NotAGraph, match="Import"):
        model.fit(X, Y, batch_size=2, verbose=0)


def _compiled(model: keras.Model, **options: Any) -> keras.Model:
    model.compile(**{"optimizer": "sgd", "loss": "mse", **options})
    return model


def test_an_error_in_a_step_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Talking):
        def train_step(self, data: Any) -> Any:
            if len(self.seen) > 5:
                raise ArithmeticError("of the user's")
            return super().train_step(data)

    rg.keras.compile(model := _compiled(Wrong()))
    with pytest.raises(ArithmeticError, match="of the user's"):
        model.fit(X, Y, batch_size=2, verbose=0)
    assert len(model.seen) == 6


def test_compiling_again_ends_it() -> None:
    steps = rg.keras.compile(model := small())
    model.fit(X, Y, verbose=0)
    assert steps.train.calls["eager"] == 1
    model.compile("sgd", "mse")
    model.fit(X, Y, verbose=0)
    assert steps.train.calls["eager"] == 1


def test_a_layer_that_is_frozen_later() -> None:
    """Keras's own `fit` would go on training it until the model is compiled again."""

    def run(model: Any) -> Any:
        model.fit(X, Y, batch_size=4, epochs=2, verbose=0)
        model.layers[0].trainable = False
        return list(model.fit(X, Y, batch_size=4, epochs=2, verbose=0).history.values()), model.get_weights()

    compared(small, run)


def test_a_model_is_freed_with_its_graphs() -> None:
    rg.keras.compile(model := small())
    model.fit(X, Y, batch_size=4, epochs=2, verbose=0)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_saving_and_cloning_do_not_mind(tmp_path: Path) -> None:
    rg.keras.compile(model := small())
    model.fit(X, Y, batch_size=4, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-5)
    model.export(tmp_path / "served", verbose=False)
    model.fit(X, Y, batch_size=4, verbose=0)
    keras.models.clone_model(model)


def test_what_cannot_be_is_said() -> None:
    model = keras.Sequential([keras.layers.Dense(1)])
    with pytest.raises(rg.errors.DefinitionError, match="has not been compiled") as caught:
        rg.keras.compile(model)
    assert "call model.compile" in str(caught.value)
    with pytest.raises(rg.errors.DefinitionError, match="run_eagerly=True"):
        rg.keras.compile(_compiled(model, run_eagerly=True))
    with pytest.raises(rg.errors.DefinitionError, match=r"compiled by XLA \(jit_compile=True\)"):
        rg.keras.compile(_compiled(model, jit_compile=True))
    with pytest.raises(rg.errors.SignatureError, match="takes a keras.Model"):
        rg.keras.compile(keras.layers.Dense(1))
    with pytest.raises(rg.errors.SignatureError, match="mode must be one of"):
        rg.keras.compile(_compiled(model), mode="fast")
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        distributed = _compiled(keras.Sequential([keras.layers.Dense(1)]))
    with pytest.raises(rg.errors.DefinitionError, match="belongs to a distribution strategy"):
        rg.keras.compile(distributed)


def test_xla_names_the_subgraph_and_the_way_out() -> None:
    """A SubGraph in a layer of the user's own, who has not said that XLA cannot compile it."""
    with rg.SubGraph("halves", outputs=tf.TensorSpec([])) as halves:
        x = halves.input()
        halves.output(tf.cond(x < 1.0, lambda: x, lambda: halves(x / 2.0)))

    class Halves(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return halves.map(x[:, 0])[:, None]

    model = _compiled(keras.Sequential([Halves(), keras.layers.Dense(1)]), jit_compile=True)
    with pytest.raises(tf.errors.UnimplementedError, match="XLA cannot compile a call of SubGraph 'halves'"):
        model.fit(X, Y, verbose=0)
    _compiled(model).fit(X, Y, verbose=0)


def test_a_metric_in_a_recursion_is_not_counted_twice_where_a_step_fails() -> None:
    """What a body writes is written when it runs; a graph that fails later could not take it back."""

    class Metered(rg.keras.TreeLayer):
        output_size = 1

        def __init__(self) -> None:
            super().__init__()
            self.words, self.dense = keras.metrics.Sum("words"), keras.layers.Dense(1)

        def node(self, inputs: Any, child: Any) -> Any:
            self.words.update_state(inputs[:, 0])
            return self.dense(child(inputs[:, 1]) + tf.cast(inputs[:, :1], tf.float32))

    class Watching(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            logs = super().train_step(data)
            if logs["words"] > 90.0:  # for the first time in a step that is a graph
                return {**logs, "loss": logs["loss"] * 2.0}
            return logs

    trees = np.array([[[i % 3 + 1, 1, -1], [2, -1, -1]] for i in range(32)], np.int32)
    histories = []
    for compiled in (False, True):
        keras.utils.set_random_seed(1)
        model = _compiled(Watching([Metered()]), run_eagerly=not compiled)
        steps = rg.keras.compile(model) if compiled else None
        histories.append(model.fit(trees, np.ones([32, 1]), batch_size=4, epochs=2, shuffle=False, verbose=0).history)
    assert_alike(*histories)
    assert steps is not None
    assert "has effects, which could not be undone" in steps.train.given_up
