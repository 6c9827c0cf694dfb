"""Blocks that are alike but for names, lines and slots: one is traced and optimized, the others are copies of it.

Children that are computed alike give such blocks, each with weights of its own. A copy has the names and the lines of
its own operations, so that errors tell them apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from recgraph.batch import vectorize
from recgraph.batch.flow import Flow, Value

_ORIGIN = "_recgraph_origin"
_WITH_SLOT = ("Recgraph>Capture", "Recgraph>Accumulate")


class Likeness:
    """What a block is made of.

    Attributes:
        key: equal for blocks that are alike.
        nodes: its operations and the shared ones that it needs, in an order that is the same for blocks that are alike.
        numbers: their places in `nodes`, by name.
        slots: those of the environment that it reads and adds to, in such an order.
    """

    def __init__(
        self,
        flow: Flow,
        specs: dict[Value, tf.TensorSpec],
        names: Iterable[str],
        reads: list[Value],
        writes: list[Value],
    ) -> None:
        """Args: the function, what is known of its values, the block's operations, and what it reads and writes."""
        self.nodes: list[Any] = []
        self.numbers: dict[str, int] = {}
        self.slots: list[int] = []
        self._flow = flow
        self._reads = {value: i for i, value in enumerate(reads)}
        self._parts: list[Any] = []
        names = list(names)
        for name in names:
            self._enter(name)
        results = tuple(map(self._reference, writes))
        how = (flow.by_row.get(names[0]), flow.is_alone(names[0])) if names else None
        operations = tuple(self.numbers[name] for name in names)
        self.key = (tuple(self._parts), operations, tuple(_described(specs[value]) for value in reads), results, how)

    def _enter(self, name: str) -> None:
        if name not in self.numbers:
            node = self._flow.nodes[name]
            references = tuple(map(self._reference, self._flow.inputs(name)))
            self._parts.append((self._content(node), references))
            self.numbers[name] = len(self.nodes)
            self.nodes.append(node)

    def _reference(self, value: Value) -> tuple[Any, ...]:
        if value in self._reads:
            return ("read", self._reads[value])
        self._enter(value[0])
        return (self.numbers[value[0]], value[1])

    def _content(self, node: Any) -> bytes:
        """A node without its name, its inputs and its line, and with the number of its slot in `slots`."""
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name = ""
        del copy.input[:]
        copy.attr.pop(_ORIGIN, None)
        if node.op in _WITH_SLOT:
            slot = node.attr["slot"].i
            if slot not in self.slots:
                self.slots.append(slot)
            copy.attr["slot"].i = self.slots.index(slot)
        made: bytes = copy.SerializeToString(deterministic=True)
        return made


def _described(spec: tf.TensorSpec) -> tuple[Any, ...]:
    return spec.dtype, None if spec.shape.rank is None else tuple(spec.shape.as_list())


@dataclasses.dataclass
class BlockCopy:
    """A block's function that is written as another one was, once that is optimized.

    Attributes:
        name: of the function.
        written: the name of the other one.
        likeness: what the block is made of.
        other: what the other one was made of.
        sources: which of its operations those of the other function compute, by name.
    """

    name: str
    written: str
    likeness: Likeness
    other: Likeness
    sources: dict[str, int]

    def make(self, written: Any) -> Any:
        """The function, made of the other one."""
        made = type(written)()
        made.CopyFrom(written)
        made.signature.name = self.name
        names = self.names(written)
        for node in made.node_def:
            number = self.sources.get(node.name)
            node.name = names[node.name]
            node.input[:] = [_renamed(reference, names) for reference in node.input]
            if number is not None and _ORIGIN in node.attr:
                node.attr[_ORIGIN].s = self.likeness.nodes[number].attr[_ORIGIN].s
        for results in (made.ret, made.control_ret):
            for name in list(results):
                results[name] = _renamed(results[name], names)
        return made

    def names(self, written: Any) -> dict[str, str]:
        """The names of its operations, by those of the other function's."""
        names: dict[str, str] = {}
        taken: set[str] = set()
        for name in (node.name for node in written.node_def):
            number = self.sources.get(name)
            unique = own = name if number is None else self._name(name, number)
            count = 0
            while unique in taken:
                count += 1
                unique = f"{own}_{count}"
            taken.add(unique)
            names[name] = unique
        return names

    def _name(self, written: str, number: int) -> str:
        """The name of an operation that computes the one with this number."""
        before, after = (vectorize.name_of(each.nodes[number]) for each in (self.other, self.likeness))
        if not written.startswith(before):
            return written
        return after + written[len(before) :].replace(f"/{before}", f"/{after}")


def _renamed(reference: str, names: dict[str, str]) -> str:
    """A reference to a node, its output or its end."""
    mark = "^" if reference.startswith("^") else ""
    name, colon, rest = reference.removeprefix("^").partition(":")
    return f"{mark}{names.get(name, name)}{colon}{rest}"
