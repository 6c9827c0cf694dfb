"""A SubGraph as readable text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from recgraph.core import regions, signature

if TYPE_CHECKING:
    from recgraph.core.subgraph import SubGraph


def of_subgraph(subgraph: SubGraph) -> str:
    """Signature and body, one operation a line; branches and loops are indented."""
    head = f"{subgraph.name}{signature.describe_inputs(subgraph.inputs)} -> {signature.describe(subgraph.outputs)}"
    if not subgraph.is_finished:
        return f"{head}\n  (declared, without a body)"
    body = subgraph.finished_body()
    lines = [head]
    if body.captured:
        lines.append(f"  captures {', '.join(_outer_name(tensor) for tensor in body.captured)}")
    lines += [f"  {line}" for line in _of_graph(body, subgraph.placeholders)]
    return "\n".join(lines)


def _outer_name(tensor: tf.Tensor) -> str:
    name = "" if hasattr(tensor, "numpy") else tensor.op.name
    return f"{name or 'eager'}: {signature.describe(signature.spec_of(tensor))}"


def _of_graph(graph: Any, arguments: list[tf.Tensor]) -> Iterator[str]:
    for tensor in arguments:
        yield f"{_tensor_name(tensor)} = input"
    inputs = {id(tensor.op) for tensor in graph.inputs}
    for op in graph.get_operations():
        if id(op) not in inputs and op.type != "Const":
            yield from _of_operation(op)
    yield f"return {', '.join(_operand(tensor) for tensor in graph.outputs)}"


def _of_operation(op: tf.Operation) -> Iterator[str]:
    results = ", ".join(_tensor_name(tensor) for tensor in op.outputs if tensor.dtype != tf.variant)
    operands = ", ".join(_operand(tensor) for tensor in op.inputs)
    region = regions.region_of(op)
    what = op.type if op.type != "Recgraph>Invoke" else f"Invoke {op.get_attr('entry').decode().split('#')[0]}"
    text = f"{what}({operands})"
    yield f"{results} = {text}" if results else text
    if region is not None:
        for i, graph in enumerate(region.graphs):
            yield f"  {_part(region.kind, i)}({', '.join(_tensor_name(t) for t in graph.inputs)}):"
            for line in _of_graph(graph, []):
                yield f"    {line}"


def _part(kind: str, index: int) -> str:
    parts = {regions.IF: ("then", "else"), regions.WHILE: ("while", "do"), regions.CALL: ("function",)}
    return parts[kind][index] if kind in parts else f"case {index}"


def _tensor_name(tensor: tf.Tensor) -> str:
    suffix = "" if tensor.value_index == 0 else f".{tensor.value_index}"
    return f"{tensor.op.name}{suffix}"


def _operand(tensor: tf.Tensor) -> str:
    if tensor.op.type == "Const":
        value = tf.get_static_value(tensor)
        if value is not None and value.size <= 4:
            return str(value.tolist())
    return _tensor_name(tensor)
