"""Classes and objects: methods, properties, inheritance, operators, dataclasses, context managers."""

from __future__ import annotations

import collections
import functools
import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


class Base:
    """A small model."""

    scale = 2.0
    made = 0

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.__hidden = 1.0
        self._state = 0.0

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        return x * self.factor + self.__hidden

    @property
    def state(self) -> float:
        return self._state

    @state.setter
    def state(self, value: float) -> None:
        self._state = value * 2

    @state.deleter
    def state(self) -> None:
        self._state = -1.0

    @staticmethod
    def double(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    @classmethod
    def scaled(cls, x: tf.Tensor) -> tf.Tensor:
        return x * cls.scale


class Derived(Base):
    """Overrides it."""

    scale = 3.0

    def __init__(self, factor: float) -> None:
        super().__init__(factor + 1.0)
        self.__hidden = 5.0

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        return super().apply(x) - self.__hidden

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return self.apply(x)


class Bag:
    """A container of its own kind."""

    def __init__(self, members: list[Any]) -> None:
        self.members = members

    def __getitem__(self, index: int) -> Any:
        return self.members[index]

    def __setitem__(self, index: int, value: Any) -> None:
        self.members[index] = value

    def __delitem__(self, index: int) -> None:
        del self.members[index]

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Any:
        return iter(self.members)

    def __contains__(self, member: Any) -> bool:
        return member in self.members

    def __bool__(self) -> bool:
        return self.members != []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and self.members == other.members

    def __add__(self, other: Bag) -> Bag:
        return Bag(self.members + other.members)

    def __radd__(self, other: list[Any]) -> Bag:
        return Bag(other + self.members)

    def __iadd__(self, other: Any) -> Bag:
        self.members.append(other)
        return self

    def __neg__(self) -> Bag:
        return Bag(self.members[::-1])

    def __lt__(self, other: Bag) -> bool:
        return len(self) < len(other)


@program
def methods_and_super() -> Any:
    model = Derived(2.0)

    def step(x: tf.Tensor) -> Any:
        return model.apply(x), model(x), Base.apply(model, x)

    return step, with_tensor, model


@program
def properties() -> Any:
    model = Base(2.0)

    def step(x: tf.Tensor, n: int) -> Any:
        model.state = model.state + n
        y = x * model.state
        if n == 9:
            del model.state
        return y

    return step, lambda i: (tensor(i), i), model


@program
def static_and_class_methods() -> Any:
    model = Derived(1.0)

    def step(x: tf.Tensor) -> Any:
        return model.double(x), Derived.double(x), model.scaled(x), Base.scaled(x)

    return step, with_tensor, None


@program
def class_attributes_count() -> Any:
    class Model:
        count = 0
        rate = 0.5

        def call(self, x: tf.Tensor) -> tf.Tensor:
            Model.count += 1
            self.last = self.rate
            return x * self.rate * Model.count

    model = Model()

    def arguments(i: int) -> Any:
        if i == 7:
            Model.rate = 2.0
        if i == 11:
            model.rate = 3.0
        return with_tensor(i)

    return model.call, arguments, model


@program
def a_method_is_patched() -> Any:
    class Model:
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return x * 2.0

    model = Model()

    def arguments(i: int) -> Any:
        if i == 7:
            Model.call = lambda self, x: x * 3.0  # type: ignore[method-assign]
        if i == 11:
            model.call = lambda x: x * 4.0  # type: ignore[method-assign]
        return with_tensor(i)

    def step(x: tf.Tensor) -> Any:
        return model.call(x)

    return step, arguments, None


@program
def another_object_of_the_class() -> Any:
    models = [Base(2.0), Base(3.0), Derived(4.0)]

    def step(x: tf.Tensor, model: Base) -> Any:
        model.calls = getattr(model, "calls", 0) + 1  # type: ignore[attr-defined]
        return model.apply(x)

    return step, lambda i: (tensor(i), models[i // 6 if i % 2 else 0]), models


@program
def an_objects_class_changes() -> Any:
    def step(x: tf.Tensor, model: Base) -> Any:
        return model.apply(x)

    return step, lambda i: (tensor(i), Derived(2.0) if i > 7 else Base(2.0)), None


@program
def an_attribute_appears_and_goes() -> Any:
    model = types.SimpleNamespace(rate=0.5)

    def step(x: tf.Tensor) -> Any:
        if hasattr(model, "bonus"):
            x = x + model.bonus
        return x * getattr(model, "rate", 1.0)

    def arguments(i: int) -> Any:
        if i == 6:
            model.bonus = 2.0
        if i == 9:
            del model.bonus
        if i == 12:
            del model.rate
        return with_tensor(i)

    return step, arguments, model


@program
def attributes_by_name() -> Any:
    model = types.SimpleNamespace(a=1.0, b=2.0)

    def step(x: tf.Tensor, n: int) -> Any:
        for name in ("a", "b"):
            setattr(model, name, getattr(model, name) + 1.0)
        model.gone = x
        del model.gone
        delattr(model, "b")
        missing = hasattr(model, "b")
        model.b = n * 1.0
        return x * model.a, missing

    return step, lambda i: (tensor(i), i), model


@program
def an_attribute_is_replaced_by_a_tensor() -> Any:
    model = types.SimpleNamespace(rate=0.5)

    def step(x: tf.Tensor) -> Any:
        return x * model.rate

    def arguments(i: int) -> Any:
        if i == 7:
            model.rate = tf.constant(2.0)
        if i == 11:
            model.rate = 3
        return with_tensor(i)

    return step, arguments, None


@program
def objects_with_operators() -> Any:
    bag = Bag([1.0, 2.0])

    def step(x: tf.Tensor) -> Any:
        both = bag + Bag([3.0])
        both += 4.0
        turned = -both
        both[0] = 7.0
        del both[1]
        truths = [bag == Bag([1.0, 2.0]), bag != both, 2.0 in bag, 9.0 not in bag, bool(bag), not Bag([]), bag < both]
        total = x
        for member in turned:
            total = total * member
        return total, len(both), turned.members, truths, ([5.0] + bag).members, bag[1]

    return step, with_tensor, bag


@program(eager="a class is defined during the call", feature="SYNTAX", line="class Inner:")
def a_class_inside() -> Any:
    def step(x: tf.Tensor) -> Any:
        class Inner:
            factor: float = 2.0
            temporary = factor
            rows = x
            del temporary

        return Inner.rows * Inner.factor

    return step, with_tensor, None


@program(eager="the class has accessors of its own", feature="CUSTOM_ACCESS", line="recorder.value = 1.0")
def custom_accessors() -> Any:
    class Recorder:
        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, value)
            self.__dict__["log"] = [*self.__dict__.get("log", []), name]

    recorder = Recorder()

    def step(x: tf.Tensor) -> Any:
        recorder.value = 1.0
        return x

    return step, with_tensor, recorder


@program(eager="when __del__ runs is seen", feature="NEW_OBJECT", line="held = Held(x * 2.0)")
def objects_that_say_when_they_are_gone() -> Any:
    said: list[float] = []

    class Held:
        def __init__(self, value: tf.Tensor) -> None:
            self.value = value

        def __del__(self) -> None:
            said.append(float(tf.reduce_sum(self.value)))

    def step(x: tf.Tensor) -> Any:
        held = Held(x * 2.0)
        del held
        return x + float(len(said))

    return step, with_tensor, said


@program(
    eager="whose class makes its objects itself",
    feature="NEW_OBJECT",
    line="return Shared(x).total, Shared(x) is Shared.only",
)
def one_object_of_a_class() -> Any:
    class Shared:
        only: Any = None

        def __new__(cls, *arguments: Any) -> Any:
            if cls.only is None:
                cls.only = super().__new__(cls)
                cls.only.total = tf.constant(0.0)
            return cls.only

        def __init__(self, value: tf.Tensor) -> None:
            self.total = self.total + tf.reduce_sum(value)

    def step(x: tf.Tensor) -> Any:
        return Shared(x).total, Shared(x) is Shared.only

    return step, with_tensor, Shared


@program(eager="whose class makes its objects itself", feature="NEW_OBJECT", line="pair = Pair(x)")
def a_named_tuple_that_makes_itself() -> Any:
    class Pair(collections.namedtuple("Pair", "left right")):
        def __new__(cls, left: Any, right: Any = 2.0) -> Any:
            return super().__new__(cls, left * 2.0, right)

    def step(x: tf.Tensor) -> Any:
        pair = Pair(x)
        return pair.left * pair.right

    return step, with_tensor, None


@program(eager="whose class makes its objects itself", feature="NEW_OBJECT", line="made = Counted(x * 2.0)")
def a_class_that_counts_its_objects() -> Any:
    class Counting(type):
        count = 0

        def __call__(cls, *arguments: Any) -> Any:
            Counting.count += 1
            made = super().__call__(*arguments)
            made.number = Counting.count
            return made

    class Counted(metaclass=Counting):
        def __init__(self, value: tf.Tensor) -> None:
            self.value = value

    def step(x: tf.Tensor) -> Any:
        made = Counted(x * 2.0)
        return made.value, made.number

    return step, with_tensor, Counting


@program(
    eager="the __class__ of an object is set",
    feature="ATTRIBUTE",
    line="thing.__class__ = Busy if i % 3 == 1 else Idle",
)
def an_object_that_becomes_another() -> Any:
    class Idle:
        factor = 1.0

    class Busy:
        factor = 3.0

    thing = Idle()

    def step(i: int) -> Any:
        thing.__class__ = Busy if i % 3 == 1 else Idle
        return tf.constant(float(i)) * thing.factor, sorted(thing.__dict__)

    return step, lambda i: (i,), None


class Answering:
    """Has an attribute of its class, one that is computed once, and answers for others."""

    shared = 1.0

    def __init__(self) -> None:
        self.log: list[str] = []

    @functools.cached_property
    def computed(self) -> float:
        self.log.append("computed")
        return 2.0

    def __getattr__(self, name: str) -> float:
        if name == "answered":
            return 3.0
        raise AttributeError(name)


@program
def delete_what_is_not_there() -> Any:
    """What the class has, computes or answers cannot be deleted, nor what is deleted already."""
    o = Answering()

    def step(x: tf.Tensor) -> tf.Tensor:
        o.mine = x
        del o.mine
        for name in ("shared", "computed", "answered", "mine"):
            try:
                delattr(o, name)
            except AttributeError as error:
                o.log.append(str(error))
        del o.log[:-4]
        return x * 2.0

    return step, with_tensor, o


@program
def delete_what_a_tensor_has_deleted() -> Any:
    o = Answering()

    def step(x: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        o.mine = x
        if s > 1.0:
            del o.mine
        try:
            del o.mine
        except AttributeError as error:
            o.log.append(str(error))
        return x * 2.0

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), o
