"""Functions with convolutions compute what they did, those of one image being put together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from optimize.random_networks import assert_close

import recgraph as rg
from recgraph.optimize import choosing, terms
from recgraph.optimize.bridge import functions, graphs
from recgraph.optimize.costs import Costs
from recgraph.optimize.prover import Prover
from tests import sampling

CHANNELS = 4
NETWORKS = sampling.count("programs", 3)
SEED = sampling.seed(0)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the rewritten graph without measuring; operations cost much to start, what they compute costs little."""
    monkeypatch.setattr(functions, "_in_turns", lambda calls, seconds: (1.0, 0.5, 0))
    guess = Costs().guess.__class__(start=1e-4, product=1e-3)
    monkeypatch.setattr(graphs.Costs, "read", staticmethod(lambda: Costs(guess=guess)))


@functools.cache
def groups_have_gradients() -> bool:
    """Whether TensorFlow has gradients of convolutions in groups here: on a CPU it depends on the instructions."""
    image, kernel = tf.ones([1, 3, 3, 4]), tf.Variable(tf.ones([3, 3, 2, 4]))
    with tf.GradientTape() as tape:
        result = tf.nn.conv2d(image, kernel, 1, "SAME")
    try:
        tape.gradient(result, kernel)
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
        return False
    return True


class RandomConvolutions(tf.Module):
    """Kernels, vectors, and a random graph over them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        random = np.random.default_rng(seed)

        def weight(*shape: int) -> tf.Variable:
            return tf.Variable(random.normal(0, 0.4, shape).astype(np.float32))

        self.kernels = [weight(size, size, CHANNELS, CHANNELS) for size in (1, 1, 3, 3)]
        groups = 2 if groups_have_gradients() else 1
        self.grouped = [weight(3, 3, CHANNELS // groups, CHANNELS) for _ in range(2)]
        self.vectors = [weight(CHANNELS) for _ in range(3)]

    def cell(self, *inputs: tf.Tensor) -> tf.Tensor:
        """A random graph; the same for the same inputs."""
        random = np.random.default_rng(self.seed + 1)
        images = list(inputs)

        def some() -> tf.Tensor:
            return images[random.integers(len(images))]

        for _ in range(12):
            match random.integers(8):
                case 0:
                    image, first = some(), 2 * random.integers(2)
                    parts = [tf.nn.conv2d(image, kernel, 1, "SAME") for kernel in self.kernels[first : first + 2]]
                    made = tf.sigmoid(parts[0]) * parts[1]
                case 1 | 2:
                    kernel = self.kernels[random.integers(4)]
                    made = tf.nn.conv2d(some(), kernel, 1, "SAME")
                case 3:
                    made = tf.nn.conv2d(some(), self.grouped[random.integers(2)], 1, "SAME")
                case 4:
                    made = tf.nn.bias_add(some(), self.vectors[random.integers(3)])
                case 5:
                    offset, mean, variance = self.vectors
                    factor = tf.math.rsqrt(variance**2 + 1e-3)
                    made = some() * factor + (offset - mean * factor)
                case 6:
                    made = [tf.nn.relu, tf.sigmoid][random.integers(2)](some())
                case _:
                    made = tf.split(tf.concat([some(), some()], 3), 2, 3)[random.integers(2)]
            images.append(made)
        return tf.tanh(tf.add_n(images[-4:]))


def computed(call: Any, arguments: list[Any], variables: list[tf.Variable]) -> list[np.ndarray]:
    """The results of a call, and the gradients by variables."""
    with tf.GradientTape() as tape:
        results = tf.nest.flatten(call(*arguments))
        loss = tf.add_n([tf.reduce_sum(one**2) for one in results])
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    return [np.asarray(tf.convert_to_tensor(one)) for one in (*results, *gradients)]


def images(count: int, height: int = 5, seed: int = 0) -> list[tf.Tensor]:
    """Random images."""
    random = np.random.default_rng(seed)
    return list(tf.constant(random.normal(size=(count, 2, height, height, CHANNELS)).astype(np.float32)))


def counted(concrete: Any, kind: str = "Conv2D") -> int:
    """How many operations of a kind a function runs."""
    return sum(op.type == kind for op in graphs.all_operations(concrete.graph))


def assert_random_functions_compute_the_same(seed: int, search: str, folder: Path) -> None:
    """With gradients, and from a SavedModel."""
    network = RandomConvolutions(seed)
    network.call = tf.function(network.cell, autograph=False)
    specs = [tf.TensorSpec([None, 5, 5, CHANNELS], name=name) for name in "xy"]
    plain = network.call.get_concrete_function(*specs)
    given = images(2, seed=seed)
    optimized = rg.optimize(plain, search=search, seconds=4.0)
    own = [*network.kernels, *network.grouped, *network.vectors]
    expected = computed(plain, given, own)
    assert_close(computed(optimized, given, own), expected)
    network.optimized = optimized
    tf.saved_model.save(network, str(folder))
    loaded = tf.saved_model.load(str(folder))
    assert_close(computed(loaded.optimized, given, [*loaded.kernels, *loaded.grouped, *loaded.vectors]), expected)


@pytest.mark.parametrize("search", list(graphs.SEARCHES))
@pytest.mark.parametrize("seed", range(SEED, SEED + NETWORKS))
def test_random_convolutions_compute_the_same(seed: int, search: str, always: None, tmp_path: Path) -> None:
    """`--programs` asks for more."""
    if search == "saturation":
        pytest.importorskip("egglog")
    assert_random_functions_compute_the_same(seed, search, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1008))
def test_more_random_convolutions_compute_the_same(seed: int, always: None, tmp_path: Path) -> None:
    assert_random_functions_compute_the_same(seed, "backtracking", tmp_path)


@pytest.mark.parametrize("search", list(graphs.SEARCHES))
@pytest.mark.parametrize(("stride", "padding"), [(1, "SAME"), (2, "SAME"), (1, "VALID"), (3, "VALID")])
def test_convolutions_of_one_image_become_one(stride: int, padding: str, search: str, always: None) -> None:
    """As an Inception module has them, with what normalises their results."""
    if search == "saturation":
        pytest.importorskip("egglog")
    network = RandomConvolutions(0)
    own = [*network.kernels[2:], *network.vectors]

    def module(x: tf.Tensor) -> list[tf.Tensor]:
        gains = network.vectors[0] ** 2, network.vectors[1] ** 2
        parts = [tf.nn.conv2d(x, kernel, stride, padding) for kernel in network.kernels[2:]]
        return [tf.nn.relu(part * gain + network.vectors[2]) for part, gain in zip(parts, gains, strict=True)]

    plain = tf.function(module, autograph=False).get_concrete_function(tf.TensorSpec([None, 7, 7, CHANNELS]))
    optimized = rg.optimize(plain, search=search, seconds=120.0)  # of which it needs one or two
    assert (counted(plain), counted(optimized)) == (2, 1)
    assert counted(optimized, "Relu") == 1
    given = images(1, height=7)
    assert_close(computed(optimized, given, own), computed(plain, given, own))
    network.kernels[2].assign_add(tf.ones_like(network.kernels[2]))
    assert_close(computed(optimized, given, own), computed(plain, given, own))


@pytest.mark.parametrize(
    "other",
    [
        lambda x, n: tf.nn.conv2d(x, n.kernels[0], 2, "SAME"),
        lambda x, n: tf.nn.conv2d(x, n.kernels[0], 1, "VALID", dilations=2),
        lambda x, n: tf.nn.conv2d(x, n.kernels[2], 1, "SAME"),
        lambda x, n: tf.nn.conv2d(x, n.grouped[0], 1, "SAME"),
        lambda x, n: tf.nn.conv2d(x, n.kernels[0], [1, 1, 2, 1], "SAME"),
        lambda x, n: tf.nn.conv2d(x, n.kernels[0], 1, [[0, 0], [1, 1], [0, 0], [0, 0]]),
    ],
)
def test_convolutions_that_differ_stay_apart(other: Callable[[tf.Tensor, Any], tf.Tensor], always: None) -> None:
    """In stride, dilation, size of the kernel, groups, or padding."""
    network = RandomConvolutions(0)
    call = tf.function(lambda x: [tf.nn.conv2d(x, network.kernels[1], 1, "SAME"), other(x, network)], autograph=False)
    plain = call.get_concrete_function(tf.TensorSpec([1, 7, 7, CHANNELS]))
    assert counted(rg.optimize(plain)) == 2


def test_what_cancels_in_convolutions_is_not_applied() -> None:
    """A factor does not move into a kernel: an infinite one would make NaN of what cancels."""
    prover = Prover()
    for text in (
        "gain(3, conv(1, s, p, NONE, x, w), u) => conv(1, s, p, NONE, x, gain(3, w, u))",
        "conv(1, s, p, NONE, x, w + v) => conv(1, s, p, NONE, x, w) + conv(1, s, p, NONE, x, v)",
        "relu(conv(1, s, p, NONE, x, w)) => conv(1, s, p, RELU, x, w)",
    ):
        rule = terms.read(text)
        verdict = prover(rule)
        assert verdict.is_proven
        assert not choosing.is_faithful(rule, verdict.axioms), text
