"""Terms as TensorFlow's operations, in whatever graph is the current one, or eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph.optimize import pieces
from recgraph.optimize.problem import UNKNOWN, Problem
from recgraph.optimize.terms import Apply, Term

_MAPS = {
    "RELU": tf.nn.relu, "SIGMOID": tf.sigmoid, "TANH": tf.tanh,
    "NEG": tf.negative, "EXP": tf.exp, "RSQRT": tf.math.rsqrt,
}  # fmt: skip
_ZIPS = {"ADD": tf.add, "SUB": tf.subtract, "MUL": tf.multiply, "MAX": tf.maximum}


class Emission:
    """Makes the operations that compute terms, each once.

    Args:
        problem: what the terms are of.
        given: the tensor of an input, as a matrix or as a vector; None of a term that is to be computed here.
    """

    def __init__(self, problem: Problem, given: Callable[[Term, bool], tf.Tensor | None]) -> None:
        self.problem = problem
        self._given = given
        self._made: dict[Term, tf.Tensor] = {}
        self._cuts: dict[tuple[Term, int], dict[tuple[int, int], tf.Tensor]] = {}
        self._wanted: dict[tuple[Term, int], dict[tuple[int, int], None]] = {}

    def want(self, roots: tuple[Term, ...]) -> None:
        """Says what is going to be asked for, so that parts of one tensor are cut at once."""
        for term in pieces.steps(self.problem, roots):
            if pieces.is_part(term):
                one = pieces.cut(self.problem, term)
                self._wanted.setdefault((one.whole, one.axis), {})[one.begin, one.end] = None

    def __call__(self, term: Term) -> tf.Tensor:
        """The tensor that a term is."""
        if term not in self._made:
            given = self._given(term, False)
            if given is None:
                assert isinstance(term, Apply)
                given = self._make(term)
            self._made[term] = given
        return self._made[term]

    def row(self, term: Term) -> tf.Tensor:
        """A matrix of one row as a vector."""
        given = self._given(term, True)
        return tf.reshape(self(term), [-1]) if given is None else given

    def _make(self, term: Apply) -> tf.Tensor:
        if pieces.is_part(term):
            return self._part(pieces.cut(self.problem, term))
        if term.operator == "matmul":
            return self._product(term)
        if term.operator in ("bias", "gain"):
            x, row = self(term.arguments[0]), self.row(term.arguments[1])
            return tf.nn.bias_add(x, row) if term.operator == "bias" else tf.multiply(x, row)
        return self._apply(term, [self(one) for one in pieces.inputs(self.problem, term)])

    def _apply(self, term: Apply, parts: list[tf.Tensor]) -> tf.Tensor:
        first = term.parameters[0] if term.parameters else None
        match term.operator:
            case "map":
                return _MAPS[str(first)](parts[0])
            case "zip":
                return _ZIPS[str(first)](*parts)
            case "concat":
                return tf.concat(parts, int(str(first)))
            case "transpose":
                return tf.transpose(parts[0], [1, 0])
            case "conv":
                _, stride, padding, activation = term.parameters
                made = tf.nn.conv2d(*parts, int(str(stride)), str(padding))
                return made if activation == "NONE" else tf.nn.relu(made)
            case "scale":
                return tf.multiply(*parts)
        raise NotImplementedError(f"no operation of TensorFlow is known for '{term.operator}'")

    def _product(self, term: Apply) -> tf.Tensor:
        """A product; a transposed factor is no operation of its own."""
        turned, factors = [], []
        for factor in term.arguments:
            is_turned = factor not in self._made and self._given(factor, False) is None
            if isinstance(factor, Apply) and factor.operator == "transpose" and is_turned:
                factor = factor.arguments[0]
            else:
                is_turned = False
            turned.append(is_turned)
            factors.append(self(factor))
        return tf.matmul(*factors, transpose_a=turned[0], transpose_b=turned[1])

    def _part(self, one: pieces.Cut) -> tf.Tensor:
        key = one.whole, one.axis
        if key not in self._cuts:
            self._cuts[key] = self._cut(one)
        found = self._cuts[key].get((one.begin, one.end))
        if found is None:
            found = self._cuts[key][one.begin, one.end] = _slice(self(one.whole), one)
        return found

    def _cut(self, one: pieces.Cut) -> dict[tuple[int, int], tf.Tensor]:
        """All parts that are wanted of a tensor by one operation, where they lie side by side and cover it."""
        wanted = sorted(self._wanted.get((one.whole, one.axis), {(one.begin, one.end): None}))
        inner = [(a, b) for a, b in wanted if not any((a, b) != w and a <= w[0] and w[1] <= b for w in wanted)]
        ends = [0, *(b for _, b in inner)]
        whole = self.problem.dims(one.whole)[one.axis]
        if ends[-1] != whole or any(a != end for (a, _), end in zip(inner, ends, strict=False)):
            return {}
        sizes = [b - a if b < UNKNOWN else -1 for a, b in inner]  # a size that is not known is that of the last part
        made = tf.split(self(one.whole), sizes, one.axis)
        return dict(zip(inner, made, strict=True))


def _slice(tensor: tf.Tensor, one: pieces.Cut) -> tf.Tensor:
    index: list[Any] = [slice(None)] * one.axis
    return tensor[(*index, slice(one.begin, one.end if one.end < UNKNOWN else None))]
