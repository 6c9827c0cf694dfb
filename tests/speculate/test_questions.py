"""Objects that answer every question, or none: a mode that asks one of a user's object runs no code of its class."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from recgraph.auto import Automatic
from recgraph.coexec import Coexecuted
from recgraph.speculate import Speculated

_ASKED: collections.Counter[str] = collections.Counter()


class _Answering:
    """It has every attribute, and so every class."""

    def __getattribute__(self, name: str) -> Any:
        _ASKED[f"attribute {name}"] += 1
        return 7


class _Lacking:
    def __getattr__(self, name: str) -> Any:
        _ASKED[f"missing {name}"] += 1
        return 7


class _LackingSlots:
    __slots__ = ("value",)

    def __getattr__(self, name: str) -> Any:
        _ASKED[f"missing {name}"] += 1
        raise KeyError(name)


class _Classless:
    @property
    def __class__(self) -> Any:
        _ASKED["class"] += 1
        raise ValueError("class")


class _Posing:
    """It says that it is another class's."""

    @property
    def __class__(self) -> Any:
        _ASKED["class"] += 1
        return tf.RaggedTensor


class _Comparing:
    __hash__ = None  # type: ignore[assignment]  # Python writes it so

    def __eq__(self, other: object) -> bool:
        _ASKED["equal"] += 1
        raise ValueError("equal")


class _Sized:
    def __len__(self) -> int:
        _ASKED["length"] += 1
        raise ValueError("length")

    def __bool__(self) -> bool:
        _ASKED["truth"] += 1
        raise ValueError("truth")

    def __iter__(self) -> Any:
        _ASKED["iteration"] += 1
        raise ValueError("iteration")

    def __contains__(self, member: object) -> bool:
        _ASKED["member"] += 1
        raise ValueError("member")


class _Shown:
    def __hash__(self) -> int:
        _ASKED["hash"] += 1
        raise ValueError("hash")

    def __repr__(self) -> str:
        _ASKED["text"] += 1
        raise ValueError("text")


class _List(list[Any]):
    """Containers and numbers of the user's have methods of their own, too."""

    def __len__(self) -> int:
        _ASKED["length"] += 1
        return 3

    def __iter__(self) -> Any:
        _ASKED["iteration"] += 1
        return iter([])

    def __eq__(self, other: object) -> bool:
        _ASKED["equal"] += 1
        return True

    __hash__ = None  # type: ignore[assignment]  # Python writes it so


class _Number(int):
    def __bool__(self) -> bool:
        _ASKED["truth"] += 1
        return True

    def __eq__(self, other: object) -> bool:
        _ASKED["equal"] += 1
        return True

    def __hash__(self) -> int:
        _ASKED["hash"] += 1
        return 1


class _Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        _ASKED[f"class's {name}"] += 1
        return super().__getattribute__(name)

    def __eq__(cls, other: object) -> bool:
        _ASKED["class equal"] += 1
        return NotImplemented

    def __hash__(cls) -> int:
        _ASKED["class hash"] += 1
        return 5

    def __instancecheck__(cls, instance: object) -> bool:
        _ASKED["instance check"] += 1
        return True


class _OfMeta(metaclass=_Meta):
    pass


_KINDS = (
    _Answering, _Lacking, _LackingSlots, _Classless, _Posing, _Comparing, _Sized, _Shown, _List, _Number, _OfMeta,
)  # fmt: skip


class _Holder:
    held: Any
    other: Any


def _given(thing: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def step(x: tf.Tensor, given: Any) -> tf.Tensor:
        return x * 2.0

    return step, (thing,)


def _read(thing: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    holder = _Holder()
    holder.held = thing

    def step(x: tf.Tensor) -> tf.Tensor:
        found = holder.held
        holder.other = found
        return x * 2.0

    return step, ()


def _member(thing: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    members = [thing]

    def step(x: tf.Tensor) -> tf.Tensor:
        found = members[0]
        kept = {"k": [found]}
        return x * float(len(kept))

    return step, ()


def _passed(thing: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def same(value: Any) -> Any:
        return value

    def step(x: tf.Tensor) -> tf.Tensor:
        pair = (same(thing), x)
        return pair[1] * 2.0

    return step, ()


def _returned(thing: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def step(x: tf.Tensor) -> Any:
        return x * 2.0, thing, thing is None

    return step, ()


def _deciding(thing: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def step(x: tf.Tensor) -> Any:
        try:
            return x * 2.0 if thing else x
        except ValueError:
            return x

    return step, ()


_PLACES = (_given, _read, _member, _passed, _returned, _deciding)


def _asked(kind: type, place: Callable[..., Any], wrap: Callable[[Any], Any] | None) -> dict[str, int]:
    """What is asked of an object in some calls."""
    step, given = place(kind())
    called = step if wrap is None else wrap(step)
    _ASKED.clear()
    for _ in range(7):
        called(tf.ones([2]), *given)
    asked = dict(_ASKED)
    _ASKED.clear()
    return asked


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("number", range(len(_KINDS)))
def test_no_question_runs_code_of_the_program(number: int, place: Callable[..., Any]) -> None:
    """What eager execution asks is asked as often, and nothing else, whatever the mode."""
    kind = _KINDS[number]
    asked = _asked(kind, place, None)
    for wrap in (Speculated, Coexecuted, Automatic):
        found = _asked(kind, place, wrap)
        assert all(count <= asked.get(question, 0) for question, count in found.items()), (wrap, asked, found)
