"""State that bodies share, and the order in which they use it.

Where some bodies of a program read a variable (a table, a queue) and some write it, invocations that run at the same
time would mix: of two that do `v.assign(v.read_value() + 1)` one would be lost. These programs keep the order of the
text: whatever may reach such state waits for what stands before it in its body, calls included, and rows of a `map`
run one after another. That is the order in which Python would run the same bodies, whatever the engine asked for.
Calls from outside that are made on several threads at once take turns where they use the same state.

State that needs no order keeps its parallelism: what is only read; sums that nothing in the program reads; generators
of random numbers, each draw of which takes numbers of its own in one operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.ops import State

# Attributes of functions; `Program::RunsInOrder` and `Program::TakesTurns` in C++ look for them.
IN_ORDER, TAKES_TURNS = "_recgraph_in_order", "_recgraph_takes_turns"

_ANY = -1  # in place of the slot of a resource that was not captured: it may be any


@dataclasses.dataclass(frozen=True)
class InOrder:
    """What keeps the order of the text.

    Attributes:
        functions: names of the functions that may reach state that is read and written.
        where: the user's line of an operation that writes it.
    """

    functions: frozenset[str]
    where: str


# Of a program that is known by a key, whether each of its captured tensors is a resource that it may write; None of
# what is no resource.
Writes: TypeAlias = Callable[[str], Sequence[bool | None]]


def put_in_order(library: Any, writes: Writes) -> InOrder:
    """Adds control edges to the functions of `library` where the order of operations can be seen; says in which.

    Args:
        library: of a program.
        writes: of programs that its bodies call and that have captured tensors of these.
    """
    uses = {function.signature.name: list(_uses(function, writes)) for function in library.function}
    slots, where = _shared(use for found in uses.values() for use in found)
    nodes = {name: {use.node.name for use in found if use.slot in slots} for name, found in uses.items()}
    reaching = {name for name, found in nodes.items() if found}
    while True:
        before = len(reaching)
        for function in library.function:
            calls = {node.name for node in function.node_def if reaching.intersection(callees(node))}
            nodes[function.signature.name] |= calls
            if calls:
                reaching.add(function.signature.name)
        if len(reaching) == before:
            break
    for function in library.function:
        _chain(function, nodes[function.signature.name])
    return InOrder(frozenset(reaching), where)


def mark(library: Any, order: InOrder) -> None:
    """Notes in the functions that their invocations run one after another, and that calls from outside take turns.

    A call that has its turn must not wait for one that has none: where an operation may wait for another thread, or
    runs Python, calls from outside take no turns.
    """
    may_wait = any(ops.facts(node.op).waits for function in library.function for node in function.node_def)
    for function in library.function:
        if function.signature.name in order.functions:
            function.attr[IN_ORDER].b = True
            if not may_wait:
                function.attr[TAKES_TURNS].b = True


def callees(node: Any) -> list[str]:
    """The functions of the program that an operation may run."""
    names = [value.func.name for value in node.attr.values() if value.HasField("func")]
    names += [function.name for value in node.attr.values() for function in value.list.func]
    if node.op == "Recgraph>Invoke":
        entry = node.attr["entry"].s.decode()
        names += [entry, f"{entry}.rec"]
    elif node.op == "Recgraph>InvokeGradient":
        names.append(f"{node.attr['entry'].s.decode()}.grad")
    return names


@dataclasses.dataclass(frozen=True)
class _Use:
    """An operation on a resource, or a call of a program with captured tensors of its own.

    Attributes:
        node: of the operation.
        slot: of the resource.
        only_reads: whether a call only reads it.
    """

    node: Any
    slot: int
    only_reads: bool = False

    @property
    def _state(self) -> State:
        return ops.facts(self.node.op).state

    @property
    def writes(self) -> bool:
        return not self.only_reads and self._state is not State.READS

    @property
    def needs_no_order(self) -> bool:
        return self._state is State.ADDS or self.is_draw

    @property
    def is_draw(self) -> bool:
        return self._state is State.DRAWS


def _uses(function: Any, writes: Writes) -> Iterator[_Use]:
    captures = {
        node.name: node.attr["slot"].i
        for node in function.node_def
        if node.op == "Recgraph>Capture" and node.attr["dtype"].type == tf.resource.as_datatype_enum
    }
    for node in function.node_def:
        if node.op == "Recgraph>Invoke" and (key := node.attr["key"].s.decode()):
            given = [source.split(":")[0] for source in node.input if not source.startswith("^")]
            captured = writes(key)
            for source, is_written in zip(given[len(given) - len(captured) :], captured, strict=True):
                if is_written is not None:
                    yield _Use(node, captures.get(source, _ANY), not is_written)
        if node.op.startswith("Recgraph>") or node.op in ("If", "Case") or ops.facts(node.op).state is State.ASKS:
            continue
        sources = [source.split(":")[0] for source in node.input if not source.startswith("^")]
        found = [captures[source] for source in sources if source in captures]
        yield from (_Use(node, slot) for slot in found)
        if len(found) < _resources(node):
            yield _Use(node, _ANY)


def _resources(node: Any) -> int:
    """How many inputs of an operation are resources."""
    resource, count = tf.resource.as_datatype_enum, 0
    for argument in tf_private.op_definition(node.op).input_arg:
        if argument.type_list_attr:
            count += list(node.attr[argument.type_list_attr].list.type).count(resource)
            continue
        dtype = node.attr[argument.type_attr].type if argument.type_attr else argument.type
        if dtype == resource:
            count += node.attr[argument.number_attr].i if argument.number_attr else 1
    return count


def _shared(uses: Iterator[_Use]) -> tuple[set[int], str]:
    """The slots of resources that need an order, and the line of a write."""
    by_slot: dict[int, list[_Use]] = {}
    for use in uses:
        by_slot.setdefault(use.slot, []).append(use)
    if _ANY in by_slot and any(use.writes for found in by_slot.values() for use in found):
        everything = [use for found in by_slot.values() for use in found]
        by_slot = dict.fromkeys(by_slot, everything)
    shared = {
        slot: next(use for use in found if use.writes)
        for slot, found in by_slot.items()
        if any(use.writes for use in found)
        and not all(use.is_draw for use in found)
        and not all(use.needs_no_order and not use.is_draw for use in found)
    }
    # Asking a protobuf map for a missing attribute would put an empty one there.
    nodes = [use.node for use in shared.values() if "_recgraph_origin" in use.node.attr]
    lines = [node.attr["_recgraph_origin"].s.decode() for node in nodes]
    return set(shared), next(filter(None, lines), "")


def _chain(function: Any, names: set[str]) -> None:
    """Lets each of the named nodes wait for the one before it in the text."""
    before = None
    for node in function.node_def:
        if node.name not in names:
            continue
        edge = f"^{before}"
        if before is not None and edge not in node.input:
            node.input.append(edge)
        before = node.name
