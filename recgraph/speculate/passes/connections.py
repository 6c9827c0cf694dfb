"""Whether a gradient is there, and whether it is dense: eagerly it is `None` where nothing that was done leads from the
source to the target, and slices where all that was done with the source is to look up rows.

The graph has both ways of a conditional. A gradient that flows through one of them only is zero where the other was
taken. So what a tape gives is looked through, from the targets back to the sources: where a gradient depends on a way,
that way is assumed, or that a loop has a round, or, where neither can be, that the gradient is not zero. Slices that
come out of a loop are summed in the graph, and what is dense on the other way becomes slices. Optimizers take the two
differently, so the way is assumed, or the loop is unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Feature, Inconvertible, RestartConversion
from recgraph.speculate.observe.syntax import site_of
from recgraph.speculate.passes.backward import (
    GradientReachability,
    Recorded,
    is_conditional,
    leading_to,
    may_decide,
    may_take_other_ways,
    passed_on,
)
from recgraph.speculate.script.assumptions import SamePath

# They hold on to tensors, those of a graph too.
RECORDS: Final = (tf.GradientTape, tf.autodiff.ForwardAccumulator, tf.TensorArray)
_METHODS: Final = ("gradient", "jacobian", "batch_jacobian")
_MAY_BE_ONE: Final = "eagerly a tensor that tf.cond or tf.while_loop gives may be one that the tape follows"


def refuse_old_record(ev: Evaluator, thing: Any) -> None:
    """A tape that was there before the call may have recorded what no graph of this call has; arrays are the same."""
    if isinstance(thing, RECORDS) and ev.heap.name_of(thing) is not None:
        raise ev.refuse(Feature.TAPE, f"the {type(thing).__name__} was made before the call")


def follow(ev: Evaluator, things: Any) -> None:
    """Tensors that a tape watches from now on, or a `tf.autodiff.ForwardAccumulator` has tangents of.

    Raises:
        RestartConversion: a branch or round may have given the very tensor that it was given: a way has to be assumed.
    """
    _assume_aliases(ev, _leaves(things))


def before(ev: Evaluator, record: Any, method: str, arguments: Sequence[Any], named: dict[str, Any]) -> Recorded | None:
    """Looks at a method of a tape that is going to be called, and gives what the tape has recorded if it is asked for
    gradients and the graph has several ways: the tape forgets it in answering.

    Raises:
        RestartConversion: a way has to be assumed earlier in the program.
        Inconvertible: the tape would not see what it sees eagerly.
    """
    if method == "watch":
        _watched(ev, record, _leaves((arguments, named)))
    graph = tf_private.current_graph()
    if method not in _METHODS or not may_take_other_ways(graph):
        return None
    return Recorded.by(record, graph, ev.watched.get(id(record), []))


def is_asked(method: str) -> bool:
    """Whether a method of a tape gives gradients."""
    return method in _METHODS


def unroll_underivable(ev: Evaluator, reason: Inconvertible) -> None:
    """TensorFlow raises where it differentiates. It cannot differentiate all that is in a loop of a graph, such as
    `tf.recompute_grad` of what reads variables, though it does so eagerly: then the loops are unrolled.

    Raises:
        RestartConversion: there are loops in the graph.
    """
    if reason.feature is Feature.RAISES and ev.in_graph - ev.paths:
        raise RestartConversion(ev.in_graph - ev.paths) from reason


def _watched(ev: Evaluator, tape: tf.GradientTape, things: Sequence[Any]) -> None:
    """What is watched from now on was not before: what made it is not recorded, and no branch may have used it."""
    graph = tf_private.current_graph()
    follow(ev, things)
    tensors = [tensor for tensor in (_of_graph(graph, thing) for thing in things) if tensor is not None]
    new = [t for t, is_known in zip(tensors, tf_private.known_to(tape, tensors), strict=True) if not is_known]
    if not new:
        return
    recorded = Recorded.by(tape, graph, ev.watched.setdefault(id(tape), []))
    ids = {id(tensor) for tensor in new}
    for op in graph.get_operations():
        if may_decide(op) and op in recorded.operations and any(id(tensor) in ids for tensor in op.inputs):
            raise ev.refuse(Feature.TAPE, "watch() is called after a branch or loop has used what is to be watched")
    ev.watched[id(tape)] += new


def check(ev: Evaluator, recorded: Recorded | None, arguments: Sequence[Any], named: dict[str, Any], found: Any) -> Any:
    """What a tape has found, where it is sure to be what an eager tape finds.

    Args:
        recorded: what `before` gave.
        arguments, named: what the method of the tape was given.
        found: what it gave.

    Raises:
        RestartConversion: a way has to be assumed earlier in the program.
        Inconvertible: no assumption makes it sure.
    """
    targets, sources = ((*arguments, *(named[k] for k in ("target", "sources", "source") if k in named)))[:2]
    for tensor in (*_flat(targets), *_flat(sources)):
        ev.heap.tell(tensor)
    if recorded is None:
        return found
    graph = tf_private.current_graph()
    unconnected = (arguments[3:4] or [named.get("unconnected_gradients", tf.UnconnectedGradients.NONE)])[0]
    gradients = _flat(found) if isinstance(found, tf.IndexedSlices) else tf.nest.flatten(found)
    _assume_aliases(ev, _flat(sources))
    inside = [_of_graph(graph, target) for target in _leaves(targets)]
    look = GradientReachability(
        graph, recorded, [target for target in inside if target is not None], ev.conditionals, ev.paths
    )
    pairs = [(_of_graph(graph, source), g) for source, g in zip(_flat(sources), gradients, strict=False)]
    assume_ways(ev, look.aliases([source for source, _ in pairs if source is not None]), _MAY_BE_ONE)
    if tf.UnconnectedGradients(unconnected) is tf.UnconnectedGradients.NONE:
        if None not in inside and any(map(look.is_nothing, pairs)):
            pairs = [(source, None if look.is_nothing((source, g)) else g) for source, g in pairs]
            found = tf.nest.pack_sequence_as(found, [gradient for _, gradient in pairs])
        _assume_there(ev, look, _there(pairs))
    there = _there(pairs)
    made_of = [source for source, _ in there]
    assume_ways(ev, look.made_up(made_of), "a gradient of the program's own is given zeros")
    if spoilt := look.may_be_spoilt(there):
        _assume_numbers(ev, spoilt)
    assume_ways(ev, look.buried(made_of), "eagerly the gradient consists of slices, and it comes out of a loop")
    return found


def _there(pairs: list[tuple[Any, Any]]) -> list[tuple[tf.Tensor, Any]]:
    """Those of the graph's sources that have a gradient, with it."""
    return [(source, gradient) for source, gradient in pairs if source is not None and gradient is not None]


def _assume_there(ev: Evaluator, look: GradientReachability, pairs: list[tuple[tf.Tensor, Any]]) -> None:
    """The ways that decide whether gradients are there, of loops only after it broke that they are; else that."""
    unsure = look.unsure(pairs)
    if not unsure:
        return
    site = site_of(ev.frame.syntax, ev.here, "gradient"), 0
    is_broken = ev.profile.seen(*site).count > 0
    places = set(look.places([source for source, _ in pairs])) - {None} - ev.paths
    places -= set() if is_broken else ev.uncertain
    if places:
        raise RestartConversion(places)
    _assume_used(ev, unsure, site, is_broken)


def check_tangents(ev: Evaluator, targets: Any, found: Any) -> Any:
    """What a `tf.autodiff.ForwardAccumulator` has found for targets, where it is sure to be what an eager one finds.

    Raises:
        RestartConversion: a way has to be assumed earlier in the program.
    """
    graph = tf_private.current_graph()
    tensors = [tensor for tensor in (_of_graph(graph, target) for target in _leaves(targets)) if tensor is not None]
    ways = {op for op in leading_to(graph, tensors) if may_decide(op)}
    places = {ev.conditionals.get(op) for op in ways} - {None}
    if places - ev.paths:
        raise RestartConversion(places - ev.paths)
    if ways:
        site = site_of(ev.frame.syntax, ev.here, "jvp"), 0
        tangents = [tangent for tangent in _flat(found) if tangent is not None]
        _assume_used(ev, tangents, site, True)
    return found


def assume_ways(ev: Evaluator, places: set[Any], otherwise: str = "", feature: Feature = Feature.TAPE) -> None:
    """Ways are taken as assumed, loops are unrolled.

    Args:
        places: of the program; None stands for one that is not the program's.
        otherwise: why there is no conversion where this is done already. Nothing is wrong if there is no reason.
        feature: what the reason is about.

    Raises:
        RestartConversion: they have to be assumed.
        Inconvertible: they are none of the program's, or are assumed already.
    """
    places = {("unrolled", place[1]) if place is not None and place[0] == "entered" else place for place in places}
    if places - {None} - ev.paths:
        raise RestartConversion(places - {None} - ev.paths)
    if places and otherwise:
        raise ev.refuse(feature, otherwise)


def _assume_used(ev: Evaluator, gradients: list[Any], site: Any, is_broken: bool) -> None:
    """Checks that not all gradients are zero. Where that broke, lists do not grow in the graph, if that may help."""
    growing = ev.growing - ev.paths
    if growing and is_broken:
        raise RestartConversion(growing)
    what = "the gradient is not zero everywhere, so it is there"
    may_learn = growing or (ev.uncertain - ev.paths and not is_broken)
    for gradient in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        used = tf.reduce_any(tf.not_equal(values, tf.zeros([], values.dtype)))
        ev.assert_in_graph(used, SamePath(what, ev.where(), site if may_learn else None))


def _assume_numbers(ev: Evaluator, gradients: list[Any]) -> None:
    """Checks that gradients are not NaN.

    By a way that was not taken nothing comes eagerly, and zeros in the graph, which infinity makes NaN.
    """
    sums = []
    for gradient in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        values = tf.math.real(values) + tf.math.imag(values) if values.dtype.is_complex else values
        values = tf.cast(values, tf.float32) if values.dtype.size < 4 else values  # as others would overflow
        sums.append(tf.cast(tf.reduce_sum(values), tf.float64))
    what = "no gradient is NaN, which zeros may become that come by a way that was not taken"
    ev.assert_in_graph(tf.logical_not(tf.math.is_nan(tf.add_n(sums))), SamePath(what, ev.where()))


def _flat(value: Any) -> list[Any]:
    return [value] if isinstance(value, tf.IndexedSlices) else tf.nest.flatten(value)


def _leaves(value: Any) -> list[Any]:
    """Tensors and variables, those that slices or ragged tensors consist of, too."""
    leaves = _flat(value)
    parts = [[one] if hasattr(one, "handle") else tf.nest.flatten(one, expand_composites=True) for one in leaves]
    return [part for several in parts for part in several]


def _assume_aliases(ev: Evaluator, sources: list[Any]) -> None:
    """A source that a branch or round has given may eagerly be the very tensor that it was given: a way is assumed."""
    made = [source for source in sources if tf_private.is_graph_tensor(source) and source.op.inputs]
    outputs = [source.op.inputs[0] if source.op.type == "Identity" else source for source in made]
    ways = [one for one in outputs if is_conditional(one.op, ev.conditionals) and passed_on(one)]
    assume_ways(ev, {ev.conditionals.get(one.op) for one in ways}, _MAY_BE_ONE)


def _of_graph(graph: Any, source: Any) -> tf.Tensor | None:
    """A source, or the handle of a variable, as operations of the graph are given it."""
    tensor = source.handle if hasattr(source, "handle") else source
    if isinstance(tensor, tf.Tensor) and getattr(tensor, "graph", None) is graph:
        return tensor
    return next((inner for outer, inner in graph.captures if outer is tensor), None)
