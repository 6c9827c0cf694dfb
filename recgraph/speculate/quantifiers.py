"""`any` and `all`: they ask for no member after the one that decides, which the program may notice.

Where nothing that the members do can be noticed, all are found and joined. Else each has the following ones on one of
its ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from recgraph.speculate import branches, iterators, state
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.reasons import Again, Inconvertible, Raised
from recgraph.speculate.special import SPECIAL, Arguments, Special
from recgraph.speculate.values import Residual


def _quantifier(wanted: bool) -> Special:
    """`any` looks for what is true, `all` for what is false."""

    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        place = ("members", ev.place_of())
        members = iterators.of(ev, arguments[0])
        if place in ev.paths:
            return _one_by_one(ev, members, wanted)
        return _together(ev, members, wanted, place)

    return convert


def _together(ev: Evaluator, members: Iterator[Any], wanted: bool, place: Any) -> Any:
    """All members, also those after one of which only the graph knows whether it decides.

    Raises:
        Again: they do something that would be noticed.
    """
    truths: list[tf.Tensor] = []
    before: tuple[state.State, int] | None = None
    try:
        for member in members:
            decided = ev.decide(member)
            if decided is wanted:
                truths += [tf.constant(wanted)] if truths else []
                break
            if isinstance(decided, tf.Tensor):
                truths.append(decided)
                before = before or (state.State(ev), ev.graph.draws)
        else:
            decided = not wanted
    except Raised:
        if before is not None:
            raise Again({place}) from None
        raise
    if before is None:
        return decided
    if _has_changed(ev, *before):
        raise Again({place})
    reduce = tf.reduce_any if wanted else tf.reduce_all
    return Residual("", tensor=reduce(tf.stack(truths)), late=True)


def _has_changed(ev: Evaluator, before: state.State, draws: int) -> bool:
    try:
        return ev.graph.draws != draws or bool(before.changes())
    except Inconvertible:  # what could not be merged after a branch
        return True


def _one_by_one(ev: Evaluator, members: Iterator[Any], wanted: bool) -> Any:
    for member in members:
        decided = ev.decide(member)
        if decided is wanted:
            return wanted
        if isinstance(decided, tf.Tensor):
            rest = _once(ev, lambda: _one_by_one(ev, members, wanted))
            ways = [rest, lambda: wanted]
            return branches.choose(ev, decided, ways[wanted], ways[not wanted])
    return not wanted


def _once(ev: Evaluator, thunk: Callable[[], Any]) -> Callable[[], Any]:
    """A thunk that uses up an iterator."""
    runs: list[None] = []

    def run() -> Any:
        if runs:
            raise ev.refuse("iterator", "a tensor decides how far an iterator goes")
        runs.append(None)
        return thunk()

    return run


SPECIAL.update({any: _quantifier(True), all: _quantifier(False)})
