"""What a script takes before its graph, in the program's order: random numbers of Python's and NumPy's generators, and
elements of iterators over datasets.

A call that is not made after all, because an assumption breaks or an operation fails, leaves them as they were: the
eager call draws the same numbers and gets the same elements. Generators from which another thread has drawn meanwhile,
a data set's for instance, stay as they are: that thread's numbers would come twice.
"""

from __future__ import annotations

import contextlib
import copy
import random
import types
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.cpython import facts

# Classes of generators, exactly these: one of the program's may do more than draw.
GENERATORS: Final = (random.Random, np.random.RandomState, np.random.Generator)
# The two that everything shares, and what can be done with them.
_SHARED: Final[tuple[Any, ...]] = (random._inst, np.random.mtrand._rand)
# What only looks at them, or puts them elsewhere.
_PASSIVE: Final = frozenset({"getstate", "setstate", "get_state", "set_state", "VERSION", "gauss_next"})
_DRAWING: Final = {name for shared in _SHARED for name in dir(shared) if not name.startswith("_")} - _PASSIVE


class Draws:
    """What a call draws: `draws(generator, method, ...)`. A `with` block puts everything back, but after `keep`."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, Any]] = []
        self._drawn: list[tuple[Any, str, tuple[Any, ...], dict[str, Any]]] = []
        self._taken: list[tuple[Any, Any]] = []

    def __enter__(self) -> Draws:
        return self

    def __exit__(self, *error: object) -> None:
        if self._before and self._are_ours():
            for generator, state in reversed(self._before):  # two may have what they draw from in common
                _put_back(generator, state)
        self._give_back(0)

    def _are_ours(self) -> bool:
        """Whether the generators are where this call has left them: it draws again, from copies."""
        generators = [generator for generator, _ in self._before]
        copies = copy.deepcopy(generators)
        for copied, (_, state) in reversed(list(zip(copies, self._before, strict=True))):
            _put_back(copied, state)
        place = {id(generator): copied for generator, copied in zip(generators, copies, strict=True)}
        for generator, method, arguments, named in self._drawn:
            with contextlib.suppress(Exception):  # as when it was drawn
                getattr(place[id(generator)], method)(*copy.deepcopy(arguments), **copy.deepcopy(named))
        pairs = zip(copies, generators, strict=True)
        return all(_is_same(_state(copied), _state(generator)) for copied, generator in pairs)

    def _give_back(self, number: int) -> None:
        """Gives back all elements but this number of first ones."""
        while len(self._taken) > number:
            tf_private.give_back(*self._taken.pop())

    def take(self, iterator: Any) -> Any:
        """The next element of an iterator over a dataset."""
        element = next(iterator)
        self._taken.append((iterator, element))
        return element

    def __call__(self, generator: Any, method: str, *arguments: Any, **named: Any) -> Any:
        """What a method of a generator gives."""
        if all(generator is not known for known, _ in self._before):
            self._before.append((generator, _state(generator)))
        self._drawn.append((generator, method, arguments, named))
        return getattr(generator, method)(*arguments, **named)

    def shuffled(self, generator: Any, method: str, members: Any) -> Any:
        """A copy of an array or list, with its members in the order that the method gives them."""
        made = members.copy()
        self(generator, method, made)
        return made

    def keep(self) -> None:
        """What was drawn stays drawn."""
        self._before, self._drawn, self._taken = [], [], []


class Rehearsal(Draws):
    """What the call that is converted will draw, by copies of the generators: other threads may use them.

    A `with` block gives the elements back that were taken.
    """

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[int, tuple[Any, Any]] = {}

    def __call__(self, generator: Any, method: str, *arguments: Any, **named: Any) -> Any:
        """What a method of a generator will give."""
        if id(generator) not in self._copies:
            self._copies[id(generator)] = generator, copy.deepcopy(generator)
        return getattr(self._copies[id(generator)][1], method)(*arguments, **named)

    def take(self, iterator: Any) -> Any:
        """The element of an iterator that will be the next one."""
        with tf.init_scope():
            return super().take(iterator)

    def mark(self) -> tuple[dict[int, Any], int]:
        """Where the copies are, and how many elements were taken, for `reset`."""
        return {key: _state(copied) for key, (_, copied) in self._copies.items()}, len(self._taken)

    def reset(self, mark: tuple[dict[int, Any], int]) -> None:
        """Takes back what was drawn and taken since."""
        states, taken = mark
        self._copies = {key: pair for key, pair in self._copies.items() if key in states}
        for key, state in states.items():
            _put_back(self._copies[key][1], state)
        self._give_back(taken)


def may_draw(function: types.FunctionType, is_known: bool) -> bool:
    """Whether a library's function, by what it reads, may itself draw from the generators that everything shares.

    Args:
        function: the function.
        is_known: whether its library reaches them by the names of their modules alone.
    """
    code, names = function.__code__, set(function.__code__.co_names) - _PASSIVE
    if function.__globals__ is globals():  # ours, which asks where the generators are
        return False
    if not is_known and not names.isdisjoint(_DRAWING):
        return True
    read = [function.__globals__.get(name) for name in names]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # nothing is in it yet
            read.append(cell.cell_contents)
    if any(map(_draws, read)):
        return True
    if "random" not in names:
        return False
    imported = facts.imported_names(code)
    return any(value is np for value in read) or not {"random", "numpy", "numpy.random"}.isdisjoint(imported)


def _draws(value: Any) -> bool:
    """Whether a value is one of the shared generators, a method of it, or a module that has these methods."""
    owner = value.__self__ if isinstance(value, types.MethodType | types.BuiltinMethodType) else value
    return any(owner is one for one in (*_SHARED, random, np.random))


def shared_states() -> list[Any]:
    """Where the generators are that everything shares."""
    return [_state(generator) for generator in _SHARED]


def put_back_shared(states: list[Any]) -> bool:
    """Puts these generators back; whether they had been drawn from."""
    pairs = [(shared, state) for shared, state in zip(_SHARED, states, strict=True)]
    moved = [pair for pair in pairs if not _is_same(_state(pair[0]), pair[1])]
    for generator, state in moved:
        _put_back(generator, state)
    return bool(moved)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


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
