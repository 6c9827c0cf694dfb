"""Lists of data that a call looks into here and there: no more is read of them than what the program asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.speculate import Speculated

_LENGTH = 20_000


class _Loader:
    """Batches of texts, as tutorials have them."""

    def __init__(self) -> None:
        self.text = [i * i % 97 for i in range(_LENGTH)]
        self.places = (0, 5, 17)

    def batch(self, size: int) -> Any:
        sequences, following = [], []
        for _ in range(size):
            i = np.random.randint(0, len(self.text) - 6)
            sequences.append(self.text[i : i + 5])
            following.append(self.text[i + 5])
        return np.array(sequences), np.array(following)


def _compared(step: Callable[..., Any], before: Callable[[int], None], calls: int) -> Speculated:
    """The function after calls that gave what eager calls give; `before` may change something before each."""
    speculated = Speculated(step, strict=True)
    for i in range(calls):
        before(i)
        found = []
        for called in (speculated, step):
            np.random.seed(i)
            found.append(called())
        assert tf.nest.map_structure(type, found[0]) == tf.nest.map_structure(type, found[1])
        tf.nest.map_structure(np.testing.assert_array_equal, *found)
    return speculated


def test_batches_of_a_long_text() -> None:
    """Few lines of the script, whatever the length; what is appended later is found."""
    loader = _Loader()

    def step() -> Any:
        x, y = loader.batch(3)
        return tf.reduce_sum(tf.constant(x), 1) + tf.constant(y), len(loader.text), x[0, 0]

    def grow(i: int) -> None:
        if i > 8:
            loader.text.append(1000 + i)

    speculated = _compared(step, grow, 16)
    assert speculated.calls["graph"] >= 9, speculated.explain()
    assert all(len(graph.assumptions) < 200 for graph in speculated._graphs), speculated.explain()


def test_parts_that_are_known() -> None:
    """The members of a fixed slice are what the graph was made for, and no others."""
    loader = _Loader()

    def step() -> Any:
        x = tf.constant(loader.text[2:9]) + len(loader.text[-3:])
        return x, loader.text[-2:], loader.places[1:], loader.text[::10_000], loader.text[5:2]

    def change(i: int) -> None:
        if i == 5:
            loader.text[100] = -1  # nobody looks at it
        if i in (7, 9):
            loader.text[3] += i
        if i == 11:
            loader.text.insert(0, 4)

    speculated = _compared(step, change, 14)
    assert speculated.calls["graph"] >= 7, speculated.explain()
    assert all(len(graph.assumptions) < 100 for graph in speculated._graphs), speculated.explain()


def test_a_part_is_another_list() -> None:
    """What is done to it does not reach the list, nor the other way round."""
    text = list(range(50))

    def step() -> Any:
        i = np.random.randint(0, 40)
        part, first = text[i : i + 3], text[:2]
        first.append(7)
        text[0] = text[0] + 1
        text.append(i)
        return tf.constant(np.array(part)), first, text[0], len(text), text[:1], sum(part)

    kept = list(text)
    seen = []
    for called in (step, Speculated(step)):
        text[:] = kept
        np.random.seed(0)
        seen.append([(*called(), list(text)) for _ in range(9)])
    tf.nest.map_structure(np.testing.assert_array_equal, *seen)


@pytest.mark.parametrize("members", [[1, 2.5, "a", None, True, b"c"], [[1], [2]] * 3, [tf.ones([])] * 6])
def test_parts_of_anything(members: list[Any]) -> None:
    """Whatever the members are, the part has them: other lists are taken for what they are."""

    def step() -> Any:
        i = np.random.randint(0, 4)
        part = members[i : i + 2]
        return len(part), [member is members[i] for member in part], type(part)

    _compared_loosely(step, 10)


def test_members_that_become_others() -> None:
    """A list of numbers that has had a list put into it."""
    members: list[Any] = list(range(8))

    def step() -> Any:
        i = np.random.randint(0, 6)
        return members[i : i + 2], tf.constant(i)

    speculated = Speculated(step)
    for i in range(12):
        if i == 6:
            members[3] = [1]
        found = []
        for called in (speculated, step):
            np.random.seed(i)
            found.append(called()[0])
        assert found[0] == found[1]
        assert all(one is other for one, other in zip(*found, strict=True) if isinstance(one, list))
    assert speculated.calls["graph"] > 0, speculated.explain()


def _compared_loosely(step: Callable[..., Any], calls: int) -> None:
    speculated = Speculated(step)
    for i in range(calls):
        found = []
        for called in (speculated, step):
            np.random.seed(i)
            found.append(called())
        assert found[0] == found[1]


_TEXT = [i * i % 7 for i in range(100)]


def _printed_before(x: tf.Tensor, row: np.ndarray) -> Any:
    part = _TEXT[int(row[0]) : int(row[0]) + 3]
    print(part, float(x))
    part.append(5)
    return part


def _on_one_way(x: tf.Tensor, row: np.ndarray) -> Any:
    members = row.tolist()
    if x > 0:
        members.append(5)
    return members, tf.constant(np.array(members))


def _in_a_loop(x: tf.Tensor, row: np.ndarray) -> Any:
    members = row.tolist()
    while x < 3:
        members.append(5)
        x = x + 1
    return members, x


def _in_rounds(x: tf.Tensor, row: np.ndarray) -> Any:
    part = _TEXT[int(row[0]) : int(row[0]) + 2]
    for _ in tf.range(tf.cast(tf.abs(x), tf.int32) + 1):
        part.append(1)
    return part


def _as_it_comes(x: tf.Tensor, row: np.ndarray) -> Any:
    part = _TEXT[int(row[0]) : int(row[0]) + 3]
    other = part[:2]
    other += [9]
    while len(part) > 1:
        part.pop()
    return part, other, _TEXT[int(row[0]) :][:2], f"{part}", bool(part), x


@pytest.mark.parametrize("step", [_printed_before, _on_one_way, _in_a_loop, _in_rounds, _as_it_comes])
def test_a_list_that_the_script_changes(step: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    """It is changed as often as eagerly, and after what was done with it before."""
    seen = []
    for called in (step, Speculated(step)):
        found = []
        for i in range(14):
            row = np.random.default_rng(i).integers(0, 9, 4)
            found.append((called(tf.constant(float((-1) ** i)), row), capsys.readouterr().out))
        seen.append(found)
    for mine, theirs in zip(*seen, strict=True):
        assert mine[1] == theirs[1]
        tf.nest.map_structure(np.testing.assert_array_equal, mine[0], theirs[0])
