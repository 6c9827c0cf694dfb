"""Takes each step in one of several ways: they get ready one after another, take turns, and the fastest goes on."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from recgraph import logs
from recgraph.auto.ways import EAGER, GRAPH, WHAT, Way
from recgraph.racing import BLOCKS, AdaptiveBenchmark, are_mixed, cost_of

# Steps that a way gets to become ready; if that was not enough it is measured as it is.
MAX_WARMING = 12
# Steps of a function within which it is decided for the first time how it runs.
WITHIN = 20
# Seconds beyond those of eager steps that a way may take to become ready.
MAX_SECONDS = 10.0
# A way that is so many times as fast as the one that is preferred is taken without a look at those that are not ready.
ENOUGH = 4.0
# The ways are compared again where this many steps in a row took so many times as long as in the comparison, and so
# many seconds longer: what takes less is not worth a comparison, and a clock does not tell it from chance.
WINDOW = 16
DRIFT = 1.5
# They are, too, where steps take so many times as long as in the comparison, and as eager ones took there.
OVERTAKEN = 1.1
NOTICED = 2e-5
# So few steps say it, if each of them took so many times as long.
FEW, LARGE = 4, 4.0
# Seconds that a second thread waits for a step of the first; longer ones may wait for the second.
PATIENCE = 1.0
# And after so many eager steps, and then so many times as many, where another way could not be measured.
AGAIN, GROWTH = 64, 4
# How often they are compared.
MAX_DECISIONS = 6
# Ways that never give up, and in which several threads may take steps: once decided for, nothing has to be asked.
STEADY = (EAGER, GRAPH)
_LOG = logs.logger("auto")


@dataclasses.dataclass(frozen=True)
class Decision:
    """What a comparison showed.

    Attributes:
        way: the one that is taken from now on.
        costs: the seconds of a step, by way.
        steps: how many steps took turns.
        why: what made it necessary.
    """

    way: str
    costs: dict[str, float]
    steps: int
    why: str

    def __str__(self) -> str:
        costs = ", ".join(f"{duration(cost)} {WHAT[way]}" for way, cost in self.costs.items())
        measured = f"; time per step over {self.steps} steps taken in turn: {costs}" if costs else ""
        return f"steps run {WHAT[self.way]} ({self.why}{measured})"


class Choosing:
    """The steps of one function.

    Args:
        name: of the function.
        ready: ways that are ready: the function itself, and others.
        warming: ways that get ready by taking steps.
        then: gives the ways that are to get ready after one that is ready, or that has given up.
        preferred: the way that is taken where there is no difference.
        measured: seconds of steps that a way took just now.
        taken: steps that the function took before, of those within which it is decided.
        usual: seconds that an eager step takes at most, as far as that is known.

    Attributes:
        ways: those that can be taken, by name.
        counts: how many steps each took.
        decisions: all that were made.
        rejected: why ways gave up, by name.
        every: all ways so far.
    """

    def __init__(
        self,
        name: str,
        ready: list[Way],
        warming: list[Way] | None = None,
        then: Callable[[Way], list[Way]] = lambda way: [],
        preferred: str = EAGER,
        measured: Mapping[str, Sequence[float]] | None = None,
        taken: int = 0,
        usual: float = 0.0,
    ) -> None:
        self.name, self.preferred, self.function = name, preferred, ready[0].run
        self.ways = {way.name: way for way in ready}
        self.counts: collections.Counter[str] = collections.Counter()
        self.decisions: list[Decision] = []
        self.rejected: dict[str, str] = {}
        self.every = [*ready, *(warming or [])]
        self._warming, self._then, self._warmed = list(warming or []), then, 0
        self._left, self._usual, self._lost = WITHIN - taken, usual, 0.0
        self._contest: AdaptiveBenchmark | None = None
        self._measured = {name: list(seconds) for name, seconds in (measured or {}).items()}
        self._why = "the first comparison"
        self._recent: list[float] = []
        self._noted: tuple[AdaptiveBenchmark, str] | None = None
        self._is_mixed = False
        self._steady: Way | None = None  # which has won, and whose steps take as long as they did
        self._slow = 0.0
        self._again = 0  # the number of eager steps after which ways are compared again
        self._lock = threading.Lock()
        self._local = threading.local()
        self._thread, self._is_shared, self._alone = 0, False, threading.Lock()

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Takes a step."""
        way = self._steady
        if way is None:
            return self._watched(arguments, named)
        self.counts[way.name] += 1
        started = time.perf_counter()
        result = way.run(*arguments, **named)
        seconds = time.perf_counter() - started
        if seconds > self._slow or self.counts[way.name] == self._again:
            self._steady = None  # the next ones are looked at: this one may be chance
        return result

    def _watched(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Takes a step that is compared. One inside of another is a part of it: the function itself runs."""
        if getattr(self._local, "is_running", False):
            return self.function(*arguments, **named)
        self._note_thread()
        with self._lock:
            way = self._next()
            self.counts[way.name] += 1
        self._local.is_running = True
        started = time.perf_counter()
        try:
            with self._alone if way.is_for_one_thread else contextlib.nullcontext():
                result = way.run(*arguments, **named)
        finally:
            self._local.is_running = False
        seconds = time.perf_counter() - started
        with self._lock:
            self._took(way, seconds)
        return result

    @property
    def decision(self) -> Decision | None:
        """The one that holds; None as long as ways are compared."""
        contest = self._contest  # another thread may take a step meanwhile
        is_decided = contest is not None and contest.winner and not self._warming
        return self.decisions[-1] if self.decisions and is_decided else None

    @property
    def more(self) -> int:
        """How many more steps it takes at most to decide, as far as the ways are known."""
        contest, warming = self._contest, len(self._warming)  # another thread may take a step meanwhile
        ways = len(self.ways) + warming
        if warming or contest is None:
            contest = AdaptiveBenchmark(list(map(str, range(ways))), self._is_mixed)
        more = MAX_WARMING * warming - self._warmed + contest.more
        return more if self.decisions else min(more, max(self._left, 1))

    def _note_thread(self) -> None:
        """Where a second thread comes, ways end that are for one alone; it waits for a step that runs in one."""
        thread = threading.get_ident()
        self._thread = self._thread or thread
        if self._thread != thread and not self._is_shared:
            self._is_shared = True
            if self._alone.acquire(timeout=PATIENCE):
                self._alone.release()

    def _why_not(self, way: Way) -> str:
        """Why a way cannot be taken; "" if it can."""
        if self._is_shared and way.is_for_one_thread:
            return "the function is called from several threads"
        return way.given_up

    def _next(self) -> Way:
        """The way of the next step."""
        for way in [way for way in self.ways.values() if self._why_not(way)]:
            self._leave(way)
        while not self._has_turn():
            way = self._warming[0]
            if not self._why_not(way) and not way.is_settled and self._may_warm(way):
                self._warmed += 1
                return way
            self._warming.pop(0)
            if not (self._warmed or way.is_settled or self._why_not(way) or self._has_steps(way)):
                self._not_tried([way], f"it is decided within {WITHIN} steps")
                continue
            self._warmed, self._lost = 0, 0.0
            if not self._why_not(way):
                self.ways[way.name] = way
                self._contest = None
            self._follow(way)
        assert self._contest is not None
        return self.ways[self._contest.way]

    def _may_warm(self, way: Way) -> bool:
        """Whether a way may take one more step to become ready."""
        return self._has_steps(way) and self._warmed < MAX_WARMING and self._lost < MAX_SECONDS

    def _has_steps(self, way: Way) -> bool:
        """Whether there is a step for it, and for the first turns of it and of all that are not measured."""
        measured = self._contest.costs() if self._contest is not None else {}
        turns = BLOCKS[0] * sum(name not in measured for name in [*self.ways, way.name])
        return bool(self.decisions) or self._left > turns

    def _has_turn(self) -> bool:
        """Whether the ways that are ready take turns, or the one that has won goes on; else another gets ready.

        Those that are ready take turns for a round before others get ready, which may take long and not be worth it.
        """
        if self._contest is None:
            if len(self.ways) == 1 and self._warming:
                return False
            names = sorted(self.ways, key=lambda name: name != self.preferred)
            self._contest = AdaptiveBenchmark(names, self._is_mixed, self._measured)
        contest = self._contest
        if self._warming and not contest.winner and not contest.round:
            return True
        if self._warming and (why := self._why_not_warming(contest)):
            self._not_tried(self._warming, why)
        if self._warming:
            self._measured = contest.seconds
            return False
        self._note()
        return True

    def _why_not_warming(self, contest: AdaptiveBenchmark) -> str:
        """Why no other is to get ready: one is much faster than what is preferred, or the last one has lost, and what
        follows does the same and more. "" if they are.
        """
        fastest, last = min(contest.ways, key=contest.cost), list(self.ways)[-1]
        if ENOUGH * contest.cost(fastest) <= contest.cost(self.preferred):
            return f"running {WHAT[fastest]} is over {ENOUGH:g} times as fast"
        if last != self.preferred and contest.has_lost(last):
            return f"running {WHAT[last]} is slower than {WHAT[fastest]}"
        return ""

    def _not_tried(self, ways: list[Way], why: str) -> None:
        """Some do not get ready."""
        self.rejected.update({way.name: self._why_not(way) or f"not tried, since {why}" for way in ways})
        self._warming = [way for way in self._warming if way not in ways]

    def _follow(self, way: Way) -> None:
        """A way is ready, or has given up."""
        if why := self._why_not(way):
            self.rejected[way.name] = why
            _LOG.info("%s: not %s: %s", self.name, WHAT[way.name], why)
        following = self._then(way)
        self._warming += following
        self.every += following

    def _leave(self, way: Way) -> None:
        """A way has given up that was ready."""
        del self.ways[way.name]
        self._follow(way)
        self._why = f"running {WHAT[way.name]} is no longer possible"
        if self._warming:
            self._contest = None
        elif self._contest is not None:
            self._contest.leave(way.name)
            self._note()

    def _note(self) -> None:
        """Takes note of the decision, if the ways have been compared."""
        contest = self._contest
        if contest is None or not contest.winner or self._warming or self._noted == (contest, contest.winner):
            return
        self._noted = contest, contest.winner
        self.decisions.append(Decision(contest.winner, contest.costs(), contest.steps, self._why))
        self._recent.clear()
        self._settle(contest)
        is_unmeasured = contest.winner == EAGER and len(contest.costs()) < len(self.ways)
        self._again = self.counts[EAGER] + AGAIN * GROWTH ** (len(self.decisions) - 1) if is_unmeasured else 0
        _LOG.info("%s: %s", self.name, self.decisions[-1])

    def _settle(self, contest: AdaptiveBenchmark) -> None:
        """As long as steps take what they did, they are only timed."""
        if contest.winner in STEADY:
            self._steady, self._slow = self.ways[contest.winner], self._most(contest)

    def _took(self, way: Way, seconds: float) -> None:
        """A step was taken."""
        self._left -= 1
        contest = self._contest
        if contest is None or way.name != contest.way:
            self._lost += max(seconds - self._usual, 0.0)  # getting ready
            return
        if not contest.winner:
            if way.is_usual:
                contest.add(seconds)
            if self._left <= 0 and not self.decisions:
                self._not_tried(self._warming, f"it is decided within {WITHIN} steps")
                contest.end()
            self._note()
            return
        if 0 < self._again <= self.counts[EAGER]:
            return self._compare_again(f"after {self._again} eager steps")
        if not way.is_usual:
            return
        self._recent.append(seconds)
        before = contest.cost(way.name)
        if len(self._recent) == WINDOW or len(self._recent) == FEW and min(self._recent) > before * LARGE:
            self._is_mixed = self._is_mixed or contest.is_mixed or are_mixed(self._recent)
            self._look_back(contest, cost_of(self._recent, self._is_mixed), before)
        if len(self._recent) == WINDOW:
            self._recent.clear()

    def _look_back(self, contest: AdaptiveBenchmark, now: float, before: float) -> None:
        """Compares the ways again where steps take longer than they may."""
        if 0.0 < self._most(contest) < now:
            self._compare_again(f"steps slowed down from {duration(before)} to {duration(now)}")
        elif len(self._recent) == WINDOW:
            self._settle(contest)

    def _compare_again(self, why: str) -> None:
        """The ways take turns from the next step on, if there are several and they have not done so too often."""
        self._again = 0
        if len(self.ways) > 1 and len(self.decisions) < MAX_DECISIONS:
            self._why, self._contest, self._measured = why, None, {}
            self._recent.clear()

    def _most(self, contest: AdaptiveBenchmark) -> float:
        """The seconds that a step may take before the ways are compared again; 0 if none was measured."""
        before, eager = contest.cost(contest.winner), contest.cost(EAGER)
        most = before * DRIFT
        if eager and contest.winner != EAGER and EAGER in self.ways:
            most = min(most, max(before, eager) * OVERTAKEN)
        return max(most, before + NOTICED) if before else 0.0


def duration(seconds: float) -> str:
    """A time as text, in the unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
