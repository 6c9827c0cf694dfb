"""The programs of the papers and of the thesis: co-executed they do what they do eagerly, by `tf.function` not all."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks import programs
from recgraph.models.zoo import COEXECUTED, EAGER, TERRA, Program
from tests import sampling
from tests.speculate import comparing

ALL = {**COEXECUTED, **EAGER}
# Each program by its steps and in a loop, or, if not all are asked for, two of three in one of both ways.
LOOPED, STEPPED = (list(ALL)[first :: 1 if sampling.ALL else 3] for first in (0, 0 if sampling.ALL else 1))
STEPS = 26
# All steps after so many are co-executed.
SETTLED = 20
# Enough for a loop to have graphs that run ahead.
ITERATIONS = 14
# What rounding makes of so many steps, relative to 1 and to the value.
TOLERANCE = 1e-3

# Programs for which `tf.function` does something else, and what that is: it keeps what an attribute was when it made
# its graph, or has no values where the program wants some.
WRONG_AS_TF_FUNCTION = {
    "bert_cls": "'SymbolicTensor' object has no attribute 'numpy'",
    "dropblock": "the loss of step",
    "music_transformer": "'SymbolicTensor' object has no attribute 'numpy'",
    "sdpoint": "the loss of step",
    "faster_rcnn": "'SymbolicTensor' object has no attribute 'numpy'",
}


class Taken:
    """The steps of a program made anew.

    Attributes:
      seen: results, variables, what the object keeps of numbers, and what was printed, after each step.
    """

    def __init__(self, program: Program):
        """Args: the program, which is made in the size of tests."""
        self.made = program.make(True)
        arguments = itertools.cycle(program.steps(program.small_batch, True))
        self.arguments = list(itertools.islice(arguments, STEPS))
        self.seen: list[Any] = []

    @contextlib.contextmanager
    def looking(self) -> Iterator[list[Any]]:
        """Takes note of a step, whose result is to be put into the list."""
        printed, result = io.StringIO(), []
        with contextlib.redirect_stdout(printed):
            yield result
        kept = programs.kept_in_python(self.made)
        numbers = {name: value for name, value in vars(self.made).items() if isinstance(value, int | float)}
        variables = [variable.numpy() for variable in self.made.variables]
        self.seen.append((comparing.plain(result), variables, numbers, kept, printed.getvalue()))

    def call(self, step: Callable[..., Any]) -> None:
        """Takes all of them."""
        for arguments in self.arguments:
            with self.looking() as result:
                result.append(step(*arguments))

    def iterate(self, loop: Callable[[Iterable[Any]], Any]) -> Any:
        """Takes the first of them as iterations of a loop over what `loop` gives, and returns that."""
        steps = loop(self.arguments[:ITERATIONS])
        for arguments in steps:
            with self.looking() as result:
                result += [value.numpy() for value in tf.nest.flatten(self.made.train_step(*arguments))]
        return steps


@functools.cache
def eagerly(name: str) -> Taken:
    """The steps of a program as it is."""
    taken = Taken(ALL[name])
    taken.call(taken.made.train_step)
    return taken


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPPED)
def test_a_program_is_coexecuted_and_does_the_same(name: str) -> None:
    """Losses, variables, Python's numbers and printed text after each step; and soon no step is eager any more."""
    taken = Taken(ALL[name])
    step = rg.function(taken.made.train_step, mode="coexec", strict=True)
    counts = []

    def counted(*arguments: Any) -> Any:
        result = step(*arguments)
        counts.append(step.phases.counts["coexecuted"])
        return result

    taken.call(counted)
    assert comparing.far_apart(eagerly(name).seen, taken.seen, TOLERANCE) == []
    assert counts[-1] - counts[SETTLED - 1] == STEPS - SETTLED, step.explain()


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPED)
def test_a_loop_over_a_program_does_the_same(name: str) -> None:
    """As iterations of `rg.steps`, in which what is looked at is part of the step."""
    expected, taken = Taken(ALL[name]), Taken(ALL[name])
    expected.iterate(iter)
    loop = taken.iterate(rg.steps)
    assert comparing.far_apart(expected.seen, taken.seen, TOLERANCE) == []
    assert loop.phases.counts["coexecuted"] > 0, loop.explain()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TERRA)[:: 1 if sampling.ALL else 3])
def test_tf_function_is_wrong_about_five_of_the_ten(name: str) -> None:
    """Those of table 1 of the paper, and why; the others are the same as eagerly."""
    epoch = programs.epoch_of(name, TERRA[name].small_batch, True, None)
    eager, graph = (
        programs.Contender(TERRA[name], functools.partial(programs.KINDS[kind], name), epoch, True)
        for kind in ("eager", "tf_function")
    )
    with contextlib.redirect_stdout(io.StringIO()):
        assert eager.warm_up(4) == ""
        found = programs.fault(graph, eager, graph.warm_up(4))
    if name in WRONG_AS_TF_FUNCTION:
        assert WRONG_AS_TF_FUNCTION[name] in found
    else:
        assert found == ""
    assert len(WRONG_AS_TF_FUNCTION) == 5


def test_the_comparison_finds_a_step_that_learns_faster() -> None:
    """A comparison that finds nothing would agree with anything."""
    taken = Taken(ALL["sdpoint"])
    optimizer = taken.made.pairs[0][1]
    optimizer.learning_rate = float(optimizer.learning_rate) * 1.1
    taken.call(taken.made.train_step)
    assert comparing.far_apart(eagerly("sdpoint").seen, taken.seen, TOLERANCE) != []
