"""Numbers that differ from call to call, of types that differ too, given to whatever asks them for type or value."""

from __future__ import annotations

import math
import random
from typing import Any, Final

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from tests import sampling
from tests.speculate import comparing

SEED: Final = sampling.seed(1)
# Of n, which is an integer in the first calls, and r, a float.
EXPRESSIONS: Final = r"""
tf.nn.dropout(x, r)
tf.nn.dropout(x, rate=r), tf.random.normal([])
keras.random.dropout(x, r, seed=3)
keras.ops.add(x, r)
keras.ops.add(i8, n)
keras.ops.multiply(x16, r)
keras.ops.multiply(x64, r)
keras.ops.power(x, n)
keras.ops.add(n, r)
keras.ops.maximum(n, x)
keras.ops.where(x > 0, n, r)
keras.ops.clip(x, -n, n)
keras.ops.arange(n)
keras.ops.arange(r)
keras.ops.linspace(r, 2.0, 3)
keras.ops.full((2,), n)
keras.ops.floor_divide(xi, n)
keras.ops.mod(xi, n)
keras.ops.true_divide(n, 2)
keras.ops.round(x * r, 1)
keras.ops.roll(x, n)
keras.ops.eye(3, k=n)
keras.ops.tri(3, k=n)
keras.ops.tril(tf.ones([3, 3]), k=n)
keras.ops.repeat(x, n)
keras.ops.mean(x * n)
keras.ops.leaky_relu(x, r)
keras.ops.one_hot(n, 5)
keras.ops.take(x, n)
keras.ops.argmax(x + n)
keras.ops.cast(n, "float16")
keras.ops.convert_to_tensor(n)
keras.ops.convert_to_tensor(r, dtype="float64")
tf.nn.leaky_relu(x, r)
tf.nn.softmax(x * r)
tf.nn.elu(x * n)
tf.pow(x, n)
tf.pow(xi, n)
tf.pow(n, 2)
tf.add(n, 1)
tf.multiply(r, 2.0)
tf.multiply(n, r)
tf.divide(n, 2)
tf.truediv(n, 2)
tf.math.floordiv(n, 2)
tf.math.floormod(-n, 3)
tf.math.mod(n, 3)
tf.math.divide_no_nan(x, r)
tf.maximum(n, 2)
tf.maximum(x, n)
tf.maximum(x64, r)
tf.minimum(xi, n)
tf.clip_by_value(x, -r, r)
tf.clip_by_value(xi, 0, n)
tf.clip_by_value(x, clip_value_min=0, clip_value_max=n)
tf.clip_by_norm(x, r)
tf.cast(n, tf.uint8)
tf.cast(r, tf.int32)
tf.cast(r, tf.float64)
tf.constant(n, tf.uint8)
tf.constant(r, tf.float16)
tf.constant([n, r])
tf.constant([[n, 1], [2, n]])
tf.constant(n, shape=[2])
tf.convert_to_tensor([n, 2])
tf.fill([2], n)
tf.fill([2, 2], r)
tf.zeros([n])
tf.ones([n, 2]) * r
tf.eye(n)
tf.range(n)
tf.range(0, n, 2)
tf.range(r)
tf.range(0.0, n, r)
tf.linspace(0.0, 1.0, n)
tf.linspace(r, 2.0, 3)
tf.one_hot(n, 4)
tf.one_hot(xi, 4, on_value=r, off_value=0.0)
tf.one_hot(xi, 4, on_value=n)
tf.one_hot(xi, n)
tf.gather(x, n)
x[n]
x[n:]
x[-n:]
x[:n]
x[::n]
tf.roll(x, n, 0)
tf.tile(x, [n])
tf.repeat(x, n)
tf.reshape(tf.tile(x, [n]), [n, -1])
tf.reduce_sum(tf.ones([2, 3]), axis=n % 2)
tf.reduce_mean(tf.ones([2, 3]) * r, axis=-n % 2)
tf.argmax(tf.ones([2, 3]), axis=n % 2)
tf.expand_dims(x, n % 2)
tf.concat([tf.ones([2, 2])] * 2, axis=n % 2)
tf.stack([x, x], axis=n % 2)
tf.cumsum(x, reverse=n > 1)
tf.split(x, [n % 3, 4 - n % 3])
tf.split(x, 1 + n % 2)
tf.pad(x, [[n, 1]])
tf.pad(x, [[0, n]], constant_values=r)
tf.sequence_mask(n, 5)
tf.linalg.band_part(tf.ones([3, 3]), n, 0)
tf.linalg.diag(x, k=n % 2)
tf.linalg.diag_part(tf.ones([3, 3]), k=n % 2)
tf.linalg.set_diag(tf.zeros([2, 2]), [r, r])
tf.nn.top_k(x, n)
tf.math.top_k(x, k=n % 3).values
tf.sort(x * n)
tf.searchsorted(x, [r])
tf.where(x > r, x, r)
tf.where(x > 0, n, 0)
tf.where([True, False], n, -n)
tf.equal(x, r)
tf.less(n, 2)
tf.greater(xi, n)
tf.bitwise.left_shift(xi, n)
tf.bitwise.bitwise_and(n, 3)
tf.strings.as_string(n)
tf.strings.as_string(r)
tf.strings.format("{}", [n])
tf.strings.join(["a", str(n)])
tf.strings.to_number(str(n))
tf.random.uniform([2], maxval=r)
tf.random.uniform([n])
tf.random.normal([2], mean=r, stddev=n)
tf.random.normal([2], r, dtype=tf.float64)
tf.random.truncated_normal([2], stddev=r)
tf.random.gamma([2], r)
tf.random.poisson([2], 0.5) * r
tf.random.stateless_uniform([2], [n, 0])
tf.random.stateless_uniform([2], (n, n))
tf.random.stateless_normal([2], [1, n], mean=r)
tf.random.stateless_binomial([2], [1, n], 4.0, r)
tf.random.experimental.stateless_fold_in([1, 2], n)
tf.random.categorical([[r, 1.0]], 2)
g.normal([2], r)
g.reset_from_seed(n), g.normal([2])
g.reset_from_key_counter(n, [0, 0]), g.normal([2])
g.reset([n, 0, 0]), g.normal([2])
g.reset(n), g.normal([2])
g.skip(n), g.normal([2])
g.uniform([2], 0, n + 1, tf.int32)
g.split(2)[0].normal([1 + n % 2])
tf.image.adjust_brightness(im, r)
tf.image.adjust_contrast(im, r)
tf.image.adjust_gamma(im, r)
tf.image.adjust_gamma(im, gain=n)
tf.image.adjust_saturation(im, r)
tf.image.adjust_hue(im, r)
tf.image.resize(im, [n, n + 1])
tf.image.rot90(im, n)
tf.image.central_crop(im, r)
tf.image.crop_to_bounding_box(im, n % 2, 0, 2, 2)
tf.image.pad_to_bounding_box(im, n, 1, 8, 8)
tf.image.random_brightness(im, r)
tf.image.random_contrast(im, r, r + 1.0)
tf.image.random_flip_left_right(im)
tf.image.stateless_random_brightness(im, r, [n, 1])
tf.image.stateless_random_crop(im, [1 + n % 2, 2, 3], [n, 1])
tf.image.random_crop(im, [2, 2, 3]) * r
tf.image.psnr(im, im * r, 1.0)
tf.keras.utils.normalize(np.ones([2, 2]) * n)
tf.math.confusion_matrix([n % 2, 1], [1, 0], num_classes=2)
tf.math.bincount([n % 3, 1])
tf.math.bincount(xi, minlength=n)
tf.math.polyval([r, 1.0], x)
tf.math.reduce_std(x * r)
tf.math.l2_normalize(x, epsilon=r)
tf.math.igamma(r, x)
tf.math.betainc(r, 1.0, x / 4)
tf.math.zeta(r + 1.5, 2.0)
tf.math.polygamma(1.0, r)
tf.math.rint(r)
tf.round(r * 5)
tf.floor(r)
tf.sqrt(r)
tf.sqrt(float(n))
tf.abs(-n)
tf.negative(n)
tf.sign(r)
tf.square(n)
tf.exp(r)
tf.math.log(r)
tf.math.atan2(r, x)
tf.math.is_nan(r)
tf.math.xlogy(r, x)
tf.nn.moments(x * r, [0])
tf.nn.l2_loss(x * r)
tf.nn.relu(n)
tf.nn.batch_normalization(x, 0.0, r, None, None, 1e-3)
tf.nn.lrn(im[None], alpha=r)
tf.nn.max_pool2d(im[None], 1 + n % 2, 1, "SAME")
tf.nn.conv2d(im[None], tf.ones([1, 1, 3, 1]), 1 + n % 2, "SAME")
tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=x * r)
tf.nn.weighted_cross_entropy_with_logits(x, x, pos_weight=r)
tf.nn.embedding_lookup(tf.ones([5, 2]), n)
tf.nn.local_response_normalization(im[None], depth_radius=n)
tf.map_fn(lambda v: v * r, x)
tf.foldl(lambda a, b: a + b * n, x)
tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * r), (0, x))[1]
tf.cond(n > 1, lambda: x, lambda: -x)
tf.switch_case(n, [lambda: x, lambda: -x])
tf.case([(n > 1, lambda: x)], default=lambda: -x)
tf.ensure_shape(tf.zeros([n]), [n])
tf.broadcast_to(r, [2])
tf.broadcast_to(x[0], [n])
tf.scatter_nd([[n % 4]], [r], [4])
tf.tensor_scatter_nd_update(x, [[n % 4]], [r])
tf.tensor_scatter_nd_add(xi, [[n % 4]], [n])
tf.sparse.to_dense(tf.SparseTensor([[n % 4]], [r], [4]))
tf.ragged.constant([[r], [1.0, 2.0]])
tf.ragged.range(n)
tf.complex(r, 0.5)
tf.signal.frame(x, 2, 1 + n % 2)
tf.einsum("a,->a", x, tf.constant(r))
tf.tensordot(x, x, 1) * n
tf.norm(x, ord=1 + n % 2)
tf.norm(x * r, ord=r + 1)
tf.saturate_cast(n * 100, tf.int8)
tf.dtypes.saturate_cast(r * 300, tf.uint8)
tf.histogram_fixed_width(x, [0.0, r + 1])
tf.identity(n)
tf.identity(r)
tf.stop_gradient(r)
tf.shape(tf.zeros([n]))
tf.size(tf.zeros([n]))
tf.rank(n)
tf.math.add_n([x, x * r])
keras.activations.leaky_relu(x, r)
keras.activations.relu(x, negative_slope=r)
keras.activations.elu(x, alpha=r)
keras.metrics.binary_accuracy([[0.0, 1.0]], [[0.25, 0.75]], threshold=r)
keras.metrics.sparse_top_k_categorical_accuracy([1], [[0.1, 0.7, 0.2]], k=n)
keras.utils.to_categorical([n % 3], 3)
keras.ops.in_top_k([1], [[0.1, 0.7, 0.2]], k=n)
keras.ops.top_k(x, k=n)
keras.ops.softmax(x * r)
keras.ops.logsumexp(x * r)
keras.ops.slice(x, [n % 3], [1])
keras.ops.slice_update(x, [n % 3], [r])
keras.ops.scatter_update(x, [[n % 4]], [r])
keras.ops.fori_loop(0, n, lambda i, v: v * r, x)
keras.ops.image.resize(im, (n, n))
m.update_state(r), m.result()
m.update_state(x, sample_weight=r), m.result()
v.assign(r), v.value()
v.assign_add(n), v.value()
vi.assign(n), vi.value()
vi.assign_add(n), vi.value()
v64.assign_add(r), v64.value()
[opt.apply_gradients([(tf.constant(r), v)]), v.value()][1]
[opt.apply_gradients([(v * r, v)]), v.value()][1]
drop(x, training=n)
drop(x, training=bool(n)), tf.random.normal([])
bn(x[None], training=n > 1)
sched(n)
sched(r)
keras.random.normal((2,), mean=r, seed=n)
keras.random.randint((2,), 0, n + 1, seed=1)
keras.random.shuffle(x, seed=n)
np.float32(r) * x
np.int64(n) * xi
x * np.float64(r)
x64 * r
x16 * r
xi // n
xi % n
-xi // n
xi ** n
x ** r
r ** x
n ** xi
n - xi
n / xi
xi / n
x // r
x % r
r - x64
n * x16
(n + x) * (r - x)
x > n
xi == n
xi != r
divmod(n, 2), x * (n // 2)
x * (-n // 2), x * (-n % 3)
x * round(r * 10), round(r, 1)
x * int(r * 10)
x * (n << 2) * (n & 1) * (n ^ 3)
x * float(f"{r:.2f}")
x * (1 if n else 2)
x * (n or 5)
x * (n and 5)
x * (n == 1)
x * bool(n)
x * (n > 1) + (r > 0.5)
x * min(n, r), max(n, 2)
x * abs(-n), x * (r if n > r else n)
xi * True + n
x * n ** -1 if n else x
x * (2 ** n)
x * math.sqrt(abs(r)), math.floor(r * 3), math.ceil(r)
x * math.log(r + 2), math.pow(n, 2)
x * sum([n, r]), sum(range(n))
x * len(range(n))
x * n.bit_length(), (n).real
x * r.is_integer(), float(n).is_integer()
x * complex(r, 0).real
x * int("12"[n % 2])
x * hash(n)
x * {1: 0.5, 2: 1.5}.get(n, 2.5)
x * [1, 2, 3][n % 3]
x * (n in (1, 2))
tf.constant(n * 2**30)
tf.constant(n * 2**30) + 1
xi * (n * 2**30)
x * (n * 10**12)
tf.fill([2], n * 2**30)
tf.range(n * 2**30, n * 2**30 + 2)
tf.constant([n * 2**30, 1])
tf.cast(n * 2**30, tf.float32)
xi + int(x[0]) * n
float(x[1]) * n, int(x[1]) // 2, -int(x[2]) % 3, round(float(x[1]) * n)
tf.constant(int(x[1]) * 2**30)
tf.constant(float(x[1]) + n)
xi * int(tf.reduce_sum(xi))
f"{float(x[1]) * n:.3f} {int(x[2]):03d} {r!r} {n}"
str(float(x[1])), repr(int(x[2])), str(x[1].numpy())
x.numpy()[n % 4], x.numpy().sum() * r
xi.numpy() // n, xi.numpy() / 2, xi.numpy() % 3, -xi.numpy() // 2
xi.numpy() * n, xi.numpy() + r, xi.numpy() * np.int64(n)
x.numpy().mean().item() * n, x.numpy().dtype, x.numpy().max() > r
int(xi[1]) / n, int(xi[1]) ** 2, int(xi[1]) // 2, divmod(int(xi[1]), 3)
bool(xi[1]) + n, bool(x[0]) or n, not x[0]
int(xi[1]) << 2, int(xi[1]) & 1, ~int(xi[1]), -int(xi[1])
float(xi[1]), int(x[3] * r), int(-x[3] * r), round(float(-x[3] * r))
math.floor(float(x[3]) * r), math.ceil(float(x[3]) * -r), math.trunc(float(-x[3]) * r)
min(int(xi[1]), n), max(float(x[1]), r), abs(-float(x[1]))
[int(v) for v in xi], [float(v) * n for v in x], sum(float(v) for v in x)
sorted([float(v) * r for v in x], reverse=True)
int(xi[1]) == n, float(x[1]) > r, int(xi[1]) in (1, 2)
x[int(xi[1])], x[: int(xi[2])], [1, 2, 3][int(xi[1])]
"ab" * int(xi[1]), [0] * int(xi[1]), (1,) * n
{int(xi[1]): 1}, {n: x[0]}
tf.zeros([int(xi[1])]), tf.range(int(xi[2]))
x.shape[0] * n, len(x) * r, tf.shape(x)[0] * n
np.array([n, r]) * 2, np.arange(n), np.ones(n), np.zeros((n, 2))
np.array(x) * n, np.asarray([float(v) for v in x])
np.sum([n, r]), np.mean(x), np.sqrt(np.float32(abs(r))), np.exp(r)
np.clip(n, 0, 2), np.maximum(r, 0.3), np.sign(-n), np.round(r, 1), np.floor(r)
np.linspace(0, 1, n), np.dot([n, 1], [r, 2]), np.cumsum([n, r])
np.isclose(r, 0.5), np.array_equal([n], [1]), np.any([n, 0])
keras.ops.multiply(kv, r)
keras.ops.array(r, dtype="float64")
keras.ops.full((2,), r, dtype="float64")
keras.ops.add(x64, r)
keras.ops.where(x64 > 1, r, x64)
kv * r
r - kv
kv ** r
ks.assign(r)
ks.assign_add(r)
m64.update_state(r), m64.result()
m64.update_state([r, r]), m64.result()
d64(x64[None] * r)
tf.constant(r, tf.float64)
tf.constant([r, 1.0], tf.float64)
tf.convert_to_tensor([r], dtype=tf.float64)
tf.convert_to_tensor(r, dtype_hint=tf.float64)
tf.cast([r, 1.0], tf.float64)
tf.fill([2], r)
tf.where(x64 > 1, r, x64)
tf.where(x64 > 1, x64, r)
tf.multiply(x=x64, y=r)
tf.multiply(r, x64)
tf.clip_by_value(x64, clip_value_min=r, clip_value_max=1.5)
tf.pow(x64, r)
tf.tensor_scatter_nd_update(x64, [[0]], [r])
tf.stack([x64[0], r])
tf.random.stateless_normal([2], [1, 2], r, dtype=tf.float64)
tf.random.stateless_uniform([2], [1, 2], maxval=r, dtype=tf.float64)
tf.pad(x64, [[0, 1]], constant_values=r)
tf.one_hot([1], 3, on_value=r, dtype=tf.float64)
tf.linspace(tf.constant(0.0, tf.float64), r, 3)
tf.range(0.0, 1.0, r, dtype=tf.float64)
tf.map_fn(lambda q: q * r, x64)
tf.nn.dropout(x64 + 0, 0.5 * r)
v64.assign(r)
v64.assign_add(r), v64.assign_sub(2 * r)
x64 * r, x64 + r, r / x64, x64 // r, x64 % r, x64 ** r, x64 > r, r ** x64
tf.reduce_sum([r, 0.1])
tf.complex(x64[0], r)
tf.constant(r * 3, tf.complex128)
tf.add_n([x64, x64 * r])
tf.math.polyval([r, x64[0]], x64)
tf.SparseTensor([[0]], [r], [2]).values
tf.ragged.constant([[r]], dtype=tf.float64).flat_values
tf.saturate_cast(r, tf.float64)
tf.as_dtype("float64").as_numpy_dtype(r) * x64
np.float64(r) * x64, np.array([r, r]) * x64
tf.multiply(x, np.float64(r)), tf.maximum(np.float16(r), x16)
tf.stack([x[0], np.float64(r)]), tf.where(x > 0, np.float64(r), x)
v.assign_add(np.float64(r)), v64.assign(np.float32(r))
tf.convert_to_tensor(np.float64(r), dtype_hint=tf.float32)
keras.ops.convert_to_tensor(np.float64(r)), keras.ops.multiply(x, np.float64(r))
tf.constant(np.float64(r)), tf.constant(np.array([r]))
tf.reshape(r, [1]), tf.identity(r), tf.expand_dims(r, 0)
float(x64[0]) * r, float(x64[1]) + r, x64.numpy() * r
tf.constant(float(x64[1]) * r, tf.float64)
tf.constant(float(tf.constant(0.1)) * r, tf.float64)
tf.cast(float(x64[1]) * r, tf.float64)
x64 * float(x64[1] * 0.1)
keras.ops.multiply(kv, float(x64[1] * 0.1))
tf.constant(n, tf.int64), tf.constant([n, 2**40]), tf.cast(n, tf.int64) * 2**40
tf.constant(0.5, tf.float16) * r, tf.constant([1, 2], tf.int8) * n
keras.ops.add(tf.constant([1, 2], tf.int8), n), keras.ops.add(tf.constant([1.0], tf.bfloat16), r)
keras.ops.subtract(keras.Variable([1, 2], dtype="int8"), n)
keras.ops.multiply(keras.Variable([1.0, 2.0], dtype="bfloat16"), r)
keras.ops.multiply(keras.Variable([1.0, 2.0], dtype="float16"), n)
keras.ops.multiply(keras.Variable([1, 2], dtype="uint8"), r)
keras.ops.true_divide(n, r), keras.ops.power(r, 2), keras.ops.sqrt(n), keras.ops.exp(n), keras.ops.log1p(n)
keras.ops.mean([n, r]), keras.ops.sum([n, 1]), keras.ops.max([r, 0.5])
keras.ops.stack([n, 1]), keras.ops.concatenate([[r], [0.5]]), keras.ops.array([n, r])
"""
LINES: Final = [line for line in EXPRESSIONS.split("\n") if line]
NUMBERS: Final = (1, 2, 3, 1, 2, 3, 0, 2, 4, -1, 3, 2.5, 2.0, True, 1)
RATES: Final = (0.5, 0.25, 0.75, 0.7, 0.1, 0.125, 0.0, 0.5, 1.5, -1.0, 1, 3.5, 0.3, 0.5, 0.25)


class Things:
    """What the expressions name, as it is when they begin."""

    def __init__(self) -> None:
        tf.random.set_seed(3)
        self.g, self.math, self.np, self.tf, self.keras = tf.random.Generator.from_seed(1), math, np, tf, keras
        self.v, self.vi, self.v64 = tf.Variable(1.0), tf.Variable(1), tf.Variable(1.0, dtype=tf.float64)
        self.m, self.m64 = keras.metrics.Mean(), keras.metrics.Mean(dtype="float64")
        self.opt = keras.optimizers.Adam(0.1)
        self.opt.build([self.v])
        self.drop, self.bn = keras.layers.Dropout(0.5, seed=1), keras.layers.BatchNormalization()
        self.bn(tf.ones([1, 4]))
        self.d64 = keras.layers.Dense(2, dtype="float64", kernel_initializer="ones")
        self.sched = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
        self.im = tf.reshape(tf.range(48.0) / 48.0, [4, 4, 3])
        self.i8, self.u8 = tf.constant([1, 2, 3], tf.int8), tf.constant([1, 2, 3], tf.uint8)
        self.x16, self.x64 = tf.constant([1.0, 2.0], tf.float16), tf.constant([1.0, 2.0], tf.float64)
        self.d64(self.x64[None])
        self.kv = keras.Variable(np.array([1.0, 2.0]), dtype="float64")
        self.ks = keras.Variable(1.0, dtype="float64")

    def state(self) -> list[Any]:
        """What calls leave behind."""
        held = [self.g.state, self.v, self.vi, self.v64, *self.m.variables, *self.m64.variables, *self.opt.variables]
        return [np.asarray(variable) for variable in [*held, self.kv.value, self.ks.value]]


def outcomes(expression: str, speculated: bool) -> list[Any]:
    """What each call gives, and the state after it."""
    text = f"def step(x, xi, n, r):\n    return {expression}\n"
    things = Things()
    names = {**vars(things), "__source__": text}
    exec(compile(text, "<an expression>", "exec"), names)
    step: Any = names["step"]
    called = rg.function(step, mode="speculate") if speculated else step
    seen = []
    for i, (n, r) in enumerate(zip(NUMBERS, RATES, strict=True)):
        try:
            outcome = called(tf.range(4.0) - (i % 2), tf.range(1, 5) + i % 3, n, r)
        except Exception as error:
            outcome = type(error).__name__, str(error)
        seen.append((comparing.plain(outcome), things.state()))
    return seen


def apart(one: Any, other: Any) -> bool:
    """Whether two results differ by more than the rounding of their dtypes."""
    if isinstance(one, np.ndarray | np.generic) and isinstance(other, np.ndarray | np.generic):
        tolerance = 1e-12 if one.dtype == np.float64 else 1e-5
        if one.dtype != other.dtype or one.shape != other.shape:
            return True
        return not (
            np.allclose(one, other, tolerance, tolerance, True) if one.dtype.kind in "fc" else (one == other).all()
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return any(apart(a, b) for a, b in zip(one, other, strict=True))
    return bool(comparing.differences(one, other))


def chosen() -> list[str]:
    """A sample of the expressions; all where the suite is asked for all."""
    return LINES if sampling.ALL else random.Random(SEED).sample(LINES, 24)


@pytest.mark.parametrize("expression", chosen())
def test_numbers_are_what_they_are_eagerly(expression: str) -> None:
    """Integers that come to be floats, rates of 0, numbers of 64 bits."""
    expected, found = outcomes(expression, False), outcomes(expression, True)
    different = [(n, r, a, b) for n, r, a, b in zip(NUMBERS, RATES, expected, found, strict=True) if apart(a, b)]
    assert different == []


def test_the_comparison_sees_another_dtype_and_what_float32_rounds() -> None:
    assert apart(np.float64(0.1), np.float64(np.float32(0.1)))
    assert apart(np.int32(1), np.int64(1))
    assert not apart([np.float32(0.1), "a"], [np.float32(0.1), "a"])
