"""What a graph is known by in other processes: equal for graphs that differ in names and in numbers alone."""

from __future__ import annotations

import hashlib
from typing import Any

from recgraph import tf_private

# Constants with more numbers are told by their shapes.
_FEW = 64


def fingerprint(concrete: Any, *more: str) -> str:
    """Of the graph of a concrete function.

    Args:
        concrete: the function.
        *more: what else it depends on.
    """
    return hashlib.sha256(repr((more, _of(concrete.function_def, concrete.graph, {}))).encode()).hexdigest()


def _of(definition: Any, graph: Any, known: dict[str, str]) -> str:
    arguments = definition.signature.input_arg
    numbers = {one.name: str(i) for i, one in enumerate([*arguments, *definition.node_def])}
    made = hashlib.sha256()

    def source(name: str) -> str:
        is_order, (own, _, place) = name.startswith("^"), name.lstrip("^").partition(":")
        return f"{'^' if is_order else ''}{numbers.get(own, own)}:{place}"

    for i, argument in enumerate(arguments):
        shapes = definition.arg_attr[i].attr.get("_output_shapes") if i in definition.arg_attr else None
        made.update(repr((argument.type, shapes.SerializeToString(deterministic=True) if shapes else b"")).encode())
    for node in definition.node_def:
        attributes = [
            (name, _attribute(value, graph, known))
            for name, value in sorted(node.attr.items())
            if not name.startswith("_")
        ]
        inputs = [*(one for one in node.input if one[0] != "^"), *sorted(one for one in node.input if one[0] == "^")]
        made.update(repr((node.op, [*map(source, inputs)], node.device, attributes)).encode())
    results = [source(definition.ret[one.name]) for one in definition.signature.output_arg]
    effects = sorted(map(source, definition.control_ret.values()))
    made.update(repr((results, effects)).encode())
    return made.hexdigest()


def _attribute(value: Any, graph: Any, known: dict[str, str]) -> bytes:
    functions = [value.func, *value.list.func]
    if value.HasField("func") or value.list.func:
        return repr([_function(one.name, graph, known) for one in functions if one.name]).encode()
    if value.HasField("tensor"):
        count = 1
        for dimension in value.tensor.tensor_shape.dim:
            count *= dimension.size
        if count > _FEW:
            return repr((value.tensor.dtype, value.tensor.tensor_shape.SerializeToString())).encode()
    found: bytes = value.SerializeToString(deterministic=True)
    return found


def _function(name: str, graph: Any, known: dict[str, str]) -> str:
    if name not in known:
        known[name] = ""  # functions that call themselves end here
        try:
            known[name] = _of(tf_private.function_definition(graph, name), graph, known)
        except KeyError:
            known[name] = "unknown"
    return known[name]
