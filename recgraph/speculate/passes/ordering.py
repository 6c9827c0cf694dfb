"""All or nothing: in the graph, what writes waits for everything that may fail; what cannot wait can be undone."""

from __future__ import annotations

import dataclasses
import graphlib
from collections.abc import Callable, Iterable
from typing import TypeAlias

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.ops import Effects, effects
from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.passes.effects import may_fail

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
        operations = _sorted(graph)
        writers = {op: found for op in operations if (found := effects(op))}
        fallible = {op for op in operations if may_fail(op)}
        return cls(operations, writers, fallible, _reaching(operations, fallible, _consumers))

    def cancellable(self) -> list[tf.Operation]:
        """What cannot fail, but may be cancelled, and comes after nothing that writes."""
        after = _followers(self.operations, self.writers)
        endless = [op for op in self.operations if ops.facts(op.type).is_endless]
        return [op for op in endless if op not in self.fallible and op not in after]

    def undoable(self) -> dict[tf.Operation, Effects]:
        """The writers that cannot wait: something that may fail comes after them, or they may fail half-way."""
        return {op: found for op, found in self.writers.items() if op in self.early or op in self.fallible}


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
    needed = _reaching(_sorted(graph), fallible, _users)
    known = {*graph.control_outputs}
    graph.control_outputs.extend(op for op in fallible if op not in needed and op not in known)


def _sorted(graph: tf.Graph) -> list[tf.Operation]:
    """The operations of a graph, each after all that it waits for: some were made to wait for later ones."""
    before = {op: [*(tensor.op for tensor in op.inputs), *op.control_inputs] for op in graph.get_operations()}
    return list(graphlib.TopologicalSorter(before).static_order())


def _reaching(operations: list[tf.Operation], wanted: set[tf.Operation], following: Following) -> set[tf.Operation]:
    """What comes before one of these. Operations are in an order in which nothing follows what comes later."""
    found: set[tf.Operation] = set()
    for op in reversed(operations):
        if any(after in found or after in wanted for after in following(op)):
            found.add(op)
    return found


def _followers(operations: list[tf.Operation], first: Iterable[tf.Operation]) -> set[tf.Operation]:
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


def _consumers(op: tf.Operation) -> list[tf.Operation]:
    return _users(op) + list(op._control_outputs)
