"""`rg.speculation()`: programs that know nothing of it are found, run as graphs, and are left as they were."""

from __future__ import annotations

import contextlib
import inspect
import io
import pdb
import pickle
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import native

W = tf.Variable(3.0)


def step(x: tf.Tensor, rate: float = 0.1, *, scale: float = 1.0) -> tf.Tensor:
    """A training step of this module."""
    with tf.GradientTape() as tape:
        loss = scale * (W * x - 1.0) ** 2
    W.assign_sub(rate * tape.gradient(loss, W))
    return loss


def loss_of(x: tf.Tensor) -> tf.Tensor:
    """A loss of this module."""
    return (W * x - 1.0) ** 2


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    W.assign(3.0)
    yield
    assert native.frames().activate(None) is None  # no test leaves a hook behind


def test_the_function_that_enters_a_tape_becomes_a_graph() -> None:
    """With the values that it has without us, arguments of every kind included."""

    def program() -> list[float]:
        W.assign(3.0)
        losses = [float(step(tf.constant(1.0 + i % 2), scale=2.0)) for i in range(8)]
        return [*losses, float(step(tf.constant(1.0), 0.2, scale=2.0)), float(W)]

    expected = program()
    with rg.speculation() as found:
        assert program() == pytest.approx(expected)
    assert list(found.functions) == ["step"]
    assert found.functions["step"].calls["graph"] >= 4, found.explain()


def test_a_tape_in_a_loop_has_the_functions_in_its_body_converted() -> None:
    """The tape differentiates through the graph, as often as it likes: variables, inputs, twice, persistently."""

    def program() -> list[Any]:
        seen = []
        for i in range(8):
            x = tf.constant(1.0 + i)
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape(persistent=True) as tape:
                    tape.watch(x)
                    loss = loss_of(x)
                to_x = tape.gradient(loss, x)
            seen += [loss, to_x, tape.gradient(loss, W), outer.gradient(to_x, x), tape.watched_variables()[0] is W]
        return seen

    expected = program()
    with rg.speculation() as found:
        assert np.allclose(program(), expected)
    assert found.functions["loss_of"].calls["graph"] >= 3, found.explain()


def test_a_tape_at_the_top_of_a_module(tmp_path: Any) -> None:
    """A script without any function around its loop; what a helper calls is a part of the helper."""
    file = tmp_path / "script.py"
    file.write_text(
        "import tensorflow as tf\nw = tf.Variable(2.0)\nlosses = []\n"
        "def square(x):\n    return x * x\n"
        "def loss_of(x):\n    return square(w * x)\n"
        "for i in range(7):\n    with tf.GradientTape() as tape:\n        loss = loss_of(tf.constant(1.0))\n"
        "    w.assign_sub(0.1 * tape.gradient(loss, w))\n    losses.append(float(loss))\n"
    )
    results = []
    for found in (None, rg.speculation()):
        names: dict[str, Any] = {"__name__": "script"}
        with found or contextlib.nullcontext():
            exec(compile(file.read_text(), str(file), "exec"), names)
        results.append(names["losses"])
    assert results[0] == results[1]
    assert list(found.functions) == ["loss_of"]
    assert found.functions["loss_of"].calls["graph"] == 4, found.explain()


class Regression:
    """A program whose gradients are computed by a function of their own."""

    def __init__(self) -> None:
        keras.utils.set_random_seed(1)
        self.model = keras.Sequential([keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
        self.model.build((None, 3))
        self.optimizer = keras.optimizers.Adam(0.01)
        self.optimizer.build(self.model.trainable_variables)

    def gradients(self, x: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.model(x) - 1.0) ** 2)
        return loss, tape.gradient(loss, self.model.trainable_variables)

    def update(self, x: tf.Tensor) -> tf.Tensor:
        loss, gradients = self.gradients(x)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return loss

    def epoch(self, steps: int) -> list[float]:
        losses = []
        for i in range(steps):
            loss, gradients = self.gradients(tf.fill([2, 3], float(i)))
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
            losses.append(float(loss))
        return losses


def test_what_calls_a_function_with_a_tape_once_becomes_a_graph() -> None:
    """So the update of the optimizer is in the graph, too."""
    expected, program = Regression(), Regression()
    with rg.speculation() as found:
        losses = [float(program.update(tf.fill([2, 3], float(i)))) for i in range(20)]
    assert losses == pytest.approx([float(expected.update(tf.fill([2, 3], float(i)))) for i in range(20)], rel=1e-4)
    assert found.functions["Regression.update"].calls["graph"] >= 5, found.explain()


def test_what_calls_it_in_a_loop_stays_and_the_optimizer_has_a_graph() -> None:
    """An epoch is no step: nothing would be gained by waiting for the next."""
    expected, program = Regression(), Regression()
    with rg.speculation() as found:
        losses = [loss for _ in range(3) for loss in program.epoch(6)]
    assert losses == pytest.approx([loss for _ in range(3) for loss in expected.epoch(6)], rel=1e-4)
    assert {"Regression.gradients", "optimizer_update"} <= set(found.functions)
    assert "Regression.epoch" not in found.functions
    assert found.functions["optimizer_update"].calls["graph"] >= 10, found.explain()


def guide(steps: int) -> list[Any]:
    """The training loop that guides of Keras show: a function that trains for an epoch and calls Keras only."""
    keras.utils.set_random_seed(3)
    x = tf.random.stateless_normal([8, 4], [1, 2])
    y = tf.cast(x[:, 0] > 0.0, tf.int32)
    hidden = keras.layers.Dense(8, "relu", kernel_regularizer="l2")
    model = keras.Sequential([keras.Input([4]), hidden, keras.layers.Dropout(0.25), keras.layers.Dense(2)])
    optimizer, metric = keras.optimizers.Adam(0.01), keras.metrics.SparseCategoricalAccuracy()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    history: list[Any] = []
    for i in range(steps):
        count = 8 if i % 5 else 6
        with tf.GradientTape() as tape:
            logits = model(x[:count], training=True)
            loss = loss_of(y[:count], logits) + tf.add_n(model.losses)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        metric.update_state(y[:count], logits, sample_weight=tf.ones([count]) * 0.5)
        history.append((float(loss), float(metric.result())))
        if i % 10 == 9:
            metric.reset_state()
    return [*history, *(weight.numpy() for weight in model.weights)]


def test_what_a_loop_calls_of_keras_has_graphs() -> None:
    """Models, losses, metrics and optimizers; with dropout, weight decay and two sizes of a batch."""
    expected = guide(40)
    with rg.speculation() as found:
        losses = guide(40)
    for one, other in zip(losses, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-4, 1e-6)
    counts = {name: one.calls["graph"] for name, one in found.functions.items()}
    assert set(counts) == {"model_call", "loss_call", "metric_update", "optimizer_update"}
    assert min(counts.values()) >= 30, found.explain()


def test_a_model_of_the_programs_is_no_model_of_kerass() -> None:
    """What a class of the program's does around the layers, in its own `__call__` too, is done in every call."""
    calls = []

    class Counting(keras.Sequential):
        def __call__(self, *arguments: Any, **named: Any) -> Any:
            calls.append(len(arguments))
            return super().__call__(*arguments, **named)

    model = Counting([keras.Input([3]), keras.layers.Dense(1)])
    with rg.speculation():
        for _ in range(8):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(tf.ones([2, 3])))
            tape.gradient(loss, model.trainable_variables)
    assert len([one for one in calls if one == 1]) >= 8


def test_the_call_of_a_model_in_a_loop() -> None:
    """A class of the user's, called by Keras, trained from outside."""

    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
            return self.dense(x) * (2.0 if training else 1.0)

    def program() -> list[float]:
        net, optimizer = Net(), keras.optimizers.SGD(0.05)
        losses = []
        for _ in range(8):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((net(tf.ones([2, 3]), training=True) - 1.0) ** 2)
            variables = net.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            losses.append(float(loss))
        return losses

    expected = program()
    with rg.speculation() as found:
        assert program() == pytest.approx(expected)
    call, update = sorted(found.functions.values(), key=lambda one: one.name == "optimizer_update")
    assert update.name == "optimizer_update"
    assert update.calls["graph"] > 0, found.explain()
    assert call.name.endswith("Net.call")
    assert call.calls["graph"] >= 4, found.explain()


def test_an_optimizer_that_is_given_the_loss() -> None:
    """`minimize` enters the tape: a lambda that is made anew in every round."""

    def program() -> list[float]:
        w, optimizer, losses = tf.Variable(3.0), tf.compat.v1.train.GradientDescentOptimizer(0.1), []
        for i in range(8):
            optimizer.minimize(lambda: (w * (1.0 + i)) ** 2, var_list=[w])  # noqa: B023
            losses.append(float(w))
        return losses

    expected = program()
    with rg.speculation() as found:
        assert program() == pytest.approx(expected)
    (loss,) = found.functions.values()
    assert loss.calls["graph"] >= 3, found.explain()


def _make_step(w: tf.Variable, k: float) -> Any:
    count = 0

    def inner(x: tf.Tensor) -> tf.Tensor:
        nonlocal count
        count += 1
        with tf.GradientTape() as tape:
            loss = (w * x * k) ** 2 + float(count)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    return inner


def test_functions_made_anew_share_their_graphs() -> None:
    """The same code with other closures: each has its own cells, written cells included."""

    def program() -> list[float]:
        w, seen = tf.Variable(1.0), []
        for i in range(10):
            inner = _make_step(w, 1.0 + i)
            seen += [float(inner(tf.constant(1.0))), float(inner(tf.constant(0.5)))]
        return seen

    expected = program()
    with rg.speculation() as found:
        assert program() == pytest.approx(expected)
    (inner,) = found.functions.values()
    assert inner.calls["graph"] >= 10, found.explain()


def test_methods_closures_and_keywords() -> None:
    """Of several objects, one after the other."""

    class Trainer:
        def __init__(self, w: float) -> None:
            self.w, self.n = tf.Variable(w), 0

        def step(self, *xs: tf.Tensor, rate: float, **more: Any) -> tf.Tensor:
            self.n += 1
            with tf.GradientTape() as tape:
                loss = tf.add_n([(self.w * x) ** 2 for x in xs]) * more.get("scale", 1.0)
            self.w.assign_sub(rate * tape.gradient(loss, self.w))
            return loss

    def program() -> list[float]:
        trainers, seen = [Trainer(float(i)) for i in range(3)], []
        for _ in range(6):
            seen += [float(t.step(tf.constant(1.0), tf.constant(2.0), rate=0.01, scale=3.0)) for t in trainers]
        return [*seen, *(t.n for t in trainers)]

    expected = program()
    with rg.speculation() as found:
        assert program() == pytest.approx(expected)
    (method,) = found.functions.values()
    assert method.calls["graph"] >= 9, found.explain()


def test_recursion_and_generators() -> None:
    """A function that differentiates and calls itself; a generator that differentiates is left alone."""

    def descend(x: tf.Tensor, n: int) -> tf.Tensor:
        if n == 0:
            return x
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return descend(x - 0.1 * tape.gradient(y, x), n - 1)

    def rounds(count: int) -> Iterator[tf.Tensor]:
        for i in range(count):
            with tf.GradientTape() as tape:
                loss = loss_of(tf.constant(float(i)))
            yield tape.gradient(loss, W)

    def program() -> list[float]:
        return [float(descend(tf.constant(2.0), 1 + i % 3)) for i in range(8)] + [float(g) for g in rounds(7)]

    expected = program()
    with rg.speculation() as found:
        assert program() == pytest.approx(expected)
    assert found.functions["loss_of"].calls["graph"] >= 3, found.explain()


def test_a_function_that_cannot_be_converted_leaves_it_to_those_it_calls() -> None:
    """As large a part as can be."""

    def train(x: tf.Tensor) -> tf.Tensor:
        math = eval("__import__('math')")

        with tf.GradientTape() as tape:
            loss = loss_of(x) * math.pi
        return tape.gradient(loss, W)

    expected = [float(train(tf.constant(float(i)))) for i in range(12)]
    with rg.speculation() as found:
        assert [float(train(tf.constant(float(i)))) for i in range(12)] == pytest.approx(expected)
        assert any("names" in f.given_up for f in found.functions.values()), found.explain()
    assert found.functions["loss_of"].calls["graph"] >= 3, found.explain()


def test_what_is_decorated_is_left_to_its_decorator() -> None:
    """And a tape inside of a tf.function is no eager one."""

    @rg.function
    def decorated(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        return tape.gradient(loss, W)

    @tf.function
    def graph(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = (W * x) ** 2
        return tape.gradient(loss, W)

    with rg.speculation() as found:
        for _ in range(6):
            assert float(decorated(tf.constant(1.0))) == 4.0
            assert float(graph(tf.constant(1.0))) == 6.0
    assert found.functions == {}
    assert decorated.calls["graph"] == 3


def test_nothing_of_the_program_changes() -> None:
    """Neither while the block lasts nor after it: code, signature, identity, pickles, attributes."""

    def seen() -> Any:
        return (
            step.__code__,
            step.__code__.co_code,
            str(inspect.signature(step)),
            inspect.getsource(step),
            step.__dict__,
            step.__defaults__,
            step.__closure__,
            pickle.loads(pickle.dumps(step)) is step,
            tf.GradientTape.__enter__,
        )

    before = seen()
    with rg.speculation():
        for _ in range(6):
            step(tf.constant(1.0))
            assert seen() == before
    assert seen() == before


def test_the_end_of_the_block_is_the_end() -> None:
    """Also with an exception, and where blocks are nested or left in another order."""
    found = rg.speculation()
    with pytest.raises(ValueError, match="a vector"), found:
        _failing(tf.ones([1]))
    for _ in range(5):
        step(tf.constant(1.0))
    assert found.functions == {}

    outer, inner = rg.speculation(), rg.speculation()
    with outer:
        step(tf.constant(1.0))
        with inner:
            for _ in range(3):
                step(tf.constant(1.0))
        for _ in range(5):
            step(tf.constant(1.0))
    assert inner.functions["step"].calls == {"eager": 2, "graph": 0, "fallback": 0}
    assert outer.functions["step"].calls == {"eager": 3, "graph": 2, "fallback": 0}
    one, other = rg.speculation(), rg.speculation()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    for _ in range(2):
        step(tf.constant(1.0))
    other.__exit__(None, None, None)
    step(tf.constant(1.0))
    assert other.functions["step"].calls["eager"] == 1
    assert one.functions == {}


def test_a_block_that_is_entered_again_remembers() -> None:
    """A block for every epoch makes no graph anew."""
    found = rg.speculation()
    for _ in range(4):
        with found:
            step(tf.constant(1.0))
            step(tf.constant(1.0))
    assert found.functions["step"].calls == {"eager": 3, "graph": 4, "fallback": 0}


def test_threads_have_blocks_of_their_own() -> None:
    """One thread's block is not another's; two at the same time end one by one."""
    founds: list[Any] = []
    inside, go = threading.Barrier(2), threading.Event()

    def with_block() -> None:
        def local(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = loss_of(x)
            return tape.gradient(loss, W)

        with rg.speculation() as found:
            inside.wait(60)
            for _ in range(6):
                assert float(local(tf.constant(1.0))) == 4.0
            inside.wait(60)
        founds.append(found)

    def without_block() -> None:
        for _ in range(6):
            step(tf.constant(0.0))
        go.set()

    threads = [threading.Thread(target=with_block) for _ in range(2)] + [threading.Thread(target=without_block)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert go.is_set()
    assert [list(found.functions) for found in founds] == [[_LOCAL], [_LOCAL]]
    graphs = [f.calls["graph"] for found in founds for f in found.functions.values()]
    assert max(graphs) == 2  # where one converts, the other runs eagerly meanwhile


_LOCAL = "test_threads_have_blocks_of_their_own.<locals>.with_block.<locals>.local"


def _failing(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = loss_of(x)
    if x.shape.rank == 1:
        raise ValueError("a vector")
    return tape.gradient(loss, W)


def _traceback(x: tf.Tensor) -> list[tuple[str, int | None, str]]:
    try:
        _failing(x)
    except ValueError as error:
        return [(f.name, f.lineno, f.line or "") for f in traceback.extract_tb(error.__traceback__)]
    return []


def test_tracebacks_are_those_of_the_program() -> None:
    """None of our frames is in them, whether the function is watched, converted or given up."""
    expected = _traceback(tf.ones([1]))
    assert len(expected) == 2
    with rg.speculation() as found:
        _failing(tf.constant(1.0))
        for _ in range(2):
            assert _traceback(tf.ones([1])) == expected
            _failing(tf.constant(1.0))
        for _ in range(4):
            _failing(tf.constant(1.0))
        assert _traceback(tf.ones([1])) == expected
    assert found.functions["_failing"].calls["graph"] > 0, found.explain()


def test_a_debugger_sees_the_program_as_it_is_written() -> None:
    """Breakpoints in it hold, also after it was converted."""
    with rg.speculation():
        for _ in range(6):
            step(tf.constant(1.0))
        commands = io.StringIO("continue\np float(x) + 41\nup\np 'caller'\ncontinue\n")
        printed = io.StringIO()
        debugger = pdb.Pdb(stdin=commands, stdout=printed, nosigint=True, readrc=False)
        debugger.use_rawinput = False
        line = inspect.getsourcelines(step)[1] + 3
        assert debugger.set_break(__file__, line) is None
        try:
            debugger.runcall(lambda: step(tf.constant(1.0)))
        finally:
            debugger.clear_all_breaks()
            sys.settrace(None)
    assert "42.0" in printed.getvalue()
    assert "'caller'" in printed.getvalue()


def test_lines_are_those_of_the_file_while_it_is_watched() -> None:
    """What a coverage tool counts in the calls that a decorated function is watched in, and under a block in all."""
    lines, first = inspect.getsourcelines(step)
    body = set(range(first + 2, first + len(lines)))

    def traced(call: Any) -> set[int]:
        seen = set()

        def trace(frame: types.FrameType, event: str, _: Any) -> Any:
            if event == "line" and frame.f_code.co_filename == __file__ and frame.f_code.co_name == "step":
                seen.add(frame.f_lineno)
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call(tf.constant(1.0))
        finally:
            sys.settrace(before)
        return seen & body

    assert traced(step) == body
    assert traced(rg.function(step)) == body
    with rg.speculation():
        for _ in range(6):
            step(tf.constant(1.0))
        assert traced(step) == body


def test_strict_says_what_is_not_converted() -> None:
    """With the line of the program."""

    def train(x: tf.Tensor) -> tf.Tensor:
        import math

        with tf.GradientTape() as tape:
            loss = loss_of(x) * math.pi
        return tape.gradient(loss, W)

    with rg.speculation(strict=True):
        for _ in range(4):
            train(tf.constant(1.0))
        with pytest.raises(rg.speculate.Inconvertible, match=r"test_undecorated\.py:\d+"):
            train(tf.constant(1.0))


def test_what_computes_nothing_is_left_alone() -> None:
    """A helper in the body of a tape that has to do with Python only."""

    def name_of(i: int) -> str:
        return f"round {i}"

    with rg.speculation() as found:
        for i in range(8):
            with tf.GradientTape() as tape:
                assert name_of(i) == f"round {i}"
                loss = loss_of(tf.constant(1.0))
            tape.gradient(loss, W)
    helper = next(f for name, f in found.functions.items() if name.endswith("name_of"))
    assert helper.given_up == "it computes nothing with TensorFlow"
    assert helper.calls["graph"] == 0
