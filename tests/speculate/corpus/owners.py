"""Lists, dicts and numbers that belong to what is no plain object: variables, modules and layers of libraries, members
of enumerations, functions and what they consist of, classes around a method.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import operator
import os
import types
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


class _Holder:
    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.scale = 1.0

    def scaled(self, x: Any) -> Any:
        return x * self.scale


@program
def a_variable_keeps_containers() -> Any:
    v: Any = tf.Variable(1.0)
    v.seen, v.table, v.last = [], {"n": 0}, collections.deque(maxlen=2)

    def step(x: tf.Tensor) -> Any:
        v.seen.append(len(v.last))
        v.table["n"] += 1
        v.last.append(v.table["n"])
        return x * v * v.table["n"]

    return step, with_tensor, [v.seen, v.table, v.last]


@program
def a_variable_keeps_what_is_replaced() -> Any:
    """A number, a tensor and an object, each another one in later calls."""
    v: Any = tf.Variable(1.0)
    v.scale, v.shift, v.holder = 1.0, tf.constant(1.0), _Holder()

    def step(x: tf.Tensor) -> Any:
        v.holder.seen.append(1.0)
        return v.holder.scaled(x) * v * v.scale + v.shift

    def arguments(i: int) -> tuple[tf.Tensor]:
        v.scale, v.shift = float(i // 5), tf.constant(float(i))
        if i == 7:
            v.holder = _Holder()
        if i == 9:
            v.holder.scale = 3.0
        return (tensor(i),)

    return step, arguments, [v.holder.seen]


@program(
    eager="a list of a variable's, in a call that cannot be converted",
    feature="FOREIGN_FUNCTION",
    line="x * n * 0 * os.getpid()",
)
def a_variable_keeps_a_list_in_a_call_that_runs_eagerly() -> Any:
    """What the conversion has tried is not seen."""
    v: Any = tf.Variable(1.0)
    v.seen = []

    def step(x: tf.Tensor) -> Any:
        v.seen.append(1.0)
        n = len(v.seen)
        return (
            x * n * 0 * os.getpid()
        )  # fmt: skip

    return step, with_tensor, v.seen


@program
def a_module_of_tensorflow_keeps_containers() -> Any:
    module: Any = tf.Module()
    module.seen, module.table, module.scale = [], {"n": 0}, 2.0

    def step(x: tf.Tensor) -> Any:
        module.seen.append(1.0)
        module.table["n"] += 1
        return x * module.table["n"] * module.scale

    def arguments(i: int) -> tuple[tf.Tensor]:
        module.scale = float(i // 6)
        return (tensor(i),)

    return step, arguments, [module.seen, module.table]


@program
def a_layer_keeps_a_list() -> Any:
    layer: Any = keras.layers.Dense(2)
    layer.seen = []

    def step(x: tf.Tensor) -> Any:
        layer.seen.append(1.0)
        return x + 1.0

    return step, with_tensor, layer.seen


@program(eager="an array that a layer keeps is changed", feature="INDEX", line="layer.counts[0] += 1.0")
def a_layer_keeps_an_array() -> Any:
    layer: Any = keras.layers.Dense(2)
    layer.counts = np.ones(3, np.float32)

    def step(x: tf.Tensor) -> Any:
        layer.counts[0] += 1.0
        return x * layer.counts

    return step, with_tensor, layer.counts


@program
def members_of_enumerations_keep_lists() -> Any:
    """As an attribute, as the value, found by name, by value and in a loop."""

    class Kind(enum.Enum):
        ONE = 1
        TABLE = {"n": 0}

        def __init__(self, value: Any) -> None:
            self.seen: list[Any] = []
            self.count = 0

    def step(x: tf.Tensor, kind: Any) -> Any:
        for member in Kind:
            member.seen.append(1.0)
        Kind(1).seen.append(2.0)
        Kind["ONE"].seen.append(3.0)
        Kind.TABLE.value["n"] += 1
        kind.count += 1
        return x * Kind.TABLE.value["n"] * kind.count

    def arguments(i: int) -> tuple[Any, ...]:
        return tensor(i), Kind.ONE

    return step, arguments, [Kind.ONE.seen, Kind.TABLE.seen, Kind.TABLE.value]


@program
def what_a_partial_function_holds_is_changed() -> Any:
    def product(members: list[float], x: Any, b: float) -> Any:
        return x * b + members[-1]

    held: Any = functools.partial(product, [1.0], b=1.0)
    held.seen = []

    def step(x: tf.Tensor) -> Any:
        held.keywords["b"] += 1.0
        held.args[0][0] += 1.0
        held.seen.append(held.keywords["b"])
        return held(x)

    return step, with_tensor, [held.keywords, held.args[0], held.seen]


@program
def what_a_function_consists_of_is_changed() -> Any:
    """Its attributes, a default, and what its closure holds."""
    noted: list[float] = []

    def scaled(x: Any, members: list[float] = [1.0]) -> Any:
        return x * members[0] + len(noted)

    parts: Any = scaled
    parts.seen, parts.count = [], 0

    def step(x: tf.Tensor) -> Any:
        parts.__dict__["count"] += 1
        parts.count += 1
        parts.__dict__["seen"].append(parts.count)
        parts.__defaults__[0][0] += 1.0
        parts.__closure__[0].cell_contents.append(1.0)
        return parts(x)

    return step, with_tensor, [parts.__dict__, parts.__defaults__[0], noted]


@program
def what_a_function_consists_of_is_replaced() -> Any:
    scale = 1.0

    def scaled(x: Any) -> Any:
        return x * scale

    parts: Any = scaled
    names: dict[str, Any] = {"shift": 1.0}
    exec("def other(x): return x", names)
    other: Any = names["other"]

    def step(x: tf.Tensor) -> Any:
        return x * parts.__closure__[0].cell_contents + other.__globals__["shift"]

    def arguments(i: int) -> tuple[tf.Tensor]:
        nonlocal scale
        scale, names["shift"] = float(i // 5), float(i)
        return (tensor(i),)

    return step, arguments, []


@program(eager="named defaults are read as a whole", feature="ATTRIBUTE", line='parts.__kwdefaults__["b"] += 1.0')
def named_defaults_are_changed() -> Any:
    def scaled(x: Any, *, b: float = 1.0) -> Any:
        return x * b

    parts: Any = scaled

    def step(x: tf.Tensor) -> Any:
        parts.__kwdefaults__["b"] += 1.0
        return parts(x)

    return step, with_tensor, parts.__kwdefaults__


@program
def methods_have_the_attributes_of_their_functions() -> Any:
    class Model:
        def scaled(self, x: Any) -> Any:
            return x * 2.0

        @classmethod
        def shifted(cls, x: Any) -> Any:
            return x + 1.0

    model, functions = Model(), [Model.scaled, Model.shifted.__func__]
    for function in functions:
        function.__dict__.update(seen=[], scale=1.0)

    def step(x: tf.Tensor) -> Any:
        model.scaled.seen.append(1.0)  # type: ignore[attr-defined]
        Model.shifted.seen.append(2.0)  # type: ignore[attr-defined]
        return model.scaled(x) * model.scaled.scale  # type: ignore[attr-defined]

    def arguments(i: int) -> tuple[tf.Tensor]:
        functions[0].__dict__["scale"] = float(i // 5)
        return (tensor(i),)

    return step, arguments, [function.__dict__ for function in functions]


@program
def defaults_of_records_are_changed() -> Any:
    """Of a named tuple, and of a data class with slots."""
    shared, holder = [1.0], _Holder()
    pair = collections.namedtuple("pair", "a b", defaults=[shared])  # type: ignore[misc]

    @dataclasses.dataclass(slots=True)
    class Row:
        a: Any
        held: Any = dataclasses.field(default=holder, init=False)

    def step(x: tf.Tensor) -> Any:
        found = pair(x)
        found.b[0] += 1.0
        row = Row(found.a * found.b[0])
        row.held.seen.append(1.0)
        return row.a * row.held.scale

    def arguments(i: int) -> tuple[tf.Tensor]:
        holder.scale = float(i // 5)
        return (tensor(i),)

    return step, arguments, [shared, holder]


@program
def a_class_around_a_method_keeps_a_list() -> Any:
    class Base:
        seen: list[float] = []
        holder = _Holder()

    class Derived(Base):
        def scaled(self, x: Any) -> Any:
            super().seen.append(1.0)
            super().holder.seen.append(2.0)
            return super().holder.scaled(x)

    model = Derived()

    def step(x: tf.Tensor) -> Any:
        return model.scaled(x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        Base.holder.scale = float(i // 5)
        return (tensor(i),)

    return step, arguments, [Base.seen, Base.holder]


@program(
    eager="what a field says of itself", feature="CONTAINER", line='noted = dataclasses.fields(Row)[0].metadata["seen"]'
)
def metadata_of_a_field_is_changed() -> Any:
    @dataclasses.dataclass
    class Row:
        a: int = dataclasses.field(default=1, metadata={"seen": []})

    def step(x: tf.Tensor) -> Any:
        noted = dataclasses.fields(Row)[0].metadata["seen"]
        noted.append(1.0)
        return x * len(noted)

    return step, with_tensor, dataclasses.fields(Row)[0].metadata["seen"]


class _Module(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.parts, self.calls = tf.Variable(2.0), [], 0
        self.sizes: list[int] = []


@program
def a_module_gets_other_variables() -> Any:
    """As an attribute, in a list of its own, and in place of another; one is frozen. Data that it keeps may change."""
    module = _Module()

    def step(x: tf.Tensor) -> Any:
        module.calls += 1
        module.sizes.append(module.calls)
        with tf.GradientTape() as tape:
            for variable in module.trainable_variables:
                x = x * variable
            loss = tf.reduce_sum(x)
        gradients = tape.gradient(loss, module.trainable_variables)
        return loss, len(gradients), len(module.submodules)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 5:
            module.bias = tf.Variable(3.0)
        if i == 7:
            module.parts.append(_Module())
        if i == 8:
            module.weight = tf.Variable(5.0)
        if i == 10:
            module.bias._trainable = False
        return (tensor(i),)

    return step, arguments, [module.sizes]


@program
def a_variable_is_frozen() -> Any:
    """By name, and for a tape."""
    v = tf.Variable(2.0)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * v)
        gradient = tape.gradient(loss, v)
        return (x if gradient is None else x * gradient), (2.0 if v.trainable else 3.0)

    def arguments(i: int) -> tuple[tf.Tensor]:
        v._trainable = i < 7
        return (tensor(i),)

    return step, arguments, v


@program
def a_tensor_has_no_attribute_of_the_programs() -> Any:
    """In some calls it has one; they run eagerly."""

    def step(x: tf.Tensor) -> Any:
        return x * (2.0 if hasattr(x, "weight") else 1.0) * getattr(x, "scale", 3.0)

    def arguments(i: int) -> tuple[tf.Tensor]:
        x: Any = tensor(i)
        if i in (5, 6):
            x.scale = float(i)
        if i == 7:
            x.weight = True
        return (x,)

    return step, arguments, []


@program(eager="equal data may be one object or two", feature="IDENTITY", line="if held[0] is held[1]:")
def equal_data_is_one_object_in_some_calls() -> Any:
    held = ["word" * 9, "".join(["word"] * 9)]

    def step(x: tf.Tensor) -> Any:
        if held[0] is held[1]:
            return x * 2.0
        return x * 3.0

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 6:
            held[1] = held[0]
        return (tensor(i),)

    return step, arguments, []


@program
def data_that_differs_is_not_one_object() -> Any:
    """Nor is there more than one of each small number, or of what is empty."""
    held: list[Any] = ["one", "two", 3, 3, ()]

    def step(x: tf.Tensor) -> Any:
        return x * (2.0 if held[0] is held[1] else 3.0) + (held[2] is held[3]) + (held[4] is tuple([]))

    return step, with_tensor, []


@program
def a_manager_with_methods_of_its_own() -> Any:
    """`with` looks for them in the class."""

    class Noting:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def __enter__(self) -> float:
            self.seen.append("in")
            return 2.0

        def __exit__(self, *_: Any) -> None:
            self.seen.append("out")

    manager = Noting()
    vars(manager).update(__enter__=lambda: 5.0, __exit__=lambda *_: True)

    def step(x: tf.Tensor) -> Any:
        with manager as scale:
            x = x * scale
        return x

    return step, with_tensor, manager.seen


class _Reflected:
    def __radd__(self, other: Any) -> Any:
        return "added to", type(other).__name__

    def __rmod__(self, other: Any) -> Any:
        return "never asked by a text"

    def __str__(self) -> str:
        return "text"


@program(
    eager="NumPy asks an object for each member of an array", feature="OPERATOR", line="return x, str(array + right)"
)
def an_array_is_on_the_left_of_an_object() -> Any:
    array, right = np.ones(2, np.float32), _Reflected()

    def step(x: tf.Tensor) -> Any:
        return x, str(array + right)

    return step, with_tensor, []


@program(eager="an object is made a part of a text", feature="TEXT", line='return x, "%s" % right')
def a_text_is_on_the_left_of_an_object() -> Any:
    right = _Reflected()

    def step(x: tf.Tensor) -> Any:
        return x, "%s" % right

    return step, with_tensor, []


class _Giving:
    """What the special methods give, which Python checks."""

    def __init__(self) -> None:
        self.length, self.truth, self.number, self.place, self.text, self.hash = 2, True, 1.5, 1, "a", 5

    def __len__(self) -> int:
        return self.length

    def __bool__(self) -> bool:
        return self.truth

    def __float__(self) -> float:
        return self.number

    def __index__(self) -> int:
        return self.place

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return self.hash


def _asks(ask: Any, name: str, *wrong: Any) -> Any:
    """A step that asks an object for something; some calls find what Python does not take."""
    giving = _Giving()
    right = getattr(giving, name)

    def step(x: tf.Tensor) -> Any:
        return x * 2.0, ask(giving)

    def arguments(i: int) -> tuple[tf.Tensor]:
        setattr(giving, name, wrong[i % len(wrong)] if i in (5, 6) else right)
        return (tensor(i),)

    return step, arguments, []


@program
def a_length_that_is_none() -> Any:
    return _asks(lambda giving: len(giving), "length", -1, 1.5)


@program
def a_truth_that_is_none() -> Any:
    return _asks(lambda giving: 1.0 if giving else 2.0, "truth", 1, "")


@program
def a_float_that_is_none() -> Any:
    return _asks(lambda giving: float(giving), "number", 2, "a")


@program
def a_text_that_is_none() -> Any:
    return _asks(lambda giving: f"{giving!s}.", "text", 2, None)


@program
def a_hash_that_is_none() -> Any:
    """`-1` is no hash, and one that is too long is hashed again."""
    return _asks(lambda giving: hash(giving), "hash", -1, 1 << 70)


@program
def an_index_that_is_none() -> Any:
    return _asks(lambda giving: operator.index(giving), "place", 1.0, "a")


@program
def places_that_objects_say() -> Any:
    """In assignments, in slices, and in methods of lists."""
    giving = _Giving()

    def step(x: tf.Tensor) -> Any:
        members = [1, 2, 3, 4, 5, 6]
        members[giving] = 9
        members.insert(giving, 8)
        del members[giving]
        return x, members, members[giving:], members.pop(giving)

    def arguments(i: int) -> tuple[tf.Tensor]:
        giving.place = i // 4
        return (tensor(i),)

    return step, arguments, []


@program
def an_initialiser_that_gives_something() -> Any:
    result: list[Any] = [None]

    class Row:
        def __init__(self) -> None:
            return result[0]

    def step(x: tf.Tensor) -> Any:
        Row()
        return x * 2.0

    def arguments(i: int) -> tuple[tf.Tensor]:
        result[0] = 5 if i in (5, 6) else None
        return (tensor(i),)

    return step, arguments, []


@program(eager="the class runs something when it is given up", feature="OBJECT", line="held.one = None")
def an_object_is_given_up_that_notices() -> Any:
    noted: list[int] = []

    class Noticing:
        def __init__(self, number: int) -> None:
            self.number = number

        def __del__(self) -> None:
            noted.append(self.number)

    held = types.SimpleNamespace(one=None)

    def step(x: tf.Tensor) -> Any:
        held.one = None
        return x * len(noted)

    def arguments(i: int) -> tuple[tf.Tensor]:
        held.one = Noticing(i)
        return (tensor(i),)

    return step, arguments, []


@program
def a_layer_keeps_a_list_in_a_tuple() -> Any:
    """And an object of Python's own, whose attributes are the program's."""
    layer: Any = keras.layers.Dense(2)
    layer.pair = [], types.SimpleNamespace(seen=[], count=0)

    def step(x: tf.Tensor) -> Any:
        layer.pair[0].append(1.0)
        layer.pair[1].seen.append(2.0)
        layer.pair[1].count += 1
        return x * layer.pair[1].count

    return step, with_tensor, layer.pair


@program
def attributes_by_two_names() -> Any:
    """Of a partial function, which is one place as itself and in its dictionary."""

    def scaled(x: Any) -> Any:
        return x * 2.0

    held: Any = functools.partial(scaled)
    held.count, held.seen = 1, []

    def step(x: tf.Tensor) -> Any:
        held.__dict__["count"] += 1
        held.count += 1
        vars(held)["seen"].append(held.count)
        return held(x) * held.count

    return step, with_tensor, vars(held)


@program
def functions_and_members_count() -> Any:
    """A function counts its own calls, and a member of an enumeration gets an attribute."""

    class Kind(enum.Enum):
        ONE = 1

    def fibonacci(n: int) -> int:
        counting.calls += 1
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    counting: Any = fibonacci
    counting.calls = 0

    def step(x: tf.Tensor) -> Any:
        member: Any = Kind.ONE
        member.count = getattr(member, "count", 0) + 1
        return x * fibonacci(5) * member.count

    return step, with_tensor, [counting.__dict__, Kind.ONE]


@program
def what_a_layer_keeps_is_an_argument_later() -> Any:
    one, other = _Holder(), _Holder()
    layer: Any = keras.layers.Dense(2)
    layer.holder = one

    def step(x: tf.Tensor, holder: Any) -> Any:
        holder.scale += 1.0
        return layer.holder.scaled(x)

    def arguments(i: int) -> tuple[Any, ...]:
        return tensor(i), one if i == 6 else other

    return step, arguments, [one, other]


@program(
    eager="Keras keeps the table that it gives",
    feature="FRAMEWORK",
    line="table = keras.saving.get_custom_objects()",
)
def a_table_that_a_library_keeps_is_changed() -> Any:
    keras.saving.get_custom_objects().pop("kept", None)

    def step(x: tf.Tensor) -> Any:
        table = keras.saving.get_custom_objects()
        table["kept"] = table.get("kept", 0) + 1
        return x * table["kept"]

    return step, with_tensor, keras.saving.get_custom_objects()
