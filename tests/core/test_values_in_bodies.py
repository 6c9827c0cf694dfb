"""Python in a body that asks a tensor for its value: what the user is told, with the line and what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.errors import DefinitionError, SignatureError, SymbolicError

FLOAT = tf.TensorSpec([], tf.float32)
CONVERTED = "; in a function under @rg.subgraph, Python's `if`, `for` and `while` work on tensors"


def branch(f: rg.SubGraph, x: tf.Tensor) -> None:
    if x < 0:
        f.output(x)


def loop(f: rg.SubGraph, x: tf.Tensor) -> None:
    while x < 0:
        x = x + 1


def value(f: rg.SubGraph, x: tf.Tensor) -> None:
    print(x.numpy())


def count(f: rg.SubGraph, x: tf.Tensor) -> None:
    list(range(x))


def number(f: rg.SubGraph, x: tf.Tensor) -> None:
    f.output(float(x))


def array(f: rg.SubGraph, x: tf.Tensor) -> None:
    f.output(np.sin(x))


def parts(f: rg.SubGraph, x: tf.Tensor) -> None:
    a, b = tf.stack([x, x])


def index(f: rg.SubGraph, x: tf.Tensor) -> None:
    f.output([1.0, 2.0][x])


def length(f: rg.SubGraph, x: tf.Tensor) -> None:
    f.output(len(x))


TRUTH = "asks Python whether a tensor is true, by `if`, `while`, `and`, `or` or `not`"
INSTEAD = f"write tf.cond, tf.while_loop or tf.logical_and{CONVERTED}"
VALUE = "asks a tensor for its value"
PRINT = "use TensorFlow's operations in place of NumPy's; tf.print shows values when the graph runs"
NEEDS = "gives a tensor to something that needs its value"
OTHER = "use TensorFlow's operations: tf.cast for `int` and `float`, tf.gather for an index"
MISTAKES: dict[Callable[..., None], tuple[str, str]] = {
    branch: (TRUTH, INSTEAD),
    loop: (TRUTH, INSTEAD),
    value: (VALUE, PRINT),
    array: (VALUE, PRINT),
    number: (NEEDS, OTHER),
    index: (NEEDS, OTHER),
    count: (
        "gives a tensor to something that counts in Python, such as `range`",
        f"write tf.range and tf.while_loop{CONVERTED}",
    ),
    parts: (
        "goes through a tensor in Python",
        f"write tf.unstack where its size is known, else tf.map_fn or tf.while_loop{CONVERTED}",
    ),
    length: (
        "asks Python for the length of a tensor",
        "write tf.shape(tensor)[0], or tensor.shape[0] where its size is known",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_with_block(mistake: Callable[..., None]) -> None:
    what, instead = MISTAKES[mistake]
    lines, first = inspect.getsourcelines(mistake)
    with pytest.raises(SymbolicError) as error, rg.SubGraph("total", outputs=FLOAT) as total:
        mistake(total, total.input(tf.float32))
    assert str(error.value) == (
        f"SubGraph 'total' {what}; a body is defined once for all values, so its tensors have none yet [symbolic]\n"
        f"  where:     {__file__}:{first + 1}\n  found:     {lines[1].strip()}\n  next step: {instead}"
    )
    assert error.value.__cause__ is not None
    assert isinstance(error.value, TypeError)  # as TensorFlow's is, except where an attribute is missing


def test_the_block_can_be_run_again() -> None:
    total = rg.SubGraph("total", outputs=FLOAT)
    with pytest.raises(SymbolicError), total:
        value(total, total.input(tf.float32))
    with total:
        total.output(total.input(tf.float32) * 2.0)
    assert float(total(2.0)) == 4.0


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nmpy'"), rg.SubGraph("total", outputs=FLOAT) as total:
        total.input(tf.float32).nmpy()
    with pytest.raises(TypeError, match="not callable"), rg.SubGraph("total", outputs=FLOAT) as total:
        total.input(tf.float32)()


def test_a_function_under_subgraph() -> None:
    """Where `if` works, and `.numpy()` does not."""

    @rg.subgraph(outputs=FLOAT)
    def halve(x: Any) -> Any:
        if x < 1.0:
            return x.numpy()
        return halve(x / 2.0)

    with pytest.raises(SymbolicError) as error:
        halve(3.0)
    assert str(error.value).startswith("function 'halve' asks a tensor for its value; ")
    assert error.value.found == "return x.numpy()"


def test_outputs_that_cannot_be_inferred_say_why() -> None:
    @rg.subgraph
    def halve(x: Any) -> Any:
        y = tf.identity(x)
        return y.nothing() if x is None else halve(y.numpy())

    with pytest.raises(DefinitionError, match="the outputs of 'halve' cannot be inferred") as error:
        halve(3.0)
    assert str(error.value.found).startswith("function 'halve' asks a tensor for its value; ")


def test_results_that_are_unpacked_are_inferred_all_the_same() -> None:
    """The first guess, one tensor, cannot be unpacked: that is not the user's mistake."""

    @rg.subgraph
    def both(x: Any) -> Any:
        if x < 0.0:
            return x, x
        a, b = both(x - 1.0)
        return a, b

    assert [float(part) for part in both(1.5)] == [-0.5, -0.5]


def test_a_method_of_a_layer() -> None:
    class Values(rg.keras.TreeLayer):
        output_size = 1

        def node(self, inputs: Any, child: Any) -> Any:
            return inputs.numpy()

    with pytest.raises(SymbolicError) as error:
        Values()(tf.constant([[[-1, -1]]]))
    assert "Values.node asks a tensor for its value; " in str(error.value)
    assert error.value.found == "return inputs.numpy()"
    line = inspect.getsourcelines(Values.node)[1] + 1
    assert error.value.where == f"{__file__}:{line}"


@pytest.mark.parametrize(("given", "meant"), [("batch", "batched"), ("paralel", "parallel"), ("AUTO", None)])
def test_names_of_options_that_are_nearly_right(given: str, meant: str | None) -> None:
    with pytest.raises(DefinitionError, match=f"engine cannot be '{given}'") as error:
        rg.SubGraph("total", engine=given)
    assert error.value.next_step == (f"did you mean {meant!r}?" if meant else None)


def test_a_mode_that_is_nearly_right() -> None:
    with pytest.raises(
        SignatureError, match="mode must be one of 'auto', 'speculate', 'coexec', got 'speculat'"
    ) as error:
        rg.function(mode="speculat")(lambda x: x)
    assert error.value.next_step == "did you mean 'speculate'?"
