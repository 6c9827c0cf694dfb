"""What references compute with: the reals, and the integers modulo a prime, in which equality is exact."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Arithmetic(Protocol):
    """Numbers that references compute with.

    Attributes:
        dtype: of the arrays.
        lowest: below every number, for the margins of a maximum.
    """

    dtype: Any
    lowest: Any

    def random(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Random numbers."""

    def reduce(self, x: np.ndarray) -> np.ndarray:
        """Brings the results of additions, or of a matrix product, back among the numbers."""

    def map(self, name: str, x: np.ndarray) -> np.ndarray:
        """The elementwise function of this name, see `operators.MAPS`."""

    def zip(self, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The elementwise function of two arrays, see `operators.ZIPS`."""

    def divided(self, x: np.ndarray, by: Any) -> np.ndarray:
        """Each number divided by a positive integer."""

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """The inverse of each number."""


class Reals:
    """Numbers of float64."""

    dtype = np.float64
    lowest = -np.inf

    def random(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Of the normal distribution."""
        return generator.normal(size=shape)

    def reduce(self, x: np.ndarray) -> np.ndarray:
        """Nothing is to be done."""
        return x

    def map(self, name: str, x: np.ndarray) -> np.ndarray:
        """See `Arithmetic`. `RSQRT` is of the absolute value and a constant: a variance is not negative."""
        match name:
            case "RELU":
                return np.maximum(x, 0.0)
            case "SIGMOID":
                return 1.0 / (1.0 + np.exp(-x))
            case "TANH":
                return np.tanh(x)
            case "NEG":
                return -x
            case "EXP":
                return np.exp(x)
            case "RSQRT":
                return 1.0 / np.sqrt(np.abs(x) + 1e-3)
        raise KeyError(name)

    def zip(self, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """See `Arithmetic`."""
        return {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "MAX": np.maximum}[name](x, y)

    def divided(self, x: np.ndarray, by: Any) -> np.ndarray:
        """See `Arithmetic`."""
        return x / by

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """See `Arithmetic`."""
        return 1.0 / x


class Field:
    """Integers modulo a prime, in int64: a sum of 64 products stays in range.

    Functions that are no polynomials are random, and fixed by the seed. They share with those of the reals that the
    hyperbolic tangent is odd, that the sigmoid is computed from it, and that of a number and its negative one is
    positive. Numbers have a random order, and their negatives have the reverse one.
    """

    dtype = np.int64
    prime = 268435399  # 2**28 - 57

    def __init__(self, seed: int = 0) -> None:
        self._keys = np.random.default_rng(seed).integers(1, 2**63, 4, dtype=np.uint64)
        self._half = pow(2, -1, self.prime)
        self.lowest = self.prime  # no number of the field

    def random(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Uniformly."""
        return generator.integers(0, self.prime, shape)

    def reduce(self, x: np.ndarray) -> np.ndarray:
        """The remainder."""
        return x % self.prime

    def _mixed(self, x: np.ndarray, key: int) -> np.ndarray:
        """63 random bits for each number (the finalizer of MurmurHash3)."""
        bits = (x.astype(np.uint64) + self._keys[key]) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
        return ((bits ^ (bits >> np.uint64(33))) >> np.uint64(1)).astype(np.int64)

    def _rank(self, x: np.ndarray) -> np.ndarray:
        """The place of each number in the random order: that of its negative has the other sign, that of 0 is 0."""
        size = np.minimum(x, self.prime - x)
        bits = self._mixed(size, 0)
        rank = np.where((bits & 1 == 1) == (x == size), bits, -bits)
        return np.where(x == 0, 0, np.where(x == self.lowest, -(2**63) + 1, rank))

    def _odd(self, x: np.ndarray) -> np.ndarray:
        size = np.minimum(x, self.prime - x)
        value = self._mixed(size, 1) % self.prime
        return np.where(x == 0, 0, np.where(x == size, value, self.prime - value))

    def map(self, name: str, x: np.ndarray) -> np.ndarray:
        """See `Arithmetic`."""
        match name:
            case "RELU":
                return np.where(self._rank(x) > 0, x, 0)
            case "SIGMOID":
                return (1 + self._odd(x * self._half % self.prime)) * self._half % self.prime
            case "TANH":
                return self._odd(x)
            case "NEG":
                return -x % self.prime
            case "EXP":
                return self._mixed(x, 2) % self.prime
            case "RSQRT":
                return self._mixed(x, 3) % self.prime
        raise KeyError(name)

    def zip(self, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """See `Arithmetic`."""
        match name:
            case "ADD":
                return (x + y) % self.prime
            case "SUB":
                return (x - y) % self.prime
            case "MUL":
                return x * y % self.prime
            case "MAX":
                return np.where(self._rank(x) >= self._rank(y), x, y)
        raise KeyError(name)

    def divided(self, x: np.ndarray, by: Any) -> np.ndarray:
        """See `Arithmetic`."""
        return x * self.inverse(np.asarray(by)) % self.prime

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """By Fermat's little theorem."""
        power, result, exponent = x % self.prime, np.ones_like(x), self.prime - 2
        while exponent:
            if exponent & 1:
                result = result * power % self.prime
            power = power * power % self.prime
            exponent >>= 1
        return result
