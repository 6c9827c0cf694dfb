"""Arguments by name, defaults, and functions whose source cannot be read."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.errors import DefinitionError, SignatureError


@rg.subgraph
def power(x, n=2, *, scale=1.0):  # type: ignore[no-untyped-def]
    if n <= 0:
        return scale * 1.0
    return x * power(x, n - 1, scale=scale)


WAYS: dict[str, tuple[tuple[Any, ...], dict[str, Any], float]] = {
    "by position": ((2.0, 3), {"scale": 10.0}, 80.0),
    "by name": ((), {"x": 2.0, "n": 3, "scale": 10.0}, 80.0),
    "in another order": ((), {"scale": 10.0, "n": 3, "x": 2.0}, 80.0),
    "a default that the recursion passes": ((2.0,), {"n": 3}, 8.0),
    "all defaults": ((3.0,), {}, 9.0),
}


@pytest.mark.parametrize("way", WAYS)
def test_arguments_are_bound_as_python_binds_them(way: str) -> None:
    args, named, expected = WAYS[way]
    assert float(power(*args, **named)) == expected
    assert float(tf.function(lambda: power(*args, **named), autograph=False)()) == expected
    rows = [[value] * 3 for value in args], {key: [value] * 3 for key, value in named.items()}
    np.testing.assert_array_equal(power.map(*rows[0], **rows[1]), [expected] * 3)


def test_parameters_between_that_are_left_out() -> None:
    @rg.subgraph
    def skip(a, b=1.0, c=2.0):  # type: ignore[no-untyped-def]
        if a <= 0:
            return b + c
        return skip(a - 1, c=c)

    assert float(skip(2, c=5.0)) == 6.0


def test_a_recursive_call_that_leaves_out_what_is_given_outside() -> None:
    """It takes the default, as in Python."""

    @rg.subgraph
    def f(n, start=100.0):  # type: ignore[no-untyped-def]
        if n <= 0:
            return start
        return f(n - 1) + start

    assert float(f(2, start=1.0)) == 201.0


def test_any_number_of_arguments() -> None:
    @rg.subgraph
    def total(n, *rest, **more):  # type: ignore[no-untyped-def]
        if n <= 0:
            return tf.add_n(rest) * more["factor"]
        return total(n - 1, *rest, **more)

    assert float(total(2, 1.0, 2.0, 3.0, factor=2.0)) == 12.0
    assert float(total(2, 1.0, factor=2.0)) == 2.0


@pytest.mark.parametrize(
    ("args", "named", "text"),
    [
        ((), {}, "power: missing a required argument: 'x'"),
        ((2.0, 3, 4), {}, "power: too many positional arguments"),
        ((2.0,), {"x": 2.0}, "power: multiple values for argument 'x'"),
        ((2.0,), {"m": 2}, "power: got an unexpected keyword argument 'm'"),
    ],
)
def test_arguments_that_python_would_not_bind(args: Any, named: Any, text: str) -> None:
    with pytest.raises(SignatureError) as caught:
        power(*args, **named)
    assert text in str(caught.value)
    assert "power(x, n=2, *, scale=1.0)" in str(caught.value)
    assert "test_arguments.py" in str(caught.value)


def test_a_recursive_call_with_another_number_of_arguments() -> None:
    @rg.subgraph
    def shrink(n, *rest):  # type: ignore[no-untyped-def]
        if n <= 0:
            return rest[0]
        return shrink(n - 1, *rest[1:])

    with pytest.raises(SignatureError, match="a recursive call has arguments of another structure than the outer call"):
        shrink(1, 1.0, 2.0)


def test_inputs_of_a_subgraph_by_their_names() -> None:
    with rg.SubGraph("f", outputs=tf.TensorSpec([])) as f:
        x, n = f.input(name="x"), f.input(tf.int32, name="n")
        f.output(tf.cond(n <= 0, lambda: 1.0, lambda: x * f(n=n - 1, x=x)))
    assert float(f(2.0, n=3)) == float(f(n=3, x=2.0)) == 8.0
    np.testing.assert_array_equal(f.map(n=[1, 2], x=[3.0, 4.0]), [3.0, 16.0])


def test_declared_inputs_by_their_names() -> None:
    specs = (tf.TensorSpec([], name="a"), tf.TensorSpec([]))
    with rg.SubGraph("minus", inputs=specs, outputs=tf.TensorSpec([])) as minus:
        minus.output(minus.input() - minus.input(name="b"))
    assert float(minus(b=1.0, a=3.0)) == 2.0
    with rg.SubGraph("of_dict", inputs={"a": specs[1], "b": specs[1]}) as of_dict:
        arguments = of_dict.declared_arguments()
        of_dict.output(arguments["a"] - arguments["b"])
    assert float(of_dict(b=1.0, a=3.0)) == float(of_dict({"a": 3.0, "b": 1.0})) == 2.0


def without_source(text: str) -> Any:
    """A function as one typed into an interactive interpreter, or given by `python -c`."""
    names: dict[str, Any] = {"tf": tf, "rg": rg}
    exec(compile(inspect.cleandoc(text), "<stdin>", "exec"), names)
    return names["f"]


def test_a_body_that_needs_no_conversion_needs_no_source() -> None:
    f = without_source("""
        @rg.subgraph
        def f(n):
            return tf.cond(n < 2, lambda: n, lambda: n * f(n - 1))
        """)
    assert float(f(4.0)) == 24.0


@pytest.mark.parametrize("options", ["", "(outputs=tf.TensorSpec([]))"])
def test_a_body_that_needs_conversion_says_that_it_has_no_source(options: str) -> None:
    f = without_source(f"""
        @rg.subgraph{options}
        def f(n):
            if n < 2:
                return n
            return n * f(n - 1)
        """)
    with pytest.raises(DefinitionError) as caught:
        f(4.0)
    for text in ("its source cannot be read", "<stdin>:3", "in a file or a cell", "or use tf.cond"):
        assert text in str(caught.value)
