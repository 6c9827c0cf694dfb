"""Numbers of the graph that depend on the sizes of its inputs alone, and inputs themselves as arrays of NumPy's: the
script has them before the graph runs, so that NumPy can compute for it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import ops
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import NoException
from recgraph.speculate.script.heap import Input
from recgraph.speculate.script.symbolic import DynamicValue, mapped
from recgraph.speculate.values import arrays

# Operations whose result has the shape of their first input, beside those that compute each element by itself.
_ALIKE: Final = frozenset(
    {"BiasAdd", "CheckNumerics", "Cumprod", "Cumsum", "EnsureShape", "LogSoftmax", "ReverseV2", "Softmax"}
)
_ARITHMETIC: Final[dict[str, Any]] = {
    "Add": operator.add, "AddV2": operator.add, "Sub": operator.sub, "Mul": operator.mul,
    "FloorDiv": operator.floordiv, "FloorMod": operator.mod, "Maximum": max, "Minimum": min, "Neg": operator.neg,
}  # fmt: skip


def before(ev: Evaluator, arguments: Sequence[Any], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """Arguments of a call with what the script has before the graph, in place of what comes out of it.

    None where one of them is known only after the graph.
    """
    found: dict[int, int | DynamicValue] = {}
    fed: dict[int, tuple[DynamicValue, Input]] = {}
    for leaf in symbolic.leaves([*arguments, *named.values()]):
        if isinstance(leaf, DynamicValue) and leaf.late:
            if arrays.is_array(leaf):
                source = _source(ev, leaf.tensor)
                if source is None:
                    return None
                fed[id(leaf)] = leaf, source
                continue
            number = None if leaf.tensor is None else _number(ev, leaf.tensor)
            if number is None:
                return None
            found[id(leaf)] = number
        elif symbolic.is_unknown(leaf) and not isinstance(leaf, DynamicValue):
            return None
    for array, source in fed.values():
        _make_early(ev, array, source)

    def replaced(value: Any) -> Any:
        return found[id(value)] if id(value) in found else mapped(replaced, value)

    return [replaced(a) for a in arguments], {name: replaced(a) for name, a in named.items()}


def _source(ev: Evaluator, tensor: tf.Tensor) -> Input | None:
    """The tensor of the program's that the script gives to the graph, of which an array is what `.numpy()` gives."""
    if tensor.op.type == "StopGradient":
        tensor = tensor.op.inputs[0]
    known = ev.heap.input_of(tensor)
    is_tensor = known is not None and isinstance(known.example, ev.heap.eager_tensor_type)
    return known if is_tensor and tensor.dtype != tf.string else None


def _make_early(ev: Evaluator, array: DynamicValue, source: Input) -> None:
    """An array of the graph is one of the script's from now on, which is not changed."""
    found = source.example.numpy()
    early = DynamicValue(ev.script.name(), symbolic.fixed(found) if isinstance(found, np.ndarray) else found)
    vars(array).update(vars(early))
    ev.script.compute(array.name, f"{source.name}.numpy()", ev.noted(NoException, "numpy"))


def _number(ev: Evaluator, tensor: tf.Tensor) -> int | DynamicValue | None:
    """A number that is computed of sizes."""
    if tensor.shape.rank != 0 or tensor.dtype not in (tf.int32, tf.int64) or tensor.graph is not ev.graph:
        return None
    static = tf.get_static_value(tensor)
    if static is not None:
        return int(static)
    op = tensor.op
    if op.type in ("Identity", "Cast", "StopGradient"):
        return _number(ev, op.inputs[0])
    if op.type == "StridedSlice" and op.inputs[0].op.type == "Shape":
        index = tf.get_static_value(op.inputs[1])
        return None if index is None else _size(ev, op.inputs[0].op.inputs[0], int(index[0]))
    if op.type in _ARITHMETIC:
        operands = [_number(ev, operand) for operand in op.inputs]
        return None if None in operands else _computed(ev, _ARITHMETIC[op.type], operands)
    return None


def _computed(ev: Evaluator, function: Any, arguments: list[Any]) -> int | DynamicValue:
    if any(isinstance(a, DynamicValue) for a in arguments):
        return ev.in_script(function, arguments)
    return int(function(*arguments))


def _size(ev: Evaluator, tensor: tf.Tensor, index: int) -> int | DynamicValue | None:
    """A dimension of a tensor; None where it depends on more than sizes, or on what is not looked at here."""
    shape = tensor.shape
    if shape.rank is None or tensor.graph is not ev.graph:
        return None
    index %= shape.rank
    if shape[index] is not None:
        return int(shape[index])
    if (fed := ev.heap.input_of(tensor)) is not None:
        return of_input(ev, fed, index)
    op = tensor.op
    form = ops.facts(op.type).form
    if form in (ops.Form.SAME, ops.Form.ELEMENTWISE) or op.type in _ALIKE:
        return _size(ev, op.inputs[0], index)
    if form is ops.Form.BROADCASTS or op.type == "SelectV2":
        return _size_of_broadcast(ev, op, index - shape.rank)
    if op.type == "StridedSlice":
        return _size_of_slice(ev, op, index)
    if op.type in ("MatMul", "BatchMatMulV2"):
        return _size_of_product(ev, op, index - shape.rank)
    if op.type in ("GatherV2", "ResourceGather", "ExpandDims", "Transpose", "OneHot"):
        return _size_of_moved(ev, op, index)
    return None


def of_input(ev: Evaluator, fed: Any, index: int) -> DynamicValue | None:
    """A dimension that varies, of what the script gives to the graph; None of a number."""
    if fed.shape is None:
        return None
    return DynamicValue(ev.script.read(f"{fed.name}.shape[{index}]"), fed.shape[index])


def _size_of_broadcast(ev: Evaluator, op: Any, index: int) -> int | DynamicValue | None:
    """From the right; an operand of size 1 is stretched."""
    if any(operand.shape.rank is None for operand in op.inputs):
        return None
    reaching = {id(operand): operand for operand in op.inputs if operand.shape.rank >= -index}
    found: int | DynamicValue = 1
    for operand in reaching.values():
        size = _size(ev, operand, index)
        if size is None:
            return None
        if size != 1:
            found = size if found == 1 else _computed(ev, _stretched, [found, size])
    return found


def _stretched(one: int, other: int) -> int:
    """The size that two have in common: where they do not fit together, the operation itself fails."""
    return other if one == 1 else one


def _size_of_product(ev: Evaluator, op: Any, index: int) -> int | DynamicValue | None:
    """Rows are those of the first factor, columns those of the second."""
    transposed = [
        op.get_attr(name) for name in (("adj_x", "adj_y") if op.type != "MatMul" else ("transpose_a", "transpose_b"))
    ]
    if index == -2:
        return _size(ev, op.inputs[0], -1 if transposed[0] else -2)
    if index == -1:
        return _size(ev, op.inputs[1], -2 if transposed[1] else -1)
    return _size_of_broadcast(ev, op, index)


def _size_of_moved(ev: Evaluator, op: Any, index: int) -> int | DynamicValue | None:
    """Where dimensions come from another place."""
    if op.type == "Transpose":
        order = tf.get_static_value(op.inputs[1])
        return None if order is None else _size(ev, op.inputs[0], int(order[index]))
    if op.type == "OneHot":
        rank, axis = op.outputs[0].shape.rank, op.get_attr("axis")
        new = axis % rank
        return None if index == new else _size(ev, op.inputs[0], index - (index > new))
    if op.type == "ExpandDims":
        axis = tf.get_static_value(op.inputs[1])
        if axis is None:
            return None
        new = int(axis) % op.outputs[0].shape.rank
        return _size(ev, op.inputs[0], index - (index > new))
    indices = op.inputs[1].shape.rank
    axis = 0 if op.type == "ResourceGather" else tf.get_static_value(op.inputs[2])
    if indices is None or axis is None or op.get_attr("batch_dims") or int(axis) != 0:
        return None
    if index < indices:
        return _size(ev, op.inputs[1], index)
    return None if op.type == "ResourceGather" else _size(ev, op.inputs[0], index - indices + 1)


def _size_of_slice(ev: Evaluator, op: Any, index: int) -> int | DynamicValue | None:
    """Of one with fixed bounds."""
    whole, *bounds = op.inputs
    fixed = [tf.get_static_value(bound) for bound in bounds]
    if whole.shape.rank is None or any(bound is None for bound in fixed):
        return None
    of, begin, end, stride = _sliced(op, whole.shape.rank, fixed)[index]
    size = _size(ev, whole, of)
    if size is None or (begin, end, stride) == (None, None, 1):
        return size
    return _computed(ev, _count, [size, begin, end, stride])


def _sliced(op: Any, rank: int, bounds: list[Any]) -> list[tuple[int, int | None, int | None, int]]:
    """Of each dimension of a slice that is no new one, where it comes from, and its bounds."""
    count = len(bounds[0])
    begins, ends, dots, new, single = (
        [bool(op.get_attr(f"{name}_mask") >> i & 1) for i in range(count)]
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    )
    covered = rank - sum(not (dots[i] or new[i]) for i in range(count))
    found: list[Any] = []
    of = 0
    for i in range(count):
        if dots[i]:
            found += [(of + j, None, None, 1) for j in range(covered)]
            of += covered
        elif new[i]:
            found.append(None)
        else:
            begin, end, stride = (int(bound[i]) for bound in bounds)
            if not single[i]:
                found.append((of, None if begins[i] else begin, None if ends[i] else end, stride))
            of += 1
    return found + [(i, None, None, 1) for i in range(of, rank)]


def _count(size: int, begin: int | None, end: int | None, stride: int) -> int:
    """How many members a slice of so many has."""
    return len(range(*slice(begin, end, stride).indices(size)))
