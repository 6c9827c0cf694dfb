"""Which tensors of a graph get a gradient when it is differentiated, and from which of their uses.

A tensor gets none where each of its uses hands none on: `tf.stop_gradient`, a comparison, a cast to integers. What an
operation hands on is found out by its gradient function, once for each kind of operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.core import regions
from recgraph.core.regions import CALL, SELECTORS, WHILE, Region

# Whether a gradient is sure to arrive: True, or False where its operation does not tell; None where none does.
Arrival = bool | None
Flows = dict[int, "GradientFlow"]
# The operations whose gradient is one of a SubGraph: all arguments get one.
_CALLS = ("Recgraph>Invoke",)
# How many kinds of operations are remembered.
_MOST_KNOWN = 2000
_handed_on: dict[Any, tuple[bool, ...] | None] = {}


def of_function(graph: Any) -> Flows:
    """The flow of gradients in a graph of a function, and in its branches and loops, by the ids of these.

    TensorFlow gives zeros to all results of a function, a branch and a loop if one of them gets a gradient.
    """
    found: Flows = {}
    GradientFlow(graph, dict.fromkeys(map(id, filter(_is_differentiable, graph.outputs)), True), True, found)
    return found


def of_body(graph: Any) -> Flows:
    """The flow of gradients in a body of a SubGraph, all of whose results get one; see `core.gradient`."""
    found: Flows = {}
    GradientFlow(graph, dict.fromkeys(map(id, filter(_is_differentiable, graph.outputs)), True), False, found)
    return found


class GradientFlow:
    """Which tensors of a graph get a gradient.

    Args:
        graph: the graph.
        seeds: whether it is sure that outputs get one, by id.
        fills: whether branches get zeros for results that get none.
        flows: where this and the flows of branches and loops are put.
    """

    def __init__(self, graph: Any, seeds: dict[int, bool], fills: bool, flows: Flows) -> None:
        self._fills, self._flows = fills, flows
        # By the id of a tensor, whether each operation that uses it hands one on; None stands for whoever runs the
        # graph.
        self._uses: dict[int, dict[tf.Operation | None, bool]] = {key: {None: sure} for key, sure in seeds.items()}
        flows[id(graph)] = self
        for op in reversed(ops.in_order(graph)) if seeds else ():
            arrived = [self.arrival(output) for output in op.outputs]
            if any(one is not None for one in arrived):
                for source, one in zip(op.inputs, self._handed_on(op, arrived), strict=True):
                    if one is not None:
                        uses = self._uses.setdefault(id(source), {})
                        uses[op] = uses.get(op, False) or one

    def arrival(self, tensor: tf.Tensor) -> Arrival:
        """Whether a tensor gets a gradient."""
        uses = self._uses.get(id(tensor))
        return None if uses is None else any(uses.values())

    def of_roots(
        self, roots: Sequence[tf.Tensor], is_term: Callable[[tf.Operation], bool]
    ) -> tuple[frozenset[int], ...]:
        """The roots of terms that get a gradient from something else than terms: see `Problem.differentiated`."""
        sure, unsure = set[int](), list[int]()
        for number, root in enumerate(roots):
            uses = [one for op, one in self._uses.get(id(root), {}).items() if op is None or not is_term(op)]
            if any(uses):
                sure.add(number)
            elif uses:
                unsure.append(number)
        sets = [frozenset(sure), *(frozenset({*sure, number}) for number in unsure)]
        return tuple(filter(None, sets))

    def _handed_on(self, op: tf.Operation, arrived: list[Arrival]) -> list[Arrival]:
        region = regions.region_of(op)
        best = any(arrived)
        if region is not None:
            return self._into(region, arrived, best)
        gets = _gets_one(op)
        if gets is None:
            return [False if _is_differentiable(source) else None for source in op.inputs]
        return [best if one else None for one in gets]

    def _into(self, region: Region, arrived: list[Arrival], best: bool) -> list[Arrival]:
        """What a branch, a loop or a function hands on to what it is given."""
        is_loop = region.kind == WHILE
        graphs = region.graphs[1:] if is_loop else region.graphs
        inner = [self._within(graph, arrived, best, self._fills or is_loop) for graph in graphs]
        found: list[Arrival] = [None] * SELECTORS[region.kind]
        for i, operand in enumerate(region.operands):
            several = [flow.arrival(graph.inputs[i]) for flow, graph in zip(inner, graphs, strict=True)]
            if is_loop or (region.kind == CALL and self._fills):
                found.append(best if _is_differentiable(operand) else None)
            else:
                known = [one for one in several if one is not None]
                found.append(any(known) if known else None)
        return found

    def _within(self, graph: Any, arrived: list[Arrival], best: bool, fills: bool) -> GradientFlow:
        seeds: dict[int, bool] = {}
        for output, one in zip(graph.outputs, arrived, strict=False):
            sure = best if fills and _is_differentiable(output) else one
            if sure is not None:
                seeds[id(output)] = seeds.get(id(output), False) or sure
        return GradientFlow(graph, seeds, self._fills, self._flows)


def _is_differentiable(tensor: tf.Tensor) -> bool:
    return tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype in (tf.variant, tf.resource)


def _gets_one(op: tf.Operation) -> tuple[bool, ...] | None:
    """Which inputs of an operation get a gradient if its results do; None where its gradient function does not tell."""
    if op.type in _CALLS:
        return tuple(map(_is_differentiable, op.inputs))
    if not any(map(_is_differentiable, op.inputs)):
        return (False,) * len(op.inputs)
    key = _kind(op)
    if key not in _handed_on:
        if len(_handed_on) >= _MOST_KNOWN:
            _handed_on.clear()
        _handed_on[key] = _tried(op)
    return _handed_on[key]


def _kind(op: tf.Operation) -> Any:
    attributes = sorted(
        (name, value.SerializeToString(deterministic=True))
        for name, value in op.node_def.attr.items()
        if name == "_gradient_op_type" or not name.startswith("_")
    )
    return op.type, tuple(attributes), tuple((source.dtype, source.shape.rank) for source in op.inputs)


def _tried(op: tf.Operation) -> tuple[bool, ...] | None:
    """Returns the same by the gradient function, which is called for a copy of the operation.

    It may need more than a copy has, and is anybody's.
    """
    try:
        rule = tf_private.gradient_function(op)
        if rule is None:
            return (False,) * len(op.inputs)
        graph = tf_private.FuncGraph("gradient_of_one")
        with graph.as_default(), tf_private.without_recording():
            found = rule(_copy(op, graph), *map(_gradient_for, op.outputs))
    except Exception:
        return None
    results = list(found) if isinstance(found, list | tuple) else [found]
    return tuple(one is not None for one in results) if len(results) == len(op.inputs) else None


def _copy(op: tf.Operation, graph: Any) -> tf.Operation:
    inputs = []
    for source in op.inputs:
        value = tf_private.constant_value(source) if source.dtype.is_integer else None
        made = _placeholder(source) if value is None else tf.constant(value, source.dtype)
        if source.dtype in (tf.resource, tf.variant):
            tf_private.copy_handle_data(source, made)
        inputs.append(made)
    attributes = {name: value for name, value in op.node_def.attr.items() if not name.startswith("_")}
    dtypes = [output.dtype for output in op.outputs]
    made = graph.create_op(op.type, inputs, dtypes, attrs=attributes, name="copy")
    for original, copied in zip(op.outputs, made.outputs, strict=True):
        copied.set_shape(original.shape)
    return made


def _placeholder(like: tf.Tensor) -> tf.Tensor:
    return tf.compat.v1.placeholder(like.dtype, like.shape)


def _gradient_for(output: tf.Tensor) -> tf.Tensor | None:
    return _placeholder(output) if _is_differentiable(output) and output.dtype != tf.resource else None
