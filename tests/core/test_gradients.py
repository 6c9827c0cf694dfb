"""Gradients of recursive programs, by every way that TensorFlow has of asking for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core import programs

import recgraph as rg
from recgraph import testing

MODES = ["cache", "recompute"]
FLOAT = tf.TensorSpec([])
both_modes = pytest.mark.parametrize("gradient", MODES)


def make_power(spec: tf.TensorSpec = FLOAT, **options: Any) -> rg.SubGraph:
    """x ** (n + 1), elementwise."""
    with rg.SubGraph("power", outputs=spec, **options) as power:
        n, x = power.input(tf.int32), power.input(spec.dtype, spec.shape)
        power.output(tf.cond(n > 0, lambda: x * power(n - 1, x), lambda: x))
    return power


@both_modes
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=str)
def test_shared_programs(program: programs.Program, gradient: str) -> None:
    """Both modes give the gradients of the unrolled program."""
    programs.check(program, gradient=gradient)


@both_modes
def test_persistent_tape(gradient: str) -> None:
    """The activations can be used twice."""
    power, x = make_power(gradient=gradient), tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = power(2, x)
        z = y * y
    assert [float(tape.gradient(t, x)) for t in (y, z, y)] == [12, 192, 12]
    del tape
    assert testing.counters().live_frames == 0


@both_modes
def test_tape_inside_and_around_a_function(gradient: str) -> None:
    """Staging the forward run, or all of it, changes nothing."""
    power, x = make_power(gradient=gradient), tf.Variable(3.0)

    @tf.function
    def inside() -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = power(1, x)
        return tape.gradient(y, x)

    assert float(inside()) == 6
    staged = tf.function(lambda: power(1, x))
    with tf.GradientTape() as tape:
        y = staged()
    assert float(tape.gradient(y, x)) == 6


@both_modes
def test_tf_gradients(gradient: str) -> None:
    """In a function, and in a graph of the first TensorFlow."""
    power = make_power(gradient=gradient)

    @tf.function
    def staged(x: tf.Tensor) -> list[tf.Tensor]:
        return tf.gradients(power(3, x), x)

    assert float(staged(tf.constant(2.0))[0]) == 32
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.constant(2.0)
        assert session.run(tf.gradients(make_power(gradient=gradient)(3, x), x)) == [32.0]


@both_modes
def test_gradient_of_a_map(gradient: str) -> None:
    """Row by row, and summed over rows for what they share."""
    scale = tf.Variable(0.5)
    with rg.SubGraph("scaled", outputs=FLOAT, gradient=gradient) as scaled:
        n, x = scaled.input(tf.int32), scaled.input()
        scaled.output(tf.cond(n > 0, lambda: scale * scaled(n - 1, x), lambda: x))
    x = tf.constant([1.0, 2.0, 3.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(scaled.map([0, 1, 2, 3], x) * [1.0, 10.0, 100.0, 1000.0])
    by_x, by_scale = tape.gradient(y, [x, scale])
    assert by_x.numpy().tolist() == [1, 5, 25, 125]
    assert float(by_scale) == 20 + 300 + 3000


@both_modes
def test_map_of_no_rows_has_zero_gradients(gradient: str) -> None:
    """An empty batch trains nothing and breaks nothing."""
    rnn = programs.make_tree_rnn(gradient=gradient)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(rnn.map(tf.zeros([0], tf.int32)))
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(y, programs.weights())]
    assert [g.shape for g in gradients] == [tuple(v.shape) for v in programs.weights()]
    assert not any(g.any() for g in gradients)


@both_modes
def test_map_inside_a_body(gradient: str) -> None:
    """Children mapped over, as many as there are."""
    values = programs.node_values()
    children, row = tf.constant(programs.CHILDREN), tf.constant(programs.ROW)
    with rg.SubGraph("product", outputs=FLOAT, gradient=gradient) as product:
        node = product.input(tf.int32)
        product.output(values[node] + tf.reduce_prod(product.map(children[row[node] : row[node + 1]])))

    def reference(node: int) -> tf.Tensor:
        below = [reference(child) for child in programs.CHILDREN[programs.ROW[node] : programs.ROW[node + 1]]]
        return values[node] + tf.reduce_prod(tf.stack(below) if below else tf.zeros([0]))

    expected = programs.run(lambda node: reference(int(node)), (tf.constant(0),), [values])
    programs.assert_same(programs.run(product, (tf.constant(0),), [values]), expected)


@both_modes
def test_only_one_of_several_outputs_is_used(gradient: str) -> None:
    """The other's gradient is zero, not an error; integers among them are passed over."""
    outputs = (tf.TensorSpec([], tf.int32), FLOAT, FLOAT)
    with rg.SubGraph("three", outputs=outputs, gradient=gradient) as three:
        n, x = three.input(tf.int32), three.input()

        def more() -> tuple[tf.Tensor, ...]:
            i, a, b = three(n - 1, x)
            return i + 1, a * x, b + a

        three.output(tf.cond(n > 0, more, lambda: (0, x, 2 * x)))
    x = tf.constant(2.0)
    for used, expected in ((1, 12.0), (2, 2 + 1 + 4.0)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = three(2, x)[used]
        assert float(tape.gradient(y, x)) == expected


@both_modes
def test_an_output_unused_in_the_body(gradient: str) -> None:
    """A call of which only one result goes on."""
    with rg.SubGraph("pair", outputs=(FLOAT, FLOAT), gradient=gradient) as pair:
        n, x = pair.input(tf.int32), pair.input()
        pair.output(tf.cond(n > 0, lambda: (pair(n - 1, x * x)[1], x), lambda: (x, 3 * x)))
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = pair(1, x)[0]
    assert float(tape.gradient(y, x)) == 12


@both_modes
def test_captured_tensors_and_variables(gradient: str) -> None:
    """Captured many levels down, in branches and loops; each sum comes back once."""
    tensor, variable, unused = tf.constant([1.0, 2.0]), tf.Variable([3.0, 4.0]), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        with rg.SubGraph("captures", outputs=tf.TensorSpec([2]), gradient=gradient) as captures:
            n = captures.input(tf.int32)
            more = lambda: captures(n - 1) * variable + tensor  # noqa: E731
            captures.output(tf.cond(n > 0, more, lambda: tensor))
        y = captures(2)  # ((t v) + t) v + t
    by_tensor, by_variable, by_unused = tape.gradient(y, [tensor, variable, unused])
    assert by_tensor.numpy().tolist() == [9 + 3 + 1, 16 + 4 + 1]
    assert by_variable.numpy().tolist() == [2 * 3 + 1, 2 * (2 * 4) + 2]
    assert by_unused is None


@both_modes
def test_embedding_gradients_are_indexed_slices(gradient: str) -> None:
    """A dense gradient would be as large as the vocabulary; repeated words add up."""
    table, words = tf.Variable(programs.seeded(1000, 4)), tf.constant([5, 7, 5])
    with rg.SubGraph("bag", outputs=tf.TensorSpec([1, 4]), gradient=gradient) as bag:
        i = bag.input(tf.int32)
        more = lambda: 2.0 * bag(i + 1) + tf.gather(table, words[i][None])  # noqa: E731
        bag.output(tf.cond(i < 3, more, lambda: tf.zeros([1, 4])))
    for function in (bag, tf.function(bag)):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(function(0))
        rows = tape.gradient(y, table)
        assert isinstance(rows, tf.IndexedSlices)
        assert rows.dense_shape.numpy().tolist() == [1000, 4]
        assert sorted(rows.indices.numpy().tolist()) == [5, 5, 7]
        dense = tf.convert_to_tensor(rows).numpy()
        assert (dense[5, 0], dense[7, 0], dense[6, 0]) == (5, 2, 0)


@both_modes
def test_embedding_gradients_of_a_call_in_a_branch(gradient: str) -> None:
    """The other branch has none, for which TensorFlow makes slices of its own, with the same dtypes."""
    table = tf.Variable(tf.ones([4, 2]))
    with rg.SubGraph("rows", outputs=tf.TensorSpec([2]), gradient=gradient) as rows:
        i = rows.input(tf.int32)
        rows.output(tf.cond(i < 3, lambda: tf.gather(table, i) + rows(i + 1), lambda: tf.zeros([2])))

    @tf.function
    def by_table(is_called: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = tf.cond(is_called, lambda: rows(1), lambda: tf.zeros([2]))
        return tf.convert_to_tensor(tape.gradient(y, table))

    assert by_table(tf.constant(True)).numpy()[:, 0].tolist() == [0, 1, 1, 0]
    assert by_table(tf.constant(False)).numpy()[:, 0].tolist() == [0, 0, 0, 0]


ROWS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "x[n]": lambda x, n: x[n],
    "int64": lambda x, n: x[tf.cast(n, tf.int64)],
    "from the end": lambda x, n: x[n - 9],
    "x[n, :]": lambda x, n: x[n, :],
    "x[n, ...]": lambda x, n: x[n, ...],
    "x[n][m]": lambda x, n: x[n][n % 3] * tf.ones([10]),
    "two reads": lambda x, n: x[n] * x[n - 1],
    "and a lookup": lambda x, n: x[n] * tf.gather(x, n // 2),
    "and all": lambda x, n: x[n] + 0.1 * tf.reduce_mean(x * x, 0),
    "in a branch": lambda x, n: tf.cond(n % 2 < 1, lambda: x[n], lambda: x[n, ::-1]),
    "in a loop": lambda x, n: tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y * x[i]), (0, x[n]))[1],
    "x[n, m]": lambda x, n: x[n, n % 3] * tf.ones([10]),
    "x[:, n]": lambda x, n: tf.reshape(x[:, n], [3, 3])[0, 0] * tf.ones([10]),
    "x[n:n+1]": lambda x, n: x[n : n + 1][0],
    "x[n, tf.newaxis]": lambda x, n: x[n, tf.newaxis][0],
}
BY_ROWS = ("x[n]", "int64", "from the end", "x[n, :]", "x[n, ...]", "x[n][m]", "two reads", "and a lookup", "in a loop")


@pytest.mark.parametrize(
    ("engine", "gradient", "captured"),
    [
        ("parallel", "cache", tf.Variable),
        ("parallel", "recompute", tf.constant),
        ("batched", "cache", tf.constant),
        ("batched", "recompute", tf.Variable),
    ],
)
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_a_captured_tensor(name: str, engine: str, gradient: str, captured: Callable[..., Any]) -> None:
    """The gradient is that of eager execution, a dense tensor; where a row is read it is added as a row."""
    x = captured(programs.seeded(9, 10))

    def body(n: tf.Tensor, call: Callable[..., tf.Tensor]) -> tf.Tensor:
        return tf.cond(n < 8, lambda: tf.tanh(ROWS[name](x, n)) + call(n + 1) + call(n + 3), lambda: tf.zeros([10]))

    def eagerly(n: tf.Tensor) -> tf.Tensor:
        return body(n, eagerly)

    gradients = []
    with rg.SubGraph("rows", outputs=tf.TensorSpec([10]), engine=engine, gradient=gradient) as rows:
        rows.output(body(rows.input(tf.int32), rows))
    for function in (eagerly, rows, tf.function(rows)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(tf.constant(1)) * tf.range(10.0))
        gradients.append(tape.gradient(y, x))
    expected, *others = gradients
    for found in others:
        assert isinstance(found, tf.Tensor)
        assert found.shape == expected.shape == [9, 10]
        np.testing.assert_allclose(found, tf.convert_to_tensor(expected), rtol=1e-4, atol=1e-5)
    kinds = {total.kind for total in rows.program(gradient=True).contract.sums}
    assert kinds == (
        {"rows"} if name in BY_ROWS else {"rows", "dense"} if name in ("and all", "in a branch") else {"dense"}
    )


def test_a_row_of_a_small_tensor_is_added_as_a_whole() -> None:
    """A pair of tensors for each of many reads would take more memory than the tensor."""
    kinds = []
    for size in (32, 33):
        x = tf.Variable(tf.ones([size, 2]))
        with rg.SubGraph("small", outputs=tf.TensorSpec([2])) as small:
            n = small.input(tf.int32)
            small.output(tf.cond(n > 0, lambda n=n, x=x: x[n] + small(n - 1), lambda: tf.zeros([2])))
        kinds += [total.kind for total in small.program(gradient=True).contract.sums]
    assert kinds == ["dense", "rows"]


@both_modes
def test_two_lookups_in_one_table(gradient: str) -> None:
    """A table that is an input or the value of a variable: the rows of both lookups count."""
    variable = tf.Variable(programs.seeded(4, 2))
    with rg.SubGraph("twice", outputs=tf.TensorSpec([2]), gradient=gradient) as twice:
        n, table = twice.input(tf.int32), twice.input(tf.float32, [4, 2])
        value = tf.identity(variable)
        own = tf.gather(table, n) * tf.gather(table, n + 1) + tf.gather(value, n) * tf.gather(value, 3 - n)
        twice.output(tf.cond(n > 0, lambda: own * twice(n - 1, table), lambda: own))

    def reference(n: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
        own = table[n] * table[n + 1] + variable[n] * variable[3 - n]
        return own * reference(n - 1, table) if n > 0 else own

    arguments = (tf.constant(2), tf.constant(programs.seeded(4, 2, seed=1)))
    programs.assert_same(programs.run(twice, arguments, [variable]), programs.run(reference, arguments, [variable]))


@both_modes
def test_weights_of_matrix_products_of_any_orientation(gradient: str) -> None:
    """Rows times matrix, matrix times column, transposed weights, and one weight in two roles."""
    a, b = tf.Variable(programs.seeded(3, 3)), tf.Variable(programs.seeded(3, 3, seed=1))

    def step(x: tf.Tensor) -> tf.Tensor:
        row = tf.matmul(x, a) + tf.matmul(x, b, transpose_b=True)
        column = tf.matmul(b, x, transpose_b=True) + tf.matmul(a, row, transpose_a=True, transpose_b=True)
        wide = tf.matmul(tf.concat([row, tf.transpose(column)], 0), a)
        return tf.sin(tf.reduce_sum(wide, 0, keepdims=True) + tf.linalg.matvec(a, column[:, 0]))

    with rg.SubGraph("products", outputs=tf.TensorSpec([1, 3]), gradient=gradient) as products:
        n, x = products.input(tf.int32), products.input(tf.float32, [1, 3])
        products.output(tf.cond(n > 0, lambda: step(products(n - 1, x)), lambda: x))
    start = tf.constant(programs.seeded(1, 3))
    expected = programs.run(lambda n, x: step(step(x)), (tf.constant(2), start), [a, b])
    programs.assert_same(programs.run(products, (tf.constant(2), start), [a, b]), expected)


@tf.custom_gradient
def wrong_square(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """x², whose gradient claims to be 10 x."""
    return x * x, lambda upstream: 10.0 * x * upstream


@both_modes
def test_custom_gradient_is_used(gradient: str) -> None:
    """In a body and in a branch of it."""
    with rg.SubGraph("custom", outputs=FLOAT, gradient=gradient) as custom:
        n, x = custom.input(tf.int32), custom.input()
        custom.output(tf.cond(n > 0, lambda: wrong_square(custom(n - 1, x)), lambda: wrong_square(x)))
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = custom(1, x)
    assert float(y) == 16
    assert float(tape.gradient(y, x)) == 10 * 2 * 10 * 4


@both_modes
def test_one_traced_function_called_twice(gradient: str) -> None:
    """Two calls of one graph that calls back: what they keep must not be mixed up, whichever ends first."""
    with rg.SubGraph("twice", outputs=FLOAT, gradient=gradient) as twice:
        n, x = twice.input(tf.int32), twice.input()
        helper = tf.function(lambda n, x: twice(n - 1, x), autograph=False)
        more = lambda: tf.sin(helper(n, x)) * 2.0 + tf.cos(3.0 * helper(n, x * x))  # noqa: E731
        twice.output(tf.cond(n > 0, more, lambda: x))

    def reference(n: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return tf.sin(reference(n - 1, x)) * 2.0 + tf.cos(3.0 * reference(n - 1, x * x)) if n > 0 else x

    arguments = (tf.constant(3), tf.constant(0.7))
    expected = programs.run(reference, arguments)
    with testing.policy("random"):
        for _ in range(5):
            programs.assert_same(programs.run(twice, arguments), expected)


@both_modes
def test_stop_gradient(gradient: str) -> None:
    """Nothing flows through it, everything beside it."""
    with rg.SubGraph("stopped", outputs=FLOAT, gradient=gradient) as stopped:
        n, x = stopped.input(tf.int32), stopped.input()
        stopped.output(tf.cond(n > 0, lambda: x * tf.stop_gradient(stopped(n - 1, x)), lambda: x * x))
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = stopped(1, x)
    assert float(tape.gradient(y, x)) == 9


@both_modes
def test_inputs_that_cannot_be_differentiated(gradient: str) -> None:
    """Strings, integers and booleans beside a float: their gradient is None."""
    with rg.SubGraph("mixed", outputs=FLOAT, gradient=gradient) as mixed:
        n, word, flag, x = (mixed.input(t) for t in (tf.int32, tf.string, tf.bool, tf.float32))
        length = tf.cast(tf.strings.length(word), tf.float32)
        more = lambda: mixed(n - 1, word + "a", tf.logical_not(flag), x) * x  # noqa: E731
        mixed.output(tf.cond(n > 0, more, lambda: tf.where(flag, length * x, -length * x)))
    n, x = tf.constant(1), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch([n, x])
        y = mixed(n, "bc", True, x)
    assert float(y) == -27
    by_n, by_x = tape.gradient(y, [n, x])
    assert by_n is None
    assert float(by_x) == -18


@both_modes
@pytest.mark.parametrize("n", [0, 1, 4])
def test_switch_case_and_loops(gradient: str, n: int) -> None:
    """Values that change in a loop, one that does not, and a case in the loop's body."""
    with rg.SubGraph("mixture", outputs=tf.TensorSpec([], tf.float64), gradient=gradient) as mixture:
        depth, x, y = mixture.input(tf.int32), mixture.input(tf.float64), mixture.input(tf.float64)

        def step(i: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, ...]:
            cases = [lambda: tf.sin(a * y), lambda: mixture(depth - 1 - i, b, a), lambda: a * b]
            return i + 1, tf.switch_case(i % 3, cases), tf.tanh(b + a)

        _, a, b = tf.while_loop(lambda i, *_: i < depth, step, [0, x, x * y])
        mixture.output(a - 2.0 * b)
    testing.check_gradients(lambda x, y: mixture(n, x, y), [0.3, -0.8], tolerance=1e-5)


@both_modes
def test_a_loop_that_starts_from_captured_tensors(gradient: str) -> None:
    """One changes in the loop, one is handed through: only the latter is the same in every iteration."""
    start, kept = tf.constant(0.3, tf.float64), tf.constant(1.5, tf.float64)
    with rg.SubGraph("from_outside", outputs=tf.TensorSpec([], tf.float64), gradient=gradient) as from_outside:
        n = from_outside.input(tf.int32)
        below = tf.cond(n > 0, lambda: from_outside(n - 1), lambda: kept)
        step = lambda i, x, k: (i + 1, tf.sin(k * x) + below, k)  # noqa: E731
        from_outside.output(tf.while_loop(lambda i, x, k: i < 3, step, [0, start, kept])[1])

    def reference(n: tf.Tensor) -> tf.Tensor:
        below, x = reference(n - 1) if n > 0 else kept, start
        for _ in range(3):
            x = tf.sin(kept * x) + below
        return x

    expected = programs.run(reference, (tf.constant(2),), [start, kept])
    programs.assert_same(programs.run(from_outside, (tf.constant(2),), [start, kept]), expected)


@both_modes
def test_finite_differences_of_the_shared_step(gradient: str) -> None:
    """An independent judge: central differences in float64."""
    with rg.SubGraph("step", outputs=tf.TensorSpec([1, 2], tf.float64), gradient=gradient) as step:
        n, x, w = step.input(tf.int32), step.input(tf.float64, [1, 2]), step.input(tf.float64, [2, 2])
        more = lambda: tf.tanh(tf.matmul(step(n - 1, x, w) + step(n - 2, 0.5 * x, w), w))  # noqa: E731
        step.output(tf.cond(n > 0, more, lambda: x))
    testing.check_gradients(lambda x, w: step(4, x, w), [programs.seeded(1, 2), programs.seeded(2, 2)], 1e-6)


@both_modes
@pytest.mark.parametrize("dtype", [tf.float16, tf.float64, tf.complex64], ids=lambda dtype: dtype.name)
def test_dtypes_of_gradients(dtype: tf.DType, gradient: str) -> None:
    """The gradient has the dtype of what it is for."""
    power, x = make_power(tf.TensorSpec([2], dtype), gradient=gradient), tf.constant([1.0, 2.0], dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = power(2, x)
    result = tape.gradient(y, x)
    assert result.dtype == dtype
    assert result.numpy().tolist() == [3, 12]


def test_gradients_that_the_checker_must_refuse() -> None:
    """A checker that is happy with everything proves nothing."""
    with rg.SubGraph("wrong", outputs=tf.TensorSpec([], tf.float64)) as wrong:
        x = wrong.input(tf.float64)
        wrong.output(x * tf.stop_gradient(x))
    with pytest.raises(
        AssertionError, match=r"gradient of argument 0 at \(\): .*3\.0.*central differences give .*6\.0"
    ):
        testing.check_gradients(wrong, [3.0])


def test_a_tensor_without_connection_gets_none() -> None:
    """As everywhere in TensorFlow."""
    power, x, other = make_power(), tf.constant(2.0), tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch([x, other])
        y = power(1, x)
    assert tape.gradient(y, other) is None


def test_training_converges() -> None:
    """Gradients through a function that is traced once, a variable that changes between steps."""
    weight, power = tf.Variable(0.5), make_power()

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = (power(2, weight) - 8.0) ** 2
        weight.assign_sub(0.002 * tape.gradient(loss, weight))
        return loss

    for _ in range(300):
        step()
    np.testing.assert_allclose(weight, 2.0, atol=1e-3)


@pytest.mark.parametrize("reading", ["value", "read_value", "multiplied"])
@pytest.mark.parametrize("gradient", ["cache", "recompute"])
def test_a_variable_that_is_written_afterwards(gradient: str, reading: str) -> None:
    """The gradient is that of the value that was read, also where a caller writes the variable."""
    factor = tf.Variable(2.0)
    with rg.SubGraph("scaled", outputs=FLOAT, gradient=gradient) as scaled:
        x = scaled.input()
        read = {"value": factor.value, "read_value": factor.read_value, "multiplied": lambda: 1.0 * factor}[reading]
        scaled.output(x * x * read())
    with rg.SubGraph("writing", outputs=FLOAT) as writing:
        x = writing.input()
        y = scaled(x) + factor * x
        with tf.control_dependencies([y]):
            factor.assign(10.0)
        writing.output(y)
    for function in (writing, tf.function(writing)):
        factor.assign(2.0)
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        assert (float(y), float(tape.gradient(y, x)), float(factor)) == (24.0, 14.0, 10.0)
