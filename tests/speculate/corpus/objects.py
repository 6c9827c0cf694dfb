"""Objects made during the call, kept, returned; two names of one; dataclasses, named tuples, context managers."""

from __future__ import annotations

import collections
import dataclasses
import types
from typing import Any, NamedTuple

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor
from tests.speculate.corpus.classes import Base, Derived


class Point(NamedTuple):
    """Two numbers or tensors."""

    x: Any
    y: Any = 0.0

    def total(self) -> Any:
        return self.x + self.y


@dataclasses.dataclass
class State:
    """What a cell carries on."""

    h: Any
    count: int = 0
    log: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.count += 1


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings."""

    rate: float = 0.5
    name: str = "c"


class Slotted:
    """Has no dict."""

    __slots__ = ("value", "other")

    def __init__(self, value: Any) -> None:
        self.value = value


class Managed:
    """A context manager."""

    def __init__(self) -> None:
        self.depth = 0
        self.log: list[str] = []

    def __enter__(self) -> Managed:
        self.depth += 1
        self.log.append("in")
        return self

    def __exit__(self, *error: Any) -> None:
        self.depth -= 1
        self.log.append("out")


@program
def objects_made_and_returned() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        made = Base(2.0)
        made.extra = [x, n]
        made.other = {"made": made.extra, "n": n}
        return made, Point(x * 2.0, n), made.extra

    return step, lambda i: (tensor(i), i), None


@program
def an_object_made_is_kept() -> Any:
    box = types.SimpleNamespace(state=State(tf.zeros([4, 3])), all=[])

    def step(x: tf.Tensor) -> Any:
        state = State(tf.tanh(box.state.h + x), box.state.count)
        state.log.append(float(tf.reduce_sum(x)))
        box.state = state
        box.all.append(state)
        return state.h

    return step, with_tensor, box


@program
def named_tuples() -> Any:
    Pair = collections.namedtuple("Pair", ["left", "right"])
    kept = types.SimpleNamespace(pair=Pair(1.0, tf.ones([3])))

    def step(x: tf.Tensor) -> Any:
        left, right = kept.pair
        point = Point(x, y=left)
        kept.pair = kept.pair._replace(right=right + x[0])
        return point.total(), point._asdict(), point.y, kept.pair.right, isinstance(point, tuple)

    return step, with_tensor, kept


@program
def frozen_dataclasses() -> Any:
    config = Config()

    def step(x: tf.Tensor, config: Config) -> Any:
        other = dataclasses.replace(config, name="d")
        return x * config.rate, other == config, other.name, config == Config(config.rate)

    return step, lambda i: (tensor(i), config if i < 7 else Config(2.0)), None


@program
def slots() -> Any:
    box = Slotted(0.0)
    boxes = [box]

    def step(x: tf.Tensor) -> Any:
        box.value = box.value + 1.0
        made = Slotted(x)
        made.other = made.value * box.value
        return made.other, hasattr(made, "missing")

    return step, with_tensor, boxes


@program
def a_users_context_manager() -> Any:
    managed = Managed()

    def step(x: tf.Tensor) -> Any:
        with managed as inner, Managed() as other:
            x = x * inner.depth + other.depth
            with managed:
                x = x + managed.depth
        return x

    return step, with_tensor, managed


@program
def a_return_out_of_a_with() -> Any:
    managed = Managed()

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        for i in range(3):
            with managed:
                if s > float(i):
                    return x * i
        return x

    return step, lambda i: (tensor(i), tf.constant(float(i % 3))), managed


@program
def two_names_of_one_object() -> Any:
    one, other = types.SimpleNamespace(n=1), types.SimpleNamespace(n=1)

    def step(x: tf.Tensor, a: Any, b: Any) -> Any:
        a.n += 1
        b.n += 10
        return x * a.n

    return step, lambda i: (tensor(i), one, one if i % 4 == 3 or i == 9 else other), [one, other]


@program
def two_names_of_one_list() -> Any:
    one, other = [1], [2]

    def step(x: tf.Tensor, a: list[int], b: list[int]) -> Any:
        a[0] += 1
        b[0] += 10
        return x * a[0]

    return step, lambda i: (tensor(i), one, other if i < 7 else one), [one, other]


@program
def one_new_list_in_two_places() -> Any:
    kept = types.SimpleNamespace(one=[0], other=[0])

    def step(x: tf.Tensor) -> Any:
        kept.one.append(1)
        seen = len(kept.other)  # one more where the call before has left one list in both places
        kept.one = kept.other = [seen]
        return x * float(seen)

    return step, with_tensor, kept


@program
def a_chain_of_objects() -> Any:
    def node(depth: int) -> Any:
        return types.SimpleNamespace(value=float(depth), next=node(depth - 1) if depth else None)

    def step(x: tf.Tensor, node: Any) -> Any:
        while node is not None:
            x = x * 0.5 + node.value
            node.value += 1
            node = node.next
        return x

    chains = [node(2), node(3)]
    return step, lambda i: (tensor(i), chains[i % 2 if i > 6 else 0]), chains


@program
def types_are_looked_at() -> Any:
    class Sub(dict):  # type: ignore[type-arg]
        pass

    def step(x: tf.Tensor, n: int) -> Any:
        return (
            isinstance(x, tf.Tensor), type(x).__name__, type(n) is int, isinstance(n, (float, str)), callable(step),
            issubclass(Derived, Base), type(Sub()) is dict, x.dtype == tf.float32, x.shape[0], len(x), x.shape.rank,
            type(None) is type(n and None),
        )  # fmt: skip

    return step, lambda i: (tensor(i), i), None
