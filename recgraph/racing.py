"""Which of several ways to take steps is the fastest: measured while they take turns; no step is taken twice."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

# Steps that one way takes before it is another's turn, round by round. The first is not measured: it pays for the
# change. The lengths differ, so that what is done in every fourth step is not always in the first, or in another's.
BLOCKS = (3, 4, 5, 4)
# After the first round, and after each later one, a way leaves that takes so many times as long as the fastest.
HOPELESS = (1.5, 1.2, 1.1)
# Steps that say enough of a way for the first round.
FEW = 2
# Steps that say enough where all of one way take longer than all of another.
MANY = 5
# A way is preferred to those before it if it takes this part of their time at most.
MARGIN = 0.97
# The same where it has to be decided by fewer steps than say enough: what is preferred stays.
UNSURE = 0.9
# A step that takes so many times as long as the median is of another kind. Where several are, kinds come in turn.
SLOW = 3.0
SEVERAL = 2


def are_mixed(seconds: Sequence[float]) -> bool:
    """Whether steps are of several kinds, of which some take much longer; a single one may be chance."""
    return bool(seconds) and sum(one > SLOW * statistics.median(seconds) for one in seconds) >= SEVERAL


def cost_of(seconds: Sequence[float], mixed: bool) -> float:
    """The seconds of a step: the mean where kinds of steps differ, else the median; 0 if there are none."""
    return (statistics.fmean if mixed else statistics.median)(seconds) if seconds else 0.0


class AdaptiveBenchmark:
    """Ways that take turns.

    Args:
        ways: their names, the one that is preferred where there is no difference first.
        is_mixed: whether steps are known to be of several kinds.
        measured: seconds of steps that some of them took just now, in place of their turns in the first round.

    Attributes:
        ways: those that can be taken.
        seconds: of the steps that were measured, by way.
        steps: how many steps took turns.
        winner: the way that was found to be the best; "" as long as it lasts.
        round: how many rounds are over.
        is_mixed: whether steps are of several kinds: then all time counts, and each way gets twice as many turns.
    """

    def __init__(
        self, ways: Sequence[str], is_mixed: bool = False, measured: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        self.ways, self.is_mixed = list(ways), is_mixed
        self.steps = 0
        self.winner = ways[0] if len(ways) == 1 else ""
        self.seconds = {way: list((measured or {}).get(way, ())) for way in ways}
        self._turns = list(ways)  # those that are not hopeless
        self._turn, self._in_block, self.round = 0, 0, 0
        if not self.winner:
            self._begin_turn()

    @property
    def way(self) -> str:
        """Whose turn it is."""
        return self.winner or self._turns[self._turn]

    @property
    def more(self) -> int:
        """How many more steps take turns at most."""
        if self.winner:
            return 0
        left = [BLOCKS[number % len(BLOCKS)] for number in range(self.round, self._rounds)]
        return len(self._turns) * sum(left) - self._turn * left[0] - self._in_block

    @property
    def _rounds(self) -> int:
        return len(BLOCKS) * (2 if self.is_mixed else 1)

    def add(self, seconds: float) -> None:
        """A step was taken by the way whose turn it is."""
        if self.winner:
            return
        self.steps += 1
        if self._in_block > 0:
            self.seconds[self.way].append(seconds)
        self._in_block += 1
        if self._in_block == BLOCKS[self.round % len(BLOCKS)]:
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

    def end(self) -> None:
        """Decides now, by the steps that were measured."""
        if self.winner:
            return
        measured = [way for way in self._turns if self.seconds[way]]
        fewest = min((len(self.seconds[way]) for way in measured), default=0)
        self._decide(measured or self.ways[:1], MARGIN if fewest >= MANY else UNSURE)

    def has_lost(self, way: str) -> bool:
        """Whether a way takes no more turns, or will not go on."""
        return way not in self._turns or self.winner not in ("", way)

    def cost(self, way: str) -> float:
        """The seconds of a step; 0 if none was measured."""
        return cost_of(self.seconds.get(way, []), self.is_mixed)

    def costs(self) -> dict[str, float]:
        """Returns the same of all ways that were measured."""
        return {way: self.cost(way) for way, seconds in self.seconds.items() if seconds}

    def _begin_turn(self) -> None:
        self._in_block = 0
        while self.round == 0 and self._turn < len(self._turns) and len(self.seconds[self.way]) >= FEW:
            self._turn += 1
        if self._turn < len(self._turns):
            return
        self._turn, self.round = 0, self.round + 1
        self.is_mixed = self.is_mixed or any(map(are_mixed, self.seconds.values()))
        if self.round < self._rounds and not (self.is_mixed and self.round < len(BLOCKS)):
            times = HOPELESS[min(self.round, len(HOPELESS)) - 1]
            self._turns = [way for way in self._turns if not self._is_hopeless(way, times) and not self._is_beaten(way)]
        if len(self._turns) == 1 or self.round == self._rounds:
            self._decide(self._turns)

    def _is_beaten(self, way: str) -> bool:
        """Whether each step of a way took longer than any of another; of so many that this is no chance."""
        mine = self.seconds[way]
        if self.is_mixed or len(mine) < MANY:
            return False
        others = (self.seconds[other] for other in self._turns if other != way)
        return any(len(theirs) >= MANY and max(theirs) < min(mine) * MARGIN for theirs in others)

    def _is_hopeless(self, way: str, times: float) -> bool:
        """Whether a way is slower than another both in its fastest step, since single slow ones come by chance, and on
        the whole, since steps of one kind may be faster and others slower.
        """
        fastest = {other: min(self.seconds[other], default=0.0) for other in self._turns}
        better = [other for other in self._turns if times * fastest[other] < fastest[way]]
        return any(self.cost(other) < self.cost(way) for other in better)

    def _decide(self, ways: list[str], margin: float = MARGIN) -> None:
        best = ways[0]
        for way in ways[1:]:
            if self.cost(way) < margin * self.cost(best):
                best = way
        self.winner = best
