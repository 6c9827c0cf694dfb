"""The text that code was compiled from is found, and no other is taken for it."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.cpython import sources
from recgraph.speculate import Speculated
from recgraph.speculate.observe.syntax import syntax_of

TEXT = """import tensorflow as tf
def times(x):
    return x * {0}
def positive(x):
    if tf.reduce_sum(x) < 0.0:
        return x
    return x * {0}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where modules are imported from."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in ("reloaded", "edited"):
        sys.modules.pop(name, None)


def results(names: Any) -> tuple[list[float], float, Speculated]:
    """What its functions give, observed and converted."""
    called = Speculated(names["times"])
    given = [float(called(tf.constant(1.0))) for _ in range(6)]
    return given, float(rg.subgraph(names["positive"])(tf.constant(1.0))), called


def executed(text: str, filename: str) -> dict[str, Any]:
    """The names of a text that is executed; Python shows its lines."""
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    names: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, filename, "exec"), names)
    return names


def test_a_module_that_is_loaded_again_runs_its_new_text(folder: Path) -> None:
    """Also where it has as many letters as the old one."""
    file = folder / "reloaded.py"
    file.write_text(TEXT.format("2.0"))
    module = importlib.import_module("reloaded")
    assert results(vars(module))[:2] == ([2.0] * 6, 2.0)
    file.write_text(TEXT.format("3.0"))
    os.utime(file, (1, 1))
    importlib.reload(module)
    given, recursive, called = results(vars(module))
    assert (given, recursive) == ([3.0] * 6, 3.0)
    assert called.calls["graph"] == 3, called.explain()


def test_a_file_that_was_changed_and_not_loaded_again_is_not_taken(folder: Path) -> None:
    """The function runs as it was imported, eagerly, and the reason says so."""
    file = folder / "edited.py"
    file.write_text(TEXT.format("2.0"))
    module = importlib.import_module("edited")
    file.write_text(TEXT.format("30.0"))
    called = Speculated(module.times)
    assert [float(called(tf.constant(1.0))) for _ in range(6)] == [2.0] * 6
    assert called.given_up.endswith("edited.py has changed since times was compiled")
    with pytest.raises(rg.errors.DefinitionError, match="edited.py has changed since positive was compiled"):
        rg.subgraph(module.positive)(tf.constant(1.0))


def test_texts_that_share_a_name() -> None:
    """As those of `exec` and of a prompt do: each function that was decorated has its own, also the older ones."""
    called, recursive = [], []
    for i in range(3):
        names = executed(TEXT.format(f"{i}.0"), "<shared>")
        called.append(rg.function(names["times"], mode="speculate"))
        recursive.append(rg.subgraph(names["positive"]))
    for i, (one, other) in enumerate(zip(called, recursive, strict=True)):
        assert [float(one(tf.constant(1.0))) for _ in range(6)] == [float(i)] * 6
        assert float(other(tf.constant(1.0))) == i
        assert one.calls["graph"] == 3, one.explain()


def test_functions_at_one_place_of_two_texts_are_two() -> None:
    """A function that calls another which was typed at the same place is no recursion."""
    inner = executed("def twice(x): return x * 2.0\n", "<typed>")
    syntax = syntax_of(inner["twice"])
    outer = executed("def both(x): return twice(x) + 1.0\n", "<typed>")
    outer["twice"] = inner["twice"]
    assert syntax_of(outer["both"]).key != syntax.key
    called = Speculated(outer["both"])
    assert [float(called(tf.constant(1.0))) for _ in range(6)] == [3.0] * 6
    assert called.calls["graph"] == 3, called.explain()


def test_code_that_has_run_is_found() -> None:
    """Python 3.11 takes it for other code then."""
    names = executed(TEXT.format("4.0"), "<run>")
    for _ in range(50):
        names["times"](1.0)
    assert sources.text_of(names["times"].__code__, names).source == TEXT.format("4.0")


def test_constants_that_are_equal_are_not_the_same() -> None:
    """1 and True, 0.0 and -0.0."""
    for one, other in (("1", "True"), ("0.0", "-0.0"), ("{1, 2}", "{1, 3}")):
        function = executed(f"def f(x): return x in ({one},) or x in {{5, 6}}\n", "<constants>")["f"]
        text = f"def f(x): return x in ({other},) or x in {{5, 6}}\n"
        linecache.cache["<constants>"] = (len(text), None, [text], "<constants>")
        with pytest.raises(LookupError):
            sources.text_of(function.__code__, {})


def test_what_a_prompt_has_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A history without empty lines, with what was typed before and after, and an older function of the name."""
    lines = """import tensorflow as tf
def f(x):
    return x * 1.0
f(2.0)
@tf.autograph.experimental.do_not_convert
def f(x):
    if x > 3.0:
        return x
    return x * 2.0
class A:
    def f(self):
        return f(1.0)
f(2.0); g = lambda x: x + 2.0
def f(
x,
):
    return x
f(2.0)""".splitlines()
    history = types.SimpleNamespace(
        get_current_history_length=lambda: len(lines), get_history_item=lambda number: lines[number - 1]
    )
    monkeypatch.setitem(sys.modules, "readline", history)
    names: dict[str, Any] = {}
    for start, end, name in ((1, 3, "f"), (4, 9, "f"), (9, 12, "A"), (12, 13, "g"), (13, 17, "f")):
        text = "\n".join(lines[start:end]) + "\n"
        exec(compile(text, "<typed here>", "exec"), {"tf": tf, "f": None, **names}, names)
        function = names[name].f if name == "A" else names[name]
        code = getattr(function, "__wrapped__", function).__code__
        assert sources.text_of(code, names).source.startswith(text)
    assert sources.why_not(eval("lambda y: y * 17.0"))


def test_messages_name_cells() -> None:
    """Those without an IPython around them are left as they are."""
    assert sources.told("wrong (/tmp/x.py:3)") == "wrong (/tmp/x.py:3)"
