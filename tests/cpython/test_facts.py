"""What the interpreter does not promise, as the rest relies on it."""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
from typing import Any

import pytest

import recgraph as rg
from recgraph.cpython import facts


class Written:
    """A class."""


@pytest.mark.parametrize(("kind", "expected"), [(Written, True), (list, False), (collections.deque, False)])
def test_classes_of_python_and_of_c(kind: type, expected: bool) -> None:
    """A class of C has no source, and nothing can be changed about it."""
    assert facts.is_written_in_python(kind) is expected


def test_somebody_else_has_an_object() -> None:
    """One more reference than a name of the function's own is one too many."""

    def is_held(make: Any) -> bool:
        result = make()
        return facts.references(result) > facts.OF_A_LOCAL

    kept: list[Any] = []

    def keeping() -> list[int]:
        kept.append([])
        return kept[-1]

    for around in (contextlib.nullcontext(), rg.speculation()):
        with around:  # the second one is a hook at each call of a function in Python
            assert not is_held(list)
            assert is_held(keeping)


def test_callables_of_functools() -> None:
    """They are told by their code and class."""

    @functools.singledispatch
    def one(value: Any) -> Any:
        return value

    assert getattr(one, "__code__", None) is facts.DISPATCHING
    assert type(functools.cache(len)) is facts.CACHED


def test_where_a_frame_is() -> None:
    """At the call in it, not at the whole statement."""
    line, last, column, end = facts.position(sys._getframe())
    assert (line, last) == (test_where_a_frame_is.__code__.co_firstlineno + 2,) * 2
    assert (column, end) == (30, 30 + len("facts.position(sys._getframe())"))


def test_modules_that_code_imports() -> None:
    """Those of all its statements."""
    code = compile("import random\nif found:\n  from numpy.random import default_rng", "", "exec")
    assert list(facts.imported_names(code)) == ["random", "numpy.random"]
