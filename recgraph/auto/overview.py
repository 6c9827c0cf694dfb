"""What became of a program, for its first screen: what ran how, where the time went, and every reason with a remedy."""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from recgraph import native
from recgraph.auto.function import Automatic
from recgraph.auto.ways import WHAT
from recgraph.coexec import Coexecuted
from recgraph.cpython.installed import is_installed
from recgraph.explaining import Remark, counted
from recgraph.speculate.observe import known
from recgraph.speculate.run.function import SpeculatedCalls

# Seconds between two looks at the program.
PERIOD = 0.005
# Lines that are named where time goes that belongs to no function.
SHOWN = 3
# The part of the time from which on a function is told of by itself, and from which on what is in none is much.
WORTH, LARGE = 0.01, 0.3
# Where our own files are.
OURS: Final = f"{Path(__file__).parents[1]}/"
GRAPHS, CONVERSIONS, OBSERVED, COEXECUTED, EAGERLY = "in graphs", "conversions", "observed", "co-executed", "eagerly"
_CALLS = SpeculatedCalls
_KINDS: Final[dict[types.CodeType, str]] = {
    _CALLS._as_graph.__code__: GRAPHS,
    _CALLS._first_run.__code__: GRAPHS,
    _CALLS._converted.__code__: CONVERSIONS,
    _CALLS._observed.__code__: OBSERVED,
    Coexecuted.__call__.__code__: COEXECUTED,
}
# Methods whose `self` is a function that calls of the program's go to.
_OWNERS: Final = frozenset(
    {*_KINDS, Automatic.__call__.__code__, Automatic._judging.__code__, _CALLS._without_graph.__code__}
)
# Kinds of remarks about why something did not run as a graph.
_AGAINST: Final = frozenset({"broke", "eager", "left"})
_WORDS: Final = {**WHAT, "fallback": "eagerly, since an assumption broke", "traced": "observed"}


class CallSampler:
    """While it is entered, a thread looks at what the one that entered it is doing, and how long.

    Args:
        names: gives the functions of the program that were found, by their code.

    Attributes:
        seconds: by function and kind; by line of the program for what belongs to no function, under "".
    """

    def __init__(self, names: Any = dict) -> None:
        self.seconds: dict[tuple[str, str], float] = collections.defaultdict(float)
        self.total = 0.0
        self._names = names
        self._over = threading.Event()

    def __enter__(self) -> CallSampler:
        self._thread, self._started = threading.get_ident(), time.perf_counter()
        self._looker = threading.Thread(target=self._look, daemon=True)
        self._looker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._looker.join()
        self.total = time.perf_counter() - self._started

    def _look(self) -> None:
        last = time.perf_counter()
        while not self._over.wait(PERIOD):
            frames = native.frames().stack_of(self._thread)
            now = time.perf_counter()
            if frames:
                self.seconds[self._doing(frames)] += now - last
            frames, last = None, now  # who holds a frame keeps alive what the program has let go of

    def _doing(self, frames: list[types.FrameType]) -> tuple[str, str]:
        """Which function is being called, and how it runs; or the innermost line of the program."""
        names, line = self._names(), ""
        for frame in frames:
            package = known.top_of(str(frame.f_globals.get("__name__", "")))
            if not line and known.is_users_code(frame.f_code, package) and package != "recgraph":
                line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        owner, kind = "", EAGERLY
        for one in reversed(frames):
            code = one.f_code
            if code in _OWNERS and not owner:
                owner = str(getattr(one.f_locals.get("self"), "name", ""))
            owner = owner or names.get(code, "")
            if code in _KINDS:
                kind = _KINDS[code]
                break
        return (owner, kind) if owner else ("", line)


def fitting(remark: Remark) -> str:
    """What to do about a remark: about a line of a library's, its users can change only what leads there."""
    file = remark.where.rpartition(":")[0]
    if not remark.remedy:
        return "see the line"
    if not is_installed(file):
        return remark.remedy
    parts = Path(file).parts
    at = max((i for i, part in enumerate(parts) if part in ("site-packages", "dist-packages")), default=-2)
    library = parts[at + 1].removesuffix(".py") if at >= 0 else "Python"
    return (
        f"the line is {library}'s: make the call that leads there before or after the function, if it can be made there"
    )


@dataclasses.dataclass
class Account:
    """One function: how its calls ran, what became of it, and why.

    Attributes:
        name, where: of the function.
        calls: how many ran how.
        state: a sentence where there is more to say than the numbers.
        remarks: what broke, what was not converted.
    """

    name: str
    where: str
    calls: Mapping[str, int]
    state: str
    remarks: list[Remark]


def row_of(one: Any) -> Account:
    """What is to be said of something that has an `explain()`."""
    parts = one.parts() if isinstance(one, Automatic) else [one.explain()]
    remarks = [remark for part in parts for remark in part.remarks if remark.kind in _AGAINST]
    code = getattr(getattr(one, "function", None), "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else getattr(one, "where", "")
    name = getattr(one, "name", "") or parts[0].about.partition(":")[0]
    return Account(name, _of_programs(where), getattr(one, "calls", {}), getattr(one, "undecided", ""), remarks)


def _of_programs(where: str) -> str:
    """A line, unless it is ours: what stands in for calls of Keras."""
    return "Keras" if where.startswith(OURS) else where


def overview(title: str, looking: CallSampler, things: Iterable[Any]) -> str:
    """The first screen.

    Args:
        title: of the program.
        looking: what was seen of it.
        things: what became of its functions: objects with an `explain()`.
    """
    spent: dict[str, dict[str, float]] = collections.defaultdict(dict)  # by function and kind
    for (name, kind), seconds in looking.seconds.items():
        spent[name][kind] = seconds
    rest = spent.pop("", {})
    rows = sorted(map(row_of, things), key=lambda row: -sum(spent[row.name].values()))
    total = max(looking.total, 1e-9)
    lines = [f"{title} took {total:.1f} s."]
    shown = [row for row in rows if row.remarks or row.state or sum(spent[row.name].values()) >= WORTH * total]
    for row in shown:
        lines += _told(row, spent[row.name], total)
    if left := [row for row in rows if row not in shown]:
        lines.append(f"  {counted(len(left), 'function')} more, each with less than {WORTH:.0%} of it.")
    lines += _elsewhere(rest, total)
    return "\n".join([*lines, *_reasons(rows)])


def _told(row: Account, spent: Mapping[str, float], total: float) -> list[str]:
    kinds = ", ".join(f"{kind} {one:.1f} s" for kind, one in sorted(spent.items(), key=lambda pair: -pair[1]))
    calls = ", ".join(f"{count} {_WORDS.get(kind, kind)}" for kind, count in row.calls.items() if count)
    where, seconds = f" ({row.where})" if row.where else "", sum(spent.values())
    state = f" {row.state.capitalize()}." if row.state else ""
    return [
        f"  {row.name}{where}: {seconds:.1f} s, {seconds / total:.0%} of it{f' ({kinds})' if len(spent) > 1 else ''}.",
        f"    Calls: {calls or 'none'}.{state}",
    ]


def _elsewhere(rest: Mapping[str, float], total: float) -> list[str]:
    """Where time went that belongs to no function: what the graphs cannot make faster."""
    most = sorted(((line, one) for line, one in rest.items() if line), key=lambda pair: -pair[1])[:SHOWN]
    where = f", most at {', '.join(f'{line} ({one:.1f} s)' for line, one in most)}" if most else ""
    seconds = sum(rest.values())
    lines = [f"  Everything else: {seconds:.1f} s, {seconds / total:.0%} of it{where}."]
    if seconds > LARGE * total:
        lines.append("    To do: where these lines compute with TensorFlow, put a whole step into a function.")
    return lines


def _reasons(rows: list[Account]) -> list[str]:
    found = []
    for row in rows:
        for remark in sorted(row.remarks, key=lambda one: -one.count):
            times = f", {counted(remark.count, 'time')}" if remark.count else ""
            where = f"{_of_programs(remark.where)}, " if remark.where else ""
            found.append(f"  {where}{row.name}{times}: {remark.text}. To do: {fitting(remark)}.")
    if not found:
        return ["Nothing kept a call from running as a graph."]
    return ["What kept calls from running as graphs:", *dict.fromkeys(found)]
