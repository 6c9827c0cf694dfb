"""Reading NodeDefs: asking a protobuf map for a missing attribute would put an empty one there."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_MISSING = tf.compat.v1.AttrValue()


def attribute(node: Any, name: str) -> Any:
    """An attribute's AttrValue, empty where the node has none."""
    return node.attr.get(name, _MISSING)


def functions_of(node: Any) -> list[str]:
    """The functions of the program that an operation may run."""
    names = [value.func.name for value in node.attr.values() if value.HasField("func")]
    names += [function.name for value in node.attr.values() for function in value.list.func]
    entry = attribute(node, "entry").s.decode()
    if node.op == "Recgraph>Invoke":
        names += [entry, f"{entry}.rec"]
    elif node.op == "Recgraph>InvokeGradient":
        names.append(f"{entry}.grad")
    return names


def origin(node: Any) -> str:
    """The user's line that made the operation, or ""."""
    return str(attribute(node, "_recgraph_origin").s.decode())
