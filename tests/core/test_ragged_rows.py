"""Calls of rows that differ in length: ragged arguments and results of `map`, and layers over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import recgraph as rg
from recgraph.errors import SignatureError

ENGINES = ("parallel", "batched", "auto")


def reversing(engine: str = "auto", **options: Any) -> Any:
    """Gives a row backwards, and its sum."""
    outputs = tf.TensorSpec([None]), tf.TensorSpec([])
    with rg.SubGraph("reversing", tf.TensorSpec([None]), outputs, engine, **options) as made:
        row = made.declared_arguments()

        def longer() -> Any:
            back, total = made(row[1:])
            return tf.concat([back, row[:1]], 0), total + row[0]

        made.output(tf.cond(tf.size(row) == 0, lambda: (row, 0.0), longer))
    return made


def ragged(rows: list[list[float]]) -> tf.RaggedTensor:
    flat = tf.constant([value for row in rows for value in row], tf.float32)
    return tf.RaggedTensor.from_row_lengths(flat, [len(row) for row in rows])


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_and_their_gradients_are_those_of_calls_one_by_one(engine: str) -> None:
    subgraph = reversing(engine)

    @settings(max_examples=15)
    @given(st.lists(st.lists(st.integers(-5, 5).map(float), max_size=4), max_size=6))
    def check(rows: list[list[float]]) -> None:
        flat = tf.constant([value for row in rows for value in row], tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(flat)
            given = tf.RaggedTensor.from_row_lengths(flat, tf.constant([len(row) for row in rows], tf.int64))
            back, totals = subgraph.map(given)
            loss = tf.reduce_sum(back.flat_values**3) + tf.reduce_sum(totals**2)
        assert back.to_list() == [row[::-1] for row in rows]
        assert totals.numpy().tolist() == [sum(row) for row in rows]
        expected = [3 * value**2 + 2 * sum(row) for row in rows for value in row]
        np.testing.assert_allclose(tape.gradient(loss, flat), np.reshape(expected, [-1]), rtol=1e-5)

    check()


@pytest.mark.parametrize("engine", ENGINES)
def test_results_of_trees_differ_in_length(engine: str) -> None:
    """The values of all nodes below each root, from arguments that are no ragged tensors."""
    left, right = tf.constant([-1, -1, 0, -1, 2]), tf.constant([-1, -1, 1, -1, 3])
    values = tf.Variable([3.0, 5.0, 1.0, 7.0, 2.0])
    with rg.SubGraph("nodes", outputs=tf.TensorSpec([None]), engine=engine) as nodes:
        node = nodes.input(tf.int32, name="node")
        own = tf.gather(values, node)[None]
        nodes.output(
            tf.cond(left[node] < 0, lambda: own, lambda: tf.concat([nodes(left[node]), nodes(right[node]), own], 0))
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def both(roots: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            found = nodes.map(roots, ragged=True)
            loss = tf.reduce_sum(found.flat_values)
        return found, tf.convert_to_tensor(tape.gradient(loss, values))

    found, gradient = both([4, 2, 1])
    assert found.to_list() == [[3, 5, 1, 7, 2], [3, 5, 1], [5]]
    assert gradient.numpy().tolist() == [2, 3, 2, 1, 1]
    assert both([])[0].to_list() == []
    assert nodes.map([3, 1]).numpy().tolist() == [[7], [5]]  # as ever
    with pytest.raises(tf.errors.InvalidArgumentError, match="differ in shape"):
        nodes.map([4, 2])


def test_a_body_maps_over_its_own_children() -> None:
    """Results that differ in length, of a SubGraph whose body is not finished."""
    children = tf.ragged.constant([[1, 2], [3, 4, 5], [], [], [], []], dtype=tf.int32)
    with rg.SubGraph("orders", outputs=tf.TensorSpec([None], tf.int32)) as orders:
        node = orders.input(tf.int32, name="node")
        below = orders.map(children[node], ragged=True)
        orders.output(tf.concat([below.flat_values, node[None]], 0))
    assert orders(0).numpy().tolist() == [3, 4, 5, 1, 2, 0]
    assert orders.map([1, 5], ragged=True).to_list() == [[3, 4, 5, 1], [5]]


def test_functions_under_the_decorator() -> None:
    @rg.subgraph
    def up_to(n: Any) -> Any:
        if n <= 0:
            return tf.zeros([0], tf.int32)
        return tf.concat([up_to(n - 1), [n]], 0)

    @rg.subgraph
    def total(row: Any, before: Any = 0.0) -> Any:
        if tf.size(row) == 0:
            return before
        return total(row[1:], before + row[0])

    assert up_to.map(tf.constant([3, 0, 2]), ragged=True).to_list() == [[1, 2, 3], [], [1, 2]]
    assert total.map(ragged([[1, 2, 3], [], [4]])).numpy().tolist() == [6, 0, 4]


def test_many_rows_are_joined_by_few_levels() -> None:
    subgraph = reversing("batched", max_depth=3)
    rows = [[float(number)] * (number % 3) for number in range(1000)]
    assert subgraph.map(ragged(rows))[0].to_list() == rows


def test_it_is_in_datasets_and_saved_models(tmp_path: Path) -> None:
    subgraph = reversing()
    rows = ragged([[1, 2, 3], [], [4, 5]])
    data = tf.data.Dataset.from_tensor_slices(rows).ragged_batch(2).map(lambda batch: subgraph.map(batch)[0])
    assert [batch.to_list() for batch in data] == [[[3, 2, 1], []], [[5, 4]]]
    module = tf.Module()
    module.f = tf.function(
        lambda batch: subgraph.map(batch)[0], input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)]
    )
    tf.saved_model.save(module, tmp_path / "saved")
    assert tf.saved_model.load(tmp_path / "saved").f(rows).to_list() == [[3, 2, 1], [], [5, 4]]


def test_ragged_arguments_that_do_not_fit() -> None:
    subgraph = reversing()
    for wrong in (tf.ragged.constant([[1, 2]]), tf.ragged.constant([[[1.0]]])):
        with pytest.raises(
            SignatureError, match="an argument is a ragged tensor that does not fit its input"
        ) as caught:
            subgraph.map(wrong)
        assert "whose first dimension is None" in str(caught.value)
        assert "test_ragged_rows.py" in str(caught.value)
    with rg.SubGraph("fixed", tf.TensorSpec([2]), tf.TensorSpec([2])) as fixed:
        fixed.output(fixed.declared_arguments())
    with pytest.raises(SignatureError, match="does not fit its input"):
        fixed.map(ragged([[1, 2]]))


class Reversing(rg.keras.SubGraphLayer):
    """Rows of pairs backwards, each pair through a layer."""

    def __init__(self) -> None:
        super().__init__(output_size=tf.TensorSpec([None, 2]))
        self.dense = keras.layers.Dense(2)

    def body(self, inputs: Any, recurse: Any) -> Any:
        if tf.shape(inputs)[1] == 0:
            return inputs
        return tf.concat([recurse(inputs[:, 1:]), self.dense(inputs[:, :1])], 1)


class Halving(rg.keras.SubGraphLayer):
    """A state for each row of pairs, of the states of its halves."""

    output_size = 2

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.dropout = keras.layers.Dense(2, "tanh"), keras.layers.Dropout(0.5)

    def body(self, inputs: Any, recurse: Any) -> Any:
        if tf.shape(inputs)[1] < 2:
            return tf.reduce_sum(inputs, 1)
        half = tf.shape(inputs)[1] // 2
        return self.dropout(self.dense(tf.concat([recurse(inputs[:, :half]), recurse(inputs[:, half:])], 1)))


def pairs() -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(tf.reshape(tf.range(12.0), [6, 2]), [3, 0, 2, 1])


def test_a_layer_gives_ragged_tensors_for_ragged_tensors() -> None:
    layer = Reversing()
    layer(pairs())
    found = layer(pairs())
    kernel = layer.dense.kernel.numpy()
    assert found.row_lengths().numpy().tolist() == [3, 0, 2, 1]
    for row, given_row in zip(found, pairs(), strict=True):
        np.testing.assert_allclose(row, (given_row.numpy() @ kernel)[::-1], rtol=1e-5)


def test_a_layer_over_ragged_tensors_is_trained() -> None:
    layer = Halving()
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    data = tf.data.Dataset.from_tensors((pairs(), tf.ones([4, 1])))
    assert len(model.fit(data, epochs=2, verbose=0).history["loss"]) == 2
    first = model.predict(pairs(), verbose=0)
    (kernel, bias), last = ([weight.numpy() for weight in each.weights] for each in (layer.dense, model.layers[1]))

    def state(row: np.ndarray) -> np.ndarray:
        half = len(row) // 2
        if half == 0:
            return row.sum(0)
        return np.tanh(np.concatenate([state(row[:half]), state(row[half:])]) @ kernel + bias)

    expected = [state(row.numpy()) @ last[0] + last[1] for row in pairs()]
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-5)
