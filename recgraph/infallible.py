"""Which types of operations cannot fail, by what their kernels check. A type that no table has may."""

from __future__ import annotations

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whatever they are given.
ALWAYS: Final = _names(
    """
    Abs Acos Acosh Asin Asinh Atan Atanh Cast Ceil Conj Const Cos Cosh Digamma Elu Erf Erfc Erfinv Exp Expm1 Floor
    Identity IdentityN Imag IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p LogicalNot Ndtri Neg NoOp OnesLike
    Placeholder PreventGradient PrintV2 Rank ReadVariableOp Real Reciprocal Relu Relu6 Rint Round Rsqrt Selu Shape
    ShapeN Sigmoid Sign Sin Sinh Size Snapshot Softplus Softsign Sqrt Square StopGradient StringFormat Tan Tanh
    VarHandleOp VariableShape ZerosLike
    """
)
# Where their shapes fit: the kernel checks nothing else.
IN_SHAPE: Final = _names(
    """
    Add AddN AddV2 All Any ApproximateEqual Atan2 AvgPool AvgPoolGrad BatchMatMul BatchMatMulV2 BatchMatMulV3
    BatchToSpaceND BiasAdd BiasAddGrad Bitcast BroadcastTo ClipByValue Complex ComplexAbs Concat ConcatV2 Conv2D
    Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2 DepthToSpace
    DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Diag DiagPart DivNoNan
    Einsum EluGrad Equal ExpandDims Fill FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad
    FusedBatchNormGradV2 FusedBatchNormGradV3 Greater GreaterEqual L2Loss LRN LeakyReluGrad Less LessEqual LogSoftmax
    LogicalAnd LogicalOr MatMul MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV3 MatrixDiagV3 MatrixSetDiagV3
    MatrixTranspose Max MaxPool MaxPoolGrad MaxPoolV2 Maximum Mean Min Minimum Mul MulNoNan NotEqual Pack Prod
    RandomShuffleGrad ReciprocalGrad Relu6Grad ReluGrad Reshape ResizeBicubic ResizeBilinear ResizeBilinearGrad
    ResizeNearestNeighbor ResizeNearestNeighborGrad RsqrtGrad Select SelectV2 SeluGrad SigmoidGrad Softmax
    SoftmaxCrossEntropyWithLogits SoftplusGrad SoftsignGrad SpaceToBatchND SpaceToDepth SqrtGrad SquaredDifference
    Squeeze StatelessRandomGetKeyCounter StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2 Sub
    Sum TanhGrad Tile Transpose Unpack Xdivy Xlog1py Xlogy Zeta
    """
)
# The same on floats; integers they may not divide by zero or raise to negative powers.
IN_SHAPE_OF_FLOATS: Final = _names("Div FloorDiv FloorMod Mod Pow RealDiv TruncateDiv TruncateMod")
# The same where indices and sizes, which are inputs, are known.
WITH_KNOWN_INDICES: Final = _names(
    """
    ArgMax ArgMin ConcatOffset Cumprod Cumsum MirrorPad MirrorPadGrad OneHot Pad PadV2 ReverseV2 Roll Slice Split SplitV
    StridedSlice StridedSliceGrad TopKV2
    """
)


def fails_only_in_shape(name: str, is_integer: bool) -> bool:
    """Whether operations of a type cannot fail where their shapes fit and indices, if they take any, are known.

    Args:
        name: the type.
        is_integer: whether it computes whole numbers.
    """
    is_safe = name in ALWAYS or name in IN_SHAPE or name in WITH_KNOWN_INDICES
    return is_safe or (name in IN_SHAPE_OF_FLOATS and not is_integer)
