"""Random expressions over TensorFlow's elementwise, comparing, logical and reducing operations, on the numbers where
rewriting goes wrong: NaN, infinities, zeros of both signs, denormals, huge and tiny numbers, integers at their limits.

An expression is the text of Python code over `x` and `y`; a function returns a dozen of them. So a failure is shown as
a program that anybody can run.
"""

from __future__ import annotations

import dataclasses
import random
import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int64", "int8", "uint8", "int16")
LENGTH = 4

_UNARY = {
    "float": (
        "tf.abs({0})", "-{0}", "tf.sign({0})", "tf.exp({0})", "tf.math.expm1({0})", "tf.math.log({0})",
        "tf.math.log1p({0})", "tf.sqrt({0})", "tf.math.rsqrt({0})", "tf.square({0})", "tf.math.reciprocal({0})",
        "tf.sin({0})", "tf.cos({0})", "tf.tanh({0})", "tf.sigmoid({0})", "tf.math.erf({0})", "tf.floor({0})",
        "tf.math.ceil({0})", "tf.round({0})", "tf.math.rint({0})", "tf.nn.softplus({0})", "tf.nn.softsign({0})",
        "tf.nn.relu({0})", "tf.nn.relu6({0})", "tf.nn.elu({0})", "tf.nn.selu({0})", "tf.nn.leaky_relu({0}, 2.0)",
        "tf.nn.softmax({0})", "tf.nn.log_softmax({0})", "tf.math.log(tf.nn.softmax({0}))", "{0} ** 2", "{0} ** 0.5",
        "{0} ** -0.5", "{0} ** -1.0", "{0} ** 3", "{0} ** 1", "{0} ** 0", "tf.math.log(1.0 + {0})", "tf.exp({0}) - 1.0",
        "1.0 / tf.sqrt({0})", "0.0 - {0}", "{0} - 0.0", "{0} + 0.0", "{0} * 1.0", "{0} * 0.0", "{0} / 1.0",
        "1.0 / {0}", "0.0 / {0}", "{0} / {0}", "{0} - {0}", "tf.reverse({0}, [0])", "tf.zeros_like({0}) * {0}",
        "tf.ones_like({0}) * {0}",
    ),
    "int": (
        "tf.abs({0})", "-{0}", "tf.sign({0})", "tf.square({0})", "tf.bitwise.invert({0})", "{0} * 1", "{0} * 0",
        "{0} + 0", "0 - {0}", "{0} - {0}", "{0} // 1", "tf.reverse({0}, [0])", "-(-{0})",
    ),
    "bool": ("~{0}", "tf.logical_not({0})", "tf.logical_not(tf.logical_not({0}))", "{0} & True", "{0} | False"),
}  # fmt: skip
_BINARY = {
    "float": (
        "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} // {1}", "{0} % {1}", "tf.math.truediv({0}, {1})",
        "tf.raw_ops.TruncateDiv(x={0}, y={1})", "tf.raw_ops.TruncateMod(x={0}, y={1})", "tf.maximum({0}, {1})",
        "tf.minimum({0}, {1})", "tf.math.squared_difference({0}, {1})", "tf.math.divide_no_nan({0}, {1})",
        "tf.math.multiply_no_nan({0}, {1})", "tf.math.xdivy({0}, {1})", "tf.math.xlogy({0}, {1})", "tf.pow({0}, {1})",
        "tf.atan2({0}, {1})", "tf.add_n([{0}, {1}, {0}])", "tf.add_n([{0}, {1}])", "({0} + {1}) - {1}",
        "({0} * {1}) / {1}", "{0} * {1} + {0} * {2}", "{0} / {1} + {2} / {1}", "tf.maximum({0} * {c}, {0})",
        "({0} + {c}) - {1}", "({0} * {c}) * {1}", "({0} / {c}) / {1}", "{c} * ({c} + {0})", "-{0} + {1}",
        "tf.where({0} > {1}, {0}, {2})", "{0} + (-{1})", "tf.concat([tf.exp({0})[:2], tf.exp({1})[2:]], 0)",
        "tf.sqrt({0}) / tf.sqrt({1})", "{0} / tf.sqrt({1})",
    ),
    "int": (
        "{0} + {1}", "{0} - {1}", "{0} * {1}", "tf.maximum({0}, {1})", "tf.minimum({0}, {1})",
        "tf.bitwise.bitwise_and({0}, {1})", "tf.bitwise.bitwise_or({0}, {1})", "tf.bitwise.bitwise_xor({0}, {1})",
        "tf.bitwise.left_shift({0}, tf.bitwise.bitwise_and({1}, 3))", "{0} // ({1} | 1)", "{0} % ({1} | 1)",
        "tf.truncatediv({0}, {1} | 1)", "tf.truncatemod({0}, {1} | 1)", "{0} // {p} + {1} // {p}",
        "{0} * {1} + {0} * {2}", "({0} + {p}) - {1}", "tf.add_n([{0}, {1}, {2}])", "-{0} + {1}",
        "tf.where({0} > {1}, {0}, {2})",
    ),
    "bool": ("{0} & {1}", "{0} | {1}", "tf.math.logical_xor({0}, {1})", "tf.equal({0}, {1})"),
}  # fmt: skip
_COMPARISONS = ("{0} > {1}", "{0} >= {1}", "{0} < {1}", "{0} <= {1}", "tf.equal({0}, {1})", "tf.not_equal({0}, {1})")
_PREDICATES = ("tf.math.is_nan({0})", "tf.math.is_inf({0})", "tf.math.is_finite({0})")
_REDUCTIONS = {
    "float": ("sum", "mean", "prod", "max", "min", "logsumexp"),
    "int": ("sum", "prod", "max", "min"),
    "bool": ("any", "all"),
}  # fmt: skip
_AXES = ("", ", axis=0", ", axis=[]", ", axis=0, keepdims=True")
_MOVED = (
    "tf.reshape(tf.reshape({0}, [2, 2]), [4])", "tf.transpose(tf.transpose(tf.reshape({0}, [2, 2])))[0]",
    "tf.identity({0})", "tf.tile({0}[:2], [2])", "tf.stack([{0}, {0}])[1]", "tf.squeeze(tf.expand_dims({0}, 0), 0)",
    "tf.split({0}, 1)[0]", "tf.pad({0}[1:3], [[1, 1]])", "tf.reverse(tf.reverse({0}, [0]), [0])",
)  # fmt: skip


def kind_of(dtype: str) -> str:
    """Returns "float", "int" or "bool"."""
    return "float" if dtype in FLOATS else "bool" if dtype == "bool" else "int"


def special_values(dtype: str) -> list[Any]:
    """Returns the numbers of a dtype that are worth trying."""
    if dtype == "bool":
        return [True, False]
    kind = tf.as_dtype(dtype)
    if kind.is_integer:
        limits = np.iinfo(kind.as_numpy_dtype)
        return [0, 1, 2, 3, 5, 7, limits.max, limits.min, limits.max - 1, *([-1, -2, -3, -7] if limits.min else [])]
    # The limits of bfloat16 are those of float32, but for its few digits.
    tiny, huge = {"float16": (6e-8, 6e4), "float64": (5e-320, 1.7e308)}.get(dtype, (1e-42, 3.3e38))
    ordinary = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 0.1, -0.7, 10.0]
    return [*ordinary, np.inf, -np.inf, np.nan, tiny, -tiny, huge, -huge, 1.0 / huge]


@dataclasses.dataclass
class Writer:
    """Writes expressions over `x` and `y`, of one dtype and shape [4].

    Args:
        draw: where choices come from.
        dtype: of both arguments.
    """

    draw: random.Random
    dtype: str

    def expression(self, depth: int) -> str:
        """Returns one of the dtype of the arguments, or of truth values, or a reduction of one of them."""
        which = self.draw.random()
        if which < 0.25:
            return self.truth(depth)
        if which < 0.45:
            return self.reduction(depth)
        return self.value(depth)

    def value(self, depth: int) -> str:
        """Returns an expression of the dtype of the arguments, of shape [4]."""
        kind = kind_of(self.dtype)
        if depth == 0:
            return self.draw.choice(["x", "y", "x", "y", f"c([{', '.join([self.constant()] * LENGTH)}])"])
        which = self.draw.random()
        if which < 0.1:
            return self.draw.choice(_MOVED).format(self.value(depth - 1))
        if which < 0.2:
            return f"tf.where({self.truth(depth - 1)}, {self.value(depth - 1)}, {self.value(depth - 1)})"
        if which < 0.3:
            return (
                f"({self.reduction(depth - 1)} + {self.value(depth - 1)})" if kind != "bool" else self.truth(depth - 1)
            )
        if which < 0.6:
            return f"({self.draw.choice(_UNARY[kind]).format(self.value(depth - 1))})"
        return self.binary(self.draw.choice(_BINARY[kind]), depth)

    def binary(self, text: str, depth: int) -> str:
        parts = [self.value(depth - 1), self.value(depth - 1), self.value(depth - 1)]
        if self.draw.random() < 0.3:
            parts[self.draw.randrange(2)] = self.constant(is_tensor=True)
        positive = str(self.draw.choice([1, 2, 3]))
        return f"({text.format(*parts, c=self.constant(is_tensor=True), p=f'c({positive})')})"

    def truth(self, depth: int) -> str:
        """Returns an expression of truth values, of shape [4]."""
        if self.dtype == "bool":
            return self.value(depth)
        below = max(depth - 1, 0)
        which = self.draw.random()
        if which < 0.3:
            negation = self.draw.choice(["~({0})", "tf.logical_not({0})", "(({0}) & ({0}))"])
            return negation.format(self.truth(below) if depth > 1 else self.comparison(0))
        if which < 0.4 and kind_of(self.dtype) == "float":
            return self.draw.choice(_PREDICATES).format(self.value(below))
        return self.comparison(below)

    def comparison(self, depth: int) -> str:
        other = self.constant(is_tensor=True) if self.draw.random() < 0.5 else self.value(depth)
        return f"({self.draw.choice(_COMPARISONS).format(self.value(depth), other)})"

    def reduction(self, depth: int) -> str:
        """Returns a reduction of an expression, of the same dtype."""
        name, axis = self.draw.choice(_REDUCTIONS[kind_of(self.dtype)]), self.draw.choice(_AXES)
        return f"tf.reduce_{name}({self.value(max(depth - 1, 0))}{axis})"

    def constant(self, is_tensor: bool = False) -> str:
        values = special_values(self.dtype)
        if (
            self.dtype == "bfloat16"
        ):  # eagerly TensorFlow makes 0 of a constant that is denormal, in a graph it does not
            values = [value for value in values if not 0 < abs(value) < 1e-38]
        if is_tensor:  # TensorFlow keeps scalars that it was given, and takes -0.0 for 0.0 then
            values = [value for value in values if value or not np.signbit(value)]
        value = self.draw.choice(values)
        text = repr(value) if np.isfinite(value) else f'float("{value}")'
        return f"c({text})" if is_tensor else text


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of two tensors that returns the results of its expressions, and its text.

    Attributes:
        rows: its expressions; for a function with gradients followed by `gradient of ...` for those that have one.
        text: a module that defines it as `f`.
    """

    rows: tuple[str, ...]
    text: str


def write(seed: int, dtype: str, count: int, *, without: str = "", gradients: bool = False) -> Function:
    """Returns a function of so many random expressions.

    Args:
        without: a regular expression for what no expression may have.
        gradients: whether it also returns the gradients of each result of floats, with respect to both arguments.
    """
    writer = Writer(random.Random(f"{seed} {dtype}"), dtype)
    without = "|".join(filter(None, [without, "TruncateMod" if gradients else ""]))  # it has no gradient
    head = f"import tensorflow as tf\n\n\ndef c(value):\n    return tf.constant(value, tf.{dtype})\n\n\n"
    rows: list[str] = []
    while len(rows) < count:
        row = writer.expression(writer.draw.randint(1, 3))
        if not (without and re.search(without, row)) and _can_run(head, row, dtype):
            rows.append(row)
    results = "".join(f"    {row},\n" for row in rows)
    if not gradients:
        return Function(tuple(rows), f"{head}def f(x, y):\n    return [\n{textwrap.indent(results, '    ')}    ]\n")
    text = f"""{head}def f(x, y):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        results = [
{textwrap.indent(results, " " * 8)}        ]
    floats = [result for result in results if result.dtype.is_floating]
    return results, [tape.gradient(result, [x, y], unconnected_gradients="zero") for result in floats]
"""
    return Function(tuple(rows), text)


def _can_run(head: str, row: str, dtype: str) -> bool:
    """Checks that shapes fit each other, and that there are kernels for the dtype."""
    names: dict[str, Any] = {}
    exec(head, names)
    x, y = arguments(0, dtype, 1)[0]
    try:
        eval(row, names, {"x": x, "y": y})
    except (
        tf.errors.InvalidArgumentError,
        tf.errors.NotFoundError,
        tf.errors.UnimplementedError,
        TypeError,
        ValueError,
    ):
        return False
    return True


def arguments(seed: int, dtype: str, count: int) -> list[list[tf.Tensor]]:
    """Returns so many pairs of arguments."""
    draw, values = random.Random(f"arguments {seed} {dtype}"), special_values(dtype)
    return [[tf.constant(draw.choices(values, k=LENGTH), dtype) for _ in "xy"] for _ in range(count)]


def as_array(value: Any) -> np.ndarray:
    """Returns the array of a tensor; NumPy does not take one of a tensor of no dimensions in all dtypes."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def as_bits(tensor: Any) -> np.ndarray:
    """Returns what of a tensor must be the same: its bits, those of all NaN being alike."""
    array = as_array(tensor)
    if array.dtype.kind not in "fV" and array.dtype.name != "bfloat16":
        return array
    wide = array.astype(np.float64)  # exact for all of them
    return np.where(np.isnan(wide), np.uint64(0x7FF8 << 48), wide.view(np.uint64))


def ulps_apart(one: Any, other: Any) -> float:
    """Returns how far two tensors are apart, in units in the last place; infinity where a special value differs."""
    first, second = (as_array(tensor) for tensor in (one, other))
    if first.shape != second.shape or first.dtype != second.dtype:
        return np.inf
    if np.array_equal(as_bits(first), as_bits(second)):
        return 0.0
    if first.dtype.kind not in "fV" and first.dtype.name != "bfloat16":
        return np.inf
    return max(map(_ulps, first.reshape(-1), second.reshape(-1)))


def _ulps(one: Any, other: Any) -> float:
    if (np.isnan(one) and np.isnan(other)) or one == other:
        is_same_zero = one != 0 or np.signbit(one) == np.signbit(other)
        return 0.0 if is_same_zero else np.inf
    if not (np.isfinite(one) and np.isfinite(other)) or np.signbit(one) != np.signbit(other):
        return np.inf
    unit = np.spacing(np.abs(other), dtype=other.dtype) if other.dtype.kind == "f" else abs(float(other)) * 2.0**-8
    return float(abs(float(one) - float(other)) / max(float(unit), 1e-320))


def differences(
    function: Function, got: Any, wanted: Any, are_same: Callable[[str, Any, Any], bool] | None = None
) -> list[str]:
    """Returns a line for each result of a function that is not what it should be.

    Args:
        are_same: compares the results of an expression; by default bit by bit.
    """
    are_same = are_same or (lambda _, one, other: ulps_apart(one, other) == 0)
    pairs = list(zip(tf.nest.flatten(got), tf.nest.flatten(wanted), strict=True))
    floats = [row for row, (_, other) in zip(function.rows, pairs, strict=False) if other.dtype.is_floating]
    names = [*function.rows, *(f"gradient of {row}" for row in floats for _ in "xy")][: len(pairs)]
    return [
        f"{name}: {as_array(one)} where eager execution gives {as_array(other)}"
        for name, (one, other) in zip(names, pairs, strict=True)
        if not are_same(name, one, other)
    ]
