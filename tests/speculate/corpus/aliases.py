"""One tensor, variable, array or container in two places: in some calls, in all of them, in some places only."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program


def pair(i: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Two tensors, the same one in every third call."""
    a = tf.constant([1.0, 2.0]) + i
    return (a, a) if i % 3 == 2 else (a, a + 1.0)


def late_pair(i: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Two tensors, the same one from the eighth call on, when there is a graph; two again from the twelfth on."""
    a = tf.constant([1.0, 2.0]) + i
    return (a, a) if 8 <= i < 12 else (a, a + 1.0)


def gradients_of_two(a: tf.Tensor, b: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = a * b + b
    return tape.gradient(y, [a, b])


@program
def two_parameters() -> Any:
    return lambda a, b: gradients_of_two(a, b), pair, None


@program
def two_parameters_late() -> Any:
    return lambda a, b: gradients_of_two(a, b), late_pair, None


@program
def one_source_of_two() -> Any:
    def step(a: tf.Tensor, b: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(b)
            y = tf.reduce_sum(a * a)
        return tape.gradient(y, b)

    return step, late_pair, None


@program
def zeros_where_nothing_leads() -> Any:
    def step(a: tf.Tensor, b: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(b)
            y = tf.reduce_sum(a * a)
        return tape.gradient(y, b, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return step, late_pair, None


@program
def a_target_that_is_a_source() -> Any:
    def step(a: tf.Tensor, b: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
        return tape.gradient(a, b)

    return step, late_pair, None


@program
def a_jacobian() -> Any:
    def step(a: tf.Tensor, b: tf.Tensor) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(a)
            y = a * a * b
        return tape.jacobian(y, a), tape.jacobian(y, b)

    return step, late_pair, None


@program
def members_of_a_list() -> Any:
    state = [tf.constant([0.0, 1.0]), tf.constant([2.0, 3.0]), tf.constant([4.0, 5.0])]

    def arguments(i: int) -> tuple[Any]:
        a, b, c = (tensor + float(i) for tensor in state)
        return ([[a, b, c], [a, b, a], [a, a, a]][i // 5],)

    def step(members: list[tf.Tensor]) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(members)
            y = members[0] * members[1] + members[2]
        return tape.gradient(y, members)

    return step, arguments, None


@program
def an_attribute_and_a_parameter() -> Any:
    class Holder:
        tensor = tf.constant([1.0, 2.0])

    holder = Holder()

    def arguments(i: int) -> tuple[tf.Tensor]:
        holder.tensor = tf.constant([1.0, 2.0]) * i
        return (holder.tensor if i % 4 > 1 else holder.tensor + 1.0,)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(x * holder.tensor)
        return tape.gradient(y, x)

    return step, arguments, None


shared = tf.constant([1.0, 2.0])


@program
def a_global_and_a_parameter() -> Any:
    def arguments(i: int) -> tuple[tf.Tensor]:
        return (shared if i >= 9 else shared + float(i),)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(x * shared)
        return tape.gradient(y, x)

    return step, arguments, None


@program
def a_closure_and_a_dict() -> Any:
    cell = tf.constant([3.0, 4.0])
    table: dict[str, tf.Tensor] = {"x": cell}

    def arguments(i: int) -> tuple[()]:
        table["x"] = cell if i in (1, 9, 10) else cell * float(i)
        return ()

    def step() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(cell)
            y = tf.reduce_sum(table["x"] ** 3 + cell)
        return tape.gradient(y, [cell, table["x"]])

    return step, arguments, table


@program
def any_number_of_arguments() -> Any:
    def arguments(i: int) -> tuple[tf.Tensor, ...]:
        a, b = pair(i)
        return a, b, a + 1.0

    def step(*rest: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(rest)
            y = tf.reduce_prod(tf.stack(rest))
        return tape.gradient(y, rest)

    return step, arguments, None


@program
def nested_tapes_and_one_tensor() -> Any:
    def step(a: tf.Tensor, b: tf.Tensor) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(b)
            with tf.GradientTape() as inner:
                inner.watch(a)
                y = tf.reduce_sum(a * a * b)
            first = inner.gradient(y, a)
        return first, outer.gradient(first, b)

    return step, late_pair, None


@program
def identity_of_tensors() -> Any:
    def step(a: tf.Tensor, b: tf.Tensor) -> Any:
        return a + 1.0 if a is b else a * b

    return step, pair, None


@program
def no_tape_at_all() -> Any:
    """Where nothing asks which tensor is which, one graph serves."""
    return lambda a, b: a * b + a, pair, None


@program
def the_same_zeros_at_first() -> Any:
    """As the initial states of layers often are: one graph for the first call's kind, one for the others."""
    weight = tf.Variable(2.0)
    zeros = tf.zeros([2])
    states = [zeros, zeros]

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            first = tf.tanh(x + states[0] * weight)
            second = tf.tanh(first + states[1] * weight)
            loss = tf.reduce_sum(second)
        states[0], states[1] = first, second
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    return step, lambda i: (tf.constant([0.1, 0.2]) * i,), [weight, states]


@program
def two_names_of_a_variable() -> Any:
    a, b = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])

    def step(v: tf.Variable, w: tf.Variable) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(v * v * w)
        gradients = tape.gradient(y, [v, w])
        v.assign_sub(0.01 * gradients[0])
        w.assign_sub(0.01 * gradients[1])
        return gradients

    return step, lambda i: [(a, b), (a, a), (b, a)][i // 5], [a, b]


@program
def two_names_of_a_list() -> Any:
    first: list[float] = []
    second: list[float] = []

    def step(a: list[float], b: list[float], x: tf.Tensor) -> Any:
        a.append(1.0)
        return x * len(b) + len(a)

    return step, lambda i: (first, second if i % 4 < 2 else first, tf.ones([2])), [first, second]


@program
def two_names_of_a_dict_in_objects() -> Any:
    class Holder:
        def __init__(self) -> None:
            self.table = {"n": 0}

    one, other = Holder(), Holder()

    def arguments(i: int) -> tuple[tf.Tensor]:
        other.table = one.table if i >= 9 else {"n": i}
        return (tf.ones([2]) * i,)

    def step(x: tf.Tensor) -> Any:
        one.table["n"] += 1
        return x * other.table["n"]

    return step, arguments, [one, other]


@program
def two_names_of_an_array() -> Any:
    def arguments(i: int) -> tuple[np.ndarray, np.ndarray]:
        a = np.array([1.0, 2.0], "f") * i
        return (a, a) if i % 3 == 2 else (a, a + 1.0)

    def step(a: np.ndarray, b: np.ndarray) -> Any:
        return tf.constant(a) * tf.convert_to_tensor(b)

    return step, arguments, None


@program
def a_tensor_in_slices_and_alone() -> Any:
    def arguments(i: int) -> tuple[Any, tf.Tensor]:
        values = tf.constant([[1.0, 2.0]]) * i
        return tf.IndexedSlices(values, tf.constant([0]), tf.constant([1, 2])), values if i % 2 else values + 1.0

    def step(slices: tf.IndexedSlices, x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(slices.values * x)
        return tape.gradient(y, x)

    return step, arguments, None


class Kept:
    """Containers that are there before each call."""

    def __init__(self) -> None:
        self.parts: Any = [tf.constant(1.0), tf.constant(-1.0)]
        self.pair: Any = (tf.constant(2.0), [tf.constant(3.0)])
        self.held: Any = [[tf.constant(1.0), 1]]
        self.table: Any = {"k": {"a": 0.5}}
        self.seen: list[Any] = []


def _left_or_replaced(step: Any) -> Any:
    """Others change what is there, and look whether it is the same object after each call."""
    kept = Kept()
    others = [kept.parts, kept.held[0], kept.table["k"]]

    def arguments(i: int) -> tuple[tf.Tensor, tf.Tensor]:
        now = [kept.parts, kept.held[0], kept.table["k"]]
        kept.seen.append([one is other for one, other in zip(others, now, strict=True)])
        others[:] = now
        if i % 3 == 1:
            kept.parts[0] = tf.constant(100.0 + i)
            kept.held[0][1] = i
        return tf.fill([3], float(i)), tf.constant(float((i * i) % 3 if i % 2 else 0))

    return lambda x, s: step(kept, x, s), arguments, kept


@program
def a_list_is_replaced_or_left() -> Any:
    def step(kept: Kept, x: tf.Tensor, s: tf.Tensor) -> Any:
        if s > 0.5:
            return s
        kept.parts = [tf.reduce_mean(x), s]
        return x

    return _left_or_replaced(step)


@program
def members_and_items_are_replaced_or_left() -> Any:
    def step(kept: Kept, x: tf.Tensor, s: tf.Tensor) -> Any:
        if s > 0.5:
            kept.held[0] = [x[0], 2]
            kept.table["k"] = {"a": 1.5}
        return s

    return _left_or_replaced(step)


@program
def a_list_is_one_that_was_there_or_a_new_one() -> Any:
    def step(kept: Kept, x: tf.Tensor, s: tf.Tensor) -> Any:
        found = kept.parts if s > 0.5 else [x[0], s]
        found.append(x[1])
        first, many = found[0], len(kept.parts)
        del found[-1]
        return first, many, found is kept.parts

    return _left_or_replaced(step)


@program
def a_list_is_replaced_in_rounds() -> Any:
    def step(kept: Kept, x: tf.Tensor, s: tf.Tensor) -> Any:
        before = kept.parts
        while s > 0.5:
            kept.parts = [s, x[0]]
            s = s - 1.0
        return before is kept.parts, kept.parts[0]

    return _left_or_replaced(step)


@program
def a_tuple_is_replaced_or_left() -> Any:
    def step(kept: Kept, x: tf.Tensor, s: tf.Tensor) -> Any:
        if s > 0.5:
            kept.seen[-1:] = [kept.seen[-1]]
        else:
            kept.pair = (tf.reduce_mean(x), [s])
        return kept.pair[0]

    return _left_or_replaced(step)


@program
def a_state_of_tensors_is_set_anew_or_left() -> Any:
    class Cell:
        state: Any = (tf.zeros([3]), tf.ones([3]))

    cell = Cell()
    cell.state = Cell.state

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        if s > 0.5:
            cell.state = (tf.zeros([3]), tf.zeros([3]))
        h, c = cell.state
        cell.state = (tf.tanh(h + x), c + h)
        return h

    return step, lambda i: (tf.fill([3], 0.1 * i), tf.constant(float(i % 4 == 1))), cell
