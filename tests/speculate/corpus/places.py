"""One place under several names: attributes and what descriptors keep, classes and their bases, modules and globals."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
import typing
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.containers import with_number

level = 0.0


@program
def property_over_its_own_item() -> Any:
    class Model:
        @property
        def scale(self) -> float:
            return self.__dict__["scale"] * 2.0

        @scale.setter
        def scale(self, value: float) -> None:
            self.__dict__["scale"] = value + 1.0

    model = Model()
    model.scale = 3.0

    def step(x: tf.Tensor) -> Any:
        y = x * model.scale
        model.scale = 2.0
        made = Model()
        made.scale = 7.0
        return y, x * model.scale, made.scale

    return step, with_tensor, model


@program
def descriptor_over_its_own_item() -> Any:
    class Scaled:
        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type) -> Any:
            return instance.__dict__[self.name] * 10.0

        def __set__(self, instance: Any, value: float) -> None:
            instance.__dict__[self.name] = value + 0.5

    class Model:
        rate = Scaled()

    model = Model()
    model.rate = 1.0

    def step(x: tf.Tensor) -> Any:
        y = x * model.rate
        model.rate = 2.0
        return y + model.rate

    return step, with_tensor, model


@program
def deleted_attribute_shows_the_class() -> Any:
    log: list[float] = []

    class Model:
        scale = 2.0

        def __init__(self) -> None:
            self.n = 1.0

        @functools.cached_property
        def cached(self) -> float:
            log.append(self.n)
            return self.n * 2.0

    model = Model()
    log.append(model.cached)

    def step(x: tf.Tensor) -> Any:
        model.scale = 3.0
        y = x * model.scale
        del model.scale
        model.n = model.n + 1.0
        del model.cached
        return y + getattr(model, "scale", 100.0), hasattr(model, "scale"), x * getattr(model, "cached", -1.0)

    return step, with_tensor, [model, log]


@program
def attribute_of_a_base() -> Any:
    class Base:
        total = 0.0
        state = tf.constant(0.0)

        def advance(self, x: tf.Tensor) -> Any:
            Base.state = Base.state + tf.reduce_sum(x)
            return self.state

    class Child(Base):
        pass

    child = Child()

    def step(x: tf.Tensor) -> Any:
        Base.total = Base.total + 1.0
        return x * child.total + Child.total, child.advance(x)

    return step, with_tensor, None


@program
def global_under_three_names() -> Any:
    module = sys.modules[__name__]
    module.level = 0.0

    def step(x: tf.Tensor) -> Any:
        global level
        level = level + 1.0
        y = x * globals()["level"]
        globals()["level"] = level + 1.0
        z = x * module.level
        module.level = level + 1.0
        return y, z, x * level

    return step, with_tensor, None


@program
def attributes_that_come_later() -> Any:
    class Config:
        pass

    class Mode(enum.Enum):
        A = 1

    def helper(x: tf.Tensor) -> Any:
        return x + 1.0

    def arguments(i: int) -> Any:
        for owner in (Config, Mode.A, helper) if i == 8 else ():
            owner.scale = 5.0
        return (tensor(i),)

    def step(x: tf.Tensor) -> Any:
        return [x * getattr(owner, "scale", 1.0) for owner in (Config, Mode.A, helper)], hasattr(Config, "scale")

    return step, arguments, None


@program(eager="a patched operator", feature="CLASS_ATTRIBUTE", line="y = box + x")
def operator_patched_in_the_call() -> Any:
    class Box:
        def __init__(self, v: float) -> None:
            self.v = v

        def __add__(self, other: Any) -> Any:
            return self.v + other

    box, first = Box(2.0), Box.__add__

    def step(x: tf.Tensor) -> Any:
        Box.__add__ = first
        y = box + x
        Box.__add__ = lambda self, other: other * 100.0
        return y, box + x

    return step, with_tensor, None


@program
def descriptor_read_on_a_class() -> Any:
    log: list[str] = []

    class OfClass:
        def __init__(self, function: Any) -> None:
            self.function = function

        def __get__(self, instance: Any, owner: type) -> Any:
            log.append("get")
            return self.function(owner)

    class Model:
        n = 1.0

        @OfClass
        def scaled(cls: Any) -> Any:
            return cls.n * 10.0

    def step(x: tf.Tensor) -> Any:
        Model.n = Model.n + 1.0
        return x * Model.scaled

    return step, with_tensor, log


@program
def fields_that_only_the_end_of_the_making_gets() -> Any:
    class Config:
        def __init__(self) -> None:
            self.scale = 2.0

    common = Config()

    @dataclasses.dataclass
    class Point:
        x: Any
        scale: dataclasses.InitVar[float] = 2.0
        config: Any = common

        def __post_init__(self, scale: float = 1.0) -> None:
            self.y = self.x * scale * self.config.scale

    def step(x: tf.Tensor, n: int) -> Any:
        common.scale = common.scale + float(n)
        return Point(x).y, Point(x, 5.0).y

    return step, with_number, common


@typing.runtime_checkable
class Scaling(typing.Protocol):
    def scale(self, x: Any) -> Any: ...


@program
def classes_that_are_asked() -> Any:
    log: list[Any] = []

    class Meta(type):
        def __instancecheck__(cls, value: Any) -> bool:
            log.append("instance")
            return type(value) is str

        def __subclasscheck__(cls, kind: type) -> bool:
            log.append(kind.__name__)
            return kind is int

    class Kind(metaclass=Meta):
        unit = 2.0

        def __class_getitem__(cls, key: int) -> float:
            log.append(key)
            return cls.unit * key

    thing = types.SimpleNamespace()

    def arguments(i: int) -> Any:
        if i == 8:
            thing.scale, Kind.unit = len, 9.0
        return (tensor(i),)

    def step(x: tf.Tensor) -> Any:
        found = isinstance("5", Kind), issubclass(int, Kind), isinstance(thing, Scaling)
        return found, x * Kind[3]

    return step, arguments, log
