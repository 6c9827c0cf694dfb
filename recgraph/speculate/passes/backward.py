"""What comes from the targets of a gradient back to its sources, in a graph that has both ways of conditionals.

An operation that decides between ways (a conditional, a loop, a recursion) gives zeros where eagerly nothing comes, as
the way that leads there was not taken. So each tensor is marked with what comes to it: surely, or depending on a way;
slices or a dense gradient; zeros that stand for nothing, and what was computed of them. The marks go through the bodies
of conditionals and loops, of loops for any number of rounds, and through nothing that the tape has not recorded.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Container, Iterable, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.ops import Calls, Form, bodies
from recgraph.speculate.observe import known

# Of a tensor: a gradient may come to it, surely comes to it, comes or not depending on a way; to one item of a list.
_POSSIBLE, _SURE, _UNSURE, _ITEM = 1, 2, 4, 8
# Of what comes: some of it may be slices; some of it is surely dense, so the sum is; the graph adds up what eagerly is
# slices, or makes slices dense, depending on a way.
SLICES, DENSE, _BURIED = 16, 32, 64
_KINDS: Final = SLICES | DENSE | _BURIED
# Zeros come where eagerly nothing does, and no gradient besides is sure to; something was computed of such zeros, which
# infinity makes NaN; a gradient function of the program's was given them, which may make anything of them.
_ZEROS, _COMPUTED, _MADE_UP = 128, 256, 512
_FROM_ZEROS: Final = _ZEROS | _COMPUTED | _MADE_UP
# Operations that pass on what comes to them, slices too; those of whose gradients zeros are zeros; lookups of rows.
_COPIES: Final = ("Identity", "ReadVariableOp")
_LINEAR: Final = (
    *_COPIES, "Add", "AddN", "AddV2", "ConcatV2", "Neg", "Pack", "Roll", "Slice", "Split", "SplitV", "StridedSlice",
    "Sub", "Sum", "Transpose", "Unpack",
)  # fmt: skip
_LOOKUPS: Final = ("ResourceGather", "ResourceGatherNd", "Gather", "GatherNd", "GatherV2")
_RECURSIONS: Final = ("Recgraph>Invoke", "Recgraph>While")
_COMPARISONS: Final[dict[str, Any]] = {
    "Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater, "GreaterEqual": np.greater_equal,
    "LogicalAnd": np.logical_and, "Identity": lambda value: value,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a tape knows of a graph.

    Attributes:
        operations: those that it has recorded.
        tensors: the identities of what they gave and of what is watched.
    """

    operations: frozenset[tf.Operation]
    tensors: frozenset[int]

    @classmethod
    def by(cls, tape: tf.GradientTape, graph: Any, watched: Sequence[tf.Tensor]) -> Recorded:
        """What a tape has recorded up to now; `watched` are results of operations that it has not recorded."""
        operations = graph.get_operations()
        tensors = [tensor for op in operations for tensor in op.outputs]
        known = tf_private.known_to(tape, tensors)
        found = [tensor for tensor, is_known in zip(tensors, known, strict=True) if is_known]
        leaves = {id(tensor) for tensor in watched}
        made = frozenset(tensor.op for tensor in found if id(tensor) not in leaves)
        return cls(made, frozenset(map(id, found)))

    @classmethod
    def of_all(cls, graph: Any, watched: Iterable[tf.Tensor]) -> Recorded:
        """What a tape records that watches some tensors while everything is done that is in a graph."""
        tensors = {id(tensor) for tensor in watched}
        made = set()
        for op in graph.get_operations():
            if any(id(tensor) in tensors and can_have_gradient(tensor) for tensor in op.inputs):
                made.add(op)
                tensors.update(map(id, op.outputs))
        return cls(frozenset(made), frozenset(tensors))


class GradientReachability:
    """The marks of a graph's tensors, seen from some targets.

    Args:
        graph: is looked at.
        recorded: what may have a gradient; those of other operations do not.
        targets: tensors of the graph.
        places: where in the program the operations decide that do, as in `Evaluator.conditionals`; what functions hold
            for conditionals is added.
        assumed: the places where a way is assumed, as in `Evaluator.paths`.
        zeros: tensors to which a gradient of zeros comes that stands for nothing.
    """

    def __init__(
        self,
        graph: Any,
        recorded: Recorded,
        targets: Sequence[tf.Tensor],
        places: dict[tf.Operation, Any],
        assumed: Container[Any],
        zeros: Sequence[tf.Tensor] = (),
    ) -> None:
        self.graph, self.targets = graph, targets
        self._recorded, self._places, self._assumed = recorded, places, assumed
        self._around: dict[int, tf.Tensor] = {}  # what functions are given, by the identity of their inputs
        # Operations that have a mark at some of their inputs.
        self._deciding: dict[tf.Operation, list[tf.Tensor]] = {}
        self._burying: dict[tf.Operation, list[tf.Tensor]] = {}
        self._zeroing: dict[tf.Operation, list[tf.Tensor]] = {}
        self._bits: dict[int, int] = dict.fromkeys(map(id, zeros), _ZEROS)
        self._bits.update(dict.fromkeys(map(id, targets), _POSSIBLE | _SURE | DENSE))
        self._back(graph.get_operations(), self._bits, recorded)

    def comes_to(self, source: tf.Tensor) -> bool:
        """Whether a gradient may come to a source."""
        return bool(self._of(source) & _POSSIBLE)

    def is_nothing(self, pair: tuple[tf.Tensor | None, Any]) -> bool:
        """Whether the gradient, of a pair of a source and a gradient, is zeros that stand for nothing."""
        source, gradient = pair
        return source is not None and gradient is not None and not self.comes_to(source)

    def unsure(self, pairs: list[tuple[tf.Tensor, Any]]) -> list[Any]:
        """The gradients, of pairs of sources and gradients, that are there or not depending on a way."""
        return [gradient for source, gradient in pairs if self._is_unsure(source)]

    def places(self, sources: Iterable[tf.Tensor]) -> list[Any]:
        """The places in the program that decide; None stands for those that are not the program's."""
        return self._before([source for source in sources if self._is_unsure(source)], self._deciding)

    def may_be_spoilt(self, pairs: list[tuple[tf.Tensor, Any]]) -> list[Any]:
        """The gradients, of pairs of sources and gradients, that are computed of zeros which stand for nothing."""
        return [gradient for source, gradient in pairs if self._of(source) & _COMPUTED]

    def spoilt(self, sources: Iterable[tf.Tensor]) -> list[tf.Tensor]:
        """The sources to which comes what is computed of zeros that stand for nothing."""
        return [source for source in sources if self._of(source) & _COMPUTED]

    def spoiling(self, sources: Iterable[tf.Tensor]) -> set[Any]:
        """The places by which zeros that stand for nothing are computed with, on the way to some sources."""
        return set(self._before(self.spoilt(sources), self._zeroing))

    def is_spoilt_by_librarys(self, sources: Iterable[tf.Tensor]) -> bool:
        """Whether zeros that stand for nothing are computed with in a `tf.while_loop` or its like, on the way to some
        sources: a way in it cannot be assumed.
        """
        after = _following(self.graph.get_operations(), self.spoilt(sources))
        spoiling = (op for op, inputs in self._zeroing.items() if any(id(tensor) in after for tensor in inputs))
        return any(is_conditional(op, ()) and self._places.get(op) is None for op in spoiling)

    def made_up(self, sources: Iterable[tf.Tensor]) -> set[Any]:
        """The places by which gradient functions of the program's are given zeros, on the way to some sources."""
        return set(self._before([source for source in sources if self._of(source) & _MADE_UP], self._zeroing))

    def kinds(self, source: tf.Tensor) -> set[int]:
        """Of `SLICES` and `DENSE`, what comes to a source; the second only where it is sure to come."""
        return {kind for kind in (SLICES, DENSE) if self._of(source) & kind}

    def buried(self, sources: Iterable[tf.Tensor]) -> set[Any]:
        """The places by which the gradient of a source is dense in the graph and slices eagerly, or the reverse."""
        mixed = [source for source in sources if self._of(source) & _KINDS == SLICES | _BURIED]
        return set(self._before(mixed, self._burying))

    def aliases(self, sources: Iterable[tf.Tensor]) -> set[Any]:
        """The places that decide whether a target is made of a source or of what the tape knows, where it has not
        recorded the way: eagerly the very tensor may come out of a branch or round. None stands for `tf.cond` and its
        like.
        """
        known, found = self._recorded.tensors.union(map(id, sources)), set()
        reached = {id(tensor) for tensor in self.targets}
        for op in reversed(self.graph.get_operations()):
            taken = [tensor for tensor in op.outputs if id(tensor) in reached]
            if taken:
                reached.update(map(id, op.inputs))
            is_way = taken and is_conditional(op, self._places) and op not in self._recorded.operations
            passed = (outer for tensor in taken for outer in passed_on(tensor)) if is_way else ()
            if any(id(tensor) in known for tensor in passed):
                found.add(self._places.get(op))
        return found

    def _of(self, tensor: tf.Tensor) -> int:
        return self._bits.get(id(tensor), 0)

    def _is_unsure(self, source: tf.Tensor) -> bool:
        return self._of(source) & (_UNSURE | _SURE) == _UNSURE

    def _before(self, sources: Sequence[tf.Tensor], marked: dict[tf.Operation, list[tf.Tensor]]) -> list[Any]:
        """The places of the marked operations that something leads to from the sources."""
        if not sources:
            return []
        after = _following(self.graph.get_operations(), sources)
        found = [op for op, inputs in marked.items() if any(id(tensor) in after for tensor in inputs)]
        return [self._places.get(op) for op in found]

    def _back(self, operations: Sequence[tf.Operation], bits: dict[int, int], recorded: Recorded) -> None:
        for op in reversed(operations):
            outputs = [_settled(bits.get(id(tensor), 0)) for tensor in op.outputs]
            if any(outputs) and op in recorded.operations:
                for tensor, more in zip(op.inputs, self._through(op, outputs, recorded), strict=False):
                    if more and can_have_gradient(tensor):
                        bits[id(tensor)] = bits.get(id(tensor), 0) | more

    def _through(self, op: tf.Operation, outputs: list[int], recorded: Recorded) -> list[int]:
        """What comes to each input."""
        calls = ops.facts(op.type).calls
        if calls in (Calls.IF, Calls.CASE):
            given = _with_zeros(op, outputs)
            known = [id(tensor) in recorded.tensors for tensor in op.inputs][1:]
            ways = [self._of_body(body, given, known) for body, _ in bodies(op)]
            return self._noted(op, [0, *(_met(bits) for bits in zip(*ways, strict=False))])
        if calls is Calls.WHILE:
            known = [id(tensor) in recorded.tensors for tensor in op.inputs]
            return self._noted(op, self._of_loop(op, _with_zeros(op, outputs), known))
        if calls is Calls.FUNCTION:
            return self._noted(op, self._of_call(op, outputs))
        if op.type in _RECURSIONS:
            return self._noted(op, [_POSSIBLE | _UNSURE | _ZEROS | _COMPUTED] * len(op.inputs))
        if not _is_differentiable(op):
            return []
        together = _settled(functools.reduce(operator.or_, outputs))
        if together & _ZEROS:
            together |= 0 if _keeps_zeros(op) else _COMPUTED
            together |= _MADE_UP if _has_own_gradient(op) else 0
        if op.type in _LISTS:
            return [_of_kind(op, i, bits, together) for i, bits in enumerate(_LISTS[op.type](together))]
        sure = _SURE if ops.facts(op.type).passes_gradients else 0
        bits = together & (_POSSIBLE | _UNSURE | _FROM_ZEROS | sure)
        return [_of_kind(op, i, bits, together) for i in range(len(op.inputs))]

    def _noted(self, op: tf.Operation, inputs: list[int]) -> list[int]:
        if op.graph is self.graph:
            noted = (_UNSURE, self._deciding), (_BURIED, self._burying), (_FROM_ZEROS, self._zeroing)
            for mark, operations in noted:
                marked = [tensor for tensor, bits in zip(op.inputs, inputs, strict=False) if bits & mark]
                if marked:
                    operations[op] = marked
        return inputs

    def _of_body(self, body: Any, outputs: list[int], known: Sequence[bool]) -> list[int]:
        """What comes to each input of a body, of which a tape knows some."""
        bits: dict[int, int] = {}
        for tensor, more in zip(body.outputs, outputs, strict=False):
            bits[id(tensor)] = bits.get(id(tensor), 0) | more
        self._back(body.get_operations(), bits, _recorded_in(body, known))
        return [_settled(bits.get(id(tensor), 0)) for tensor in body.inputs]

    def _of_call(self, op: tf.Operation, outputs: list[int]) -> list[int]:
        """For a function: eagerly it is one operation, too, unless it is a conditional for several tapes."""
        body, inputs = next(bodies(op))
        known = [True] * len(inputs)
        if op not in self._places:
            together = _settled(functools.reduce(operator.or_, outputs)) & ~_ITEM & ~_KINDS
            if together & _ZEROS:
                together |= _COMPUTED | _MADE_UP
            found = self._of_body(body, outputs, known)
            return [
                together | bits & _KINDS & ~_BURIED if bits & _POSSIBLE else together & _FROM_ZEROS for bits in found
            ]
        self._around.update({id(tensor): outer for tensor, outer in zip(body.inputs, inputs, strict=False)})
        for inner in body.get_operations():
            if ops.facts(inner.type).calls in (Calls.IF, Calls.CASE, Calls.WHILE):
                self._places.setdefault(inner, self._places[op])
        return self._of_body(body, outputs, known)

    def _of_loop(self, op: tf.Operation, outputs: list[int], known: list[bool]) -> list[int]:
        """For any number of rounds."""
        (test, _), (body, _) = bodies(op)
        while (later := _known_after_round(body, known)) != known:
            known = later
        rounds = [outputs]
        while (more := self._of_body(body, rounds[-1], known)) not in rounds:
            rounds.append(more)
        if more == rounds[0] and len(rounds) == 1:
            return outputs
        begins = self._places.get(op) in self._assumed or self._begins(op, test)
        if begins:
            rounds = [*rounds[1:], more]
        met = [_met(bits) for bits in zip(*rounds, strict=True)]
        return [bits | _BURIED if bits & SLICES else bits for bits in met]

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


def may_decide(op: tf.Operation) -> bool:
    """Whether a gradient may come to some inputs of an operation only, depending on values."""
    return ops.is_call(op) or op.type in _RECURSIONS or op.type == "TensorListSetItem"


def has_own_gradients(graph: Any) -> bool:
    """Whether a gradient of the program's own is in a graph, or in a function that it calls."""
    inside = (one for op in graph.get_operations() if ops.is_call(op) for one, _ in bodies(op))
    return any(map(_has_own_gradient, graph.get_operations())) or any(map(has_own_gradients, inside))


def after_ways(graph: Any, tensors: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    """Those tensors to which something leads that a call does not always do."""
    found: set[int] = set()
    for op in graph.get_operations():
        if may_decide(op) or any(id(tensor) in found for tensor in op.inputs):
            found.update(map(id, op.outputs))
    return [tensor for tensor in tensors if id(tensor) in found]


def looks_up(graph: Any) -> bool:
    """Whether rows are looked up in a graph, or in a function that it calls."""
    inside = (one for op in graph.get_operations() if ops.is_call(op) for one, _ in bodies(op))
    return any(op.type in _LOOKUPS for op in graph.get_operations()) or any(map(looks_up, inside))


def may_take_other_ways(graph: Any) -> bool:
    """Whether there is anything in a graph that a call does not always do."""
    return any(map(may_decide, graph.get_operations()))


def deciding(output: tf.Tensor) -> tf.Operation:
    """The conditional or loop that an output is of."""
    return output.op.inputs[0].op if output.op.type == "Identity" else output.op


def is_conditional(op: tf.Operation, places: Container[tf.Operation]) -> bool:
    """Whether it is a conditional or loop, or a function that holds one of the program's, which are in `places`."""
    return op in places or ops.facts(op.type).calls in (Calls.IF, Calls.CASE, Calls.WHILE)


def passed_on(output: tf.Tensor) -> list[tf.Tensor]:
    """What a conditional or loop was given that may be an output of it, as it is; a loop may have no round."""
    op, number = output.op, output.value_index
    is_loop = ops.facts(op.type).calls is Calls.WHILE
    found, seen = [op.inputs[number]] if is_loop else [], set()
    for body, given in list(bodies(op))[1 if is_loop else 0 :]:
        outer = {id(tensor): value for tensor, value in zip(body.inputs, given, strict=False)}
        waiting = [body.outputs[number]]
        while waiting:
            tensor = waiting.pop()
            if id(tensor) in outer:
                found.append(outer[id(tensor)])
            elif tensor.op.type == "Identity":
                waiting.append(tensor.op.inputs[0])
            elif ops.is_call(tensor.op) and id(tensor) not in seen:
                seen.add(id(tensor))
                waiting += passed_on(tensor)
    return found


def leading_to(graph: Any, tensors: Iterable[tf.Tensor]) -> list[tf.Operation]:
    """The operations of a graph that some tensors are made by, the last one first."""
    reached, found = {id(tensor) for tensor in tensors}, []
    for op in reversed(graph.get_operations()):
        if any(id(tensor) in reached for tensor in op.outputs):
            found.append(op)
            reached.update(map(id, op.inputs))
    return found


def _recorded_in(body: Any, known: Sequence[bool]) -> Recorded:
    return Recorded.of_all(body, [t for t, is_known in zip(body.inputs, known, strict=False) if is_known])


def _known_after_round(body: Any, known: Sequence[bool]) -> list[bool]:
    tensors = _recorded_in(body, known).tensors
    return [was or id(tensor) in tensors for was, tensor in zip(known, body.outputs, strict=True)]


def _settled(bits: int) -> int:
    """Zeros beside a gradient that is sure to come change nothing."""
    return bits & ~_ZEROS if bits & _SURE else bits


def _with_zeros(op: tf.Operation, outputs: list[int]) -> list[int]:
    """A tape gives an operation zeros for those of its outputs to which nothing comes."""
    pairs = zip(op.outputs, outputs, strict=True)
    return [bits if bits & _POSSIBLE or not can_have_gradient(tensor) else bits | _ZEROS for tensor, bits in pairs]


def _of_item(bits: int) -> list[int]:
    """An item of a list is read."""
    return [(bits & ~_SURE) | (_ITEM if bits & (_SURE | _ITEM) else 0), 0, 0]


def _to_item(bits: int) -> int:
    """What comes to one item: a list that is taken as a whole needs all of them."""
    if bits & _SURE:
        return bits & ~_ITEM
    return bits & _FROM_ZEROS | (_POSSIBLE | _UNSURE | _ZEROS if bits & _POSSIBLE else 0)


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
    possible = _POSSIBLE if any(way & _POSSIBLE for way in ways) else 0
    is_unsure = any(way & _UNSURE for way in ways) or (possible and not (sure or item))
    unsure = _UNSURE | _ZEROS if is_unsure else 0
    slices = SLICES if any(way & SLICES for way in ways) else 0
    dense = DENSE if all(way & DENSE for way in ways) else 0
    are_slices = all(way & _KINDS == SLICES for way in ways)
    are_other = any(way & _POSSIBLE and way & _KINDS != SLICES or way & _BURIED for way in ways)
    buried = _BURIED if (slices and not are_slices) or (are_other and not dense) else 0
    zeros = functools.reduce(operator.or_, ways) & _FROM_ZEROS
    return _settled(possible | sure | item | slices | dense | buried | unsure | zeros)


def _of_kind(op: tf.Operation, number: int, bits: int, outputs: int) -> int:
    """What comes to an input of an operation, with whether it is slices or dense."""
    if not bits:
        return 0
    if op.type in _COPIES:
        return bits & ~_KINDS | outputs & _KINDS
    if op.type in _LOOKUPS and number == 0 and _looks_up_rows(op):
        return bits & ~_KINDS | (SLICES if bits & _POSSIBLE else 0)
    kind = DENSE if bits & _SURE else 0 if bits & _POSSIBLE else _BURIED
    return bits & ~_KINDS | kind


def _looks_up_rows(op: tf.Operation) -> bool:
    """Whether it does not gather along another axis: then its gradient is dense."""
    return op.type != "GatherV2" or not tf_private.constant_value(op.inputs[2])


def _is_differentiable(op: tf.Operation) -> bool:
    try:
        return op.type != "StopGradient" and tf_private.gradient_function(op) is not None
    except LookupError:
        return False


def _has_own_gradient(op: tf.Operation) -> bool:
    """Whether the gradient is one of the program's. Those of libraries, like TensorFlow's, give zeros for zeros."""
    if "_gradient_op_type" not in op.node_def.attr:
        return False
    return any(
        known.top_package(one) not in ("tensorflow", "keras") for one in tf_private.wrapped_gradient_functions(op)
    )


def _keeps_zeros(op: tf.Operation) -> bool:
    """Whether its gradients of zeros are zeros, whatever the values are."""
    return op.type in _LINEAR or ops.facts(op.type).form in (Form.SAME, Form.REARRANGES) or op.type in _LISTS


def can_have_gradient(tensor: tf.Tensor) -> bool:
    """Whether a tape passes a gradient on to a tensor of this dtype."""
    return tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype in (tf.resource, tf.variant)


def _following(operations: Sequence[tf.Operation], sources: Iterable[tf.Tensor]) -> set[int]:
    """What is made from tensors, by identity."""
    found = {id(tensor) for tensor in sources}
    for op in operations:
        if any(id(tensor) in found for tensor in op.inputs):
            found.update(map(id, op.outputs))
    return found
