"""Recursions as Keras layers, compared with plain recursion in Python over the same methods."""

from __future__ import annotations

import functools
import logging
import types
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg

WORDS, UNITS = 7, 5


@keras.saving.register_keras_serializable("tests")
class Tree(rg.keras.TreeLayer):
    """A cell with most of what Keras layers do: entries are a word, a left and a right child."""

    def __init__(self, units: int = UNITS, rate: float = 0.0, penalty: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.units, self.rate, self.penalty, self.output_size = units, rate, penalty, units
        self.embedding = keras.layers.Embedding(WORDS, units)
        self.dense = keras.layers.Dense(
            units, "tanh", activity_regularizer=keras.regularizers.L2(penalty) if penalty else None
        )
        self.norm, self.dropout = keras.layers.LayerNormalization(), keras.layers.Dropout(rate, seed=1)

    def node(self, inputs: Any, child: Any) -> Any:
        word, left, right = tf.unstack(inputs, axis=1)
        children = keras.ops.concatenate([self.embedding(word), child(left), child(right)], 1)
        return self.dropout(self.norm(self.dense(children)))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "rate": self.rate, "penalty": self.penalty}


TREES = [
    [[0, 1, 2], [1, -1, -1], [2, 3, 4], [3, -1, -1], [4, -1, -1]],
    [[5, -1, -1]],
    [[6, 1, -1], [0, 2, -1], [1, -1, -1]],
]


def ragged(trees: Any = TREES) -> tf.RaggedTensor:
    return tf.ragged.constant(trees, ragged_rank=1, inner_shape=(3,), dtype=tf.int32)


def dense(trees: Any = TREES) -> tf.Tensor:
    return ragged(trees).to_tensor(-1)


def states(layer: Any, trees: Any = TREES) -> tuple[list[Any], list[Any]]:
    """What recursion in Python gives at the roots, and the losses that it adds."""
    losses: list[Any] = []

    def state(tree: Any, node: int) -> Any:
        if node < 0:
            return layer.initial_state()
        found = layer.node(tf.constant([tree[node]], tf.int32), lambda position: state(tree, int(position[0])))
        losses.extend(layer.dense.losses)  # of its last call
        return found

    return [state(tree, 0) for tree in trees], losses


def plain(layer: Any, trees: Any = TREES) -> list[Any]:
    """The states as arrays `[units]`."""
    return [state[0].numpy() for state in states(layer, trees)[0]]


@pytest.mark.parametrize("engine", ["batched", "parallel"])
@pytest.mark.parametrize("batch", [dense, ragged])
def test_states_are_those_of_plain_recursion(batch: Any, engine: str) -> None:
    layer = Tree(engine=engine)
    found = layer(batch())
    assert found.shape == (3, UNITS)
    np.testing.assert_allclose(found, plain(layer), rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_plain_recursion() -> None:
    layer = Tree()
    layer(dense())
    weights = layer.trainable_weights
    assert len(weights) == 5  # made by the first call, with shapes found by it
    with tf.GradientTape(persistent=True) as tape:
        losses = tf.reduce_sum(layer(dense()) ** 3)
        others = tf.reduce_sum(tf.stack(states(layer)[0]) ** 3)
    for mine, theirs in zip(tape.gradient(losses, weights), tape.gradient(others, weights), strict=True):
        found, expected = tf.convert_to_tensor(mine), tf.convert_to_tensor(theirs)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def sequential() -> keras.Model:
    return keras.Sequential([Tree(), keras.layers.Dense(2)])


def functional(**options: Any) -> keras.Model:
    inputs = keras.Input([None, 3], dtype="int32", **options)
    return keras.Model(inputs, keras.layers.Dense(2)(Tree()(inputs)))


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.tree, self.last = Tree(), keras.layers.Dense(2)

    def call(self, trees: Any) -> Any:
        return self.last(self.tree(trees))


@pytest.mark.parametrize("make", [sequential, functional, Subclassed])
def test_models_of_each_kind_are_trained_saved_and_loaded(make: Any, tmp_path: Path) -> None:
    model = make()
    model.compile("adam", "mse")
    model.fit(dense(), tf.ones([3, 2]), epochs=2, verbose=0)
    before = model.predict(dense(), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(dense(), verbose=0), before)
    again.fit(dense(), tf.ones([3, 2]), epochs=1, verbose=0)  # with the optimizer's state
    model.save_weights(tmp_path / "model.weights.h5")
    fresh = make()
    fresh(dense())
    fresh.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(fresh.predict(dense(), verbose=0), before)


def test_a_saved_model_serves_trees_of_all_sizes(tmp_path: Path) -> None:
    model = functional()
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    for trees in (TREES, TREES[:1], TREES[1:2] * 3):
        np.testing.assert_allclose(served.serve(dense(trees)), model(dense(trees)), rtol=1e-5, atol=1e-6)


def test_trees_of_a_data_set_as_ragged_tensors() -> None:
    labels = tf.constant([[0.0], [1.0], [0.0]])
    data = tf.data.Dataset.from_tensor_slices((ragged(), labels)).repeat(4).ragged_batch(2)
    histories = []
    for eager in (True, False):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([Tree(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=eager)
        histories.append(model.fit(data, epochs=2, verbose=0).history["loss"])
        assert model.predict(data.map(lambda trees, _: trees), verbose=0).shape == (12, 1)
    np.testing.assert_allclose(*histories, rtol=1e-4)


def test_a_functional_model_with_ragged_inputs() -> None:
    model = functional(ragged=True)
    np.testing.assert_allclose(model(ragged()), model(dense()), rtol=1e-5, atol=1e-6)


def test_inputs_in_a_dict_and_state_in_a_tuple() -> None:
    class Counting(rg.keras.TreeLayer):
        output_size = (1, tf.TensorSpec([2], tf.int32))

        def node(self, inputs: Any, child: Any) -> Any:
            (left, size), (right, sizes) = (child(inputs["children"][:, i]) for i in range(2))
            return inputs["value"] + left + right, 1 + size + sizes

    inputs = {"children": ragged()[..., 1:], "value": tf.cast(ragged()[..., :1], tf.float32)}
    total, sizes = Counting()(inputs)
    np.testing.assert_array_equal(total[:, 0], [sum(node[0] for node in tree) for tree in TREES])
    np.testing.assert_array_equal(sizes, [[len(tree)] * 2 for tree in TREES])
    padded = {name: tensor.to_tensor(-1) for name, tensor in inputs.items()}
    np.testing.assert_array_equal(Counting()(padded)[0], total)


def test_a_tree_without_nodes_has_the_initial_state() -> None:
    layer = Tree()
    found = layer(ragged([*TREES, []]))
    np.testing.assert_array_equal(found[3], np.zeros(UNITS))
    np.testing.assert_allclose(found[:3], layer(dense()), rtol=1e-5, atol=1e-6)


def test_a_masked_child_is_absent_and_no_mask_goes_on() -> None:
    layer = Tree()
    mask = tf.constant([[True, True, False, True, True], [False] * 5, [True] * 5])
    found = layer(dense(), mask=mask)
    pruned = [[[0, 1, -1], [1, -1, -1]], TREES[1], TREES[2]]
    expected = [plain(layer, pruned)[0], np.zeros(UNITS), plain(layer)[2]]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert layer.compute_mask(dense(), mask) is None


def test_a_mask_of_the_layer_before_is_heeded() -> None:
    """Vectors for nodes, of which those that are zero everywhere are none."""

    class Sum(rg.keras.TreeLayer):
        output_size = 2

        def node(self, inputs: Any, child: Any) -> Any:
            return inputs[:, :2] + child(tf.cast(inputs[:, 2], tf.int32))

    model = keras.Sequential([keras.layers.Masking(0.0), Sum()])
    chain = tf.constant([[[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]]])
    np.testing.assert_array_equal(model(chain), [[3.0, 3.0]])


def test_a_child_beyond_its_tree_is_an_error() -> None:
    """Not a node of the next tree."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="a child at a position beyond its tree") as caught:
        Tree()(ragged([[[0, 1, -1]], TREES[1]]))
    assert "> left, 2 levels" in str(caught.value)


def test_losses_of_all_nodes_are_added_up_and_differentiated() -> None:
    layer = Tree(penalty=0.1)
    layer(dense())
    with tf.GradientTape(persistent=True) as tape:
        layer(dense())
        (mine,) = layer.losses
        _, losses = states(layer)
        theirs = tf.add_n(losses)
    assert len(losses) == sum(map(len, TREES))
    np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    for weight in layer.dense.weights:
        np.testing.assert_allclose(tape.gradient(mine, weight), tape.gradient(theirs, weight), rtol=1e-4, atol=1e-6)


def test_a_loss_in_a_branch_is_refused() -> None:
    class Branching(rg.keras.TreeLayer):
        output_size = 1

        def node(self, inputs: Any, child: Any) -> Any:
            if inputs[0, 0] > 0:
                self.add_loss(tf.reduce_sum(inputs))
            return child(inputs[:, 1])

    with pytest.raises(rg.errors.DefinitionError, match="adds a loss .*in a branch or loop") as caught:
        Branching()(dense())
    assert "call add_loss and make recursive calls outside of branches" in str(caught.value)


def test_metrics_in_a_body_count_each_node() -> None:
    class Metered(rg.keras.TreeLayer):
        output_size = 1

        def __init__(self) -> None:
            super().__init__()
            self.words = keras.metrics.Mean("words")

        def node(self, inputs: Any, child: Any) -> Any:
            self.words.update_state(inputs[:, 0])
            return child(inputs[:, 1]) + child(inputs[:, 2]) + 1.0

    layer = Metered()
    for _ in range(2):
        np.testing.assert_array_equal(layer(dense())[:, 0], list(map(len, TREES)))
    words = [node[0] for tree in TREES for node in tree]
    np.testing.assert_allclose(layer.words.result(), np.mean(words), rtol=1e-6)
    assert float(layer.words.count) == 2 * len(words)


def test_dropout_draws_for_each_node_and_each_call() -> None:
    class Dropped(rg.keras.TreeLayer):
        output_size = 200

        def __init__(self) -> None:
            super().__init__()
            self.dropout = keras.layers.Dropout(0.4, seed=3)

        def node(self, inputs: Any, child: Any) -> Any:
            child(inputs[:, 1])
            return self.dropout(tf.ones([1, 200])) if inputs[0, 0] < 9 else self.dropout(tf.ones([1, 200]))

    layer = Dropped()
    leaves = tf.constant([[[i, -1, -1]] for i in range(30)])
    np.testing.assert_array_equal(layer(leaves), np.ones([30, 200]))
    found = layer(leaves, training=True).numpy()
    assert set(np.unique(found)) == {0.0, np.float32(1 / 0.6)}
    assert abs(np.mean(found == 0) - 0.4) < 0.03
    assert len({row.tobytes() for row in found}) == 30  # each node has a mask of its own
    assert np.any(layer(leaves, training=True) != found)
    assert int(layer.dropout.seed_generator.state.value[1]) > 0
    again = Dropped()
    again(leaves)
    np.testing.assert_array_equal(again(leaves, training=True), found)  # and the seed says which


@pytest.mark.parametrize("make", [lambda: (Tree(rate=0.5), dense()), lambda: (Masks(), tf.ones([3, 1], tf.int32))])
def test_dropout_leaves_the_batched_engine_its_rows(make: Any) -> None:
    """A generator that counts in the body would let rows run one after another."""
    layer, inputs = make()
    layer.engine = "batched"
    explained = []
    original = rg.SubGraph.map

    def noting(self: Any, *rows: Any) -> Any:
        explained.append(self.explain())
        return original(self, *rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rg.SubGraph, "map", noting)
        layer(inputs, training=True)
    assert explained
    assert all("runs parallel" not in text for text in explained)


class Masks(rg.keras.SubGraphLayer):
    """The masks of an invocation and of two below it, for each level."""

    output_size = (64, 64, 64)

    def __init__(self, loops: bool = False) -> None:
        super().__init__()
        self.dropout, self.loops = keras.layers.Dropout(0.5, seed=3), loops

    def body(self, level: Any, recurse: Any) -> Any:
        own = self.dropout(tf.ones([1, 64]))
        if self.loops:
            below = tf.TensorArray(tf.float32, 2)
            if level[0, 0] > 0:
                for i in tf.range(2):
                    below = below.write(i, recurse(level - 1)[0])
            else:
                below = below.unstack(tf.zeros([2, 1, 64]))
            return own, below.read(0), below.read(1)
        if level[0, 0] < 1:
            return own, tf.zeros([1, 64]), tf.zeros([1, 64])
        return own, recurse(level - 1)[0], recurse(level - 1)[0]


@pytest.mark.parametrize("loops", [False, True])
def test_dropout_draws_along_each_call_path(loops: bool) -> None:
    """With call paths as seeds or, where a loop calls, generators that count in order."""
    layer = Masks(loops)
    levels = tf.ones([6, 1], tf.int32)
    found = [np.stack([part.numpy() for part in layer(levels, training=True)]) for _ in range(2)]
    masks = np.concatenate(found).reshape(-1, 64)
    assert len({mask.tobytes() for mask in masks}) == len(masks) == 36
    again = Masks(loops)
    np.testing.assert_array_equal(np.stack([part.numpy() for part in again(levels, training=True)]), found[0])
    assert all(part.numpy().all() for part in layer(tf.zeros([1, 1], tf.int32))[:1])


def test_dropout_in_a_loop_draws_in_each_iteration() -> None:
    class Looping(rg.keras.TreeLayer):
        output_size = 64

        def __init__(self) -> None:
            super().__init__()
            self.dropout = keras.layers.Dropout(0.5, seed=3)

        def node(self, inputs: Any, child: Any) -> Any:
            x = tf.ones([1, 64])
            for _ in tf.range(3):
                x = self.dropout(x)
            return x

    found = Looping()(tf.constant([[[0, -1, -1]]]), training=True).numpy()
    assert np.mean(found > 0) < 0.3  # an eighth, where a mask that is drawn once leaves half


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(policy: str) -> None:
    keras.utils.set_random_seed(1)
    layer = Tree(dtype=policy, rate=0.1, penalty=0.01)
    for part in (layer.embedding, layer.dense, layer.norm, layer.dropout):
        part.dtype_policy = keras.DTypePolicy(policy)
    model = keras.Sequential([layer, keras.layers.Dense(1, dtype="float32")])
    model.dtype_policy = keras.DTypePolicy(policy)
    model.compile("adam", "mse")
    losses = model.fit(dense(), tf.ones([3, 1]), epochs=30, verbose=0).history["loss"]
    assert layer(dense()).dtype == policy.removeprefix("mixed_")
    assert all(weight.dtype == "float32" for weight in layer.weights if weight.trainable)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == (policy == "mixed_float16")
    assert losses[-1] < 0.7 * losses[0]
    np.testing.assert_allclose(layer(dense()), plain(layer), rtol=0.05, atol=0.05)


@keras.saving.register_keras_serializable("tests")
def halved(inputs: Any, recurse: Any) -> Any:
    return tf.cond(inputs[0, 0] < 1.0, lambda: inputs, lambda: recurse(inputs / 2.0))


@keras.saving.register_keras_serializable("tests")
class Cell(keras.layers.Layer):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.dense = keras.layers.Dense(2)

    def call(self, inputs: Any, child: Any) -> Any:
        return self.dense(tf.concat([child(inputs[:, 1]), child(inputs[:, 2])], 1)) + 1.0


def test_a_function_in_place_of_a_method_is_saved_by_its_name(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input([1]), rg.keras.SubGraphLayer(halved, output_size=1, engine="parallel")])
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.layers[0].engine == "parallel"
    np.testing.assert_array_equal(again(tf.constant([[5.0], [0.5]])), [[0.625], [0.5]])


def test_a_layer_in_place_of_a_method_is_saved_with_its_weights(tmp_path: Path) -> None:
    model = keras.Sequential([rg.keras.TreeLayer(Cell(), output_size=2)])
    expected = model(dense())
    assert len(model.trainable_weights) == 2
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(dense()), expected)


def thrice(function: Any) -> Any:
    """A decorator that does more than to call the function."""

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named) * 3.0

    return called


class Decorated(rg.keras.SubGraphLayer):
    output_size = 1

    @thrice
    def body(self, x: Any, recurse: Any) -> Any:
        if x[0, 0] < 1.0:
            return x
        return recurse(x / 2.0)


class DecoratedDepth(rg.keras.TreeLayer):
    output_size = 1

    @thrice
    def node(self, inputs: Any, child: Any) -> Any:
        most = tf.zeros([1, 1])
        for position in tf.unstack(inputs, axis=1)[1:]:
            if position[0] >= 0:
                most = tf.maximum(most, child(position))
        return most + 1.0


def test_what_a_body_is_decorated_with_is_done() -> None:
    expected = [[0.625 * 3.0**4], [0.5 * 3.0]]
    for layer in (Decorated(), rg.keras.SubGraphLayer(thrice(halved), output_size=1)):
        np.testing.assert_allclose(layer(tf.constant([[5.0], [0.5]])), expected)
    np.testing.assert_allclose(DecoratedDepth()(tf.constant([[[0, 1, -1], [0, -1, -1]]])), [[12.0]])


def test_a_function_with_variables_of_its_own_is_refused() -> None:
    forgotten = tf.Variable(2.0)
    layer = rg.keras.SubGraphLayer(lambda inputs, recurse: inputs * forgotten, output_size=1)
    with pytest.raises(rg.errors.DefinitionError, match="uses variables, which the layer could not train or save"):
        layer(tf.ones([2, 1]))


def test_what_is_missing_is_said() -> None:
    with pytest.raises(rg.errors.DefinitionError, match="does not say what an invocation returns"):
        rg.keras.SubGraphLayer(halved)(tf.ones([2, 1]))
    with pytest.raises(rg.errors.DefinitionError, match="neither a method for its recursion nor a function"):
        rg.keras.TreeLayer(output_size=1)(dense())


def test_engine_and_depth_are_the_layers() -> None:
    layer = rg.keras.SubGraphLayer(halved, output_size=1, max_depth=50)
    layer(tf.constant([[2.0**40]]))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="50"):
        layer(tf.constant([[2.0**60]]))


def test_xla_is_left_out_by_keras() -> None:
    """`jit_compile="auto"` asks whether all layers support it, where there is a GPU."""
    model = functional()
    assert not model._resolve_auto_jit_compile()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.config, "list_physical_devices", lambda *_: [type("Device", (), {"device_type": "GPU"})()])
        assert not model._resolve_auto_jit_compile()
        assert keras.Sequential([keras.layers.Dense(1)])._resolve_auto_jit_compile()
        model.compile("sgd", "mse")
    assert not model.jit_compile
    with pytest.warns(UserWarning, match="Model doesn't support `jit_compile=True`"):
        model.compile("sgd", "mse", jit_compile=True)
    model.fit(dense(), tf.ones([3, 2]), verbose=0)


class Counted(rg.keras.TreeLayer):
    """Counts in Python how often its body is traced."""

    offset = 0.0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.settings = types.SimpleNamespace(offset=0.0, more={"offset": [0.0]})
        self.output_size, self.factor, self.sizes, self.traced_bodies = 2, 1.0, {"of": [1]}, []
        self.dropout = keras.layers.Dropout(0.9)

    def node(self, inputs: Any, child: Any) -> Any:
        self.traced_bodies.append(None)
        offset = self.offset + self.settings.offset + self.settings.more["offset"][0]
        return self.dropout(tf.fill([1, 2], self.factor + offset + len(self.sizes["of"])) + child(inputs[:, 1]))


def test_bodies_are_traced_when_something_is_new() -> None:
    """Batches of all sizes run what was traced; training, an attribute, what is in it or another dtype is new."""
    layer = Counted()
    batches = [tf.constant([[[0, -1]]]), tf.constant([[[0, 1], [0, -1]]] * 3), tf.constant([[[0, -1]], [[0, -1]]])]
    layer(batches[0])

    def called(*arguments: Any, **named: Any) -> tuple[float, bool]:
        """The first state, and whether the body was traced."""
        layer.traced_bodies = layer.traced_bodies[:1]
        found = layer(*arguments, **named)
        return float(found[0, 0]), len(layer.traced_bodies) > 1

    assert called(batches[0]) == (2.0, True)
    assert [called(batch) for batch in batches] == [(2.0, False), (4.0, False), (2.0, False)]
    assert called(batches[1], training=True)[1]
    assert not called(batches[1], training=True)[1]
    layer.factor = 5.0
    assert called(batches[0]) == (6.0, True)
    layer.sizes["of"].append(2)
    assert called(batches[0]) == (7.0, True)
    assert called(tf.cast(batches[0], tf.int64)) == (7.0, True)
    layer.sizes["of"].pop()
    assert called(batches[0]) == (6.0, False)
    layer.dropout.rate = 0.0
    assert called(batches[1], training=True) == (12.0, True)
    layer.engine = "parallel"
    assert called(batches[0]) == (6.0, True)
    assert [called(batches[0], tf.constant([[False]])), called(batches[0])] == [(0.0, True), (6.0, False)]
    layer.settings.offset = 1.0
    assert [called(batches[0]) for _ in range(2)] == [(7.0, True), (7.0, False)]
    layer.settings.more["offset"][0] = 1.0
    assert [called(batches[0]) for _ in range(2)] == [(8.0, True), (8.0, False)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Counted, "offset", 1.0)
        assert [called(batches[0]) for _ in range(2)] == [(9.0, True), (9.0, False)]


SCALE = 1.0
OPTIONS = types.SimpleNamespace(inner=types.SimpleNamespace(scale=1.0))


class Settings:
    scale = 1.0

    def __init__(self, above: Settings | None = None) -> None:
        self.own, self.above = 1.0, above

    def factor(self) -> float:
        return self.own * (1.0 if self.above is None else self.above.factor())


SETTINGS = Settings(Settings())


def by_scale(x: Any) -> Any:
    return x * (SCALE * OPTIONS.inner.scale * Settings.scale * SETTINGS.factor())


def scaling(factors: list[float]) -> Any:
    """A function with state of its own."""
    factor = 1.0

    def scaled(x: Any, more: Any = factors) -> Any:
        return x * factor * more[0]

    def change(other: float) -> None:
        nonlocal factor
        factor = other

    return scaled, change


class Scaled(rg.keras.SubGraphLayer):
    """Its body reads what is not the layer's."""

    output_size = 1

    def __init__(self, scaled: Any, **options: Any) -> None:
        super().__init__(**options)
        self.scaled = scaled

    def body(self, x: Any, recurse: Any) -> Any:
        return self.scaled(by_scale(x))


def test_a_body_reads_what_is_not_the_layers() -> None:
    """Globals, names of enclosing functions, defaults, and objects in objects, also where a function reads them."""
    factors = [1.0]
    scaled, change = scaling(factors)
    layer, batch = Scaled(functools.partial(scaled)), tf.ones([2, 1])
    changes: list[Any] = [
        lambda patch, to: patch.setitem(globals(), "SCALE", to),
        lambda patch, to: patch.setattr(OPTIONS.inner, "scale", to),
        lambda patch, to: patch.setattr(Settings, "scale", to),
        lambda patch, to: patch.setattr(SETTINGS.above, "own", to),
        lambda patch, to: patch.setitem(globals(), "SETTINGS", Settings(Settings(SETTINGS))),
        lambda patch, to: change(to),
        lambda patch, to: patch.setattr(layer, "scaled", lambda x: x * to),
    ]
    assert [float(layer(batch)[0, 0]) for _ in range(3)] == [1.0] * 3
    for number, changed in enumerate(changes):
        with pytest.MonkeyPatch.context() as patch:
            for to in (2.0, 3.0):
                changed(patch, to)
                expected = float(layer.scaled(by_scale(tf.constant(1.0))))
                assert [float(layer(batch)[0, 0]) for _ in range(2)] == [expected] * 2, number
    factors[0] = 5.0
    assert float(layer(batch)[0, 0]) == 15.0
    assert len(layer._tracing._made) <= 8


class Circle:
    def __init__(self) -> None:
        self.next, self.layers = self, [self]


def test_what_a_body_reads_may_be_large() -> None:
    """Circles, chains of any length, big arrays and arrays of objects: what changes counts, what does not is kept."""
    chain = None
    for _ in range(5000):
        chain = Settings(chain)
    weights = np.ones([300, 300])

    def scaled(x: Any) -> Any:
        assert chain is not None
        assert circle.next is circle
        assert rows[1, 0] is None
        assert library.parts[0] is library
        return x * (weights[0, 0] * len(rows[0, 1]))

    library: Any = logging.Logger("one")
    library.parts = [library, {}]
    library.parts.append(library.parts)
    circle, rows = Circle(), np.array([[None, "a"]] * 5)
    layer, batch = Scaled(scaled), tf.ones([2, 1])
    for value in (1.0, 1.0, 2.0, 2.0, 1.0):
        weights[0, 0] = value
        assert float(layer(batch)[0, 0]) == value
    assert len(layer._tracing._made) == 2
    rows[0, 1] = "three"
    assert float(layer(batch)[0, 0]) == 5.0


class Regularized(rg.keras.SubGraphLayer):
    output_size = 1

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.dense = keras.layers.Dense(1, kernel_initializer="ones", activity_regularizer=keras.regularizers.L2(0.0))

    def body(self, x: Any, recurse: Any) -> Any:
        return self.dense(x)


def test_a_regularizer_of_a_layer_in_a_body_changes() -> None:
    layer, losses = Regularized(), []
    for strength in (1.0, 2.0, 3.0, 4.0):
        layer.dense.activity_regularizer.l2 = strength
        layer(tf.ones([2, 3]))
        losses.append(float(tf.add_n(layer.losses)))
    np.testing.assert_allclose(losses, [18.0, 36.0, 54.0, 72.0])


def test_a_summary_names_the_layers_inside() -> None:
    """Where Keras is asked to show what is nested; a layer's own `layers` come first, and files stay what they are."""
    tree = Tree(name="tree")
    model = keras.Sequential([tree, keras.layers.Dense(1)])
    model(tf.constant([[[1, -1, -1]]]))
    told: list[str] = []
    model.summary(print_fn=told.append, expand_nested=True)
    assert [kind in told[0] for kind in ("(Embedding)", "(LayerNormalization)", "(Dropout)")] == [True] * 3
    assert tree.layers == [tree.embedding, tree.dense, tree.norm, tree.dropout]
    assert "layers" not in dir(tree)

    class Listed(rg.keras.SubGraphLayer):
        output_size = 1

        def __init__(self) -> None:
            super().__init__()
            self.layers = [keras.layers.Dense(1)]

        def body(self, x: Any, recurse: Any) -> Any:
            return self.layers[0](x)

    layer = Listed()
    assert layer(tf.ones([2, 3])).shape == (2, 1)
    assert [type(each) for each in layer.layers] == [keras.layers.Dense]
    assert "layers" in dir(layer)


def test_files_of_weights_name_layers_by_their_attributes(tmp_path: Path) -> None:
    """Not by the list of the layers inside."""
    tree = Tree()
    model = keras.Sequential([tree])
    model(tf.constant([[[1, -1, -1]]]))
    model.save_weights(tmp_path / "tree.weights.h5")
    names: list[str] = []
    with h5py.File(tmp_path / "tree.weights.h5") as file:
        file["layers/tree"].visit(names.append)
    assert {"dense/vars/0", "embedding/vars/0", "norm/vars/0"} <= set(names)
    assert not [name for name in names if name.startswith("layers")]
