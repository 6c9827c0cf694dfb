"""Tensors that may be one: a branch or round may give the very tensor that it was given.

Eagerly such a tensor is one object with two names, and a tape that watches it later knows it by either. A graph gives
a result of its own, which shares the memory of what was passed on. So where a call gives back the output of a branch or
loop, it looks whether that has the memory of a tensor it may be, and gives that one. Where a way may give the tensor
itself and another way a copy that may share its memory, memory does not tell the two apart: then the call is converted
again with copies that have memory of their own, or, where the copy is made before the ways part, with a way assumed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.ops import Calls, Form, bodies
from recgraph.speculate.passes.backward import deciding, is_conditional

# Among the ways that a conversion assumes: that copies have memory of their own.
COPIES: Final = "copies"
# What may give the memory that it is given, besides what gives its input as it is or in another shape: some of it only
# for some sizes, or where TensorFlow's optimizer drops it. Eagerly the result is another tensor.
_MAY_SHARE: Final = frozenset({
    "AddN", "All", "Any", "Bitcast", "BroadcastTo", "Cast", "CheckNumerics", "CheckNumericsV2", "ConcatV2",
    "EnsureShape", "EuclideanNorm", "GatherV2", "IdentityN", "Max", "Mean", "Min", "MirrorPad",
    "OptimizationBarrier", "Pad", "PadV2", "Prod", "Real", "ReverseV2", "Select", "SelectV2",
    "Slice", "Split", "SplitV", "StridedSlice", "Sum", "Tile", "Transpose", "Unpack",
})  # fmt: skip
# The operand with which TensorFlow's optimizer drops an operation.
_NEUTRAL: Final = {"Add": 0, "AddV2": 0, "Sub": 0, "Mul": 1, "Div": 1, "RealDiv": 1, "Pow": 1}
# Operations that TensorFlow's optimizer drops where one comes upon another.
_INVOLUTIONS: Final = frozenset({"Conj", "Neg", "Reciprocal"})


@dataclasses.dataclass(frozen=True)
class Origins:
    """What a tensor of the graph may be.

    Attributes:
        same: tensors that it may be, eagerly too, each once.
        copied: tensors whose memory it may share without being one of them.
        ways: the conditionals and loops of the graph that decide.
    """

    same: dict[int, tf.Tensor] = dataclasses.field(default_factory=dict)
    copied: dict[int, tf.Tensor] = dataclasses.field(default_factory=dict)
    ways: set[tf.Operation] = dataclasses.field(default_factory=set)


class _Walk:
    """Walks from a tensor to what it may be, through branches and loops; places are as in `GradientReachability`."""

    def __init__(self, graph: Any, places: Mapping[tf.Operation, Any], tensor: tf.Tensor) -> None:
        self.found = Origins()
        self._graph, self._places = graph, places
        self._seen: set[tuple[int, bool]] = set()
        self._around: dict[int, list[tf.Tensor]] = {}  # what a body's inputs stand for, by their identities
        self._entered: set[tf.Operation] = set()
        self._waiting = [(tensor, False)]
        while self._waiting:
            self._look_at(*self._waiting.pop())

    def _look_at(self, tensor: tf.Tensor, is_copy: bool) -> None:
        if (id(tensor), is_copy) in self._seen:
            return
        self._seen.add((id(tensor), is_copy))
        if id(tensor) in self._around:
            self._waiting += [(outer, is_copy) for outer in self._around[id(tensor)]]
            return
        if tensor.graph is self._graph:
            (self.found.copied if is_copy else self.found.same)[id(tensor)] = tensor
        op = tensor.op
        # TensorFlow puts one operation after each output of a conditional, which is not the program's.
        output = op.inputs[0] if op.type == "Identity" and self._decides(op.inputs[0].op) else tensor
        if self._decides(output.op):
            self._enter(output, is_copy)
        elif ops.is_call(op):
            self._enter(tensor, True)
        else:
            self._waiting += [(given, True) for given in _may_share(op) if given.dtype == tensor.dtype]

    def _decides(self, op: tf.Operation) -> bool:
        return is_conditional(op, self._places)

    def _enter(self, output: tf.Tensor, is_copy: bool) -> None:
        op, number = output.op, output.value_index
        is_loop = ops.facts(op.type).calls is Calls.WHILE
        if op.graph is self._graph and self._decides(op):
            self.found.ways.add(op)
        several = list(bodies(op))[1 if is_loop else 0 :]
        if op not in self._entered:
            self._entered.add(op)
            for body, given in several:
                for i, (inner, outer) in enumerate(zip(body.inputs, given, strict=False)):
                    self._stands_for(inner, outer)
                    if is_loop and i < len(body.outputs):
                        self._stands_for(inner, _given_by(body, i))
        self._waiting += [(op.inputs[number], is_copy)] if is_loop else []
        self._waiting += [(_given_by(body, number), is_copy) for body, _ in several]

    def _stands_for(self, inner: tf.Tensor, outer: tf.Tensor) -> None:
        """Two operations may have one body, which has been looked at then."""
        self._around.setdefault(id(inner), []).append(outer)
        self._waiting += [(outer, is_copy) for is_copy in (False, True) if (id(inner), is_copy) in self._seen]


def _given_by(body: Any, number: int) -> tf.Tensor:
    """What a body gives: the operation that TensorFlow puts before each output is not the program's."""
    last = body.outputs[number]
    return last.op.inputs[0] if last.op.type == "Identity" else last


def _may_share(op: tf.Operation) -> list[tf.Tensor]:
    """Those inputs of an operation whose memory the graph may give for its result; eagerly that is another tensor."""
    if op.type in _MAY_SHARE or ops.facts(op.type).form in (Form.SAME, Form.REARRANGES):
        return list(op.inputs)
    if op.type in _INVOLUTIONS and op.inputs[0].op.type == op.type:
        return list(op.inputs[0].op.inputs)
    if op.type in _NEUTRAL and any(_is_everywhere(given, _NEUTRAL[op.type]) for given in op.inputs):
        return list(op.inputs)
    return []


def _is_everywhere(tensor: tf.Tensor, number: int) -> bool:
    """Whether all elements of a tensor may be known to be a number."""
    value = tf_private.constant_value(tensor)
    return tensor.op.type in ("ZerosLike", "OnesLike") if value is None else bool(np.all(value == number))


def _what_it_may_be(graph: Any, places: Mapping[tf.Operation, Any], tensor: tf.Tensor) -> Origins:
    """What an output of a conditional or loop may be, itself left out; nothing for other tensors.

    Args:
        graph: the tensor is of it.
        places: where in the program the operations decide that do, as in `Evaluator.conditionals`.
    """
    if not _has_values(tensor) or not tensor.op.inputs or not is_conditional(deciding(tensor), places):
        return Origins()
    found = _Walk(graph, places, tensor).found
    found.same.pop(id(tensor))
    return found


def _has_values(tensor: tf.Tensor) -> bool:
    """Whether it has a gradient, and numbers in memory."""
    return tensor.dtype.is_floating or tensor.dtype.is_complex


def apart(places: Mapping[tf.Operation, Any], tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """What the body that is being built gives, none of it a copy that may share memory with what the body is given."""
    graph = tf_private.current_graph()
    return [_anew(tensor) if _is_copy(graph, places, tensor) else tensor for tensor in tensors]


def _is_copy(graph: Any, places: Mapping[tf.Operation, Any], tensor: tf.Tensor) -> bool:
    if tensor.graph is not graph or not _has_values(tensor):
        return False
    return any(one.op.type == "Placeholder" for one in _Walk(graph, places, tensor).found.copied.values())


def _anew(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the same values in new memory: TensorFlow shifts elements into another tensor, also by zero places."""
    shifted = tf.reshape(tf.roll(tf.reshape(tensor, [-1]), 0, 0), tf.shape(tensor))
    shifted.set_shape(tensor.shape)
    return shifted


def themselves(given: Sequence[Any], candidates: Sequence[tuple[int, Sequence[Any]]]) -> list[Any]:
    """What a graph has given, with the very tensors in place of results that share their memory.

    Args:
        given: the results.
        candidates: numbers of results, each with what it may be: eager tensors, or numbers of other results.
    """
    found = list(given)
    for number, several in candidates:
        others = [found[one] if isinstance(one, int) else one for one in several]
        memory = _memory(given[number])
        found[number] = next((one for one in others if memory is not None and memory == _memory(one)), found[number])
    return found


def _memory(tensor: Any) -> tuple[int, tuple[int, ...]] | None:
    """The address of what a tensor holds, and its shape; None if it holds nothing."""
    if type(tensor) is not tf_private.EagerTensor or 0 in tensor.shape:
        return None
    return tf_private.address(tensor), tf_private.shape_of(tensor)


def of_outputs(
    graph: Any,
    places: Mapping[tf.Operation, Any],
    outputs: Sequence[tf.Tensor],
    name: Callable[[tf.Tensor], str | None],
) -> Iterator[tuple[int, list[str], set[tf.Operation]]]:
    """For each output that may be another tensor: its number, the names of what it may be, and the ways that decide,
    where memory does not tell it from a copy.

    Args:
        outputs: what the graph gives.
        name: gives the name of an eager tensor that the graph is given; None for other tensors.
    """
    numbers = {id(tensor): str(number) for number, tensor in enumerate(outputs)}
    for number, tensor in enumerate(outputs):
        found = _what_it_may_be(graph, places, tensor)
        codes = {one: numbers.get(one) or name(same) for one, same in found.same.items()}
        candidates = [code for code in codes.values() if code is not None]
        if candidates:
            is_copied = any(codes[one] is not None for one in found.same if one in found.copied)
            yield number, candidates, found.ways if is_copied else set()
