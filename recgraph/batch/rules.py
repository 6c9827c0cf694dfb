"""The batched forms of operations. `Rows` and `Site` are explained in `vectorize`."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from recgraph.batch.vectorize import IsJoin, NoRule, Rows, Site, expanded, known, reshape_rows, rule, with_rows

_UNARY = """
Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Cast Ceil CheckNumerics Conj Cos Cosh Digamma Elu Erf
Erfc Exp Expm1 Floor Imag Inv Invert IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p LogicalNot Neg OnesLike
Real Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Square Tan Tanh
ZerosLike AsString StringLower StringUpper StringLength StringStrip StringToNumber StringToHashBucketFast
"""
_BINARY = """
Add AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor Div DivNoNan Equal FloorDiv FloorMod Greater
GreaterEqual Igamma LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan NextAfter
NotEqual Polygamma Pow RealDiv RightShift SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlog1py Xlogy
Zeta
"""
# Of two values of one shape: these do not broadcast.
_PAIRWISE = """
ApproximateEqual EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad
SoftplusGrad SoftsignGrad SqrtGrad TanhGrad
"""
# Dtypes of scalars that TensorFlow takes for conditions.
_WITH_TRUTH = (tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.bool, tf.string)
_REDUCTIONS = "All Any Max Mean Min Prod Sum"


@rule(*_UNARY.split(), "Identity", "StopGradient", "PreventGradient")
def _unary(site: Site) -> list[tf.Tensor]:
    return site.same(site.tensors())


@rule(*_BINARY.split())
def _binary(site: Site) -> list[tf.Tensor]:
    rank = max(value.rank for value in site.inputs)
    return site.same([expanded(value, rank) for value in site.inputs])


@rule(*_PAIRWISE.split())
def _pairwise(site: Site) -> list[tf.Tensor]:
    return site.same([with_rows(value, site.count) for value in site.inputs])


@rule("ToBool")
def _to_bool(site: Site) -> tf.Tensor:
    (value,) = site.inputs
    if value.rank > 0:
        return tf.fill(site.count, tf.reduce_prod(tf.shape(value.tensor)[1:]) > 0)
    if value.tensor.dtype not in _WITH_TRUTH:
        raise NoRule(f"ToBool of {value.tensor.dtype.name}")
    return tf.not_equal(value.tensor, tf.zeros([], value.tensor.dtype))


@rule("SelectV2", "Select", "ClipByValue")
def _select(site: Site) -> tf.Tensor:
    rank = max(value.rank for value in site.inputs)
    tensors = [expanded(value, rank) for value in site.inputs]
    if site.node.op == "ClipByValue":
        return tf.clip_by_value(*tensors)
    if site.node.op == "Select" and 0 < site.inputs[0].rank < rank:
        raise NoRule("Select by a vector")
    return tf.where(*tensors)


@rule("AddN")
def _add_n(site: Site) -> tf.Tensor:
    total = tf.add_n([value.tensor for value in site.inputs if value.has_rows])
    for value in site.inputs:
        if not value.has_rows:
            total += value.tensor
    return total


@rule("MatMul")
def _matmul(site: Site) -> tf.Tensor:
    a, b = site.inputs
    adjoint_a, adjoint_b = site.attribute("transpose_a").b, site.attribute("transpose_b").b
    inner = a.shape[0 if adjoint_a else 1]
    if inner == 1 and a.has_rows and b.has_rows:
        return _as_matrix(a, adjoint_a, column=True) * _as_matrix(b, adjoint_b, column=False)
    if a.has_rows and not b.has_rows and (not adjoint_a or 1 in (a.shape[0], a.shape[1])):
        height = a.shape[1 if adjoint_a else 0]
        rows = tf.reshape(a.tensor, [-1, _width(inner, b, adjoint_b)])
        product = tf.matmul(rows, b.tensor, transpose_b=adjoint_b)
        width = b.shape[0 if adjoint_b else 1]
        if height == 1 and width is not None:
            return tf.reshape(product, [-1, 1, width])
        tall = tf.shape(a.tensor)[2 if adjoint_a else 1] if height is None else height
        return tf.reshape(product, [tf.shape(a.tensor)[0], tall, tf.shape(product)[1] if width is None else width])
    return tf.matmul(a.tensor, b.tensor, transpose_a=adjoint_a, transpose_b=adjoint_b)


def _width(inner: int | None, b: Rows, adjoint_b: bool) -> int | tf.Tensor:
    if inner is None:
        inner = b.shape[1 if adjoint_b else 0]
    return tf.shape(b.tensor)[1 if adjoint_b else 0] if inner is None else inner


def _as_matrix(value: Rows, adjoint: bool, column: bool) -> tf.Tensor:
    """A single column or row of every matrix, as it stands in an outer product."""
    if not adjoint:
        return value.tensor
    return reshape_rows(value.tensor, [-1, 1] if column else [1, -1])


@rule("BatchMatMulV2", "BatchMatMul")
def _batch_matmul(site: Site) -> tf.Tensor:
    a, b = site.inputs
    rank = max(a.rank, b.rank)
    return tf.matmul(
        expanded(a, rank), expanded(b, rank), adjoint_a=site.attribute("adj_x").b, adjoint_b=site.attribute("adj_y").b
    )


@rule("BiasAdd")
def _bias_add(site: Site) -> tf.Tensor:
    value, bias = site.inputs
    if site.attribute("data_format").s == b"NCHW":
        raise NoRule("BiasAdd in NCHW")
    if bias.has_rows:
        return value.tensor + expanded(bias, value.rank)
    return tf.nn.bias_add(value.tensor, bias.tensor)


@rule("BiasAddGrad")
def _bias_add_grad(site: Site) -> tf.Tensor:
    (value,) = site.inputs
    if value.rank == 2 and value.shape[0] == 1:
        return tf.reshape(value.tensor, [-1, *value.shape[1:]]) if value.shape[1] else tf.reduce_sum(value.tensor, 1)
    return tf.reduce_sum(value.tensor, list(range(1, value.rank)))


@rule("L2Loss")
def _l2_loss(site: Site) -> tf.Tensor:
    (value,) = site.inputs
    return 0.5 * tf.reduce_sum(tf.square(value.tensor), list(range(1, value.rank + 1)))


def _axes(value: Rows, rank: int) -> np.ndarray:
    """Axes of one row's value as axes of the rows."""
    return np.asarray(known(value, "the axis")) % max(rank, 1) + 1


@rule(*_REDUCTIONS.split())
def _reduction(site: Site) -> list[tf.Tensor]:
    value, axes = site.inputs
    if axes.has_rows:
        raise NoRule(f"{site.node.op} over a computed axis")
    if value.rank == 0:
        return [value.tensor]
    if axes.static is not None:
        positions = np.ravel(_axes(axes, value.rank))
        if site.node.op in ("Sum", "Mean", "Max", "Min", "Prod") and all(value.shape[p - 1] == 1 for p in positions):
            return [_without(site, value, positions)]
        return site.same([value.tensor, tf.constant(positions, axes.tensor.dtype)])
    return site.same([value.tensor, tf.where(axes.tensor < 0, axes.tensor, axes.tensor + 1)])


def _without(site: Site, value: Rows, positions: np.ndarray) -> tf.Tensor:
    """The sum over axes of length one: nothing to add."""
    if site.attribute("keep_dims").b:
        return value.tensor
    shape = [-1 if dim is None else dim for i, dim in enumerate(value.shape) if i + 1 not in positions]
    return reshape_rows(value.tensor, shape) if shape.count(-1) <= 1 else tf.squeeze(value.tensor, positions.tolist())


@rule("ArgMax", "ArgMin")
def _arg(site: Site) -> list[tf.Tensor]:
    value, axis = site.inputs
    return site.same([value.tensor, tf.constant(_axes(axis, value.rank), axis.tensor.dtype)])


@rule("Cumsum", "Cumprod", "ReverseV2")
def _along(site: Site) -> list[tf.Tensor]:
    value, axis = site.inputs
    return site.same([value.tensor, tf.constant(_axes(axis, value.rank), axis.tensor.dtype)])


@rule("Softmax", "LogSoftmax")
def _softmax(site: Site) -> list[tf.Tensor]:
    return site.same(site.tensors())


@rule("SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits")
def _cross_entropy(site: Site) -> list[tf.Tensor]:
    count = site.count
    scores, labels = (with_rows(value, count) for value in site.inputs)
    height, classes = scores.shape[1], scores.shape[2]
    sparse = site.node.op.startswith("Sparse")
    width = tf.shape(scores)[2] if classes is None else classes
    loss, gradient = site.same(
        [tf.reshape(scores, [-1, width]), tf.reshape(labels, [-1]) if sparse else tf.reshape(labels, [-1, width])]
    )
    tall = -1 if height is None else height
    return [
        reshape_rows(loss, [tall], count),
        tf.reshape(gradient, tf.shape(scores) if tall < 0 else [-1, tall, width]),
    ]


@rule("Reshape")
def _reshape(site: Site) -> tf.Tensor:
    value, shape = site.inputs
    if shape.has_rows:
        raise NoRule("Reshape to a computed shape")
    if shape.static is None:
        return reshape_rows(value.tensor, shape.tensor)
    wanted = [int(dim) for dim in shape.static]
    size = value.shape.num_elements()
    if -1 in wanted and size:
        rest = int(np.prod([dim for dim in wanted if dim != -1]))
        wanted = [size // rest if dim == -1 else dim for dim in wanted] if rest else wanted
    return reshape_rows(value.tensor, wanted)


@rule("ExpandDims")
def _expand_dims(site: Site) -> tf.Tensor:
    value, axis = site.inputs
    position = int(known(axis, "the axis"))
    return tf.expand_dims(value.tensor, position if position < 0 else position + 1)


@rule("Squeeze")
def _squeeze(site: Site) -> tf.Tensor:
    (value,) = site.inputs
    axes = [axis % value.rank + 1 for axis in site.attribute("squeeze_dims").list.i]
    if not axes:
        if not value.shape.is_fully_defined():
            raise NoRule("Squeeze of an unknown shape")
        axes = [i + 1 for i, dim in enumerate(value.shape) if dim == 1]
    return tf.squeeze(value.tensor, axes) if axes else value.tensor


@rule("Transpose")
def _transpose(site: Site) -> tf.Tensor:
    value, order = site.inputs
    return tf.transpose(value.tensor, [0, *(int(axis) + 1 for axis in known(order, "the order"))])


@rule("Shape", "Size", "Rank")
def _shape(site: Site) -> Rows:
    (value,) = site.inputs
    dtype = tf.as_dtype(site.attribute("out_type").type or tf.int32.as_datatype_enum)
    if site.node.op == "Rank":
        return Rows(tf.constant(value.rank), False)
    if value.shape.is_fully_defined():
        shape = value.shape.as_list()
        return Rows(tf.constant(shape if site.node.op == "Shape" else int(np.prod(shape)), dtype), False)
    # The rows of one batch are alike in shape, whatever it is.
    shape = tf.shape(value.tensor, out_type=dtype)[1:]
    return Rows(shape if site.node.op == "Shape" else tf.reduce_prod(shape), False)


@rule("ShapeN")
def _shape_n(site: Site) -> list[Rows]:
    dtype = tf.as_dtype(site.attribute("out_type").type)
    made = []
    for value in site.inputs:
        if value.shape.is_fully_defined():
            made.append(Rows(tf.constant(value.shape.as_list(), dtype), False))
        else:
            shape = tf.shape(value.tensor, out_type=dtype)
            made.append(Rows(shape[1:] if value.has_rows else shape, False))
    return made


@rule("Fill", "BroadcastTo")
def _fill(site: Site) -> tf.Tensor:
    value, shape = site.inputs if site.node.op == "BroadcastTo" else site.inputs[::-1]
    if shape.has_rows:
        raise NoRule(f"{site.node.op} to a computed shape")
    rank = shape.tensor.shape[0]
    if rank is None:
        raise NoRule("rank unknown")
    target = tf.concat([site.count, tf.cast(shape.tensor, tf.int32)], 0)
    return tf.broadcast_to(expanded(value, rank), target)


@rule("Pack")
def _pack(site: Site) -> tf.Tensor:
    count = site.count
    rank = site.inputs[0].rank
    axis = site.attribute("axis").i
    return tf.stack([with_rows(value, count) for value in site.inputs], axis % (rank + 1) + 1)


@rule("Unpack")
def _unpack(site: Site) -> list[tf.Tensor]:
    (value,) = site.inputs
    return tf.unstack(value.tensor, site.attribute("num").i, axis=site.attribute("axis").i % value.rank + 1)


@rule("ConcatV2")
def _concat(site: Site) -> tf.Tensor:
    *values, axis = site.inputs
    position = int(known(axis, "the axis")) % values[0].rank
    if position == 0 and any(value.shape[0] is None for value in values):
        raise IsJoin
    count = site.count
    return tf.concat([with_rows(value, count) for value in values], position + 1)


@rule("Split")
def _split(site: Site) -> list[tf.Tensor]:
    axis, value = site.inputs
    return tf.split(value.tensor, site.attribute("num_split").i, int(known(axis, "the axis")) % value.rank + 1)


@rule("SplitV")
def _split_v(site: Site) -> list[tf.Tensor]:
    value, sizes, axis = site.inputs
    if sizes.has_rows:
        raise NoRule("SplitV into computed sizes")
    position = tf.constant(int(known(axis, "the axis")) % value.rank + 1, axis.tensor.dtype)
    return site.same([value.tensor, sizes.tensor, position])


@rule("Slice")
def _slice(site: Site) -> tf.Tensor:
    value, begin, size = site.inputs
    if begin.has_rows or size.has_rows:
        raise NoRule("Slice at a computed place")
    if begin.static is not None and size.static is not None:
        return tf.slice(value.tensor, [0, *begin.static.tolist()], [-1, *size.static.tolist()])
    zero, all_rows = tf.zeros([1], begin.tensor.dtype), tf.constant([-1], size.tensor.dtype)
    return tf.slice(value.tensor, tf.concat([zero, begin.tensor], 0), tf.concat([all_rows, size.tensor], 0))


def _masks(site: Site) -> dict[str, tf.compat.v1.AttrValue]:
    """The masks of a StridedSlice with one more dimension in front, which is taken whole."""
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    masks = {f"{name}_mask": site.attribute(f"{name}_mask").i << 1 for name in names}
    masks["begin_mask"] |= 1
    masks["end_mask"] |= 1
    return {name: tf.compat.v1.AttrValue(i=mask) for name, mask in masks.items()}


@rule("StridedSlice")
def _strided_slice(site: Site) -> list[tf.Tensor]:
    value, begin, end, strides = site.inputs
    if any(part.has_rows for part in (begin, end, strides)):
        if (
            not value.has_rows
            or site.attribute("shrink_axis_mask").i == 1
            and begin.shape == [1]
            and strides.static is not None
        ):
            return [_element(site, value, begin)]
        raise NoRule("StridedSlice at a computed place")
    front = tf.zeros([1], begin.tensor.dtype)
    ones = tf.ones([1], begin.tensor.dtype)
    return site.same(
        [
            value.tensor,
            *(tf.concat([lead, part.tensor], 0) for lead, part in ((front, begin), (front, end), (ones, strides))),
        ],
        **_masks(site),
    )


def _element(site: Site, value: Rows, begin: Rows) -> tf.Tensor:
    """`value[i]` with a computed `i`: a lookup."""
    if site.attribute("shrink_axis_mask").i != 1 or begin.shape != [1] or site.attribute("ellipsis_mask").i:
        raise NoRule("StridedSlice at a computed place")
    index = begin.tensor[:, 0]
    size = tf.shape(value.tensor)[1 if value.has_rows else 0]
    index = tf.where(index < 0, index + tf.cast(size, index.dtype), index)
    return tf.gather(value.tensor, index, batch_dims=1) if value.has_rows else tf.gather(value.tensor, index)


@rule("GatherV2", "Gather", "ResourceGather")
def _gather(site: Site) -> tf.Tensor | list[tf.Tensor]:
    table, indices = site.inputs[:2]
    if site.node.op == "ResourceGather":
        return site.same(site.tensors())
    axis = int(known(site.inputs[2], "the axis")) if len(site.inputs) == 3 else 0
    inner = site.attribute("batch_dims").i
    if not table.has_rows:
        if inner:
            raise NoRule("Gather of a shared table with batch_dims")
        axis %= max(table.rank, 1)
        if axis == 0:
            return tf.gather(table.tensor, indices.tensor)
        raise NoRule("Gather of a shared table along another axis")
    axis = axis % table.rank + 1
    if not indices.has_rows:
        return tf.gather(table.tensor, indices.tensor, axis=axis, batch_dims=0) if not inner else _no("batch_dims")
    return tf.gather(table.tensor, indices.tensor, axis=axis, batch_dims=inner + 1)


def _no(what: str) -> tf.Tensor:
    raise NoRule(what)


@rule("LookupTableFindV2")
def _lookup(site: Site) -> list[tf.Tensor]:
    if site.inputs[0].has_rows or site.inputs[2].has_rows:
        raise NoRule("a lookup in a computed table")
    return site.same(site.tensors())


@rule("OneHot")
def _one_hot(site: Site) -> list[tf.Tensor]:
    indices, *others = site.inputs
    if any(value.has_rows for value in others):
        raise NoRule("OneHot with computed values")
    axis = site.attribute("axis").i
    changed = tf.compat.v1.AttrValue(i=axis if axis < 0 else axis + 1)
    return site.same(site.tensors(), axis=changed)


@rule("Tile")
def _tile(site: Site) -> tf.Tensor:
    value, multiples = site.inputs
    if multiples.has_rows:
        raise NoRule("Tile by computed numbers")
    return tf.tile(value.tensor, tf.concat([tf.ones([1], multiples.tensor.dtype), multiples.tensor], 0))


@rule("Pad", "PadV2")
def _pad(site: Site) -> list[tf.Tensor]:
    value, paddings, *constant = site.inputs
    if paddings.has_rows or any(part.has_rows for part in constant):
        raise NoRule("Pad by computed numbers")
    front = tf.zeros([1, 2], paddings.tensor.dtype)
    return site.same([value.tensor, tf.concat([front, paddings.tensor], 0), *(part.tensor for part in constant)])


@rule("Einsum")
def _einsum(site: Site) -> tf.Tensor:
    equation = site.attribute("equation").s.decode()
    if "." in equation:
        raise NoRule("Einsum with an ellipsis")
    sources, result = equation.split("->")
    letter = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in equation)
    terms = [
        letter + term if value.has_rows else term for term, value in zip(sources.split(","), site.inputs, strict=True)
    ]
    return tf.einsum(f"{','.join(terms)}->{letter}{result}", *site.tensors())


@rule("StridedSliceGrad")
def _strided_slice_grad(site: Site) -> list[tf.Tensor]:
    shape, begin, end, strides, gradient = site.inputs
    if any(part.has_rows for part in (shape, begin, end, strides)):
        raise NoRule("StridedSliceGrad at a computed place")
    dtype = begin.tensor.dtype
    count = tf.cast(tf.shape(gradient.tensor)[:1], dtype)
    zero, one = tf.zeros([1], dtype), tf.ones([1], dtype)
    parts = [(count, shape), (zero, begin), (zero, end), (one, strides)]
    return site.same(
        [*(tf.concat([lead, part.tensor], 0) for lead, part in parts), gradient.tensor],
        **_masks(site),
    )


@rule("UnsortedSegmentSum")
def _unsorted_segment_sum(site: Site) -> tf.Tensor:
    data, segments, number = site.inputs
    if number.has_rows:
        raise NoRule("UnsortedSegmentSum into a computed number of segments")
    if segments.rank != 1 or data.rank < 1:
        raise NoRule("UnsortedSegmentSum by segments of higher rank")
    count = site.count
    values, ids = with_rows(data, count), with_rows(segments, count)
    many = tf.cast(number.tensor, ids.dtype)
    rows = tf.cast(count[0], ids.dtype)
    apart = ids + many * tf.range(rows)[:, None]
    # What lies outside of the segments is dropped, so it must not reach another row's.
    apart = tf.where((ids >= 0) & (ids < many), apart, -1)
    flat = tf.math.unsorted_segment_sum(
        tf.reshape(values, tf.concat([[-1], tf.shape(values)[2:]], 0)), tf.reshape(apart, [-1]), many * rows
    )
    made = tf.reshape(flat, tf.concat([tf.stack([rows, many]), tf.cast(tf.shape(values)[2:], ids.dtype)], 0))
    made.set_shape(tf.TensorShape([None, tf.get_static_value(number.tensor)]).concatenate(values.shape[2:]))
    return made
