"""A SubGraph as readable text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import regions, signature
from recgraph.core.definition import Definition

_SILENT = frozenset({"Const", "Identity", "NoOp"})  # nothing happens there; a use of an Identity shows its source


def signature_of(subgraph: Definition) -> str:
    """Name, inputs and outputs in one line: `tree(node: int32[]) -> float32[300]`."""
    inputs = signature.describe_inputs(subgraph.inputs)
    names = [tensor.op.name for tensor in subgraph.placeholders]
    if names and len(names) == len(tf.nest.flatten(subgraph.inputs)):
        specs = (signature.describe(signature.spec_of(tensor)) for tensor in subgraph.placeholders)
        inputs = f"({', '.join(f'{name}: {spec}' for name, spec in zip(names, specs, strict=True))})"
    return f"{subgraph.name}{inputs} -> {signature.describe(subgraph.outputs)}"


def of_subgraph(subgraph: Definition) -> str:
    """Signature and body, one operation a line; branches and loops are indented."""
    head = signature_of(subgraph)
    if not subgraph.is_finished:
        return f"{head}\n  (declared, without a body)"
    body = subgraph.finished_body()
    listing = _Listing(body)
    lines = [head]
    if body.captured:
        lines.append(f"  captures {', '.join(listing.outer(tensor) for tensor in body.captured)}")
    return "\n".join(lines + [f"  {line}" for line in listing.of_graph(body)])


class _Listing:
    """The lines of a body; knows which tensors are the same under another name."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._environment = body.environment
        self._variables = tf_private.variable_names(body)
        self._same: dict[int, tf.Tensor] = {}  # input of a branch -> what is passed for it

    def outer(self, tensor: tf.Tensor) -> str:
        """A captured tensor: its name, if it has one, and what it is."""
        name = self._outer_name(tensor)
        data = tf_private.handle_data(tensor) if tensor.dtype == tf.resource else None
        if data is None:
            return f"{name}: {signature.describe(signature.spec_of(tensor))}"
        return f"{name}: variable {signature.describe(tf.TensorSpec(data.shape, data.dtype))}"

    def _outer_name(self, tensor: tf.Tensor) -> str:
        if isinstance(tensor, tf_private.EagerTensor):
            return self._variables.get(id(tensor)) or _tensor_name(self._body.capture(tensor))
        return str(tensor.op.name)

    def of_graph(self, graph: Any) -> Iterator[str]:
        """One line for each operation that does something, and what comes out."""
        inputs = {id(tensor.op) for tensor in graph.inputs}
        for op in graph.get_operations():
            if id(op) not in inputs and op.type not in _SILENT and op.type != "Placeholder":
                yield from self._of_operation(op)
        yield f"return {', '.join(self._operand(tensor) for tensor in graph.outputs)}"

    def _of_operation(self, op: tf.Operation) -> Iterator[str]:
        results = ", ".join(_tensor_name(tensor) for tensor in op.outputs if tensor.dtype != tf.variant)
        operands = ", ".join(self._operand(tensor) for tensor in op.inputs)
        region = regions.region_of(op)
        what = op.type if op.type != "Recgraph>Invoke" else f"Invoke {op.get_attr('entry').decode().split('#')[0]}"
        text = f"{what}({operands})"
        yield f"{results} = {text}" if results else text
        if region is not None:
            yield from self._of_region(region)

    def _of_region(self, region: regions.Region) -> Iterator[str]:
        regions.map_environment(region, self._environment)
        for i, graph in enumerate(region.graphs):
            carried = ""
            if region.kind == regions.WHILE:
                carried = f"({', '.join(_tensor_name(tensor) for tensor in graph.inputs)})"
            else:
                self._same.update(
                    (id(inner), outer) for inner, outer in zip(graph.inputs, region.operands, strict=True)
                )
            yield f"  {_part(region.kind, i)}{carried}:"
            for line in self.of_graph(graph):
                yield f"    {line}"

    def _operand(self, tensor: tf.Tensor) -> str:
        outer = self._environment.outer(tensor)
        if outer is not None:
            return self._outer_name(outer)
        if id(tensor) in self._same:
            return self._operand(self._same[id(tensor)])
        if tensor.op.type == "Identity":
            return self._operand(tensor.op.inputs[0])
        if tensor.op.type == "Const":
            value = tf.get_static_value(tensor)
            if value is not None and value.size <= 4:
                return str(value.tolist())
        return _tensor_name(tensor)


def _part(kind: str, index: int) -> str:
    parts = {regions.IF: ("then", "else"), regions.WHILE: ("while", "do"), regions.CALL: ("function",)}
    return parts[kind][index] if kind in parts else f"case {index}"


def _tensor_name(tensor: tf.Tensor) -> str:
    suffix = "" if tensor.value_index == 0 else f".{tensor.value_index}"
    return f"{tensor.op.name}{suffix}"
