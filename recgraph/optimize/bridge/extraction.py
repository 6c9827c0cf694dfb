"""TensorFlow's operations as terms. What the table of operators does not have becomes an input."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.optimize.bridge.gradient_flow import GradientFlow
from recgraph.optimize.evaluate import IllFormed, Shape
from recgraph.optimize.problem import UNKNOWN, Leaf, Problem
from recgraph.optimize.terms import Apply, TensorVariable, Term

FLOATS = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
_MAPS = {"Relu": "RELU", "Sigmoid": "SIGMOID", "Tanh": "TANH", "Neg": "NEG", "Exp": "EXP", "Rsqrt": "RSQRT"}
_ZIPS = {"Add": "ADD", "AddV2": "ADD", "Sub": "SUB", "Mul": "MUL", "Maximum": "MAX"}

# Gives the terms of an operation's outputs, or None where it is none of the table's.
Reader = Callable[["Extraction", tf.Operation], "list[Term] | None"]
_READERS: dict[str, Reader] = {}


@dataclass
class LeafOf:
    """The tensor that an input of the problem stands for.

    Attributes:
        tensor: the tensor.
        is_row: whether it is a vector, that here is a row.
    """

    tensor: tf.Tensor
    is_row: bool = False


@dataclass
class Extraction:
    """The operations of a graph that the table has, as terms.

    Attributes:
        graph: the graph.
        dtype: of the numbers; operations of other dtypes are not looked at.
        is_fixed: whether a tensor is the same in each run.
        same: a tensor that has the same value wherever it is, and is there before it.
        has_images: whether tensors of four axes are terms, too.
        flow: which tensors get a gradient; None where nobody asks for one.
        terms: of the outputs of operations, by id.
        leaves: what the inputs stand for, by name.
        roots: tensors that are used by something else than terms.
    """

    graph: Any
    dtype: tf.DType
    is_fixed: Callable[[tf.Tensor], bool]
    same: Callable[[tf.Tensor], tf.Tensor] = lambda tensor: tensor
    has_images: bool = False
    flow: GradientFlow | None = None
    terms: dict[int, Term] = field(default_factory=dict)
    leaves: dict[str, LeafOf] = field(default_factory=dict)
    roots: list[tf.Tensor] = field(default_factory=list)
    dims: dict[str, Shape] = field(default_factory=dict)
    _names: dict[tuple[int, int | None], str] = field(default_factory=dict)
    _fresh: Any = field(default_factory=itertools.count)
    _probe: Problem | None = None
    _operations: list[tf.Operation] = field(default_factory=list)

    def read(self, outputs: Iterable[tf.Tensor], must_run: Iterable[tf.Operation]) -> Problem | None:
        """Reads the graph; None where it has nothing of interest.

        Args:
            outputs: of the graph.
            must_run: operations that run for their effects.
        """
        outputs, must_run = list(outputs), list(must_run)
        self._operations = _needed(ops.in_order(self.graph), [*(tensor.op for tensor in outputs), *must_run])
        self._probe = Problem((), {})
        for op in self._operations:
            if waited_for(op) or not op.outputs or op in must_run:
                continue
            made = self._read(op)
            if made is not None:
                self.terms.update(zip(map(id, op.outputs), made, strict=True))
        self._find_roots(outputs)
        if not self.roots:
            return None
        needs = self._needs()
        leaves = {
            name: Leaf(self.dims[name], self._is_known(leaf.tensor), needs.get(id(leaf.tensor), frozenset()))
            for name, leaf in self.leaves.items()
        }
        differentiated = () if self.flow is None else self.flow.of_roots(self.roots, self.is_term)
        return Problem(tuple(self.terms[id(root)] for root in self.roots), leaves, differentiated)

    def _is_known(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor is the same in each run, and so large as is known now: what is made of it has a place."""
        return tensor.shape.is_fully_defined() and self.is_fixed(tensor)

    def _read(self, op: tf.Operation) -> list[Term] | None:
        reader = _READERS.get(op.type)
        if reader is None or any(output.dtype != self.dtype for output in op.outputs):
            return None
        names = set(self._names)
        made = reader(self, op)
        if made is not None and all(map(self._is_well_formed, made)):
            return made
        for key in set(self._names) - names:  # inputs that nothing has
            name = self._names.pop(key)
            del self.leaves[name], self.dims[name]
        return None

    def _is_well_formed(self, term: Term) -> bool:
        try:
            self.size_of(term)
        except IllFormed:
            return False
        return True

    def size_of(self, term: Term) -> Shape:
        """The four sizes of a term."""
        assert self._probe is not None
        return self._probe.dims(term)

    def _find_roots(self, outputs: Sequence[tf.Tensor]) -> None:
        found: dict[int, tf.Tensor] = {id(tensor): tensor for tensor in outputs if id(tensor) in self.terms}
        for op in self._operations:
            if any(id(output) in self.terms for output in op.outputs):
                continue
            found.update((id(source), source) for source in op.inputs if id(source) in self.terms)
        self.roots = [tensor for tensor in found.values() if isinstance(self.terms[id(tensor)], Apply)]

    def _needs(self) -> dict[int, frozenset[int]]:
        """Of each tensor that is no term, the roots that have to be computed before it."""
        numbers = {id(root): i for i, root in enumerate(self.roots)}
        needs: dict[int, frozenset[int]] = {}
        by_operation: dict[tf.Operation, frozenset[int]] = {}
        for op in self._operations:
            own = {numbers[id(source)] for source in op.inputs if id(source) in numbers}
            before = [needs.get(id(source), frozenset()) for source in op.inputs]
            before += [by_operation.get(source, frozenset()) for source in op.control_inputs]
            by_operation[op] = frozenset(own).union(*before)
            needs.update((id(output), by_operation[op]) for output in op.outputs)
        return needs

    def is_term(self, op: tf.Operation) -> bool:
        """Whether all that an operation gives are terms."""
        return bool(op.outputs) and all(id(output) in self.terms for output in op.outputs)

    def waited_for(self, op: tf.Operation) -> list[tf.Operation]:
        """What an operation waits for besides what it is given, where terms are made anew.

        Terms do nothing but compute, and cannot fail: who waits for one waits for what it is computed from.
        """
        found: dict[tf.Operation, None] = {}
        seen, waiting = set[tf.Operation](), waited_for(op)
        while waiting:
            source = waiting.pop()
            if source in seen:
                continue
            seen.add(source)
            if self.is_term(source):
                waiting += [tensor.op for tensor in source.inputs]
            else:
                found[source] = None
        return list(found)

    # Terms of tensors.

    def term(self, tensor: tf.Tensor) -> Term | None:
        """A matrix or images as a term."""
        if id(tensor) in self.terms:
            return self.terms[id(tensor)]
        if tensor.dtype != self.dtype or not (tensor.shape.rank == 2 or self.is_image(tensor)):
            return None
        return self._leaf(tensor)

    def is_image(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor has four axes, and could not be taken for a matrix."""
        return self.has_images and tensor.shape.rank == 4 and tensor.shape[2:] not in ((1, 1), (None, 1), (1, None))

    def all_terms(self, tensors: Iterable[tf.Tensor]) -> tuple[Term, ...] | None:
        """Matrices or images as terms; None where one of them is none, or where both are among them."""
        tensors = list(tensors)
        if len({tensor.shape.rank for tensor in tensors}) > 1:
            return None
        found = [self.term(tensor) for tensor in tensors]
        return tuple(term for term in found if term is not None) if None not in found else None

    def row(self, tensor: tf.Tensor, axis: int) -> Term | None:
        """A vector as a row along an axis; a matrix of one row, and an image of one place, too."""
        if tensor.dtype != self.dtype:
            return None
        if tensor.shape.rank == 1:
            return self._leaf(tensor, axis)
        is_one = tensor.shape.rank == axis + 1 and set(tensor.shape[:-1]) == {1}
        return self.term(tensor) if is_one else None

    def kernel(self, tensor: tf.Tensor) -> Term | None:
        """What images are convolved with, where it is an input."""
        return None if tensor.dtype != self.dtype or id(tensor) in self.terms else self._leaf(tensor)

    def _leaf(self, tensor: tf.Tensor, row_axis: int | None = None) -> Term:
        tensor = self.same(tensor)
        key = id(tensor), row_axis
        if key not in self._names:
            self._names[key] = name = f"t{next(self._fresh)}"
            self.leaves[name] = LeafOf(tensor, row_axis is not None)
            dims = [UNKNOWN + next(self._fresh) if size is None else int(size) for size in tensor.shape]
            dims = [1] * (row_axis or 0) + dims
            self.dims[name] = tuple([*dims, 1, 1, 1][:4])
            assert self._probe is not None
            self._probe.declare(name, Leaf(self.dims[name]))
        return TensorVariable(self._names[key])


def waited_for(op: tf.Operation) -> list[tf.Operation]:
    """What an operation waits for by order alone: who is given something waits for it anyway."""
    given = {tensor.op for tensor in op.inputs}
    return [source for source in op.control_inputs if source not in given]


def _needed(operations: list[tf.Operation], last: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Of operations in order those that some of them need: what nobody needs is not run."""
    found = set(last)
    for op in reversed(operations):
        if op in found:
            found.update(tensor.op for tensor in op.inputs)
            found.update(op.control_inputs)
    return [op for op in operations if op in found]


def reader(*types: str) -> Callable[[Reader], Reader]:
    """Enters how operations of some types are read."""

    def enter(function: Reader) -> Reader:
        _READERS.update(dict.fromkeys(types, function))
        return function

    return enter


@reader("Identity")
def _same(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    return [ex.terms[id(op.inputs[0])]] if id(op.inputs[0]) in ex.terms else None


@reader("MatMul")
def _product(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    factors = ex.all_terms(op.inputs)
    if factors is None:
        return None
    turned = [
        Apply("transpose", (), (factor,)) if op.get_attr(f"transpose_{side}") else factor
        for side, factor in zip("ab", factors, strict=True)
    ]
    return [Apply("matmul", (), tuple(turned))]


@reader("BiasAdd")
def _bias(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    if op.get_attr("data_format") != b"NHWC":
        return None
    axis = 1 if op.inputs[0].shape.rank == 2 else 3
    x, row = ex.term(op.inputs[0]), ex.row(op.inputs[1], axis)
    return None if x is None or row is None else [Apply("bias", (axis,), (x, row))]


@reader("Conv2D")
def _convolution(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    """With one stride, and TensorFlow's padding."""
    strides, padding = op.get_attr("strides"), op.get_attr("padding").decode()
    is_plain = op.get_attr("data_format") == b"NHWC" and set(op.get_attr("dilations")) == {1}
    if not is_plain or strides[1] != strides[2] or padding not in ("SAME", "VALID"):
        return None
    image, kernel = op.inputs
    if not ex.has_images or kernel.shape.rank != 4 or None in (*kernel.shape, *image.shape[1:]):
        return None
    x, w = ex.term(image), ex.kernel(kernel)
    if x is None or w is None or not ex.is_image(op.outputs[0]):
        return None
    return [Apply("conv", (image.shape[3] // kernel.shape[2], strides[1], padding, "NONE"), (x, w))]


@reader(*_ZIPS)
def _zip(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    ranks = [source.shape.rank for source in op.inputs]
    if ranks in ([2, 2], [4, 4]) and op.inputs[0].shape.is_compatible_with(op.inputs[1].shape):
        sides = ex.all_terms(op.inputs)
        if sides is not None and len(set(map(ex.size_of, sides))) == 1:
            return [Apply("zip", (_ZIPS[op.type],), sides)]
    along = {"ADD": "bias", "MUL": "gain"}.get(_ZIPS[op.type])
    for x, u in (op.inputs, list(op.inputs)[::-1]):
        if along is None or x.shape.rank not in (2, 4) or not u.shape.rank or x.shape[-1] != u.shape[-1]:
            continue
        axis = x.shape.rank - 1
        whole, row = ex.term(x), ex.row(u, axis)
        if whole is not None and row is not None:
            return [Apply(along, (axis,), (whole, row))]
    return None


@reader(*_MAPS)
def _map(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    x = ex.term(op.inputs[0])
    return None if x is None else [Apply("map", (_MAPS[op.type],), (x,))]


@reader("AddN")
def _sum(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    parts = ex.all_terms(op.inputs)
    if parts is None or len(parts) < 2 or len(set(map(ex.size_of, parts))) > 1:
        return None
    return [reduce(lambda total, part: Apply("zip", ("ADD",), (total, part)), parts)]


@reader("ConcatV2")
def _joint(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    axis, parts = _axis(op.inputs[-1], op.outputs[0]), ex.all_terms(list(op.inputs)[:-1])
    if axis is None or parts is None or len(parts) < 2:
        return None
    return [reduce(lambda whole, part: Apply("concat", (axis,), (whole, part)), parts)]


@reader("Split")
def _equal_parts(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    axis = _axis(op.inputs[0], op.inputs[1])
    size = None if axis is None else op.inputs[1].shape[axis]
    count = len(op.outputs)
    return None if size is None else _parts(ex, op.inputs[1], axis or 0, [size // count] * count)


@reader("SplitV")
def _given_parts(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    axis, sizes = _axis(op.inputs[2], op.inputs[0]), tf_private.constant_value(op.inputs[1])
    if axis is None or sizes is None or op.inputs[0].shape[axis] is None:
        return None
    if (np.asarray(sizes) < 0).any():
        return None
    return _parts(ex, op.inputs[0], axis, [int(size) for size in sizes])


def _parts(ex: Extraction, tensor: tf.Tensor, axis: int, sizes: list[int]) -> list[Term] | None:
    rest = ex.term(tensor)
    if rest is None or min(sizes) < 1 or len(sizes) < 2:
        return None
    found: list[Term] = []
    for size in sizes[:-1]:
        found.append(Apply("first", (axis, size), (rest,)))
        rest = Apply("rest", (axis, size), (rest,))
    return [*found, rest]


@reader("Transpose")
def _transpose(ex: Extraction, op: tf.Operation) -> list[Term] | None:
    order, x = tf_private.constant_value(op.inputs[1]), ex.term(op.inputs[0])
    if op.inputs[0].shape.rank != 2 or x is None or order is None or list(order) != [1, 0]:
        return None
    return [Apply("transpose", (), (x,))]


def _axis(tensor: tf.Tensor, of: tf.Tensor) -> int | None:
    """The axis that a tensor says, where it is a constant."""
    value, rank = tf_private.constant_value(tensor), of.shape.rank
    return None if value is None or rank is None else int(value) % rank
