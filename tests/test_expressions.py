"""Random expressions on special values give bit by bit what eager execution gives: as graphs, in each mode and engine.

What is compared bit by bit runs the same kernels. The batched engine has kernels of its own, whose elementary functions
have other last bits: expressions with these, and with sums of half precision, are left out where engines are compared.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import tf_private
from tests import expressions, sampling
from tests.expressions import FLOATS, INTEGERS, Function

# How many functions of a dozen expressions each; `--programs=42` are 5,000 expressions in each way.
FUNCTIONS = sampling.count("programs", 2)
SEED = sampling.seed(1)
COUNT = 12
DTYPES = pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
DIFFERENTIATED = ("float32", "float64")

# What differs in its last bits between kernels: elementary functions of the batched engine, and sums of half precision.
# And TensorFlow's sign of a denormal number is 0 or that number, by the length of the tensor.
APPROXIMATE = r"sign|exp|log|sqrt|sin|cos|tan|sigmoid|erf|soft|elu|pow|\*\*|prod|mean|sum|reciprocal|//|%|Mod"
SUMMED = r"soft|sum|mean|prod"
# Eager execution takes oneDNN's softmax, in which a NaN stays in its place; Eigen's, in bodies, makes all of a row NaN.
ONEDNN = r"softmax"
# Of two zeros with different signs, kernels take either, also TensorFlow's own for short and long tensors.
OF_ZEROS = ("max", "min", "relu", "abs", "xdivy", "xlogy", "xlog1py")


def functions(dtype: str, **options: Any) -> list[Function]:
    return [expressions.write(SEED * 1000 + i, dtype, COUNT, **options) for i in range(FUNCTIONS)]


def load(function: Function, path: Path) -> Callable[..., Any]:
    """Returns the function, of a module in a file, so that it can be converted."""
    path.write_text(function.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = module.f
    return found


def as_graph(f: Callable[..., Any], arguments: Sequence[tf.Tensor], call: Callable[[Any, Any], Any]) -> Any:
    concrete = tf.function(f, autograph=False).get_concrete_function(*arguments)
    return tf.nest.pack_sequence_as(concrete.structured_outputs, call(concrete, list(arguments)))


def gradients_up_to_rounding(name: str, one: Any, other: Any) -> bool:
    """Compares values bit by bit; gradients that are sums of several may have been added in another order."""
    return expressions.ulps_apart(one, other) <= (64 if name.startswith("gradient of") else 0)


@DTYPES
def test_graphs(dtype: str, tmp_path: Path) -> None:
    for i, function in enumerate(functions(dtype, gradients=dtype in DIFFERENTIATED)):
        f = load(function, tmp_path / f"graph_{i}.py")
        for arguments in expressions.arguments(i, dtype, 2):
            got = as_graph(f, arguments, lambda concrete, tensors: tf_private.fast_call(concrete)(tensors))
            wrong = expressions.differences(function, got, f(*arguments), gradients_up_to_rounding)
            assert not wrong, [arguments, *wrong]


@DTYPES
@pytest.mark.parametrize("mode", ["speculate", "coexec", "auto"])
def test_modes(mode: str, dtype: str, tmp_path: Path) -> None:
    for i, function in enumerate(functions(dtype, gradients=dtype in DIFFERENTIATED)):
        f = load(function, tmp_path / f"{mode}_{i}.py")
        converted = rg.function(f, mode=mode)
        for arguments in expressions.arguments(i, dtype, 2) * 5:
            wrong = expressions.differences(function, converted(*arguments), f(*arguments), gradients_up_to_rounding)
            assert not wrong, [arguments, *wrong]
        if mode == "speculate":
            assert converted.calls["graph"] >= 5


@DTYPES
@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_engines(engine: str, dtype: str, tmp_path: Path) -> None:
    has_kernels_of_ours = engine == "batched" and dtype in FLOATS
    without = APPROXIMATE if has_kernels_of_ours else SUMMED if dtype in FLOATS[2:] else ONEDNN
    row = tf.TensorSpec([expressions.LENGTH], dtype)
    for i, function in enumerate(functions(dtype, without=without)):
        f = load(function, tmp_path / f"{engine}_{i}.py")
        outputs = tf.function(f, autograph=False).get_concrete_function(row, row).structured_outputs
        specs = [tf.TensorSpec(output.shape, output.dtype) for output in outputs]
        with rg.SubGraph("f", outputs=specs, engine=engine) as subgraph:
            subgraph.output(f(subgraph.input(dtype, row.shape), subgraph.input(dtype, row.shape)))
        pairs = expressions.arguments(i, dtype, 3)
        rows = subgraph.map(*(tf.stack(tensors) for tensors in zip(*pairs, strict=True)))
        for place, arguments in enumerate(pairs):
            for got in (subgraph(*arguments), [result[place] for result in rows]):
                wrong = expressions.differences(function, got, f(*arguments), up_to_signs_of_zeros)
                assert not wrong, [arguments, *wrong]


def up_to_signs_of_zeros(name: str, one: Any, other: Any) -> bool:
    """Compares bit by bit, but for zeros where a maximum, a minimum or a rectifier may take either of two."""
    if any(word in name for word in OF_ZEROS) and other.dtype.is_floating:
        one, other = one + tf.zeros_like(one), other + tf.zeros_like(other)
    return expressions.ulps_apart(one, other) == 0


PRODUCTS: dict[str, Callable[..., Any]] = {
    "relu": lambda x, w, b: tf.nn.relu(x @ w + b),
    "relu6": lambda x, w, b: tf.nn.relu6(tf.nn.bias_add(x @ w, b)),
    "elu": lambda x, w, b: tf.nn.elu(x @ w + b),
    "leaky": lambda x, w, b: tf.nn.leaky_relu(tf.nn.bias_add(x @ w, b), 2.0),
    "tanh": lambda x, w, b: tf.tanh(x @ w + b),
    "sigmoid": lambda x, w, b: tf.sigmoid(x @ w + b),
    "maximum": lambda x, w, b: tf.reduce_max(tf.tanh(x @ w + b)[:0], 0),
    "zero bias": lambda x, w, b: -tf.nn.relu(-tf.nn.bias_add(x @ w, tf.zeros([4]))) + 0.0 * b,
    "zero matrix": lambda x, w, b: x @ tf.zeros_like(w) + b,
    "matrix of zeros, moved": lambda x, w, b: x @ tf.reshape(tf.tile(tf.zeros([1, 4]), [4, 1]), [4, 4]) + b,
    "sum of sums": lambda x, w, b: (x @ w + b) + (x @ w + 1e-8) - b,
    "transposed": lambda x, w, b: tf.matmul(tf.transpose(x), w) + b,
    "gelu": lambda x, w, b: tf.nn.gelu(x @ w + b),
    "swish": lambda x, w, b: tf.nn.silu(x @ w + b),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_fused_products_keep_special_values(name: str) -> None:
    """They round differently, and nothing else."""
    special = [1.0, -2.0, float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3e38]
    x = tf.constant(
        [[special[(row + column) % 8] if row == column else 0.5 for column in range(4)] for row in range(4)]
    )
    inputs = [x, tf.Variable(tf.reshape(tf.range(-8.0, 8.0), [4, 4])), tf.Variable([1.0, -1.0, 0.0, 2.0])]
    for place in range(2):  # special values in the rows, then in the weights
        if place:
            inputs[1].assign(tf.transpose(x))
            inputs[0] = tf.ones([4, 4])

        def f(x: tf.Tensor) -> tf.Tensor:
            return PRODUCTS[name](x, *inputs[1:])

        got = as_graph(f, inputs[:1], lambda concrete, tensors: tf_private.fast_call(concrete)(tensors))
        assert expressions.ulps_apart(got, f(inputs[0])) <= 8


def test_the_comparison_sees_what_tensorflow_rewrites(tmp_path: Path) -> None:
    """TensorFlow's own graphs differ in some of two hundred results."""
    wrong = 0
    for i in range(8):
        function = expressions.write(i, "float32", COUNT)
        f = load(function, tmp_path / f"plain_{i}.py")
        for arguments in expressions.arguments(i, "float32", 2):
            got = as_graph(f, arguments, lambda concrete, tensors: concrete(*tensors))
            wrong += len(expressions.differences(function, got, f(*arguments)))
    assert wrong > 5
