"""Which operations have effects, and have to keep the order that the user's program gives them.

An operation has an effect where another can tell when it ran: it writes a variable or a table, reads one that the
program writes, prints, runs Python. The control dependencies of a body order these operations and the calls that may
reach one. A call with effects gives its results when all of them are done, as in the parallel engine, so that what
uses a result comes after them, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.batch.nodes import attribute, functions_of

_ELSEWHERE = -1  # in place of the slot of a resource that was not captured


@dataclasses.dataclass(frozen=True)
class ProgramEffects:
    """Of the functions of a program, by name.

    Attributes:
        by_row: operations that run once for every row, with the reason.
        ordered: operations and calls that control dependencies wait for.
        functions: those that may have effects.
    """

    by_row: dict[str, dict[str, str]]
    ordered: dict[str, set[str]]
    functions: set[str]


def find(definitions: dict[str, Any]) -> ProgramEffects:
    """The effects of the functions of a library."""
    effects = ProgramEffects({name: {} for name in definitions}, {name: set() for name in definitions}, set())
    written = {_ELSEWHERE}
    for definition in definitions.values():
        written.update(slot for node in _stateful(definition) if _writes(node) for slot in _slots(node, definition))
    for definition in definitions.values():
        for node in _stateful(definition):
            _enter(effects, definition, node, written)
    while True:
        before = len(effects.functions)
        for definition in definitions.values():
            _enter_calls(effects, definition)
        if len(effects.functions) == before:
            return effects


def _enter(effects: ProgramEffects, definition: Any, node: Any, written: set[int]) -> None:
    name = definition.signature.name
    known = ops.facts(node.op)
    if known.checks:  # what follows a check has to wait, nobody else
        effects.ordered[name].add(node.name)
        return
    if not known.only_reads:
        effects.by_row[name][node.name] = f"{node.op} has a state"
    if _writes(node) or (known.only_reads and _slots(node, definition) & written):
        effects.ordered[name].add(node.name)
        effects.functions.add(name)


def _enter_calls(effects: ProgramEffects, definition: Any) -> None:
    """Enters the calls of a function that reach effects, as far as is known."""
    calls = {node.name for node in definition.node_def if effects.functions.intersection(functions_of(node))}
    if calls:
        effects.ordered[definition.signature.name] |= calls
        effects.functions.add(definition.signature.name)


def _stateful(definition: Any) -> Iterable[Any]:
    """The operations of a function that count as stateful, those left out that are part of the recursion."""
    for node in definition.node_def:
        passed_over = node.op.startswith("Recgraph>") or node.op in ("If", "Case")
        if not passed_over and tf_private.op_definition(node.op).is_stateful:
            yield node


def _writes(node: Any) -> bool:
    return not ops.facts(node.op).is_invisible


def _slots(node: Any, definition: Any) -> set[int]:
    """The slots of the resources that an operation refers to."""
    sources = {reference.split(":")[0] for reference in node.input}
    captures = (n for n in definition.node_def if n.name in sources and n.op == "Recgraph>Capture")
    slots = {attribute(n, "slot").i for n in captures if attribute(n, "dtype").type == tf.resource.as_datatype_enum}
    return slots or {_ELSEWHERE}
