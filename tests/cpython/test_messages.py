"""Exceptions that conversions raise are those of the interpreter: class, text and attributes."""

from __future__ import annotations

import ast
import collections
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from recgraph.cpython import messages, parsing


class Slotted:
    """An object with a place for one attribute, and a method that is read-only."""

    __slots__ = ("there",)

    def method(self) -> None:
        """Is the class's."""


def _unbound_local() -> Any:
    if sys.argv is None:
        value = 1
    return value


def _unbound_free() -> Any:
    def inner() -> Any:
        return value

    if sys.argv is None:
        value = 1
    return inner()


def _grows(table: Any, add: Callable[[Any, int], Any]) -> None:
    for i in table:
        add(table, i + 100)


SLOTTED = Slotted()


@pytest.mark.parametrize(
    ("raises", "expected"),
    [
        (lambda: not_there, messages.undefined("not_there")),  # type: ignore[name-defined]  # noqa: F821
        (_unbound_local, messages.unbound_local("value")),
        (_unbound_free, messages.unbound_free("value")),
        (lambda: SLOTTED.missing, messages.no_attribute(Slotted, "missing")),  # type: ignore[attr-defined]
        (lambda: setattr(SLOTTED, "missing", 1), messages.no_place_for_attribute(SLOTTED, "missing")),
        (lambda: setattr(SLOTTED, "method", 1), messages.no_place_for_attribute(SLOTTED, "method")),
        (lambda: exec("a, b, c = [1, 2]"), messages.too_few_values(3, 2)),
        (lambda: exec("a, *b, c = [1]"), messages.too_few_values(2, 1, has_star=True)),
        (lambda: exec("a, b = [1, 2, 3]"), messages.too_many_values(2)),
        (lambda: _grows({1: 1}, lambda t, i: t.setdefault(i, i)), messages.changed_size({})),
        (lambda: _grows({1}, set.add), messages.changed_size(set())),
        (lambda: _grows(collections.deque([1]), collections.deque.append), messages.changed_size(collections.deque())),
        (lambda: [1].index(2), messages.not_in_sequence([1], 2)),
        (lambda: (1,).index(2), messages.not_in_sequence((1,), 2)),
        (lambda: [1].remove(2), messages.nothing_to_remove()),
    ],
)
def test_an_exception_is_the_interpreters(raises: Callable[[], Any], expected: Exception) -> None:
    """A program that prints what it catches would notice another text."""
    with pytest.raises(type(expected)) as found:
        raises()
    assert type(found.value) is type(expected)
    assert str(found.value) == str(expected)
    assert getattr(found.value, "name", None) in (None, getattr(expected, "name", None))


def test_many_threads_parse_at_once() -> None:
    """CPython 3.11 fails where they do without a lock."""
    text, failed = "x = " + "(" * 60 + "1" + ")" * 60, []

    def parse() -> None:
        try:
            for _ in range(50):
                assert isinstance(parsing.parse(text), ast.Module)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=parse) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
