"""What a tape around a call finds: for each result, the gradients that an eager call gives of it.

TensorFlow takes every result of a function to depend on all that goes in. Here each depends on what leads to it, and
where a way decides about that, the way is assumed as long as there is a tape.
"""

from __future__ import annotations

import functools
from collections.abc import Container
from typing import Any

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.passes import backward
from recgraph.speculate.passes.backward import DENSE, SLICES, Look, Recorded

_DENSE_OR_SLICES = "a result has slices for a gradient, and another a dense one of the same tensor"
_OWN_GRADIENTS = "a gradient of the program's own is given zeros for results that nothing uses"


def decisive(ev: Evaluator, graph: Any, outputs: list[tf.Tensor]) -> tuple[set[Any], str]:
    """The places that decide whether a tape around the call finds a gradient, or of which kind; None stands for one
    that is not the program's. Second, why what it finds would differ with any assumption; empty if it would not.
    """
    distinct = {id(output): output for output in outputs if backward.can_have_gradient(output)}.values()
    has_several = len(distinct) > 1
    if has_several and backward.has_own_gradients(graph):
        return set(), _OWN_GRADIENTS
    if not backward.may_take_other_ways(graph) and not (has_several and backward.looks_up(graph)):
        return set(), ""
    inside = [tensor for _, tensor in graph.captures] + list(ev.heap.inputs)
    recorded = Recorded.of_all(graph, inside)

    def look(*targets: tf.Tensor) -> Look:
        return Look(graph, recorded, targets, ev.conditionals, ev.paths)

    together = look(*distinct)
    mixed = [tensor for tensor in inside if together.kinds(tensor) == {SLICES, DENSE}]
    if mixed and any(
        {SLICES} in kinds for kinds in zip(*(map(look(one).kinds, mixed) for one in distinct), strict=True)
    ):
        return set(), _DENSE_OR_SLICES
    found: set[Any] = set()
    for output in backward.after_ways(graph, distinct):
        seen = look(output)
        found.update(seen.places(inside), seen.made_up(inside), seen.buried(inside))
    return found, ""


def by_dependencies(ev: Evaluator, concrete: Any) -> Any:
    """The function of a call, as tapes should record it."""
    outputs = list(concrete.graph.outputs)
    tell = functools.partial(groups, ev.conditionals, ev.paths, concrete.graph, outputs)
    tf_private.record_in_groups(concrete, tell)
    return concrete


def groups(
    places: dict[tf.Operation, Any],
    assumed: Container[Any],
    graph: Any,
    outputs: list[tf.Tensor],
    watched: tf_private.Watched,
) -> list[tf_private.Group]:
    """The numbers of outputs that depend on the same watched inputs, with the numbers of these.

    Args:
        places: where in the program the operations decide that do, as in `Evaluator.conditionals`.
        assumed: the places where a way is assumed, as in `Evaluator.paths`.
        graph: of the call.
        outputs: its results.
        watched: which of its inputs are watched.
    """
    connected = tf_private.connected_inputs if _is_plain(graph) else functools.partial(_reached, places, assumed)
    found: dict[tuple[int, ...], list[int]] = {}
    for i, output in enumerate(outputs):
        if backward.can_have_gradient(output):
            needed = connected(graph, output, watched)
            found.setdefault(tuple(j for j, is_needed in enumerate(needed) if is_needed), []).append(i)
    return [(given, list(taken)) for taken, given in found.items()]


def _is_plain(graph: Any) -> bool:
    """Whether no operation runs a function: asking for its gradient would change it."""
    return not any(ops.is_call(op) or op.type.startswith("Recgraph>") for op in graph.get_operations())


def _reached(
    places: dict[tf.Operation, Any],
    assumed: Container[Any],
    graph: Any,
    output: tf.Tensor,
    watched: tf_private.Watched,
) -> list[bool]:
    """Of each watched input, whether a gradient may come to it from an output, by the ways that are assumed."""
    inputs = [tensor for tensor, is_watched in zip(graph.inputs, watched, strict=True) if is_watched]
    look = Look(graph, Recorded.of_all(graph, inputs), [output], places, assumed)
    return [is_watched and look.comes_to(t) for t, is_watched in zip(graph.inputs, watched, strict=True)]
