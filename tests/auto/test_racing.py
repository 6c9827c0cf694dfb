"""Taking turns, measuring, deciding: with invented times, no step is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recgraph.auto import choosing
from recgraph.auto.choosing import Choosing
from recgraph.racing import BLOCKS, AdaptiveBenchmark


def held(seconds: dict[str, Callable[[int], float] | float]) -> tuple[AdaptiveBenchmark, list[str]]:
    """A contest to its end, with what each way takes at a step, and whose turn each step was."""
    made, turns = AdaptiveBenchmark(list(seconds)), []
    while not made.winner:
        turns.append(made.way)
        given = seconds[made.way]
        made.add(given(made.steps) if callable(given) else given)
    return made, turns


def test_the_fastest_wins_and_takes_turns_with_the_others() -> None:
    """By all its turns, as long as their steps differ more from each other than the ways do."""
    noisy = lambda factor: lambda step: factor * (1.0 + step % 3 / 10)  # noqa: E731
    made, turns = held({"eager": noisy(1.0), "callees": noisy(0.95), "coexec": noisy(0.98)})
    assert made.winner == "callees"
    assert turns[: 2 * BLOCKS[0]] == ["eager"] * BLOCKS[0] + ["callees"] * BLOCKS[0]
    assert len(turns) == 3 * sum(BLOCKS)
    assert made.costs()["callees"] < made.costs()["coexec"]


def test_what_is_slower_in_every_step_leaves_after_two_rounds() -> None:
    """Five steps of each that do not overlap are no chance; where they are mixed they tell nothing."""
    made, turns = held({"eager": 1.0, "callees": 1.05})
    assert (made.winner, len(turns)) == ("eager", 2 * (BLOCKS[0] + BLOCKS[1]))
    assert made.costs() == {"eager": 1.0, "callees": 1.05}


def test_what_was_measured_already_is_not_measured_again() -> None:
    """The graph ran a few times before it is compared: where it is much faster, three eager steps are enough."""
    made = AdaptiveBenchmark(["graph", "eager"], measured={"graph": [0.5, 0.5, 0.6]})
    for left in (3, 2, 1):
        assert (made.way, made.more) == ("eager", left + 2 * sum(BLOCKS[1:]))
        made.add(1.0)
    assert (made.winner, made.more) == ("graph", 0)


def test_a_small_difference_is_none() -> None:
    """The way that is preferred stays."""
    assert held({"eager": 1.0, "coexec": 0.98})[0].winner == "eager"


def test_a_drift_of_the_machine_changes_nothing() -> None:
    """Everything becomes slower and slower; the ways are compared within the same time."""
    drifting = lambda factor: lambda step: factor * (1.0 + step / 20)  # noqa: E731
    assert held({"eager": drifting(1.0), "coexec": drifting(0.8)})[0].winner == "coexec"


def test_outliers_and_first_steps_do_not_count() -> None:
    """One step may take as long as it will, and the first of a block always pays for the change."""
    made, measured = AdaptiveBenchmark(["eager", "coexec"]), 0
    while not made.winner:
        is_first = made._in_block == 0
        measured += made.way == "coexec" and not is_first
        made.add(1.0 if made.way == "eager" else 9.0 if is_first or measured == 3 else 0.6)
    assert made.winner == "coexec"


def test_what_is_hopeless_leaves_early() -> None:
    """One round for a way that takes ten times as long, two for one that takes a quarter longer."""
    made, turns = held({"eager": 1.0, "coexec": 10.0, "callees": 0.9})
    assert made.winner == "callees"
    assert turns.count("coexec") == BLOCKS[0]
    _, turns = held({"eager": 0.95, "coexec": 1.15, "callees": 0.9})
    assert turns.count("coexec") == BLOCKS[0] + BLOCKS[1]


@pytest.mark.parametrize("leaving", ["eager", "callees", "coexec"])
@pytest.mark.parametrize("after", range(0, 3 * sum(BLOCKS), 3))
def test_a_way_may_leave_at_any_time(leaving: str, after: int) -> None:
    """The others go on, and one of them wins."""
    seconds = {"eager": 1.0, "callees": 0.8, "coexec": 0.6}
    made = AdaptiveBenchmark(list(seconds))
    for _ in range(after):
        made.add(seconds[made.way])
    made.leave(leaving)
    assert made.way != leaving
    while not made.winner:
        made.add(seconds[made.way])
    assert made.winner == ("callees" if leaving == "coexec" else "coexec")


class _Way:
    """A way whose steps take an invented time."""

    is_usual = True
    is_for_one_thread = False

    def __init__(self, name: str, clock: list[float], seconds: float, ready_after: int = 0) -> None:
        self.name, self.seconds, self.given_up, self.runs = name, seconds, "", 0
        self._clock, self._ready_after = clock, ready_after

    def run(self, *_: Any) -> str:
        self.runs += 1
        self._clock[0] += self.seconds
        return self.name

    @property
    def is_settled(self) -> bool:
        return self.runs >= self._ready_after

    def explanations(self) -> list[Any]:
        return []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as it is told to `Choosing`."""
    now = [0.0]
    monkeypatch.setattr(choosing.time, "perf_counter", lambda: now[0])
    return now


def test_ways_get_ready_before_they_are_compared(clock: list[float]) -> None:
    """A way that needs steps to become fast is not measured meanwhile."""
    eager, coexec = _Way("eager", clock, 1.0), _Way("coexec", clock, 0.5, ready_after=7)
    steps = Choosing("f", [eager], [coexec])
    ways = [steps.run() for _ in range(60)]
    assert ways[:7] == ["coexec"] * 7
    assert ways[7 : 7 + 2 * BLOCKS[0]] == ["eager"] * BLOCKS[0] + ["coexec"] * BLOCKS[0]
    assert ways[-20:] == ["coexec"] * 20
    assert str(steps.decision).startswith("steps run co-executed (the first comparison; time per step over ")
    assert "1 s eagerly, 500 ms co-executed" in str(steps.decision)


def test_a_way_that_is_fast_enough_is_not_kept_waiting(clock: list[float]) -> None:
    """Others would have to get ready first, at the speed that they have meanwhile."""
    eager, callees, coexec = (_Way(n, clock, s, 5) for n, s in (("eager", 1.0), ("callees", 0.2), ("coexec", 0.1)))
    steps = Choosing("f", [eager], [callees], lambda way: [coexec] if way is callees else [])
    left = []
    while steps.decision is None:
        left.append(steps.more)
        steps.run()
    assert steps.decision.way == "callees"
    assert (len(left), coexec.runs) == (5 + 2 * BLOCKS[0] + 1, 0)  # the first that it is taken for
    assert all(more >= len(left) - taken for taken, more in enumerate(left))
    assert "not tried, since running eagerly with callees as graphs is over 4 times" in steps.rejected["coexec"]


def test_a_way_that_is_not_fast_enough_waits_for_the_others(clock: list[float]) -> None:
    """What was measured of those that were ready is not measured again."""
    eager, callees, coexec = (_Way(n, clock, s, 5) for n, s in (("eager", 1.0), ("callees", 0.5), ("coexec", 0.3)))
    steps = Choosing("f", [eager], [callees], lambda way: [coexec] if way is callees else [])
    ways = [steps.run() for _ in range(30)]
    turns = [["callees"] * 5, ["eager"] * 3, ["callees"] * 3, ["coexec"] * 5, ["coexec"] * 3]
    assert ways[:19] == [way for turn in turns for way in turn]
    assert set(ways[19:]) == {"coexec"}


def test_a_way_that_gives_up_is_left_and_named(clock: list[float]) -> None:
    """Also after it has won: the next best goes on."""
    eager, callees, coexec = (_Way(n, clock, s) for n, s in (("eager", 1.0), ("callees", 0.8), ("coexec", 0.5)))
    steps = Choosing("f", [eager, callees, coexec])
    while steps.decision is None:
        steps.run()
    assert steps.decision.way == "coexec"
    coexec.given_up = "steps left the graph 33 times"
    assert steps.run() == "callees"
    assert steps.rejected == {"coexec": "steps left the graph 33 times"}
    assert [decision.way for decision in steps.decisions] == ["coexec", "callees"]


def test_ways_are_compared_again_when_steps_become_slower(clock: list[float]) -> None:
    """As often as the limit says, and no more."""
    eager, coexec = _Way("eager", clock, 1.0), _Way("coexec", clock, 0.5)
    steps = Choosing("f", [eager, coexec])
    for _ in range(100):
        steps.run()
    coexec.seconds = 2.0
    for _ in range(100):
        steps.run()
    assert [decision.way for decision in steps.decisions] == ["coexec", "eager"]
    assert "steps slowed down from 500 ms to 2 s" in str(steps.decisions[-1])


@pytest.mark.parametrize("period", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("first", range(6))
def test_the_whole_time_counts_where_steps_differ(clock: list[float], period: int, first: int) -> None:
    """A program that trains in one step of several: there the graph is twenty times as fast, in others slower."""
    eager, graph = _Way("eager", clock, 1.0), _Way("graph", clock, 1.4)
    steps = Choosing("f", [eager, graph])
    for i in range(first, first + 200):
        trains = i % period == 0
        eager.seconds, graph.seconds = (40.0, 2.0) if trains else (1.0, 1.4)
        steps.run()
    assert steps.decision is not None
    assert steps.decision.way == "graph"


def test_a_step_inside_of_a_step_is_a_part_of_it(clock: list[float]) -> None:
    """It runs as the function is written."""
    eager, coexec = _Way("eager", clock, 1.0), _Way("coexec", clock, 0.5)
    steps = Choosing("f", [eager, coexec])
    coexec.run = lambda: steps.run()  # type: ignore[method-assign]
    assert [steps.run() for _ in range(6)] == ["eager"] * 6


def test_a_nearly_empty_step_is_not_compared_again_by_chance(clock: list[float]) -> None:
    """A clock does not tell one microsecond from two, and the machine now and then takes a step's thread away."""
    eager, graph = _Way("eager", clock, 1e-6), _Way("graph", clock, 2e-5)
    steps = Choosing("f", [eager, graph])
    for i in range(2000):
        eager.seconds = 4e-3 if i % 100 == 50 else 3e-6 if i // 100 % 2 else 1e-6
        steps.run()
    assert [decision.way for decision in steps.decisions] == ["eager"]
    assert graph.runs < 5


def test_a_step_that_begins_to_compute_is_compared_at_once(clock: list[float]) -> None:
    """An agent whose memory is full, for instance; where the same way wins again and again, comparisons end."""
    eager, graph = _Way("eager", clock, 1e-6), _Way("graph", clock, 2e-5)
    steps = Choosing("f", [eager, graph])
    for _ in range(100):
        steps.run()
    eager.seconds, graph.seconds = 4e-2, 1e-2
    ways = [steps.run() for _ in range(40)]
    assert ways.index("graph") <= 10
    assert set(ways[-20:]) == {"graph"}
    for _ in range(1000):
        graph.seconds, eager.seconds = graph.seconds * 1.02, eager.seconds * 1.02
        steps.run()
    assert len(steps.decisions) == choosing.MAX_DECISIONS


@pytest.mark.parametrize("ready_after", [3, 5, 9, 1000])
@pytest.mark.parametrize("seconds", [0.3, 0.97, 1.0, 1.05, 7.0])
@pytest.mark.parametrize("taken", [0, 4, 10])
def test_it_is_decided_within_twenty_steps(clock: list[float], ready_after: int, seconds: float, taken: int) -> None:
    """Ways that never get ready, and such as are nearly equal, are decided about by what was measured."""
    names = ("eager", 1.0), ("callees", seconds), ("coexec+callees", 1.1 * seconds)
    eager, callees, coexec = (_Way(name, clock, its, ready_after) for name, its in names)
    steps = Choosing("f", [eager], [callees], lambda way: [coexec] if way is callees else [], taken=taken, usual=1.0)
    for step in range(taken, choosing.WITHIN):
        if steps.decision is not None:
            break
        assert steps.more <= choosing.WITHIN - step
        steps.run()
    assert steps.decision is not None
    assert steps.decision.way == ("callees" if seconds < 0.9 else "eager") or seconds == 0.97


def test_what_follows_a_way_that_lost_is_not_tried(clock: list[float]) -> None:
    """Co-execution with callees as graphs does what these do, and more."""
    eager, callees, coexec = (_Way(n, clock, s, 3) for n, s in (("eager", 1.0), ("callees", 2.0), ("coexec", 0.5)))
    steps = Choosing("f", [eager], [callees], lambda way: [coexec] if way is callees else [])
    while steps.decision is None:
        steps.run()
    assert (steps.decision.way, coexec.runs) == ("eager", 0)
    assert steps.rejected["coexec"] == "not tried, since running eagerly with callees as graphs is slower than eagerly"


def test_what_there_is_no_time_for_is_not_tried(clock: list[float]) -> None:
    """The callees took so many steps to get ready that none is left for another way."""
    eager, callees, coexec = (_Way(n, clock, s, 9) for n, s in (("eager", 1.0), ("callees", 0.8), ("coexec", 0.5)))
    steps = Choosing("f", [eager], [callees], lambda way: [coexec] if way is callees else [], taken=4)
    while steps.decision is None:
        steps.run()
    assert (steps.decision.way, coexec.runs) == ("callees", 0)
    assert steps.rejected["coexec"] == "not tried, since it is decided within 20 steps"


def test_getting_ready_may_cost_so_much_and_no_more(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose steps take much longer than eager ones meanwhile is measured as it is."""
    monkeypatch.setattr(choosing, "MAX_SECONDS", 10.0)
    eager, callees = _Way("eager", clock, 1.0), _Way("callees", clock, 7.0, ready_after=1000)
    steps = Choosing("f", [eager], [callees], usual=1.0)
    ways = [steps.run() for _ in range(20)]
    assert ways[:5] == ["callees", "callees", "eager", "eager", "eager"]
    assert callees.runs == 2 + BLOCKS[0]
    assert ways[-5:] == ["eager"] * 5


def test_what_becomes_slower_than_eager_steps_is_compared_again(clock: list[float]) -> None:
    """Also where it takes little longer than it did."""
    eager, callees = _Way("eager", clock, 1.0), _Way("callees", clock, 0.85)
    steps = Choosing("f", [eager, callees])
    for _ in range(60):
        steps.run()
    assert steps.decision is not None
    assert steps.decision.way == "callees"
    callees.seconds = 1.2
    assert [steps.run() for _ in range(60)][-10:] == ["eager"] * 10


def test_what_could_not_be_measured_is_compared_again(clock: list[float]) -> None:
    """After more and more steps: graphs none of which fitted at first may fit all later calls."""
    eager, graph = _Way("eager", clock, 1.0), _Way("graph", clock, 0.2)
    graph.is_usual = False
    steps = Choosing("f", [eager, graph], taken=choosing.WITHIN - 2 * BLOCKS[0])
    ways = [steps.run() for _ in range(2 * BLOCKS[0] + choosing.AGAIN)]
    assert ways[2 * BLOCKS[0] :] == ["eager"] * choosing.AGAIN
    graph.is_usual = True
    assert [steps.run() for _ in range(40)][-10:] == ["graph"] * 10
    assert "after 67 eager steps" in str(steps.decision)
