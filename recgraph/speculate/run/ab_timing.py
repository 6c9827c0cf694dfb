"""A graph and another form of it that may be faster take turns until it is known which is.

Each call is run once, by one of the two, so what it does is done once. Both do the same in the same order, checks and
writes included; only numbers may be rounded differently.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from recgraph import tf_private
from recgraph.core.alternatives import Alternative
from recgraph.racing import AdaptiveBenchmark
from recgraph.speculate.passes.ordering import MARK

RunTensors: TypeAlias = Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]

# Calls, and seconds in them, after which the other form is looked for: a graph that hardly runs is not worth it.
CALLS, SECONDS = 16, 0.25
# So many contests in a row the other form has to win.
WINS = 2
_PLAIN, _OTHER = "plain", "other"


class AlternatingRunner:
    """Runs a graph, or the other form of it.

    Where a tape or an accumulator listens, the graph itself is run: the other form has no gradient.

    Args:
        concrete: the graph as a function.
        alternative: the other form.
    """

    def __init__(self, concrete: Any, alternative: Alternative) -> None:
        self._plain = tf_private.fast_call(concrete)
        self._alternative = alternative
        self._other: RunTensors | None = None
        self._contest: AdaptiveBenchmark | None = None
        self._settled: RunTensors | None = self._plain if alternative.is_better is False else None
        self._lock = threading.Lock()
        self._calls, self._seconds, self._wins = 0, 0.0, 0

    def __call__(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Runs one of them."""
        settled = self._settled
        if settled is not None:
            return self._plain(tensors) if tf_private.a_tape_is_listening() else settled(tensors)
        # What is co-executed runs later, and is told by its name: no time can be taken, and no name change with turns.
        # Who finds it busy, in another thread or in a function of Python's that the graph calls, takes no part either.
        is_left = tf_private.a_tape_is_listening() or tf_private.is_coexecuted()
        if is_left or not self._lock.acquire(blocking=False):
            return self._plain(tensors)
        try:
            return self._turn(tensors)
        finally:
            self._lock.release()

    def explain(self) -> list[str]:
        """What was done."""
        if self._contest is not None and self._settled is None:
            return [*self._alternative.lines, f"  takes turns, at most {self._contest.more} more calls of this contest"]
        if self._settled is None:
            return [f"substitutions: looked for after {CALLS} calls and {SECONDS} s in this graph"]
        return self._alternative.lines

    def _turn(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        if self._contest is None and self._is_due():
            self._begin()
            if self._settled is not None:
                return self._settled(tensors)
        is_other = self._contest is not None and self._contest.way == _OTHER
        started = time.perf_counter()
        result = self._run_other(tensors) if is_other else self._plain(tensors)
        seconds = time.perf_counter() - started
        if self._contest is None:
            self._calls += 1
            self._seconds += seconds
        else:
            self._contest.add(seconds)
            self._look(self._contest)
        return result

    def _is_due(self) -> bool:
        return bool(self._alternative.is_better) or (self._calls >= CALLS and self._seconds >= SECONDS)

    def _begin(self) -> None:
        made = self._alternative.make()
        if made is None:
            self._settled = self._plain
            return
        self._other = tf_private.fast_call(made)
        if self._alternative.is_better:
            self._settled = self._run_other
        else:
            self._contest = AdaptiveBenchmark((_PLAIN, _OTHER))

    def _run_other(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        assert self._other is not None
        try:
            return self._other(tensors)
        except Exception as error:
            # Broken assumptions fail a graph, and whoever calls. Whatever else: better to have one form of the truth.
            if MARK not in str(error) and not isinstance(error, tf_private.Interrupted):
                self._settled = self._plain
                self._alternative.lines.append(f"  no longer used, since a call failed: {type(error).__name__}")
            raise

    def _look(self, contest: AdaptiveBenchmark) -> None:
        """Decides, where the contest is over."""
        if not contest.winner:
            return
        self._wins += contest.winner == _OTHER
        if contest.winner == _OTHER and self._wins < WINS:
            self._contest = AdaptiveBenchmark((_PLAIN, _OTHER))
            return
        is_better = contest.winner == _OTHER
        self._settled = self._run_other if is_better else self._plain
        costs = contest.cost(_PLAIN), contest.cost(_OTHER)
        self._alternative.decide(is_better, *costs, is_sure=not contest.is_mixed)
