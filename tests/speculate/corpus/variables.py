"""Variables: read, assigned, held in lists, dicts and attributes, made late."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


@program
def assign_and_read_again() -> Any:
    v = tf.Variable(tf.zeros([3]))

    def step(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        before = v + 0.0
        v.assign(tf.reduce_mean(x, 0))
        v.assign_add(tf.ones([3]))
        return before, v.read_value()

    return step, with_tensor, v


@program
def scatter() -> Any:
    v = tf.Variable(tf.zeros([6, 3]))

    def step(x: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
        v.scatter_nd_update(at[:, None], x)
        v.scatter_add(tf.IndexedSlices(x, at))
        return tf.reduce_sum(v)

    return step, lambda i: (tensor(i), tf.constant([0, 1, 2, 3 + i % 3])), v


@program
def scatter_out_of_range() -> Any:
    v = tf.Variable(tf.zeros([6, 3]))
    w = tf.Variable(0.0)

    def step(x: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
        w.assign_add(1.0)
        v.scatter_add(tf.IndexedSlices(x, at))
        w.assign_add(1.0)
        return tf.reduce_sum(v)

    return step, lambda i: (tensor(i), tf.constant([0, 1, 2, 3 + 7 * (i == 9)])), [v, w]


@program
def updates_by_one_operation() -> Any:
    v, total = tf.Variable(tf.zeros([4, 3])), tf.Variable(tf.ones([4, 3]))

    def step(x: tf.Tensor) -> tf.Tensor:
        tf.raw_ops.ResourceApplyAdagradV2(var=v.handle, accum=total.handle, lr=0.1, epsilon=0.0, grad=x)
        return v + total

    return step, lambda i: (tf.ones([4, 3]) * float(i),), [v, total]


@program
def updates_that_do_not_fit() -> Any:
    v, total, steps = tf.Variable(tf.zeros([4, 3])), tf.Variable(tf.ones([4, 3])), tf.Variable(0.0)

    def step(x: tf.Tensor) -> tf.Tensor:
        steps.assign_add(1.0)
        tf.raw_ops.ResourceApplyAdagradV2(var=v.handle, accum=total.handle, lr=0.1, epsilon=0.0, grad=x)
        return v + total

    return step, lambda i: (tf.ones([4 if i % 5 else 3, 3]) * float(i),), [v, total, steps]


@program
def variables_in_containers() -> Any:
    ws = [tf.Variable(tf.ones([3, 3]) * 0.1 * i) for i in range(3)]
    bs = {"first": tf.Variable(tf.zeros([3])), "last": tf.Variable(tf.ones([3]))}

    def step(x: tf.Tensor) -> tf.Tensor:
        for w in ws:
            x = tf.tanh(x @ w)
        x = x + bs["first"] * bs["last"]
        for b in bs.values():
            b.assign_add(tf.reduce_mean(x, 0))
        return x

    return step, with_tensor, [ws, bs]


@program
def a_variable_made_in_the_first_call() -> Any:
    class Model:
        def __init__(self) -> None:
            self.w: Any = None

        def step(self, x: tf.Tensor) -> tf.Tensor:
            if self.w is None:
                self.w = tf.Variable(tf.ones([x.shape[1], 2]))
            self.w.assign_add(tf.ones([3, 2]) * 0.1)
            return x @ self.w

    model = Model()
    return model.step, with_tensor, model


@program
def a_variable_made_late() -> Any:
    made = types.SimpleNamespace(n=0, v=None)

    def step(x: tf.Tensor, late: bool) -> tf.Tensor:
        made.n += 1
        if late and made.v is None:
            made.v = tf.Variable(tf.reduce_sum(x))
        return x if made.v is None else x * made.v

    return step, lambda i: (tensor(i), i >= 7), made


@program
def a_variable_replaced() -> Any:
    model = types.SimpleNamespace(w=tf.Variable(tf.ones([3])))

    def step(x: tf.Tensor) -> tf.Tensor:
        model.w.assign_sub(tf.reduce_mean(x, 0))
        return x * model.w

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 8:
            model.w = tf.Variable(tf.zeros([3]))
        return with_tensor(i)

    return step, arguments, model


@program
def fails_after_an_assign() -> Any:
    v, w = tf.Variable(tf.zeros([3])), tf.Variable(0)

    def step(x: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
        v.assign_add(tf.reduce_mean(x, 0))
        row = tf.gather(x, at)
        w.assign_add(1)
        return row + v

    return step, lambda i: (tensor(i), tf.constant(99 if i in (6, 10) else i % 4)), [v, w]


@program
def fails_on_what_was_written() -> Any:
    v = tf.Variable(0.0)
    log: list[float] = []

    def step(x: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
        v.assign_add(1.0)
        log.append(float(limit))
        tf.debugging.assert_less(v, limit, "too far")
        return x * v

    return step, lambda i: (tensor(i), tf.constant(5.0 if i == 9 else 100.0)), [v, log]


@program
def a_branch_on_what_was_written() -> Any:
    v = tf.Variable(0)

    def step(x: tf.Tensor) -> tf.Tensor:
        v.assign_add(1)
        if v > 8:
            v.assign(0)
            return x * 2.0
        return x

    return step, with_tensor, v


@program
def writes_in_a_branch() -> Any:
    v, count = tf.Variable(tf.zeros([3])), tf.Variable(0)

    def step(x: tf.Tensor, flag: tf.Tensor) -> tf.Tensor:
        if flag > 0:
            v.assign_add(tf.reduce_mean(x, 0))
            count.assign_add(1)
        else:
            v.assign(tf.zeros([3]))
        return x + v

    return step, lambda i: (tensor(i), tf.constant(i % 3 - 1)), [v, count]


@program
def writes_in_a_loop() -> Any:
    v = tf.Variable(tf.zeros([3]))

    def step(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        i = tf.constant(0)
        while i < n:
            v.assign_add(tf.gather(x, i))
            i += 1
        return v * 2.0

    return step, lambda i: (tensor(i), tf.constant(9 if i == 10 else i % 4)), v


@program
def an_integer_variable_divides() -> Any:
    v = tf.Variable(4)

    def step(x: tf.Tensor) -> tf.Tensor:
        v.assign_sub(1)
        return 12 // v + tf.cast(tf.reduce_sum(x) * 0.0, tf.int32)

    return step, with_tensor, v


@program
def tensors_kept_as_state() -> Any:
    class Memory:
        def __init__(self) -> None:
            self.last: Any = None
            self.all: list[tf.Tensor] = []

        def step(self, x: tf.Tensor) -> tf.Tensor:
            if self.last is not None:
                x = x + self.last
            self.last = tf.tanh(x)
            self.all.append(self.last)
            return x

    memory = Memory()
    return memory.step, with_tensor, memory


@program
def an_attribute_none_or_tensor() -> Any:
    model = types.SimpleNamespace(mask=None)

    def step(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0 if model.mask is None else x * model.mask

    def arguments(i: int) -> tuple[tf.Tensor]:
        model.mask = tf.ones([3]) * i if i % 3 == 2 else None
        return with_tensor(i)

    return step, arguments, None


@program
def uninitialized_shape() -> Any:
    v = tf.Variable(tf.zeros([1, 3]), shape=tf.TensorShape([None, 3]))

    def step(x: tf.Tensor) -> tf.Tensor:
        v.assign(tf.concat([v, x[:1]], 0)[-3:])
        return tf.reduce_sum(v)

    return step, with_tensor, v


@program
def an_array_as_attribute() -> Any:
    model = types.SimpleNamespace(mean=np.zeros(3, np.float32), n=0)

    def step(x: tf.Tensor) -> tf.Tensor:
        model.n += 1
        return x - model.mean

    def arguments(i: int) -> tuple[tf.Tensor]:
        model.mean = np.ones(3, np.float32) * i
        return with_tensor(i)

    return step, arguments, model
