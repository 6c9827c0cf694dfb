"""Objects are as they were, or not: attributes, members, the dead, and comparisons that raise or change things."""

from __future__ import annotations

import array
import contextlib
import random
import weakref
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from recgraph import native
from recgraph.speculate.observe import keras_state


class Thing:
    """Something with attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def members(container: Any) -> tuple[Any, ...]:
    """Of a container, as a snapshot has them."""
    return (*container.keys(), *container.values()) if isinstance(container, dict) else tuple(container)


def equal(one: Any, other: Any) -> bool:
    """As Python compares them."""
    return bool(one == other)


def holds(*parts: tuple[Any, ...], is_alike: Any = equal, versions: Any = None) -> bool:
    versions = array.array("Q", [0] * len(parts)) if versions is None else versions
    return bool(native.snapshots().holds(parts, versions, members, is_alike))


def test_attributes() -> None:
    thing = Thing(a=1000, b="text", c=None)
    part = (weakref.ref(thing), ("a", "c"), (thing.a, None))
    assert holds(part)
    thing.b = "another, that nobody asks for"
    assert holds(part)
    thing.a = int("1000")  # another object, the same number
    assert holds(part)
    assert not holds(part, is_alike=lambda one, other: one is other)
    thing.a = 7
    assert not holds(part)
    del thing.a
    assert not holds(part)
    del thing
    assert not holds(part)


@pytest.mark.parametrize("container", [[1, 2.5, "x"], {"k": 1, "l": (2,)}, {3, 4}, {}, [], tf.Module()])
def test_members(container: Any) -> None:
    if isinstance(container, tf.Module):
        container.kept = [1, 2]
        container = container.kept  # TensorFlow puts a list of its own around it
    part = (container, None, members(container))
    assert holds(part)
    if isinstance(container, dict):
        container["new"] = 1
    elif isinstance(container, set):
        container.add(5)
    else:
        container.append(5)
    assert not holds(part)


def test_lists_that_are_gone_through_in_another_way_are_asked_for_their_members() -> None:
    class Reversed(list[int]):
        def __iter__(self) -> Any:
            return reversed(list(super().__iter__()))

    container = Reversed([1, 2])
    assert holds((container, None, (2, 1)))
    assert not holds((container, None, (1, 2)))


def test_what_comparing_raises_is_raised() -> None:
    def fails(one: Any, other: Any) -> bool:
        raise KeyError("no")

    thing = Thing(a=1)
    with pytest.raises(KeyError):
        holds((weakref.ref(thing), ("a",), (2,)), is_alike=fails)
    with pytest.raises(ValueError, match="as many values"):
        holds((weakref.ref(thing), ("a",), ()))
    with pytest.raises(TypeError):
        holds((thing, ("a",), (1,)))
    with pytest.raises(TypeError):
        holds((3, None, ()))
    with pytest.raises(TypeError):
        native.snapshots().holds([], array.array("Q"), members, equal)
    with pytest.raises(TypeError):
        native.snapshots().holds((), b"", members, equal)
    with pytest.raises(TypeError, match="tuple of three"):
        holds((thing, None))
    with pytest.raises(TypeError, match="tuple of three"):
        holds((thing, None, [1]))
    with pytest.raises(ValueError, match="as many versions"):
        holds((weakref.ref(thing), ("a",), (1,)), versions=array.array("Q", [0, 0]))


def test_comparing_may_change_what_is_compared() -> None:
    thing = Thing(**{name: object() for name in "abcdef"})
    names, values = tuple(vars(thing)), tuple(object() for _ in range(6))

    def clears(one: Any, other: Any) -> bool:
        vars(thing).clear()
        return True

    assert not holds((weakref.ref(thing), names, values), is_alike=clears)


def test_a_layer_that_changes() -> None:
    layer = keras.layers.Dense(3, activation="relu", kernel_regularizer=keras.regularizers.L2(0.1))
    layer(np.ones([2, 4], np.float32))
    unchanged = keras_state.unchanged(layer)
    assert unchanged()
    layer.kernel_regularizer.l2 = 0.2
    assert not unchanged()
    layer.kernel_regularizer.l2 = 0.1
    assert unchanged()
    layer.trainable = False
    assert not unchanged()
    layer.trainable = True
    layer.activation = keras.activations.tanh
    assert not unchanged()


def test_a_model_whose_list_of_layers_changes() -> None:
    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.parts = [keras.layers.Dense(2), keras.layers.Dense(2)]

    model = Model()
    unchanged = keras_state.unchanged(model)
    assert unchanged()
    model.parts[0].use_bias = False
    assert not unchanged()


def test_a_version_stands_for_what_was_compared() -> None:
    """A dictionary is gone through again once it has been written, be it with what was there before."""
    asked = []

    def notes(one: Any, other: Any) -> bool:
        asked.append((one, other))
        return equal(one, other)

    thing, table = Thing(a=[1], b=1000), {"k": 1000}
    parts = (weakref.ref(thing), ("a", "b"), (thing.a, int("1000"))), (table, None, ("k", int("1000")))
    versions = array.array("Q", [0, 0])
    assert all(holds(*parts, is_alike=notes, versions=versions) for _ in range(3))
    assert len(asked) == 6  # equal numbers are not the same objects: no version stands for them
    assert list(versions) == [0, 0]
    thing.b, table["k"] = parts[0][2][1], parts[1][2][1]
    assert all(holds(*parts, is_alike=notes, versions=versions) for _ in range(3))
    assert len(asked) == 6
    assert all(versions)
    table["k"] = 1
    assert not holds(*parts, is_alike=notes, versions=versions)
    table["k"] = parts[1][2][1]
    vars(thing)["b"] = 2
    assert not holds(*parts, is_alike=notes, versions=versions)


def test_versions_change_no_answer() -> None:
    """Random changes of attributes and dictionaries, compared with and without them."""
    draw = random.Random(5)
    values: list[Any] = [object(), object(), 1000, None]
    things = [Thing(**dict(zip("abc", draw.choices(values, k=3), strict=True))) for _ in range(3)]
    tables = [{"a": draw.choice(values), "b": draw.choice(values)} for _ in range(3)]
    parts = [(weakref.ref(thing), tuple("abc"), tuple(vars(thing).values())) for thing in things]
    parts += [(table, None, members(table)) for table in tables]  # type: ignore[misc]
    first = [dict(vars(thing)) for thing in things] + [dict(table) for table in tables]
    versions = array.array("Q", [0] * len(parts))
    count = 0
    for _ in range(5000):
        found = holds(*parts, versions=versions)
        assert found == holds(*parts)
        count += found
        place = draw.randrange(6)
        written = vars(things[place]) if place < 3 else tables[place - 3]
        kind = draw.randrange(6)
        if kind == 0:
            written[draw.choice("abc")] = draw.choice(values)
        elif kind == 1 and place < 3:
            setattr(things[place], draw.choice("abc"), draw.choice(values))
        elif kind == 2:
            with contextlib.suppress(KeyError):
                del written[draw.choice("abc")]
        elif kind == 3:
            written.clear()
            written.update(first[place])
        else:
            for one, before in zip([*map(vars, things), *tables], first, strict=True):
                one.clear()
                one.update(before)
    assert 500 < count < 4500
