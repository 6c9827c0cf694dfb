"""Operations that cells are made of, as functions of one row, each with the shapes of what it is given.

An input is a shape in letters, each a dimension drawn by the test ("1" is one): "ab" is a float matrix. A sign in front
says which values: "+" positive, "~" between -0.9 and 0.9, "?" bool, "%" int32, "#ab<c" int32 from 0 up to dimension c,
"!ab" distinct floats.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Case:
    """An operation.

    Attributes:
        by_row: operations that have no batched form, in the values or the gradients, where some inputs have rows.
        by_row_unknown: such that have none where shapes are not known.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    by_row: tuple[str, ...] = ()
    by_row_unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


CASES: list[Case] = []


def case(name: str, function: Callable[..., Any], *inputs: str, by_row: str = "", unknown: str = "") -> None:
    """Adds a case; operations without a batched form are named in a string."""
    CASES.append(Case(name, function, inputs, tuple(by_row.split()), tuple(unknown.split())))


# Elementwise.

for _name in [
    "abs",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "lgamma",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softplus",
    "softsign",
    "square",
    "tan",
    "tanh",
]:
    case(_name, getattr(tf.math, _name), "ab")
for _name in ["log", "log1p", "reciprocal", "rsqrt", "sqrt", "bessel_i0e", "bessel_i1e"]:
    case(_name, getattr(tf.math, _name), "+ab")
for _name in ["acos", "asin", "atan", "atanh", "asinh", "erfinv", "log_sigmoid", "ceil", "floor", "round", "rint"]:
    case(_name, getattr(tf.math, _name), "~ab")
case("acosh", lambda x: tf.acosh(1.0 + x), "+ab")
for _name in [
    "relu",
    "relu6",
    "elu",
    "selu",
    "crelu",
    "gelu",
    "silu",
    "leaky_relu",
    "l2_normalize",
    "softmax",
    "log_softmax",
]:
    case(_name, getattr(tf.nn, _name), "ab")
for _name in ["is_nan", "is_inf", "is_finite"]:
    case(_name, getattr(tf.math, _name), "ab")
case("scalar", lambda x: tf.tanh(x) * x - 1.0, "")
case("cast", lambda x: (tf.cast(x, tf.int32), tf.cast(x, tf.float64)), "ab")
case("cast_bool", lambda x: tf.cast(x, tf.float32), "?ab")
case("logical_not", tf.logical_not, "?ab")
case("zeros_and_ones_like", lambda x: (tf.zeros_like(x), tf.ones_like(x), x + tf.ones_like(x)), "ab")
case("stop_gradient", lambda x: tf.stop_gradient(x) * x, "ab")
case("clip_by_value", lambda x: tf.clip_by_value(x, -0.5, 0.5), "ab")
case("clip_by_norm", lambda x: tf.clip_by_norm(x, 0.7), "ab")
case("ensure_shape", lambda x: tf.ensure_shape(x, [None, None]), "ab")
case("complex", lambda x, y: tf.abs(tf.complex(x, y)), "ab", "ab")

for _name in ["add", "subtract", "multiply", "maximum", "minimum", "squared_difference", "atan2"]:
    for _shapes in (("ab", "ab"), ("ab", "b"), ("", "ab"), ("a1", "1b"), ("b", "cab")):
        case(f"{_name} {_shapes}", getattr(tf.math, _name), *_shapes)
for _name in ["divide", "divide_no_nan", "pow", "xlogy", "xdivy", "xlog1py", "floordiv", "floormod"]:
    case(_name, getattr(tf.math, _name), "+ab", "+b")
for _name in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]:
    case(_name, getattr(tf.math, _name), "%ab", "%b")
for _name in ["logical_and", "logical_or", "logical_xor"]:
    case(_name, getattr(tf.math, _name), "?ab", "?1b")
for _name in ["add", "subtract", "multiply", "floordiv", "floormod"]:
    case(f"{_name} of integers", getattr(tf.math, _name), "%ab", "#b<c" if "floor" not in _name else "%b")
case("add_n", lambda *xs: tf.add_n(xs), "ab", "ab", "ab")
case("multiply_no_nan", tf.math.multiply_no_nan, "ab", "ab")
case("where", tf.where, "?ab", "ab", "ab")
case("where by a vector", tf.where, "?a1", "ab", "b")
case("where by a scalar", tf.where, "?", "ab", "")
case("select", lambda c, x, y: tf.raw_ops.Select(condition=c, x=x, y=y), "?ab", "ab", "ab")
case("bias_add", tf.nn.bias_add, "ab", "b")
case("bias_add of more dimensions", tf.nn.bias_add, "abc", "c")
case("dropout mask", lambda x, m: x * tf.cast(m > 0.3, x.dtype) / 0.7, "ab", "ab")
case("betainc", lambda a, b, x: tf.math.betainc(a, b, tf.stop_gradient(x / (1.0 + x))), "+ab", "+ab", "+ab")
case("igamma", lambda a, x: tf.math.igamma(tf.stop_gradient(a), x), "+ab", "+ab")
case("zeta", lambda x, q: tf.math.zeta(tf.stop_gradient(x + 2.0), q), "+ab", "+ab")
case("accumulate_n", lambda x, y: tf.math.accumulate_n([x, y]), "ab", "ab")
case("bitwise", lambda x, y: (tf.bitwise.bitwise_and(x, y), tf.bitwise.invert(x)), "%ab", "%ab")
case("as_string", tf.strings.as_string, "%ab")
case("string_join", lambda x: tf.strings.join([tf.strings.as_string(x), "!"]), "%ab")
case("string_to_hash_bucket", lambda x: tf.strings.to_hash_bucket_fast(tf.strings.as_string(x), 10), "%ab")
case("string_length", lambda x: tf.strings.length(tf.strings.as_string(x)), "%ab")
case("string_to_number", lambda x: tf.strings.to_number(tf.strings.as_string(x)), "%ab")

# Reductions.

AXES = (None, 0, -1, [0, 2], [-1, -2])
for _name in ["sum", "mean", "max", "min", "prod", "logsumexp", "euclidean_norm", "std", "variance"]:
    _reduce = getattr(tf.math, f"reduce_{_name}")
    case(_name, lambda x, r=_reduce: [r(x, axis) for axis in AXES], "!abc")
    case(f"{_name}, dimensions kept", lambda x, r=_reduce: [r(x, axis, keepdims=True) for axis in AXES], "!abc")
case("sum of nothing", lambda x: tf.reduce_sum(x, []), "ab")
case("sum over one", lambda x: tf.reduce_sum(x, 0), "1b")
case("mean over one, kept", lambda x: tf.reduce_mean(x, 1, keepdims=True), "a1")
case("all and any", lambda x: (tf.reduce_all(x, 1), tf.reduce_any(x, -1, keepdims=True), tf.reduce_all(x)), "?ab")
case("argmax", lambda x: (tf.argmax(x, 0), tf.argmin(x, -1, tf.int32), tf.argmax(x, 1)), "!ab")
case("cumsum", lambda x: (tf.cumsum(x, 0), tf.cumsum(x, -1, exclusive=True, reverse=True)), "ab")
case("cumprod", lambda x: tf.math.cumprod(x, 1), "+ab")
case("cumulative_logsumexp", lambda x: tf.math.cumulative_logsumexp(x, 1), "ab")
case("norm", lambda x: (tf.norm(x), tf.norm(x, axis=-1)), "ab")
case("global_norm", lambda x, y: tf.linalg.global_norm([x, y]), "ab", "c")
case("l2_loss", tf.nn.l2_loss, "ab")
case("moments", lambda x: tf.nn.moments(x, [1], keepdims=True), "ab")
case("count_nonzero", lambda x: tf.math.count_nonzero(x > 0, 1), "ab")
case("top_k", lambda x: tf.math.top_k(x, 1), "!ab")
case("sort", lambda x: (tf.sort(x), tf.sort(x, 0, "DESCENDING")), "!ab")
case("argsort", lambda x: tf.argsort(x, 0), "!ab")
case("segment sums", lambda x, i: tf.math.unsorted_segment_sum(x, i - 1, 3), "ab", "#a<a")
case("segment maxima", lambda x, i: tf.math.unsorted_segment_max(x, i - 1, 3), "!ab", "#a<a")

# Products.

for _a in (False, True):
    for _b in (False, True):
        case(
            f"matmul {_a} {_b}",
            lambda x, y, a=_a, b=_b: tf.matmul(x, y, transpose_a=a, transpose_b=b),
            "ba" if _a else "ab",
            "cb" if _b else "bc",
        )
        case(
            f"batch_matmul {_a} {_b}",
            lambda x, y, a=_a, b=_b: tf.matmul(x, y, transpose_a=a, adjoint_b=b),
            "dba" if _a else "dab",
            "dcb" if _b else "dbc",
        )
case("a row by a matrix", tf.matmul, "1a", "ab")
case("a column by a row", tf.matmul, "a1", "1b")
case("a column transposed", lambda x, y: tf.matmul(x, y, transpose_a=True), "a1", "ab")
case("a row transposed", lambda x, y: tf.matmul(x, y, transpose_a=True), "1a", "1b")
case("an outer product of a row with itself", lambda x: tf.matmul(x, x, transpose_a=True), "1a")
case("batch_matmul, batch of one", tf.matmul, "1ab", "dbc")
case("batch_matmul, ranks differ", tf.matmul, "ab", "dbc")
case("matvec", tf.linalg.matvec, "ab", "b")
case("matvec transposed", lambda x, y: tf.linalg.matvec(x, y, transpose_a=True), "ba", "b")
case("tensordot 1", lambda x, y: tf.tensordot(x, y, 1), "ab", "bc")
case("tensordot of vectors", lambda x, y: tf.tensordot(x, y, 1), "a", "a")
case("tensordot axes", lambda x, y: tf.tensordot(x, y, [[0, 2], [1, 0]]), "abc", "cad")
for _equation in [
    "ij,jk->ik",
    "ij,kj->ik",
    "i,i->",
    "i,j->ij",
    "ij,ij->i",
    "bij,bjk->bik",
    "bhi,hij->bhj",
    "ij->ji",
    "ijk->j",
    "ii->i",
]:
    _sources = _equation.split("->")[0].split(",")
    case(f"einsum {_equation}", lambda *xs, e=_equation: tf.einsum(e, *xs), *_sources)
case("einsum ...ij,jk->...ik", lambda x, y: tf.einsum("...ij,jk->...ik", x, y), "abc", "cd")
case("bilinear form", lambda x, w, y: tf.einsum("i,kij,j->k", x, w, y), "a", "bac", "c")
case("outer product of a batch", lambda x, y: x[:, :, None] * y[:, None, :], "ab", "ac")
case(
    "conv1d by fixed weights",
    lambda x: tf.nn.conv1d(x[None], tf.ones([3, 2, 4]), 1, "SAME")[0],
    "a2",
    by_row="Conv2DBackpropFilter",
)
case(
    "conv1d",
    lambda x, w: tf.nn.conv1d(x[None], w, 1, "SAME")[0],
    "ab",
    "3bc",
    by_row="Conv2D Conv2DBackpropInput Conv2DBackpropFilter",
)
case(
    "conv2d",
    lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"),
    "1abc",
    "33cd",
    by_row="Conv2D Conv2DBackpropInput Conv2DBackpropFilter",
)
case("max_pool", lambda x: tf.nn.max_pool1d(x[None], 2, 1, "SAME")[0], "!ab")
case("avg_pool", lambda x: tf.nn.avg_pool1d(x[None], 2, 1, "SAME")[0], "ab")

# Shapes.

case("reshape", lambda x: tf.reshape(x, [-1]), "ab")
case("reshape to a shape", lambda x: tf.reshape(x, [tf.shape(x)[1], tf.shape(x)[0]]), "ab")
case("reshape, one dimension not said", lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), "abc")
case("reshape like another", lambda x, y: tf.reshape(x, tf.shape(y)), "ab", "ba")
case(
    "expand_dims", lambda x: (tf.expand_dims(x, 0), tf.expand_dims(x, 1), tf.expand_dims(x, -1), x[None, :, None]), "ab"
)
case("squeeze", lambda x: (tf.squeeze(x, [0]), tf.squeeze(x, [-1]), tf.squeeze(x, [0, 2])), "1a1")
case("squeeze everything", tf.squeeze, "131", unknown="Squeeze AddV2")
case("transpose", lambda x: (tf.transpose(x), tf.transpose(x, [1, 2, 0])), "abc")
case("matrix_transpose", tf.linalg.matrix_transpose, "abc")
case("shape", lambda x: (tf.shape(x), tf.size(x), tf.rank(x), tf.shape_n([x, x])), "ab")
case("fill", lambda x, v: tf.fill(tf.shape(x), v), "ab", "")
case("broadcast_to", lambda x: tf.broadcast_to(x, [3, tf.shape(x)[0], tf.shape(x)[1]]), "a1")
case("zeros of a shape", lambda x: tf.zeros([tf.shape(x)[0], 2]) + x[:, :1], "ab")
case("tile", lambda x: tf.tile(x, [2, 3]), "ab")
case("repeat", lambda x: tf.repeat(x, 2, 1), "ab")
case("concat", lambda x, y: tf.concat([x, y], 1), "ab", "ac")
case("concat of rows", lambda x, y: tf.concat([x, y, x], 0), "ab", "cb")
case("concat, negative axis", lambda x, y: tf.concat([x, y], -1), "ab", "ac")
case("concat of vectors", lambda x, y: tf.concat([x, y], 0), "a", "b")
case("split", lambda x: tf.split(tf.concat([x, x], 1), 2, 1), "ab")
case("split, negative axis", lambda x: tf.split(tf.concat([x, x], 1), 2, -1), "ab")
case("split by sizes", lambda x: tf.split(tf.pad(x, [[0, 0], [1, 2]]), [1, 2, -1], 1), "ab")
case("stack", lambda x, y: (tf.stack([x, y]), tf.stack([x, y], 1), tf.stack([x, y], -1)), "ab", "ab")
case("stack of scalars", lambda x, y: tf.stack([x, y]), "", "")
case("unstack", lambda x: (tf.unstack(x, 3, 0), tf.unstack(x, 3, -1)), "33")
case("pad", lambda x: tf.pad(x, [[1, 0], [2, 1]], constant_values=0.5), "ab")
case("pad by mirroring", lambda x: tf.pad(x, [[0, 0], [1, 1]], "SYMMETRIC"), "ab")
case("reverse", lambda x: tf.reverse(x, [-1]), "ab")
case("roll", lambda x: tf.roll(x, 1, 1), "ab")
case("reverse_sequence", lambda x, n: tf.reverse_sequence(x, n, seq_axis=1), "ab", "#a<b")
case("meshgrid", lambda x, y: tf.meshgrid(x, y), "a", "b")

# Slices and lookups.

case("slices", lambda x: (x[0], x[-1], x[:, 0], x[..., -1], x[0, 0], x[1:], x[:, :-1], x[::-1], x[:, None]), "ab")
case("slice", lambda x: tf.slice(x, [0, 1], [-1, 1]), "a3")
case("element", lambda x, i: x[i], "ab", "#<a")
case("element of a vector", lambda x, i: x[i], "a", "#<a")
case("element from behind", lambda x, i: x[-1 - i], "ab", "#<a")
case("element of both", lambda x, i, j: x[i, j], "abc", "#<a", "#<b")
case("column", lambda x, i: x[:, i], "abc", "#<b")
case("element and a slice", lambda x, i: x[i, 1:], "abc", "#<a", by_row="StridedSlice StridedSliceGrad")
case("element and more dimensions", lambda x, i: (x[i, None], x[..., None, i], x[None, i, :]), "aa", "#<a")
case("slice at a computed place", lambda x, i: tf.slice(x, [i, 0], [1, 2]), "a3", "#<a", by_row="Slice Pad")
case("gather", tf.gather, "ab", "#c<a")
case("gather one", tf.gather, "ab", "#<a")
case("gather many", tf.gather, "ab", "#cd<a")
case("gather along an axis", lambda x, i: tf.gather(x, i, axis=1), "abc", "#d<b")
case("gather along the last axis", lambda x, i: tf.gather(x, i, axis=-1), "ab", "#<b")
case("gather with batch_dims", lambda x, i: tf.gather(x, i, batch_dims=1), "abc", "#ad<b", by_row="GatherV2")
case("gather_nd", lambda x, i: tf.gather_nd(x, i[:, None]), "ab", "#c<a")
case("gather_nd of points", lambda x, i, j: tf.gather_nd(x, tf.stack([i, j], 1)), "abc", "#d<a", "#d<b")
case("embedding_lookup", tf.nn.embedding_lookup, "ab", "#c<a")
case("one_hot", lambda i: (tf.one_hot(i, 4), tf.one_hot(i, 3, 2.0, -1.0, axis=0)), "#ab<c")
case("scatter_nd", lambda x, i: tf.scatter_nd(i[:, None], x, [5, 2]), "a2", "#a<a")
for _name in ["update", "add", "sub"]:
    _scatter = getattr(tf, f"tensor_scatter_nd_{_name}")
    case(f"tensor_scatter_nd_{_name}", lambda x, i, v, s=_scatter: s(x, i[None, None], v[None]), "ab", "#<a", "b")
for _name in ["max", "min"]:
    _scatter = getattr(tf, f"tensor_scatter_nd_{_name}")
    case(f"tensor_scatter_nd_{_name}", lambda x, i, v, s=_scatter: s(x, i[None, None], v[None]), "!ab", "#<a", "!b")
case("boolean mask as weights", lambda x, m: tf.reduce_sum(tf.where(m[:, None], x, 0.0), 0), "ab", "?a")
case("sequence_mask", lambda n: tf.sequence_mask(n, 4), "#a<b")
case("searchsorted", lambda x, v: tf.searchsorted(tf.sort(x), v), "!a", "b")
case("bucketize", lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.0]), "ab")

# Losses, norms, compositions.

case(
    "sparse cross entropy",
    lambda s, t: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=s),
    "ab",
    "#a<b",
)
case(
    "sparse cross entropy of a vector",
    lambda s, t: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=s),
    "b",
    "#<b",
)
case(
    "cross entropy",
    lambda s, t: tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax(t), logits=s),
    "ab",
    "ab",
)
case(
    "sigmoid cross entropy",
    lambda s, t: tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.sigmoid(t), logits=s),
    "ab",
    "ab",
)
case("softmax over the first axis", lambda x: tf.nn.softmax(x, 0), "ab")
case("log_softmax over the middle axis", lambda x: tf.nn.log_softmax(x, 1), "abc")
case("in_top_k", lambda s, t: tf.math.in_top_k(t, s, 1), "!ab", "#a<b")
case(
    "layer norm",
    lambda x, g, b: (
        (x - tf.reduce_mean(x, -1, keepdims=True))
        * tf.math.rsqrt(tf.math.reduce_variance(x, -1, keepdims=True) + 1e-3)
        * g
        + b
    ),
    "ab",
    "b",
    "b",
)
case(
    "attention",
    lambda q, k, v: tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 2.0) @ v,
    "ab",
    "cb",
    "cd",
)
case("highway", lambda x, w, g: tf.tanh(x @ w) * tf.sigmoid(x @ g) + x * (1.0 - tf.sigmoid(x @ g)), "ab", "bb", "bb")
case("maxout", lambda x, w: tf.reduce_max(tf.reshape(x @ w, [2, 2]), 1), "1a", "a4")
case("straight through", lambda x: x + tf.stop_gradient(tf.round(x) - x), "ab")

# Linear algebra.

case("diag", tf.linalg.diag, "a")
case("diag_part", tf.linalg.diag_part, "ab")
case("set_diag", tf.linalg.set_diag, "aa", "a")
case("trace", tf.linalg.trace, "aa")
case("eye", lambda x: x @ tf.eye(tf.shape(x)[1]), "ab")
case("band_part", lambda x: tf.linalg.band_part(x, -1, 0), "ab")
case("tensor_diag", tf.linalg.tensor_diag, "a")
case("cross", tf.linalg.cross, "a3", "a3")
case("inverse", lambda x: tf.linalg.inv(x + 9.0 * tf.eye(3)), "33")
case("determinant", lambda x: tf.linalg.det(x + 9.0 * tf.eye(3)), "33")
case("solve", lambda x, y: tf.linalg.solve(x + 9.0 * tf.eye(3), y), "33", "3a")
case("cholesky", lambda x: tf.linalg.cholesky(x @ tf.transpose(x) + 9.0 * tf.eye(3)), "33")
case(
    "triangular_solve",
    lambda x, y: tf.linalg.triangular_solve(tf.linalg.band_part(x, -1, 0) + 9.0 * tf.eye(3), y),
    "33",
    "3a",
)
