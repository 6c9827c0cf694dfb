"""How often the pieces of a program are converted, how many graphs it gets, what it prints and in which order."""

from __future__ import annotations

import os
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.speculate import Speculated
from recgraph.speculate.evaluate import expressions as on_expressions
from recgraph.speculate.machine.evaluator import RULES
from recgraph.speculate.run import conversion
from recgraph.speculate.run.specialization import SpecializationLevel

_SIZES = (4, 8, 16)


def _chain(size: int) -> str:
    """As many conditions, one after the other."""
    ways = "".join(f"    elif x < {i}.0:\n        y = x * {i}.0\n" for i in range(1, size))
    return f"def step(x):\n    if x < 0.0:\n        y = x\n{ways}    else:\n        y = -x\n    return y\n"


def _nest(size: int) -> str:
    """As many conditions, one in the other."""
    ways = "".join(f"{'    ' * (i + 1)}if x > {i}.0:\n{'    ' * (i + 2)}y = y * 2.0\n" for i in range(size))
    return f"def step(x):\n    y = x\n{ways}    return y\n"


def _printing(size: int) -> str:
    """A chain of which the last way does not fit into a graph with the others."""
    return _chain(size).replace("        y = -x\n", "        print('last')\n        y = -x\n")


def _converted(text: str, path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many comparisons are converted for a function that gives the eager results."""
    path.write_text(text)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, str(path), "exec"), names)
    count = [0]

    def compare(ev: Any, node: Any) -> Any:
        count[0] += 1
        return on_expressions._compare(ev, node)

    monkeypatch.setitem(RULES, next(kind for kind in RULES if kind.__name__ == "Compare"), compare)
    step = Speculated(names["step"])
    for i in range(size + 6):
        x = tf.constant(i * 7 % (size + 2) - 0.5)
        assert float(step(x)) == float(names["step"](x))
    assert step.calls["graph"] > 0, step.explain()
    return count[0]


@pytest.mark.parametrize(("program", "power"), [(_chain, 1), (_nest, 1), (_printing, 2)])
def test_conversion_does_not_explode(
    program: Callable[[int], str], power: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of conditions in each other each is converted as often as the others, not twice as often as the one around."""
    counts = [_converted(program(n), tmp_path / f"p{n}.py", n, monkeypatch) for n in _SIZES]
    rounds = [n * (n + 6) for n in _SIZES]  # a conversion for each call would be as many
    assert all(count <= 4 * n * n**power for count, n in zip(counts, _SIZES, strict=True)), (counts, rounds)


def test_a_graph_for_each_step_of_the_lattice() -> None:
    """Dimensions become unknown one after the other; then every shape fits."""
    step = Speculated(lambda x: tf.reduce_sum(x * 2.0, 1))
    sizes = []
    shapes = [(4, 8)] * 4 + [(3, 8), (3, 8), (2, 8), (5, 8), (3, 7), (3, 7), (2, 8), (9, 9), (1, 1)]
    for shape in shapes:
        before = dict(step.calls)
        assert step(tf.ones(shape)).shape == shape[:1]
        sizes.append(step.calls["graph"] - before["graph"])
    assert sizes == [0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1]


def _tries(step: Speculated, calls: list[tf.Tensor], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each attempt at a graph, whether shapes were exact in it."""
    tried: list[bool] = []
    convert = conversion._convert

    def count(function: Any, parameters: Any, settings: Any, generality: SpecializationLevel) -> Any:
        tried.append(generality.has_exact_shapes)
        return convert(function, parameters, settings, generality)

    monkeypatch.setattr(conversion, "_convert", count)
    for x in calls:
        np.testing.assert_array_equal(step(x), step.function(x))
    return tried


def _rows(x: tf.Tensor) -> tf.Tensor:
    return tf.add_n(tf.unstack(x))


def test_a_conversion_begins_with_what_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be converted with open shapes is not tried so each time, but now and then."""
    step = Speculated(_rows)
    calls = [tf.ones((n // 2, 2)) for n in range(4, 40)]
    tried = _tries(step, calls, monkeypatch)
    assert tried[:9] == [False, False, *[True] * 5, False, True], tried
    assert step.calls["graph"] > 0


def test_what_worked_does_not_stay_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where exact shapes were needed for a while, graphs hold for all shapes again."""
    exact = [True]

    def step(x: tf.Tensor) -> tf.Tensor:
        return _rows(x) if exact[0] else x * 2.0

    speculated = Speculated(step)
    calls = [tf.ones((n, 2)) for n in (2, 3, 4, 5, 6)]
    assert any(_tries(speculated, calls, monkeypatch))
    exact[0] = False
    for n in range(2, 40):
        np.testing.assert_array_equal(speculated(tf.ones((n, 2))), step(tf.ones((n, 2))))
    before = speculated.calls["graph"]
    for n in range(40, 60):
        speculated(tf.ones((n, 2)))
    assert speculated.calls["graph"] == before + 20, speculated.explain()


def _written(step: Callable[..., Any], v: tf.Variable) -> bytes:
    """What calls write to the descriptor of the standard output."""
    v.assign(1.0)
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        before = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            for i in range(8):
                step(tf.random.stateless_normal([2, 3], [1, i]))
        finally:
            os.dup2(before, 1)
            os.close(before)
        file.seek(0)
        return file.read()


def test_prints_keep_their_order() -> None:
    """What `tf.print` writes comes where it comes eagerly, to the byte, between what Python writes."""
    v = tf.Variable(1.0)

    def step(x: tf.Tensor) -> None:
        print("begin", flush=True)
        tf.print("first", x[0], v, "{}", output_stream=sys.stdout)
        v.assign_add(1.0)
        tf.print("text", output_stream=sys.stdout)
        tf.print(x[0, 0], tf.constant("word"), [x[0], {"k": x[1, 1]}], summarize=1, output_stream=sys.stdout)
        tf.print(1, 2, v, sep="-", end="!\n", output_stream=sys.stdout)
        if x[0, 0] > 0:
            tf.print("positive", output_stream=sys.stdout)

    speculated = Speculated(step)
    assert _written(speculated, v) == _written(step, v)
    assert speculated.calls["graph"] > 0, speculated.explain()


def test_prints_beside_a_kernels_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only IPython's shell takes what TensorFlow prints; a program may have imported a kernel's modules for itself."""
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    step = Speculated(lambda x: tf.print("seen", x, output_stream=sys.stdout))
    assert [step(tf.constant(1.0)) for _ in range(5)] == [None] * 5
    assert step.calls["graph"] > 0, step.explain()


def test_numbers_that_tensorflow_prints() -> None:
    """A number is written as Python writes it, of which a tensor has fewer digits, and another size."""
    held: list[Any] = []

    def step(x: tf.Tensor) -> None:
        n = len(held)
        held.append(n * 0.1)
        tf.print(n * 0.1, 2**40 * n, f"{n}", [n, held[-1]], x[0, 0], output_stream=sys.stdout)

    def made(x: tf.Tensor) -> None:
        tf.print(x[0, 0], float(x[0, 0]) * 0.1, output_stream=sys.stdout)

    for program in (step, made):
        speculated, v = Speculated(program), tf.Variable(1.0)
        held.clear()
        expected = _written(program, v)
        held.clear()
        assert _written(speculated, v) == expected
