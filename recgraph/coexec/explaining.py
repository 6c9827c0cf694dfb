"""`explain()` of co-execution: the phases, the trace graph, its exchange of values with Python, why steps left it."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import Any, Final

import tensorflow as tf

from recgraph.coexec import device
from recgraph.coexec.phases import Built, Phases
from recgraph.coexec.profile import StepProfile
from recgraph.coexec.trace import From
from recgraph.coexec.trace_graph import TraceGraph, TraceNode
from recgraph.explaining import Explanation, Remark, counted

# What to change where steps leave their graph, by how the reason begins.
REMEDIES: Final[dict[str, str]] = {
    "new path": "none needed: the next graph includes this path",
    "wrong shapes": "see the error of the eager operation",
    "shapes depend on values": "none needed: Python waits for this shape in the next graph",
    "a value that is not fetched is needed": "none needed: the next graph returns this value",
    "a tensor that is not fetched outlives the step": "none needed: the next graph returns this value",
    "Python has to wait, as it never had to": "none needed: the next graph reports whether this operation succeeds",
    "an exception": "if this is frequent, test for the cause instead of raising",
    "an operation failed": "see the error of the eager operation",
    "failed": "see the error of the eager operation",
    "the process was forked": "fork before the first step, or between steps",
    "another thread needs a value": "pass values (`.numpy()`) to other threads, not tensors still being computed",
    "another thread uses a variable of the step": "read the variable in the step's own thread and pass the value on",
    "another thread has written a variable of the step": "write the variable from one thread only, or between steps",
    "a signal": "none needed: the interruption came from outside",
    "a step before it failed": "see the error of that step",
}
_ELSEWHERE: Final = "move it out of the step"
# From so many departures for one reason at one place on, the next graph does not help.
_OFTEN: Final = 3
_EACH_TIME: Final = "this differs from step to step, or an exception follows: move it out of the step"
_WORTH = 0.05
_SHOWN = 3  # how many of several values at one line are described


def explanation(name: str, phases: Phases) -> Explanation:
    """What happened to the steps so far, and why, with the lines of the program.

    Args:
        name: of the function, or of the loop.
        phases: what is known of it.
    """
    counts = ", ".join(f"{count} {kind}" for kind, count in phases.counts.items() if count)
    built = phases.built  # another thread may let go of it
    heads = [_described_graph(phases.graph, built)]
    profile = phases.profile()
    if profile.steps:
        heads.append(_described_times(profile))
    tried = None if built is None else device.threads(built.plan)
    if tried is not None:
        heads.append(_described_threads(*tried))
    if phases.given_up:
        heads.append(f"runs eagerly: {phases.given_up}")
    left = [
        Remark("left", where, reason, count, remedy(reason, count))
        for (reason, where), count in phases.reasons.copy().most_common()
    ]
    remarks = [*_meetings(phases.graph.nodes.values()), *left, *_stalls(profile)]
    return Explanation.of(f"{name}: {counts or 'no steps'}", heads, [], remarks)


def remedy(reason: str, count: int) -> str:
    """What to change where so many steps leave their graph for this reason."""
    advice = REMEDIES.get(reason.split(":")[0], _ELSEWHERE)
    return _EACH_TIME if count >= _OFTEN and advice.startswith("none needed: the next graph") else advice


def _described_graph(graph: TraceGraph, built: Built | None) -> str:
    nodes = graph.nodes.values()
    variables = {number for node in nodes for number in node.resources if number >= 0}
    feeds = sum(origin.origin is From.FEED for node in nodes for origins in node.inputs for origin in origins)
    fetches = sum(len(node.fetched) for node in nodes)
    counts = {
        "operation": len(nodes), "loop": len(graph.loops), "variable": len(variables), "feed": feeds,
    }  # fmt: skip
    parts = [counted(count, what) for what, count in counts.items()]
    size = f"trace graph: {', '.join(parts)}, {counted(fetches, 'fetch', 'fetches')}"
    if built is None:
        return size
    waits = counted(built.syncs, "operation")
    return f"{size}; graph: {counted(built.switches, 'switch', 'switches')}, Python waits for {waits}"


def _described_times(profile: StepProfile) -> str:
    text = "ms per step: Python busy {:.2f}, stalled {:.2f}; graph busy {:.2f}, stalled {:.2f}"
    return text.format(*(seconds * 1e3 for seconds in (*profile.python, *profile.graph)))


def _described_threads(is_one: bool, with_all: float, with_one: float) -> str:
    which = "one thread beside Python's" if is_one else "all threads"
    text = "the graph runs on {}: a step took {:.2f} ms with one thread, {:.2f} ms with all"
    return text.format(which, with_one * 1e3, with_all * 1e3)


def _stalls(profile: StepProfile) -> Iterator[Remark]:
    """What the runners wait for that is worth a look: a twentieth of a step, and more."""
    for runner, stalls, remedy in (
        ("Python", profile.python_stalls(), "read the value later, or less often"),
        ("the graph", profile.graph_stalls(), "compute the value earlier, or with TensorFlow"),
    ):
        for stall, seconds in stalls:
            if seconds >= _WORTH * sum(profile.python):
                text = f"{runner} waits {seconds * 1e3:.2f} ms per step for {stall.what}"
                yield Remark("stalled", stall.where, text, remedy=remedy if stall.where else "")


def _meetings(nodes: Iterable[TraceNode]) -> Iterator[Remark]:
    """The lines at which the graph is given values, gives some, or is waited for."""
    found: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for node in nodes:
        where, kind = device.place(node.location), device.title(node.signature)
        for origins in node.inputs:
            for origin in origins:
                if origin.origin is From.FEED:
                    found[where, "feed"].append(f"{_described(origin.dtype, origin.shape)} for {kind}")
        for number in sorted(node.fetched):
            which = f" (result {number})" if node.outputs > 1 else ""
            found[where, "fetch"].append(f"{kind}{which}")
        if node.is_foreseen:
            continue
        if node.is_open:
            found[where, "wait"].append(f"{kind}, whose shape depends on values")
        elif device.can_fail(node.signature):
            found[where, "wait"].append(f"{kind}, which may fail")
    for (where, kind), texts in found.items():
        yield Remark(kind, where, _listed(texts), remedy=_REMEDIES_FOR_MEETINGS[kind])


_REMEDIES_FOR_MEETINGS: Final = {
    "feed": "",
    "fetch": "",
    "wait": "compute it later in the step, or with operations that cannot fail",
}


def _listed(texts: list[str]) -> str:
    counted = collections.Counter(texts)
    shown = [text if count == 1 else f"{count}x {text}" for text, count in counted.most_common(_SHOWN)]
    more = len(counted) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _described(dtype: int, shape: tuple[int, ...] | None) -> str:
    sizes: Any = "of any rank" if shape is None else f"({', '.join('?' if n < 0 else str(n) for n in shape)})"
    return f"{tf.dtypes.as_dtype(dtype).name} {sizes}"
