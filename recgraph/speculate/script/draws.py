"""Random numbers of Python's and NumPy's generators, which a script draws before its graph, in the program's order.

A call that is not made after all, because an assumption breaks or an operation fails, leaves the generators as they
were: the eager call draws the same numbers.
"""

from __future__ import annotations

import copy
import random
from typing import Any, Final

import numpy as np

# Classes of generators, exactly these: one of the program's may do more than draw.
GENERATORS: Final = (random.Random, np.random.RandomState, np.random.Generator)


class Draws:
    """What a call draws: `draws(generator, method, ...)`. A `with` block puts all generators back, but after `keep`."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, Any]] = []

    def __enter__(self) -> Draws:
        return self

    def __exit__(self, *error: object) -> None:
        for generator, state in reversed(self._before):  # two may have what they draw from in common
            _put_back(generator, state)

    def __call__(self, generator: Any, method: str, *arguments: Any, **named: Any) -> Any:
        """What a method of a generator gives."""
        if all(generator is not known for known, _ in self._before):
            self._before.append((generator, _state(generator)))
        return getattr(generator, method)(*arguments, **named)

    def shuffled(self, generator: Any, method: str, members: Any) -> Any:
        """A copy of an array or list, with its members in the order that the method gives them."""
        made = members.copy()
        self(generator, method, made)
        return made

    def keep(self) -> None:
        """What was drawn stays drawn."""
        self._before = []


class Rehearsal(Draws):
    """What the call that is converted will draw, found by copies of the generators: other threads may use them."""

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[int, tuple[Any, Any]] = {}

    def __call__(self, generator: Any, method: str, *arguments: Any, **named: Any) -> Any:
        """What a method of a generator will give."""
        if id(generator) not in self._copies:
            self._copies[id(generator)] = generator, copy.deepcopy(generator)
        return getattr(self._copies[id(generator)][1], method)(*arguments, **named)

    def mark(self) -> dict[int, Any]:
        """Where the copies are, for `reset`."""
        return {key: _state(copied) for key, (_, copied) in self._copies.items()}

    def reset(self, mark: dict[int, Any]) -> None:
        """Takes back what was drawn since."""
        self._copies = {key: pair for key, pair in self._copies.items() if key in mark}
        for key, state in mark.items():
            _put_back(self._copies[key][1], state)


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.bit_generator.state


def _put_back(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state
