"""Bad input: what is said, where it points, and that nothing is left behind."""

# ruff: noqa: PT012  (the statements before the one that fails are what makes it fail)

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core import programs
from core.failing import check_text, line, nothing_is_left_behind  # noqa: F401  (the fixture serves every test)

import recgraph as rg
from recgraph.errors import BranchError, DefinitionError, GradientError, ScopeError, SignatureError

INT = tf.TensorSpec([], tf.int32)
FLOAT = tf.TensorSpec([])
HERE = os.path.basename(__file__)


# At definition.


def test_output_never_set() -> None:
    """Says how to set it; the same SubGraph can then be defined."""
    forgetful = rg.SubGraph("forgetful", outputs=FLOAT)
    with pytest.raises(DefinitionError) as caught, forgetful:
        forgetful.input()
    check_text(caught.value, None, "SubGraph 'forgetful' was given no output [definition]", "forgetful.output(...)")
    assert HERE in caught.value.where
    with forgetful:
        forgetful.output(forgetful.input() + 1.0)
    assert float(forgetful(1.0)) == 2


def test_output_set_twice() -> None:
    """The second is refused."""
    with rg.SubGraph("twice") as twice:
        twice.output(1.0)
        with pytest.raises(DefinitionError) as caught:
            where = line() + 1
            twice.output(2.0)
    check_text(caught.value, where, "twice: output() was called twice")


def test_several_results_that_are_no_nest() -> None:
    """The second is not taken for anything else."""
    with pytest.raises(DefinitionError) as caught:  # noqa: SIM117
        with rg.SubGraph("pair") as pair:
            x = pair.input()
            pair.output(x, x)
    assert "pair: output() takes one nest of results, found 2 arguments" in str(caught.value)
    assert "output((first, second))" in str(caught.value)


def test_called_before_its_body_exists() -> None:
    """Without declared outputs nobody can know what a call gives."""
    vague = rg.SubGraph("vague", inputs=INT)
    with pytest.raises(DefinitionError) as caught:
        where = line() + 1
        vague(1)
    check_text(caught.value, where, "SubGraph 'vague' is called before it has a body", "declare inputs= and outputs=")


def test_declared_called_and_never_defined() -> None:
    """Known when the program is linked; names the one that lacks a body, not the one that was called."""
    missing = rg.SubGraph("missing", inputs=FLOAT, outputs=FLOAT)
    with rg.SubGraph("caller") as caller:
        caller.output(missing(caller.input()))
    with pytest.raises(DefinitionError) as caught:
        where = line() + 1
        caller(1.0)
    check_text(caught.value, where, "SubGraph 'missing' was declared and called, but its body was never defined")


def test_a_body_that_raises_leaves_the_name_reusable() -> None:
    """The user's exception is the one that is seen, and the default graph is as before."""
    broken = rg.SubGraph("broken", outputs=FLOAT)
    with pytest.raises(ZeroDivisionError), broken:
        broken.input()
        1 / 0  # noqa: B018
    assert tf.executing_eagerly()
    with broken:
        n = broken.input(tf.int32)
        broken.output(tf.cond(n > 0, lambda: 2.0 * broken(n - 1), lambda: 1.0))
    assert float(broken(3)) == 8


def test_a_second_body_is_refused() -> None:
    """A definition is for life."""
    fibonacci = programs.make_fibonacci()
    with pytest.raises(DefinitionError, match="SubGraph 'fibonacci' already has a body"), fibonacci:
        pass
    with pytest.raises(DefinitionError, match=r"fibonacci.input\(\) must be called inside `with fibonacci:`"):
        fibonacci.input()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"engine": "fast"}, "engine cannot be 'fast'"),
        ({"gradient": "none"}, "gradient cannot be 'none'"),
        ({"max_depth": 0}, "max_depth must be at least 1"),
    ],
)
def test_options(options: dict[str, Any], text: str) -> None:
    """Found at once, where it was written."""
    with pytest.raises(DefinitionError) as caught:
        rg.SubGraph("optional", **options)
    check_text(caught.value, None, text, HERE)


def test_declarations_that_are_no_specs() -> None:
    """A dtype is not a TensorSpec."""
    with pytest.raises(SignatureError) as caught:
        rg.SubGraph("loose", outputs=tf.float32)
    check_text(
        caught.value, None, "outputs must be a nest of tf.TensorSpec", "tf.float32", "tf.TensorSpec(shape, dtype)"
    )


def test_output_that_is_not_what_was_declared() -> None:
    """Dtype, shape and structure; shows the declaration that would fit."""
    for value in (tf.constant(1), tf.constant([1.0]), {"x": tf.constant(1.0)}, (tf.constant(1.0), tf.constant(1.0))):
        with pytest.raises(SignatureError) as caught, rg.SubGraph("strict", outputs=FLOAT) as strict:
            strict.output(value)
        check_text(caught.value, None, "strict: the output is not the outputs that were declared", "outputs=", HERE)


def test_output_that_is_not_what_a_call_was_taken_for() -> None:
    """Undeclared outputs of a recursive body: one float32 tensor was assumed, and where."""
    with pytest.raises(SignatureError) as caught, rg.SubGraph("guess") as guess:
        n = guess.input(tf.int32)
        where = line() + 1
        guess(n)
        guess.output(n)
    taken = f"what the call at {__file__}:{where} was assumed to return"
    check_text(caught.value, None, taken, "found:     int32[]", "float32", "SubGraph('guess', outputs=TensorSpec(")


def test_inputs_that_contradict_the_declaration() -> None:
    """Another dtype, or one too many."""
    declared = rg.SubGraph("declared", inputs=(INT,), outputs=INT)
    with pytest.raises(SignatureError, match="declared: input 1 does not match the declared inputs"), declared:
        declared.input(tf.float32)
    with pytest.raises(SignatureError) as caught, declared:
        declared.input(tf.int32)
        declared.input(tf.int32)
    check_text(caught.value, None, "declared: input 2 does not match", "no more than 1 inputs")


TWO = lambda: (1.0, 2.0)  # noqa: E731
BRANCHES: dict[str, tuple[Callable[[tf.Tensor], Any], str, str]] = {
    "number": (
        lambda n: tf.cond(n < 2, TWO, lambda: 3.0),
        "of a cond",
        "true_fn: (float32[], float32[]); false_fn: float32[]",
    ),
    "keys": (
        lambda n: tf.cond(n < 2, lambda: {"x": 1.0}, lambda: {"y": 1.0}),
        "of a cond",
        "true_fn: {'x': float32[]}; false_fn: {'y': float32[]}",
    ),
    "nesting": (
        lambda n: tf.cond(n < 2, lambda: (1.0, TWO()), lambda: (1.0, 2.0, 3.0)),
        "of a cond",
        "true_fn: (float32[], (float32[], float32[])); false_fn: (float32[], float32[], float32[])",
    ),
    "dtype": (lambda n: tf.cond(n < 2, lambda: 1.0, lambda: n), "of a cond", "true_fn: float32[]; false_fn: int32[]"),
    "nothing": (lambda n: tf.cond(n < 2, lambda: 1.0, lambda: None), "of a cond", "true_fn: float32[]; false_fn: None"),
    "case": (
        lambda n: tf.switch_case(n, [TWO, TWO, lambda: [tf.zeros([3])]]),
        "of a switch_case",
        "branch 0: (float32[], float32[]); branch 1: (float32[], float32[]); branch 2: [float32[3]]",
    ),
}


@pytest.mark.parametrize("kind", BRANCHES)
def test_branches_that_give_different_things(kind: str) -> None:
    """TensorFlow's own messages are a bare pair of numbers, or a page; the name can be used again."""
    branch, of_what, found = BRANCHES[kind]
    where = branch.__code__.co_firstlineno
    uneven = rg.SubGraph("uneven", outputs=FLOAT)
    with pytest.raises(BranchError) as caught, uneven:
        uneven.output(branch(uneven.input(tf.int32)))
    check_text(
        caught.value,
        where,
        f"'uneven': the branches {of_what} return different structures or dtypes",
        found,
        "the same structure",
    )
    with uneven:
        uneven.output(1.0)
    assert float(uneven()) == 1


def test_branches_in_rewritten_code() -> None:
    """At least the definition is named where AutoGraph's own code is all that an exception passes."""

    def define(x: tf.Tensor) -> tf.Tensor:
        with rg.SubGraph("uneven", outputs=FLOAT) as uneven:
            uneven.output(tf.cond(uneven.input() > 0.0, TWO, lambda: 3.0))
        return uneven(x)

    with pytest.raises(BranchError) as caught:
        tf.function(define)(tf.constant(1.0))
    check_text(caught.value, None, "true_fn: (float32[], float32[]); false_fn: float32[]", f"{HERE}:")


def test_a_wrong_guess_that_only_shows_in_a_branch() -> None:
    """A recursive function's dtype is guessed; that guess is no error of the user's."""

    @rg.subgraph
    def last_digit(n):  # type: ignore[no-untyped-def]
        return tf.cond(n < 10, lambda: tf.cast(n, tf.int64), lambda: last_digit(n // 10))

    assert int(last_digit(732)) == 7


# At a call.

BAD_CALLS: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "too few": ((1,), ("input 2 ('x') is missing", "strict(int32[], float32[2] x)")),
    "too many": ((1, [1.0, 2.0], 3), ("3 arguments given for 2 inputs", "strict(int32[], float32[2] x)")),
    "out of range": (
        (2**40, [1.0, 2.0]),
        ("argument 1 is not representable as int32", "1099511627776", "int32 of shape ()", "tf.int64"),
    ),
    "negative": ((-(2**31) - 1, [1.0, 2.0]), ("argument 1 is not representable as int32", "-2147483649")),
    "NumPy out of range": ((np.int64(2**31), [1.0, 2.0]), ("argument 1 is not representable as int32", "2147483648")),
    "too large for any": ((2**100, [1.0, 2.0]), ("argument 1 is not representable as int32", str(2**100))),
    "NumPy float for int": (
        (np.float32(1.5), [1.0, 2.0]),
        ("argument 1 is not representable as int32", "float32 numbers", "tf.cast"),
    ),
    "no tensor": ((object(), [1.0, 2.0]), ("argument 1 cannot be converted to a tensor", "int32 of shape ()")),
    "float for int": ((1.5, [1.0, 2.0]), ("argument 1 cannot be converted to a tensor", "int32 of shape ()")),
    "dtype": (
        (1, tf.constant([1, 2])),
        ("argument 2 ('x') has the wrong dtype or shape", "int32 of shape (2,)", "float32 of shape (2,)"),
    ),
    "shape": (
        (1, tf.ones([3])),
        ("argument 2 ('x') has the wrong dtype or shape", "float32 of shape (3,)", "float32 of shape (2,)"),
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_arguments_that_do_not_fit(case: str) -> None:
    """Names the argument and the user's line, outside, inside of a body and when staged."""
    arguments, pieces = BAD_CALLS[case]
    inputs = (INT, tf.TensorSpec([2], name="x"))
    strict = rg.SubGraph("strict", inputs=inputs, outputs=FLOAT)
    with strict:
        _, x = strict.declared_arguments()
        with pytest.raises(SignatureError) as inside:
            strict(*arguments)
        strict.output(x[0])
    with pytest.raises(SignatureError) as outside:
        where = line() + 1
        strict(*arguments)
    check_text(outside.value, where, "strict: ", *pieces)
    check_text(inside.value, None, *pieces)
    with pytest.raises(SignatureError):
        tf.function(lambda: strict(*arguments), autograph=False)()


BAD_NAMES: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "unknown": ((1,), {"y": 1.0}, "no input is named 'y'"),
    "twice": ((1, 2.0), {"x": 1.0}, "input 2 ('x') is given more than once"),
    "missing": ((), {"x": 1.0}, "input 1 ('n') is missing"),
}


@pytest.mark.parametrize("case", BAD_NAMES)
def test_names_that_do_not_fit(case: str) -> None:
    args, named, text = BAD_NAMES[case]
    with rg.SubGraph("add", outputs=FLOAT) as add:
        n, x = add.input(tf.int32, name="n"), add.input(name="x")
        add.output(tf.cast(n, tf.float32) + x)
    for call in (add, add.map):
        with pytest.raises(SignatureError) as caught:
            call(*args, **named)
        check_text(caught.value, None, f"add: {text}", "add(int32[] n, float32[] x)")


def test_a_nest_that_is_arranged_otherwise() -> None:
    with rg.SubGraph("of_dict", inputs={"a": FLOAT, "b": FLOAT}) as of_dict:
        arguments = of_dict.declared_arguments()
        of_dict.output(arguments["a"] - arguments["b"])
    with pytest.raises(SignatureError) as caught:
        of_dict({"a": 1.0, "c": 2.0})
    check_text(
        caught.value, None, "of_dict: the arguments do not have the structure of the inputs", "'a'", "'c'", "'b'"
    )


def test_integers_in_lists_and_arrays_that_do_not_fit() -> None:
    """TensorFlow would cut them off."""
    with rg.SubGraph("bytes", outputs=tf.TensorSpec([None], tf.uint8)) as bytes_:
        bytes_.output(bytes_.input(tf.uint8, [None]))
    for numbers in ([1, 256], [-1], np.array([3, 300]), [[1.5], [2.0]], np.array([1.0])):
        with pytest.raises(SignatureError, match="argument 1 (is not representable as uint8|cannot be converted)"):
            bytes_(numbers)
    assert bytes_([0, 255]).numpy().tolist() == [0, 255]
    assert bytes_(np.array([0, 255])).numpy().tolist() == [0, 255]
    assert bytes_([]).numpy().tolist() == []


def test_rows_that_do_not_fit() -> None:
    """`map` wants one more dimension; rows of different number are found when it runs."""
    with rg.SubGraph("pair", outputs=FLOAT) as pair:
        pair.output(pair.input() + pair.input())
    with pytest.raises(SignatureError) as caught:
        pair.map(1.0, [1.0])
    check_text(
        caught.value,
        None,
        "pair: argument 1 has the wrong dtype or shape",
        "float32 of shape ()",
        "float32 of shape (None,)",
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"same first dimension, found shapes \[2\] and \[3\]"):
        pair.map([1.0, 2.0], [1.0, 2.0, 3.0])


def test_a_shape_that_only_shows_when_it_runs() -> None:
    """The operation that stumbles is named."""
    with rg.SubGraph("dynamic", outputs=tf.TensorSpec([None])) as dynamic:
        x = dynamic.input(tf.float32, [None])
        dynamic.output(x + tf.ones([3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="call path: dynamic, 1 level"):
        dynamic([1.0, 2.0])


def test_a_subgraph_of_another_graph() -> None:
    """It captures a tensor that this graph cannot reach."""
    made: list[rg.SubGraph] = []

    @tf.function
    def first(x: tf.Tensor) -> tf.Tensor:
        with rg.SubGraph("bound") as bound:
            bound.output(x * bound.input())
        made.append(bound)
        return bound(1.0)

    assert float(first(tf.constant(2.0))) == 2
    with pytest.raises(ScopeError) as caught:
        where = line() + 1
        made[0](1.0)
    check_text(caught.value, where, "SubGraph 'bound' cannot be called here: it captures a tensor of another graph")


def test_a_subgraph_of_another_function() -> None:
    """Found when the second function is traced, not when it runs."""
    made: list[rg.SubGraph] = []

    @tf.function
    def first(x: tf.Tensor) -> tf.Tensor:
        with rg.SubGraph("bound") as bound:
            bound.output(x * bound.input())
        made.append(bound)
        return bound(1.0)

    first(tf.constant(2.0))
    with pytest.raises(ScopeError, match="'bound' cannot be called here"):
        tf.function(lambda: made[0](1.0), autograph=False).get_concrete_function()


def test_a_tensor_of_another_graph_in_a_body() -> None:
    """Found at the line that uses it."""
    leaked: list[tf.Tensor] = []
    tf.function(lambda x: leaked.append(x))(tf.constant(1.0))
    with pytest.raises(ScopeError) as caught, rg.SubGraph("reaching") as reaching:
        where = line() + 1
        reaching.output(leaked[0] + reaching.input())
    text = "reaching: the body uses a tensor from an unrelated graph"
    check_text(caught.value, where, text, "pass the tensor as an input")


def test_an_operation_without_gradient() -> None:
    """Named, with the line that made it and what to do."""
    with rg.SubGraph("opaque") as opaque:
        x = opaque.input()
        where = line() + 1
        opaque.output(tf.raw_ops.NextAfter(x1=x, x2=1.0) * tf.raw_ops.Bitcast(input=x, type=tf.float32))
    x = tf.constant(1.0)
    with pytest.raises(GradientError) as caught, tf.GradientTape() as tape:
        tape.watch(x)
        y = opaque(x)
        tape.gradient(y, x)
    check_text(caught.value, None, "SubGraph 'opaque' cannot be differentiated", "no gradient", "tf.stop_gradient")
    assert f"{HERE}:{where}" in str(caught.value)
    assert float(opaque(1.0)) == 1


def test_recompute_allows_checks() -> None:
    """An assertion keeps no state: it says the same the second time."""
    with rg.SubGraph("checked", outputs=FLOAT, gradient="recompute") as checked:
        n, x = checked.input(tf.int32), checked.input()
        more = lambda: tf.debugging.check_numerics(x * checked(n - 1, x), "broken")  # noqa: E731
        with tf.control_dependencies([tf.debugging.Assert(n < 9, [n])]):
            checked.output(tf.cond(n > 0, more, lambda: x))
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = checked(1, x)
    assert float(tape.gradient(y, x)) == 6


def test_recompute_refuses_what_would_differ_the_second_time() -> None:
    """Random numbers from a state; the stateless ones are fine."""
    with rg.SubGraph("noisy", gradient="recompute") as noisy:
        x = noisy.input()
        noisy.output(x * tf.random.uniform([]))
    with pytest.raises(DefinitionError) as caught, tf.GradientTape() as tape:
        tape.watch(v := tf.constant(1.0))
        noisy(v)
    check_text(caught.value, None, "gradient='recompute' runs the body a second time", "RandomUniform", "stateless")
