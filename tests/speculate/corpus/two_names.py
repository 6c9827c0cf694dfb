"""Containers with two names, of which a tensor gives one to another container: changes show through both, or one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.speculate.corpus import program


def decided(i: int) -> tuple[tf.Tensor, tf.Tensor]:
    """A tensor, and one that decides."""
    return tf.fill([3], float(i)) + tf.range(3.0), tf.constant(float((i * i) % 3 if i % 2 else 0))


def two_names(step: Callable[[tf.Tensor, tf.Tensor], Any]) -> None:
    """Makes a step a program of the corpus."""

    def made() -> Any:
        return step, decided, None

    made.__name__ = f"two_names_{step.__name__}"
    program(made)


class Holder:
    """An object with an attribute."""

    kept: Any = None


@two_names
def a_list(x: tf.Tensor, s: tf.Tensor) -> Any:
    a = [x[0], s]
    b = a
    if s > 0.5:
        a = [x[1], s]
    a.append(s)
    return len(b), len(a), a is b


@two_names
def a_dict_in_an_object(x: tf.Tensor, s: tf.Tensor) -> Any:
    holder, a = Holder(), {"k": x[0]}
    holder.kept = a
    if s > 0.5:
        a = {"k": x[1]}
    a["k"] = a["k"] * 2.0
    return holder.kept["k"]


@two_names
def one_of_two_lists(x: tf.Tensor, s: tf.Tensor) -> Any:
    a, b = [x[0], s], [s, x[1]]
    c = a if s > 0.5 else b
    c[0] = x[2] * 3.0
    return a, b


@two_names
def a_list_that_a_loop_replaces(x: tf.Tensor, s: tf.Tensor) -> Any:
    a = [x[0], s]
    b = a
    while s > 0.1:
        a = [s, x[0]]
        s = s - 1.0
    a.append(x[0])
    return len(b), b[0]


@two_names
def a_list_twice_in_a_list(x: tf.Tensor, s: tf.Tensor) -> Any:
    row = [x[0]]
    grid = [row, row]
    if s > 0.5:
        grid = [[x[1]], [x[2]]]
    grid[0][0] = s
    return grid


@two_names
def a_list_in_a_tuple(x: tf.Tensor, s: tf.Tensor) -> Any:
    t = (x[0], [s])
    u = t
    if s > 0.5:
        t = (x[1], [s * 2.0])
    t[1].append(x[1])
    return u


@two_names
def lists_named_twice_on_both_ways(x: tf.Tensor, s: tf.Tensor) -> Any:
    if s > 0.5:
        a = [x[0]]
        b = a
    else:
        a = [x[1]]
        b = a
    a.append(s)
    return len(b), b[0]


@two_names
def an_array(x: tf.Tensor, s: tf.Tensor) -> Any:
    a = x.numpy() * 2.0
    b = a
    if s > 0.5:
        a = x.numpy() + 1.0
    a[0] = 5.0
    return float(b[0]), float(a[0])


@two_names
def a_list_in_a_dict(x: tf.Tensor, s: tf.Tensor) -> Any:
    d = {"a": [x[0]]}
    inner = d["a"]
    if s > 0.5:
        d = {"a": [x[1]]}
    d["a"].append(s)
    return len(inner), d


@two_names
def a_list_in_a_closure(x: tf.Tensor, s: tf.Tensor) -> Any:
    a = [x[0]]

    def held() -> Any:
        return a

    if s > 0.5:
        a = [x[1]]
    a.append(s)
    return held() is a, held()


@two_names
def an_argument(x: tf.Tensor, s: tf.Tensor) -> Any:
    def inner(members: list[Any]) -> list[Any]:
        if s > 0.5:
            members = [x[1]]
        members.append(s)
        return members

    a = [x[0]]
    b = inner(a)
    return len(a), b is a, b


@two_names
def lists_that_change_places(x: tf.Tensor, s: tf.Tensor) -> Any:
    a, b = [x[0]], [x[1]]
    for i in range(3):
        if s > 0.5:
            a, b = b, a
        a.append(s + i)
    return a, b


@two_names
def an_iterator_of_a_list(x: tf.Tensor, s: tf.Tensor) -> Any:
    a = [x[0]]
    members = zip(a, [s, s, s])
    if s > 0.5:
        a = [x[1], s]
    a.append(s)
    return list(members), a


@two_names
def a_partial_of_a_list(x: tf.Tensor, s: tf.Tensor) -> Any:
    a = [x[0]]
    length = functools.partial(len, a)
    if s > 0.5:
        a = [x[1]]
    a.append(s)
    return length()


@two_names
def a_method_of_a_list(x: tf.Tensor, s: tf.Tensor) -> Any:
    a = [x[0]]
    push = a.append
    if s > 0.5:
        a = [x[1]]
    push(s)
    return len(a)


@two_names
def a_view_of_a_dict(x: tf.Tensor, s: tf.Tensor) -> Any:
    a = {"k": x[0]}
    values = a.values()
    if s > 0.5:
        a = {"k": x[1]}
    a["k"] = s
    return list(values)


@two_names
def a_list_with_one_name(x: tf.Tensor, s: tf.Tensor) -> Any:
    a = [x[0], s]
    if s > 0.5:
        a = [x[1] * 2.0, s]
    a.append(s)
    return a
