"""Iterators: what `for`, `next` and the functions of `itertools` take their members from, one after the other.

An iterator of the program is an iterator of ours over values of the conversion: its next member is converted when the
program asks for it, in the order in which eager execution would do it.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from recgraph.speculate import calls, containers, generators, grown, protocols
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.reasons import Raised, matches
from recgraph.speculate.values import Iteration, Rows, has_run


def made(ev: Evaluator, members: Iterable[Any] | Rows) -> Iteration:
    """An iterator that the program has made."""
    return Iteration(members if isinstance(members, Rows) else iter(members), ev.heap.forks)


def of(ev: Evaluator, value: Any) -> Iterator[Any]:
    """The members of a value, each as late as the program gets it."""
    if isinstance(value, Iteration):
        _check_forks(ev, value)
        if isinstance(value.members, Rows):
            raise grown.refuse(ev, "as many members as the graph says")
        return value.members
    if isinstance(value, generators.Generator):
        return iter(generators.expanded(ev, value))
    if protocols.is_object(value):
        return of(ev, begun(ev, value))
    whole = containers.opened(ev, value)
    members = containers.iterate(ev, value)
    if isinstance(whole, list):
        return _of_list(ev, whole)
    if isinstance(whole, dict | set):
        return _of_table(ev, whole, members)
    return iter(members)


def _check_forks(ev: Evaluator, value: Iteration) -> None:
    if value.forks != ev.heap.forks:
        raise ev.refuse("iterator", "a tensor decides whether an iterator goes on")


def rows_of(ev: Evaluator, value: Iteration) -> Rows:
    """The members of an iterator of which only the graph knows how many there are; it has no more after that."""
    _check_forks(ev, value)
    found, value.members = value.members, iter(())
    assert isinstance(found, Rows)
    grown.check_sources(ev, found)
    return found


def begun(ev: Evaluator, value: Any) -> Any:
    """What `iter` gives: for an object of the user's by its methods `__iter__` and `__next__`, or `__getitem__`."""
    if not protocols.is_object(value):
        return value
    begin, item = (protocols.method(ev, type(value), name) for name in ("__iter__", "__getitem__"))
    if begin is not None:
        found = calls.call(ev, begin, [value], {})
        following = protocols.method(ev, type(found), "__next__") if protocols.is_object(found) else None
        if following is None:
            return begun(ev, found)
        return made(ev, _until(ev, StopIteration, lambda i: calls.call(ev, following, [found], {}), ev.here))
    if item is None:
        raise ev.refuse("iterator", f"a {type(value).__name__} is gone through")
    return made(ev, _until(ev, IndexError, lambda i: calls.call(ev, item, [value, i], {}), ev.here))


def _until(ev: Evaluator, end: type, member: Callable[[int], Any], node: ast.AST) -> Iterator[Any]:
    for i in range(containers.UNROLL):
        ev.handlers += 1
        try:
            with ev.at(node):
                found = member(i)
        except Raised as raised:
            if not matches(raised.error, end):
                raise
            return
        finally:
            ev.handlers -= 1
        yield found
    raise ev.refuse("trips", f"more than {containers.UNROLL} members of an iterator")


def _of_list(ev: Evaluator, members: list[Any]) -> Iterator[Any]:
    """A list may grow and shrink meanwhile."""
    for i in itertools.count():
        if has_run(members):
            raise grown.refuse(ev, "a list becomes longer while a loop goes through it")
        if i >= len(members):
            return
        if i >= containers.UNROLL:
            raise ev.refuse("trips", f"a loop of more than {containers.UNROLL} rounds is not unrolled")
        yield members[i]


def _of_table(ev: Evaluator, table: Any, members: list[Any]) -> Iterator[Any]:
    for member in members:
        if len(table) != len(members):
            raise ev.raised(RuntimeError(f"{_name(table)} changed size during iteration"))
        yield member
    if len(table) != len(members):
        raise ev.raised(RuntimeError(f"{_name(table)} changed size during iteration"))


def _name(table: Any) -> str:
    return "Set" if isinstance(table, set) else "dictionary"


def collected(ev: Evaluator, members: Iterator[Any]) -> list[Any]:
    """All that is left of an iterator."""
    found = list(itertools.islice(members, containers.UNROLL + 1))
    if len(found) > containers.UNROLL:
        raise ev.refuse("trips", f"more than {containers.UNROLL} members of an iterator")
    return found
