"""The table of operators: shapes, a reference for each, and how much it computes.

A tensor has four axes; the axes that one of fewer lacks have size 1. So a matrix is `[n, m, 1, 1]`, a row is
`[1, m, 1, 1]`, a scalar is `[1, 1, 1, 1]`, and images are `[batch, height, width, channels]`. Reductions keep their
axis. What is one tensor here is an array of five axes in a reference: the first one counts independent samples.

A shape function is written once for numbers and for the formulas of the prover: it asks a `Logic` for what Python's
`if` would decide. It returns what has to be true of its arguments, and the sizes of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from recgraph.optimize.arithmetic import Arithmetic

AXES = 4

# Elementwise functions of one tensor; those of two, with the sign that a text has for them.
MAPS = ("RELU", "SIGMOID", "TANH", "NEG", "EXP", "RSQRT")
ZIPS = {"ADD": "+", "SUB": "-", "MUL": "*", "MAX": ""}
CONSTANTS = {name: i for i, name in enumerate((*MAPS, *ZIPS, "SAME", "VALID", "NONE"))}

Dims = Sequence[Any]
Shape = tuple[list[Any], list[Any]]


class Logic(Protocol):
    """Decisions about sizes, which are numbers or formulas."""

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """`yes` where the condition holds, `no` elsewhere."""

    def ceil(self, size: Any, stride: Any) -> Any:
        """The size divided by the stride, rounded up."""

    def divides(self, factor: Any, size: Any) -> Any:
        """Whether the size is a multiple of the factor."""

    def odd(self, size: Any) -> Any:
        """Whether the size is odd."""


class Numbers:
    """The logic of numbers."""

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """See `Logic`."""
        return yes if condition else no

    def ceil(self, size: Any, stride: Any) -> Any:
        """See `Logic`."""
        return -(-size // max(stride, 1))

    def divides(self, factor: Any, size: Any) -> Any:
        """See `Logic`."""
        return size % max(factor, 1) == 0

    def odd(self, size: Any) -> Any:
        """See `Logic`."""
        return size % 2 == 1


@dataclass(frozen=True)
class Operator:
    """An operator of the table.

    Attributes:
        parameters: the kind of each parameter: axis, size, stride, padding, activation, map, or zip.
        arity: number of tensors.
        shape: of logic, parameters and the sizes of each tensor; gives conditions and the sizes of the result.
        reference: of arithmetic, parameters (constants as numbers) and arrays; gives an array.
        cost: multiplications and additions, of parameters, the sizes of the arguments and of the result.
    """

    parameters: tuple[str, ...]
    arity: int
    shape: Callable[[Logic, Sequence[Any], Sequence[Dims]], Shape]
    reference: Callable[[Arithmetic, Sequence[int], Sequence[np.ndarray]], np.ndarray]
    cost: Callable[[Sequence[int], Sequence[Dims], Dims], int]


def _count(parameters: Sequence[int], arguments: Sequence[Dims], result: Dims) -> int:
    return math.prod(result)


def _read(parameters: Sequence[int], arguments: Sequence[Dims], result: Dims) -> int:
    return sum(math.prod(dims) for dims in arguments)


def _equal(x: Dims, y: Dims) -> list[Any]:
    return [a == b for a, b in zip(x, y, strict=True)]


def _matrix(x: Dims) -> list[Any]:
    return [x[2] == 1, x[3] == 1]


def _is_axis(a: Any) -> list[Any]:
    return [a >= 0, a < AXES]


def _at(logic: Logic, x: Dims, axis: Any) -> Any:
    size = x[AXES - 1]
    for i in range(AXES - 2, -1, -1):
        size = logic.choose(axis == i, x[i], size)
    return size


def _with(logic: Logic, x: Dims, axis: Any, size: Callable[[int], Any]) -> list[Any]:
    return [logic.choose(axis == i, size(i), x[i]) for i in range(AXES)]


# Elementwise functions.


def _map_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    return [], list(dims[0])


def _zip_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    return _equal(*dims), list(dims[0])


def _map(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return arithmetic.map(MAPS[parameters[0]], tensors[0])


def _zip(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    name = list(ZIPS)[parameters[0] - len(MAPS)]
    return arithmetic.zip(name, *tensors)


def _scale_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    factor, x = dims
    return [size == 1 for size in factor], list(x)


def _scale(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return arithmetic.zip("MUL", *np.broadcast_arrays(*tensors))


def _along_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (a,), (x, row) = parameters, dims
    return [*_is_axis(a), *(row[i] == logic.choose(a == i, x[i], 1) for i in range(AXES))], list(x)


def _bias(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return arithmetic.zip("ADD", *np.broadcast_arrays(*tensors))


# Matrices.


def _matmul_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    x, y = dims
    return [*_matrix(x), *_matrix(y), x[1] == y[0]], [x[0], y[1], 1, 1]


def _matmul(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    x, y = (tensor[:, :, :, 0, 0] for tensor in tensors)
    return arithmetic.reduce(x @ y)[..., None, None]


def _transpose_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (x,) = dims
    return _matrix(x), [x[1], x[0], 1, 1]


def _reshape_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (x,) = dims
    return [*_matrix(x), logic.choose(x[0] == 1, True, x[1] == 1)], [x[1], x[0], 1, 1]


def _transpose(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return tensors[0].swapaxes(1, 2)


def _reshape(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    n, rows, columns = tensors[0].shape[:3]
    return tensors[0].reshape(n, columns, rows, 1, 1)


# Parts.


def _concat_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (a,), (x, y) = parameters, dims
    same = [logic.choose(a == i, True, x[i] == y[i]) for i in range(AXES)]
    return [*_is_axis(a), *same], _with(logic, x, a, lambda i: x[i] + y[i])


def _first_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (a, n), (x,) = parameters, dims
    return [*_is_axis(a), n >= 1, n < _at(logic, x, a)], _with(logic, x, a, lambda i: n)


def _rest_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (a, n), (x,) = parameters, dims
    return [*_is_axis(a), n >= 1, n < _at(logic, x, a)], _with(logic, x, a, lambda i: x[i] - n)


def _concat(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(tensors, axis=parameters[0] + 1)


def _first(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    axis, size = parameters
    return tensors[0][(slice(None),) * (axis + 1) + (slice(None, size),)]


def _rest(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    axis, size = parameters
    return tensors[0][(slice(None),) * (axis + 1) + (slice(size, None),)]


# Reductions.


def _reduce_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (a,), (x,) = parameters, dims
    return _is_axis(a), _with(logic, x, a, lambda i: 1)


def _softmax_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    return _is_axis(parameters[0]), list(dims[0])


def _sum(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return arithmetic.reduce(tensors[0].sum(axis=parameters[0] + 1, keepdims=True))


def _mean(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return arithmetic.divided(_sum(arithmetic, parameters, tensors), tensors[0].shape[parameters[0] + 1])


def _softmax(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    powers = arithmetic.map("EXP", tensors[0])
    inverse = arithmetic.inverse(_sum(arithmetic, parameters, [powers]))
    return arithmetic.zip("MUL", *np.broadcast_arrays(powers, inverse))


# Images. Padding is that of TensorFlow: SAME pads evenly, one more at the end where it must.


def _window_shape(logic: Logic, x: Dims, height: Any, width: Any, stride: Any, padding: Any) -> Shape:
    is_same = padding == CONSTANTS["SAME"]
    sizes = [logic.ceil(logic.choose(is_same, x[i], x[i] - k + 1), stride) for i, k in ((1, height), (2, width))]
    fits = [logic.choose(is_same, True, k <= x[i]) for i, k in ((1, height), (2, width))]
    known = logic.choose(is_same, True, padding == CONSTANTS["VALID"])
    return [stride >= 1, height >= 1, width >= 1, known, *fits], sizes


def _conv_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (groups, stride, padding, activation), (x, w) = parameters, dims
    conditions, sizes = _window_shape(logic, x, w[0], w[1], stride, padding)
    is_known = logic.choose(activation == CONSTANTS["NONE"], True, activation == CONSTANTS["RELU"])
    conditions += [groups >= 1, x[3] == groups * w[2], logic.divides(groups, w[3]), is_known]
    return conditions, [x[0], *sizes, w[3]]


def _pool_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (size, stride, padding), (x,) = parameters, dims
    conditions, sizes = _window_shape(logic, x, size, size, stride, padding)
    return conditions, [x[0], *sizes, x[3]]


def _margins(size: int, window: int, stride: int, is_same: bool) -> tuple[int, int]:
    missing = max((-(-size // stride) - 1) * stride + window - size, 0) if is_same else 0
    return missing // 2, missing - missing // 2


def _windows(
    x: np.ndarray, window: tuple[int, int], stride: int, padding: int, fill: Any
) -> tuple[list[np.ndarray], np.ndarray]:
    """For each place in the window, what lies there in all windows; and how many places of each window are real."""
    is_same = padding == CONSTANTS["SAME"]
    margins = [_margins(x.shape[2 + i], window[i], stride, is_same) for i in (0, 1)]
    around = [(0, 0), (0, 0), *margins, (0, 0)]
    padded = np.pad(x, around, constant_values=fill)
    real = np.pad(np.ones_like(x, dtype=np.int64), around)
    ends = [padded.shape[2 + i] - window[i] + 1 for i in (0, 1)]
    starts = [(i, j) for i in range(window[0]) for j in range(window[1])]
    at = [np.s_[:, :, i : i + ends[0] : stride, j : j + ends[1] : stride] for i, j in starts]
    return [padded[place] for place in at], np.stack([real[place] for place in at]).sum(0)


def _conv(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    (groups, stride, padding, activation), (x, w) = parameters, tensors
    found, _ = _windows(x, (w.shape[1], w.shape[2]), stride, padding, 0)
    inputs, outputs = w.shape[3], w.shape[4] // groups
    kernels = w.reshape(len(w), -1, *w.shape[3:])
    parts = []
    for g in range(groups):
        own = kernels[..., g * outputs : (g + 1) * outputs]
        seen = [place[..., g * inputs : (g + 1) * inputs] for place in found]
        terms = [arithmetic.reduce(np.einsum("nbhwc,ncd->nbhwd", place, own[:, i])) for i, place in enumerate(seen)]
        parts.append(arithmetic.reduce(np.stack(terms).sum(0)))
    result = np.concatenate(parts, axis=-1)
    return result if activation == CONSTANTS["NONE"] else arithmetic.map("RELU", result)


def _max_pool(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    size, stride, padding = parameters
    places, _ = _windows(tensors[0], (size, size), stride, padding, arithmetic.lowest)
    result = places[0]
    for place in places[1:]:
        result = arithmetic.zip("MAX", result, place)
    return result


def _average_pool(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    size, stride, padding = parameters
    places, real = _windows(tensors[0], (size, size), stride, padding, 0)
    return arithmetic.divided(arithmetic.reduce(np.stack(places).sum(0)), real)


def _enlarge_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (size,), (w,) = parameters, dims
    conditions = [logic.odd(size), logic.odd(w[0]), logic.odd(w[1]), w[0] <= size, w[1] <= size]
    return conditions, [size, size, w[2], w[3]]


def _enlarge(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    (size,), (w,) = parameters, tensors
    margins = [((size - w.shape[i]) // 2,) * 2 for i in (1, 2)]
    return np.pad(w, [(0, 0), *margins, (0, 0), (0, 0)])


def _norm_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    x, *rows = dims
    return [row[i] == (x[i] if i == 3 else 1) for row in rows for i in range(AXES)], list(x)


def _norm(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    x, mean, variance, gain, offset = tensors
    factor = arithmetic.zip("MUL", gain, arithmetic.map("RSQRT", variance))
    shifted = arithmetic.zip("SUB", *np.broadcast_arrays(x, mean))
    return arithmetic.zip("ADD", *np.broadcast_arrays(_scale(arithmetic, (), [factor, shifted]), offset))


# Constants: of the shape of a tensor, or of given sizes.


def _eye_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    (size,) = parameters
    return [size >= 1], [size, size, 1, 1]


def _kernel_eye_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    size, channels = parameters
    return [logic.odd(size), size >= 1, channels >= 1], [size, size, channels, channels]


def _pool_kernel_shape(logic: Logic, parameters: Sequence[Any], dims: Sequence[Dims]) -> Shape:
    size, channels = parameters
    return [size >= 1, channels >= 1], [size, size, 1, channels]


def _zeros(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return np.zeros_like(tensors[0])


def _ones(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return np.ones_like(tensors[0])


def _eye(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    return np.eye(parameters[0], dtype=arithmetic.dtype)[None, :, :, None, None]


def _kernel_eye(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    size, channels = parameters
    kernel = np.zeros((1, size, size, channels, channels), arithmetic.dtype)
    kernel[0, size // 2, size // 2] = np.eye(channels, dtype=arithmetic.dtype)
    return kernel


def _pool_kernel(arithmetic: Arithmetic, parameters: Sequence[int], tensors: Sequence[np.ndarray]) -> np.ndarray:
    size, channels = parameters
    return arithmetic.divided(np.ones((1, size, size, 1, channels), arithmetic.dtype), size * size)


def _products(parameters: Sequence[int], arguments: Sequence[Dims], result: Dims) -> int:
    return 2 * int(math.prod(result)) * int(arguments[0][1])


def _convolution_products(parameters: Sequence[int], arguments: Sequence[Dims], result: Dims) -> int:
    return 2 * math.prod(result) * math.prod(arguments[1][:3])


def _pooled(parameters: Sequence[int], arguments: Sequence[Dims], result: Dims) -> int:
    return math.prod(result) * parameters[0] ** 2


def _nothing(parameters: Sequence[int], arguments: Sequence[Dims], result: Dims) -> int:
    return 0


_WINDOW = ("stride", "padding")
OPERATORS: dict[str, Operator] = {
    "map": Operator(("map",), 1, _map_shape, _map, _count),
    "zip": Operator(("zip",), 2, _zip_shape, _zip, _count),
    "scale": Operator((), 2, _scale_shape, _scale, _count),
    "bias": Operator(("axis",), 2, _along_shape, _bias, _count),
    "gain": Operator(("axis",), 2, _along_shape, _scale, _count),
    "matmul": Operator((), 2, _matmul_shape, _matmul, _products),
    "transpose": Operator((), 1, _transpose_shape, _transpose, _count),
    "reshape": Operator((), 1, _reshape_shape, _reshape, _nothing),
    "concat": Operator(("axis",), 2, _concat_shape, _concat, _count),
    "first": Operator(("axis", "size"), 1, _first_shape, _first, _count),
    "rest": Operator(("axis", "size"), 1, _rest_shape, _rest, _count),
    "sum": Operator(("axis",), 1, _reduce_shape, _sum, _read),
    "mean": Operator(("axis",), 1, _reduce_shape, _mean, _read),
    "softmax": Operator(("axis",), 1, _softmax_shape, _softmax, _read),
    "conv": Operator(("groups", *_WINDOW, "activation"), 2, _conv_shape, _conv, _convolution_products),
    "max_pool": Operator(("window", *_WINDOW), 1, _pool_shape, _max_pool, _pooled),
    "average_pool": Operator(("window", *_WINDOW), 1, _pool_shape, _average_pool, _pooled),
    "enlarge": Operator(("window",), 1, _enlarge_shape, _enlarge, _count),
    "batch_norm": Operator((), 5, _norm_shape, _norm, _count),
    "zeros": Operator((), 1, _map_shape, _zeros, _nothing),
    "ones": Operator((), 1, _map_shape, _ones, _nothing),
    "eye": Operator(("size",), 0, _eye_shape, _eye, _nothing),
    "kernel_eye": Operator(("window", "size"), 0, _kernel_eye_shape, _kernel_eye, _nothing),
    "pool_kernel": Operator(("window", "size"), 0, _pool_kernel_shape, _pool_kernel, _nothing),
}
