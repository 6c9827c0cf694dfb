"""Whether a gradient is there, and whether it is dense: eagerly it is `None` where nothing that was done leads from the
source to the target, and slices where all that was done with the source is to look up rows.

The graph has both ways of a conditional. A gradient that flows through one of them only is zero where the other was
taken. So what a tape gives is looked through, from the targets back to the sources: where a gradient depends on a way,
that way is assumed, or that a loop has a round, or, where neither can be, that the gradient is not zero. Slices that
come out of a loop are summed in the graph, and what is dense on the other way becomes slices. Optimizers take the two
differently, so the way is assumed, or the loop is unrolled.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.ops import Calls, bodies
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Again, Feature
from recgraph.speculate.observe.syntax import site_of
from recgraph.speculate.script.assumptions import SamePath

# They hold on to tensors, those of a graph too.
RECORDS: Final = (tf.GradientTape, tf.autodiff.ForwardAccumulator, tf.TensorArray)
# Of a tensor: a gradient may come to it, surely comes to it, comes or not depending on a way; to one item of a list.
_POSSIBLE, _SURE, _UNSURE, _ITEM = 1, 2, 4, 8
# Of what comes: some of it may be slices; some of it is surely dense, so the sum is; slices come out of a way or loop.
_SLICES, _DENSE, _BURIED = 16, 32, 64
_KINDS: Final = _SLICES | _DENSE | _BURIED
# Operations that pass on what comes to them, slices too; those that look up rows.
_COPIES: Final = ("Identity", "ReadVariableOp")
_LOOKUPS: Final = ("ResourceGather", "ResourceGatherNd", "Gather", "GatherNd", "GatherV2")
_RECURSIONS: Final = ("Recgraph>Invoke", "Recgraph>While")
_COMPARISONS: Final[dict[str, Any]] = {
    "Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater, "GreaterEqual": np.greater_equal,
    "LogicalAnd": np.logical_and, "Identity": lambda value: value,
}  # fmt: skip
_METHODS: Final = ("gradient", "jacobian", "batch_jacobian")


def refuse_old_record(ev: Evaluator, thing: Any) -> None:
    """A tape that was there before the call may have recorded what no graph of this call has; arrays are the same."""
    if isinstance(thing, RECORDS) and ev.heap.name_of(thing) is not None:
        raise ev.refuse(Feature.TAPE, f"the {type(thing).__name__} was made before the call")


def check(ev: Evaluator, method: str, arguments: Sequence[Any], named: dict[str, Any], found: Any) -> Any:
    """What a tape has found, where it is sure to be what an eager tape finds.

    Raises:
        Again: a way has to be assumed earlier in the program.
    """
    if method not in _METHODS:
        return found
    targets, sources = ((*arguments, *(named[k] for k in ("target", "sources", "source") if k in named)))[:2]
    for tensor in (*_flat(targets), *_flat(sources)):
        ev.heap.tell(tensor)
    unconnected = (arguments[3:4] or [named.get("unconnected_gradients", tf.UnconnectedGradients.NONE)])[0]
    if tf.UnconnectedGradients(unconnected) is not tf.UnconnectedGradients.NONE:
        return found
    gradients = _flat(found) if isinstance(found, tf.IndexedSlices) else tf.nest.flatten(found)
    pairs = zip(_flat(sources), gradients, strict=False)
    there = [(source, gradient) for source, gradient in pairs if gradient is not None]
    graph = tf_private.current_graph()
    _assume_aliases(ev, _flat(sources))
    looked = Look(ev, graph)
    site = site_of(ev.frame.syntax, ev.here, "gradient"), 0
    is_broken = ev.profile.seen(*site).count > 0
    found_in_graph = [(_of_graph(graph, source), gradient) for source, gradient in there]
    unsure = looked.unsure(found_in_graph, _flat(targets), is_broken)
    if unsure:
        _assume_used(ev, unsure, site, is_broken)
    if spoilt := looked.may_be_spoilt(found_in_graph):
        _assume_numbers(ev, spoilt)
    sources = [_of_graph(graph, source) for source, _ in there]
    _assume_slices(ev, looked.buried([source for source in sources if source is not None]))
    return found


def _assume_slices(ev: Evaluator, places: set[Any]) -> None:
    """Where the graph would add slices up that eager execution gives one by one, or make slices of what is dense."""
    if places - {None} - ev.paths:
        raise Again(places - {None} - ev.paths)
    if places:
        raise ev.refuse(Feature.TAPE, "eagerly the gradient consists of slices, and it comes out of a loop")


def _assume_used(ev: Evaluator, gradients: list[Any], site: Any, is_broken: bool) -> None:
    """That gradients are not zero everywhere. Where that broke, lists do not grow in the graph, if that may help."""
    growing = ev.growing - ev.paths
    if growing and is_broken:
        raise Again(growing)
    what = "the gradient is not zero everywhere, so it is there"
    may_learn = growing or (ev.uncertain - ev.paths and not is_broken)
    for gradient in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        used = tf.reduce_any(tf.not_equal(values, tf.zeros([], values.dtype)))
        ev.assert_in_graph(used, SamePath(what, ev.where(), site if may_learn else None))


def _assume_numbers(ev: Evaluator, gradients: list[Any]) -> None:
    """That gradients are not NaN. By a way that was not taken nothing comes eagerly, and zeros in the graph, which
    infinity makes NaN.
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


def depends_on_ways(ev: Evaluator, graph: Any, outputs: list[tf.Tensor]) -> list[Any]:
    """The places that decide whether a tape around the call finds a gradient; [None] where there is no such place."""
    looked = Look(ev, graph)
    inside = [tensor for _, tensor in graph.captures] + list(ev.heap.inputs)
    return looked.places([(tensor, tensor) for tensor in inside], outputs) + list(looked.buried(inside))


def _assume_aliases(ev: Evaluator, sources: list[Any]) -> None:
    """A source that a branch or round has given may eagerly be the very tensor that it was given: a way is assumed."""
    made = [source for source in sources if tf_private.is_graph_tensor(source) and source.op.inputs]
    ways: set[Any] = {ev.conditionals.get(deciding(source)) for source in made} - {None}
    places = {("unrolled", way[1]) if way[0] == "entered" else way for way in ways}
    if places - ev.paths:
        raise Again(places - ev.paths)


def _of_graph(graph: Any, source: Any) -> tf.Tensor | None:
    """A source, or the handle of a variable, as operations of the graph are given it."""
    tensor = source.handle if hasattr(source, "handle") else source
    if isinstance(tensor, tf.Tensor) and getattr(tensor, "graph", None) is graph:
        return tensor
    return next((inner for outer, inner in graph.captures if outer is tensor), None)


class Look:
    """What leads from the targets back to the sources in a graph.

    Attributes:
        decisive: operations that decide about gradients, each with the inputs that may get one or not.
    """

    def __init__(self, ev: Evaluator, graph: Any) -> None:
        self.ev, self.graph = ev, graph
        self.decisive: dict[tf.Operation, list[tf.Tensor]] = {}
        self._around: dict[int, tf.Tensor] = {}  # what functions are given, by the identity of their inputs
        self._unsure: list[Any] = []
        self._bits: dict[int, int] = {}
        self._burying: dict[tf.Operation, list[tf.Tensor]] = {}  # operations out of which slices come

    def unsure(self, pairs: list[tuple[Any, Any]], targets: list[Any], is_broken: bool) -> list[Any]:
        """The gradients, of pairs of sources and gradients, that are there or not depending on a way.

        Raises:
            Again: they are sure once some ways are assumed.
        """
        places = set(self.places(pairs, targets)) - {None} - self.ev.paths
        if not is_broken:
            places -= self.ev.uncertain
        if places:
            raise Again(places)
        return self._unsure

    def places(self, pairs: list[tuple[Any, Any]], targets: list[Any]) -> list[Any]:
        """The places in the program that decide; None stands for those that are not the program's."""
        operations = self.graph.get_operations()
        if not any(map(_may_decide, operations)):
            return []
        tensors = [t for target in targets for t in tf.nest.flatten(target, expand_composites=True)]
        given = _POSSIBLE | _SURE | _DENSE
        bits = self._bits = {id(tensor): given for tensor in tensors if tf_private.is_graph_tensor(tensor)}
        self._back(operations, bits)
        unsure = [(s, g) for s, g in pairs if s is not None and bits.get(id(s), 0) & (_UNSURE | _SURE) == _UNSURE]
        self._unsure = [gradient for _, gradient in unsure]
        after = _following(operations, [source for source, _ in unsure])
        deciding = [op for op, inputs in self.decisive.items() if any(id(tensor) in after for tensor in inputs)]
        return [self.ev.conditionals.get(op) for op in deciding]

    def may_be_spoilt(self, pairs: list[tuple[Any, Any]]) -> list[Any]:
        """The gradients, of pairs of sources and gradients, that are computed of zeros which stand for nothing, after
        `places`: something is computed between the source and an operation that decides, or in that one.
        """
        if not self.decisive:
            return []
        computed: dict[int, bool] = {}
        for op, inputs in self.decisive.items():
            has_ways = _has_ways(op)
            computed.update({id(tensor): has_ways or computed.get(id(tensor), False) for tensor in inputs})
        for op in reversed(self.graph.get_operations()):
            after = [computed[id(tensor)] for tensor in op.outputs if id(tensor) in computed]
            for tensor in op.inputs if after else ():
                if id(tensor) in self._bits:
                    is_computed = op.type not in _COPIES or any(after) or computed.get(id(tensor), False)
                    computed[id(tensor)] = is_computed
        return [gradient for source, gradient in pairs if computed.get(id(source), False)]

    def buried(self, sources: list[tf.Tensor]) -> set[Any]:
        """The places of loops and ways out of which the slices come that are all the gradient of a source, after
        `places`; None stands for those that are not the program's.
        """
        found: set[Any] = set()
        operations = self.graph.get_operations() if self._burying else []
        for source in sources:
            if self._bits.get(id(source), 0) & _KINDS == _SLICES | _BURIED:
                copies = _following(operations, [source], _COPIES)
                found.update(
                    self.ev.conditionals.get(op)
                    for op, inputs in self._burying.items()
                    if any(id(tensor) in copies for tensor in inputs)
                )
        return {("unrolled", way[1]) if way is not None and way[0] == "entered" else way for way in found}

    def _back(self, operations: Sequence[tf.Operation], bits: dict[int, int]) -> None:
        for op in reversed(operations):
            outputs = [bits.get(id(tensor), 0) for tensor in op.outputs]
            if any(outputs):
                for tensor, more in zip(op.inputs, self._through(op, outputs), strict=False):
                    if more and _can_have_gradient(tensor):
                        bits[id(tensor)] = bits.get(id(tensor), 0) | more

    def _through(self, op: tf.Operation, outputs: list[int]) -> list[int]:
        """What comes to each input."""
        calls = ops.facts(op.type).calls
        if calls in (Calls.IF, Calls.CASE):
            ways = [self._of_body(body, outputs) for body, _ in bodies(op)]
            return self._noted(op, [0, *(_met(bits) for bits in zip(*ways, strict=False))])
        if calls is Calls.WHILE:
            return self._noted(op, self._of_loop(op, outputs))
        if calls is Calls.FUNCTION:
            return self._noted(op, self._of_call(op, outputs))
        if op.type in _RECURSIONS:
            return self._noted(op, [_POSSIBLE | _UNSURE] * len(op.inputs))
        if not _is_differentiable(op):
            return []
        together = functools.reduce(operator.or_, outputs)
        if op.type in _LISTS:
            return [_of_kind(op, i, bits, together) for i, bits in enumerate(_LISTS[op.type](together))]
        sure = _SURE if ops.facts(op.type).passes_gradients else 0
        bits = together & (_POSSIBLE | _UNSURE | sure)
        return [_of_kind(op, i, bits, together) for i in range(len(op.inputs))]

    def _noted(self, op: tf.Operation, inputs: list[int]) -> list[int]:
        unsure = [tensor for tensor, bits in zip(op.inputs, inputs, strict=False) if bits & _UNSURE]
        if unsure and op.graph is self.graph:
            self.decisive[op] = unsure
        buried = [tensor for tensor, bits in zip(op.inputs, inputs, strict=False) if bits & _BURIED]
        if buried and op.graph is self.graph:
            self._burying[op] = buried
        return inputs

    def _of_body(self, body: Any, outputs: list[int]) -> list[int]:
        bits: dict[int, int] = {}
        for tensor, more in zip(body.outputs, outputs, strict=False):
            bits[id(tensor)] = bits.get(id(tensor), 0) | more
        self._back(body.get_operations(), bits)
        return [bits.get(id(tensor), 0) for tensor in body.inputs]

    def _of_call(self, op: tf.Operation, outputs: list[int]) -> list[int]:
        """For a function: eagerly it is one operation, too, unless it is a conditional for several tapes."""
        body, inputs = next(bodies(op))
        if op not in self.ev.conditionals:
            together = functools.reduce(operator.or_, outputs) & ~_ITEM & ~_KINDS
            return [together | bits & _KINDS & ~_BURIED for bits in self._of_body(body, outputs)]
        self._around.update({id(tensor): outer for tensor, outer in zip(body.inputs, inputs, strict=False)})
        for inner in body.get_operations():
            if ops.facts(inner.type).calls in (Calls.IF, Calls.CASE, Calls.WHILE):
                self.ev.conditionals.setdefault(inner, self.ev.conditionals[op])
        return self._of_body(body, outputs)

    def _of_loop(self, op: tf.Operation, outputs: list[int]) -> list[int]:
        """For any number of rounds."""
        (test, _), (body, _) = bodies(op)
        rounds = [outputs]
        while (more := self._of_body(body, rounds[-1])) not in rounds:
            rounds.append(more)
        if more == rounds[0] and len(rounds) == 1:
            return outputs
        begins = self.ev.conditionals.get(op) in self.ev.paths or self._begins(op, test)
        if begins:
            rounds = [*rounds[1:], more]
        met = [_met(bits) for bits in zip(*rounds, strict=True)]
        return [bits | _BURIED if bits & _SLICES else bits for bits in met]

    def _begins(self, op: tf.Operation, test: Any) -> bool:
        """Whether a loop is known to have a round."""
        places = {id(tensor): outer for tensor, outer in zip(test.inputs, op.inputs, strict=False)}

        def value(tensor: tf.Tensor) -> Any:
            if id(tensor) in places:
                outer = places[id(tensor)]
                return tf_private.constant_value(self._around.get(id(outer), outer))
            if tensor.op.type in _COMPARISONS:
                parts = [value(part) for part in tensor.op.inputs]
                return None if any(part is None for part in parts) else _COMPARISONS[tensor.op.type](*parts)
            return tf_private.constant_value(tensor)

        return bool(value(test.outputs[0]))


def _may_decide(op: tf.Operation) -> bool:
    """Whether a gradient may come to some inputs of an operation only, depending on values."""
    return ops.is_call(op) or op.type in _RECURSIONS or op.type == "TensorListSetItem"


def _has_ways(op: tf.Operation) -> bool:
    """Whether there are ways within those that an operation decides between, or within a round."""
    inner = (one for body, _ in bodies(op) for one in body.get_operations())
    return op.type in _RECURSIONS or any(map(_may_decide, inner))


def may_take_other_ways(graph: Any) -> bool:
    """Whether there is anything in a graph that a call does not always do."""
    return any(map(_may_decide, graph.get_operations()))


def _of_item(bits: int) -> list[int]:
    """An item of a list is read."""
    return [(bits & ~_SURE) | (_ITEM if bits & (_SURE | _ITEM) else 0), 0, 0]


def _to_item(bits: int) -> int:
    """What comes to one item: a list that is taken as a whole needs all of them."""
    return bits & ~_ITEM if bits & _SURE else _POSSIBLE | _UNSURE


_LISTS: Final[dict[str, Any]] = {
    "TensorListGetItem": _of_item,
    "TensorListPopBack": _of_item,
    "TensorListGather": _of_item,
    "TensorListScatterIntoExistingList": lambda bits: [*_of_item(bits)[:1], _to_item(bits), 0],
    "TensorListSetItem": lambda bits: [bits, 0, _to_item(bits)],
    "TensorListPushBack": lambda bits: [bits, _to_item(bits)],
    "TensorListFromTensor": lambda bits: [(bits & ~_ITEM) | (_SURE if bits & (_SURE | _ITEM) else 0), 0],
}


def _met(bits: Iterable[int]) -> int:
    """What comes to an input by one of several ways."""
    ways = tuple(bits)
    sure = _SURE if all(way & _SURE for way in ways) else 0
    item = _ITEM if all(way & (_ITEM | _SURE) for way in ways) and not sure else 0
    possible = _POSSIBLE if any(ways) else 0
    unsure = any(way & _UNSURE for way in ways) or (possible and not (sure or item))
    slices = _SLICES if any(way & _SLICES for way in ways) else 0
    dense = _DENSE if all(way & _DENSE for way in ways) else 0
    are_slices = all(way & _KINDS == _SLICES for way in ways)
    buried = _BURIED if slices and not are_slices else 0
    return possible | sure | item | slices | dense | buried | (_UNSURE if unsure else 0)


def _of_kind(op: tf.Operation, number: int, bits: int, outputs: int) -> int:
    """What comes to an input of an operation, with whether it is slices or dense."""
    if not bits:
        return 0
    if op.type in _COPIES:
        return bits & ~_KINDS | outputs & _KINDS
    if op.type in _LOOKUPS and number == 0 and _looks_up_rows(op):
        return bits & ~_KINDS | _SLICES
    return bits & ~_KINDS | (_DENSE if bits & _SURE else 0)


def _looks_up_rows(op: tf.Operation) -> bool:
    """Whether it does not gather along another axis: then its gradient is dense."""
    return op.type != "GatherV2" or not tf_private.constant_value(op.inputs[2])


def _is_differentiable(op: tf.Operation) -> bool:
    try:
        return op.type != "StopGradient" and tf_private.gradient_function(op) is not None
    except LookupError:
        return False


def _can_have_gradient(tensor: tf.Tensor) -> bool:
    return tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype in (tf.resource, tf.variant)


def _following(operations: Sequence[tf.Operation], sources: Iterable[tf.Tensor], kinds: Sequence[str] = ()) -> set[int]:
    """What is made from tensors, by operations of some kinds or of any, by identity."""
    found = {id(tensor) for tensor in sources}
    for op in operations:
        if (not kinds or op.type in kinds) and any(id(tensor) in found for tensor in op.inputs):
            found.update(map(id, op.outputs))
    return found


def deciding(output: tf.Tensor) -> tf.Operation:
    """The conditional or loop that an output is of."""
    return output.op.inputs[0].op if output.op.type == "Identity" else output.op


def by_dependencies(concrete: Any) -> Any:
    """The function, as tapes should record it."""
    tf_private.record_in_groups(concrete, functools.partial(groups, concrete.graph, list(concrete.graph.outputs)))
    return concrete


def groups(graph: Any, outputs: list[tf.Tensor], watched: tf_private.Watched) -> list[tf_private.Group]:
    """The numbers of outputs that depend on the same watched inputs, with the numbers of these."""
    is_plain = not any(map(_runs_functions, graph.get_operations()))
    found: dict[tuple[int, ...], list[int]] = {}
    for i, output in enumerate(outputs):
        if _has_gradients(output):
            needed = (tf_private.connected_inputs if is_plain else _reached)(graph, output, watched)
            found.setdefault(tuple(j for j, is_needed in enumerate(needed) if is_needed), []).append(i)
    return [(given, list(taken)) for taken, given in found.items()]


def _runs_functions(op: tf.Operation) -> bool:
    """Whether asking for its gradient would change an operation: all that goes in may come out."""
    return ops.is_call(op) or op.type.startswith("Recgraph>")


def _has_gradients(tensor: tf.Tensor) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype in (tf.resource, tf.variant))


def _reached(graph: Any, output: tf.Tensor, watched: tf_private.Watched) -> list[bool]:
    """Of each watched input, whether a way leads from it to an output that gradients may take."""
    reached: set[str] = set()
    waiting = [output]
    while waiting:
        tensor = waiting.pop()
        if tensor.name not in reached and _has_gradients(tensor):
            reached.add(tensor.name)
            if tensor.op.type != "StopGradient":
                waiting.extend(tensor.op.inputs)
    return [is_watched and t.name in reached for t, is_watched in zip(graph.inputs, watched, strict=True)]
