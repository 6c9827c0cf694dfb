"""Programs in which random ones went wrong once, cut down to what it took, and what only planted bugs had shown."""

from __future__ import annotations

import types
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor


def halved_again(x: tf.Tensor, n: int) -> tf.Tensor:
    """Calls itself by its name in the module."""
    return x if n <= 0 else halved_again(x * 0.5, n - 1)


@program
def a_function_of_the_module_calls_itself() -> Any:
    def step(x: tf.Tensor, n: int) -> tf.Tensor:
        return halved_again(x, n)

    return step, lambda i: (tensor(i), i % 3), None


@program
def a_sum_from_zero_in_a_branch() -> Any:
    """TensorFlow's optimizer makes of this branch a result without a value (see `tf_private.fast_call`)."""

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        for y in [x, x]:
            if s > 0.5:
                return sum([y for _ in range(2)])
        return x

    return step, lambda i: (tensor(i), tf.constant(float(i % 3 > 0))), None


@program
def an_array_is_watched() -> Any:
    """Tapes watch tensors only."""
    held = types.SimpleNamespace(n=0)

    def step(x: Any) -> Any:
        held.n += 1
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(x * x)
        return tape.gradient(loss, x)

    return step, lambda i: (tensor(i).numpy() if i in (5, 7, 8) else tensor(i),), held


@program
def whether_something_is_a_tensor() -> Any:
    def step(x: Any, n: int) -> Any:
        return x * 2.0, tf.is_tensor(x), tf.is_tensor(n)

    return step, lambda i: (tensor(i) if i % 4 else tensor(i).numpy(), i), None


@program
def the_whole_part_of_what_is_no_number() -> Any:
    held = types.SimpleNamespace(n=0)

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        held.n = int(s) + 1
        return x * 2.0, int(s + 0.5)

    values = {6: float("nan"), 9: float("inf"), 12: -3e19}
    return step, lambda i: (tensor(i), tf.constant(values.get(i, i * 0.75))), held


@program(eager="text from the graph as a number", feature="RAISES", line="return x * 2.0, int(s), float(s)")
def a_number_in_a_text_tensor() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        return x * 2.0, int(s), float(s)

    return step, lambda i: (tensor(i), tf.constant(str(i))), None


@program
def a_set_around_a_branch() -> Any:
    held = types.SimpleNamespace(seen=set())

    def step(x: tf.Tensor, n: int) -> Any:
        held.seen.add(n % 3)
        made = {n % 2}
        if tf.reduce_sum(x) > 0.5:
            x = x * 2.0
        return x, made

    return step, lambda i: (tensor(i), i), held


@program
def keys_that_vary_in_containers_of_the_call() -> Any:
    def step(x: tf.Tensor, name: str, n: int) -> Any:
        numbers, table, seen = [3, 1, 2], {"a": 1}, {0}
        found = table.get(name, 7), table.setdefault(name, n), table.pop("b", None)
        seen.add(n)
        seen.update([n + 1, 2])
        numbers.insert(n, 9)
        numbers.sort(reverse=n == 1)
        numbers.pop(n)
        return x * 2.0, found, table, seen, numbers

    return step, lambda i: (tensor(i), "abc"[i % 3], i % 2), None


@program
def keys_that_vary_in_containers_of_before() -> Any:
    held = types.SimpleNamespace(numbers=[3, 1, 2], table={"a": 1}, seen={0})

    def step(x: tf.Tensor, name: str, n: int) -> Any:
        found = held.table.get(name, 7), held.table.setdefault(name, n), held.table.pop("b", None)
        held.seen.update([n + 1, 2])
        held.numbers.insert(n, 9)
        held.numbers.pop(n)
        return x * 2.0, found

    return step, lambda i: (tensor(i), "abc"[i % 3], i % 2), held


@program
def an_assertion_in_one_of_two_branches() -> Any:
    """It fails only where the branch that it is in runs."""
    held = types.SimpleNamespace(n=0)

    def step(x: tf.Tensor, s: tf.Tensor, large: tf.Tensor) -> Any:
        held.n += 1
        if s > 0.5:
            assert large < 2.0, "too large"
            x = x * 2.0
        else:
            x = x - 1.0
        return x

    return step, lambda i: (tensor(i), tf.constant(float(i % 2)), tf.constant(float(3 * (i > 8)))), held


@program
def a_range_from_a_tensor_that_counts_down() -> Any:
    def step(x: tf.Tensor, k: tf.Tensor) -> Any:
        total = tf.constant(0)
        for i in range(int(k), 0, -1):
            total = total * 3 + i
        for i in range(int(k), -int(k), -2):
            total = total * 2 + i
        return x, total

    return step, lambda i: (tensor(i), tf.constant(i % 4)), None


@program
def a_seed_is_set_late() -> Any:
    """What is drawn before cannot be compared."""

    def step(x: tf.Tensor, scale: tf.Tensor) -> Any:
        return x + tf.random.uniform([3]) * scale

    def arguments(i: int) -> Any:
        if i in (0, 7):
            tf.random.set_seed(None if i == 0 else 5)
        return tensor(i), tf.constant(float(i >= 7))

    return step, arguments, None


@program
def equal_numbers_of_another_type() -> Any:
    """1.0, 1 and True are equal, and not the same."""

    def step(x: tf.Tensor, r: Any, pair: Any) -> Any:
        return x * 2.0, f"{r} {pair[0]}", r, pair

    numbers = {7: 1, 9: True, 12: 1}
    return step, lambda i: (tensor(i), numbers.get(i, 1.0), (numbers.get(i, 1), 2.0)), None


@program
def zeros_of_another_sign() -> Any:
    def step(x: tf.Tensor, r: float) -> Any:
        return x / r, f"{r}"

    return step, lambda i: (tensor(i), -0.0 if i in (7, 11) else 0.0), None


@program
def a_dtype_that_changes_beside_a_shape() -> Any:
    def step(x: tf.Tensor) -> Any:
        return x * 2, x.dtype.name

    return step, lambda i: (tf.cast(tensor(i)[: 1 + i % 4], tf.int32 if i in (8, 9, 12) else tf.float32),), None


@program
def an_array_of_another_shape() -> Any:
    def step(x: Any) -> Any:
        rows = x.shape[0]
        return tf.reduce_sum(x, 0) / float(rows), rows

    return step, lambda i: (tensor(i).numpy()[: 2 if i in (8, 9, 12) else 4],), None


@program
def two_things_are_appended() -> Any:
    held = types.SimpleNamespace(items=[])

    def step(x: tf.Tensor, n: int) -> Any:
        held.items.append(n)
        held.items.append(tf.reduce_sum(x))
        return x * 2.0

    return step, lambda i: (tensor(i), i), held


@program
def an_index_that_is_computed_once() -> Any:
    held = types.SimpleNamespace(items=[0, 0, 0], n=0)

    def place() -> int:
        held.n += 1
        return held.n % 3

    def step(x: tf.Tensor, n: int) -> Any:
        held.items[place()] += n
        return x * 2.0

    return step, lambda i: (tensor(i), i), held
