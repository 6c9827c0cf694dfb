"""Random trees and graphs with shared children, as records that every source can be written from."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

WORDS = ("a", "b", "ä ö", "x_1", "the")


@dataclasses.dataclass
class Record:
    """A node: a word, a number or none, and its children."""

    word: str
    number: int | None
    children: list[Record]


@st.composite
def trees(draw: Any, shared: bool = False, most: int = 12) -> Record:
    """A tree, or a graph in which nodes may have several parents; built from the last node to the root."""
    count = draw(st.integers(1, most))
    nodes: list[Record] = []
    without_parent: list[Record] = []
    for _ in range(count):
        taken = draw(st.integers(0, len(without_parent)))
        below = [without_parent.pop(draw(st.integers(0, len(without_parent) - 1))) for _ in range(taken)]
        if shared and nodes and draw(st.booleans()):
            below.append(draw(st.sampled_from(nodes)))
            without_parent = [node for node in without_parent if node is not below[-1]]
        below = list({id(node): node for node in below}.values())
        nodes.append(Record(draw(st.sampled_from(WORDS)), draw(st.none() | st.integers(-3, 3)), below))
        without_parent.append(nodes[-1])
    if len(without_parent) == 1:
        return without_parent[0]
    return Record(draw(st.sampled_from(WORDS)), draw(st.none() | st.integers(-3, 3)), without_parent)


def in_order(root: Record) -> list[Record]:
    """The nodes in the order in which they are met from the root, each once."""
    found: dict[int, Record] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack += reversed(node.children)
    return list(found.values())


def linked(root: Record) -> list[tuple[str, int | None, list[int]]]:
    """The nodes in that order: word, number, and the numbers of the children."""
    nodes = in_order(root)
    numbers = {id(node): number for number, node in enumerate(nodes)}
    return [(node.word, node.number, [numbers[id(child)] for child in node.children]) for node in nodes]
