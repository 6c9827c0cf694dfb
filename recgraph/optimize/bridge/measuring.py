"""What operators cost on this machine: each one timed in a graph, for some sizes."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from recgraph.optimize.bridge.emission import Emission
from recgraph.optimize.costs import Costs, Guess, key_of
from recgraph.optimize.evaluate import Shape
from recgraph.optimize.problem import Leaf, Problem
from recgraph.optimize.terms import Apply, TensorVariable, Term

# How often a graph has the operator, one after another; how often it runs at least and at most, and for how long.
_COPIES, _FEWEST, _MOST, _SECONDS = 25, 3, 30, 0.1
# Bytes of operands after which one is likely to be out of the caches of a core.
_APART = 16_000_000
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
    """Of one of many copies, one after another. Each has operands that have not been used for a while, as a weight has
    in a network: where few rows are multiplied, reading it is what takes time."""
    random, problem = np.random.default_rng(0), _problem(term, shapes)
    size = sum(4 * math.prod(dims) for dims in shapes)
    sets = min(_COPIES, 1 + _APART // size)

    def chain(operands: Sequence[dict[str, tf.Tensor]], copies: int) -> tf.Operation:
        before: list[tf.Tensor] = []
        for number in range(copies):
            values = operands[number % sets]

            def given(one: Term, as_row: bool, values: dict[str, tf.Tensor] = values) -> tf.Tensor | None:
                if not isinstance(one, TensorVariable):
                    return None
                return values[f"{one.name} as row" if as_row else one.name]

            with tf.control_dependencies(before):
                before = [Emission(problem, given)(term)]
        return before[0].op

    with tf.Graph().as_default() as graph:
        operands = [_operands(random, shapes) for _ in range(sets)]
        chains = [chain(operands, copies) for copies in (_COPIES, 1)]
    # TensorFlow's optimizer would leave out copies whose results nobody uses.
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        runs = [session.make_callable(one) for one in chains]
        fastest = [_fastest(run) for run in runs]
    return max(fastest[0] - fastest[1], 1e-9) / (_COPIES - 1)


def _operands(random: np.random.Generator, shapes: Sequence[Shape]) -> dict[str, tf.Tensor]:
    found = {}
    for name, dims in zip("xy", shapes, strict=False):
        value = random.normal(size=dims[:2]).astype(np.float32)
        found[name] = tf.constant(value)
        if dims[0] == 1:
            found[f"{name} as row"] = tf.constant(value[0])
    return found


def _fastest(run: Callable[[], object]) -> float:
    run()
    times: list[float] = []
    while len(times) < _FEWEST or len(times) < _MOST and sum(times) < _SECONDS:
        times.append(seconds_of(run))
    return min(times)


def seconds_of(run: Callable[[], object]) -> float:
    """Seconds that something takes: those that pass or, if these are fewer, those that processors work for it, so that
    it does not look slower on a busy machine."""
    start, worked = time.perf_counter(), time.process_time()
    run()
    return min(time.perf_counter() - start, time.process_time() - worked)


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
