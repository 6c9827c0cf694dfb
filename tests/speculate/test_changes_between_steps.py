"""What a program changes between two training steps: the steps after it do what eager steps do, whatever was converted.

Each change is made to the same small program in the middle of its training: to its model, layers, variables, optimizer,
loss and metric, to their classes, to functions and globals that the step uses.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from tests.speculate import comparing

BEFORE, AFTER = 7, 5
MODES = ("speculate", "auto", "coexec")


class Own(keras.layers.Layer):
    """A layer of the user's."""

    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.shift, self.flags = keras.layers.Dense(3, name="inner"), 0.25, {"on": True}

    def call(self, x: tf.Tensor) -> tf.Tensor:
        y = self.activate(self.inner(x) + self.shift) * self.factor
        return y if self.flags["on"] else -y

    def activate(self, x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x)


def scale(x: tf.Tensor, by: float = 1.0, *, more: float = 0.0) -> tf.Tensor:
    """A function of the user's."""
    return x * by + more


OFFSET = 0.5


class Program:
    """A model in training; `step` is what is converted."""

    def __init__(self) -> None:
        keras.utils.set_random_seed(0)
        self.first = keras.layers.Dense(5, activation="relu", kernel_regularizer=keras.regularizers.L2(0.01))
        self.norm, self.own, self.last = keras.layers.BatchNormalization(), Own(), keras.layers.Dense(1, name="last")
        self.model = keras.Sequential([keras.Input((4,)), self.first, self.norm, self.own, self.last])
        self.optimizer = keras.optimizers.Adam(0.05)
        self.loss = keras.losses.MeanSquaredError()
        self.metric = keras.metrics.MeanAbsoluteError()
        self.variable = tf.Variable(1.0)
        self.factor, self.names = 2.0, ["a"]
        self.cell = 1.0
        self.model(tf.ones([2, 4]))
        self.optimizer.build(self.model.trainable_variables)

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            out = scale(self.model(x, training=True)) + OFFSET * self.cell
            loss = self.loss(y, out) * self.factor + sum(self.model.losses)
        weights = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.metric.update_state(y, out)
        self.variable.assign_add(loss * float(len(self.names)))
        return loss

    def state(self) -> list[np.ndarray]:
        held = [*self.model.weights, *self.optimizer.variables, *self.metric.variables, self.variable]
        return [np.asarray(variable) for variable in held]


def halved(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: function(*arguments, **named) * 0.5


def put(path: str, value: Any) -> Callable[[Program, Any], None]:
    """Sets what a path leads to; a function of the path's present value, if `value` is one that is marked."""

    def change(program: Program, patch: Any) -> None:
        owner: Any = program
        *parts, name = path.split(".")
        for part in parts:
            owner = getattr(owner, part)
        new = value.of(getattr(owner, name)) if isinstance(value, Of) else value() if isinstance(value, Made) else value
        setattr(owner, name, new)

    return change


class Of:
    """A value made of the one before."""

    def __init__(self, of: Callable[[Any], Any]) -> None:
        self.of = of


class Made:
    """A value made anew for each program."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __call__(self) -> Any:
        return self._make()


def patched(owner: Any, name: str, make: Callable[[Any], Any]) -> Callable[[Program, Any], None]:
    """Replaces something of a class or module until the test ends."""
    return lambda program, patch: patch.setattr(owner, name, make(getattr(owner, name)))


def call(path: str, *arguments: Any) -> Callable[[Program, Any], None]:
    """Calls a method."""

    def change(program: Program, patch: Any) -> None:
        owner: Any = program
        for part in path.split("."):
            owner = getattr(owner, part)
        owner(*(argument() if isinstance(argument, Made) else argument for argument in arguments))

    return change


def new_layer_call(self: Any, x: tf.Tensor) -> tf.Tensor:
    return tf.sin(self.inner(x))


CHANGES: dict[str, Callable[[Program, Any], Any]] = {
    # Variables one by one.
    **{f"{name}.trainable": put(f"{name}.trainable", False) for name in (
        "first.kernel", "first.bias", "norm.gamma", "norm.beta", "own.inner.kernel", "last.kernel", "last.bias")},
    **{f"{name}.constraint": put(f"{name}.constraint", Made(keras.constraints.NonNeg)) for name in (
        "first.kernel", "own.inner.kernel", "last.bias")},
    "a constraint's attribute": lambda p, _: (
        setattr(p.first.kernel, "constraint", keras.constraints.MaxNorm(0.5)),
        setattr(p.first.kernel.constraint, "max_value", 0.1)),
    "first.kernel.regularizer": put("first.kernel.regularizer", Made(lambda: keras.regularizers.L1(0.1))),
    "last.kernel.regularizer": put("last.kernel.regularizer", Made(lambda: keras.regularizers.L2(0.1))),
    "a regularizer's attribute": put("first.kernel_regularizer.l2", 0.2),
    "a regularizer gone": put("first.kernel.regularizer", None),
    "first.kernel.assign": call("first.kernel.assign", Made(lambda: tf.ones([4, 5]))),
    "variable.assign": call("variable.assign", 5.0),
    # Layers.
    **{f"{name}.trainable": put(f"{name}.trainable", False) for name in ("first", "norm", "own", "last", "model")},
    "frozen and thawed": lambda p, _: (setattr(p.first, "trainable", False), setattr(p.first, "trainable", True)),
    "first.activation": put("first.activation", tf.tanh),
    "last.activation": put("last.activation", tf.sigmoid),
    "last.use_bias": put("last.use_bias", False),
    "norm.momentum": put("norm.momentum", 0.5),
    "norm.epsilon": put("norm.epsilon", 0.1),
    "norm.center": put("norm.center", False),
    "own.shift": put("own.shift", -1.0),
    "own.factor": put("own.factor", 3.0),
    "own.flags": lambda p, _: p.own.flags.update(on=False),
    "own.inner": lambda p, _: setattr(p.own.inner, "activation", tf.nn.relu),
    "weights set": lambda p, _: p.model.set_weights([w * 0.5 for w in p.model.get_weights()]),
    "a layer's losses": lambda p, _: p.first.add_loss(tf.constant(0.0)),
    # Methods on instances.
    "first.call": put("first.call", Of(halved)),
    "own.call": put("own.call", Of(halved)),
    "own.activate": put("own.activate", lambda x: tf.sin(x)),
    "own.inner.call": put("own.inner.call", Of(halved)),
    "norm.call": put("norm.call", Of(halved)),
    "model.call": put("model.call", Of(halved)),
    "loss.call": put("loss.call", Of(halved)),
    "metric.update_state": put("metric.update_state", lambda y, out: None),
    "optimizer.apply_gradients": put(
        "optimizer.apply_gradients", Of(lambda old: lambda pairs: old([(g * 0.1, v) for g, v in pairs]))),
    "optimizer.update_step": put(
        "optimizer.update_step", lambda gradient, variable, rate: variable.assign_sub(0.3 * gradient)),
    "a regularizer's call": lambda p, _: setattr(
        p.first.kernel_regularizer, "__call__", lambda x: tf.reduce_sum(x)),
    "step's own method": lambda p, _: setattr(p.own, "call", types.MethodType(new_layer_call, p.own)),
    # Methods and data of classes and their bases.
    "Own.call": patched(Own, "call", lambda _: new_layer_call),
    "Own.activate": patched(Own, "activate", lambda _: lambda self, x: tf.sin(x)),
    "Own.factor": patched(Own, "factor", lambda old: old * 3.0),
    "Dense.call": patched(
        keras.layers.Dense, "call", lambda old: lambda self, x, training=None: old(self, x, training) * 2.0),
    "Layer.__call__": patched(keras.layers.Layer, "__call__", lambda old: lambda *a, **k: old(*a, **k) * 1.5),
    "BatchNormalization.call": patched(
        keras.layers.BatchNormalization, "call", lambda old: lambda self, x, training=None, mask=None: x * 0.5),
    "L2.__call__": patched(keras.regularizers.L2, "__call__", lambda old: lambda self, x: old(self, x) * 7.0),
    "MeanSquaredError.call": patched(
        keras.losses.MeanSquaredError, "call", lambda old: lambda self, y, out: old(self, y, out) * 2.0),
    "Loss.__call__": patched(keras.losses.Loss, "__call__", lambda old: lambda *a, **k: old(*a, **k) * 2.0),
    "Adam.update_step": patched(
        keras.optimizers.Adam, "update_step", lambda old: lambda self, g, v, rate: v.assign_sub(0.2 * g)),
    "Optimizer.apply": patched(
        keras.Optimizer, "apply", lambda old: lambda self, g, v=None: old(self, [one * 0.1 for one in g], v)),
    "MeanAbsoluteError.update_state": patched(
        keras.metrics.MeanMetricWrapper, "update_state", lambda old: lambda self, y, out, w=None: None),
    # The optimizer, loss and metric.
    "learning_rate": put("optimizer.learning_rate", 0.5),
    "learning_rate.assign": call("optimizer.learning_rate.assign", 0.5),
    "beta_1": put("optimizer.beta_1", 0.5),
    "optimizer.epsilon": put("optimizer.epsilon", 0.1),
    "clipnorm": put("optimizer.clipnorm", 0.01),
    "clipvalue": put("optimizer.clipvalue", 0.001),
    "global_clipnorm": put("optimizer.global_clipnorm", 0.01),
    "weight_decay": put("optimizer.weight_decay", 0.1),
    "iterations": call("optimizer.iterations.assign", 100),
    "another loss": put("loss", Made(keras.losses.MeanAbsoluteError)),
    "loss.reduction": put("loss.reduction", "sum"),
    "loss.fn": put("loss.fn", keras.losses.mean_absolute_error),
    "another metric": put("metric", Made(keras.metrics.MeanSquaredError)),
    "metric.reset_state": call("metric.reset_state"),
    "metric._fn": put("metric._fn", keras.losses.mean_squared_error),
    # The program's own.
    "factor": put("factor", -1.0),
    "cell": put("cell", 4.0),
    "names": lambda p, _: p.names.append("b"),
    "names replaced": put("names", ["x", "y", "z"]),
    "a global": lambda p, patch: patch.setitem(globals(), "OFFSET", 2.0),
    "a global function": lambda p, patch: patch.setitem(globals(), "scale", lambda x: x * 3.0),
    "defaults": lambda p, patch: patch.setattr(scale, "__defaults__", (4.0,)),
    "named defaults": lambda p, patch: patch.setattr(scale, "__kwdefaults__", {"more": 1.0}),
    "a function's code": lambda p, patch: patch.setattr(
        scale, "__code__", (lambda x, by=1.0, *, more=0.0: x - by).__code__),
    # What was there is made again.
    "another optimizer": put("optimizer", Made(lambda: keras.optimizers.SGD(0.1))),
    "a variable instead": put("variable", Made(lambda: tf.Variable(3.0))),
    "nothing": lambda p, _: None,
}  # fmt: skip


def cases() -> Iterator[Any]:
    """Each change speculated on, and every other one in another mode, too."""
    others = itertools.cycle(MODES[1:])
    for number, name in enumerate(CHANGES):
        other = next(others)
        modes = MODES if comparing.ALL else ("speculate", other) if number % 4 == 0 else ("speculate",)
        for mode in modes:
            yield pytest.param(name, mode, id=f"{name}, {mode}")


def batch(number: int) -> tuple[tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(number)
    return tf.constant(rng.normal(size=(6, 4)).astype("f")), tf.constant(rng.normal(size=(6, 1)).astype("f"))


def trained(name: str, mode: str | None) -> tuple[list[np.ndarray], list[list[np.ndarray]], Any]:
    """Losses and states of all steps, with the change in their middle."""
    with pytest.MonkeyPatch.context() as patch:
        program = Program()
        step: Any = program.step if mode is None else rg.function(program.step, mode=mode)
        losses, states = [], []
        for number in range(BEFORE + AFTER):
            if number == BEFORE:
                if mode == "speculate":
                    assert step.calls["graph"] > 1, step.explain()
                CHANGES[name](program, patch)
            losses.append(np.asarray(step(*batch(number))))
            states.append(program.state())
        return losses, states, step


@pytest.mark.parametrize(("name", "mode"), list(cases()))
def test_a_change_is_seen(name: str, mode: str) -> None:
    losses, states, _ = trained(name, None)
    found, after, step = trained(name, mode)
    for number, (one, other) in enumerate(zip(losses, found, strict=True)):
        np.testing.assert_allclose(other, one, rtol=2e-3, atol=1e-4, err_msg=f"step {number}: {step.explain()}")
    for number, (one, other) in enumerate(zip(states, after, strict=True)):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-2, atol=2e-3, err_msg=f"step {number}: {step.explain()}")


def test_changes_change_something() -> None:
    """A change without effect would agree with a graph that does not see it."""
    unchanged, same = trained("nothing", None)[:2]
    for name in ("first.kernel.trainable", "Own.call", "optimizer.apply_gradients", "defaults", "first.call"):
        losses, states, _ = trained(name, None)
        pairs = zip([*losses, *states[-1]], [*unchanged, *same[-1]], strict=True)
        assert not all(np.allclose(a, b, rtol=2e-3, atol=1e-4) for a, b in pairs), name
