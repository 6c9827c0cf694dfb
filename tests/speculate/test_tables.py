"""Tables of Python objects are those that a plain walk in Python makes, and strange objects give an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recgraph.speculate.values import tables

KINDS = {"left": "link", "others": "links", "flag": "bool", "word": "long", "value": "float"}
PLAN = tuple((name, kind, tables.Lacking.ATTRIBUTES) for name, kind in KINDS.items())
FULL = tuple((name, kind, tables.Lacking.NOTHING) for name, kind in KINDS.items())


class Node:
    """Some attributes are missing, or None."""


def by_hand(plan: tuple[type, Any], roots: tuple[Any, ...]) -> list[list[Any]]:
    """The same, an attribute at a time."""
    kind, columns = plan
    things: list[Any] = []
    found: dict[str, list[Any]] = {name: [] for name, *_ in columns}
    ends: dict[str, list[int]] = {name: [0] for name, of, _ in columns if of == "links"}
    places: dict[str, list[int]] = {name: [] for name, *_ in columns}

    def row(thing: Any) -> int:
        if not any(one is thing for one in things):
            assert type(thing) is kind
            things.append(thing)
        return next(i for i, one in enumerate(things) if one is thing)

    made = [[row(root) for root in roots]]
    for number, thing in enumerate(things):  # grows
        for name, of, _ in columns:
            value = getattr(thing, name, None)
            places[name].append(number if value is not None else -1 if hasattr(thing, name) else -2)
            if of == "link":
                found[name].append(places[name][-1] if value is None else row(value))
            elif of == "links":
                found[name] += map(row, value or ())
                ends[name].append(len(found[name]))
            else:
                found[name].append(value or 0)
    for name, of, _ in columns:
        made += [found[name]] + ([ends[name]] if of == "links" else []) + [places[name]] * (of != "link")
    return made


@st.composite
def graphs(draw: Any) -> tuple[Any, ...]:
    """Objects that know each other, in circles too; the roots, some of them twice."""
    nodes = [Node() for _ in range(draw(st.integers(1, 12)))]
    one = st.sampled_from(nodes)
    for node in nodes:
        for name, values in (
            ("left", st.none() | one),
            ("others", st.none() | st.lists(one, max_size=4) | st.lists(one, max_size=4).map(tuple)),
            ("flag", st.none() | st.booleans()),
            ("word", st.none() | st.integers(-(2**63), 2**63 - 1)),
            ("value", st.none() | st.floats(allow_nan=False)),
        ):
            if draw(st.booleans()):
                setattr(node, name, draw(values))
    return tuple(draw(st.lists(one, max_size=5)))


@settings(max_examples=300, deadline=None, database=None)
@given(graphs())
def test_the_columns_are_those_of_a_plain_walk(roots: tuple[Any, ...]) -> None:
    """Rows, numbers, members and ends."""
    columns = tables.walk((Node, PLAN, ()), roots)
    numbers = [dtype for number in (np.bool_, np.int64, np.float64) for dtype in (number, np.int32)]
    dtypes = [np.int32, np.int32, np.int32, np.int32, np.int32, *numbers]
    assert [column.dtype for column in columns] == dtypes
    assert [column.tolist() for column in columns] == by_hand((Node, PLAN), roots)


class Made:
    """Attributes that a property makes anew, and that nobody else holds."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    @property
    def left(self) -> Any:
        """The next."""
        return Made(self.depth - 1) if self.depth else None


def test_objects_that_nobody_else_holds_live_as_long_as_the_walk() -> None:
    """An address is not taken for another object that died."""
    plan = (("left", "link", tables.Lacking.NOTHING), ("depth", "int", tables.Lacking.NOTHING))
    _, links, depths = tables.walk((Made, plan, ()), (Made(50),))
    assert links.tolist() == [*range(1, 51), -1]
    assert depths.tolist() == list(range(50, -1, -1))


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("left", 1, TypeError),
        ("others", [Node(), None], TypeError),
        ("others", 3, TypeError),
        ("others", None, TypeError),
        ("flag", 1, TypeError),
        ("flag", None, TypeError),
        ("word", True, TypeError),
        ("word", 2**63, OverflowError),
        ("value", 1, TypeError),
        ("value", np.float64(1.0), TypeError),
    ],
)
def test_an_attribute_of_another_class_is_an_error(name: str, value: Any, error: type[Exception]) -> None:
    """Then the call runs eagerly, whether or not some may have none."""
    node = Node()
    node.left, node.others, node.flag, node.word, node.value = None, [], True, 1, 1.0
    tables.walk((Node, FULL, ()), (node,))
    setattr(node, name, value)
    for plan in (FULL, PLAN) if value is not None else (FULL,):
        with pytest.raises(error):
            tables.walk((Node, plan, ()), (node,))


def test_an_attribute_that_is_not_there_is_an_error() -> None:
    """Unless some may lack it."""
    with pytest.raises(AttributeError, match="left"):
        tables.walk((Node, FULL, ()), (Node(),))


def test_integers_have_32_bits_unless_some_have_more() -> None:
    """As eager execution makes int32 of those."""
    node = Node()
    for number in (2**31 - 1, -(2**31)):
        node.word = number
        assert tables.walk((Node, (("word", "int", tables.Lacking.NOTHING),), ()), (node,))[1].tolist() == [number]
    for number in (2**31, -(2**31) - 1, 2**40):
        node.word = number
        with pytest.raises(OverflowError):
            tables.walk((Node, (("word", "int", tables.Lacking.NOTHING),), ()), (node,))


def test_an_attribute_in_place_of_a_method_is_an_error() -> None:
    """Methods are those of the class."""

    class Able:
        def act(self) -> int:
            """Does nothing."""
            return 1

    thing = Able()
    plan = (Able, (("act", "method", 0),), ())
    assert len(tables.walk(plan, (thing,))) == 1
    thing.act = lambda: 2  # type: ignore[method-assign]
    with pytest.raises(TypeError):
        tables.walk(plan, (thing,))


def test_an_error_of_a_property_is_handed_on() -> None:
    """Only an attribute that is not there is None."""

    class Broken:
        @property
        def left(self) -> Any:
            """Never gives a value."""
            raise RuntimeError("not now")

    with pytest.raises(RuntimeError, match="not now"):
        tables.walk((Broken, (("left", "link", 2),), ()), (Broken(),))
