"""Steps that several workers share: a graph takes part in a sum only once nothing of its own can break any more.

On another worker the same call may run eagerly, because an assumption broke there. Each sum says how many workers took
part in it as a graph. Where these are not all, all have to run the call eagerly, with the sum again; so nothing is
written, and no later sum begins, before that is known. `recgraph.distribute.scope` has the sums, and their other half.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.ops import bodies, is_call
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.passes import ordering
from recgraph.speculate.script.assumptions import AllCommit, assertion


def commit(ev: Evaluator, graph: Any) -> None:
    """Orders the sums over workers in a finished graph, and fails it where others run the call eagerly.

    Raises:
        Inconvertible: the graph has collectives of the program's own; or something could break after a sum.
    """
    sums = [op for op, _ in graph.sums]
    _refuse_others(graph, sums)
    if not sums:
        return
    if ev.script.checks:
        raise Inconvertible(Feature.DISTRIBUTION, "a call that several workers share checks something after its graph")
    order = ordering.Order.of(graph)
    after = ordering.followers(order.operations, sums)
    if any(tensor.op in after for tensor in ev.assertions):
        raise Inconvertible(Feature.DISTRIBUTION, "something is assumed about weights that the same call has updated")
    inputs = ordering.reaching(order.operations, set(sums[:1]), ordering.consumers)  # a sum waits for these anyway
    before = [op for op in order.operations if op in order.fallible and op not in after and op not in inputs]
    for op, has_all in graph.sums:
        tf_private.add_control_inputs(op, before)
        if has_all is None:
            before = [op]
            continue
        with graph.as_default(), tf.control_dependencies(None):
            number = ev.script.number(AllCommit("a step that several workers share"))
            before = [ordering.check([assertion(has_all, number)])]


def _refuse_others(graph: Any, sums: list[tf.Operation]) -> None:
    for op in graph.get_operations():
        if op.type.startswith("Collective") and op not in sums:
            raise Inconvertible(Feature.DISTRIBUTION, f"a {op.type} of the program's own, or in a loop or branch")
        for body, _ in bodies(op) if is_call(op) else ():
            _refuse_others(body, sums)
