"""Debuggers, tracers and blocks of one call: a program that is looked at closely while it is watched."""

from __future__ import annotations

import gc
import inspect
import io
import pdb
import sys
import trace
import traceback
import weakref
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg

W = tf.Variable(3.0)


def step(x: tf.Tensor) -> tf.Tensor:
    """Differentiates and fails where it is told to."""
    with tf.GradientTape() as tape:
        loss = (W * x) ** 2
    gradient = tape.gradient(loss, W)
    if x.shape.rank == 1:
        raise ValueError("a vector")
    return gradient


_RUN = ("with tf", "loss = ", "gradient = ", "if x.shape", "return gradient")


def _line(text: str) -> int:
    lines, first = inspect.getsourcelines(step)
    return first + next(i for i, line in enumerate(lines) if text in line)


def _debugged(call: Any, commands: str) -> str:
    """What pdb prints, with a breakpoint behind the tape."""
    printed = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=printed, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    assert debugger.set_break(__file__, _line("gradient = ")) is None
    try:
        debugger.runcall(call, tf.constant(2.0))
    finally:
        debugger.clear_all_breaks()
        sys.settrace(None)
    return printed.getvalue()


def test_a_debugger_stops_in_a_function_that_is_watched() -> None:
    """At the user's line, with the user's names; `next` goes to the next line of the file."""
    called = rg.function(step)
    printed = _debugged(called, "continue\np float(loss) + 4\nnext\np float(gradient) + 1\ncontinue\n")
    assert f"{__file__}({_line('gradient = ')})step()" in printed
    assert "40.0" in printed
    assert f"{__file__}({_line('if x.shape')})step()" in printed
    assert "25.0" in printed
    assert called.calls == {"eager": 1, "graph": 0, "fallback": 0}


def test_a_tracer_sees_the_lines_of_calls_that_are_watched() -> None:
    """Those that it sees without us, as coverage counts them."""

    def counted(call: Any) -> set[int]:
        tracer = trace.Trace(count=1, trace=0)
        for _ in range(2):
            tracer.runfunc(call, tf.constant(1.0))
        counts = tracer.results().counts
        body = range(_line("with tf"), _line("return gradient") + 1)
        return {line for file, line in counts if file == __file__ and line in body}

    assert counted(rg.function(step)) == counted(step) == {_line(text) for text in _RUN}


def test_a_traceback_shows_the_line_that_failed() -> None:
    """Of a decorated function, watched and converted; what is below the user's frame is the same."""
    called = rg.function(step)
    for i in range(8):
        called(tf.constant(1.0))
        with pytest.raises(ValueError, match="a vector") as raised:
            called(tf.ones([1]))
        last = traceback.extract_tb(raised.value.__traceback__)[-1]
        assert (last.filename, last.lineno, last.name) == (__file__, _line("raise"), "step"), i
    assert called.calls["graph"] > 0, called.explain()


def test_a_block_around_every_single_call() -> None:
    """What one block has found is the next one's."""
    found = rg.speculation()
    for _ in range(6):
        with found:
            assert float(step(tf.constant(2.0))) == 24.0
    assert found.functions["step"].calls == {"eager": 3, "graph": 2, "fallback": 0}


def test_nothing_is_left_of_a_block() -> None:
    """Nor of what it found, nor of the models that it has seen."""

    class Model:
        def __init__(self) -> None:
            self.w = tf.Variable(1.0)

        def step(self, x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = self.w * x
            return tape.gradient(loss, self.w)

    model, found = Model(), rg.speculation()
    with found:
        for _ in range(6):
            model.step(tf.constant(1.0))
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = model.step(tf.constant(1.0))
            tape.gradient(loss, model.w)
    (method,) = found.functions.values()
    assert method.calls["graph"] >= 4, found.explain()
    dead = [weakref.ref(thing) for thing in (found, method, model, model.w)]
    del model, found, method, tape, loss
    gc.collect()
    assert [reference() for reference in dead] == [None] * 4
