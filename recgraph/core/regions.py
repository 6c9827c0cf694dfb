"""Operations that run graphs: branches, loops, calls of functions. One view of them all.

Differentiation and writing-out treat TensorFlow's `If`, `Case`, `While` and `PartitionedCall`, and the regions
that gradient bodies are made of (`Recgraph>Region`), alike through this view.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.core.environment import EnvironmentMap

IF, CASE, WHILE, CALL, LOOP_GRADIENT = "if", "case", "while", "call", "loop_gradient"

_KINDS = {
    "If": IF,
    "StatelessIf": IF,
    "Case": CASE,
    "StatelessCase": CASE,
    "While": WHILE,
    "StatelessWhile": WHILE,
    "PartitionedCall": CALL,
    "StatefulPartitionedCall": CALL,
}

# How many leading inputs select what runs, and are not passed to the graphs.
SELECTORS = {IF: 1, CASE: 1, WHILE: 0, CALL: 0, LOOP_GRADIENT: 0}


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """An operation that runs graphs.

    Attributes:
        op: the operation.
        kind: one of the constants of this module.
        graphs: the branches in order; a loop's condition and body; a function. Their inputs match `operands`.
    """

    op: tf.Operation
    kind: str
    graphs: tuple[Any, ...]

    @property
    def selector(self) -> tf.Tensor | None:
        """The predicate or branch index."""
        return self.op.inputs[0] if SELECTORS[self.kind] else None

    @property
    def operands(self) -> list[tf.Tensor]:
        """What is passed to the graphs."""
        return list(self.op.inputs[SELECTORS[self.kind] :])


@dataclasses.dataclass(frozen=True)
class FrameOf:
    """Names the frame that a region yields when it is recorded: not yet an output of the operation."""

    op: tf.Operation

    def __hash__(self) -> int:
        return id(self.op)


def region_of(op: tf.Operation) -> Region | None:
    """The region that `op` is, or None for an ordinary operation."""
    if op.type == "Recgraph>Region":
        made: Region = op.graph.regions[op.name]
        return made
    kind = _KINDS.get(op.type)
    if kind is None:
        return None
    names = tuple(_names(op, kind))  # TensorFlow rewrites its branches in place when it differentiates them
    known = _cache_of(op.graph)
    if (op.name, names) not in known:
        known[op.name, names] = Region(op, kind, tuple(tf_private.function_graph(op.graph, name) for name in names))
    return known[op.name, names]


def _cache_of(graph: Any) -> dict[tuple[str, tuple[str, ...]], Region]:
    if not hasattr(graph, "_recgraph_regions"):
        graph._recgraph_regions = {}
    cache: dict[tuple[str, tuple[str, ...]], Region] = graph._recgraph_regions
    return cache


def _names(op: tf.Operation, kind: str) -> list[str]:
    if kind == IF:
        return [op.get_attr("then_branch").name, op.get_attr("else_branch").name]
    if kind == CASE:
        return [branch.name for branch in op.get_attr("branches")]
    if kind == WHILE:
        return [op.get_attr("cond").name, op.get_attr("body").name]
    return [op.get_attr("f").name]


def make_region(kind: str, graphs: list[Any], inputs: list[tf.Tensor], outputs: list[tf.TensorSpec]) -> list[tf.Tensor]:
    """Adds a region to the graph under construction (a `GradientGraph`); returns its outputs."""
    return list(add_region(kind, graphs, inputs, outputs).outputs)


def add_region(
    kind: str, graphs: list[Any], inputs: list[tf.Tensor], outputs: list[tf.TensorSpec], name: str | None = None
) -> tf.Operation:
    """The same, with a name of its own; returns the operation."""
    made = native.ops().recgraph_region(
        inputs=inputs,
        Tout=[spec.dtype for spec in outputs],
        kind=kind,
        output_shapes=[spec.shape for spec in outputs],
        name=name and f"{name}/",
    )
    op = made if isinstance(made, tf.Operation) else made[0].op
    op.graph.regions[op.name] = Region(op, kind, tuple(graphs))
    return op


def is_invariant(region: Region, index: int) -> bool:
    """Whether operand `index` of a loop is handed through unchanged."""
    body = region.graphs[1]
    return _identity_source(body.outputs[index]) is body.inputs[index]


def _identity_source(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def map_environment(region: Region, environment: EnvironmentMap) -> None:
    """Tells `environment` which inputs of the region's graphs stand for outer tensors."""
    for index, operand in enumerate(region.operands):
        outer = environment.outer(operand)
        if outer is None or (region.kind == WHILE and not is_invariant(region, index)):
            continue
        for graph in region.graphs:
            environment.add(graph.inputs[index], outer)


def environment_operands(region: Region, environment: EnvironmentMap) -> set[int]:
    """The operands that are read from the environment inside and need not be passed."""
    return {
        index
        for index, operand in enumerate(region.operands)
        if environment.outer(operand) is not None
        and all(environment.outer(graph.inputs[index]) is not None for graph in region.graphs)
    }
