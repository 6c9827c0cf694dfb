"""Products of stacks of matrices as products of matrices, as far as they are: by one weight, or summed over the stack.

`x[b, t, i] w[i, o]` is the product of a matrix of all rows of x. The gradient of w, the sum over b of `x[b]' g[b]`, is
the product of two such matrices, where TensorFlow makes a matrix of w's size for each b, and adds them up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.optimize.bridge.changing import GraphChanges
from recgraph.optimize.bridge.extraction import FLOATS

_STACKED = ("BatchMatMulV2", "BatchMatMul")


@dataclasses.dataclass(frozen=True)
class FlatProduct:
    """A product of matrices that an operation computes.

    Attributes:
        op: the operation.
        left, right: the tensors that are multiplied, each as a matrix of so many columns, all else being rows.
        columns: of both.
        turned: whether each is transposed.
        is_sum: whether the operation adds up products of a stack.
    """

    op: tf.Operation
    left: tf.Tensor
    right: tf.Tensor
    columns: tuple[int, int]
    turned: tuple[bool, bool]
    is_sum: bool = False


def flatten(graph: Any, changes: GraphChanges) -> tuple[int, int]:
    """Changes a graph.

    Returns:
        How many products of stacks became products of matrices, and how many sums of products did.
    """
    counts = [0, 0]
    kept = {id(tensor) for tensor in graph.outputs}
    for found in list(_products(graph)):
        (result,) = found.op.outputs
        if found.op.control_inputs or id(result) in kept or not _is_given_only(found.op):
            continue
        with graph.as_default(), tf.control_dependencies(None), tf.name_scope("flat"):
            made = _made(found)
        for user in found.op._control_outputs:
            changes.order(user, [before for before in user.control_inputs if before is not found.op])
        changes.redirect(result, made)
        counts[found.is_sum] += 1
    return counts[0], counts[1]


def _is_given_only(op: tf.Operation) -> bool:
    """Whether all that wait for an operation are given what it computes."""
    users = set(op.outputs[0].consumers())
    return all(user in users for user in op._control_outputs)


def _made(found: FlatProduct) -> tf.Tensor:
    (result,) = found.op.outputs
    parts = [
        tensor if tensor.shape.rank == 2 and tensor.shape[1] == columns else tf.reshape(tensor, [-1, columns])
        for tensor, columns in zip((found.left, found.right), found.columns, strict=True)
    ]
    product = tf.matmul(*parts, transpose_a=found.turned[0], transpose_b=found.turned[1])
    if result.shape.rank == 2:
        return product
    shape = [-1 if size is None else size for size in result.shape]
    return tf.reshape(product, shape)


def _products(graph: Any) -> Iterator[FlatProduct]:
    for op in graph.get_operations():
        found = None
        if op.type in _STACKED:
            found = _by_one_matrix(op)
        elif op.type == "Sum":
            found = _sum(op)
        elif op.type == "Einsum":
            found = _einsum(op)
        if found is not None and op.outputs[0].dtype in FLOATS and _has_a_shape(op.outputs[0]):
            yield found


def _has_a_shape(tensor: tf.Tensor) -> bool:
    """Whether a reshape needs no more than what is known: one size may be what is left. None is zero."""
    shape = tensor.shape
    return shape.rank is not None and sum(size is None for size in shape) <= 1 and 0 not in shape.as_list()


def _by_one_matrix(op: tf.Operation) -> FlatProduct | None:
    """All matrices of a stack, multiplied with the same one."""
    x, w = op.inputs
    if op.get_attr("adj_x") or w.shape.rank != 2 or (x.shape.rank or 0) < 3 or not w.shape.is_fully_defined():
        return None
    turned = bool(op.get_attr("adj_y"))
    if x.shape[-1] != w.shape[1 if turned else 0]:
        return None
    return FlatProduct(op, x, w, (int(x.shape[-1]), int(w.shape[1])), (False, turned))


def _sum(op: tf.Operation) -> FlatProduct | None:
    """The products of two stacks of equally many matrices, one by one, all added up."""
    product, axes = op.inputs[0].op, tf_private.constant_value(op.inputs[1])
    if product.type not in _STACKED or product.control_inputs or axes is None or op.get_attr("keep_dims"):
        return None
    x, g = product.inputs
    if not product.get_attr("adj_x") or product.get_attr("adj_y") or len(product.outputs[0].consumers()) > 1:
        return None
    if not (x.shape.is_fully_defined() and g.shape.is_fully_defined()) or x.shape[:-1] != g.shape[:-1]:
        return None
    if x.shape.rank < 3 or sorted(np.atleast_1d(axes).tolist()) != list(range(x.shape.rank - 2)):
        return None
    return FlatProduct(op, x, g, (int(x.shape[-1]), int(g.shape[-1])), (True, False), is_sum=True)


def _einsum(op: tf.Operation) -> FlatProduct | None:
    """A contraction over axes that come last or first in both tensors, in one order; the others stay as they are."""
    sides, _, result = op.get_attr("equation").decode().partition("->")
    names, tensors = sides.split(","), list(op.inputs)
    if len(names) != 2 or "." in sides or any(len(set(one)) < len(one) for one in names):
        return None
    if not all(tensor.shape.is_fully_defined() and 0 not in tensor.shape.as_list() for tensor in tensors):
        return None
    for order in (1, -1):
        found = _contraction(op, names[::order], tensors[::order], result)
        if found is not None:
            return found
    return None


def _contraction(op: tf.Operation, names: list[str], tensors: list[tf.Tensor], result: str) -> FlatProduct | None:
    summed = "".join(one for one in names[0] if one in names[1])
    rest, columns, turned = "", [], []
    for is_right, (own, tensor) in enumerate(zip(names, tensors, strict=True)):
        is_last = own.endswith(summed)
        if not summed or own == summed or not (is_last or own.startswith(summed)):
            return None
        rest += own[: -len(summed)] if is_last else own[len(summed) :]
        count = len(summed) if is_last else len(own) - len(summed)
        columns.append(int(np.prod(tensor.shape.as_list()[-count:])))
        turned.append(is_last is bool(is_right))
    if rest != result:
        return None
    return FlatProduct(op, tensors[0], tensors[1], (columns[0], columns[1]), (turned[0], turned[1]))
