"""Where the time of co-executed steps goes: what both runners do, how long each waits for the other, and for what."""

from __future__ import annotations

import collections
import dataclasses
import io
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from recgraph import files
from recgraph.coexec.plan import StepPlan
from recgraph.coexec.trace import From

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Steps that are remembered.
KEPT: Final = 512
# Causes of waiting that are shown for each runner.
SHOWN: Final = 8
_END = "the end of the step"


@dataclasses.dataclass(frozen=True)
class Stall:
    """One runner waits for the other.

    Attributes:
        where: the user's line, `file:line`; "" at the end of a step.
        what: what it waits for.
    """

    where: str
    what: str


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """One step, in seconds.

    Attributes:
        python: from its begin to its end.
        python_stalls: while Python waited for the graph, by cause.
        graph: from the graph's launch to its end; 0 if it was not timed.
        graph_stalls: while it waited for Python.
    """

    python: float
    python_stalls: dict[Stall, float]
    graph: float = 0.0
    graph_stalls: dict[Stall, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What the numbers in a step's times stand for.

    Attributes:
        place: the user's line of a location.
        name: the type of an operation, by the number of its signature.
    """

    place: Callable[[int], str]
    name: Callable[[int], str]


class ValueSlots:
    """What the graph of a plan waits for in each of its slots."""

    def __init__(self, plan: StepPlan, meaning: Meaning) -> None:
        self._plan, self._meaning = plan, meaning
        self._stalls = {plan.commit: Stall("", "the end of the step in Python")}
        self._walked = tuple(plan.nodes)  # the device counts operations without loops
        for number, scope in plan.scopes.items():
            self._stalls[scope.condition] = self._at(number, "whether the loop continues")
            for level, slot in zip(scope.levels, scope.selects, strict=True):
                self._stalls[slot] = self._at(level.blocks[0][0], "which branch Python takes")
        for number, node in plan.nodes.items():
            for given in node.inputs:
                self._stalls[given.select] = self._at(number, "which value {} receives")
                for source, slot in zip(given.sources, given.slots, strict=True):
                    what = "a value from Python for {}" if source.origin is From.FEED else "which value {} receives"
                    self._stalls[slot] = self._at(number, what)

    def __getitem__(self, slot: int) -> Stall:
        return self._stalls[slot]

    def awaited(self, location: int, node: int) -> Stall:
        """What Python waits for: the value of a node, or the end if there is none."""
        if node < 0:
            return Stall("", f"the graph, at {_END}")
        planned = self._plan.nodes[self._walked[node]].node
        where, made = self._meaning.place(location), self._meaning.place(planned.location)
        name = self._meaning.name(planned.signature)
        return Stall(where, name if made == where else f"{name} ({made})")

    def _at(self, item: int, what: str) -> Stall:
        """At an operation, or at the first one of a loop or of the step."""
        while item not in self._plan.nodes:
            item = self._plan.scopes[item].levels[0].blocks[0][0]
        node = self._plan.nodes[item].node
        return Stall(self._meaning.place(node.location), what.format(self._meaning.name(node.signature)))


def read_times(described: tuple[Any, ...], slots: ValueSlots) -> StepTimes:
    """The times of a step from what the device gives at its end."""
    python, stalls, graph, graph_stalls = described
    return StepTimes(
        python * 1e-9,
        _summed((slots.awaited(location, node), seconds * 1e-9) for location, node, seconds in stalls),
        max(graph, 0) * 1e-9,
        _summed((slots[slot], seconds * 1e-9) for slot, seconds in graph_stalls),
    )


def _summed(pairs: Iterable[tuple[Stall, float]]) -> dict[Stall, float]:
    total: dict[Stall, float] = collections.defaultdict(float)
    for stall, seconds in pairs:
        total[stall] += seconds
    return dict(total)


class StepProfile:
    """The times of the last steps of a program.

    Args:
        name: of the program.
        steps: the times.

    Attributes:
        steps: the times of those whose graph was timed, too, or of all if there are none.
    """

    def __init__(self, name: str, steps: Iterable[StepTimes]) -> None:
        self.name = name
        every = list(steps)
        self.steps = [step for step in every if step.graph] or every

    @property
    def python(self) -> tuple[float, float]:
        """Seconds of a step, the median, in which Python was busy and in which it waited."""
        return (
            _median(step.python - sum(step.python_stalls.values()) for step in self.steps),
            _median(sum(step.python_stalls.values()) for step in self.steps),
        )

    @property
    def graph(self) -> tuple[float, float]:
        """Seconds of a step, the median, in which the graph was busy and in which it waited; zeros if not timed."""
        return (
            _median(step.graph - sum(step.graph_stalls.values()) for step in self.steps),
            _median(sum(step.graph_stalls.values()) for step in self.steps),
        )

    def python_stalls(self) -> list[tuple[Stall, float]]:
        """What Python waited for, with the seconds of a step, the longest first.

        The seconds are the median where it waited at all, times the part of the steps in which it did.
        """
        return self._stalls(lambda step: step.python_stalls)

    def graph_stalls(self) -> list[tuple[Stall, float]]:
        """What the graph waited for."""
        return self._stalls(lambda step: step.graph_stalls)

    def _stalls(self, of: Callable[[StepTimes], dict[Stall, float]]) -> list[tuple[Stall, float]]:
        every: dict[Stall, list[float]] = collections.defaultdict(list)
        for step in self.steps:
            for stall, seconds in of(step).items():
                every[stall].append(seconds)
        typical = {stall: _median(times) * len(times) / len(self.steps) for stall, times in every.items()}
        return sorted(typical.items(), key=lambda pair: -pair[1])

    def __str__(self) -> str:
        from rich.console import Console

        written = io.StringIO()
        Console(file=written, width=120).print(*self.tables(), sep="\n")
        return written.getvalue().rstrip()

    def renamed(self, name: str) -> StepProfile:
        """Returns the same under another name."""
        return StepProfile(name, self.steps)

    def tables(self) -> list[Any]:
        """The breakdown and the causes of waiting, as titles and tables for `rich`."""
        from rich.table import Table

        whole = Table()
        for heading in ("runner", "busy", "stalled"):
            whole.add_column(heading, justify="left" if heading == "runner" else "right")
        whole.add_row("Python", *map(_milliseconds, self.python))
        whole.add_row("graph", *map(_milliseconds, self.graph))
        causes = Table()
        for heading in ("runner", "ms per step", "waits for", "at"):
            causes.add_column(heading, justify="right" if heading == "ms per step" else "left", overflow="fold")
        for runner, stalls in (("Python", self.python_stalls()), ("graph", self.graph_stalls())):
            for stall, seconds in stalls[:SHOWN]:
                causes.add_row(runner, _milliseconds(seconds), stall.what, stall.where or "-")
        return [f"{self.name}: ms per step, {len(self.steps)} steps", whole, "what stalls them", causes]

    def picture(self, path: Path) -> None:
        """Draws the breakdown: a bar for each runner, busy and stalled, as figure 6 of the paper on Terra.

        Args:
            path: the file; its ending gives the format.
        """
        draw([self], path)


def draw(profiles: list[StepProfile], path: Path) -> None:
    """Draws several programs beside each other.

    Args:
        profiles: of the programs.
        path: the file, .png, .svg or .pdf.
    """
    with files.replacing(path) as stream:
        breakdown(profiles).savefig(stream, format=path.suffix[1:] or "png", dpi=150)


def breakdown(profiles: list[StepProfile]) -> Figure:
    """A picture of two bars for each program: Python and its graph, busy and stalled."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.0 + 1.6 * len(profiles), 3.4), layout="constrained")
    axes = figure.subplots()
    for i, profile in enumerate(profiles):
        for j, (busy, stalled) in enumerate((profile.python, profile.graph)):
            place, name = i * 3 + j, _RUNNERS[j]
            label = "" if i else name
            axes.bar(place, busy * 1e3, color=_COLOURS[j], label=label and f"{label} busy")
            axes.bar(
                place, stalled * 1e3, bottom=busy * 1e3, color="white", edgecolor=_COLOURS[j], hatch="///",
                label=label and f"{label} stalled",
            )  # fmt: skip
    axes.set_xticks([i * 3 + 0.5 for i in range(len(profiles))], [profile.name for profile in profiles])
    axes.set_ylabel("ms per step")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


_RUNNERS: Final = ("Python", "graph")
_COLOURS: Final = ("tab:blue", "tab:orange")


def _median(values: Iterable[float]) -> float:
    return statistics.median([*values] or [0.0])


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"
