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
from recgraph.speculate.passes.backward import DENSE, SLICES, GradientReachability, Recorded

_DENSE_OR_SLICES = "a result has slices for a gradient, and another a dense one of the same tensor"
_OWN_GRADIENTS = "a gradient of the program's own is given zeros for results that nothing uses"
# So many results are differentiated one by one where the graph has ways; each makes it longer.
MOST_APART = 8
_IN_LIBRARYS = "a round of tf.while_loop that does not use a tensor gives it zeros, and what is infinite makes them NaN"
_ZEROS = "zeros stand for the gradients of results that nothing uses, and what is infinite would make them NaN"


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

    def look(*targets: tf.Tensor) -> GradientReachability:
        return GradientReachability(graph, recorded, targets, ev.conditionals, ev.paths)

    together = look(*distinct)
    mixed = [tensor for tensor in inside if together.kinds(tensor) == {SLICES, DENSE}]
    if mixed and any(
        {SLICES} in kinds for kinds in zip(*(map(look(one).kinds, mixed) for one in distinct), strict=True)
    ):
        return set(), _DENSE_OR_SLICES
    found: set[Any] = set()
    for output in backward.after_ways(graph, distinct):
        seen = look(output)
        found.update(seen.places(inside), seen.made_up(inside), seen.buried(inside), seen.spoiling(inside))
        if seen.is_spoilt_by_librarys(inside):
            return found, _IN_LIBRARYS
    several, paths = list(distinct), ev.paths
    is_too_much = len(several) > MOST_APART and not _is_plain(graph)
    if is_too_much and _zeros_are_computed(ev.conditionals, paths, graph, several, several, inside):
        return found, _ZEROS
    return found, ""


def by_dependencies(ev: Evaluator, concrete: Any) -> Any:
    """The function of a call, as tapes should record it."""
    outputs = list(concrete.graph.outputs)
    tell = functools.partial(groups, ev.conditionals, ev.paths, concrete.graph, outputs)
    apart = functools.partial(how_apart, ev.conditionals, ev.paths, concrete.graph, len(outputs))
    tf_private.record_in_groups(concrete, tell, apart)
    return concrete


def how_apart(
    places: dict[tf.Operation, Any],
    assumed: Container[Any],
    graph: Any,
    count: int,
    outputs: list[tf.Tensor],
    watched: tf_private.Watched,
) -> tf_private.Differentiated:
    """How those outputs are differentiated that have a gradient, where others have none.

    Args:
        places, assumed: as in `groups`.
        graph: of the call.
        count: how many results it has.
        outputs: these, and what is given for the gradient besides.
        watched: which of its inputs are watched.
    """
    inputs = [tensor for tensor, is_watched in zip(graph.inputs, watched, strict=True) if is_watched]
    if not _zeros_are_computed(places, assumed, graph, outputs[:count], outputs, inputs):
        return tf_private.Differentiated.WITH_ZEROS
    return tf_private.Differentiated.TOGETHER if _is_plain(graph) else tf_private.Differentiated.ONE_BY_ONE


def _zeros_are_computed(
    places: dict[tf.Operation, Any],
    assumed: Container[Any],
    graph: Any,
    results: list[tf.Tensor],
    outputs: list[tf.Tensor],
    inputs: list[tf.Tensor],
) -> bool:
    """Whether anything but zeros may come of zeros for other outputs, where one of the results is differentiated."""
    recorded, able = Recorded.of_all(graph, inputs), [one for one in outputs if backward.can_have_gradient(one)]

    def is_spoilt(result: tf.Tensor) -> bool:
        others = [other for other in able if other is not result]
        with_zeros = GradientReachability(graph, recorded, [result], places, assumed, others)
        return len(with_zeros.spoilt(inputs)) > len(
            GradientReachability(graph, recorded, [result], places, assumed).spoilt(inputs)
        )

    return len(able) > 1 and any(is_spoilt(result) for result in results if backward.can_have_gradient(result))


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
    look = GradientReachability(graph, Recorded.of_all(graph, inputs), [output], places, assumed)
    return [is_watched and look.comes_to(t) for t, is_watched in zip(graph.inputs, watched, strict=True)]
