"""Tensors of all kinds, control flow and functions of TensorFlow's, random numbers."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


@program
def random_numbers() -> Any:
    tf.random.set_seed(7)

    def step(x: tf.Tensor) -> Any:
        noise = tf.random.normal([4, 3]) + tf.random.uniform([3], -1.0, 1.0)
        picked = tf.random.uniform([5], 0, 100, tf.int32)
        return x + noise, picked, tf.random.truncated_normal([2])

    return step, with_tensor, None


@program
def random_numbers_seeded_between() -> Any:
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.dropout(x * x, 0.5)
        return tape.gradient(y, x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        tf.random.set_seed(i // 4)
        return with_tensor(i)

    return step, arguments, None


@program
def random_numbers_and_a_failure() -> Any:
    tf.random.set_seed(3)

    def step(x: tf.Tensor, at: tf.Tensor) -> Any:
        noise = tf.random.normal([4, 3])
        return tf.gather(x + noise, at)

    return step, lambda i: (tensor(i), tf.constant(50 if i % 6 == 5 else 1)), None


@program(
    eager="an operation with a seed of its own goes on with its stream from call to call", feature="RANDOM", line=""
)
def random_numbers_with_a_seed_of_their_own() -> Any:
    tf.random.set_seed(7)

    def step(x: tf.Tensor) -> Any:
        return x + tf.random.normal([4, 3], seed=5)

    return step, with_tensor, None


@program(eager="TensorFlow has no stateless operation that shuffles alike", feature="RANDOM", line="")
def shuffling() -> Any:
    tf.random.set_seed(7)

    def step(x: tf.Tensor) -> Any:
        return tf.random.shuffle(x)

    return step, with_tensor, None


@program
def a_generator_of_random_numbers() -> Any:
    generator = tf.random.Generator.from_seed(3)

    def step(x: tf.Tensor) -> Any:
        return x + generator.normal([4, 3]), generator.uniform([2])

    return step, with_tensor, None


@program
def stateless_random_numbers() -> Any:
    state = types.SimpleNamespace(step=0)

    def step(x: tf.Tensor) -> Any:
        state.step += 1
        return x + tf.random.stateless_normal([4, 3], [1, state.step])

    return step, with_tensor, state


@program
def a_graph_function_inside() -> Any:
    w = tf.Variable(tf.ones([3]))
    traced: list[int] = []

    @tf.function
    def inner(x: tf.Tensor) -> tf.Tensor:
        traced.append(1)
        w.assign_add(tf.reduce_mean(x, 0))
        return x * w

    def step(x: tf.Tensor) -> Any:
        return inner(x) + 1.0

    return step, with_tensor, [w, traced]


@program
def cond_and_while() -> Any:
    def step(x: tf.Tensor, n: tf.Tensor) -> Any:
        y = tf.cond(n > 2, lambda: x * 2.0, lambda: x - 1.0)
        _, z = tf.while_loop(lambda i, z: i < n, lambda i, z: (i + 1, z * 0.5), [tf.constant(0), y])
        return z

    return step, lambda i: (tensor(i), tf.constant(i % 5)), None


@program
def map_and_scan() -> Any:
    w = tf.Variable(tf.ones([3]))

    def step(x: tf.Tensor) -> Any:
        rows = tf.map_fn(lambda row: row * w, x)
        sums = tf.scan(lambda total, row: total + row, x)
        return rows, sums, tf.foldl(lambda a, b: a * b, x), tf.vectorized_map(tf.reduce_sum, x)

    return step, with_tensor, w


@program
def ragged_tensors() -> Any:
    def step(ragged: tf.RaggedTensor) -> Any:
        return tf.reduce_sum(ragged, 1), (ragged * 2.0).to_tensor()

    return step, lambda i: (tf.RaggedTensor.from_row_lengths(tf.range(6.0) * i, [1, i % 3, 5 - i % 3]),), None


@program
def ragged_batches_of_many_sizes_and_few_lengths() -> Any:
    """The last batch of an epoch is a smaller one: its parts do not go on breaking each other's graphs."""

    def step(ragged: tf.RaggedTensor) -> Any:
        return tf.reduce_sum(ragged.values) + tf.cast(ragged.nrows(), tf.float32)

    lengths = ([3, 4], [2, 6], [5])
    return (
        step,
        lambda i: (tf.RaggedTensor.from_row_lengths(tf.range(float(sum(lengths[i % 3]))), lengths[i % 3]),),
        None,
    )


@program
def sparse_tensors() -> Any:
    def step(sparse: tf.SparseTensor, x: tf.Tensor) -> Any:
        return tf.sparse.sparse_dense_matmul(sparse, x), tf.sparse.reduce_sum(sparse)

    return step, lambda i: (tf.SparseTensor([[0, i % 4], [2, 3]], [1.0, float(i)], [3, 4]), tensor(i)), None


@program
def strings() -> Any:
    def step(s: tf.Tensor) -> Any:
        return tf.strings.upper(s), tf.strings.length(s), tf.strings.join([s, "!"])

    return step, lambda i: (tf.constant([f"word {i}", "b" * i]),), None


@program
def assertions() -> Any:
    def step(x: tf.Tensor) -> Any:
        tf.debugging.assert_positive(x + 10.0, "positive")
        tf.debugging.check_numerics(x, "finite")
        tf.debugging.assert_shapes([(x, ("n", 3))])
        return x * 2.0

    return step, lambda i: (tensor(i) * (float("inf") if i == 9 else 1.0),), None


@program
def arrays_as_arguments() -> Any:
    def step(x: np.ndarray, y: tf.Tensor) -> Any:
        return tf.matmul(x, tf.transpose(y)) + x[0, 0]

    return step, lambda i: (np.ones([2, 3], np.float32) * i, tensor(i)), None


@program
def numpy_in_the_middle() -> Any:
    """A value that leaves TensorFlow and comes back."""

    def step(x: tf.Tensor) -> Any:
        scale = float(tf.reduce_max(x))
        return x / scale

    return step, with_tensor, None


@program(
    eager="a NumPy array that comes out of the graph goes back into it",
    feature="LATE_VALUE",
    line="return tf.constant(np.sort(array, 0)) * 2.0",
)
def an_array_in_the_middle() -> Any:
    def step(x: tf.Tensor) -> Any:
        array = x.numpy()
        return tf.constant(np.sort(array, 0)) * 2.0

    return step, with_tensor, None


@program
def a_dtype_that_changes() -> Any:
    def step(x: tf.Tensor) -> Any:
        return x * 2 + 1

    return (
        step,
        lambda i: (tf.cast(tf.ones([3]) * i, tf.float32 if i < 5 else tf.int32 if i < 10 else tf.float64),),
        None,
    )


@program
def two_shapes_and_ranks() -> Any:
    def step(x: tf.Tensor) -> Any:
        return tf.reduce_sum(x), x * 2.0

    return step, lambda i: (tf.ones([4, 8]) if i < 4 else tf.ones([3, 8]) if i < 8 else tf.ones([i]) * i,), None


@program
def a_list_of_tensors_grows() -> Any:
    def step(parts: list[tf.Tensor]) -> Any:
        total = tf.zeros([3])
        for part in parts:
            total = total + tf.reduce_sum(part, 0)
        return total, tf.concat(parts, 0)

    return step, lambda i: ([tensor(k) for k in range(1 + i // 5)],), None


@program
def an_iterator_of_batches() -> Any:
    batches = iter(tf.data.Dataset.range(100).batch(2))

    def step(x: tf.Tensor) -> Any:
        return x + tf.cast(tf.reduce_sum(next(batches)), tf.float32)

    return step, with_tensor, None


@program
def a_dict_of_features() -> Any:
    def step(features: dict[str, tf.Tensor], flag: bool = True, *, scale: float = 2.0) -> Any:
        return {name: value * scale for name, value in features.items()}, flag

    return step, lambda i: ({"a": tensor(i), "b": tf.constant(float(i))},), None


@program
def numbers_become_inputs() -> Any:
    def step(x: tf.Tensor, n: int, rate: float, name: str) -> Any:
        return x * rate + n, f"{name}-{n}", n // 2

    return step, lambda i: (tensor(i), i, i * 0.5, "ab"[i % 2]), None


@program
def a_number_that_has_to_be_known() -> Any:
    """A loop over a number that varies: a graph for each."""

    def step(x: tf.Tensor, n: int) -> Any:
        for k in range(n):
            x = x * 2.0 + k
        return x

    return step, lambda i: (tensor(i), 1 + i // 6), None


@program
def tensor_arrays() -> Any:
    def step(x: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, 4)
        for i in range(4):
            array = array.write(i, x[i] * 2.0)
        return array.stack()

    return step, with_tensor, None


@program
def printing_from_the_graph() -> Any:
    def step(x: tf.Tensor, at: tf.Tensor) -> Any:
        tf.print("at", at)
        return tf.gather(x, at)

    return step, lambda i: (tensor(i), tf.constant(i % 4)), None


@program
def checks_of_what_nobody_uses() -> Any:
    """The operation fails although its result goes nowhere."""

    def step(x: tf.Tensor, at: tf.Tensor) -> Any:
        tf.gather(x, at)
        tf.ensure_shape(x, [None, 3])
        return x * 2.0

    return step, lambda i: (tensor(i), tf.constant(i if i in (8, 11) else 0)), None


@program
def tables_and_queues() -> Any:
    keys = tf.constant(["a", "b"])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, tf.constant([1, 2])), -1)

    def step(x: tf.Tensor, word: tf.Tensor) -> Any:
        return x[: table.lookup(word)]

    return step, lambda i: (tensor(i), tf.constant("ab"[i % 2])), None


@program
def einsum_and_friends() -> Any:
    def step(x: tf.Tensor) -> Any:
        y = tf.einsum("ij,kj->ik", x, x)
        values, at = tf.nn.top_k(y, 2)
        q, _ = tf.linalg.qr(x)
        return y, values, at, tf.abs(q), tf.where(x > 0.0, x, 0.0), x[1:, ::2], x.shape

    return step, with_tensor, None


@program(eager="a data set is read", feature="DATASET", line="for number in data:")
def a_loop_over_a_data_set() -> Any:
    data = tf.data.Dataset.range(4).map(lambda n: tf.cast(n, tf.float32))

    def step(x: tf.Tensor) -> Any:
        for number in data:
            x = tf.tanh(x + number) * 0.5 + tf.sin(x) * number
        return x

    return step, with_tensor, None


@program(
    eager="Python runs in the graph", feature="FRAMEWORK", line="return tf.py_function(note, [x], tf.float32) * 2.0"
)
def a_python_function_in_the_graph() -> Any:
    seen: list[float] = []

    def note(x: tf.Tensor) -> tf.Tensor:
        seen.append(float(x[0, 0]))
        return x

    def step(x: tf.Tensor) -> Any:
        return tf.py_function(note, [x], tf.float32) * 2.0

    return step, with_tensor, seen


@program(eager="a queue cannot be put back", feature="ORDER", line="")
def a_queue() -> Any:
    queue = tf.queue.FIFOQueue(100, [tf.float32], [[4, 3]])

    def step(x: tf.Tensor, at: tf.Tensor) -> Any:
        queue.enqueue(x)
        return tf.gather(queue.dequeue(), at)

    return step, lambda i: (tensor(i), tf.constant(0)), None


@program
def truth_of_a_complex_tensor() -> Any:
    def step(z: tf.Tensor) -> Any:
        return z * 2.0 if z else z * 3.0

    return step, lambda i: (tf.constant([1 + 1j, 1 + 0j, 2j][0 if i < 6 else i % 3], tf.complex64),), None
