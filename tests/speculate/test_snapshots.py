"""Objects are as they were, or not: attributes, members, the dead, and comparisons that raise or change things."""

from __future__ import annotations

import array
import contextlib
import copy
import random
import weakref
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from recgraph import native, tf_private
from recgraph.speculate.observe import keras_state, snapshots
from recgraph.speculate.observe.snapshots import Snapshot


class Thing:
    """Something with attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def equal(found: Any, expected: Any) -> bool:
    """As Python compares them."""
    return snapshots.alike(found, expected, lambda one, other: bool(one == other))


def holds(*parts: tuple[Any, ...], is_alike: Any = equal, versions: Any = None) -> bool:
    versions = array.array("Q", [0] * (len(parts) + 8)) if versions is None else versions
    inner = tf_private.ATTRIBUTES_OF_WRAPPERS
    kinds = snapshots.WeakObject, snapshots.Members
    return bool(native.snapshots().holds(parts, versions, is_alike, *kinds, inner))


def test_attributes() -> None:
    thing = Thing(a=1000, b="text", c=None)
    part = (weakref.ref(thing), ("a", "c"), (thing.a, None), ())
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


def noted(is_alike: Any = equal, **attributes: Any) -> tuple[Thing, Any]:
    """An object with attributes, and what tells whether it is as it was."""
    thing, snapshot = Thing(**attributes), Snapshot(is_alike)
    snapshot.note(thing, vars(thing))
    return thing, snapshot.checker()


@pytest.mark.parametrize("container", [[1, 2.5, "x"], {"k": 1, "l": (2,)}, {3, 4}, {}, [], tf.Module(), (1, [2])])
def test_members(container: Any) -> None:
    if isinstance(container, tf.Module):
        container.kept = [1, 2]
        container = container.kept  # TensorFlow puts a list of its own around it
    for around in (container, [container], {"below": container}, (0, container)):
        _, is_as_it_was = noted(c=around)
        assert is_as_it_was()
        assert is_as_it_was()
        if isinstance(container, dict):
            container[f"new {len(container)}"] = 1
        elif isinstance(container, set):
            container.add(5 + len(container))
        elif isinstance(container, tuple):
            container[1].append(5)
        else:
            container.append(5)
        assert not is_as_it_was()
        assert not is_as_it_was()


def test_a_container_may_be_another_one_of_the_same() -> None:
    one = object()
    thing, is_as_it_was = noted(c=[one, {"k": (one, 1000)}])
    thing.c = [one, {"k": (one, int("1000"))}]
    assert is_as_it_was()
    thing.c = (one, thing.c[1])
    assert not is_as_it_was()
    thing.c = [object(), {"k": (one, 1000)}]
    assert not is_as_it_was()


def test_a_container_in_itself() -> None:
    around: list[Any] = [1]
    around.append(around)
    thing, is_as_it_was = noted(c=around)
    assert is_as_it_was()
    thing.c[1] = [1]
    assert not is_as_it_was()


def test_deep_containers() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    thing, is_as_it_was = noted(c=deep)
    assert is_as_it_was()
    thing.c[0][0][0].append(1)
    assert not is_as_it_was()


def test_nothing_is_kept() -> None:
    """Neither what attributes are nor what is in containers; the dead are not as they were."""
    one, other = Thing(), Thing()
    thing, is_as_it_was = noted(a=one, c=[{"k": other}])
    reference = weakref.ref(other)
    assert is_as_it_was()
    thing.c[0]["k"] = None
    del other
    assert reference() is None
    assert not is_as_it_was()
    reference = weakref.ref(one)
    thing.a = None
    del one
    assert reference() is None
    assert not is_as_it_was()


def test_all_attributes() -> None:
    thing, snapshot = Thing(a=1, b=[1], c=object()), Snapshot(equal)
    snapshot.note_all(thing, frozenset({"c"}))
    is_as_it_was = snapshot.checker()
    assert is_as_it_was()
    thing.c = None
    assert is_as_it_was()
    thing.b.append(2)
    assert not is_as_it_was()
    thing.b.pop()
    assert is_as_it_was()
    thing.d = 1
    assert not is_as_it_was()


def test_lists_that_are_gone_through_in_another_way_are_asked_for_their_members() -> None:
    class Reversed(list[int]):
        def __iter__(self) -> Any:
            return reversed(list(super().__iter__()))

    thing, is_as_it_was = noted(c=Reversed([1, 2]))
    assert is_as_it_was()
    thing.c = Reversed([2, 1])
    assert not is_as_it_was()


def test_what_comparing_raises_is_raised() -> None:
    def fails(one: Any, other: Any) -> bool:
        raise KeyError("no")

    thing = Thing(a=1)
    owner = weakref.ref(thing)
    with pytest.raises(KeyError):
        holds((owner, ("a",), (2,), ()), is_alike=fails)
    for part in ((owner, ("a",), (), ()), (owner, None, (dict,), ()), (owner, None, (dict, -1, "a"), ())):
        with pytest.raises(ValueError, match="as many values"):
            holds(part)
    fails.a = thing.a  # type: ignore[attr-defined]  # whose dictionary has a version in every Python
    for places in ((1,), (-1,)):
        versions = array.array("Q", [0])
        assert holds((weakref.ref(fails), ("a",), (thing.a,), places), versions=versions)
        with pytest.raises(ValueError, match="no such place"):
            holds((weakref.ref(fails), ("a",), (thing.a,), places), versions=versions)
    for part in ((thing, ("a",), (1,), ()), (3, None, (), ()), (owner, "a", (1,), ()), (owner, ("a",), [1], ())):
        with pytest.raises(TypeError):
            holds(part)
    with pytest.raises(TypeError, match="tuple of four"):
        holds((owner, None, ()))
    with pytest.raises(ValueError, match="as many versions"):
        holds((owner, ("a",), (1,), ()), versions=array.array("Q"))
    with pytest.raises(TypeError):
        native.snapshots().holds([], array.array("Q"), equal, snapshots.WeakObject, snapshots.Members, {})
    with pytest.raises(TypeError):
        native.snapshots().holds((), b"", equal, snapshots.WeakObject, snapshots.Members, {})
    with pytest.raises(TypeError, match="stands for an object"):
        native.snapshots().holds((), array.array("Q"), equal, int, snapshots.Members, {})


def test_comparing_may_change_what_is_compared() -> None:
    thing = Thing(**{name: object() for name in "abcdef"})
    names, values = tuple(vars(thing)), tuple(object() for _ in range(6))

    def clears(one: Any, other: Any) -> bool:
        vars(thing).clear()
        return True

    assert not holds((weakref.ref(thing), names, values, ()), is_alike=clears)


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

    thing, is_as_it_was = noted(notes, a=object(), b=1000, table={"k": 1000, "l": [1]})
    b, k = thing.b, thing.table["k"]
    thing.b, thing.table["k"] = int("1000"), int("1000")
    assert all(is_as_it_was() for _ in range(3))
    assert len(asked) == 6  # equal numbers are not the same objects: no version stands for them
    thing.b, thing.table["k"] = b, k
    assert all(is_as_it_was() for _ in range(3))
    assert len(asked) == 6
    thing.table["l"].append(2)
    assert not is_as_it_was()
    thing.table["l"].pop()
    thing.table["k"] = 1
    assert not is_as_it_was()
    thing.table["k"] = k
    vars(thing)["b"] = 2
    assert not is_as_it_was()


def test_versions_change_no_answer() -> None:
    """Random changes of attributes and dictionaries, compared with and without them."""
    draw = random.Random(5)
    values: list[Any] = [object(), object(), 1000, None, [1, 2], {"a": 1, "b": [1]}, [[], [1]]]
    things = [Thing(**dict(zip("abc", draw.choices(values, k=3), strict=True))) for _ in range(3)]
    tables = [{"a": draw.choice(values), "b": draw.choice(values)} for _ in range(3)]
    around = Thing(tables=tables)

    def snapshot() -> Any:
        made = Snapshot(equal)
        for thing in things:
            made.note(thing, vars(thing))
        made.note_all(around, frozenset())
        return made

    kept = snapshot()
    is_as_it_was = kept.checker()
    first = [dict(vars(thing)) for thing in things] + [dict(table) for table in tables]
    contents = copy.deepcopy(values[4:])
    count = 0
    for _ in range(5000):
        found = is_as_it_was()
        assert found == kept.checker()()
        count += found
        place = draw.randrange(6)
        written = vars(things[place]) if place < 3 else tables[place - 3]
        kind = draw.randrange(8)
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
        elif kind == 4:
            draw.choice([values[4], values[5]["b"], values[6][1], values[6]]).append(3)
        else:
            values[4][:], values[5]["b"][:] = contents[0], contents[1]["b"]
            values[6][1][:] = contents[2][1]
            del values[6][2:]
            for one, before in zip([*map(vars, things), *tables], first, strict=True):
                one.clear()
                one.update(before)
    assert 500 < count < 4500
