"""Lists that grow where it is less plain: in objects and loops in loops, with members that change, shrink or differ."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.growing import maybe_none, rows


@program(graphs=1)
def a_list_grows_or_its_last_member_changes() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = [x[0]]
        for row in x:
            if tf.reduce_sum(row) > 0.0:
                found.append(row)
            else:
                found[-1] = found[-1] + row
        return found, tf.stack(found)

    return step, rows, None


@program(graphs=1)
def a_stack_machine() -> Any:
    def step(x: tf.Tensor) -> Any:
        waiting, count, total = [x[0] * 2.0], 0, tf.zeros([3])
        while waiting:
            top = waiting.pop()
            total, count = total + top, count + 1
            if tf.reduce_sum(tf.abs(top)) > 2.0:
                waiting.append(top * 0.5)
                waiting.append(top * 0.25)
        return total, count

    return step, lambda i: (tf.random.stateless_normal([2, 3], [3, i]) + 2.0 * (i % 2),), None


@program
def a_list_grows_while_it_is_gone_through() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = [x[0]]
        for row in found:
            if tf.reduce_sum(tf.abs(row)) < 20.0:
                found.append(row * 2.0 + 1.0)
        return len(found), found[-1]

    return step, rows, None


class Bag:
    """A list with methods of its own."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def add(self, item: Any) -> None:
        """One more."""
        self.items.append(item)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]

    def __iter__(self) -> Any:
        return iter(self.items)


@program(graphs=1)
def a_grown_list_in_an_object() -> Any:
    def step(x: tf.Tensor) -> Any:
        bag, total = Bag(), tf.zeros([3])
        for row in x:
            bag.add(row)
        for row in bag:
            total += row
        return len(bag), bag[0], total, bag.items

    return step, rows, None


@program(graphs=1)
def grown_lists_are_added_and_repeated() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for row in x:
            found.append(row)
        twice, joined, kept, more = found * 2, found + found, list(found), found.copy()
        joined += twice[:2]
        kept.clear()
        more.append(x[0])
        return twice, joined, kept, more, found

    return step, rows, None


@program(graphs=1)
def lists_grow_in_loops_in_loops() -> Any:
    def step(x: tf.Tensor) -> Any:
        table = []
        for row in x:
            line = []
            for other in x:
                line.append(tf.reduce_sum(row * other))
            table.append(tf.stack(line))
        return tf.stack(table), len(table)

    return step, rows, None


@program
def members_of_different_shapes_are_returned() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for i, row in enumerate(x):
            found.append(tf.repeat(row[:1], i + 1))
        return found

    return step, lambda i: rows(i % 3), None


@program
def nothing_to_stack_is_caught() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for row in x:
            found.append(row)
        try:
            return tf.stack(found)
        except tf.errors.InvalidArgumentError:
            return tf.zeros([1])

    return step, lambda i: (tf.random.stateless_normal([i % 3, 3], [3, i]),), None


@program
def a_gradient_that_is_there_if_a_list_grew() -> Any:
    w = tf.Variable([1.0, 2.0, 3.0])

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            found = [tf.zeros([3])]
            for row in x:
                found.append(row * w)
            loss = tf.reduce_sum(tf.add_n(found))
        return loss, tape.gradient(loss, w)

    return step, maybe_none, w


@program
def a_gradient_of_some_members_only() -> Any:
    first, other = tf.Variable([1.0, 2.0, 3.0]), tf.Variable(2.0)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            found = [first * 1.0]
            for row in x:
                found.append(row * other)
            found[0] = x[0]
            replaced = tf.reduce_sum(tf.stack(found) ** 2)
        return replaced, tape.gradient(replaced, other), tape.gradient(replaced, first)

    return step, lambda i: rows(i % 3), None


@program
def an_empty_list_beside_one_that_grows() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        found = [row for row in x if tf.reduce_sum(row) > 0.0]
        return [a + b for a, b in zip([x[0] for _ in range(n)], found)], len(found)

    return step, lambda i: (rows(i)[0], (i // 4) % 2), None
