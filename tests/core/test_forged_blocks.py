"""Functions of blocks that were forged: sizes, permutations, counts and results that TensorFlow would refuse.

The batched engine takes them apart itself where it can. What does not fit is left to TensorFlow, which says why not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import native
from tests.core.damaging import Library, call, changed, linked

Node = Any
ROWS = tf.reshape(tf.range(12.0), [2, 2, 3])


def subgraph(body: Callable[[tf.Tensor], tf.Tensor]) -> rg.SubGraph:
    """One that maps `body` over rows, in one block."""
    like = body(ROWS[0])
    with rg.SubGraph("f", outputs=tf.TensorSpec(like.shape, like.dtype), engine="batched") as f:
        f.output(body(f.input(tf.float32, [2, 3])))
    return f


def run(f: rg.SubGraph, change: Callable[[Library], None] | None = None, rows: tf.Tensor = ROWS) -> np.ndarray:
    """Maps a SubGraph whose program was changed over rows."""
    program = linked(f)
    library = program.library if change is None else changed(program, change)
    result = call(program, library, map=True, args=[rows], output_shapes=[None]).results[0]
    return np.asarray(result)


def of_blocks(library: Library, op: str) -> list[tuple[Any, Node]]:
    """The nodes of an operation, with their functions."""
    found = [(function, node) for function in library.function for node in function.node_def if node.op == op]
    assert found, [node.op for function in library.function for node in function.node_def]
    return found


def constant_inputs(library: bytes, op: str) -> list[int]:
    """Which inputs of an operation in a block are constants."""
    read = tf.compat.v1.GraphDef().library
    read.ParseFromString(library)
    function, node = of_blocks(read, op)[0]
    constants = {each.name for each in function.node_def if each.op == "Const"}
    return [i for i, name in enumerate(node.input) if name.split(":")[0] in constants]


def with_constant(op: str, index: int, numbers: list[int]) -> Callable[[Library], None]:
    """Input `index` of an operation becomes other numbers."""

    def change(library: Library) -> None:
        for function, node in of_blocks(library, op):
            name = node.input[index].split(":")[0]
            for source in function.node_def:
                if source.name != name or source.op != "Const":
                    continue
                dtype = tf.as_dtype(source.attr["value"].tensor.dtype).as_numpy_dtype
                value = np.array(numbers, np.int64).astype(dtype)
                source.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))

    return change


def transposed(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x)


def tiled(x: tf.Tensor) -> tf.Tensor:
    return tf.tile(x, [1, 2])


def reshaped(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x * 2.0, [3, 2]) + 1.0


def sliced(x: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StridedSlice(
        input=x, begin=[0, 1], end=[2, 3], strides=[1, 1], begin_mask=0, end_mask=0, shrink_axis_mask=0
    )


def padded(x: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StridedSliceGrad(
        shape=[2, 4], begin=[0, 1], end=[2, 4], strides=[1, 1], dy=x, begin_mask=1, end_mask=1
    )


def part(x: tf.Tensor) -> tf.Tensor:
    return tf.slice(x, [0, 1], [2, 2])


def split(x: tf.Tensor) -> tf.Tensor:
    return tf.split(x, [1, 2], 1)[1]


def expanded(x: tf.Tensor) -> tf.Tensor:
    return tf.expand_dims(x, 1)


def summed(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x, 1)


def picked(x: tf.Tensor) -> tf.Tensor:
    return tf.gather(x, [0, 2], axis=1)


def joined(x: tf.Tensor) -> tf.Tensor:
    return tf.concat([x, x * 2.0], 1)


LIMITS = [-1, -10, 0, 2**31 - 1, -(2**31), 2 * 10**9, 65537, -20000]
BODIES: dict[str, tuple[Callable[[tf.Tensor], tf.Tensor], int]] = {
    # the operation: how it is used, how many numbers its constants have
    "Transpose": (transposed, 3),
    "Tile": (tiled, 3),
    "Reshape": (reshaped, 3),
    "StridedSlice": (sliced, 3),
    "StridedSliceGrad": (padded, 3),
    "Slice": (part, 3),
    "SplitV": (split, 2),
    "ExpandDims": (expanded, 1),
    "Sum": (summed, 1),
    "GatherV2": (picked, 2),
    "ConcatV2": (joined, 1),
}


@pytest.mark.parametrize("op", BODIES)
def test_constants_at_their_limits(op: str) -> None:
    """Every place of every constant: of the right length, shorter, longer and empty. It runs or is refused."""
    body, length = BODIES[op]
    f = subgraph(body)
    expected = np.stack([body(x).numpy() for x in ROWS])
    np.testing.assert_array_equal(run(f), expected)
    indices = constant_inputs(linked(f).library, op)
    assert indices
    lists: list[list[int]] = [
        [],
        [1] * (length + 1),
        [-1, -2, -3],
        [-1, 2**31 - 1, 2**31 - 1],
        [1] * 300,
        [-1] + [1] * 300,
    ]
    lists += [[0, *[limit if i == at else 1 for i in range(1, length)]] for at in range(length) for limit in LIMITS]
    lists += [[limit] * length for limit in LIMITS]
    for index in indices:
        for numbers in lists:
            try:
                run(f, with_constant(op, index, numbers))
            except (tf.errors.OpError, ValueError):
                continue


def inserted(op: str, times: int, **attributes: Any) -> Callable[[Library], None]:
    """So many operations of one input, and a constant 1, behind each multiplication of a block."""

    def change(library: Library) -> None:
        for function, node in of_blocks(library, "Recgraph>Expression")[:1]:
            one = function.node_def.add(name="one", op="Const")
            one.attr["dtype"].type = tf.int32.as_datatype_enum
            one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.int32(1)))
            last = f"{node.name}:outputs:0"
            for i in range(times):
                new = function.node_def.add(name=f"new{i}", op=op)
                new.input.extend([last, "one:output:0"])
                new.attr["T"].type = tf.float32.as_datatype_enum
                for name, dtype in attributes.items():
                    new.attr[name].type = dtype.as_datatype_enum
                last = f"new{i}:output:0"
            for result, source in list(function.ret.items()):
                if source.startswith(f"{node.name}:"):
                    function.ret[result] = last

    return change


def test_operations_that_were_put_in() -> None:
    """A block may have other nodes than the compiler makes."""
    f = subgraph(lambda x: tf.tanh(x) * 2.0 + 1.0)
    assert run(f, inserted("ExpandDims", 3, Tdim=tf.int32)).shape == (2, 1, 1, 1, 2, 3)
    assert run(f, inserted("ExpandDims", 60, Tdim=tf.int32)).ndim == 63


@pytest.mark.parametrize(("inner", "width"), [(6, 2**60 + 8), (2**60, 8), (6, -8), (0, 0), (-1, 2**31), (6, 2**31)])
def test_packed_matrices_of_any_shape(inner: int, width: int) -> None:
    """What a packed matrix takes may overflow to what it is."""
    weight = tf.Variable(tf.ones([6, 16]))
    f = subgraph(lambda x: tf.reshape(x, [1, 6]) @ weight)
    assert run(f).shape == (2, 1, 16)

    def change(library: Library) -> None:
        for _, node in of_blocks(library, "Recgraph>PackedProduct"):
            node.attr["inner"].i = inner
            node.attr["width"].i = width

    with pytest.raises(
        tf.errors.OpError, match=r"no matrix is of|not a packed matrix|rows of \d+ expected|at least minimum 1"
    ):
        run(f, change)


@pytest.mark.parametrize("what", ["result", "argument"])
def test_a_function_with_less_than_the_plan_says(what: str) -> None:
    """Neither way of running it reads what is not there."""
    f = subgraph(lambda x: tf.tanh(x) * 2.0)
    blocks = {name for name in names(linked(f).library) if "block" in name or "." in name}

    def change(library: Library) -> None:
        for function in library.function:
            if function.signature.name not in blocks or not function.node_def:
                continue
            if what == "result" and function.signature.output_arg:
                del function.ret[function.signature.output_arg.pop().name]
            elif what == "argument" and function.signature.input_arg:
                extra = function.signature.input_arg.add()
                extra.CopyFrom(function.signature.input_arg[0])
                extra.name = "one_more"

    with pytest.raises(tf.errors.OpError, match="arguments|results|argument|retval|result"):
        run(f, change)


def names(library: bytes) -> list[str]:
    """Of the functions of a program."""
    read = tf.compat.v1.GraphDef().library
    read.ParseFromString(library)
    return [function.signature.name for function in read.function]


def test_captures_of_other_dtypes() -> None:
    """Two calls of one program: the second one's tensor is not read as the first one's is."""
    table = tf.constant(np.arange(4000, dtype=np.float32).reshape(1000, 4))
    numbers = tf.constant([[1], [999]])
    with rg.SubGraph("f", outputs=tf.TensorSpec([1, 4]), engine="batched") as f:
        f.output(tf.gather(table, f.input(tf.int32, [1])) * 1.0)
    program = linked(f)
    first = call(program, map=True, args=[numbers], output_shapes=[None]).results[0]
    np.testing.assert_array_equal(first[:, 0], table.numpy()[[1, 999]])
    for dtype in (tf.bool, tf.float64, tf.int32):
        other = tf.ones([1000, 4], dtype)
        with pytest.raises((tf.errors.OpError, ValueError), match="argument 1 is|not float|float"):
            call(program, map=True, args=[numbers], captures=[other], output_shapes=[None])
    again = call(program, map=True, args=[numbers], output_shapes=[None]).results[0]
    np.testing.assert_array_equal(again, first)


def test_functions_that_call_themselves() -> None:
    """Only invocations may: nothing counts how deep plain calls go, or how many are in each other."""
    f = subgraph(lambda x: tf.tanh(x) * 2.0)

    def circle(library: Library) -> None:
        function = next(one for one in library.function if one.node_def)
        node = function.node_def.add(name="again", op="Recgraph>CallFunction")
        node.attr["f"].func.name = function.signature.name
        node.attr["Tin"].list.SetInParent()
        node.attr["Tout"].list.SetInParent()

    with pytest.raises(tf.errors.DataLossError, match="calls itself, and no call is an invocation"):
        run(f, circle)

    def chain(library: Library) -> None:
        for i in range(1500):
            function = library.function.add()
            function.signature.name = f"chain{i}"
            node = function.node_def.add(name="next", op="Recgraph>CallFunction")
            node.attr["f"].func.name = f"chain{i + 1}"
            node.attr["Tin"].list.SetInParent()
            node.attr["Tout"].list.SetInParent()

    with pytest.raises(tf.errors.DataLossError, match="are more than 1000 functions in each other"):
        run(f, chain)


def test_rows_of_more_dimensions_than_a_tensor_has() -> None:
    """Indices and variable together."""
    variable = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[1] * 200, shared_name="many dimensions")
    tf.raw_ops.AssignVariableOp(resource=variable, value=tf.reshape(tf.constant(1.0), [1] * 200))
    with pytest.raises(tf.errors.OpError, match="dimensions"):
        native.ops().recgraph_descend_rows(
            variable=variable, indices=tf.reshape(tf.constant(0), [1] * 100), gradient=tf.constant(1.0), rate=0.1
        )
