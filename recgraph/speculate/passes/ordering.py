"""What waits for what, so that a call happens as a whole or not at all.

What may not end, or whose cost a value decides, begins only when the assumptions before it hold. Where a branch was
assumed to go one way, what follows in the graph is that way alone, and runs beside the check. A loop may end on that
way only, and a length be small on it only: eagerly neither is begun on the other way. So loops, recursion and what
makes tensors of a computed size wait for the assumptions that come before them in the program, and for its own checks.
The check fails the graph, which is cancelled then.

What writes waits for everything that may fail; what cannot wait can be undone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.core import invoke_gradient
from recgraph.core.definition import Definition
from recgraph.core.invoke import program_in
from recgraph.ops import Effects, Form, bodies, effects, is_call
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.script.assumptions import HOLDS, LARGEST, MARK
from recgraph.speculate.script.contexts import CalledBack, Fork


def subgraph_writes(subgraph: Definition) -> bool:
    """Whether the body of a SubGraph has effects, or one that it calls."""
    found: dict[str, Definition] = {subgraph.identity: subgraph}
    queue = [subgraph]
    while queue:
        body = queue.pop().finished_body()
        if any(map(ops.effects, body.get_operations())):
            return True
        queue += [callee for identity, callee in body.callees.items() if identity not in found]
        found.update(body.callees)
    return False


def refuse_writing_subgraphs(graph: Any) -> None:
    """Refuses calls of SubGraphs with effects, in functions of the graph, too: a library may have made them.

    Raises:
        Inconvertible: there is one.
    """
    for op in graph.get_operations():
        if op.type == "Recgraph>Invoke" and (key := op.get_attr("key")):
            linked = program_in(graph, key.decode())
            if linked is not None and linked.subgraph is not None and subgraph_writes(linked.subgraph):
                raise Inconvertible(
                    Feature.EFFECTS, f"the SubGraph {linked.subgraph.name} has effects, which could not be undone"
                )
        for body, _ in bodies(op) if is_call(op) else ():
            refuse_writing_subgraphs(body)


def may_fail(op: tf.Operation) -> bool:
    """Whether an operation can fail when it runs."""
    return ops.may_fail(op, lambda one: backward_cannot_fail(one) or row_write_cannot_fail(one))


# Their result has some of the numbers of their first input.
_KEEPS_NUMBERS: Final = (ops.Form.SAME, ops.Form.REARRANGES)
# Their result has as many rows as the one input that is no scalar.
_KEEPS_ROWS: Final = (ops.Form.SAME, ops.Form.ELEMENTWISE, ops.Form.BROADCASTS)


def row_write_cannot_fail(op: tf.Operation) -> bool:
    """Whether an operation writes to rows of a table, finds all of them there, and has values that fit.

    The read that has come before fails where a row is not there, and what writes waits for what may fail.
    """
    known = ops.facts(op.type)
    if known.fails is not ops.Fails.ROWS or known.rows != 1:
        return False
    table, indices, values = op.inputs
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
    reads = (user for user in table.consumers() if user.type == "ResourceGather")
    return any(_numbers(read.inputs[1]) is source and read.get_attr("batch_dims") == 0 for read in reads)


def _numbers(tensor: tf.Tensor) -> tf.Tensor:
    while ops.facts(tensor.op.type).form in _KEEPS_NUMBERS and tensor.value_index == 0:
        tensor = tensor.op.inputs[0]
    return tensor


def _is_as_long(values: tf.Tensor, indices: tf.Tensor) -> bool:
    return values.shape[0] is not None and values.shape[0] == indices.shape[0]


def _are_one_gradient(values: tf.Tensor, indices: tf.Tensor) -> bool:
    """Whether values are, scaled perhaps, the rows that come with these indices."""
    while ops.facts(values.op.type).form in _KEEPS_ROWS:
        rows = [tensor for tensor in values.op.inputs if tensor.shape.rank != 0]
        if len(rows) != 1:
            return False
        values = rows[0]
    is_pair = values.op is indices.op and values.value_index == indices.value_index + 1
    return is_pair and indices.op.type == "Recgraph>InvokeGradient"


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
    """Whether an operation is of a backward pass, and fails at most where a forward pass has failed.

    That has checked the indices, too.
    """
    if not is_noted(op):
        return False
    return ops.facts(op.type).fails is ops.Fails.INDICES or ops.fails_only_in_shape(op.type, is_integer=False)


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


def broken(assertions: Sequence[tf.Tensor]) -> tf.Tensor:
    """An assertion for several: of those that are broken the first, on which the others may depend."""
    if not assertions:
        return tf.constant(HOLDS)
    return assertions[0] if len(assertions) == 1 else tf.reduce_max(tf.stack(assertions))


def is_guarded(ev: Evaluator) -> bool:
    """Whether the graph decides if the program comes to this place, which the script does not know before it."""
    if ev.assertions or ev.inside(Fork, CalledBack):
        return True
    return any(map(_is_check, ev.graph.get_operations()))


def check(assertions: Sequence[tf.Tensor]) -> tf.Operation:
    """An operation that fails the graph, with its number, where one of these assumptions is broken."""
    first = broken(assertions)
    return tf.debugging.Assert(first < 0, [MARK, LARGEST - first], summarize=1)


def hold_back(graph: Any, assertions: Sequence[tf.Tensor]) -> None:
    """Makes what may not end, or become large, wait for the checks that come before it in the program.

    Args:
        graph: of a call, or of a branch or a round of a loop in it, whose operations are in the order of the program.
        assertions: the assumptions that are checked in it.
    """
    operations = graph.get_operations()
    costly = [op for op in operations if is_costly(op)]
    if not costly:
        return
    places = {op: i for i, op in enumerate(operations)}
    numbers = sorted((t for t in assertions if t.op in places), key=lambda t: places[t.op])
    checks = [op for op in operations if _is_check(op)]
    guard: list[tf.Operation] = []
    for op in costly:
        before = list(itertools.takewhile(lambda t, op=op: places[t.op] < places[op], numbers))  # type: ignore[misc]
        done = list(itertools.takewhile(lambda other, op=op: places[other] < places[op], checks))  # type: ignore[misc]
        del numbers[: len(before)], checks[: len(done)]
        if before or done:
            guard = [_guard(graph, before, [*guard, *done])]
        if guard:
            tf_private.add_control_inputs(op, guard)


def _guard(graph: Any, assertions: Sequence[tf.Tensor], after: Sequence[tf.Operation]) -> tf.Operation:
    with graph.as_default(), tf.control_dependencies(None):
        made = check(assertions) if assertions else tf.no_op()
    tf_private.run_independently(made)  # its place is not that in which it was made
    tf_private.add_control_inputs(made, after)
    return made


def is_costly(op: tf.Operation) -> bool:
    """Whether an operation may not end, or values decide how large its result is."""
    known = ops.facts(op.type)
    if known.is_endless:
        return True
    if is_call(op):
        return any(is_costly(inner) for body, _ in bodies(op) for inner in body.get_operations())
    if is_noted(op):
        return False
    if known.sized_by:
        return any(tf_private.constant_value(op.inputs[i]) is None for i in known.sized_by if i < len(op.inputs))
    if known.form is Form.PRODUCT:
        return op.outputs[0].shape.rank is None or op.outputs[0].shape[-2:].as_list() == [None, None]
    return known.form is Form.BROADCASTS and _grows(*(tensor.shape for tensor in op.inputs))


def _grows(one: tf.TensorShape, other: tf.TensorShape) -> bool:
    """Whether each of two operands is spread along a dimension of the other's whose size is not known."""
    if one.rank is None or other.rank is None:
        return False
    sizes = list(itertools.zip_longest(reversed(one.as_list()), reversed(other.as_list()), fillvalue=1))
    return (None, 1) in sizes and (1, None) in sizes


def _is_check(op: tf.Operation) -> bool:
    """Whether the program checks something by an operation: what comes after it does not begin where that fails."""
    if ops.facts(op.type).checks:
        return True
    return is_call(op) and any(_is_check(inner) for body, _ in bodies(op) for inner in body.get_operations())


Following: TypeAlias = Callable[[tf.Operation], list[tf.Operation]]


@dataclasses.dataclass
class Order:
    """The operations of a graph, by what all-or-nothing asks of them.

    Attributes:
        operations: all, each after those that it waits for.
        writers: what has effects, with them.
        fallible: what may fail.
        early: those of both kinds from which something else that may fail is reached.
    """

    operations: list[tf.Operation]
    writers: dict[tf.Operation, Effects]
    fallible: set[tf.Operation]
    early: set[tf.Operation]

    @classmethod
    def of(cls, graph: tf.Graph) -> Order:
        """Finds them."""
        operations = ops.in_order(graph)
        sums = {op for op, _ in getattr(graph, "sums", ())}  # what they do to others is nothing until all commit
        writers = {op: found for op in operations if op not in sums and (found := _lasting(effects(op)))}
        fallible = {op for op in operations if may_fail(op)}
        return cls(operations, writers, fallible, reaching(operations, fallible, consumers))

    def cancellable(self) -> list[tf.Operation]:
        """What cannot fail, but may be cancelled, and comes after nothing that writes."""
        after = followers(self.operations, self.writers)
        endless = [op for op in self.operations if ops.facts(op.type).is_endless]
        return [op for op in endless if op not in self.fallible and op not in after]

    def undoable(self) -> dict[tf.Operation, Effects]:
        """The writers that cannot wait: something that may fail comes after them, or they may fail half-way."""
        return {op: found for op, found in self.writers.items() if op in self.early or op in self.fallible}


def _lasting(found: Effects) -> Effects:
    """What is there after the graph, in which variables of its own are not."""
    return Effects(tuple(handle for handle in found.handles if handle.op.type != "VarHandleOp"), found.others)


def hold_back_writes(graph: tf.Graph, all_early: bool = False) -> list[tf.Tensor]:
    """Makes the operations with effects wait for all that may fail and does not come after them.

    Args:
        graph: of a call.
        all_early: whether something that may fail comes after the graph.

    Returns:
        The handles of the variables that have to be put back when the graph fails: they are written early.

    Raises:
        Inconvertible: something is done early that cannot be undone.
    """
    refuse_writing_subgraphs(graph)
    order = Order.of(graph)
    last = [op for op in order.fallible if op not in order.early] + order.cancellable()
    _keep_unused(graph, order.fallible)
    undoable = order.writers if all_early else order.undoable()
    final = [op for op in order.writers if op not in undoable]
    if final and last:
        with graph.as_default(), tf.control_dependencies(None):
            barrier = tf_private.add_operation("NoOp", [], {}, "recgraph_all_is_well")
        tf_private.add_control_inputs(barrier, last)
        for writer in final:
            tf_private.add_control_inputs(writer, [barrier])
    return _handles(undoable.items())


def _keep_unused(graph: tf.Graph, fallible: set[tf.Operation]) -> None:
    """What fails has to fail also where nobody wants its result, which TensorFlow would not compute."""
    needed = reaching(ops.in_order(graph), fallible, _users)
    known = {*graph.control_outputs}
    graph.control_outputs.extend(op for op in fallible if op not in needed and op not in known)


def reaching(operations: list[tf.Operation], wanted: set[tf.Operation], following: Following) -> set[tf.Operation]:
    """What comes before one of these. Operations are in an order in which nothing follows what comes later."""
    found: set[tf.Operation] = set()
    for op in reversed(operations):
        if any(after in found or after in wanted for after in following(op)):
            found.add(op)
    return found


def followers(operations: list[tf.Operation], first: Iterable[tf.Operation]) -> set[tf.Operation]:
    """What comes after one of these."""
    found = set(first)
    for op in operations:
        if any(tensor.op in found for tensor in op.inputs) or any(before in found for before in op.control_inputs):
            found.add(op)
    return found


def _handles(writers: Iterable[tuple[tf.Operation, Effects]]) -> list[tf.Tensor]:
    handles: dict[int, tf.Tensor] = {}
    for op, found in writers:
        if found.others:
            raise Inconvertible(Feature.ORDER, f"{found.others} cannot be undone if a later operation fails")
        for handle in found.handles:
            if tf_private.handle_data(handle) is None:
                raise Inconvertible(
                    Feature.ORDER, f"{op.type} changes state that cannot be restored if a later operation fails"
                )
            handles[id(handle)] = handle
    return list(handles.values())


def _users(op: tf.Operation) -> list[tf.Operation]:
    return [user for output in op.outputs for user in output.consumers()]


def consumers(op: tf.Operation) -> list[tf.Operation]:
    """What waits for an operation: by its results, or by order."""
    return _users(op) + list(op._control_outputs)
