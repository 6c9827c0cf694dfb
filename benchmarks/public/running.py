"""Runs a public program in all ways, each in a process of its own, block by block in turn, and compares the results."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import multiprocessing
import statistics
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from recgraph.benchmarks.public import child
from recgraph.benchmarks.public.adapting import WAYS, CannotAdapt, Public, adapted, code_of
from recgraph.benchmarks.public.child import BLOCK, LOOKED_AT

RAW = "https://raw.githubusercontent.com/{repo}/{commit}/{file}"
# Relative difference of figures that are the same but for rounding.
TOLERANCE = 2e-3
# A step is fast that takes at most so many times the final median.
FAST = 1.3
# Steps at the end whose manner is the one that was decided for, and the part of all later ones that are so.
LAST, MOSTLY = 20, 0.9


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long a program runs: steps, seconds of steps, fewest steps; seconds that a block may take."""

    most: int = 100
    seconds: float = 20.0
    least: int = 50
    patience: float = 240.0


def fetched(program: Public, folder: Path | None, file: str) -> str:
    """A file of a program: from a folder, as `owner+name/path`, or from GitHub.

    Raises:
        OSError: it is not there.
    """
    if folder is not None:
        return (folder / program.repo.replace("/", "+") / file).read_text(encoding="utf-8")
    address = RAW.format(repo=program.repo, commit=program.commit, file=urllib.request.quote(file))  # type: ignore[attr-defined]
    with urllib.request.urlopen(address) as answer:
        return str(answer.read().decode("utf-8"))


def prepared(program: Public, folder: Path | None, work: Path) -> tuple[dict[str, Path], str]:
    """The adapted program for each way, and why there is none for a way.

    Args:
        program: which one.
        folder: of originals; None to fetch them.
        work: where adapted ones are put.
    """
    files, why = {}, ""
    for way in WAYS:
        place = work / program.name.replace(" ", "_").replace("/", "_") / way
        place.mkdir(parents=True, exist_ok=True)
        try:
            text = code_of(fetched(program, folder, program.file), program.file)
            changed = adapted(program, text, way, not program.where)
            for path, source in program.beside.items():
                beside = place / path
                beside.parent.mkdir(parents=True, exist_ok=True)
                text = fetched(program, folder, source)
                is_python = path.endswith(".py")
                beside.write_text(adapted(program, text, way, path == program.where) if is_python else text)
        except CannotAdapt as error:
            why = str(error)
            continue
        files[way] = place / "program.py"
        files[way].write_text(changed, encoding="utf-8")
    return files, why


# Processes are forks of one that has imported these and computed nothing: they begin at once, and apart.
_FORKS: Final = multiprocessing.get_context("forkserver")
_IMPORTED: Final = ["tensorflow", "keras", "matplotlib.pyplot", "sklearn.datasets"]


class _Child:
    """A process that takes steps when it is told to."""

    def __init__(self, way: str, file: Path, limits: Limits, arguments: Sequence[str]) -> None:
        self.way, self.result = way, dict[str, Any]()
        self._connection, theirs = _FORKS.Pipe()
        steps = limits.most, limits.seconds, limits.least
        self._process = _FORKS.Process(target=child.run, args=(theirs, way, file, steps, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def wait(self, patience: float) -> bool:
        """Waits for the end of a block, or of the setting up; whether there are more steps."""
        answer = {"raised": "the process ended, or took too long"}
        with contextlib.suppress(EOFError):
            if self._connection.poll(patience):
                answer = self._connection.recv()
        if not answer:
            return True
        self.result = answer
        self._process.kill()
        self._process.join()
        return False

    def go(self) -> None:
        """Lets it take a block of steps."""
        self._connection.send(True)


def run(files: Mapping[str, Path], limits: Limits, arguments: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """What became of each way."""
    _FORKS.set_forkserver_preload(_IMPORTED)
    children = [_Child(way, file, limits, arguments) for way, file in files.items()]
    going = [one for one in children if one.wait(limits.patience)]
    while going:
        for one in list(going):
            one.go()
            if not one.wait(limits.patience):
                going.remove(one)
    return {one.way: one.result for one in children}


def difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Where the results of a way differ from those of eager execution; "" if they do not."""
    if other.get("raised"):
        return f"raises {other['raised']}"
    pairs = zip(one["results"][:LOOKED_AT], other["results"][:LOOKED_AT], strict=False)
    for number, (mine, theirs) in enumerate(pairs):
        if not _are_close(mine, theirs):
            return f"step {number + 1} gives {_shown(theirs)}, eagerly {_shown(mine)}"
    both = [name for name in one["variables"] if name in other["variables"]]
    if not any(one["results"]) and not any(one["variables"][name] for name in both):
        return "nothing to compare"
    for name in both:
        if not _are_close(one["variables"][name], other["variables"][name]):
            return f"variables differ after step {min(LOOKED_AT, len(one['results']))}: those of {name}"
    return ""


def _shown(values: Sequence[Any]) -> str:
    return ", ".join(f"{float(value):.5g}" for value in values[:3])


def _are_close(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    def is_close(one: float, other: float) -> bool:
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-4) or (math.isnan(one) and math.isnan(other))

    pairs = zip(map(float, mine), map(float, theirs), strict=False)
    return len(mine) == len(theirs) and all(is_close(one, other) for one, other in pairs)


def manner(way: str, states: Sequence[Any]) -> list[str]:
    """How each step ran, in a word that can be compared."""
    found = []
    for before, now in zip([None, *states], states, strict=False):
        if way == "decorated":
            moved = [
                int(new > old) for new, old in zip(now[1:], before[1:] if before else [0] * len(now), strict=False)
            ]
            found.append(f"{now[0]} {moved}")
        elif way == "unmodified":
            moved_by = {
                name: [int(new > old) for new, old in zip(calls, (before or {}).get(name, [0, 0, 0]), strict=True)]
                for name, calls in now.items()
            }
            found.append(str({name: moved for name, moved in moved_by.items() if any(moved)}))
        else:
            found.append("")
    return found


def decided(way: str, result: dict[str, Any]) -> int:
    """The steps until steps ran as they do at the end; all of them if that never comes."""
    ways = manner(way, result["states"])
    if way == "decorated" and result["states"] and result["states"][-1][0] is None:
        return len(ways)
    common = collections.Counter(ways[-LAST:]).most_common(1)[0][0]
    for start in range(len(ways)):
        later = ways[start:]
        if ways[start] == common and sum(one == common for one in later) >= MOSTLY * len(later):
            return start
    return len(ways)


def outcome(way: str, result: dict[str, Any], step: str) -> str:
    """What ran as graphs in the last steps: whole, parts, co-executed, nothing."""
    states = result["states"]
    if not states:
        return ""
    if way == "decorated":
        return str(states[-1][0] or "undecided")
    if way == "unmodified":
        early = states[-min(LAST, len(states))]
        ran = {name: [new - old for new, old in zip(calls, early.get(name, [0, 0, 0]), strict=True)]
               for name, calls in states[-1].items()}  # fmt: skip
        graphs = {name for name, calls in ran.items() if calls[1] > calls[0] + calls[2]}
        is_whole = any(name.split(" ")[0].split(".")[-1] == step.split(".")[-1] for name in graphs)
        return "graph" if is_whole else "parts" if graphs else "eager"
    return ""


def drift(files: Mapping[str, Path], eager: dict[str, Any], arguments: Sequence[str]) -> str:
    """Where eager execution differs from itself after a change in the last digits; "" if it does not.

    Programs that amplify rounding, such as games between two networks, tell nothing by later steps.
    """
    limits = Limits(LOOKED_AT + 1, math.inf, LOOKED_AT + 1)
    return difference(eager, run({child.NUDGED: files["eager"]}, limits, arguments)[child.NUDGED])


def summary(program: Public, results: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The figures of the table."""
    eager = results["eager"]
    row: dict[str, Any] = {
        "program": program.name,
        "kind": program.kind,
        "repo": program.repo,
        "commit": program.commit,
        "file": program.file,
        "step": program.step,
        "steps": len(eager.get("times", [])),
        "eager_ms": 1e3 * statistics.median(eager["times"]) if eager.get("times") else None,
        "raised": eager.get("raised", ""),
        "ways": {},
    }
    if row["raised"] or not eager.get("times"):
        return row
    for way in WAYS[1:]:
        result = results.get(way)
        if result is None or not result.get("times"):
            row["ways"][way] = {"difference": f"raises {result['raised']}" if result else "cannot be adapted"}
            continue
        at = decided(way, result) if way != "tf.function" else 0
        row["ways"][way] = {
            "difference": difference(eager, result),
            "as": outcome(way, result, program.step),
            "speed": speed(eager["times"], result["times"], min(at, len(result["times"]) * 3 // 4)),
            "decided": at,
            "seconds": fast_after(result["times"]),
            "longest": max(result["times"]),
            "steps": len(result["times"]),
            "calls": result.get("calls"),
            "why": result.get("why", []),
            "breaks": result.get("breaks", {}),
        }
    return row


def speed(eager: Sequence[float], other: Sequence[float], start: int) -> float:
    """How many times as fast as eager steps: the median over the blocks after `start` of ratios of the same steps."""
    most = min(len(eager), len(other))
    first = min(-(-max(start, BLOCK) // BLOCK) * BLOCK, max(most - 2 * BLOCK, 0))
    ratios = [
        sum(eager[at : at + BLOCK]) / sum(other[at : at + BLOCK])
        for at in range(first, most, BLOCK)
        if other[at : at + BLOCK]
    ]
    return statistics.median(ratios) if ratios else float("nan")


def fast_after(times: Sequence[float]) -> float:
    """Seconds of steps before the first of those that are as fast as the last ones are."""
    final = statistics.median(times[-LAST:])
    at = next((i for i, one in enumerate(times) if i > 0 and one <= FAST * final), len(times))
    return sum(times[:at])
