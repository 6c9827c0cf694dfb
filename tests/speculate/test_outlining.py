"""Functions that are taken apart: what cannot be converted stays in Python, and the parts between are graphs."""

from __future__ import annotations

import ast
import random
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from recgraph.speculate.observe.cutting import cut
from recgraph.speculate.observe.reasons import Inconvertible
from recgraph.speculate.observe.syntax import syntax_of
from recgraph.speculate.run.discovered import DiscoveredFunction
from recgraph.speculate.run.outlining import PartCalls, outline
from tests import sampling
from tests.speculate import comparing, corpus, random_programs

PROGRAMS = corpus.load()


class _AsTheyAre:
    """PartCalls that run as they are written."""

    is_left = True


def _places(function: Any) -> list[frozenset[int]]:
    """Each statement at which a function can be taken apart."""
    inner = getattr(function, "__func__", function)
    try:
        syntax = syntax_of(inner)
    except Inconvertible:
        return []
    sites = {node.site for node in ast.walk(syntax.node) if isinstance(node, ast.stmt) and node is not syntax.node}
    single = [frozenset({site}) for site in sorted(sites)]
    return [left for left in single if cut(syntax, inner.__code__, left, None) is not None]


def _apart(step: Any, left: frozenset[int], make: Callable[[types.CodeType, bool], Any]) -> Any:
    parts = PartCalls(make)
    apart = outline(step, left, parts)
    assert apart is not None

    def called(*arguments: Any, **named: Any) -> Any:
        return apart.run(step, *arguments, **named)

    called.parts = parts  # type: ignore[attr-defined]
    return called


# Every tenth program, if not all are asked for.
NAMES = [name for i, name in enumerate(PROGRAMS) if sampling.ALL or i % 10 == 0]


TAKEN_APART = (
    "a_closure_changes_a_name_in_a_branch",
    "typing_stuff",
    "two_names_a_view_of_a_dict",
    "an_infinite_gradient_by_a_branch_in_a_loop",
    "a_logarithm_of_a_loop_that_nothing_uses",
    "equal_data_is_one_object_in_some_calls",
)


@pytest.mark.parametrize("name", dict.fromkeys([*NAMES, *TAKEN_APART]))
def test_parts_do_what_the_function_does(name: str) -> None:
    """Wherever it is taken apart, and whether the parts are graphs or not."""
    program = PROGRAMS[name]
    places = _places(program.make()[0])
    if not places:
        pytest.skip("one statement")
    left = random.Random(f"{name}{sampling.seed(0) or ''}").choice(places)
    expected, _, _ = comparing.run_wrapped(program, None)
    for make in (lambda code, repeats: _AsTheyAre(), lambda code, repeats: DiscoveredFunction("part", code)):
        found, _, _ = comparing.run_wrapped(program, lambda step, make=make: _apart(step, left, make))
        assert comparing.differences(expected, found) == []


def test_functions_that_outlive_a_round_share_its_names() -> None:
    """They see what the next round sets, wherever the program is taken apart."""
    program = PROGRAMS["functions_outlive_their_rounds"]
    expected, _, _ = comparing.run_wrapped(program, None)
    for left in _places(program.make()[0]):
        found, _, _ = comparing.run_wrapped(
            program, lambda step, left=left: _apart(step, left, lambda code, repeats: _AsTheyAre())
        )
        assert comparing.differences(expected, found) == []


# How many random programs; the suite takes a few, `--programs=1500` many.
EXAMPLES = sampling.count("programs", 30) // 6


@pytest.mark.slow
def test_parts_of_random_programs_do_what_the_programs_do(tmp_path: Path) -> None:
    """Around a statement of each that is taken at random."""
    choices = random.Random(sampling.seed(1))
    cuts = 0
    for number in range(EXAMPLES):
        text = random_programs.write(choices.randint)
        program = random_programs.as_program(text, tmp_path / f"apart_{number}.py")
        places = _places(program.make()[0])
        if not places:
            continue
        cuts += 1
        left = choices.choice(places)
        expected, _, _ = comparing.run_wrapped(program, None)
        found, _, _ = comparing.run_wrapped(
            program, lambda step, left=left: _apart(step, left, lambda code, repeats: DiscoveredFunction("part", code))
        )
        assert comparing.differences(expected, found) == [], f"{text}\n{left}"
    assert cuts >= EXAMPLES / 2


def test_a_function_inside_of_another_leaves_its_sites_as_they_are() -> None:
    """Each has numbers of its own, also for what is in both: values that were seen are found by them."""

    def outer(x: float) -> Callable[[], float]:
        def inner() -> float:
            return x + 1.0

        return inner

    before = syntax_of(outer)
    sites = [node.site for node in before.nodes]  # type: ignore[attr-defined]
    inside = syntax_of(outer(1.0))
    assert [node.site for node in before.nodes] == sites == list(range(len(sites)))  # type: ignore[attr-defined]
    assert [node.site for node in inside.nodes] == list(range(len(inside.nodes)))  # type: ignore[attr-defined]


_BRANCHES = """
import tensorflow as tf

def step(n, x):
    if n[0] == 0:
        return x * 2.0
    if n[0] == 1:
        return x * 3.0
    if n[0] == 2:
        return tf.sin(x)
    if n[0] == 3:
        return tf.cos(x)
    return x.shape
"""


def test_parts_that_return_the_same_in_other_words_are_told_apart(tmp_path: Path) -> None:
    """Their bytecode is equal: they differ in a constant, or in the name of what they call."""
    file = tmp_path / "branches.py"
    file.write_text(_BRANCHES)
    scope: dict[str, Any] = {}
    exec(compile(_BRANCHES, str(file), "exec"), scope)
    step = scope["step"]
    syntax = syntax_of(step)
    tests = {node.test.site for node in syntax.body if isinstance(node, ast.If)}  # type: ignore[attr-defined]
    called = _apart(step, frozenset(tests), lambda code, repeats: DiscoveredFunction("part", code))
    x = tf.constant([0.5, 2.0])
    for i in range(24):
        expected, found = step([i % 4], x), called([i % 4], x)
        assert found.numpy().tolist() == pytest.approx(expected.numpy().tolist()), i
    assert len(called.parts.all()) == 4
    assert all(found.calls["graph"] > 0 for found in called.parts.all())
