"""What has to hold beside a GPU; tests/test_fake_gpu.py runs it in a process of its own.

`python -m pytest -p tests.fake_gpu.plugin tests/fake_gpu/checks.py`
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.errors import NotCoexecuted, ScopeError

LEFT, RIGHT, WORD = [-1, -1, 0, -1, 2], [-1, -1, 1, -1, 3], [2, 0, 0, 1, 0]
ENGINES = pytest.mark.parametrize("engine", ["parallel", "batched", "auto"])
GRAPH = pytest.mark.parametrize("is_graph", [False, True], ids=["eager", "graph"])


def as_asked(function: Callable[..., Any], is_graph: bool) -> Callable[..., Any]:
    return tf.function(function, autograph=False) if is_graph else function


def on_gpu(tensor: Any) -> bool:
    return "GPU" in tensor.device


class TreeModel:
    """The recursion over a tree of five nodes that the tests run, with weights wherever they are made."""

    def __init__(self, engine: str) -> None:
        generator = np.random.default_rng(1)
        self.embedding = tf.Variable(generator.normal(size=[3, 4]).astype(np.float32))
        self.weight = tf.Variable(generator.normal(size=[8, 4]).astype(np.float32) * 0.3)
        left, right, word = (tf.constant(each) for each in (LEFT, RIGHT, WORD))
        with rg.SubGraph("tree", outputs=tf.TensorSpec([4]), engine=engine) as self.tree:
            node = self.tree.input(tf.int32)
            self.tree.output(
                tf.cond(
                    left[node] < 0,
                    lambda: tf.gather(self.embedding, word[node]),
                    lambda: self.join(self.tree(left[node]), self.tree(right[node])),
                )
            )

    def join(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return tf.tanh(tf.linalg.matvec(self.weight, tf.concat([left, right], 0), transpose_a=True))

    def expected(self, node: int) -> tf.Tensor:
        if LEFT[node] < 0:
            return tf.gather(self.embedding, WORD[node])
        return self.join(self.expected(LEFT[node]), self.expected(RIGHT[node]))


def value_and_slopes(model: TreeModel, compute: Callable[[], tf.Tensor]) -> list[Any]:
    with tf.GradientTape() as tape:
        value = compute()
        loss = tf.reduce_sum(value * value)
    slopes = tape.gradient(loss, [model.embedding, model.weight])
    return [value, *map(tf.convert_to_tensor, slopes)]


@ENGINES
@GRAPH
def test_recursion_with_variables_of_the_gpu(engine: str, is_graph: bool) -> None:
    """Values and gradients of a call; variables stay where they are."""
    model = TreeModel(engine)
    assert on_gpu(model.weight)
    found = as_asked(lambda: value_and_slopes(model, lambda: model.tree(4)), is_graph)()
    expected = value_and_slopes(model, lambda: model.expected(4))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)
    assert on_gpu(model.weight)


@ENGINES
@GRAPH
def test_training_steps(engine: str, is_graph: bool) -> None:
    """An optimizer of Keras changes variables of the GPU by gradients of the host."""
    losses = []
    for compute in ("tree", "expected"):
        model, optimizer = TreeModel(engine), tf.keras.optimizers.Adam(0.1)
        optimizer.build([model.embedding, model.weight])

        def step(model: TreeModel = model, optimizer: Any = optimizer, compute: str = compute) -> tf.Tensor:
            with tf.GradientTape() as tape:
                values = [getattr(model, compute)(node) for node in (4, 2)]
                loss = tf.add_n([tf.reduce_sum(value * value) for value in values])
            variables = [model.embedding, model.weight]
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        step_ = as_asked(step, is_graph)
        losses.append([float(step_()) for _ in range(4)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[0][-1] < losses[0][0]


@ENGINES
@GRAPH
def test_map(engine: str, is_graph: bool) -> None:
    """Many rows, their gradients, and rows that come from the GPU."""
    model = TreeModel(engine)
    nodes = [4, 2, 0, 3, 1, 4]
    found = as_asked(lambda: value_and_slopes(model, lambda: model.tree.map(tf.constant(nodes))), is_graph)()
    expected = value_and_slopes(model, lambda: tf.stack([model.expected(node) for node in nodes]))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)


@ENGINES
@GRAPH
def test_second_derivatives(engine: str, is_graph: bool) -> None:
    """They check that no variable was assigned in the meantime."""
    model = TreeModel(engine)

    def second(compute: Callable[[], tf.Tensor]) -> tf.Tensor:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(compute() ** 2)
            slope = tape.gradient(loss, model.weight)
        return tf.convert_to_tensor(outer.gradient(slope, model.weight))

    found = as_asked(lambda: second(lambda: model.tree(2)), is_graph)()
    np.testing.assert_allclose(found.numpy(), second(lambda: model.expected(2)).numpy(), rtol=1e-4, atol=1e-6)


@GRAPH
@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_bodies_that_assign(engine: str, is_graph: bool) -> None:
    """What a body assigns reaches the variable of the GPU, also before an error of a later invocation."""
    visits = tf.Variable([0.0, 0.0])
    with rg.SubGraph("count", outputs=tf.TensorSpec([]), engine=engine) as count:
        n = count.input(tf.int32)
        with tf.control_dependencies([visits.assign_add([1.0, 2.0])]):
            checked = tf.debugging.assert_greater(n, -1, "below zero")
        with tf.control_dependencies([checked] if checked is not None else []):
            count.output(tf.cond(n < 1, lambda: tf.constant(0.0), lambda: count(n - 1) + 1.0))
    call = as_asked(lambda n: count(n), is_graph)
    assert float(call(tf.constant(3))) == 3.0
    assert visits.numpy().tolist() == [4.0, 8.0]
    assert on_gpu(visits)
    assert float(call(tf.constant(0))) == 0.0
    assert visits.numpy().tolist() == [5.0, 10.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="below zero"):
        call(tf.constant(-1))
    assert visits.numpy().tolist() == [6.0, 12.0]


@ENGINES
def test_calls_in_loops_of_tensorflow(engine: str) -> None:
    """The frames of calls lie in lists of the loop until its gradient needs them."""
    model = TreeModel(engine)

    def loop(compute: Callable[[int], tf.Tensor]) -> list[Any]:
        def total() -> tf.Tensor:
            x = tf.constant([0.1, 0.2, 0.3, 0.4])
            for _ in tf.range(3):
                x = x * compute(4)
            return x

        return value_and_slopes(model, tf.autograph.to_graph(total) if compute == model.tree else total)

    found = tf.function(lambda: loop(model.tree), autograph=False)()
    expected = loop(model.expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-7)


@GRAPH
def test_variables_of_two_devices(is_graph: bool) -> None:
    """TensorFlow places an operation beside its variables, so that they have to be on one."""
    with tf.device("CPU:0"):
        here = tf.Variable([1.0, 2.0])
    there = tf.Variable([3.0, 4.0])
    with rg.SubGraph("both", outputs=tf.TensorSpec([2])) as both:
        n = both.input(tf.int32)
        both.output(tf.cond(n < 1, lambda: here * there, lambda: both(n - 1) + 1.0))
    with pytest.raises(ScopeError, match="uses variables of several devices") as error:
        as_asked(lambda: both(2), is_graph)()
    assert "GPU:0" in str(error.value)
    assert "checks.py" in str(error.value)


def test_a_saved_model_of_the_cpu(tmp_path: Path) -> None:
    """Its variables are restored to the GPU."""
    with tf.device("CPU:0"):
        model = TreeModel("batched")
    module = tf.Module()
    module.weights = [model.embedding, model.weight]
    module.call = tf.function(lambda node: model.tree(node), input_signature=[tf.TensorSpec([], tf.int32)])
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_allclose(loaded.call(tf.constant(4)).numpy(), model.expected(4).numpy(), rtol=1e-5)


def test_a_layer_is_trained() -> None:
    """Keras makes the weights of a layer on the GPU, and its optimizer changes them there."""

    class Tree(rg.keras.TreeLayer):
        def __init__(self) -> None:
            super().__init__(output_size=4)
            self.word, self.join = tf.keras.layers.Embedding(10, 4), tf.keras.layers.Dense(4, "tanh")

        def node(self, inputs: tf.Tensor, child: Any) -> tf.Tensor:
            word, left, right = tf.unstack(inputs, axis=1)
            return self.join(tf.concat([self.word(word), child(left), child(right)], 1))

    trees = [[[0, 1, 2], [1, -1, -1], [2, 3, 4], [3, -1, -1], [4, -1, -1]], [[5, -1, -1]], [[6, 1, -1], [0, -1, -1]]]
    given = tf.ragged.constant(trees, ragged_rank=1, inner_shape=(3,), dtype=tf.int32)
    model = tf.keras.Sequential([Tree(), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    history = model.fit(given, tf.constant([[1.0], [0.0], [1.0]]), epochs=8, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert all(on_gpu(weight.value) for weight in model.trainable_weights)


def test_merged_weights_are_not_ours() -> None:
    """A substitution joins matrices by operations of TensorFlow, which are where the matrices are."""
    model = TreeModel("batched")
    left, right, word = (tf.constant(each) for each in (LEFT, RIGHT, WORD))
    weights = [tf.Variable(tf.random.stateless_normal([4, 4], [i, 1]) * 0.3) for i in range(4)]

    def found(optimize: bool) -> list[Any]:
        with rg.SubGraph("gated", outputs=tf.TensorSpec([1, 4]), engine="batched", optimize=optimize) as gated:
            node = gated.input(tf.int32)

            def inner() -> tf.Tensor:
                a, b = gated(left[node]), gated(right[node])
                return tf.sigmoid(a @ weights[0] + b @ weights[1]) * tf.tanh(a @ weights[2] + b @ weights[3])

            gated.output(tf.cond(left[node] < 0, lambda: tf.gather(model.embedding, word[node])[None], inner))

        @tf.function(autograph=False)
        def step() -> list[Any]:
            with tf.GradientTape() as tape:
                value = tf.reduce_sum(gated(4))
            return [value, *tape.gradient(value, weights)]

        types = {op.type for op in step.get_concrete_function().graph.get_operations()}
        assert "Recgraph>Merge" not in types
        assert ("ConcatV2" in types) == optimize
        return step()

    for one, other in zip(found(True), found(False), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-6)


@pytest.fixture
def steps() -> Callable[[tf.Tensor], tf.Tensor]:
    weight = tf.Variable(tf.ones([3, 3]))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(x @ weight))
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    return step


def test_coexecution_is_refused_with_words(steps: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """Steps run as TensorFlow runs them."""
    converted = rg.function(steps, mode="coexec")
    losses = [float(converted(tf.ones([2, 3]))) for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert "runs eagerly: a GPU is visible" in converted.explain()
    strict = rg.function(steps, mode="coexec", strict=True)
    with pytest.raises(NotCoexecuted, match="cannot be co-executed") as error:
        strict(tf.ones([2, 3]))
    assert "set_visible_devices" in str(error.value)
    loop = rg.steps(range(3))
    for _ in loop:
        losses.append(float(steps(tf.ones([2, 3]))))
    assert losses == sorted(losses, reverse=True)
    assert loop.phases.counts == {"traced": 0, "coexecuted": 0, "left": 0, "eager": 3}


def test_the_automatic_choice(steps: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """It has the converted graph and eager execution to choose from."""
    chosen = rg.function(steps)
    losses = [float(chosen(tf.ones([2, 3]))) for _ in range(12)]
    assert losses == sorted(losses, reverse=True)


def test_a_wide_loss_stays_on_the_gpu() -> None:
    """Of converted steps, no operation on numbers of the GPU is ours, which are for the host."""
    weight = tf.Variable(tf.random.stateless_normal([8, 100], [1, 2]))

    def loss(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x @ weight)
        return tf.reduce_mean(each)

    converted = rg.function(loss, mode="speculate")
    x, labels = tf.random.stateless_normal([4, 8], [3, 4]), tf.constant([0, 5, 7, 99])
    for _ in range(6):
        found = converted(x, labels)
    assert converted.calls["graph"] > 0
    np.testing.assert_allclose(found.numpy(), loss(x, labels).numpy(), rtol=1e-6)


def test_given_back_is_the_very_tensor() -> None:
    """Tensors of the GPU are compared by where they lie there."""

    def first(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        chosen = x if tf.reduce_sum(x) > 0.0 else y
        return chosen, x + y

    converted = rg.function(first, mode="speculate")
    x, y = tf.ones([3]), -tf.ones([3])
    for given in ((x, y), (y, x)) * 6:
        expected, _ = first(*given)
        found, _ = converted(*given)
        assert found is expected
    assert converted.calls["graph"] > 0
