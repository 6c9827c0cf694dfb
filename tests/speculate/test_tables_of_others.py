"""What a graph reads from many objects at once is as sure as what Python reads from one.

Each program goes through trees of which one object is not like the others. What it gives, or raises, is what it gives
eagerly, and trees without such an object are calls of the graph all the time.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.speculate import Optimizations, Speculated

WORDS = tf.random.stateless_normal([9, 4], [1, 2])
DEPTHS: tuple[tuple[str, ...], ...] = ((), ("left",), ("left", "right", "left"), ("left", "right", "left", "right"))


class Plain:
    """What a node has, it has itself. Inner nodes have no words of their own."""

    def __init__(self, number: int, children: tuple[Any, ...]) -> None:
        self.word, self.value, self.flag = number % 9, number / 8, number % 2 == 0
        self.left, self.right = children or (None, None)
        self.children = list(children)
        self.leaf_word = None if children else number % 9
        if not children:
            self.own = number % 9

    def scale(self) -> float:
        """A method that does not look at the object."""
        return 0.5

    @property
    def is_leaf(self) -> bool:
        """A property that does."""
        return self.left is None


class Slotted(Plain):
    """Nodes with slots."""

    __slots__ = ("word", "value", "left", "right")


class Asked(Plain):
    """A class that has an answer for what an object does not have."""

    def __getattr__(self, name: str) -> Any:
        if name in ("word", "own"):
            return 7
        raise AttributeError(f"there is no {name} here")


@dataclasses.dataclass
class Defaults:
    """What an object has not, its class has."""

    word: int = 3
    value: float = 0.25
    flag: bool = False
    left: Any = None
    right: Any = None


def of_defaults(number: int, children: tuple[Any, ...]) -> Defaults:
    """A node that has a part of it all."""
    left, right = children or (None, None)
    node = Defaults(number % 9, number / 8, number % 2 == 0, left, right)
    if number % 3 == 0:
        del node.word, node.flag
    return node


def words(node: Any) -> tf.Tensor:
    """Each node has a word."""
    if node.left is None:
        return tf.gather(WORDS, node.word)
    return tf.tanh(words(node.left) + words(node.right) + tf.gather(WORDS, node.word))


def numbers(node: Any) -> tf.Tensor:
    """Each node has a number and a flag."""
    here = tf.constant(2.0) * node.value if node.flag else tf.constant(-1.0)
    return here if node.left is None else here + numbers(node.left) - numbers(node.right)


def words_of_leaves(node: Any) -> tf.Tensor:
    """Only leaves have words; others have None."""
    if node.leaf_word is None:
        return tf.tanh(words_of_leaves(node.left) * 0.5 + words_of_leaves(node.right))
    return tf.gather(WORDS, node.leaf_word)


def own_words(node: Any) -> tf.Tensor:
    """Only leaves have the attribute."""
    if node.is_leaf:
        return tf.gather(WORDS, node.own)
    return tf.tanh(own_words(node.left) + own_words(node.right)) * node.scale()


def children(node: Any) -> tf.Tensor:
    """Any number of them."""
    total = tf.gather(WORDS, node.word)
    for child in node.children:
        total += 0.5 * children(child)
    return total


class Word(enum.IntEnum):
    """An integer of another class."""

    FIRST = 1


class Other(Plain):
    """A derived class."""


def setting(name: str, value: Any) -> Callable[[Any], None]:
    """What gives an object an attribute."""
    return lambda node: setattr(node, name, value)


def deleting(name: str) -> Callable[[Any], None]:
    """What takes one away."""
    return lambda node: delattr(node, name)


def _own_method(node: Any) -> None:
    node.scale = lambda: 3.0


def _hidden(node: Any) -> None:
    node.__dict__["is_leaf"] = True  # properties go first


INTEGERS = {
    "none": None, "true": True, "numpy": np.int64(3), "float": 1.0, "numpy float": np.float32(1), "text": "a",
    "enumeration": Word.FIRST, "72 bits": 2**70, "beyond": 2**40, "negative": -(2**63), "array": np.array(2),
}  # fmt: skip
FLOATS = {"none": None, "int": 1, "bool": True, "numpy": np.float64(1.5), "half": np.float16(1.5), "text": "a"}
FLAGS = {"none": None, "int": 1, "zero": 0, "numpy": np.bool_(True), "text": "a", "list": []}
LINKS = {"none": None, "derived": Other(4, ()), "number": 3, "missing": deleting("left")}
CHILDREN = {
    "none": None, "tuple": (Plain(1, ()),), "derived": [Other(4, ())], "nothing": [None], "number": 3, "text": "",
}  # fmt: skip


def changes(name: str, values: dict[str, Any]) -> dict[str, Callable[[Any], None]]:
    """Values for an attribute, and none."""
    made = {key: value if callable(value) else setting(name, value) for key, value in values.items()}
    return made | {"missing": deleting(name)}


def tree(make: Callable[..., Any], depth: int, number: int) -> Any:
    """A full tree."""
    return make(number, tuple(tree(make, depth - 1, 2 * number + i) for i in (1, 2)) if depth else ())


PROGRAMS: dict[str, tuple[Any, Any, dict[str, Callable[[Any], None]]]] = {
    "words": (words, Plain, changes("word", INTEGERS) | {f"l {k}": v for k, v in changes("left", LINKS).items()}),
    "words in slots": (words, Slotted, changes("word", INTEGERS)),
    "words asked for": (words, Asked, changes("word", INTEGERS)),
    "words by default": (words, of_defaults, changes("left", {"none": None, "plain": Plain(4, ())})),
    "numbers": (numbers, Plain, changes("value", FLOATS) | {f"flag {k}": v for k, v in changes("flag", FLAGS).items()}),
    "words of leaves": (words_of_leaves, Plain, changes("leaf_word", INTEGERS)),
    "own words": (own_words, Plain, changes("own", INTEGERS) | {"method": _own_method, "hidden": _hidden}),
    "own words asked for": (own_words, Asked, {"missing": lambda node: node.__dict__.pop("own", None)}),
    "children": (children, Plain, changes("children", CHILDREN)),
}


def outcome(step: Any, node: Any) -> Any:
    """What a call gives, or raises."""
    try:
        return step(node).numpy().tolist()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_object_that_is_not_like_the_others(name: str, batched: bool) -> None:
    """At the root, below it, and deep; all graphs of the program have seen one like it before, too."""
    recursive, make, broken = PROGRAMS[name]

    def step(node: Any) -> tf.Tensor:
        return tf.reduce_sum(recursive(node))

    speculated = Speculated(step, optimizations=Optimizations(batched=batched))
    for i in range(4):
        speculated(tree(make, 4, i))
    found = []
    for key, change in broken.items():
        for path in DEPTHS:
            node = tree(make, 4, 5)
            if _is_changed(node, path, change):
                found += [
                    f"{key}, {'.'.join(path) or 'root'}: {text}" for text in _differences(step, speculated, make, node)
                ]
    assert not found, "\n".join(found)


def _is_changed(node: Any, path: tuple[str, ...], change: Callable[[Any], None]) -> bool:
    """Changes the object at the end of a path, unless there is nothing to take away."""
    for name in path:
        node = getattr(node, name)
    try:
        change(node)
    except AttributeError:
        return False
    return True


def _differences(step: Any, speculated: Speculated, make: Any, node: Any) -> list[str]:
    """What is wrong with a call on a changed tree, and with one on an ordinary tree before it."""
    speculated.breaks.clear()  # an object of these breaks in each second call
    speculated.calls["fallback"], graph_calls = 0, speculated.calls["graph"]
    ordinary = tree(make, 4, 6)
    pairs = [(outcome(step, ordinary), outcome(speculated, ordinary))]
    found = [] if speculated.calls["graph"] > graph_calls else ["no graph"]
    pairs.append((outcome(step, node), outcome(speculated, node)))
    for one, other in pairs:
        if other != (pytest.approx(one, rel=1e-5) if isinstance(one, float) else one):
            found.append(f"{one} and {other}")
    return found


def _recursive(step: Any, node: Any, calls: int = 5) -> Speculated:
    """A step that runs as a graph."""
    speculated = Speculated(step)
    for _ in range(calls):
        assert outcome(speculated, node) == outcome(step, node)
    assert speculated.calls["graph"], speculated.explain()
    return speculated


def test_integers_that_grow_beyond_the_graphs() -> None:
    """The call runs eagerly, where they are as long as they need to be."""

    def rec(node: Any) -> tf.Tensor:
        if node.left is None:
            return tf.constant(0.5) * float(node.word * node.word * 3)
        return rec(node.left) + rec(node.right)

    def step(node: Any) -> tf.Tensor:
        return rec(node)

    node = tree(Plain, 2, 1)
    speculated = _recursive(step, node)
    for number in (2**31, 2**33, 2**62, -(2**63), 2**90):
        node.left.right.word = number
        for _ in range(5):
            assert outcome(speculated, node) == pytest.approx(outcome(step, node)), number


def test_an_object_of_a_table_is_itself() -> None:
    """`is` compares rows."""

    def rec(node: Any) -> tf.Tensor:
        if node.left is None:
            return tf.constant(1.0)
        total = rec(node.left) * 2.0
        if node.left is node.right:
            return total
        return total + rec(node.right)

    def step(node: Any) -> tf.Tensor:
        return rec(node)

    node = tree(Plain, 3, 1)
    speculated = _recursive(step, node)
    node.left.right.left = node.left.right.right
    assert outcome(speculated, node) == outcome(step, node)
    assert not speculated.calls["fallback"]


def test_a_class_that_changes_later() -> None:
    """What it has in place of attributes of its objects is seen."""

    class Node(Plain):
        pass

    def rec(node: Any) -> tf.Tensor:
        return tf.constant(2.0) * node.value if node.left is None else rec(node.left) + rec(node.right)

    def step(node: Any) -> tf.Tensor:
        return rec(node)

    node = tree(Node, 2, 1)
    speculated = _recursive(step, node)
    Node.value = property(lambda self: 3.0)
    assert outcome(speculated, node) == outcome(step, node) == 24.0


def test_what_the_call_itself_has_written() -> None:
    """The table is read before the call, and its program is not converted."""

    def rec(node: Any) -> tf.Tensor:
        return tf.constant(2.0) * node.value if node.left is None else rec(node.left) + rec(node.right)

    def step(node: Any, value: float) -> tf.Tensor:
        node.left.left.value = value
        return rec(node)

    node, other = tree(Plain, 2, 1), tree(Plain, 2, 1)
    speculated = Speculated(step)
    for i in range(6):
        assert speculated(node, i / 2).numpy() == step(other, i / 2).numpy()


def test_none_that_is_handed_on() -> None:
    """Only what needs the value asks for it."""

    def word_of(node: Any, default: int) -> Any:
        word = node.leaf_word
        return default if word is None else word

    def rec(node: Any) -> tf.Tensor:
        here = tf.gather(WORDS, word_of(node, 8)) * (1.0 if node.leaf_word else 0.5)
        return here if node.left is None else here + rec(node.left) - rec(node.right)

    def step(node: Any) -> tf.Tensor:
        return tf.reduce_sum(rec(node))

    speculated = Speculated(step)
    for i in range(6):
        node = tree(Plain, 3, i)
        assert outcome(speculated, node) == pytest.approx(outcome(step, node))
    assert speculated.calls["graph"] == 3, speculated.explain()
