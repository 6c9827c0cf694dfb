"""What may happen around and inside of a speculated call: interrupts, forks, processes, graphs, nesting."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import tf_private
from recgraph.speculate import Speculated
from recgraph.speculate.machine.evaluator import RULES
from recgraph.speculate.run import function


class Counter:
    """Counts in a variable, an attribute and a list."""

    def __init__(self) -> None:
        self.w, self.n, self.seen = tf.Variable(0.0), 0, []

    def add(self, x: tf.Tensor) -> tf.Tensor:
        """All three, or none."""
        self.n += 1
        self.w.assign_add(x)
        self.seen.append(float(x))
        return self.w.read_value()

    def state(self) -> tuple[float, int, int]:
        """Should be three times the same."""
        return float(self.w), self.n, len(self.seen)


def test_an_interrupted_conversion_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of it is the user's; Keras's layers are as they were, and the next call converts."""

    class Inner(keras.layers.Layer):
        def call(self, x: tf.Tensor) -> tf.Tensor:
            self.add_loss(tf.reduce_sum(x))
            return x * 2.0

    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return self.inner(x) + 1.0

    net, rule, interrupt = Net(), RULES[ast.BinOp], [True]
    step = Speculated(lambda x: net(x))
    for _ in range(3):
        step(tf.ones([2]))

    def interrupted(ev: Any, node: Any) -> Any:
        if interrupt[0]:
            raise KeyboardInterrupt
        return rule(ev, node)

    monkeypatch.setitem(RULES, ast.BinOp, interrupted)
    losses = [list(layer._losses) for layer in net._flatten_layers()]
    with pytest.raises(KeyboardInterrupt):
        step(tf.ones([2]))
    assert all("call" not in layer.__dict__ for layer in net._flatten_layers())
    assert [len(layer._losses) for layer in net._flatten_layers()] == [len(before) for before in losses]
    assert tf.executing_eagerly()
    assert not function._CONVERTING.locked()
    interrupt[0] = False
    np.testing.assert_array_equal(step(tf.ones([2])), [3.0, 3.0])
    assert step.calls["graph"] == 1, step.explain()


def test_an_interrupt_behind_the_graph_waits_for_the_rest_of_the_call() -> None:
    """The variable is written, so the attribute and the list are, too; then the interrupt is raised."""
    counter = Counter()
    step = Speculated(counter.add)
    for _ in range(5):
        step(tf.constant(1.0))
    assert step.calls["graph"] == 2, step.explain()
    script = _script_of(step._graphs[0].call)
    graph = script.__globals__["graph"]

    def interrupted(feeds: Any) -> Any:
        result = graph(feeds)
        signal.raise_signal(signal.SIGINT)
        return result

    script.__globals__["graph"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        step(tf.constant(1.0))
    script.__globals__["graph"] = graph
    assert counter.state() == (6.0, 6, 6)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    step(tf.constant(1.0))
    assert counter.state() == (7.0, 7, 7)


def _script_of(call: Any) -> Any:
    """The script in what runs it."""
    while call.__code__.co_name != "call" or "graph" not in call.__globals__:
        call = next(c.cell_contents for c in call.__closure__ if getattr(c.cell_contents, "__name__", "") == "call")
    return call


def test_interrupts_at_any_moment_leave_whole_calls() -> None:
    """Real signals, while graphs run; one in a call, for a second Ctrl-C does not wait for the rest of it."""
    counter = Counter()
    step = Speculated(counter.add)
    for _ in range(5):
        step(tf.constant(1.0))
    interrupts = 0
    stop = threading.Event()

    def send() -> None:
        while not stop.wait(0.003):
            os.kill(os.getpid(), signal.SIGUSR1)

    def handle(*_: Any) -> None:
        nonlocal is_calling
        if is_calling and sys._getframe(1).f_code.co_filename != __file__:  # inside of a call, as Ctrl-C would come
            is_calling = False
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGUSR1, handle)
    sender = threading.Thread(target=send)
    is_calling = False
    try:
        sender.start()
        end = time.monotonic() + 2.0
        while time.monotonic() < end and interrupts < 20:
            try:
                is_calling = True
                step(tf.constant(1.0))
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                is_calling = False
    finally:
        stop.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    w, n, seen = counter.state()
    assert w == n == seen


def test_an_interrupted_graph_puts_variables_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written before something that may fail is undone, whatever ends the call."""
    interrupt = [False]
    fast_call = tf_private.fast_call

    def interrupted_call(concrete: Any, **named: Any) -> Any:
        call = fast_call(concrete, **named)

        def run(tensors: Any) -> Any:
            result = call(tensors)
            if interrupt[0]:
                raise KeyboardInterrupt
            return result

        return run

    monkeypatch.setattr(tf_private, "fast_call", interrupted_call)
    w = tf.Variable(1.0)

    def step(x: tf.Tensor) -> tf.Tensor:
        w.assign_add(x)
        tf.debugging.assert_less(w.read_value(), 1000.0)
        return w * 2.0

    called = Speculated(step)
    for _ in range(5):
        called(tf.constant(1.0))
    assert called.calls["graph"] > 0, called.explain()
    interrupt[0] = True
    with pytest.raises(KeyboardInterrupt):
        called(tf.constant(1.0))
    assert float(w) == 6.0
    interrupt[0] = False
    assert float(called(tf.constant(1.0))) == 14.0


def test_one_speculated_function_calls_another() -> None:
    """Watched, converted and failing together; the inner one is a part of the outer one's graph."""
    w = tf.Variable(2.0)

    @rg.function(mode="speculate")
    def inner(x: tf.Tensor) -> tf.Tensor:
        return x * w

    @rg.function(mode="speculate")
    def outer(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = inner(x) ** 2
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    def eagerly(count: int) -> list[float]:
        v, seen = tf.Variable(2.0), []
        for _ in range(count):
            with tf.GradientTape() as tape:
                loss = v**2
            v.assign_sub(0.1 * tape.gradient(loss, v))
            seen.append(float(loss))
        return seen

    assert [float(outer(tf.constant(1.0))) for _ in range(8)] == pytest.approx(eagerly(8))
    assert outer.calls["graph"] == 5, outer.explain()
    assert sum(inner.calls.values()) == 0  # it was watched, too, as a part of the outer one
    assert float(inner(tf.constant(1.0))) == pytest.approx(float(w))


def test_two_that_call_each_other() -> None:
    """Each a part of the other, by turns, until a number ends it."""

    @rg.function
    def even(x: tf.Tensor, n: int) -> tf.Tensor:
        return x if n == 0 else odd(x * 2.0, n - 1)

    @rg.function
    def odd(x: tf.Tensor, n: int) -> tf.Tensor:
        return -x if n == 0 else even(x * 3.0, n - 1)

    for n in (3, 3, 3, 3, 3, 4, 4, 2, 3):
        expected = {2: 6.0, 3: -12.0, 4: 36.0}[n]
        assert float(even(tf.constant(1.0), n)) == expected


def test_inside_of_graphs_datasets_and_strategies() -> None:
    """There it is the plain function, converted by AutoGraph where that would be."""

    @rg.function
    def step(x: tf.Tensor) -> tf.Tensor:
        if x > 1.0:
            return x * 2.0
        return x

    for _ in range(5):
        step(tf.constant(3.0))
    before = dict(step.calls)
    data = tf.data.Dataset.from_tensor_slices([0.5, 1.5, 2.5])
    assert [float(x) for x in data.map(step)] == [0.5, 3.0, 5.0]
    assert [float(x) for x in data.map(lambda x: step(x) + 1.0)] == [1.5, 4.0, 6.0]
    assert float(tf.function(step)(tf.constant(2.0))) == 4.0
    np.testing.assert_array_equal(tf.map_fn(tf.function(step), tf.constant([0.5, 2.0])), [0.5, 4.0])
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    assert float(strategy.run(step, (tf.constant(2.0),))) == 4.0
    assert step.calls == before


def test_a_dataset_made_inside_of_a_block() -> None:
    """What TensorFlow traces there is left alone."""
    w = tf.Variable(1.0)

    def train(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = (w * x) ** 2
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    def program() -> list[float]:
        w.assign(1.0)
        data = tf.data.Dataset.range(8).map(lambda i: tf.cast(i, tf.float32) * 0.5)
        return [float(train(x)) for x in data]

    expected = program()
    with rg.speculation() as found:
        assert program() == pytest.approx(expected)
    (trained,) = found.functions.values()
    assert trained.calls["graph"] == 4, found.explain()


def test_a_thread_that_calls_while_another_converts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait: it runs eagerly."""
    counter = Counter()
    step = Speculated(counter.add)
    for _ in range(3):
        step(tf.constant(1.0))
    inside, go = threading.Event(), threading.Event()
    convert = function.convert

    def slow(*arguments: Any) -> Any:
        inside.set()
        assert go.wait(60)
        return convert(*arguments)

    monkeypatch.setattr(function, "convert", slow)
    thread = threading.Thread(target=lambda: step(tf.constant(1.0)))
    thread.start()
    assert inside.wait(60)
    for _ in range(4):
        step(tf.constant(1.0))
    go.set()
    thread.join()
    assert counter.state() == (8.0, 8, 8)


def _run_script(folder: Path, text: str) -> str:
    file = folder / "program.py"
    file.write_text(textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_processes_that_are_forked_and_spawned(tmp_path: Path) -> None:
    """A forked one has no threads to run graphs: it runs eagerly. One that is spawned gets the function by its name."""
    printed = _run_script(
        tmp_path,
        """
        import multiprocessing, os, pickle, sys, threading
        import tensorflow as tf
        import recgraph as rg
        from recgraph.speculate.run import function

        w = tf.Variable(2.0)

        @rg.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = (w * x) ** 2
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return float(loss)

        def several(count):
            return [step(tf.constant(1.0)) for _ in range(count)], dict(step.calls)

        if __name__ == "__main__":
            here, _ = several(6)
            assert step.calls["graph"] == 3
            context = multiprocessing.get_context("spawn")
            with context.Pool(1) as pool:
                there, calls = pool.apply(several, (6,))
            assert there == here and calls["graph"] == 3, (there, here, calls)
            function._CONVERTING.acquire()  # as if another thread were converting
            expected = []
            value = float(w)
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                before = dict(step.calls)
                results = [step(tf.constant(1.0)) for _ in range(5)]
                os.write(write, pickle.dumps((results, step.calls == before, function._CONVERTING.locked())))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            assert status == 0
            results, is_plain, is_locked = pickle.loads(os.read(read, 100000))
            function._CONVERTING.release()
            assert [step(tf.constant(1.0)) for _ in range(5)] == results
            print(is_plain, is_locked)
        """,
    )
    assert printed.split() == ["True", "False"]


def test_two_files_with_the_same_text(tmp_path: Path) -> None:
    """Their functions have equal code objects; each keeps its own file's name."""
    functions = []
    for name in ("one.py", "other.py"):
        path = tmp_path / name
        path.write_text("def step(x):\n    y = x + 1.0\n    return y * y\n")
        names: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        functions.append(Speculated(names["step"]))
    assert functions[0].function.__code__ == functions[1].function.__code__
    for name, step in zip(("one.py", "other.py"), functions, strict=True):
        for _ in range(4):
            assert float(step(tf.constant(1.0))) == 4.0
        assert f"{name}:1" in step.explain()
        assert step.calls["graph"] == 1
