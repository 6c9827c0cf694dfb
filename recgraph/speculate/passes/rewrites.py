"""Products of a few rows by large weights, again and again, become one product of stacked rows.

A loop in time that was unrolled reads its weights, and writes their gradient, at each step, which takes longer than the
arithmetic. Two rules, where the weights are several times as large as the rows that meet them:

- Products `x_i W`, of which none needs another, become one product of stacked rows, cut again.
- A sum of products `x_i' g_i`, the gradient of such weights, becomes one product of two stacks.

Results differ in the order of their sums only. To go on with what treats rows one by one (biases, losses) was tried:
the stacked operations leave the processor's cache and are no faster.
"""

from __future__ import annotations

import collections
import contextlib
import graphlib
from collections.abc import Hashable, Iterable, Iterator
from typing import Final, TypeAlias

import tensorflow as tf

from recgraph import devices, tf_private

# How much larger the weights have to be than the rows, which are copied.
LARGER: Final = 4
Operations: TypeAlias = list[tf.Operation]


def stack_products(graph: tf.Graph) -> None:
    """Rewrites a finished graph of merged reads, whose operations are no longer in the order of their edges then."""
    products = [op for op in graph.get_operations() if op.type == "MatMul" and _is_worthwhile(op)]
    stacks = _Stacks(graph)
    for total, terms in _sums(products):
        _merge_sum(stacks, total, terms)
    for shared in _of_same_weights(products):
        for members in _independent(graph, shared):
            if len(members) > 1:
                _merge_rows(stacks, members)


class _Stacks:
    """Stacked tensors: each set of them once, in one order."""

    def __init__(self, graph: tf.Graph) -> None:
        self.graph = graph
        self._made: dict[frozenset[int], tuple[list[tf.Tensor], tf.Tensor]] = {}

    def order(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the same tensors in the order that they are stacked in, if they are."""
        return self._made.get(frozenset(map(id, tensors)), (tensors, None))[0]

    def stack(self, tensors: list[tf.Tensor]) -> tf.Tensor:
        """Their rows, one after the other."""
        order, made = self._made.get(frozenset(map(id, tensors)), ([], None))
        if made is None or any(one is not other for one, other in zip(order, tensors, strict=True)):
            with self.building():
                made = tf.concat(tensors, 0)
            self._made.setdefault(frozenset(map(id, tensors)), (tensors, made))
        return made

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Adds operations to the graph, which wait for nothing but their inputs."""
        with self.graph.as_default(), tf.control_dependencies(None):
            yield


def _is_worthwhile(op: tf.Operation) -> bool:
    """Whether the weights, or their gradient, are so much larger than the rows on both sides."""
    shapes = [tensor.shape for tensor in (*op.inputs, op.outputs[0])]
    if op.control_inputs or not all(shape.is_fully_defined() for shape in shapes):
        return False
    left, right, result = (shape.num_elements() for shape in shapes)
    if op.get_attr("transpose_a"):
        return not op.get_attr("transpose_b") and bool(result >= LARGER * (left + right))
    return bool(right >= LARGER * (left + result))


def _sums(products: Operations) -> Iterable[tuple[tf.Operation, Operations]]:
    """Sums with several terms that are products of columns by rows, each of rows of its own."""
    found: dict[tf.Operation, Operations] = collections.defaultdict(list)
    for op in products:
        users = op.outputs[0].consumers()
        if op.get_attr("transpose_a") and [user.type for user in users] == ["AddN"]:
            found[users[0]].append(op)
    for total, terms in found.items():
        rows, added = {id(op.inputs[1]) for op in terms}, set(map(id, total.inputs))
        if len(rows) == len(terms) > 1 and len(added) == len(total.inputs):
            yield total, terms


def _merge_sum(stacks: _Stacks, total: tf.Operation, terms: Operations) -> None:
    columns = {id(op.inputs[1]): op.inputs[0] for op in terms}
    rows = stacks.order([op.inputs[1] for op in terms])
    left, right = stacks.stack([columns[id(row)] for row in rows]), stacks.stack(rows)
    rest = [tensor for tensor in total.inputs if tensor.op not in terms]
    with stacks.building():
        merged = tf.matmul(left, right, transpose_a=True)
        added = tf.add_n([merged, *rest]) if rest else merged
    tf_private.redirect(total.outputs[0], added)


def _of_same_weights(products: Operations) -> Iterable[Operations]:
    found: dict[Hashable, Operations] = collections.defaultdict(list)
    for op in products:
        if not op.get_attr("transpose_a"):
            found[op.get_attr("transpose_b"), id(op.inputs[1])].append(op)
    return [members for members in found.values() if len(members) > 1]


def _independent(graph: tf.Graph, members: Operations) -> Iterable[Operations]:
    """Members by how many others lie on the longest way to them: those of one depth do not need each other."""
    before = {op: [*(tensor.op for tensor in op.inputs), *op.control_inputs] for op in graph.get_operations()}
    wanted = set(members)
    depths: dict[tf.Operation, int] = {}
    found: dict[int, Operations] = collections.defaultdict(list)
    for op in graphlib.TopologicalSorter(before).static_order():
        depth = max((depths[other] for other in before[op]), default=0)
        if op in wanted:
            found[depth].append(op)
            depth += 1
        depths[op] = depth
    return list(found.values())


def _merge_rows(stacks: _Stacks, members: Operations) -> None:
    of_rows = {id(op.inputs[0]): op for op in members}
    if len(of_rows) < len(members):  # the same product twice: TensorFlow finds that
        return
    rows = stacks.order([op.inputs[0] for op in members])
    stacked, first = stacks.stack(rows), members[0]
    with stacks.building():
        product = tf.matmul(stacked, first.inputs[1], transpose_b=first.get_attr("transpose_b"))
        parts = tf.split(product, [row.shape[0] for row in rows])
    for row, part in zip(rows, parts, strict=True):
        tf_private.redirect(of_rows[id(row)].outputs[0], part)


def merge_reads(graph: tf.Graph) -> None:
    """Rewrites a finished graph: of reads that wait for the same writes, all but the first are no longer used."""
    first: dict[Hashable, tf.Tensor] = {}
    for op in graph.get_operations():
        if op.type == "ReadVariableOp":
            value = op.outputs[0]
            waits_for = frozenset(before.name for before in op.control_inputs)
            kept = first.setdefault((id(op.inputs[0]), waits_for, value.dtype), value)
            if kept is not value:
                tf_private.redirect(value, kept)


# So many classes a row of logits has to have; losses of fewer keep TensorFlow's kernel, and its rounding.
CLASSES: Final = 64


def choose_kernels(graph: tf.Graph) -> None:
    """Has the losses of a finished graph computed by `cc/kernels/softmax_loss_op.cc`, which is for the host."""
    if devices.gpu_is_visible():
        return
    for op in graph.get_operations():
        if op.type == "SparseSoftmaxCrossEntropyWithLogits" and not op.device and _is_wide(op.inputs[0]):
            tf_private.set_attribute(op, "_kernel", tf.compat.v1.AttrValue(s=b"recgraph"))


def _is_wide(logits: tf.Tensor) -> bool:
    return logits.dtype == tf.float32 and logits.shape.rank == 2 and (logits.shape[1] or CLASSES) >= CLASSES
