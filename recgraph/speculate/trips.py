"""What a loop in the graph goes through: rows of a tensor, numbers, members of a list that only the graph knows."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from recgraph.speculate import grown, iterators, residuals
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.syntax import site_of
from recgraph.speculate.values import HELD, Iteration, Residual, Rows


def rows(ev: Evaluator, iterable: Any, varies: bool = False) -> Rows | None:
    """What a loop in the graph goes through; None where the loop is unrolled.

    Args:
        ev: the conversion.
        iterable: of any kind.
        node: where it is gone through.
        varies: whether calls were seen with different numbers of rounds.
    """
    if isinstance(iterable, Rows):
        return iterable
    if isinstance(iterable, Iteration) and isinstance(iterable.members, Rows):
        return iterators.rows_of(ev, iterable)
    if (members := grown.inside(ev, iterable)) is not None:
        return grown.rows(ev, members)
    if (
        isinstance(iterable, tf.Tensor)
        and iterable.shape.rank != 0
        and (iterable.shape.rank is None or iterable.shape[0] is None)
    ):
        return Rows(tf.shape(iterable, tf.int64)[0], lambda i: iterable[i])
    if isinstance(iterable, Residual) and isinstance(iterable.example, range):
        rolled = not ev.optimizations.unrolling
        if rolled or varies or _trips_vary(ev):
            parts = [residuals.attribute(ev, iterable, part) for part in ("start", "stop", "step")]
            made = range_rows([residuals.as_tensor(ev, part) for part in parts], True)
            return _begun(ev, made, iterable) if rolled else made
    if not ev.optimizations.unrolling and isinstance(iterable, tf.Tensor | range):
        return _rolled(iterable)
    return None


def _rolled(iterable: Any) -> Rows | None:
    """What could be unrolled, for a loop in the graph."""
    is_tensor = isinstance(iterable, tf.Tensor)
    count = len(iterable) if not is_tensor else iterable.shape[0] if iterable.shape.rank else 0
    if count < 2:
        return None
    if is_tensor:
        return Rows(tf.constant(count, tf.int64), lambda i: iterable[i], True, True)
    parts = [tf.constant(part, tf.int64) for part in (iterable.start, iterable.stop, iterable.step)]
    return dataclasses.replace(range_rows(parts, True), begins=True)


def _begun(ev: Evaluator, rows: Rows, iterable: Residual) -> Rows:
    """The first round tells what the others begin with: that there is one is assumed."""
    if not iterable.example:
        return rows
    what = assumption("decision", "there is a first round", ev.where())
    ev.script.assume(f"len({iterable.name}) > 0", what)
    return dataclasses.replace(rows, begins=True)


def range_rows(parts: list[tf.Tensor], is_known: bool = False) -> Rows:
    """A `range` of numbers from the graph."""
    start, stop, step = parts
    count = tf.maximum((stop - start + step - tf.sign(step)) // step, 0)
    return Rows(count, lambda i: Residual("", tensor=start + i * step, late=True, limit=HELD), is_known)


def _trips_vary(ev: Evaluator) -> bool:
    """Whether a number of rounds that was assumed turned out to be another one."""
    return ev.profile.seen(site_of(ev.frame.syntax, ev.here, "trips"), 0).count > 0
