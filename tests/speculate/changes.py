"""Programs in training, and what one can change of them in its middle: what Keras made, and code of one's own.

A change is a function of the program and of a `pytest.MonkeyPatch`, which takes back what is not the program's alone.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import operator
import tempfile
import types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend import config as keras_config
from keras.src.backend.common.global_state import GLOBAL_STATE_TRACKER


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
            noise = keras.random.normal((1,)) + 0.1 * keras.losses.binary_crossentropy([[1.0]], [[0.0]])
            loss = self.loss(y, out + noise) * self.factor + sum(self.model.losses)
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


def setting(name: str, value: Any, owner: Any, held: str) -> Callable[[Program, Any], None]:
    """Changes a setting of Keras, held by an attribute of `owner`, until the test ends."""

    def change(program: Program, patch: Any) -> None:
        patch.setattr(owner, held, getattr(owner, held, None), raising=False)  # so that it is put back
        getattr(keras.config, f"set_{name}")(value)

    return change


OF_KERAS: dict[str, Callable[[Program, Any], Any]] = {
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
    "own.flags": lambda p, _: p.own.flags.update({"on": False}),
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
    # Settings.
    "epsilon": setting("epsilon", 1e-2, keras_config, "_EPSILON"),
    "floatx": setting("floatx", "float64", keras_config, "_FLOATX"),
    "image_data_format": setting("image_data_format", "channels_first", keras_config, "_IMAGE_DATA_FORMAT"),
    "dtype_policy": setting("dtype_policy", "float64", GLOBAL_STATE_TRACKER, "dtype_policy"),
    "seeds": lambda p, patch: keras.utils.set_random_seed(7),
    "seed of TensorFlow": lambda p, patch: tf.random.set_seed(7),
    # What was there is made again.
    "another optimizer": put("optimizer", Made(lambda: keras.optimizers.SGD(0.1))),
    "a variable instead": put("variable", Made(lambda: tf.Variable(3.0))),
    "nothing": lambda p, _: None,
}  # fmt: skip


# What a program of one's own holds and asks.


class Base:
    """The class that gives what no other does."""

    bias = 0.125
    unit = 1.0

    def offset(self) -> float:
        return 0.25

    def inherited(self, x: tf.Tensor) -> tf.Tensor:
        return x * 0.5

    @property
    def rate(self) -> float:
        return self.unit * 0.5

    @staticmethod
    def fixed(x: tf.Tensor) -> tf.Tensor:
        return x + 0.5

    @classmethod
    def of_class(cls, x: tf.Tensor) -> tf.Tensor:
        return x * cls.unit


class Part(Base):
    """What a step calls in every way that there is."""

    gain = 1.5

    def __init__(self) -> None:
        self.members = [1.0, 2.0]
        self.size, self.is_on = 2, True

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return x * self.gain

    def __add__(self, other: tf.Tensor) -> tf.Tensor:
        return other + 1.0

    def __radd__(self, other: float) -> float:
        return other + 1.0

    def __neg__(self) -> float:
        return -self.bias

    def __getitem__(self, key: int) -> float:
        return self.members[key]

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return self.is_on

    def __contains__(self, value: float) -> bool:
        return value in self.members

    def __iter__(self) -> Iterator[float]:
        return iter(self.members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and other.size == self.size

    def __lt__(self, other: Any) -> bool:
        return bool(self.size < other)

    def __hash__(self) -> int:
        return 7

    def __float__(self) -> float:
        return float(self.size)

    def __enter__(self) -> float:
        return 0.5

    def __exit__(self, *_: object) -> None:
        pass

    def method(self, x: tf.Tensor) -> tf.Tensor:
        return x - self.offset()

    def numbers(self) -> Iterator[float]:
        yield from self.members


class Other(Part):
    """Another class that objects may come to be of."""

    gain = -1.5

    def method(self, x: tf.Tensor) -> tf.Tensor:
        return x + 2.0


class Slotted:
    """Has its attributes in slots."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.5


class Answering:
    """Answers for attributes that it does not have."""

    def __init__(self) -> None:
        self.known = {"weight": 0.5}

    def __getattr__(self, name: str) -> float:
        return self.known.get(name, 1.0) if name != "known" else 0.0


class Described:
    """A descriptor."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __get__(self, owner: Any, kind: Any) -> float:
        return self.value


class Holder:
    described = Described(0.5)
    shared: ClassVar[dict[str, float]] = {"a": 0.5}


@dataclasses.dataclass
class Settings:
    rate: float = 0.5
    layers: list[float] = dataclasses.field(default_factory=lambda: [1.0, 0.5])


@dataclasses.dataclass(frozen=True)
class Frozen:
    rate: float = 0.5


class Pair(NamedTuple):
    first: float
    second: float


class Kind(enum.Enum):
    SUM = 1
    MEAN = 2


def marking() -> Any:
    """A class that others may be registered with."""

    class Marked(abc.ABC):  # noqa: B024 (it is for registrations only)
        pass

    return Marked


def dispatching(factor: float) -> Any:
    """A function that others may be registered with."""

    @functools.singledispatch
    def dispatched(part: Any, x: tf.Tensor) -> tf.Tensor:
        return x * factor

    return dispatched


def looked_up(size: int) -> float:
    return size * FACTORS["looked up"]


def decorated(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    @functools.wraps(function)
    def wrapper(x: tf.Tensor) -> tf.Tensor:
        return function(x) * wrapper.gain  # type: ignore[attr-defined]

    wrapper.gain = 0.5  # type: ignore[attr-defined]
    return wrapper


@decorated
def wrapped(x: tf.Tensor) -> tf.Tensor:
    return x + 1.0


def with_cell() -> tuple[Callable[[tf.Tensor], tf.Tensor], Callable[[float], None]]:
    weight = 0.5

    def apply(x: tf.Tensor) -> tf.Tensor:
        return x * weight

    def change(new: float) -> None:
        nonlocal weight
        weight = new

    return apply, change


def added(x: tf.Tensor, *more: float, **named: float) -> tf.Tensor:
    return x + float(sum(more)) + float(sum(named.values()))


def twice(x: tf.Tensor) -> tf.Tensor:
    return x * 2.0


FACTORS = {"plain": 0.5, "looked up": 0.25}
LIMIT, NAMES = 3, ("plain",)


class Plain:
    """A program without Keras: one variable, and much that its steps ask."""

    def __init__(self) -> None:
        self.weight = tf.Variable([0.5, -0.5, 0.25])
        self.total = tf.Variable(0.0)
        self.generator = tf.random.Generator.from_seed(1)
        self.table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.5)
        self.part, self.slotted, self.answering, self.holder = Part(), Slotted(), Answering(), Holder()
        self.settings, self.frozen, self.pair, self.kind = Settings(), Frozen(), Pair(0.5, 0.25), Kind.SUM
        self.functions = [twice, wrapped]
        self.by_name = {"a": lambda x: x - 1.0, "b": wrapped}
        self.partial = functools.partial(added, more=0.5)
        self.arguments, self.named = [0.25, 0.5], {"extra": 0.25}
        self.set, self.deque = {1, 2}, collections.deque([0.5, 0.25], maxlen=3)
        self.ordered = collections.OrderedDict(a=0.5, b=0.25)
        self.counter, self.defaults = collections.Counter("aab"), collections.defaultdict(float, a=0.5)
        self.array, self.number = np.array([0.5, 0.25, 0.125], np.float32), np.float32(0.5)
        self.constant, self.text, self.none = tf.constant(0.5), "sum", None
        self.apply, self.set_cell = with_cell()
        self.dtype, self.axis, self.slice = tf.float32, 0, slice(0, 2)
        self.space = types.SimpleNamespace(rate=0.5)
        self.operator: Any = operator.add
        self.marked, self.dispatched = marking(), dispatching(1.25)
        self.heir = type("Heir", (Base,), {})()
        self.part.unit = 0.75

    def step(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        part = self.part
        with tf.GradientTape() as tape:
            v = tf.reduce_mean(x[:, :3], 0) * self.weight
            v = part(v) + part.rate - part.bias
            v = part.method(part.inherited(part.fixed(part.of_class(v))))
            v = (part + v) + (1.0 + part) + (-part) + self.heir.bias
            v = v * float(len(part)) + part[0] if part else v
            v = v + sum(part) + sum(part.numbers()) + float(part)
            v = v + (1.0 if 2.0 in part else 0.0) + (2.0 if part == Part() else 0.0) + (0.5 if part < LIMIT else 0.0)
            with part as entered:
                v = v + entered
            early = v
            v = v * self.slotted.value + self.answering.weight + self.holder.described + self.holder.shared["a"]
            v = v * self.settings.rate + sum(self.settings.layers) + self.frozen.rate
            v = v + self.pair.first - self.pair.second
            v = v * FACTORS["plain"] + looked_up(part.size)
            middle = v
            for function in self.functions:
                v = function(v)
            for name in self.by_name:
                v = self.by_name[name](v) * 0.5
            v = self.apply(self.partial(added(v, *self.arguments, **self.named)))
            v = self.dispatched(part, v)
            v = v + float(len(self.set)) + sum(self.deque) + self.ordered["a"] + next(iter(self.ordered.values()))
            v = v + float(self.counter["a"]) + self.defaults["a"]
            late = v
            v = v * self.array + self.number + self.constant
            v = v + (1.0 if self.none is None else 2.0) + (0.5 if isinstance(part, self.marked) else 0.25)
            v = v + (0.5 if "plain" in NAMES else 0.25) + (self.part.extra if hasattr(part, "extra") else 0.0)
            v = tf.cast(tf.cast(v, self.dtype), tf.float32) + tf.reduce_sum(v[self.slice]) + self.space.rate
            v = self.operator(v, 0.5) + self.table.lookup(tf.constant([0, 1, 2], tf.int64))
            v = v + self.generator.uniform([3])
            out = tf.reduce_sum(v, self.axis) if self.kind is Kind.SUM else tf.reduce_mean(v, self.axis)
            loss = tf.reduce_sum(tf.tanh(out * 0.01)) if self.text == "sum" else tf.reduce_sum(out)
        self.weight.assign_sub(0.1 * tape.gradient(loss, self.weight))
        self.total.assign_add(loss + tf.reduce_sum(y) * 0.0)
        return tf.stack([loss, early[0], middle[0], late[0], tf.reduce_sum(v), tf.reduce_sum(out)])

    def state(self) -> list[np.ndarray]:
        return [self.weight.numpy(), self.total.numpy()]


OF_PLAIN: dict[str, Callable[[Plain, Any], Any]] = {
    # Methods that syntax calls, on the class.
    "part()": patched(Part, "__call__", lambda old: lambda self, x: old(self, x) * 2.0),
    "part + x": patched(Part, "__add__", lambda _: lambda self, other: other - 1.0),
    "0 + part": patched(Part, "__radd__", lambda _: lambda self, other: other + 3.0),
    "-part": patched(Part, "__neg__", lambda _: lambda self: 4.0),
    "part[i]": patched(Part, "__getitem__", lambda _: lambda self, key: 3.0),
    "len(part)": patched(Part, "__len__", lambda _: lambda self: 3),
    "bool(part)": patched(Part, "__bool__", lambda _: lambda self: False),
    "in part": patched(Part, "__contains__", lambda _: lambda self, value: False),
    "iter(part)": patched(Part, "__iter__", lambda _: lambda self: iter([4.0])),
    "part == other": patched(Part, "__eq__", lambda _: lambda self, other: False),
    "part < other": patched(Part, "__lt__", lambda _: lambda self, other: False),
    "float(part)": patched(Part, "__float__", lambda _: lambda self: 5.0),
    "with part": patched(Part, "__enter__", lambda _: lambda self: 3.0),
    "leaving part": patched(Part, "__exit__", lambda _: lambda self, *_: setattr(self, "gain", 3.0)),
    "Part.__init__": patched(Part, "__init__", lambda old: lambda self: (old(self), setattr(self, "size", 3))[0]),
    # Classes.
    "Part.gain": patched(Part, "gain", lambda _: 3.0),
    "Base.bias": patched(Base, "bias", lambda _: 3.0),
    "a class's attribute of a base": lambda p, patch: patch.setattr(Part, "bias", 3.0, raising=False),
    "Base.rate": patched(Base, "rate", lambda _: property(lambda self: 3.0)),
    "Base.fixed": patched(Base, "fixed", lambda _: staticmethod(lambda x: x - 0.5)),
    "Base.of_class": patched(Base, "of_class", lambda _: classmethod(lambda cls, x: x * 3.0)),
    "Base.unit": patched(Base, "unit", lambda _: 2.0),
    "Base.offset": patched(Base, "offset", lambda _: lambda self: 2.0),
    "Base.inherited": patched(Base, "inherited", lambda _: lambda self, x: x * 2.0),
    "a method before the base's": lambda p, patch: patch.setattr(
        Part, "inherited", lambda self, x: x - 2.0, raising=False),
    "Part.method": patched(Part, "method", lambda _: lambda self, x: x + 2.0),
    "Part.numbers": patched(Part, "numbers", lambda _: lambda self: iter([4.0])),
    "__getattribute__": lambda p, patch: patch.setattr(
        Part, "__getattribute__", lambda self, name: 4 if name == "size" else object.__getattribute__(self, name)),
    "__getattr__": patched(Answering, "__getattr__", lambda _: lambda self, name: 3.0),
    "Holder.described": lambda p, patch: patch.setitem(vars(vars(Holder)["described"]), "value", 3.0),
    "another descriptor": lambda p, patch: patch.setattr(Holder, "described", Described(2.0)),
    "Holder.shared": lambda p, patch: patch.setitem(Holder.shared, "a", 3.0),
    "another base": lambda p, _: setattr(type(p.heir), "__bases__", (type("New", (Base,), {"bias": 2.0}),)),
    "a class registered": lambda p, _: p.marked.register(Part),
    # Objects.
    "part.__class__": lambda p, _: setattr(p.part, "__class__", Other),
    "part.gain": put("part.gain", 3.0),
    "part.bias": put("part.bias", 3.0),
    "part.method": put("part.method", lambda x: x + 3.0),
    "part.size": put("part.size", 4),
    "part.is_on": put("part.is_on", False),
    "part.members": lambda p, _: p.part.members.append(3.0),
    "part.members[0]": lambda p, _: p.part.members.__setitem__(0, 3.0),
    "part.__dict__": lambda p, _: vars(p.part).update(gain=2.5),
    "an attribute gone": lambda p, _: delattr(p.part, "unit"),
    "an attribute that was not there": put("part.extra", 2.0),
    "another part": put("part", Made(Other)),
    "slotted.value": put("slotted.value", 3.0),
    "answering.known": lambda p, _: p.answering.known.update(weight=3.0),
    "answering.weight": put("answering.weight", 2.0),
    "settings.rate": put("settings.rate", 3.0),
    "settings.layers": lambda p, _: p.settings.layers.pop(),
    "settings": put("settings", Made(lambda: Settings(2.0))),
    "frozen.rate": lambda p, _: object.__setattr__(p.frozen, "rate", 3.0),
    "pair": put("pair", Pair(3.0, 1.0)),
    "kind": put("kind", Kind.MEAN),
    "space.rate": put("space.rate", 3.0),
    "constant": put("constant", Made(lambda: tf.constant(3.0))),
    "none": put("none", 0),
    "text": put("text", "all"),
    "dtype": put("dtype", tf.bfloat16),
    "axis": put("axis", -1),
    "slice": put("slice", slice(1, 3)),
    "number": put("number", np.float32(3.0)),
    # Containers.
    "set": lambda p, _: p.set.add(3),
    "deque": lambda p, _: p.deque.append(1.0),
    "deque rotated": lambda p, _: p.deque.extend([3.0, 4.0]),
    "ordered": lambda p, _: p.ordered.move_to_end("a"),
    "ordered value": lambda p, _: p.ordered.update(a=3.0),
    "counter": lambda p, _: p.counter.update("aaa"),
    "defaultdict": lambda p, _: p.defaults.update(a=3.0),
    "array": lambda p, _: p.array.__setitem__(0, 3.0),
    "array filled": lambda p, _: p.array.fill(2.0),
    "another array": put("array", Made(lambda: np.full(3, 2.0, np.float32))),
    "arguments": lambda p, _: p.arguments.append(3.0),
    "named": lambda p, _: p.named.update(another=3.0),
    # Functions.
    "functions": lambda p, _: p.functions.append(twice),
    "functions reversed": lambda p, _: p.functions.reverse(),
    "by name": lambda p, _: p.by_name.update(a=wrapped),
    "by name in another order": lambda p, _: p.by_name.update({"a": p.by_name.pop("a")}),
    "partial": put("partial", functools.partial(added, more=3.0)),
    "partial.keywords": lambda p, _: p.partial.keywords.update(more=3.0),
    "partial state": lambda p, _: p.partial.__setstate__((added, (), {"more": 2.0}, {})),
    "a cell": lambda p, _: p.set_cell(3.0),
    "cell_contents": lambda p, _: setattr(p.apply.__closure__[0], "cell_contents", 2.0),
    "an attribute of a function": lambda p, patch: patch.setattr(wrapped, "gain", 3.0),
    "what a decorator holds": lambda p, patch: patch.setattr(
        wrapped.__closure__[0], "cell_contents", lambda x: x - 1.0),
    "twice.__code__": lambda p, patch: patch.setattr(twice, "__code__", (lambda x: x * 3.0).__code__),
    "another function that dispatches": put("dispatched", Made(lambda: dispatching(3.0))),
    "a registration": lambda p, _: p.dispatched.register(Part, lambda part, x: x * 3.0),
    "a registration of a base": lambda p, _: p.dispatched.register(Base, lambda part, x: x * 2.0),
    "operator": put("operator", operator.mul),
    # Globals.
    "FACTORS": lambda p, patch: patch.setitem(FACTORS, "plain", 3.0),
    "a second of the FACTORS": lambda p, patch: patch.setitem(FACTORS, "looked up", 3.0),
    "LIMIT": lambda p, patch: patch.setitem(globals(), "LIMIT", 1),
    "NAMES": lambda p, patch: patch.setitem(globals(), "NAMES", ()),
    "a name of Python's": lambda p, patch: patch.setitem(globals(), "len", lambda part: 7),
    "tf": lambda p, patch: patch.setitem(globals(), "tf", _tensorflow_with(tanh=tf.sin)),
    # What TensorFlow and Keras hold.
    "weight.assign": lambda p, _: p.weight.assign([1.0, 2.0, 3.0]),
    "another weight": put("weight", Made(lambda: tf.Variable([1.0, 2.0, 3.0]))),
    "generator.reset": lambda p, _: p.generator.reset_from_seed(7),
    "another generator": put("generator", Made(lambda: tf.random.Generator.from_seed(9))),
    "table.insert": lambda p, _: p.table.insert(tf.constant([1], tf.int64), tf.constant([3.0])),
    "a checkpoint": lambda p, _: _restore(p),
    "nothing": lambda p, _: None,
}  # fmt: skip


def _tensorflow_with(**other: Any) -> Any:
    made = types.ModuleType("tensorflow")
    vars(made).update({**vars(tf), **other})
    return made


def _restore(program: Plain) -> None:
    with tempfile.TemporaryDirectory() as folder:
        other = tf.train.Checkpoint(weight=tf.Variable([3.0, 2.0, 1.0]), total=tf.Variable(7.0)).save(f"{folder}/c")
        tf.train.Checkpoint(weight=program.weight, total=program.total).restore(other).assert_consumed()
