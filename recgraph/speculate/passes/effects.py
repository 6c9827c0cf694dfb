"""What operations do besides computing: which of them write, and what; which of them may fail.

An operation that no table knows may fail, and has an effect if TensorFlow calls it stateful.
"""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from recgraph import infallible, tf_private
from recgraph.core import invoke_gradient
from recgraph.core.subgraph import SubGraph


def names(text: str) -> frozenset[str]:
    """Words as a set."""
    return frozenset(text.split())


# Stateful for TensorFlow, but nobody can see that they have run.
_SILENT: Final = names(
    """
    ReadVariableOp ResourceGather ResourceGatherNd VariableShape VarIsInitializedOp VarHandleOp Assert
    CheckNumerics CheckNumericsV2 Placeholder RandomStandardNormal RandomUniform RandomUniformInt
    TruncatedNormal RandomGamma RandomPoissonV2 RandomShuffle Multinomial ParameterizedTruncatedNormal
    LookupTableFindV2 LookupTableSizeV2 LookupTableExportV2
    """
)
PHILOX: Final = 1  # TensorFlow's number of the algorithm
_CALLS: Final = names(
    """
    If StatelessIf While StatelessWhile Case StatelessCase PartitionedCall StatefulPartitionedCall
    """
)
_ASSIGNMENTS: Final = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
# Updates by a dense gradient: they fail where the variables and the gradient differ in shape, or a rate is no scalar.
_UPDATES: Final = names(
    """
    ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradV2 ResourceApplyAdam
    ResourceApplyCenteredRMSProp ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum
    ResourceApplyMomentum ResourceApplyRMSProp
    """
)


@dataclasses.dataclass(frozen=True)
class Effects:
    """What an operation writes.

    Attributes:
        handles: of the resources that it writes.
        others: what else can be seen: "" for nothing.
    """

    handles: tuple[Any, ...] = ()
    others: str = ""

    def __bool__(self) -> bool:
        return bool(self.handles or self.others)


def effects(op: tf.Operation) -> Effects:
    """What an operation writes, the functions that it calls included."""
    if op.type in _SILENT or op.type.startswith("Recgraph>"):
        return Effects()
    if op.type in _CALLS:
        return _effects_of_call(op)
    if not op.op_def.is_stateful:
        return Effects()
    handles = tuple(tensor for tensor in op.inputs if tensor.dtype == tf.resource)
    return Effects(handles) if handles else Effects(others=op.type)


def _effects_of_call(op: tf.Operation) -> Effects:
    handles: dict[int, Any] = {}
    others = ""
    for body, inputs in bodies(op):
        places = {id(tensor): outer for tensor, outer in zip(body.inputs, inputs, strict=False)}
        for inner in body.get_operations():
            found = effects(inner)
            others = others or found.others
            for handle in found.handles:
                if id(handle) not in places:
                    others = inner.type
                else:
                    outer = places[id(handle)]
                    handles[id(outer)] = outer
    return Effects(tuple(handles.values()), others)


def subgraph_writes(subgraph: SubGraph) -> bool:
    """Whether the body of a SubGraph has effects, or one that it calls."""
    found: dict[str, SubGraph] = {subgraph.identity: subgraph}
    queue = [subgraph]
    while queue:
        body = queue.pop().finished_body()
        if any(map(effects, body.get_operations())):
            return True
        queue += [callee for identity, callee in body.callees.items() if identity not in found]
        found.update(body.callees)
    return False


def is_call(op: tf.Operation) -> bool:
    """Whether an operation is a branch, a loop or a call of a function."""
    return op.type in _CALLS


def bodies(op: tf.Operation) -> Iterator[tuple[Any, list[tf.Tensor]]]:
    """The graphs of the functions that an operation calls, each with what it is given."""
    if not is_call(op):
        return
    inputs = list(op.inputs)
    if op.type in ("While", "StatelessWhile"):
        called, given = [op.get_attr("cond").name, op.get_attr("body").name], inputs
    elif op.type in ("If", "StatelessIf"):
        called, given = [op.get_attr("then_branch").name, op.get_attr("else_branch").name], inputs[1:]
    elif op.type in ("Case", "StatelessCase"):
        called, given = [branch.name for branch in op.get_attr("branches")], inputs[1:]
    else:
        called, given = [op.get_attr("f").name], inputs
    for name in called:
        yield tf_private.function_graph(op.graph, name), given


def may_fail(op: tf.Operation) -> bool:
    """Whether an operation can fail when it runs."""
    if op.type in infallible.ALWAYS or backward_cannot_fail(op):
        return False
    if op.type in _ASSIGNMENTS:
        return not _fits(op)
    if op.type in _UPDATES:
        return not _all_fit(op)
    if op.type == "RngReadAndSkip":
        return not draws_from_philox(*op.inputs[:2])
    if op.type in WRITES:
        return not row_write_cannot_fail(op)
    if op.type in _CALLS:
        return any(may_fail(inner) for body, _ in bodies(op) for inner in body.get_operations())
    return not _is_safe_in_shape(op)


def draws_from_philox(state: tf.Tensor, algorithm: tf.Tensor) -> bool:
    """Whether `RngReadAndSkip` finds a state of the size that it needs, and gives all of it, as a read does."""
    data = tf_private.handle_data(state)
    is_of_three = data is not None and tf.TensorShape(data.shape) == [3]
    return is_of_three and bool(tf_private.constant_value(algorithm) == PHILOX)


def _is_safe_in_shape(op: tf.Operation) -> bool:
    """Whether everything is known that its kernel checks."""
    is_integer = any(tensor.dtype.is_integer for tensor in op.outputs)
    if not infallible.fails_only_in_shape(op.type, is_integer):
        return False
    is_known = op.type not in infallible.WITH_KNOWN_INDICES or sum(_is_computed(tensor) for tensor in op.inputs) <= 1
    return is_known and all(tensor.shape.is_fully_defined() for tensor in (*op.inputs, *op.outputs))


def _is_computed(tensor: tf.Tensor) -> bool:
    return tensor.op.type != "Const"


def _fits(op: tf.Operation) -> bool:
    """Whether an assignment's value has the shape of its variable."""
    data = tf_private.handle_data(op.inputs[0])
    shape = op.inputs[1].shape
    if data is None or not shape.is_fully_defined():
        return False
    return tf.TensorShape(data.shape).is_fully_defined() and tf.TensorShape(data.shape) == shape


def _all_fit(op: tf.Operation) -> bool:
    """Whether an update's variables and gradient have one shape, and its other inputs are scalars."""
    shapes = []
    for tensor in op.inputs:
        data = tf_private.handle_data(tensor) if tensor.dtype == tf.resource else None
        if tensor.dtype == tf.resource and data is None:
            return False
        shapes.append(tf.TensorShape(data.shape) if data is not None else tensor.shape)
    wanted = shapes[0]
    return wanted.is_fully_defined() and all(
        shape.is_fully_defined() and (shape == wanted or shape.rank == 0 and tensor.dtype != tf.resource)
        for shape, tensor in zip(shapes, op.inputs, strict=True)
    )


# Writes of rows: (table, indices, values).
WRITES: Final = frozenset(f"ResourceScatter{kind}" for kind in ("Add", "Sub", "Mul", "Min", "Max", "Update"))
_READS: Final = frozenset({"ResourceGather"})
# Give some of the numbers that they are given, in some shape.
_RESHAPING: Final = frozenset({"ExpandDims", "Identity", "Reshape", "Squeeze", "Unique"})
# Of one tensor with rows, as many rows.
_ROW_BY_ROW: Final = frozenset({"Identity", "Mul", "Neg", "RealDiv"})


def row_write_cannot_fail(op: tf.Operation) -> bool:
    """Whether a write to rows of a table finds all rows there, and values that fit.

    The read that has come before fails where a row is not there, and what writes waits for what may fail.
    """
    table, indices, values = op.inputs[:3]
    data = tf_private.handle_data(table)
    if data is None or indices.shape.rank != 1:
        return False
    shape = tf.TensorShape(data.shape)
    if not shape.is_fully_defined() or not values.shape[1:].is_fully_defined() or values.shape[1:] != shape[1:]:
        return False
    return _were_read(table, indices) and (_is_as_long(values, indices) or _are_one_gradient(values, indices))


def _were_read(table: tf.Tensor, indices: tf.Tensor) -> bool:
    source = _numbers(indices)
    if source.op.type == "ConcatV2":
        return all(_were_read(table, part) for part in source.op.inputs[:-1])
    if source.op.type == "Recgraph>InvokeGradient":
        return invoke_gradient.table_of(source) is table
    reads = (user for user in table.consumers() if user.type in _READS)
    return any(_numbers(read.inputs[1]) is source and read.get_attr("batch_dims") == 0 for read in reads)


def _numbers(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type in _RESHAPING and tensor.value_index == 0:
        tensor = tensor.op.inputs[0]
    return tensor


def _is_as_long(values: tf.Tensor, indices: tf.Tensor) -> bool:
    return values.shape[0] is not None and values.shape[0] == indices.shape[0]


def _are_one_gradient(values: tf.Tensor, indices: tf.Tensor) -> bool:
    """Whether values are, scaled perhaps, the rows that come with these indices."""
    while values.op.type in _ROW_BY_ROW:
        rows = [tensor for tensor in values.op.inputs if tensor.shape.rank != 0]
        if len(rows) != 1:
            return False
        values = rows[0]
    is_pair = values.op is indices.op and values.value_index == indices.value_index + 1
    return is_pair and indices.op.type == "Recgraph>InvokeGradient"


# Beside what fails in shape only: the forward pass has checked the indices.
_WITH_INDICES: Final = frozenset(
    {"BroadcastGradientArgs", "DynamicStitch", "GatherV2", "InvertPermutation", "UnsortedSegmentSum"}
)
_LIBRARIES: Final = ("tensorflow.", "keras.", "recgraph.")
_found: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def noted(called: Any, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Iterator[None]:
    """Notes the operations that a method of a tape makes in the block, where they are the gradients of a forward pass.

    They are not where the program gives the gradients of its results, which may have any shape, or has a gradient
    function of its own.

    Args:
        called: the object whose method is called; nothing is noted if that is no tape.
        name: of the method.
        arguments, named: what it is given.
    """
    is_given = len(arguments) > 2 or named.get("output_gradients") is not None
    graph = tf_private.current_graph()
    if not isinstance(called, tf.GradientTape) or name != "gradient" or is_given or _has_users_gradients(graph):
        yield
        return
    before = {op.name for op in graph.get_operations()}
    yield
    _found.setdefault(graph, set()).update(op.name for op in graph.get_operations() if op.name not in before)


def backward_cannot_fail(op: tf.Operation) -> bool:
    """Whether an operation is of a backward pass, and fails at most where a forward pass has failed."""
    return is_noted(op) and (op.type in _WITH_INDICES or infallible.fails_only_in_shape(op.type, is_integer=False))


def is_noted(op: tf.Operation) -> bool:
    """Whether an operation is of the backward pass of a forward pass in the graph."""
    return op.name in _found.get(op.graph, ())


def _has_users_gradients(graph: Any) -> bool:
    """Whether something in the graph, or in one around it, has a gradient function that is not of the libraries."""
    while graph is not None:
        if not all(_is_of_libraries(op) for op in graph.get_operations()):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def _is_of_libraries(op: tf.Operation) -> bool:
    try:
        functions = tf_private.wrapped_gradient_functions(op)
    except LookupError:  # it has no gradient
        return True
    return all(str(function.__module__).startswith(_LIBRARIES) for function in functions)
