"""Public programs: adapting changes no more than it says, ways are compared, and differences are seen."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from recgraph.benchmarks.public import command, running
from recgraph.benchmarks.public.adapting import WAYS, CannotAdapt, Public, adapted, code_of
from recgraph.benchmarks.public.programs import FIXED, PROGRAMS

PROGRAM = """
import tensorflow as tf
BATCH = 512
w = tf.Variable(1.0)

@tf.function
def train_step(x, rate=0.1):
    with tf.GradientTape() as tape:
        loss = (w * x - 2.0) ** 2
    w.assign_sub(rate * tape.gradient(loss, w))
    return loss

def show(x):
    raise ValueError(x)

for i in range(40):
    show(train_step(tf.constant(1.0)))
"""
LOOP = """
import tensorflow as tf
w, total = tf.Variable(1.0), 0.0
for epoch in range(20):
    for x in [1.0, 2.0, 3.0]:
        if x == 2.0:
            continue
        with tf.GradientTape() as tape:
            y = w * x
            loss = (y - 2.0) ** 2
        w.assign_sub(0.01 * tape.gradient(loss, w))
        total = total + loss
        if epoch == 15:
            break
print(total)
"""


def program(step: str, **more: Any) -> Public:
    """One that is in a file of this test's."""
    return Public("mine", "test", "me/mine", "0" * 40, "mine.py", step, **more)


def test_names_are_told_apart() -> None:
    """The option `--only` takes names with commas between them."""
    names = [one.name for one in (*PROGRAMS, *FIXED)]
    assert len(set(names)) == len(names)
    assert len(FIXED) == 20
    assert not any("," in name for name in names)
    assert all(len(one.commit) >= 9 for one in (*PROGRAMS, *FIXED))


@pytest.mark.parametrize("way", WAYS)
def test_only_what_is_said_is_changed(way: str) -> None:
    """Sizes, what is shown, and the marks; a `tf.function` stays where it is the program's own way."""
    made = program("train_step", sizes={"BATCH": "8", "rate": "0.5"}, without=("show",))
    tree = ast.parse(adapted(made, PROGRAM, way))
    step = next(one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "train_step")
    above = {"tf.function": "tf.function"}.get(way, "__public_function__")
    assert [ast.unparse(one) for one in step.decorator_list] == ["__public_step__", above]
    text = ast.unparse(tree)
    assert "BATCH = 8" in text
    assert "rate=0.5" in text
    assert "raise" not in text
    body = ast.parse(PROGRAM).body[3]
    assert isinstance(body, ast.FunctionDef)
    assert list(map(ast.unparse, step.body)) == list(map(ast.unparse, body.body))


def test_the_round_of_a_loop_becomes_a_function() -> None:
    """What the loop gives are its parameters; names that are used outside are global; `break` and `continue` stay."""
    made = adapted(program("loop"), LOOP, "decorated")
    names: dict[str, Any] = {"__public_step__": lambda f: f, "__public_function__": lambda f: f}
    exec(compile(made, "<made>", "exec"), names)
    plain: dict[str, Any] = {}
    exec(compile(LOOP, "<plain>", "exec"), plain)
    assert float(names["total"]) == float(plain["total"])
    assert float(names["w"]) == float(plain["w"])
    assert "global total" in made
    assert "def one_round(x):" in made
    with pytest.raises(CannotAdapt, match="no such loop"):
        adapted(program("train_step.loop"), PROGRAM, "eager")


def test_a_round_that_changes_what_the_loop_gives_leaves_it_behind() -> None:
    """The name is the module's, so it has in the end what the last round has left in it."""
    text = """
import tensorflow as tf
seen = []
for number, x in enumerate([1.0, 2.0]):
    x = x * 10.0
    with tf.GradientTape() as tape:
        seen.append((number, x))
print(x)
"""
    made = adapted(program("loop"), text, "decorated")
    names: dict[str, Any] = {"__public_step__": lambda f: f, "__public_function__": lambda f: f}
    exec(compile(made, "made", "exec"), names)
    assert (names["x"], names["seen"]) == (20.0, [(0, 10.0), (1, 20.0)])


def test_notebooks_are_read_without_lines_for_the_shell() -> None:
    """In blocks, too."""
    cells = [["!pip install x\n", "if True:\n", "  %env A=1\n", "y = 2"], ["%%bash\n", "rm x"], ["%%time\n", "z = 3"]]
    text = json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]})
    names: dict[str, Any] = {}
    exec(code_of(text, "a.ipynb"), names)
    assert (names["y"], names["z"]) == (2, 3)


def result(losses: list[float], **more: Any) -> dict[str, Any]:
    """What a process sends."""
    return {"results": [[loss] for loss in losses], "variables": {"w": [1.0]}, "raised": "", **more}


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (result([1.0, 2.0, 3.0]), ""),
        (result([1.0, 2.001, 3.0]), ""),
        (result([1.0, 2.1, 3.0]), "step 2 gives 2.1, eagerly 2"),
        (result([1.0, 2.0, 3.0], variables={"w": [1.1], "other": [2.0]}), "variables differ after step 3: those of w"),
        (result([1.0], raised="ValueError: x"), "raises ValueError: x"),
    ],
)
def test_a_difference_is_found(other: dict[str, Any], text: str) -> None:
    """At its step; or in what is left behind."""
    assert running.difference(result([1.0, 2.0, 3.0]), other) == text


def test_what_ran_at_the_end_is_what_was_decided() -> None:
    """Here the function is observed for three steps, and a graph from the fourth on."""
    states = [{"step": [i + 1, 0, 0]} for i in range(3)] + [{"step": [3, i, 0]} for i in range(1, 30)]
    given = {"states": states}
    assert running.decided("unmodified", given) == 3
    assert running.outcome("unmodified", given, "Model.step") == "graph"
    assert running.outcome("unmodified", given, "Model.train") == "parts"


@pytest.mark.slow
def test_a_program_runs_in_all_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder; the table has its line, and the figures are left."""
    from click.testing import CliRunner

    (tmp_path / "me+mine").mkdir()
    (tmp_path / "me+mine" / "mine.py").write_text(PROGRAM)
    monkeypatch.setitem(command.EVERY, "mine", program("train_step", without=("show",)))
    monkeypatch.setattr(command, "PROGRAMS", (command.EVERY["mine"],))
    options = ["--programs", tmp_path, "--work", tmp_path / "work", "--steps", 30, "--out", tmp_path / "out"]
    done = CliRunner().invoke(command.main, list(map(str, options)))
    assert done.exit_code == 0, done.output
    (row,) = json.loads((tmp_path / "out" / "public.json").read_text())["results"]
    assert not row["raised"]
    assert [one["difference"] for one in row["ways"].values()] == ["", "", ""]
    assert row["ways"]["unmodified"]["as"] == "graph"
    assert "1 programs of 1 run here at all." in done.output
