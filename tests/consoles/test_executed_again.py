"""A cell that is executed again leaves nothing behind: the new definitions run, the old ones are freed."""

from __future__ import annotations

import gc
import linecache
import weakref
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from tests import sampling

TIMES = sampling.count("repeats", 30)
STEP = """
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((x @ w) ** 2) * {i}.0
    w.assign_sub(0.0 * tape.gradient(loss, w))
    return loss
"""
CELLS = {
    "speculated": "@rg.function(mode='speculate')"
    + STEP
    + "for _ in range(5): last = step(x)\nmade = [step, step._graphs[0]]",
    "decorated": "@rg.function" + STEP + "for _ in range(5): last = step(x)\nmade = [step, step._graphs[0]]",
    "co-executed": "@rg.function(mode='coexec')"
    + STEP
    + "for _ in range(5): last = step(x)\nmade = [step, step.phases]",
    "undecorated": STEP + "with block:\n    for _ in range(6): last = step(x)\nmade = [step]",
    "recursive": """
@rg.subgraph
def step(n):
    if n < 1.0:
        return tf.reduce_sum((x @ w) ** 2) * {i}.0
    return step(n - 1.0)
last = step(tf.constant(2.0))
made = [step, step.subgraphs[0]]
""",
    "of a SubGraph": """
with rg.SubGraph("step", outputs=tf.TensorSpec([])) as step:
    n = step.input(tf.int32)
    step.output(tf.cond(n < 1, lambda: tf.reduce_sum((x @ w) ** 2) * {i}.0, lambda: step(n - 1)))
last = step(2)
made = [step]
""",
}


def execute(cell: str, number: int, names: dict[str, Any]) -> None:
    """Executes a cell as a notebook does."""
    filename = f"<cell {number}>"
    linecache.cache[filename] = (len(cell), None, cell.splitlines(True), filename)
    exec(compile(cell, filename, "exec"), names)
    del linecache.cache[filename]


def names_of_a_notebook() -> dict[str, Any]:
    """What earlier cells have made."""
    return {"tf": tf, "rg": rg, "x": tf.ones([2, 3]), "block": rg.speculation(), "__name__": "__main__"}


@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_with_variables(kind: str) -> None:
    """Everything in it is new, under the names that it had."""
    names, references = names_of_a_notebook(), []
    times = TIMES if "recursive" not in kind and "SubGraph" not in kind else TIMES // 10
    for i in range(times):
        execute("w = tf.Variable(tf.ones([3, 2]))\n" + CELLS[kind].format(i=i + 1), i, names)
        assert float(names["last"]) == 36.0 * (i + 1)
        references.append([weakref.ref(thing) for thing in (names["w"], *names["made"])])
    gc.collect()
    alive = [[reference() is not None for reference in each] for each in references]
    assert sum(map(any, alive[:-1])) == 0
    assert len(names["block"].functions) <= 10


@pytest.mark.parametrize("mode", ["auto", "speculate", "coexec"])
def test_a_cell_with_a_helper(mode: str) -> None:
    """A step of another cell calls the new one, as a graph again, however often that is; the old one is freed."""
    names, references = names_of_a_notebook(), []
    step = "def step(x):\n    return helper(x) * tf.reduce_sum(w)"
    execute(f"w = tf.Variable(tf.ones([3, 2]))\n@rg.function(mode={mode!r})\n{step}", 0, names)
    for i in range(1, TIMES):
        execute(f"def helper(x): return tf.reduce_sum(x) * {i}.0\nfor _ in range(8): last = step(x)", i, names)
        assert float(names["last"]) == 36.0 * i
        references.append(weakref.ref(names["helper"]))
    gc.collect()
    assert sum(reference() is not None for reference in references) == 1
    if mode == "speculate":
        assert not names["step"].given_up, names["step"].explain()
        assert names["step"].calls["graph"] > 5 * TIMES, names["step"].explain()


@pytest.mark.parametrize("mode", ["auto", "speculate", "coexec"])
def test_a_cell_with_a_variable(mode: str) -> None:
    """The same where it is a variable that is new."""
    names, references = names_of_a_notebook(), []
    execute(f"@rg.function(mode={mode!r})\ndef step(x):\n    return tf.reduce_sum(x @ w)", 0, names)
    for i in range(1, TIMES):
        execute(f"w = tf.Variable(tf.ones([3, 2]) * {i}.0)\nfor _ in range(8): last = step(x)", i, names)
        assert float(names["last"]) == 12.0 * i
        references.append(weakref.ref(names["w"]))
    gc.collect()
    assert sum(reference() is not None for reference in references) == 1
