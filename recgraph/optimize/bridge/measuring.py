"""What operators cost on this machine: each one timed in a graph, for some sizes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from recgraph.optimize.bridge.emission import Emission
from recgraph.optimize.costs import Costs, Guess, key_of
from recgraph.optimize.evaluate import Shape
from recgraph.optimize.problem import Leaf, Problem
from recgraph.optimize.terms import Apply, TensorVariable, Term

# How often a graph has the operator, one after another, and how often it runs.
_COPIES, _RUNS = 50, 7
_X, _Y = TensorVariable("x"), TensorVariable("y")


def cases(rows: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[Apply, list[Shape]]]:
    """The operators of cells for some numbers of rows and some widths, and the shapes of x and y."""
    for row in rows:
        for width in sizes:
            matrix: Shape = (row, width, 1, 1)
            for name in ("SIGMOID", "TANH", "RELU"):
                yield Apply("map", (name,), (_X,)), [matrix]
            for name in ("ADD", "MUL"):
                yield Apply("zip", (name,), (_X, _Y)), [matrix, matrix]
            yield Apply("bias", (1,), (_X, _Y)), [matrix, (1, width, 1, 1)]
            yield Apply("concat", (1,), (_X, _Y)), [matrix, matrix]
            for inner in sizes:
                yield Apply("matmul", (), (_X, _Y)), [(row, inner, 1, 1), (inner, width, 1, 1)]


def measure(all_cases: Sequence[tuple[Apply, list[Shape]]], progress: Callable[[int], object]) -> Costs:
    """Times operators, and fits what the costs of others are guessed from.

    Args:
        all_cases: terms over x and y, and the shapes of these.
        progress: is told after each how many are done.
    """
    measured, problems = {}, []
    for number, (term, shapes) in enumerate(all_cases, 1):
        seconds = _seconds(term, shapes)
        measured[key_of(term, shapes, "float32")] = seconds
        problems.append((term, shapes, seconds))
        progress(number)
    return Costs(measured, _fitted(problems))


def _problem(term: Term, shapes: Sequence[Shape]) -> Problem:
    return Problem((term,), {name: Leaf(dims) for name, dims in zip("xy", shapes, strict=False)})


def _seconds(term: Apply, shapes: Sequence[Shape]) -> float:
    random = np.random.default_rng(0)
    values = {
        name: tf.constant(random.normal(size=dims[:2]), tf.float32) for name, dims in zip("xy", shapes, strict=False)
    }
    problem = _problem(term, shapes)

    @tf.function(autograph=False)
    def graph(values: dict[str, tf.Tensor]) -> tf.Tensor:
        def given(one: Term, as_row: bool) -> tf.Tensor | None:
            if not isinstance(one, TensorVariable):
                return None
            return values[one.name][0] if as_row else values[one.name]

        before: list[tf.Tensor] = []
        for _ in range(_COPIES):
            with tf.control_dependencies(before):
                before = [Emission(problem, given)(term)]
        return before[0]

    graph(values)
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        graph(values)
        times.append(time.perf_counter() - start)
    return min(times) / _COPIES


def _fitted(measured: Sequence[tuple[Apply, list[Shape], float]]) -> Guess:
    """The numbers with which guesses differ least from what was measured, relative to it."""
    names = [field.name for field in dataclasses.fields(Guess)]
    rows = []
    for term, shapes, seconds in measured:
        problem = _problem(term, shapes)
        units = [Guess(**{name: float(name == unit) for name in names}) for unit in names]
        rows.append([Costs(guess=one).of_step(problem, term) / seconds for one in units])
    matrix = np.array(rows)
    found, *_ = np.linalg.lstsq(matrix, np.ones(len(rows)), rcond=None)
    values = dataclasses.asdict(Guess())  # of what nothing was measured of: cuts
    for name, value, column in zip(names, found, matrix.T, strict=True):
        if column.any():
            values[name] = max(float(value), values[name] / 100)
    return Guess(**values)
