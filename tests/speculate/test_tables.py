"""Tables of Python objects are those that a plain walk in Python makes, and strange objects give an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recgraph.speculate.values import tables

PLAN = (("left", "link"), ("others", "links"), ("flag", "bool"), ("word", "int"), ("value", "float"))


class Node:
    """Some attributes are missing, or None."""


def by_hand(plan: tuple[type, Any], roots: tuple[Any, ...]) -> list[list[Any]]:
    """The same, an attribute at a time."""
    kind, columns = plan
    things: list[Any] = []
    found: dict[str, list[Any]] = {name: [] for name, _ in columns}
    ends: dict[str, list[int]] = {name: [0] for name, of in columns if of == "links"}

    def row(thing: Any) -> int:
        if not any(one is thing for one in things):
            assert type(thing) is kind
            things.append(thing)
        return next(i for i, one in enumerate(things) if one is thing)

    made = [[row(root) for root in roots]]
    for thing in things:  # grows
        for name, of in columns:
            value = getattr(thing, name, None)
            if of == "link":
                found[name].append(-1 if value is None else row(value))
            elif of == "links":
                found[name] += map(row, value or ())
                ends[name].append(len(found[name]))
            else:
                found[name].append(value or 0)
    for name, of in columns:
        made += [found[name], ends[name]] if of == "links" else [found[name]]
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
    dtypes = [np.int32, np.int32, np.int32, np.int32, np.bool_, np.int64, np.float64]
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
    _, links, depths = tables.walk((Made, (("left", "link"), ("depth", "int")), ()), (Made(50),))
    assert links.tolist() == [*range(1, 51), -1]
    assert depths.tolist() == list(range(50, -1, -1))


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("left", 1, TypeError),
        ("others", [Node(), None], TypeError),
        ("others", 3, TypeError),
        ("flag", 1, TypeError),
        ("word", True, TypeError),
        ("word", 2**63, OverflowError),
        ("value", 1, TypeError),
        ("value", np.float64(1.0), TypeError),
    ],
)
def test_an_attribute_of_another_class_is_an_error(name: str, value: Any, error: type[Exception]) -> None:
    """Then the call runs eagerly."""
    node = Node()
    setattr(node, name, value)
    with pytest.raises(error):
        tables.walk((Node, PLAN, ()), (node,))


def test_an_error_of_a_property_is_handed_on() -> None:
    """Only an attribute that is not there is None."""

    class Broken:
        @property
        def left(self) -> Any:
            """Never gives a value."""
            raise RuntimeError("not now")

    with pytest.raises(RuntimeError, match="not now"):
        tables.walk((Broken, (("left", "link"),), ()), (Broken(),))
