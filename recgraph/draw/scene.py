"""What is worth showing of a body: boxes and the edges between them, branches and loops as boxes with scenes inside.

Plumbing is left out (identities, reads of variables, small constants, the helpers of a slice): a picture is there to
show the recursion, and `print(subgraph)` shows every operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import regions, signature
from recgraph.core.body import BodyGraph
from recgraph.core.environment import EnvironmentMap
from recgraph.core.subgraph import SubGraph

INPUT, PASSED, CAPTURE, CONSTANT, OPERATION, INVOKE, REGION, OUTPUT = (
    "input",
    "passed",
    "capture",
    "constant",
    "operation",
    "invoke",
    "region",
    "output",
)

# Operations that hand their first operand on.
_TRANSPARENT = frozenset({"Identity", "ReadVariableOp"})
# Operands that are drawn, where not all are.
_SHOWN_OPERANDS = {"StridedSlice": 2, "GatherV2": 2, "ResourceGather": 2, "Reshape": 1}
_SYMBOLS = {
    "AddV2": "+",
    "Add": "+",
    "Sub": "−",
    "Mul": "×",
    "RealDiv": "÷",
    "FloorDiv": "//",
    "FloorMod": "mod",
    "Less": "<",
    "LessEqual": "≤",
    "Greater": ">",
    "GreaterEqual": "≥",
    "Equal": "=",
    "NotEqual": "≠",
}
_PART_NAMES: dict[str, Callable[[int], str]] = {
    regions.IF: lambda i: ("then", "else")[i],
    regions.CASE: lambda i: f"case {i}",
    regions.WHILE: lambda i: ("while", "do")[i],
    regions.CALL: lambda i: "function",
}
_REGION_NAMES = {regions.IF: "if", regions.CASE: "switch", regions.WHILE: "loop", regions.CALL: "call"}


@dataclasses.dataclass(frozen=True, eq=False)
class SceneNode:
    """A box.

    Attributes:
        kind: one of the constants of this module.
        label: its text.
        detail: a second, smaller line, or "".
        parts: of a region: the name and the scene of each graph.
    """

    kind: str
    label: str
    detail: str = ""
    parts: tuple[tuple[str, Scene], ...] = ()


@dataclasses.dataclass(frozen=True)
class Scene:
    """Boxes, sources before what uses them, and edges as pairs of indices."""

    nodes: list[SceneNode]
    edges: list[tuple[int, int]]


def texts(scene: Scene) -> Iterator[str]:
    """All that is written in the picture of a scene."""
    for node in scene.nodes:
        yield from (node.label, node.detail)
        for name, part in node.parts:
            yield name
            yield from texts(part)


def of_subgraph(subgraph: SubGraph, captured: dict[int, str] | None = None) -> Scene:
    """The scene of a finished body.

    Args:
        subgraph: the SubGraph.
        captured: names of tensors that it may capture, by their id: a tensor does not know its name.

    Raises:
        DefinitionError: there is no body yet.
    """
    body = subgraph.finished_body()
    names = {**(captured or {}), **tf_private.variable_names(body)}
    labels = {id(tensor): tensor.op.name for tensor in subgraph.placeholders}
    outputs = [f"output{path}" for path in _paths(subgraph.outputs)]
    return _Builder(body, labels, outputs, body.environment, names).scene()


def of_graph(graph: Any, captured: dict[int, str] | None = None) -> Scene:
    """The scene of the graph of a function.

    Args:
        graph: the graph, finished.
        captured: as of `of_subgraph`.
    """
    environment = EnvironmentMap()
    for outer, inside in graph.captures:
        environment.add(inside, outer)
    names = {**(captured or {}), **tf_private.variable_names(graph)}
    given = [tensor for tensor in graph.inputs if environment.outer(tensor) is None]
    labels = {id(tensor): name for tensor, name in zip(given, _numbered("input", len(given)), strict=True)}
    outputs = _numbered("output", len(graph.outputs))
    return _Builder(graph, labels, outputs, environment, names).scene()


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name} {i + 1}" for i in range(count)]


def _paths(nest: Any) -> Iterator[str]:
    """How each leaf of a nest is reached, in the order of `tf.nest.flatten`: `['state'][0]`."""
    if isinstance(nest, dict):
        items = [(f"[{key!r}]", nest[key]) for key in sorted(nest)]
    elif isinstance(nest, tuple | list):
        items = [(f"[{i}]", part) for i, part in enumerate(nest)]
    else:
        yield ""
        return
    for step, part in items:
        yield from (step + rest for rest in _paths(part))


class _Builder:
    """Makes the scene of one graph."""

    def __init__(
        self,
        graph: Any,
        labels: dict[int, str],
        outputs: list[str],
        environment: EnvironmentMap,
        variables: dict[int, str],
    ) -> None:
        self.graph = graph
        self.labels = labels
        self.outputs = outputs
        self.environment = environment
        self.variables = variables
        self.nodes: list[SceneNode] = []
        self.edges: list[tuple[int, int]] = []
        self._places: dict[Any, int] = {}

    def scene(self) -> Scene:
        """Walks back from what the graph gives and does; draws in the order of the program."""
        wanted = self._wanted()
        for op in self.graph.get_operations():
            if op in wanted:
                self._add_operation(op)
        given = [(name, self._place_of(_origin(tensor))) for name, tensor in self._shown_outputs()]
        for name in dict.fromkeys(name for name, _ in given):
            place = self._add(SceneNode(OUTPUT, name))
            self.edges += dict.fromkeys((source, place) for other, source in given if other == name)
        return Scene(self.nodes, self.edges)

    def _shown_outputs(self) -> list[tuple[str, tf.Tensor]]:
        return [(name, tensor) for name, tensor in zip(self.outputs, self.graph.outputs, strict=True) if name]

    def _wanted(self) -> set[tf.Operation]:
        effects = [op for op in self.graph.control_outputs if op.type not in _TRANSPARENT | {"NoOp"}]
        stack = [_origin(tensor).op for _, tensor in self._shown_outputs()] + effects
        wanted: set[tf.Operation] = set()
        while stack:
            op = stack.pop()
            if op not in wanted and not self._is_given(op):
                wanted.add(op)
                stack += [tensor.op for tensor in self._sources(op)]
        return wanted

    def _is_given(self, op: tf.Operation) -> bool:
        return op.type in ("Const", "Placeholder")

    def _sources(self, op: tf.Operation) -> list[tf.Tensor]:
        """The tensors that edges to `op` come from; constants only where the label has no room for them."""
        region = regions.region_of(op)
        if region is not None:
            regions.map_environment(region, self.environment)
            hidden = regions.environment_operands(region, self.environment)
            if region.kind == regions.WHILE:
                hidden = hidden | (set(range(len(region.operands))) - _live_variables(region))
            passed = [tensor for i, tensor in enumerate(region.operands) if i not in hidden]
            operands = ([] if region.selector is None else [region.selector]) + passed
            return [_origin(tensor) for tensor in operands]
        operands = [_origin(tensor) for tensor in list(op.inputs)[: _SHOWN_OPERANDS.get(op.type)]]
        return [tensor for i, tensor in enumerate(operands) if tensor.op.type != "Const" or _is_data(op, i, tensor)]

    # Boxes.

    def _add(self, node: SceneNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _add_operation(self, op: tf.Operation) -> None:
        region = regions.region_of(op)
        sources = self._sources(op)
        places = [self._place_of(tensor) for tensor in sources]  # first, so that sources come before
        if region is not None:
            node = self._region_node(region)
        elif op.type == "Recgraph>Invoke":
            node = _invoke_node(op)
        else:
            node = SceneNode(OPERATION, _operation_label(op))
        self._places[op] = self._add(node)
        self.edges += dict.fromkeys((place, self._places[op]) for place in places)

    def _region_node(self, region: regions.Region) -> SceneNode:
        parts = []
        for i, graph in enumerate(region.graphs):
            name = _PART_NAMES[region.kind](i)
            labels, results = self._part_labels(region, graph, name)
            builder = _Builder(graph, labels, results, self.environment, self.variables)
            parts.append((name, builder.scene()))
        return SceneNode(REGION, _REGION_NAMES[region.kind], parts=tuple(parts))

    def _part_labels(self, region: regions.Region, graph: Any, name: str) -> tuple[dict[int, str], list[str]]:
        """What the inputs and the outputs of a branch or loop are called; "" for an output that is not shown."""
        labels = [self._label_of(operand) for operand in region.operands]
        results = ["result"] * len(graph.outputs)
        if region.kind == regions.WHILE:
            carried = [i for i in _live_variables(region) if not regions.is_invariant(region, i)]
            numbered = {i: f"carried {k}" if len(carried) > 1 else "carried" for k, i in enumerate(carried, 1)}
            labels = [numbered.get(i, label) for i, label in enumerate(labels)]
            results = ["go on?"] if name == "while" else [numbered.get(i, "") for i in range(len(labels))]
        return {id(inside): label for inside, label in zip(graph.inputs, labels, strict=True)}, results

    def _place_of(self, tensor: tf.Tensor) -> int:
        """The box that a tensor comes from; boxes for what is given are made at the first use."""
        outer = self.environment.outer(tensor)
        key: Any = tensor.op if outer is None else id(outer)
        if key not in self._places:
            kind = CAPTURE if outer is not None else INPUT if isinstance(self.graph, BodyGraph) else PASSED
            kind = CONSTANT if tensor.op.type == "Const" and outer is None else kind
            self._places[key] = self._add(SceneNode(kind, self._label_of(tensor)))
        return self._places[key]

    def _label_of(self, tensor: tf.Tensor) -> str:
        tensor = _origin(tensor)
        outer = self.environment.outer(tensor)
        if outer is not None:
            return self._capture_label(outer)
        if id(tensor) in self.labels:
            return self.labels[id(tensor)]
        if tensor.op.type == "Const":
            return _constant_text(tensor) or signature.describe(signature.spec_of(tensor))
        label = _operation_label(tensor.op) if tensor.op.type != "Recgraph>Invoke" else _invoke_node(tensor.op).label
        return label if len(tensor.op.outputs) == 1 else f"{label}:{tensor.value_index}"

    def _capture_label(self, outer: tf.Tensor) -> str:
        if id(outer) in self.variables:
            return self.variables[id(outer)]
        if not hasattr(outer, "numpy"):
            return str(outer.op.name.rsplit("/", 1)[-1])
        return signature.describe(signature.spec_of(outer))


def _is_data(op: tf.Operation, index: int, constant: tf.Tensor) -> bool:
    """Whether a constant operand is a value to work on, as distinct from an axis, a shape or a number in a label."""
    if op.type == "Recgraph>Invoke":
        return True
    return (op.type in _SHOWN_OPERANDS and index == 0) or (constant.dtype.is_floating and constant.shape.rank != 0)


def _live_variables(region: regions.Region) -> set[int]:
    """The variables of a loop that matter: TensorFlow adds a counter that nothing reads."""
    condition, body = region.graphs
    used = {i for i, output in enumerate(region.op.outputs) if _is_used(output)}
    live, new = set[int](), used | _inputs_behind(condition, condition.outputs)
    while new - live:
        live |= new
        new = _inputs_behind(body, [body.outputs[i] for i in live])
    return live


def _is_used(tensor: tf.Tensor) -> bool:
    """Whether something reads a tensor, other than identities that nothing reads."""
    if any(tensor is output for output in tensor.graph.outputs):
        return True
    return any(op.type != "Identity" or _is_used(op.outputs[0]) for op in tensor.consumers())


def _inputs_behind(graph: Any, tensors: list[tf.Tensor]) -> set[int]:
    """The inputs of a graph that these tensors are computed from, or that calls in it need."""
    calls = [op for op in graph.get_operations() if op.type == "Recgraph>Invoke"]
    stack, seen = [tensor.op for tensor in tensors] + calls, set()
    while stack:
        op = stack.pop()
        if op not in seen:
            seen.add(op)
            stack += [source.op for source in op.inputs]
    return {i for i, tensor in enumerate(graph.inputs) if tensor.op in seen}


def _origin(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor behind identities, reads, and the one-element vectors that a slice makes of its indices."""
    while tensor.op.type in _TRANSPARENT or (tensor.op.type == "Pack" and len(tensor.op.inputs) == 1):
        tensor = tensor.op.inputs[0]
    return tensor


def _invoke_node(op: tf.Operation) -> SceneNode:
    callee = op.get_attr("entry").decode().split("#")[0]
    site = op.get_attr("site").decode()
    how = "map over" if op.get_attr("map") else "at"
    return SceneNode(INVOKE, callee, f"{how} {site}" if site and site != callee else "")


def _operation_label(op: tf.Operation) -> str:
    """`< 2`, `+`, `MatMul`: the operation, with a small constant operand of an infix operation."""
    if op.type in _SYMBOLS:
        left, right = (_constant_text(_origin(tensor)) for tensor in op.inputs)
        return f"{left} {_SYMBOLS[op.type]} {right}".strip()
    if op.type == "StridedSlice":
        return "slice" if op.inputs[1].op.type == "Const" else "[ ]"
    name = op.type.rsplit(">", 1)[-1].removeprefix("Resource")
    return name[:-2] if name[-2:] in ("V2", "V3") else name


def _constant_text(tensor: tf.Tensor) -> str:
    value = tf.get_static_value(tensor) if tensor.op.type == "Const" else None
    return str(value.tolist()) if value is not None and value.size == 1 else ""
