"""Random numbers in bodies: a generator counts once a call, and each invocation draws numbers of its own.

A Keras layer draws with a `SeedGenerator`, which counts in a variable. If bodies did that, their invocations would have
to run one after another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import keras
import tensorflow as tf

Nest: TypeAlias = Any
# `body(arguments, recurse)`: what an invocation computes.
Body: TypeAlias = Callable[[Nest, Callable[..., Nest]], Nest]
# What a path is multiplied with at a call, as the state of a linear congruential generator (Knuth's MMIX), and what is
# added for each call site, a prime.
_FACTOR: Final = 6364136223846793005
_SITE: Final = 1099511627791


class Seeds(Protocol):
    """Where the random numbers of a body come from."""

    def prepare(self, draws: Sequence[tuple[keras.Variable, int]]) -> None:
        """It is known how often a body asks each generator: states, and numbers of draws."""

    def seed(self, arguments: Nest, state: keras.Variable, number: int) -> tf.Tensor:
        """The seed of a draw in an invocation, int64 `[2]`; the draws of a generator are numbered from 0."""


class NodeSeeds:
    """Seeds for the nodes of a batch, the number of which is an invocation's first argument.

    Args:
        size: the number of nodes, an int32 scalar.
    """

    def __init__(self, size: tf.Tensor) -> None:
        self._size = size
        self._tables: dict[int, tf.Tensor] = {}

    def prepare(self, draws: Sequence[tuple[keras.Variable, int]]) -> None:
        """See `Seeds`."""
        for state, count in draws:
            seed = tf.cast(tf.math.floormod(_next(state), tf.int32.max - 1), tf.int32)
            shape = tf.stack([self._size, count, 2])
            self._tables[id(state)] = tf.random.stateless_uniform(shape, seed, 0, tf.int32.max, tf.int64)

    def seed(self, arguments: Nest, state: keras.Variable, number: int) -> tf.Tensor:
        """See `Seeds`."""
        return tf.gather(self._tables[id(state)], arguments[0])[0, number]


class PathSeeds:
    """Seeds by call paths: a number for that of an invocation is its last argument."""

    def __init__(self) -> None:
        self._drawn: dict[int, tf.Tensor] = {}

    def prepare(self, draws: Sequence[tuple[keras.Variable, int]]) -> None:
        """See `Seeds`."""
        for state, count in draws:
            seed = tf.cast(tf.math.floormod(_next(state), tf.int32.max - 1), tf.int32)
            self._drawn[id(state)] = tf.random.stateless_uniform([count], seed, 0, tf.int32.max, tf.int64)

    def seed(self, arguments: Nest, state: keras.Variable, number: int) -> tf.Tensor:
        """See `Seeds`."""
        return tf.stack([self._drawn[id(state)][number], arguments[-1][0]])


def along_paths(body: Body, rows: Nest) -> tuple[Body, Nest]:
    """A body that knows its call path, and its rows, for `PathSeeds`; no loop may call it, whose trips share a site."""
    count = tf.shape(tf.nest.flatten(rows)[0], tf.int64)[0]

    def following(arguments: Nest, recurse: Callable[..., Nest]) -> Nest:
        own, path = arguments
        sites = itertools.count(1)
        return body(own, lambda nest: recurse((nest, path * _FACTOR + next(sites) * _SITE)))

    return following, (rows, tf.range(1, count + 1) * _SITE)


def _next(state: keras.Variable) -> tf.Tensor:
    """The seed of a generator, which counts."""
    seed = tf.convert_to_tensor(state.value)
    state.assign(seed + tf.constant([0, 1], tf.int64))
    return seed
