"""What is known about TensorFlow's operations: one table, by families. To describe an operation, add it here.

Every operation stands here once. What `tests/ops/test_table.py` can ask TensorFlow's registry is checked there; what
only a kernel knows, when it fails above all, comes from reading it or from trying.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from recgraph.ops.facts import Calls, Facts, Fails, Form, Resource, State

NEVER, SHAPES, INTEGERS, ARGUMENTS = Fails.NEVER, Fails.SHAPES, Fails.INTEGERS, Fails.ARGUMENTS
INDICES, ROWS, ASSIGNS, UPDATES, CALLEES = Fails.INDICES, Fails.ROWS, Fails.ASSIGNS, Fails.UPDATES, Fails.CALLEES
PURE, READS, ASKS, SILENT, WRITES = State.PURE, State.READS, State.ASKS, State.SILENT, State.WRITES
ADDS, DRAWS, RANDOM, CALLS, CREATES = State.ADDS, State.DRAWS, State.RANDOM, State.CALLS, State.CREATES
PYTHON, ACTS, OUTSIDE, OURS = State.PYTHON, State.ACTS, State.OUTSIDE, State.OURS
SAME, ELEMENTWISE, BROADCASTS = Form.SAME, Form.ELEMENTWISE, Form.BROADCASTS
REARRANGES, PRODUCT, MEASURES = Form.REARRANGES, Form.PRODUCT, Form.MEASURES
VARIABLE, TABLE, OTHER = Resource.VARIABLE, Resource.TABLE, Resource.OTHER

_Rows = tuple[tuple[Facts, str], ...]

_ELEMENTS: Final[_Rows] = (
    # Each element of one tensor.
    (
        Facts(NEVER, form=ELEMENTWISE, passes_gradients=True),
        """
        Abs Acos Acosh Asin Asinh Atan Atanh Cast Cos Cosh Elu Erf Erfc Exp Expm1 LeakyRelu Log Log1p Neg Reciprocal
        Relu Relu6 Rsqrt Selu Sigmoid Sin Sinh Softplus Softsign Sqrt Square Tan Tanh
        """,
    ),
    (
        Facts(NEVER, form=ELEMENTWISE),
        """
        Ceil Conj Digamma Erfinv Floor Imag IsFinite IsInf IsNan Lgamma LogicalNot Ndtri OnesLike Real Rint Round Sign
        ZerosLike
        """,
    ),
    (Facts(SHAPES, form=ELEMENTWISE), "ComplexAbs"),
    (
        Facts(form=ELEMENTWISE),
        """
        Angle AsString BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e
        BesselY0 BesselY1 Bucketize Dawsn Expint FresnelCos FresnelSin Inv Invert PopulationCount Spence
        StaticRegexFullMatch StaticRegexReplace StringLength StringLower StringStrip StringToHashBucket
        StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper
        """,
    ),
    # Of several tensors of one shape.
    (
        Facts(SHAPES, form=ELEMENTWISE),
        """
        ApproximateEqual EluGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad
        SoftplusGrad SoftsignGrad SqrtGrad TanhGrad
        """,
    ),
    (Facts(form=ELEMENTWISE), "Betainc InvGrad"),
    (Facts(SHAPES, passes_gradients=True), "AddN"),
    # Of two tensors that are broadcast.
    (
        Facts(SHAPES, form=BROADCASTS, passes_gradients=True),
        "Add AddV2 Atan2 DivNoNan Maximum Minimum Mul MulNoNan SquaredDifference Sub Xlogy",
    ),
    (
        Facts(SHAPES, form=BROADCASTS),
        """
        Complex Equal Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr NotEqual Xdivy Xlog1py Zeta
        """,
    ),
    (Facts(INTEGERS, form=BROADCASTS, passes_gradients=True), "Div Pow RealDiv"),
    (Facts(INTEGERS, form=BROADCASTS), "FloorDiv FloorMod Mod TruncateDiv TruncateMod"),
    (
        Facts(form=BROADCASTS),
        """
        BitwiseAnd BitwiseOr BitwiseXor Igamma IgammaGradA Igammac LeftShift NextAfter Polygamma RandomGammaGrad
        RightShift
        """,
    ),
    # Of three.
    (Facts(SHAPES, passes_gradients=True), "Select SelectV2"),
    (Facts(SHAPES), "ClipByValue"),
)

_SHAPES: Final[_Rows] = (
    (Facts(NEVER, form=SAME, passes_gradients=True), "Identity"),
    (Facts(NEVER, form=SAME), "PreventGradient Snapshot StopGradient"),
    (Facts(NEVER), "Const IdentityN NoOp Placeholder StringFormat"),
    (Facts(), "PlaceholderWithDefault _EagerConst"),
    (Facts(NEVER, form=MEASURES), "Rank Shape ShapeN Size"),
    (Facts(SHAPES, form=REARRANGES, passes_gradients=True), "ExpandDims Reshape Squeeze"),
    (Facts(form=REARRANGES), "Unique"),
    (Facts(SHAPES, passes_gradients=True), "ConcatV2 Pack Transpose Unpack"),
    (Facts(SHAPES, passes_gradients=True, sized_by=(1,)), "BroadcastTo Tile"),
    (Facts(SHAPES, sized_by=(0,)), "Fill"),
    (Facts(SHAPES, sized_by=(1, 2)), "BatchToSpaceND SpaceToBatchND"),
    (
        Facts(SHAPES),
        """
        Bitcast Concat DepthToSpace Diag DiagPart MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV3
        MatrixSetDiagV3 SpaceToDepth
        """,
    ),
    (Facts(SHAPES, sized_by=(2, 3)), "MatrixDiagV3"),
    (Facts(sized_by=(2, 3)), "MatrixDiagV2"),
    (Facts(ARGUMENTS, passes_gradients=True), "Cumsum ReverseV2 Roll Slice Split SplitV StridedSlice"),
    (Facts(ARGUMENTS, passes_gradients=True, sized_by=(1,)), "Pad PadV2"),
    (Facts(ARGUMENTS, sized_by=(1,)), "MirrorPad OneHot"),
    (Facts(ARGUMENTS), "ArgMax ArgMin ConcatOffset Cumprod MirrorPadGrad StridedSliceGrad TopKV2"),
    (Facts(INDICES), "BroadcastGradientArgs InvertPermutation"),
    (Facts(INDICES, sized_by=(0,)), "DynamicStitch"),
    (Facts(INDICES, passes_gradients=True), "GatherV2"),
    (Facts(INDICES, sized_by=(2,)), "UnsortedSegmentSum"),
    (Facts(passes_gradients=True), "GatherNd"),
    (
        Facts(sized_by=(2,)),
        "LinSpace RaggedBincount ScatterNd UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd",
    ),
    (Facts(sized_by=(0, 1, 2)), "RaggedRange Range"),
    (Facts(sized_by=(0,)), "RaggedTensorToTensor"),
    (Facts(sized_by=(1,)), "Bincount DenseBincount ResizeArea SparseToDense TensorListReserve TensorListResize"),
    (Facts(sized_by=(3,)), "SparseBincount"),
    (Facts(passes_gradients=True), "TensorListConcatV2 TensorListStack"),
)

_SUMS_AND_PRODUCTS: Final[_Rows] = (
    (Facts(SHAPES, form=PRODUCT, passes_gradients=True), "BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum MatMul"),
    (
        Facts(SHAPES, passes_gradients=True),
        """
        AvgPool BiasAdd Conv2D Conv2DBackpropInput DepthwiseConv2dNative L2Loss LogSoftmax Max MaxPool Mean Min Prod
        Softmax SoftmaxCrossEntropyWithLogits Sum
        """,
    ),
    (
        Facts(SHAPES),
        """
        All Any AvgPoolGrad BiasAddGrad Conv2DBackpropFilter Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2
        DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput FusedBatchNorm FusedBatchNormGrad
        FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 LRN MaxPoolGrad MaxPoolV2
        ResizeBilinearGrad ResizeNearestNeighborGrad
        """,
    ),
    (Facts(SHAPES, sized_by=(1,)), "ResizeBicubic ResizeBilinear ResizeNearestNeighbor"),
    (Facts(passes_gradients=True), "SparseSoftmaxCrossEntropyWithLogits"),
)

_CHECKS: Final[_Rows] = (
    (Facts(state=SILENT, checks=True), "Assert CheckNumericsV2"),
    (Facts(state=SILENT, checks=True, form=ELEMENTWISE), "CheckNumerics"),
    (Facts(checks=True), "EnsureShape"),
)

_RANDOM_NUMBERS: Final[_Rows] = (
    # From two numbers that they are given.
    (Facts(SHAPES), "StatelessRandomGetKeyCounter"),
    (Facts(), "StatelessRandomGetKeyCounterAlg"),
    (Facts(state=SILENT), "StatelessRandomGetAlg"),
    (
        Facts(SHAPES, is_random=True, sized_by=(0,)),
        "StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2",
    ),
    (
        Facts(is_random=True, sized_by=(0,)),
        """
        StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3
        StatelessRandomNormal StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt
        StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessTruncatedNormal
        """,
    ),
    (Facts(is_random=True, sized_by=(1,)), "StatelessMultinomial"),
    (Facts(is_random=True), "RandomIndexShuffle StatelessSampleDistortedBoundingBox"),
    # From a state of their own, which the seeds in their attributes begin.
    (
        Facts(state=RANDOM, is_random=True, sized_by=(0,)),
        """
        ParameterizedTruncatedNormal RandomGamma RandomPoisson RandomPoissonV2 RandomStandardNormal RandomUniform
        RandomUniformInt TruncatedNormal
        """,
    ),
    (Facts(state=RANDOM, is_random=True, sized_by=(1,)), "Multinomial RandomCrop"),
    (
        Facts(state=RANDOM, is_random=True),
        """
        AllCandidateSampler FixedUnigramCandidateSampler LogUniformCandidateSampler RandomShuffle
        SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 UniformCandidateSampler
        """,
    ),
    # From the variable of a `tf.random.Generator`.
    (
        Facts(state=DRAWS, resources=(0,), resource=VARIABLE, is_random=True, sized_by=(2,)),
        """
        StatefulRandomBinomial StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt
        StatefulUniformInt
        """,
    ),
    (Facts(state=DRAWS, resources=(0,), resource=VARIABLE, is_random=True, sized_by=(1,)), "StatefulStandardNormal"),
    (Facts(state=DRAWS, resources=(0,), resource=VARIABLE), "RngReadAndSkip RngSkip"),
)

_VARIABLES: Final[_Rows] = (
    (Facts(NEVER, SILENT, resource=VARIABLE), "VarHandleOp"),
    (Facts(NEVER, READS, (0,), VARIABLE, passes_gradients=True), "ReadVariableOp"),
    (Facts(state=READS, resources=(0,), resource=VARIABLE, passes_gradients=True), "ResourceGather ResourceGatherNd"),
    (Facts(state=READS, resources=(0,), resource=VARIABLE), "ReadVariableXlaSplitND"),
    (Facts(NEVER, ASKS, (0,), VARIABLE, form=MEASURES), "VariableShape"),
    (Facts(state=ASKS, resources=(0,), resource=VARIABLE), "DisableCopyOnRead VarIsInitializedOp"),
    (Facts(ASSIGNS, WRITES, (0,), VARIABLE), "AssignVariableOp"),
    (Facts(ASSIGNS, ADDS, (0,), VARIABLE), "AssignAddVariableOp AssignSubVariableOp"),
    (Facts(state=WRITES, resources=(0,), resource=VARIABLE), "ResourceCountUpTo ResourceStridedSliceAssign"),
    # Of rows: (variable, indices, values).
    (Facts(ROWS, ADDS, (0,), VARIABLE, rows=1), "ResourceScatterAdd ResourceScatterSub"),
    (
        Facts(ROWS, WRITES, (0,), VARIABLE, rows=1),
        "ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterUpdate",
    ),
    (Facts(state=WRITES, resources=(0,), resource=VARIABLE, rows=1), "ResourceScatterDiv"),  # integers by zero
    (
        Facts(state=WRITES, resources=(0,), resource=VARIABLE),
        """
        ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate
        """,
    ),
)

_OPTIMIZERS: Final[_Rows] = (
    (Facts(UPDATES, WRITES, (0,), VARIABLE), "ResourceApplyGradientDescent ResourceApplyProximalGradientDescent"),
    (
        Facts(UPDATES, WRITES, (0, 1), VARIABLE),
        """
        ResourceApplyAdagrad ResourceApplyAdagradV2 ResourceApplyAddSign ResourceApplyKerasMomentum
        ResourceApplyMomentum ResourceApplyPowerSign
        """,
    ),
    (
        Facts(UPDATES, WRITES, (0, 1, 2), VARIABLE),
        """
        ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagradDA ResourceApplyAdam ResourceApplyFtrl
        ResourceApplyFtrlV2 ResourceApplyRMSProp
        """,
    ),
    (Facts(UPDATES, WRITES, (0, 1, 2, 3), VARIABLE), "ResourceApplyAdamWithAmsgrad ResourceApplyCenteredRMSProp"),
    # The rate has to be positive.
    (Facts(state=WRITES, resources=(0, 1), resource=VARIABLE), "ResourceApplyProximalAdagrad"),
    # By rows.
    (Facts(ROWS, WRITES, (0,), VARIABLE, rows=5), "ResourceSparseApplyProximalGradientDescent"),
    (Facts(ROWS, WRITES, (0, 1), VARIABLE, rows=4), "ResourceSparseApplyAdagrad"),
    (Facts(ROWS, WRITES, (0, 1), VARIABLE, rows=4), "ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum"),
    (Facts(ROWS, WRITES, (0, 1), VARIABLE, rows=5), "ResourceSparseApplyAdagradV2"),
    (Facts(ROWS, WRITES, (0, 1, 2), VARIABLE, rows=4), "ResourceSparseApplyAdagradDA"),
    (Facts(ROWS, WRITES, (0, 1, 2), VARIABLE, rows=7), "ResourceSparseApplyAdadelta"),
    (Facts(ROWS, WRITES, (0, 1, 2), VARIABLE, rows=8), "ResourceSparseApplyRMSProp"),
    (Facts(ROWS, WRITES, (0, 1, 2, 3), VARIABLE, rows=9), "ResourceSparseApplyCenteredRMSProp"),
    # The rate has to be positive, and others not negative.
    (Facts(state=WRITES, resources=(0, 1), resource=VARIABLE, rows=6), "ResourceSparseApplyProximalAdagrad"),
    (
        Facts(state=WRITES, resources=(0, 1, 2), resource=VARIABLE, rows=4),
        "ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2",
    ),
)

_TABLES: Final[_Rows] = (
    (
        Facts(state=CREATES, resource=TABLE),
        """
        AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable AnonymousMutableHashTableOfTensors
        HashTableV2 MutableDenseHashTableV2 MutableHashTableOfTensorsV2 MutableHashTableV2
        """,
    ),
    (
        Facts(state=READS, resources=(0,), resource=TABLE),
        "LookupTableExportV2 LookupTableFindV2 LookupTableSizeV2",
    ),
    (
        Facts(state=WRITES, resources=(0,), resource=TABLE),
        """
        InitializeTableFromDataset InitializeTableFromTextFileV2 InitializeTableV2 LookupTableImportV2
        LookupTableInsertV2 LookupTableRemoveV2
        """,
    ),
)

_FUNCTIONS: Final[_Rows] = (
    (Facts(CALLEES, CALLS, calls=Calls.IF), "If"),
    (Facts(CALLEES, CALLS, calls=Calls.IF, is_stateful=False), "StatelessIf"),
    (Facts(CALLEES, CALLS, calls=Calls.CASE), "Case"),
    (Facts(CALLEES, CALLS, calls=Calls.CASE, is_stateful=False), "StatelessCase"),
    (Facts(CALLEES, CALLS, calls=Calls.WHILE, is_endless=True), "While"),
    (Facts(CALLEES, CALLS, calls=Calls.WHILE, is_endless=True, is_stateful=False), "StatelessWhile"),
    (Facts(CALLEES, CALLS, calls=Calls.FOR, is_stateful=False), "For"),
    (Facts(CALLEES, CALLS, calls=Calls.FUNCTION), "StatefulPartitionedCall"),
    (Facts(CALLEES, CALLS, calls=Calls.FUNCTION, is_stateful=False), "PartitionedCall"),
    (Facts(state=PYTHON, waits=True), "EagerPyFunc PyFunc"),
    (Facts(state=PYTHON, is_stateful=False, waits=True), "PyFuncStateless"),
)

_OUTSIDE: Final[_Rows] = (
    (Facts(NEVER, ACTS), "PrintV2"),
    (Facts(state=ACTS), "MergeV2Checkpoints Print Save SaveSlices SaveV2 WriteFile"),
    (Facts(state=OUTSIDE, is_stateful=False), "GenerateVocabRemapping MatchingFiles ReadFile"),
    (Facts(state=OUTSIDE), "LoadAndRemapMatrix Restore RestoreSlice RestoreV2 Timestamp"),
    (
        Facts(state=WRITES, resources=(0,), resource=OTHER),
        """
        CloseSummaryWriter CreateSummaryDbWriter CreateSummaryFileWriter FlushSummaryWriter ImportEvent
        WriteAudioSummary WriteGraphSummary WriteHistogramSummary WriteImageSummary WriteRawProtoSummary
        WriteScalarSummary WriteSummary
        """,
    ),
)

_ARRAYS_AND_QUEUES: Final[_Rows] = (
    (Facts(state=CREATES, resource=OTHER, sized_by=(0,)), "TensorArrayV3"),
    (Facts(state=CREATES, resource=OTHER), "FIFOQueueV2 PaddingFIFOQueueV2 PriorityQueueV2 RandomShuffleQueueV2"),
    (Facts(state=CREATES, resource=OTHER), "AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 IteratorV2"),
    (Facts(state=CREATES, resource=OTHER), "MutexV2 StackV2 SummaryWriter"),
    (
        Facts(state=WRITES, resources=(0,), resource=OTHER),
        """
        StackCloseV2 StackPopV2 StackPushV2 TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3
        TensorArrayGradV3 TensorArrayGradWithShape TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3
        TensorArraySplitV3 TensorArrayWriteV3
        """,
    ),
    (
        Facts(state=WRITES, resources=(0,), resource=OTHER, waits=True),
        """
        IteratorGetNext IteratorGetNextAsOptional IteratorGetNextSync MutexLock QueueCloseV2 QueueDequeueManyV2
        QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueueManyV2 QueueEnqueueV2 QueueIsClosedV2 QueueSizeV2
        ResourceAccumulatorApplyGradient ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep
        ResourceAccumulatorTakeGradient
        """,
    ),
    (Facts(state=WRITES, resources=(0, 1), resource=OTHER, waits=True), "ReaderReadUpToV2 ReaderReadV2"),
    (Facts(state=WRITES, resources=(1,), resource=OTHER, waits=True), "MakeIterator"),
)

_LIBRARY: Final[_Rows] = (
    (Facts(UPDATES, WRITES, (0, 1), VARIABLE), "Recgraph>ApplyAdagrad"),
    (Facts(ROWS, WRITES, (0,), VARIABLE, rows=1), "Recgraph>DescendRows"),
    (Facts(state=OURS, is_endless=True), "Recgraph>Invoke Recgraph>While"),
    (
        Facts(state=OURS),
        """
        Recgraph>Accumulate Recgraph>CallFunction Recgraph>Capture Recgraph>InvokeGradient Recgraph>LevelTables
        Recgraph>PackFrame Recgraph>PlanStages Recgraph>Region
        """,
    ),
    (
        Facts(state=OURS, is_stateful=False),
        """
        Recgraph>ChooseInput Recgraph>Expression Recgraph>FrameIsEmpty Recgraph>LevelGradientTables Recgraph>Merge
        Recgraph>PackedProduct Recgraph>Parts Recgraph>Refuse Recgraph>UnpackFrame
        """,
    ),
    (
        Facts(state=OURS),
        """
        Recgraph>CaseSelect Recgraph>InputFeeding Recgraph>Keep Recgraph>LoopCond Recgraph>OutputFetching
        Recgraph>Recall
        """,
    ),
    (Facts(state=OURS, resources=(0,), resource=VARIABLE), "Recgraph>CheckRows Recgraph>Shadow Recgraph>Watch"),
    (Facts(state=OURS, resources=(1,), resource=VARIABLE), "Recgraph>CheckCaptures"),
    (Facts(state=OURS, resources=(1, 3, 4), resource=VARIABLE), "Recgraph>Commit"),
    (
        Facts(state=OURS),
        """
        Recgraph>BlockCounts Recgraph>CountPrograms Recgraph>Counters Recgraph>EngineReport Recgraph>ForgetPrograms
        Recgraph>RegisterProgram Recgraph>SetBatchPolicy Recgraph>SetBatchWay Recgraph>SetPolicy
        """,
    ),
)

_FAMILIES: Final = (
    *_ELEMENTS,
    *_SHAPES,
    *_SUMS_AND_PRODUCTS,
    *_CHECKS,
    *_RANDOM_NUMBERS,
    *_VARIABLES,
    *_OPTIMIZERS,
    *_TABLES,
    *_FUNCTIONS,
    *_OUTSIDE,
    *_ARRAYS_AND_QUEUES,
    *_LIBRARY,
)

# Stateful operations that stay without a description, and are taken for the worst: why.
LEFT_OUT: Final[dict[str, str]] = {
    "they make or run datasets, whose functions may do anything": """
        CSVDataset CSVDatasetV2 CacheDatasetV2 DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3
        DataServiceDatasetV4 DatasetToSingleElement DatasetToTFRecord DistributedSave ExperimentalCSVDataset
        ExperimentalDatasetToTFRecord ExperimentalGroupByReducerDataset ExperimentalLMDBDataset
        ExperimentalMatchingFilesDataset ExperimentalRandomDataset ExperimentalSetStatsAggregatorDataset
        ExperimentalSqlDataset ExperimentalThreadPoolDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2
        GeneratorDataset GlobalShuffleDataset GroupByReducerDataset LMDBDataset ListDataset ListSnapshotChunksDataset
        LoadDataset MatchingFilesDataset RandomDataset RandomDatasetV2 RangeDataset ReduceDataset SaveDataset
        SaveDatasetV2 SetStatsAggregatorDataset ShuffleAndRepeatDatasetV2 ShuffleDatasetV2 ShuffleDatasetV3
        SparseTensorSliceDataset SqlDataset TFRecordDataset TFRecordDatasetV2 TensorDataset TensorSliceDataset
        TextLineDataset ThreadPoolDataset
        """,
    "of iterators, what Python's `next` does not do; and resources that datasets keep": """
        AnonymousMemoryCache AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 AnonymousRandomSeedGenerator
        AnonymousSeedGenerator DeleteIterator DeleteMemoryCache DeleteMultiDeviceIterator DeleteRandomSeedGenerator
        DeleteSeedGenerator DeserializeIterator DummyIterationCounter DummyMemoryCache DummySeedGenerator
        ExperimentalIteratorGetDevice ExperimentalStatsAggregatorHandle ExperimentalStatsAggregatorSummary
        ExperimentalThreadPoolHandle Iterator IteratorFromStringHandle IteratorFromStringHandleV2 IteratorGetDevice
        IteratorGetModelProto IteratorToStringHandle MultiDeviceIterator MultiDeviceIteratorFromStringHandle
        MultiDeviceIteratorGetNextFromShard MultiDeviceIteratorInit MultiDeviceIteratorToStringHandle OneShotIterator
        SerializeIterator StatsAggregatorHandle StatsAggregatorHandleV2 StatsAggregatorSetSummaryWriter
        StatsAggregatorSummary ThreadPoolHandle
        """,
    "queues between steps, in which an operation waits for another thread": """
        MapClear MapIncompleteSize MapPeek MapSize MapStage MapUnstage MapUnstageNoKey OrderedMapClear
        OrderedMapIncompleteSize OrderedMapPeek OrderedMapSize OrderedMapStage OrderedMapUnstage
        OrderedMapUnstageNoKey RecordInput Stage StageClear StagePeek StageSize Unstage
        """,
    "they exchange values with other devices or processes": """
        CollectiveAllToAllV2 CollectiveAllToAllV3 CollectiveAssignGroupV2 CollectiveBcastRecv CollectiveBcastRecvV2
        CollectiveBcastSend CollectiveBcastSendV2 CollectiveGather CollectiveGatherV2
        CollectiveInitializeCommunicator CollectiveReduce CollectiveReduceScatterV2 CollectiveReduceV2
        CollectiveReduceV3 DeleteRpcFutureResource Recv RemoteCall RpcCall RpcCheckStatus RpcClient RpcGetValue
        RpcServer RpcServerRegister RpcServerStart Send SyncDevice _HostRecv _HostSend _Recv _Send
        """,
    "TensorFlow's runtime puts them into graphs, where programs have something else": """
        ConsumeMutexLock _Arg _DeviceArg _DeviceRetval _If _ParallelConcatStart _ReadVariablesOp _Retval
        _ScopedAllocator _ScopedAllocatorConcat _ScopedAllocatorSplit _VarHandlesOp _While _XlaCompile _XlaRun
        """,
    "of the XLA compiler": """
        XlaCallModule XlaDequantize XlaIf XlaLaunch XlaRecv XlaSend XlaWhile
        """,
    "of TensorFlow 1: variables, queues, readers and tables by reference, and sessions": """
        Barrier ConditionalAccumulator DeleteSessionTensor FIFOQueue FakeQueue FixedLengthRecordReader
        FixedLengthRecordReaderV2 GetSessionHandle GetSessionHandleV2 GetSessionTensor HashTable IdentityReader
        IdentityReaderV2 LMDBReader MutableDenseHashTable MutableHashTable MutableHashTableOfTensors NegTrain
        PaddingFIFOQueue PriorityQueue RandomShuffleQueue ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompletedV2
        ReaderResetV2 ReaderRestoreStateV2 ReaderSerializeStateV2 ResourceConditionalAccumulator Skipgram
        SparseConditionalAccumulator Stack TFRecordReader TFRecordReaderV2 TemporaryVariable TensorArray
        TensorArrayGrad TensorArrayGradV2 TensorArrayV2 TextLineReader TextLineReaderV2 Variable VariableV2
        WholeFileReader WholeFileReaderV2
        """,
    "they keep sparse tensors, or what they have learned, in a store of their own": """
        AddManySparseToTensorsMap AddSparseToTensorsMap CalibrationStatisticsSaver LearnedUnigramCandidateSampler
        TakeManySparseFromTensorsMap ThreadUnsafeUnigramCandidateSampler
        """,
    "their results are those of no two runs, or of one machine": """
        DeviceIndex Empty GraphDefVersion IsTensorFloat32Enabled NonDeterministicInts
        """,
    "they change what a resource is, its life or the system around it": """
        DeepCopy DestroyResourceOp FileSystemSetConfiguration GuaranteeConst IsResourceHandleRefCounting
        MakeWeakResourceHandle
        """,
    "for TensorFlow's debugger and its own tests": """
        DebugIdentityV2 DebugIdentityV3 DevicePlacementOp DtypeWithDefaultOp DumpTensor ResourceCreateOp
        ResourceInitializedOp ResourceUsingOp SleepIdentityOp SleepOp StubResourceHandleOp TestAttr
        """,
}


def _by_name(families: Iterable[tuple[Facts, str]]) -> dict[str, Facts]:
    described: dict[str, Facts] = {}
    for facts, names in families:
        for name in names.split():
            if name in described:
                raise ValueError(f"{name} is described twice")
            described[name] = facts
    return described


DESCRIBED: Final = _by_name(_FAMILIES)
