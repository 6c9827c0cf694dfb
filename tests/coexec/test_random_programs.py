"""Random programs, co-executed and eager: values, texts, exceptions, variables and what Python saw, after every step.

The programs are those of speculation, with Python in the middle that no graph could have (`grammar.py`).
"""

from __future__ import annotations

import collections
import contextlib
import functools
import io
import random
from pathlib import Path
from typing import Any, Final

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import racing
from recgraph.auto import Automatic, choosing, function
from recgraph.coexec import Coexecuted, Execution
from tests import sampling
from tests.coexec import forced, grammar
from tests.speculate import comparing, random_programs
from tests.speculate.corpus import CALLS, Program

# How many programs; the suite takes a few, `--programs=2000` many.
PROGRAMS: Final = sampling.count("programs", 16)
# Where in the sequence of all programs they begin, for runs in pieces.
SEED: Final = sampling.seed(1)
# The operations of a program at which a new path begins, at random; with `--points=100000` all in turn.
POINTS: Final = sampling.count("points", 6)
# A part of them is run in the other ways.
PART: Final = 4
COEXECUTED: Final = 0.6


def program(number: int, folder: Path) -> tuple[Program, str]:
    """A random program and its file."""
    path = folder / f"random_{number}.py"
    text = random_programs.write(random.Random(number).randint, grammar.BESIDE)
    return random_programs.as_program(text, path), str(path)


def by_threads(number: int) -> Any:
    """What co-executes a program: every other one's graphs are run by one thread."""
    return functools.partial(Coexecuted, execution=Execution(threads="one" if number % 2 else "all"))


def numbers(count: int) -> range:
    """Of random programs."""
    return range(SEED * 100_000, SEED * 100_000 + max(count, 1))


@pytest.mark.slow
def test_steps_of_random_programs(tmp_path: Path) -> None:
    """Fifteen steps each. Most have a graph: a comparison of eager execution with itself would show nothing."""
    count: collections.Counter[str] = collections.Counter()
    for number in numbers(PROGRAMS):
        made, path = program(number, tmp_path)
        expected, _, eager = comparing.run_wrapped(made, None)
        found, coexecuted, entered = comparing.run_wrapped(made, by_threads(number))
        assert comparing.differences(expected, found) == [], f"{path}\n{coexecuted.explain()}"
        assert [each.entered for each in entered] == [each.entered for each in eager], path
        count["programs"] += 1
        count["coexecuted"] += coexecuted.phases.counts["coexecuted"] > 0
    assert count["coexecuted"] >= COEXECUTED * count["programs"], count


@pytest.mark.slow
def test_a_new_path_at_every_operation(tmp_path: Path) -> None:
    """What is there at that line, and all that comes later, is what it would be."""
    for number in numbers(PROGRAMS // PART):
        made, path = program(number, tmp_path)
        _, _, counts = comparing.run_wrapped(made, None)
        total = len(counts[forced.CALL].operations)
        source = random.Random(number)
        for at in source.sample(range(total), min(total, POINTS)):
            kind = source.choice(list(forced.KINDS))
            detours = forced.Detour(at, kind, path), forced.Detour(at, kind, path)
            expected, _, _ = comparing.run_wrapped(made, None, detours[0])
            found, coexecuted, _ = comparing.run_wrapped(made, by_threads(number), detours[1])
            different = comparing.differences([expected, detours[0].seen], [found, detours[1].seen])
            assert different == [], f"{path}: {kind} at {at}\n{coexecuted.explain()}"
            assert all(detour.has_happened for detour in detours)


def looped(made: Program, wrap: Any) -> tuple[list[Any], Any]:
    """A program as the body of a loop: what it gave, with what is there in the middle and at the end."""
    step, arguments, state = made.make()
    loop = wrap(range(CALLS))
    results: list[Any] = []
    seen: list[Any] = []
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for i in loop:
            values = arguments(i)
            try:
                results.append(step(*values))
            except Exception as error:
                results.append((type(error).__name__, str(error)))
            if i % 5 == 4:
                seen.append(comparing.plain(state))
    return [*seen, comparing.plain(results), comparing.plain(state), printed.getvalue()], loop


@pytest.mark.slow
def test_loops_of_random_programs(tmp_path: Path) -> None:
    """Python runs ahead of the graphs."""
    for number in numbers(PROGRAMS // PART):
        made, path = program(number, tmp_path)
        expected, _ = looped(made, lambda items: items)
        found, loop = looped(made, rg.steps)
        assert comparing.differences(expected, found) == [], f"{path}\n{loop.explain()}"


@pytest.mark.slow
@pytest.mark.parametrize("is_whole", [True, False])
def test_random_programs_whose_ways_take_turns(is_whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of `mode="auto"` is taken in another way than the one before."""
    monkeypatch.setattr(choosing, "MAX_WARMING", 0)
    monkeypatch.setattr(racing, "BLOCKS", (1,) * 100)
    monkeypatch.setattr(choosing, "WITHIN", 10_000)
    monkeypatch.setattr(function, "CLEARLY", 0.0)

    def automatic(step: Any) -> Automatic:
        made = Automatic(step)
        if not is_whole:
            made._give_up("the test wants to see the other ways")
        return made

    for number in numbers(PROGRAMS // PART // 2):
        made, path = program(number, tmp_path)
        expected, _, _ = comparing.run_wrapped(made, None)
        found, wrapped, _ = comparing.run_wrapped(made, automatic)
        assert comparing.differences(expected, found) == [], f"{path}\n{wrapped.explain()}"


def test_the_comparison_sees_what_a_detour_does(tmp_path: Path) -> None:
    """A program with one and the same without differ."""
    made, path = program(SEED * 100_000, tmp_path)
    expected, _, _ = comparing.run_wrapped(made, None)
    found, _, _ = comparing.run_wrapped(made, None, forced.Detour(0, "write", path))
    assert comparing.differences(expected, found) != []
    tf.random.set_seed(0)
