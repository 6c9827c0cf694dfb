"""Lists that grow in loops whose number of rounds differs from call to call: one graph, whatever the length."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program

Step = collections.namedtuple("Step", "value total")


def rows(i: int) -> tuple[Any, ...]:
    """A tensor of as many rows as no call before or after it."""
    return (tf.random.stateless_normal([2 + (3 * i) % 5, 3], [3, i]),)


def number(i: int) -> tuple[Any, ...]:
    """A tensor and a number of rounds."""
    return tf.random.stateless_normal([3], [5, i]), 1 + (3 * i) % 5


def maybe_none(i: int) -> tuple[Any, ...]:
    """Sometimes there is no row."""
    return (tf.random.stateless_normal([(2 + 3 * i) % 4, 3], [3, i]),)


@program(graphs=1)
def returns_are_found_backwards() -> Any:
    def step(rewards: tf.Tensor) -> Any:
        following = tf.zeros([3])
        found = []
        for reward in tf.reverse(rewards, [0]):
            following = reward + 0.9 * following
            found.append(following)
        found.reverse()
        return tf.stack(found), tf.stack(found, axis=1)

    return step, rows, None


@program(graphs=1)
def a_grown_list_is_returned() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = [tf.zeros([3])]
        for row in x:
            found.append(found[-1] + row)
        return found, len(found), found[1:], found[::-1]

    return step, rows, None


@program(graphs=1)
def a_grown_list_is_indexed() -> Any:
    def step(x: tf.Tensor, k: tf.Tensor) -> Any:
        found = []
        for row in x:
            found.append(row * 2.0)
        return found[0], found[1], found[-1], found[-2], found[k], found[:-1], found[1:3], found[-7:7:2]

    return step, lambda i: (*rows(i), tf.constant(i % 2)), None


@program(graphs=1)
def a_grown_list_is_gone_through() -> Any:
    def step(x: tf.Tensor) -> Any:
        found, total, weighted, products = [], tf.zeros([3]), tf.zeros([3]), tf.zeros([3])
        for row in x:
            found.append(tf.tanh(row))
        for member in found:
            total = total + member
        for i, member in enumerate(found):
            weighted = weighted + member * i
        for one, other in zip(found, reversed(found)):
            products = products + one * other
        return total, weighted, products, sum(found), tf.add_n(found), sum(found, tf.ones([3]))

    return step, rows, None


@program(graphs=1)
def comprehensions_over_rows() -> Any:
    def step(x: tf.Tensor) -> Any:
        doubled = [row * 2.0 for row in x]
        kept = [row + 1.0 for row in doubled if tf.reduce_sum(row) > 0.0]
        pairs = [(a, b) for a, b in zip(doubled, doubled[1:])]
        return tf.stack(doubled), kept, len(kept), pairs, sum(tf.reduce_sum(row) for row in x)

    return step, rows, None


@program(graphs=1)
def a_list_grows_in_a_branch() -> Any:
    def step(x: tf.Tensor) -> Any:
        large, small = [], []
        for row in x:
            if tf.reduce_sum(row) > 0.0:
                large.append(row)
            else:
                small.append(-row)
                small.append(row)
        if large:
            return tf.add_n(large), len(large), len(small)
        return tf.zeros([3]), 0, len(small)

    return step, rows, None


@program(graphs=1)
def a_list_grows_at_its_front() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for row in x:
            found.insert(0, row * 2.0)
        return found, tf.concat(found, 0)

    return step, rows, None


@program(graphs=1)
def lists_are_extended() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for row in x:
            found += [row, row * 2.0]
            found.extend((row * 3.0,))
        joined = [tf.ones([3])] + found
        joined.extend(x)
        return tf.stack(joined), len(joined), [*found, x[0]], tuple(found)

    return step, rows, None


@program(graphs=1)
def a_range_makes_a_list_longer() -> Any:
    def step(x: tf.Tensor, n: int) -> Any:
        found = []
        for i in range(n):
            x = x * 0.5 + i
            found.append(x)
        return tf.stack(found), len(found)

    return step, number, None


@program(graphs=1)
def a_while_loop_makes_a_list_longer() -> Any:
    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        found = []
        while s > 0.0:
            x = x * 0.5
            s = s - 1.0
            found.append(x)
        found.append(x + 1.0)
        return tf.stack(found), found[-1], len(found)

    return step, lambda i: (tf.ones([3]) * i, tf.constant(float(1 + 3 * i % 5))), None


@program(graphs=1)
def gradients_through_a_grown_list() -> Any:
    w = tf.Variable([1.0, 2.0, 3.0])

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            state, found = tf.zeros([3]), []
            for row in x:
                state = tf.tanh(row * w + state)
                found.append(state)
            loss = tf.reduce_sum(tf.stack(found) ** 2) + tf.reduce_sum(found[-1]) + tf.reduce_sum(found[::-1][1])
            for i, member in enumerate(found):
                loss += tf.reduce_sum(member) * i
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.1 * gradient)
        return loss, gradient

    return step, rows, w


@program(graphs=1)
def an_outer_tape_around_a_grown_list() -> Any:
    w = tf.Variable([1.0, 2.0, 3.0])

    def states(x: tf.Tensor) -> Any:
        state, found = tf.zeros([3]), []
        for row in x:
            state = tf.tanh(row * w + state)
            found.append(state)
        return found

    return states, rows, w


@program(graphs=1)
def a_grown_list_is_kept() -> Any:
    class Holder:
        pass

    holder = Holder()
    holder.all, holder.last = [], None

    def step(x: tf.Tensor) -> Any:
        found = []
        for row in x:
            found.append(tf.reduce_sum(row))
            holder.all.append(row)
        holder.last = found
        return found[0]

    return step, rows, holder


@program(graphs=1)
def tuples_in_a_grown_list() -> Any:
    def step(x: tf.Tensor) -> Any:
        found, total = [], tf.zeros([3])
        for i, row in enumerate(x):
            total = total + row
            found.append((row, i))
        values, places = zip(*[(tf.ones([3]), 1), (tf.zeros([3]), 2)])
        total = tf.zeros([3])
        for row, i in found:
            total = total + row * i
        return found, total, found[0][1], values, places

    return step, rows, None


@program(graphs=1)
def named_tuples_in_a_grown_list() -> Any:
    def step(x: tf.Tensor) -> Any:
        total, steps = tf.zeros([3]), []
        for row in x:
            total = total + row
            steps.append(Step(row, total))
        return steps[-1].total, tf.stack([one.value for one in steps]), steps

    return step, rows, None


@program(graphs=1)
def numbers_in_a_grown_list() -> Any:
    def step(x: tf.Tensor) -> Any:
        found, following = [], 0.0
        for row in x:
            following = float(row[0]) + 0.9 * following
            found.append(following)
        found.reverse()
        return found, tf.constant(found), tf.constant(found, tf.float64), sum(found), found[0], np.mean(found)

    return step, rows, None


@program(graphs=1)
def a_grown_list_is_asked_whether_it_has_members() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for row in x:
            found.append(row)
        found.reverse()
        if not found:
            return tf.zeros([3]), len(found)
        return found[0], len(found)

    return step, maybe_none, None


@program(graphs=1)
def a_grown_list_shrinks() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = [row * 2.0 for row in x]
        last, first = found.pop(), found.pop(0)
        found.append(first)
        return last, first, found, len(found)

    return step, lambda i: (tf.random.stateless_normal([2 + (3 * i) % 5, 3], [3, i]),), None


@program(graphs=1)
def a_generator_makes_a_list() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for member in running(x):
            found.append(member)
        return tf.stack(found), len(found)

    return step, rows, None


def running(x: tf.Tensor) -> Any:
    """Sums of the rows until there."""
    total = tf.zeros([3])
    for row in x:
        total = total + row
        yield total


@program(graphs=1)
def parts_of_different_lengths_are_joined() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for i, row in enumerate(x):
            found.append(tf.repeat(row[:1], i + 1))
        return tf.concat(found, 0), len(found)

    return step, rows, None


@program(graphs=1)
def what_is_printed_of_a_grown_list() -> Any:
    def step(x: tf.Tensor) -> Any:
        lengths = [tf.reduce_sum(row) for row in x]
        print(len(lengths), [int(tf.sign(s)) for s in lengths])
        return f"{len(lengths)} rows"

    return step, rows, None


@program(graphs=1)
def two_names_of_a_grown_list() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        same, held = found, {"found": found}
        for row in x:
            same.append(row)
        held["found"].append(x[0])
        return found, same is found, held

    return step, rows, None


@program
def the_largest_of_a_grown_list() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = [float(tf.reduce_sum(row)) for row in x]
        return max(found), min(found), len(found)

    return step, lambda i: rows(i % 3), None


@program(graphs=1)
def a_grown_list_changes_a_member() -> Any:
    def step(x: tf.Tensor) -> Any:
        found = []
        for row in x:
            found.append(row)
        found[0] = found[1] * 2.0
        found[-1] += 1.0
        for i in range(len(found)):
            found[i] = found[i] + i
        del found[0]
        return found, tf.stack(found)

    return step, rows, None


@program
def strictly_side_by_side() -> Any:
    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        total = tf.zeros([])
        for one, other in zip(x, y, strict=True):
            total += one * other
        pairs = [a - b for a, b in zip(x, y, strict=True)]
        return total, pairs, len(pairs)

    def arguments(i: int) -> tuple[Any, ...]:
        numbers = tf.range(float(i % 5 + 1))
        return numbers, numbers + 0.5

    return step, arguments, None


class _Seen:
    def __init__(self) -> None:
        self.last, self.calls = tf.zeros([]), 0


@program
def strictly_side_by_side_with_one_too_many() -> Any:
    def step(x: tf.Tensor, y: tf.Tensor, state: Any) -> Any:
        total = tf.zeros([])
        for one, other in zip(x, y, strict=True):
            total += one * other
            state.last = one
        state.calls += 1
        return total

    state = _Seen()

    def arguments(i: int) -> tuple[Any, ...]:
        numbers = tf.range(float(i % 4 + 2))
        return numbers, numbers[: -1 if i % 5 == 3 else None], state

    return step, arguments, state
