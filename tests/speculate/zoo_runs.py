"""Steps of the programs of the papers, and what can be seen of each."""

from __future__ import annotations

import itertools
from typing import Any

import recgraph as rg
from recgraph.models.zoo import Program
from tests.speculate import comparing

STEPS = 12
# Its hundreds of layers take seconds to convert.
FEWER_STEPS = {"inception_v3": 6}


def seen(made: Any, result: Any) -> Any:
    """What a step gave and left: its result, the variables, and what the object holds of plain data and tensors."""
    plain = {
        name: value for name, value in vars(made).items() if isinstance(value, int | float | list | type(None) | str)
    }
    kept = {
        name: value for name, value in plain.items() if name in ("states", "steps", "history", "episodes", "frames")
    }
    return comparing.plain(result), [variable.numpy() for variable in made.variables], comparing.plain(kept)


def run(program: Program, speculated: bool, count: int = STEPS) -> tuple[list[Any], Any]:
    """Some steps of a program made anew."""
    made = program.make(True)
    step = rg.function(made.train_step, mode="speculate") if speculated else made.train_step
    steps = itertools.cycle(program.steps(program.small_batch, True))
    return [seen(made, step(*arguments)) for arguments in itertools.islice(steps, count)], step
