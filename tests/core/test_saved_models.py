"""Programs out of a SavedModel are differentiated by their contract, in a process without the code that made them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core import programs

import recgraph as rg
from recgraph.core import program

# What is run in the fresh process; values and gradients go out as JSON. TensorFlow makes gradients dense that leave a
# function, so what the contract gives is also looked at inside of it.
FRESH_PROCESS = """
import json, sys
import tensorflow as tf
import recgraph

def plain(gradient):
    return None if gradient is None else tf.convert_to_tensor(gradient).numpy().tolist()

def sparse(function):
    graph = function.graph
    with graph.as_default():
        gradients = tf.gradients([y for y in graph.outputs if y.dtype.is_floating], graph.internal_captures)
    return [isinstance(gradient, tf.IndexedSlices) for gradient in gradients].count(True)

model = tf.saved_model.load(sys.argv[1])
x = tf.Variable(0.5)
results = {}
for name in json.loads(sys.argv[2]):
    run = getattr(model, name)
    def step(x):
        with tf.GradientTape() as tape:
            flat = tf.nest.flatten(run(x))
            total = tf.add_n([(i + 1.0) * tf.reduce_sum(tf.cast(y, tf.float32)) for i, y in enumerate(flat)])
        return flat, tape.gradient(total, [x, *model.weights])
    eager = step(x)
    staged = tf.function(step)(x)
    gradients = [[plain(gradient) for gradient in how[1]] for how in (eager, staged)]
    results[name] = [[y.numpy().tolist() for y in eager[0]], *gradients, sparse(run.concrete_functions[0])]
assert not any(name.startswith("core") for name in sys.modules), "the code of the programs"
print(json.dumps(results))
"""


def make_cond(**options: Any) -> Callable[[tf.Tensor], Any]:
    """A branch, captured matrices and an embedding."""
    rnn = programs.make_tree_rnn(**options)
    return lambda x: x * rnn(programs.ROOT)


def make_while(**options: Any) -> Callable[[tf.Tensor], Any]:
    """A loop around recursive calls."""
    trips = programs.make_zero_trips(**options)
    return lambda x: trips(0, x)


def make_two_outputs(**options: Any) -> Callable[[tf.Tensor], Any]:
    """An integer and a float in a nest."""
    two = programs.make_two_outputs(**options)
    return lambda x: tf.nest.map_structure(lambda y: tf.cast(y, tf.float32) * x, two(programs.ROOT))


def make_rows(**options: Any) -> Callable[[tf.Tensor], Any]:
    """Rows of a captured tensor, read one by one."""

    def run(x: tf.Tensor) -> tf.Tensor:
        table = x * tf.reshape(tf.range(90.0) / 90.0, [9, 10])
        with rg.SubGraph("rows", outputs=tf.TensorSpec([10]), **options) as rows:
            n = rows.input(tf.int32)
            rows.output(tf.cond(n > 0, lambda: table[n] * rows(n - 1) + table[-1], lambda: table[n]))
        return rows(8)

    return run


def make_captures(**options: Any) -> Callable[[tf.Tensor], Any]:
    """A captured tensor of the function, a variable, and rows of an embedding, mapped."""
    embedding, _, bias = programs.weights()

    def run(x: tf.Tensor) -> tf.Tensor:
        scale = x * 3.0
        with rg.SubGraph("captures", outputs=tf.TensorSpec([3]), **options) as captures:
            n = captures.input(tf.int32)
            row = tf.gather(embedding, n)
            captures.output(tf.cond(n > 0, lambda: row * captures(n - 1) + scale, lambda: row + bias))
        return captures(3) + tf.reduce_sum(captures.map([2, 0]), 0)

    return run


MAKERS = {
    "cond": make_cond,
    "while": make_while,
    "two_outputs": make_two_outputs,
    "captures": make_captures,
    "rows": make_rows,
}
SCALAR = tf.TensorSpec([])


def weights() -> list[tf.Variable]:
    """All variables of the programs."""
    return [*programs.weights(), programs.node_values()]


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """Values and gradients in this process, name -> (values, gradients)."""
    return {f"{name}_{kind}": run(make(gradient=kind)) for name, make in MAKERS.items() for kind in KINDS}


KINDS = ("cache", "recompute")


def run(function: Callable[[tf.Tensor], Any]) -> tuple[list[Any], list[Any]]:
    """As the fresh process does."""
    x = tf.Variable(0.5)
    with tf.GradientTape() as tape:
        flat = tf.nest.flatten(function(x))
        total = tf.add_n([(i + 1.0) * tf.reduce_sum(tf.cast(y, tf.float32)) for i, y in enumerate(flat)])
    return [y.numpy() for y in flat], tape.gradient(total, [x, *weights()])


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the fresh process gives: name -> [values, eager gradients, staged ones, how many are sparse]."""
    model = tf.Module()
    model.weights = weights()
    for name, make in MAKERS.items():
        for kind in KINDS:
            function = tf.function(make(gradient=kind), input_signature=[SCALAR], autograph=False)
            setattr(model, f"{name}_{kind}", function)
    folder = str(tmp_path_factory.mktemp("saved"))
    tf.saved_model.save(model, folder)
    names = json.dumps([f"{name}_{kind}" for name in MAKERS for kind in KINDS])
    command = [sys.executable, "-W", "ignore", "-c", FRESH_PROCESS, folder, names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=Path(folder), check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MAKERS)
def test_gradients_of_a_loaded_program(name: str, kind: str, expected: dict[str, Any], loaded: dict[str, Any]) -> None:
    """Eager and in a tf.function: those of the process that made it."""
    values, gradients = expected[f"{name}_{kind}"]
    loaded_values, *loaded_gradients, _ = loaded[f"{name}_{kind}"]
    for mine, theirs in zip(loaded_values, values, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    for found in loaded_gradients:
        for mine, theirs in zip(found, gradients, strict=True):
            assert (mine is None) == (theirs is None)
            if theirs is not None:
                np.testing.assert_allclose(mine, tf.convert_to_tensor(theirs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_an_embedding_stays_sparse(kind: str, loaded: dict[str, Any]) -> None:
    """The one gradient of each that is of rows."""
    assert [loaded[f"{name}_{kind}"][-1] for name in ("cond", "captures")] == [1, 1]


@pytest.mark.parametrize("read", [lambda table, n: table[n], tf.gather], ids=["x[n]", "tf.gather"])
def test_a_loaded_program_knows_which_gradients_are_sparse(read: Callable[..., tf.Tensor]) -> None:
    """By its contract: both are sums of rows."""
    table = tf.Variable(tf.ones([9, 10]))
    with rg.SubGraph("rows", outputs=tf.TensorSpec([10])) as rows:
        n = rows.input(tf.int32)
        rows.output(tf.cond(n > 0, lambda: read(table, n) * rows(n - 1), lambda: read(table, n)))
    linked = rows.program(gradient=True)
    loaded = program.revive(linked.entry, linked.key, linked.library).contract
    assert loaded == linked.contract
    assert [(total.kind, total.sparse) for total in loaded.sums] == [("rows", read is tf.gather)]


def test_what_has_no_gradient_is_saved_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, and says so where a gradient is wanted."""
    with rg.SubGraph("opaque") as opaque:
        x = opaque.input()
        opaque.output(tf.raw_ops.NextAfter(x1=tf.raw_ops.Bitcast(input=x, type=tf.float32), x2=2.0))
    model = tf.Module()
    model.run = tf.function(opaque, input_signature=[SCALAR])
    tf.saved_model.save(model, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    monkeypatch.setattr(program, "find", lambda key: None)  # as in another process
    v = tf.Variable(1.0)
    assert 1.0 < float(loaded.run(v)) < 1.001
    with tf.GradientTape() as tape, pytest.raises(rg.errors.GradientError, match="was saved without a gradient"):
        tape.gradient(loaded.run(v), v)


def test_without_the_import_tensorflow_says_what_the_pages_say(tmp_path: Path) -> None:
    """Who looks for the message finds what to do."""
    said = "Op type not registered 'Recgraph>Invoke'"
    for page in ("docs/installing.md", "docs/keras.md"):
        assert said in (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    with rg.SubGraph("half", outputs=tf.TensorSpec([])) as half:
        x = half.input(tf.float32)
        half.output(tf.cond(x < 1.0, lambda: x, lambda: half(x / 2.0)))
    module = tf.Module()
    module.run = tf.function(half, input_signature=[tf.TensorSpec([])])
    tf.saved_model.save(module, str(tmp_path / "saved"))
    program = "import tensorflow as tf; tf.saved_model.load('saved')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    done = subprocess.run([sys.executable, "-c", f"import recgraph; {program}"], cwd=tmp_path, check=False)
    assert done.returncode == 0
