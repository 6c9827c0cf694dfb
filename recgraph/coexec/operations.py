"""What is done with each type of operation in a co-executed step; the registration says it where no table does."""

from __future__ import annotations

from typing import Final

# The numbers are those of `Kind` in cc/python/signature.h.
PURE, VARIABLE, HOST, OPAQUE, HARMLESS, SHAPE, CONSTANT = range(7)

# Read variables and do not change them.
READS: Final = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd"})

# Change the variables that they are given. Every one has a resource as its first input.
WRITES: Final = frozenset(
    {
        "AssignVariableOp",
        "AssignAddVariableOp",
        "AssignSubVariableOp",
        "ResourceStridedSliceAssign",
        *(f"ResourceScatter{kind}" for kind in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update")),
        *(f"ResourceScatterNd{kind}" for kind in ("Add", "Sub", "Min", "Max", "Update")),
        "ResourceApplyGradientDescent",
        "ResourceApplyMomentum",
        "ResourceApplyKerasMomentum",
        "ResourceApplyAdam",
        "ResourceApplyAdagradV2",
        "ResourceApplyRMSProp",
        "ResourceSparseApplyMomentum",
        "ResourceSparseApplyKerasMomentum",
        "ResourceSparseApplyAdagradV2",
        "StatefulUniform",
        "StatefulUniformFullInt",
        "StatefulUniformInt",
        "StatefulStandardNormalV2",
        "StatefulTruncatedNormal",
        "StatefulRandomBinomial",
        "RngReadAndSkip",
        "RngSkip",
    }
)

KINDS: Final[dict[str, int]] = {
    **dict.fromkeys(READS | WRITES, VARIABLE),
    **dict.fromkeys(("EagerPyFunc", "PyFunc", "PyFuncStateless"), OPAQUE),
    **dict.fromkeys(("VarIsInitializedOp", "VariableShape"), HARMLESS),
    **dict.fromkeys(("Shape", "ShapeN", "Size", "Rank"), SHAPE),
    "_EagerConst": CONSTANT,
    # Fed in place of computed: it stands for what tf.function alone may see.
    "Placeholder": HOST,
    "PlaceholderWithDefault": HOST,
}

# Types that cannot fail where their shapes fit. Python waits for all others, so that an error is raised where eager
# execution raises it. A type is listed here when its kernel checks nothing but shapes.
INFALLIBLE: Final = frozenset(
    """
    Abs Acos Acosh Add AddN AddV2 All Any ApproximateEqual ArgMax ArgMin Asin Asinh Atan Atan2 Atanh AvgPool
    AvgPoolGrad BatchMatMul BatchMatMulV2 BatchMatMulV3 BatchToSpaceND BiasAdd BiasAddGrad Bitcast BroadcastTo Cast
    Ceil ClipByValue Complex ComplexAbs Concat ConcatV2 Conj Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D
    Conv3DBackpropFilterV2 Conv3DBackpropInputV2 Cos Cosh Cumprod Cumsum DepthToSpace DepthwiseConv2dNative
    DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Diag DiagPart Digamma DivNoNan Einsum
    Elu EluGrad Equal Erf Erfc Erfinv Exp ExpandDims Expm1 Fill Floor FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3
    FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 Greater GreaterEqual Identity IdentityN Imag
    IsFinite IsInf IsNan L2Loss LRN LeakyRelu LeakyReluGrad Less LessEqual Lgamma Log Log1p LogSoftmax
    LogicalAnd LogicalNot LogicalOr MatMul MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV3 MatrixDiagV3
    MatrixSetDiagV3 MatrixTranspose Max MaxPool MaxPoolGrad MaxPoolV2 Maximum Mean Min Minimum MirrorPad MirrorPadGrad
    Mul MulNoNan Ndtri Neg NotEqual OneHot OnesLike Pack Pad PadV2 PreventGradient Prod RandomShuffleGrad Real
    RealDiv Relu Relu6 Relu6Grad ReluGrad Reshape ResizeBicubic ResizeBilinear
    ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad ReverseV2 Rint Roll Round Rsqrt RsqrtGrad
    Select SelectV2 Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Sinh Slice Snapshot Softmax
    SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign SoftsignGrad SpaceToBatchND SpaceToDepth Split SplitV
    Sqrt SqrtGrad Square SquaredDifference Squeeze StatelessRandomGetKeyCounter StatelessRandomNormalV2
    StatelessRandomUniformV2 StatelessTruncatedNormalV2 StopGradient StridedSlice StridedSliceGrad Sub Sum Tan Tanh
    TanhGrad Tile TopKV2 Transpose Unpack Xdivy Xlog1py Xlogy ZerosLike Zeta
    ReadVariableOp AssignVariableOp AssignAddVariableOp AssignSubVariableOp ResourceApplyGradientDescent
    ResourceApplyMomentum ResourceApplyKerasMomentum ResourceApplyAdam ResourceApplyAdagradV2 ResourceApplyRMSProp
    """.split()  # noqa: SIM905 (a list of names, not of strings)
)

# The same, unless they are given whole numbers, which they may not divide by zero or raise to negative powers.
INFALLIBLE_FOR_FLOATS: Final = frozenset({"Div", "FloorDiv", "FloorMod", "Mod", "Pow", "TruncateDiv", "TruncateMod"})


def may_fail(name: str, is_integer: bool) -> bool:
    """Whether an operation may have an error that depends on values."""
    return name not in INFALLIBLE and (is_integer or name not in INFALLIBLE_FOR_FLOATS)
