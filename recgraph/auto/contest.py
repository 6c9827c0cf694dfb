"""Which of several ways to take steps is the fastest: measured while they take turns; no step is taken twice."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

# Steps that one way takes before it is another's turn. The first is not measured: it pays for the change.
BLOCK = 4
# Turns of each way.
ROUNDS = 4
# After this many rounds a way leaves that takes so many times as long as the fastest.
EARLY_ROUNDS = 2
HOPELESS = 1.3
# A way is preferred to those before it if it takes this part of their time at most.
MARGIN = 0.97


class Contest:
    """Ways that take turns.

    Args:
        ways: their names, the one that is preferred where there is no difference first.

    Attributes:
        ways: those that can be taken.
        steps: how many steps took turns.
        winner: the way that was found to be the best; "" as long as it lasts.
    """

    def __init__(self, ways: Sequence[str]) -> None:
        self.ways = list(ways)
        self.steps = 0
        self.winner = ways[0] if len(ways) == 1 else ""
        self._seconds: dict[str, list[float]] = {way: [] for way in ways}
        self._turns = list(ways)  # those that are not hopeless
        self._turn, self._in_block, self._round = 0, 0, 0

    @property
    def way(self) -> str:
        """Whose turn it is."""
        return self.winner or self._turns[self._turn]

    def add(self, seconds: float) -> None:
        """A step was taken by the way whose turn it is."""
        if self.winner:
            return
        self.steps += 1
        if self._in_block > 0:
            self._seconds[self.way].append(seconds)
        self._in_block += 1
        if self._in_block == BLOCK:
            self._turn += 1
            self._begin_turn()

    def leave(self, way: str) -> None:
        """A way cannot be taken any more."""
        if way not in self.ways:
            return
        self.ways.remove(way)
        if self.winner:
            if self.winner == way:
                self._decide(self.ways)
        elif way in self._turns:
            place = self._turns.index(way)
            self._turns.remove(way)
            if place < self._turn:
                self._turn -= 1
            elif place == self._turn:
                self._begin_turn()
        if len(self._turns) == 1 and not self.winner:
            self._decide(self._turns)

    def cost(self, way: str) -> float:
        """The seconds of a step, the median of those measured; 0 if there are none."""
        seconds = self._seconds.get(way)
        return statistics.median(seconds) if seconds else 0.0

    def costs(self) -> dict[str, float]:
        """The same of all ways that were measured."""
        return {way: statistics.median(seconds) for way, seconds in self._seconds.items() if seconds}

    def _begin_turn(self) -> None:
        self._in_block = 0
        if self._turn < len(self._turns):
            return
        self._turn, self._round = 0, self._round + 1
        if self._round >= EARLY_ROUNDS:
            best = {way: min(self._seconds[way], default=0.0) for way in self._turns}  # single slow steps would count
            self._turns = [way for way in self._turns if best[way] <= HOPELESS * min(best.values())]
        if len(self._turns) == 1 or self._round == ROUNDS:
            self._decide(self._turns)

    def _decide(self, ways: list[str]) -> None:
        best = ways[0]
        for way in ways[1:]:
            if self.cost(way) < MARGIN * self.cost(best):
                best = way
        self.winner = best
