"""Keeps TensorFlow's graph optimizer from rewriting functions into what computes something else.

What `cc/kernels/faithfulness.cc` does for the graphs that TensorFlow optimizes where it runs them, for the bodies that
are optimized when a program is linked; it says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from recgraph import ops

_SUMS = ("AddV2", "Sub", "Add")
_FLOATS = {one.as_datatype_enum for one in (tf.float16, tf.bfloat16, tf.float32, tf.float64)}
_KEPT = "_grappler_do_not_remove"
# Follows the name of a maximum in that of a node that waits for its operands.
_OPERANDS = "/recgraph_operands"


def protect(library: Any) -> None:
    """Changes functions so that what may not be rewritten is not. To be undone by `unprotect`.

    A sum with a constant that is part of another sum stays an operation of its own. A maximum waits for its operands,
    so that no leaky rectifier is made of it.
    """
    for function in library.function:
        for inner in _sums_with_constants(function):
            inner.attr[_KEPT].b = True
        for maximum in [node for node in function.node_def if node.op == "Maximum"]:
            operands = [f"^{_producer(source)}" for source in maximum.input if ":" in source]
            if operands:
                waits = function.node_def.add(name=f"{maximum.name}{_OPERANDS}", op="NoOp", input=operands)
                waits.device = maximum.device
                maximum.input.append(f"^{waits.name}")


def unprotect(library: Any) -> None:
    """Takes away what `protect` has added, also where the optimizer has given it another name."""
    for function in library.function:
        added = {f"^{node.name}" for node in function.node_def if _is_added(node)}
        for node in function.node_def:
            if _KEPT in node.attr:
                del node.attr[_KEPT]
            kept = [source for source in node.input if source not in added]
            if len(kept) < len(node.input):
                del node.input[:]
                node.input.extend(kept)
        kept_nodes = [node for node in function.node_def if not _is_added(node)]
        if added:
            del function.node_def[:]
            function.node_def.extend(kept_nodes)


def _is_added(node: Any) -> bool:
    return node.op == "NoOp" and _OPERANDS in node.name


def _producer(source: str) -> str:
    return source.split(":")[0]


def _sums_with_constants(function: Any) -> Iterator[Any]:
    """The sums that are an operand of another one, where one of the two has a constant."""
    nodes = {node.name: node for node in function.node_def}
    sums = {name: node for name, node in nodes.items() if node.op in _SUMS and node.attr["T"].type in _FLOATS}
    if not sums:
        return
    constants = _constants(nodes)
    with_constant = {name for name, node in sums.items() if any(_producer(one) in constants for one in node.input)}
    for name, outer in sums.items():
        for inner in filter(None, (sums.get(_producer(source)) for source in outer.input)):
            if name in with_constant or inner.name in with_constant:
                yield inner


def _constants(nodes: dict[str, Any]) -> set[str]:
    """The nodes whose values are computed of constants alone, so that they will be constants."""
    found = {name for name, node in nodes.items() if node.op == "Const"}
    waiting = [
        node
        for node in nodes.values()
        if node.op != "Const"
        and any(":" in source for source in node.input)
        and not ops.facts(node.op).counts_as_stateful
    ]
    while True:
        new = {
            node.name
            for node in waiting
            if node.name not in found and all(_producer(one) in found for one in node.input if not one.startswith("^"))
        }
        if not new:
            return found
        found |= new
