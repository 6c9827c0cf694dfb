"""Everything random with fresh seeds until the time is over: `python -m tests.explore --minutes 60` or `make explore`.

Kinds of tests take turns, each in a process of its own with a new seed. What fails is run again with the same seed and
made smaller, and lies in `build/explore` with the command that repeats it; `log.jsonl` there has a line for each turn.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

FOLDER: Final = Path("build/explore")
# Making one failure smaller may take so many seconds.
SHRINKING: Final = 900


@dataclasses.dataclass(frozen=True)
class Kind:
    """Tests of one kind, and how many samples they take in one turn."""

    name: str
    tests: tuple[str, ...]
    options: tuple[str, ...]


def _kind(name: str, tests: str, options: str) -> Kind:
    return Kind(name, tuple(f"tests/{test}" for test in tests.split()), tuple(options.split()))


KINDS: Final = (
    _kind("programs, speculated", "speculate/test_random_programs.py", "--programs=20"),
    _kind("programs, co-executed", "coexec/test_random_programs.py", "--programs=6 --points=4"),
    _kind("programs in parts", "speculate/test_outlining.py", "--programs=12 --all --sample=12"),
    _kind("tapes", "speculate/test_backward.py speculate/test_tapes.py", ""),
    _kind("bodies", "core/test_random_programs.py core/test_random_second_derivatives.py", "--programs=8"),
    _kind("batches", "batch/test_programs.py batch/test_random_effects.py batch/test_rules.py", "--programs=8"),
    _kind("ways of batches", "batch/test_ways.py", "--programs=8 --sample=12"),
    _kind("expressions", "test_expressions.py", "--programs=2"),
    _kind("damaged models", "core/test_hostile_models.py core/test_forged_blocks.py", "--mutants=300"),
    _kind(
        "substitution",
        "optimize/test_graphs.py optimize/test_functions.py optimize/test_random_bodies.py optimize/test_search.py",
        "--programs=6",
    ),
    _kind("rules", "optimize/test_proofs.py optimize/test_gradients.py", "--all --sample=10"),
    _kind("the corpus", "test_corpus.py speculate/test_optimizations.py", "--all --sample=30"),
    _kind("what breaks", "speculate/test_injection.py", "--all --sample=6"),
    _kind("changes", "speculate/test_changes_between_steps.py speculate/test_given_back.py", "--all --sample=12"),
    _kind("properties", "core batch data models optimize keras train distribute ops", "-m=hypothesis --sample=30"),
    _kind("planted bugs", "test_planted_bugs.py::test_a_sample_is_caught", "--planted=2"),
)


def command(kind: Kind, seed: int, test: str | None = None) -> list[str]:
    """The command of a turn, which repeats it; or of one test of it, made smaller if it fails."""
    seeds = [f"--random-seed={seed}", f"--hypothesis-seed={seed}"]
    fixed = ["-q", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=0"]
    if test is None:
        return [sys.executable, "-m", "pytest", *fixed, *seeds, *kind.options, *kind.tests]
    options = [option for option in kind.options if not option.startswith("--sample=")]
    return [sys.executable, "-m", "pytest", *fixed, *seeds, *options, "--shrink", test]


def discoveries(kind: Kind, seed: int, output: str, folder: Path) -> list[str]:
    """Runs each test again that failed, made smaller, and writes what came out; the names of the files."""
    failed = dict.fromkeys(re.findall(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", output, re.MULTILINE))
    files = []
    for number, test in enumerate(failed or [None]):  # None: the process has ended
        words = command(kind, seed, test)
        try:
            again = subprocess.run(words, capture_output=True, text=True, timeout=SHRINKING, check=False)
            smaller = again.stdout + again.stderr
        except subprocess.TimeoutExpired:
            smaller = f"not made smaller in {SHRINKING} seconds"
        path = folder / f"{re.sub(r'[^a-z]+', '_', kind.name)}_{seed}_{number}.txt"
        repeated = " ".join(words[1:]).replace("-m pytest", "python -m pytest", 1)
        path.write_text(f"{repeated}\n\n{smaller}\n\nAt first:\n{output}", encoding="utf-8")
        files.append(str(path))
    return files


def turn(kind: Kind, seed: int, folder: Path) -> dict[str, object]:
    """One turn, as a line of the log."""
    begin = time.monotonic()
    ran = subprocess.run(command(kind, seed), capture_output=True, text=True, check=False)
    seconds = round(time.monotonic() - begin, 1)
    output = ran.stdout + ran.stderr
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|errors?|skipped)\b", output)}
    found = [] if ran.returncode in (0, 5) else discoveries(kind, seed, output, folder)
    return {"kind": kind.name, "seed": seed, "seconds": seconds, **counts, "discovered": found}


def main() -> int:
    """Explores; 1 where anything was discovered."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--kind", choices=[kind.name for kind in KINDS], help="only this kind")
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * arguments.minutes
    kinds = [kind for kind in KINDS if arguments.kind in (None, kind.name)]
    random.shuffle(kinds)
    totals: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for kind in itertools.cycle(kinds):
        if time.monotonic() > end:
            break
        line = turn(kind, random.SystemRandom().randrange(2**31), FOLDER)
        with (FOLDER / "log.jsonl").open("a", encoding="utf-8") as log:
            print(json.dumps(line), file=log)
        print(json.dumps(line), flush=True)
        totals[kind.name].update({what: n for what, n in line.items() if isinstance(n, int) and what != "seed"})
        totals[kind.name].update(turns=1, discovered=len(line["discovered"]))  # type: ignore[arg-type]
    for name, counts in totals.items():
        print(f"{name:28} " + ", ".join(f"{n} {what}" for what, n in counts.items() if n))
    return int(any(counts["discovered"] for counts in totals.values()))


if __name__ == "__main__":
    sys.exit(main())
