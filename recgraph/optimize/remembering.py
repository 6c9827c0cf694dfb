"""What was measured of graphs, kept in a file of the user's cache folder for other processes on this machine."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recgraph import files
from recgraph.optimize.costs import cache_file

# Graphs that are remembered; the oldest are forgotten.
MOST = 2000


@dataclass(frozen=True)
class GraphTiming:
    """What was measured of a graph and its rewritten form.

    Attributes:
        is_better: whether the rewritten one was found to be faster.
        before: seconds of a run of the graph.
        after: of the rewritten one; 0 where there is none.
    """

    is_better: bool
    before: float = 0.0
    after: float = 0.0


def memory_file() -> Path:
    """Where verdicts on this machine are."""
    costs = cache_file()
    return costs.with_name(costs.name.replace("costs-", "graphs-", 1))


def recall(key: str, path: Path | None = None) -> GraphTiming | None:
    """What is known of a graph."""
    found = _read(path or memory_file()).get(key)
    try:
        return GraphTiming(bool(found["is_better"]), float(found["before"]), float(found["after"])) if found else None
    except (KeyError, TypeError, ValueError):
        return None


def remember(key: str, verdict: GraphTiming, path: Path | None = None) -> None:
    """Keeps what was measured; where the file cannot be written, the next process measures again."""
    path = path or memory_file()
    known = _read(path)
    known.pop(key, None)
    known[key] = dataclasses.asdict(verdict)
    kept = dict(list(known.items())[-MOST:])
    try:
        files.write_text(path, json.dumps(kept, indent=0))
    except OSError:
        return


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
