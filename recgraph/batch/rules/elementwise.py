"""Operations on elements, one by one: rows are one more dimension."""

from __future__ import annotations

import functools

import tensorflow as tf

from recgraph.batch.vectorize import NoRule, Site, VectorizedRows, aligned, expanded, rule

_UNARY = """
Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e
BesselK1 BesselK1e BesselY0 BesselY1 Bucketize Cast Ceil CheckNumerics ComplexAbs Conj Cos Cosh Dawsn Digamma Elu Erf
Erfc Erfinv Exp Expint Expm1 Floor FresnelCos FresnelSin Imag Inv Invert IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p
LogicalNot Ndtri Neg OnesLike PopulationCount Real Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh
Softplus Softsign Spence Sqrt Square Tan Tanh ZerosLike
AsString StaticRegexFullMatch StaticRegexReplace StringLength StringLower StringStrip StringToHashBucket
StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper
"""
_BINARY = """
Add AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor Complex Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Igamma
IgammaGradA Igammac LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum Mod Mul MulNoNan NextAfter NotEqual
Polygamma Pow RandomGammaGrad RealDiv RightShift SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta
"""
# Of inputs of one shape; these do not broadcast.
_ALIKE = """
ApproximateEqual Betainc Cross EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad
SigmoidGrad SoftplusGrad SoftsignGrad SqrtGrad TanhGrad
"""
# Dtypes of scalars that TensorFlow takes for conditions.
_WITH_TRUTH = (tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.bool, tf.string)


@rule(*_UNARY.split(), "Identity", "StopGradient", "PreventGradient", "Snapshot")
def _unary(site: Site) -> list[tf.Tensor]:
    return site.same(site.tensors())


@rule(*_BINARY.split())
def _binary(site: Site) -> list[tf.Tensor]:
    if site.node.op in ("Equal", "NotEqual") and not site.attribute("incompatible_shape_error").b:
        _require_comparable(site)
    return site.same(aligned(site.inputs))


def _require_comparable(site: Site) -> None:
    """What does not fit is unequal as a whole, for Python's `==`."""
    a, b = (value.shape for value in site.inputs)
    if not (a.is_fully_defined() and b.is_fully_defined()):
        raise NoRule(f"{site.node.op} of shapes that may not fit")
    try:
        tf.broadcast_static_shape(a, b)
    except ValueError:
        raise NoRule(f"{site.node.op} of shapes that do not fit") from None


@rule(*_ALIKE.split())
def _alike(site: Site) -> list[tf.Tensor]:
    return site.same(_one_rank(site, site.inputs))


@rule("ToBool")
def _to_bool(site: Site) -> tf.Tensor:
    (value,) = site.inputs
    if value.rank > 0:
        return tf.fill(site.count, tf.reduce_prod(tf.shape(value.tensor)[1:]) > 0)
    if value.tensor.dtype not in _WITH_TRUTH:
        raise NoRule(f"ToBool of {value.tensor.dtype.name}")
    return tf.not_equal(value.tensor, tf.zeros([], value.tensor.dtype))


@rule("StringJoin")
def _string_join(site: Site) -> list[tf.Tensor]:
    # The only strings that broadcast are single ones.
    parts = [value for value in site.inputs if value.has_rows or value.rank > 0]
    tensors = dict(zip(map(id, parts), _one_rank(site, parts), strict=True))
    return site.same([tensors.get(id(value), value.tensor) for value in site.inputs])


def _one_rank(site: Site, values: list[VectorizedRows]) -> list[tf.Tensor]:
    """All with rows."""
    if len({value.rank for value in values}) > 1:
        raise NoRule(f"{site.node.op} of values that differ in rank")
    return [site.with_rows(value) for value in values]


@rule("IdentityN")
def _identity_n(site: Site) -> list[VectorizedRows]:
    tensors = site.same(site.tensors())
    return [VectorizedRows(tensor, value.has_rows) for tensor, value in zip(tensors, site.inputs, strict=True)]


@rule("EnsureShape")
def _ensure_shape(site: Site) -> tf.Tensor:
    shape = tf.TensorShape(site.attribute("shape").shape)
    return tf.ensure_shape(site.inputs[0].tensor, tf.TensorShape([None]).concatenate(shape))


@rule("SelectV2", "Select", "ClipByValue")
def _select(site: Site) -> tf.Tensor:
    tensors = aligned(site.inputs)
    if site.node.op == "ClipByValue":
        return tf.clip_by_value(*tensors)
    if site.node.op == "Select" and 0 < site.inputs[0].rank < site.inputs[1].rank:
        raise NoRule("Select by a vector")
    return tf.where(*tensors)


@rule("AddN")
def _add_n(site: Site) -> tf.Tensor:
    first = next(value for value in site.inputs if value.has_rows)
    others = [value for value in site.inputs if not value.has_rows]
    if any(not value.shape.is_fully_defined() or value.shape != first.shape for value in others):
        return tf.add_n([site.with_rows(value) for value in site.inputs])  # which fails where shapes differ
    tensors = [value.tensor for value in site.inputs]
    return functools.reduce(tf.add, tensors) if others else tf.add_n(tensors)  # both add from left to right


@rule("BiasAdd")
def _bias_add(site: Site) -> tf.Tensor:
    value, bias = site.inputs
    _require_channels_last(site)
    if bias.has_rows:
        return value.tensor + expanded(bias, value.rank)
    return tf.nn.bias_add(value.tensor, bias.tensor)


@rule("BiasAddGrad")
def _bias_add_grad(site: Site) -> tf.Tensor:
    (value,) = site.inputs
    _require_channels_last(site)
    if value.rank == 2 and value.shape[0] == 1:
        return tf.reshape(value.tensor, [-1, *value.shape[1:]]) if value.shape[1] else tf.reduce_sum(value.tensor, 1)
    return tf.reduce_sum(value.tensor, list(range(1, value.rank)))


def _require_channels_last(site: Site) -> None:
    if site.attribute("data_format").s == b"NCHW":
        raise NoRule(f"{site.node.op} in NCHW")
