"""Random training steps do as graphs what they do eagerly: results, text, exceptions, variables, Python state."""

from __future__ import annotations

import collections
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, seed, settings

from recgraph.speculate import Speculated
from tests import sampling
from tests.speculate import alias_programs, comparing, grammar, random_programs, tape_programs

# How many programs; the suite takes a few, `--programs=1500` many.
EXAMPLES = sampling.count("programs", 30)
# Where in the sequence of all programs they begin, for runs in pieces.
SEED = sampling.seed(1)
# At least so many of the programs must run as graphs, and so many of their calls.
CONVERTED, IN_GRAPHS = 0.6, 0.4


def differences(text: str, path: Path) -> tuple[list[str], Any]:
    """Where fifteen calls of a program differ from eager ones, and the function; its text is in the file then."""
    program = random_programs.as_program(text, path)
    expected, _, _ = comparing.run(program, speculated=False)
    found, speculated, _ = comparing.run(program, speculated=True)
    return comparing.differences(expected, found), speculated


@pytest.mark.slow
def test_random_programs(tmp_path: Path) -> None:
    """Most of them run as graphs: programs that all run eagerly would prove nothing."""
    count: collections.Counter[str] = collections.Counter()

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize=False,
        phases=sampling.PHASES,
        suppress_health_check=list(HealthCheck),
    )
    @given(random_programs.programs())
    def check(text: str) -> None:
        count["programs"] += 1
        found, speculated = differences(text, tmp_path / f"random_{SEED}_{count['programs']}.py")
        assert not found, "\n".join([text, *found, speculated.explain()])
        count["converted"] += speculated.calls["graph"] > 0
        count.update(speculated.calls)

    check()
    assert count["converted"] >= CONVERTED * count["programs"], count
    assert count["graph"] >= IN_GRAPHS * (count["graph"] + count["eager"] + count["fallback"]), count


# Beside what all programs have; the calls draw, too, so that it shows where a call leaves the generators.
DRAWING = random_programs.More(
    expressions={
        "F": ("random.random()", "float(np.random.rand())", "rng.uniform({F}, 2.0)", "random.choice([{F}, {F}])"),
        "I": ("random.randrange(4)", "np.random.randint(1, 5)", "int(rng.integers(5))", "random.choice(MEMORY)[1]"),
        "R": (
            "tf.constant(np.random.rand(3), tf.float32)",
            "random.choice(MEMORY)[0]",
            "{R} * rng.normal(size=3)",
            "tf.gather({R}, np.random.permutation(3))",
        ),
        "S": ("tf.add_n([row[1] for row, _ in random.sample(MEMORY, {few})])",),
    },
    statements=("np.random.seed({few})", "rng.random({few})", "if random.random() < 0.5:\n    {block}"),
    definitions="""
import random

import numpy as np

random.seed(1)
np.random.seed(2)
rng = np.random.default_rng(3)
MEMORY = [(tf.fill([3], 0.25 * i), i) for i in range(7)]


class Generators(dict):
    def items(self):
        states = random.getstate(), np.random.get_state()[1:], rng.bit_generator.state
        return [("states", states)]
""",
    state="Generators()",
)


@pytest.mark.slow
def test_random_programs_that_draw_from_pythons_and_numpys_generators(tmp_path: Path) -> None:
    """What a call draws is what it draws eagerly, and the generators are left where they are then."""
    count: collections.Counter[str] = collections.Counter()
    choices = random.Random(SEED)
    while count["programs"] < EXAMPLES // 3:
        text = random_programs.write(choices.randint, DRAWING)
        count["programs"] += 1
        found, speculated = differences(text, tmp_path / f"drawing_{SEED}_{count['programs']}.py")
        assert not found, "\n".join([text, *found, speculated.explain()])
        count["converted"] += speculated.calls["graph"] > 0 and "random" in text
    assert count["converted"] >= 0.3 * count["programs"], count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "least"),
    [(alias_programs.write, 0.5), (alias_programs.write_reading, 0.5), (alias_programs.write_changes, 0.2)],
)
def test_random_programs_whose_containers_change(write: Any, least: float, tmp_path: Path) -> None:
    """Which names are one list, what is in lists and arrays, in which order keys come: a tensor decides."""
    count: collections.Counter[str] = collections.Counter()
    choices = random.Random(SEED)
    for number in range(EXAMPLES // 2):
        text = write(choices)
        found, speculated = differences(text, tmp_path / f"{write.__name__}_{SEED}_{number}.py")
        assert not found, "\n".join([text, *found, speculated.explain()])
        count.update(speculated.calls)
    assert count["graph"] >= least * sum(count.values()), count


def test_random_programs_with_gradient_tapes(tmp_path: Path) -> None:
    """Which gradients are there, which are slices, and what they are, where branches and loops are around."""
    count: collections.Counter[str] = collections.Counter()
    choices = random.Random(SEED)
    for number in range(EXAMPLES):
        text = tape_programs.write(choices)
        found, speculated = differences(text, tmp_path / f"tapes_{SEED}_{number}.py")
        assert not found, "\n".join([text, *found, speculated.explain()])
        count.update(speculated.calls)
    assert count["graph"] >= 0.5 * sum(count.values()), count


def test_random_programs_in_a_gradient_tape(tmp_path: Path) -> None:
    """A tape around the calls finds gradients where it finds them eagerly, slices where these are slices."""
    count: collections.Counter[str] = collections.Counter()
    choices = random.Random(SEED)
    for number in range(EXAMPLES // 2):
        text = tape_programs.write_around(choices)
        program = random_programs.as_program(text, tmp_path / f"around_{SEED}_{number}.py")
        around = choices.random() < 0.7, choices.choice(((), ("x",), ("v", "w"), ("w", "y"))), choices.random() < 0.3
        (expected, _), (found, converted) = (_gradients(program, wrap, *around) for wrap in (None, Speculated))
        apart = comparing.differences(expected, found)
        assert not apart, "\n".join([text, str(around), *apart, converted.explain()])
        count.update(converted.calls)
    assert count["graph"] >= 0.5 * sum(count.values()), count


def _gradients(program: Any, wrap: Any, watches: bool, watched: Sequence[str], is_first: bool) -> tuple[Any, Any]:
    """Of what the calls of a program give: of each result, and of the first two together."""
    step, arguments, variables = program.make()
    converted = step if wrap is None else wrap(step)
    found = []
    for i in range(12):
        x, s = arguments(i)
        with tf.GradientTape(persistent=True, watch_accessed_variables=watches) as tape:
            tape.watch([{"v": variables[0], "w": variables[1], "x": x}[name] for name in watched if name != "y"])
            y = x * 1.0 if is_first else x * variables[0]
            if "y" in watched:
                tape.watch(y)
            results = converted(y, s)
        found.append([tape.gradient(one, [*variables, x, y]) for one in results])
        found.append([None if g is None else tf.convert_to_tensor(g) for g in tape.gradient(results[:2], variables)])
    return comparing.plain(found), converted


def test_the_comparison_finds_a_program_that_differs(tmp_path: Path) -> None:
    """A comparison that finds nothing would agree with anything: here each call draws other numbers."""
    text = grammar.FRAME.format(
        definitions="",
        beside="",
        optimizer="SGD(0.1)",
        helper="        pass",
        step="        return os.urandom(8)",
        arguments="        return (0,) * 7",
    )
    found, _ = differences(text.replace("import math", "import os"), tmp_path / "random_different.py")
    assert found
    tf.random.set_seed(0)
