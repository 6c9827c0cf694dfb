"""Makes a block's graph cheaper: chains of elementwise operations become one kernel, products with a captured matrix
read it packed. What the operations compute stays the same, to rounding."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from recgraph import native, tf_private
from recgraph.batch import plan
from recgraph.batch.expressions import Expression, Pieces, part, repeated, width_of

# A broadcast or a split in the middle of a row becomes an instruction for each part: not for many, or long ones.
_MAX_PIECES = 8
_MAX_LONG_PIECES = 128
_LONG = 16
# Matrices smaller than this are multiplied by TensorFlow.
_SMALLEST_PACKED = 64

Translator: TypeAlias = Callable[["_Site"], "list[Pieces] | None"]
_TRANSLATORS: dict[str, Translator] = {}
_FREE = {"Identity", "StopGradient", "PreventGradient", "Reshape", "ExpandDims", "Squeeze"}
_UNARY = {
    **{
        name: name for name in ("Neg", "Abs", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Exp", "Tanh", "Sigmoid", "Relu")
    },
    "Inv": "Reciprocal",
}
_BINARY = {
    **{name: name for name in ("Add", "Sub", "Mul", "Div", "SquaredDifference", "TanhGrad", "SigmoidGrad")},
    **{"AddV2": "Add", "BiasAdd": "Add", "RealDiv": "Div", "Maximum": "Max", "Minimum": "Min"},
}


@dataclasses.dataclass
class Captures:
    """Captured tensors that a block's function has as inputs: (slot, form) and the placeholder of each."""

    forms: list[tuple[int, int]]
    placeholders: list[tf.Tensor]


@dataclasses.dataclass
class _Site:
    """An operation on its way into an expression."""

    op: tf.Operation
    expression: Expression
    values: list[Pieces]  # of the inputs that are floats

    def translate(self) -> list[Pieces] | None:
        """The values of its outputs, or None if it cannot be part of an expression."""
        translator = _TRANSLATORS.get(self.op.type)
        return None if translator is None else translator(self)


def _inner(tensor: tf.Tensor) -> list[int] | None:
    """The shape of one row, where it is known."""
    shape = tensor.shape
    if shape.rank is None or shape.rank == 0 or not shape[1:].is_fully_defined():
        return None
    return [int(dim) for dim in shape[1:]]


def _size(shape: Iterable[int]) -> int:
    return int(np.prod(list(shape), dtype=np.int64))


class Fusion:
    """Rewrites one block's graph, or leaves it as it is where nothing becomes cheaper.

    Attributes:
        graph: the new graph, or the block's own.
        operations: those of it that the outputs need.
        inputs: its placeholders for the values that the block reads.
        captures: its captured tensors.
        outputs: the block's outputs.
    """

    def __init__(
        self,
        inputs: Sequence[tf.Tensor],
        captures: dict[int, tf.Tensor],
        outputs: Sequence[tf.Tensor],
        with_rows: Iterable[tf.Tensor],
        name: str,
    ) -> None:
        """Args: placeholders, captured tensors by slot, outputs, and the tensors whose first dimension is the rows."""
        self.captures = Captures([], [])
        self._originals = captures
        self._slots = {tensor.ref(): slot for slot, tensor in captures.items()}
        self._leading = {tensor.ref() for tensor in with_rows}
        self._operations = _reachable(outputs)
        self._row_inputs = {tensor.ref() for tensor in inputs}
        self._widths: dict[Any, int] = {}
        self._dependent: set[Any] = set()
        self._level: dict[tf.Operation, int] = {}
        self._members: dict[int, list[tf.Operation]] = {}
        self._fusable: set[tf.Operation] = set()
        self._made: dict[Any, tf.Tensor] = {}
        self._given: dict[tuple[int, int], tf.Tensor] = {}
        for op in self._operations:
            self._analyse(op)
        self._fused = {
            level for level, members in self._members.items() if sum(op.type not in _FREE for op in members) > 1
        }
        if outputs and not self._fused and not any(map(self._is_packed, self._operations)):
            self._leave(list(inputs), outputs)
        else:
            self._rewrite(inputs, outputs, name)

    def _leave(self, inputs: list[tf.Tensor], outputs: Sequence[tf.Tensor]) -> None:
        """Takes the graph as it is."""
        self.graph, self.inputs = outputs[0].graph, inputs
        needed = set(self._operations)
        for slot, tensor in self._originals.items():
            if tensor.op in needed:
                self.captures.forms.append((slot, plan.RAW))
                self.captures.placeholders.append(tensor)
        with self.graph.as_default():
            self.outputs = [tf.identity(tensor) for tensor in outputs]
        self.operations = [*self._operations, *(tensor.op for tensor in self.outputs)]

    def _rewrite(self, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor], name: str) -> None:
        """Writes another graph."""
        self.graph = tf_private.FuncGraph(name)
        with self.graph.as_default():
            for tensor in inputs:
                self._made[tensor.ref()] = tf_private.placeholder(tf.TensorSpec(tensor.shape, tensor.dtype))
            self.inputs = [self._made[tensor.ref()] for tensor in inputs]
            self._emit(outputs)
            self.outputs = [tf.identity(self._tensor(tensor)) for tensor in outputs]
        self.operations = self.graph.get_operations()

    # What is known of a tensor.

    def _width(self, tensor: tf.Tensor) -> int | None:
        """Floats that each row has of a tensor, where that is known."""
        if tensor.dtype != tf.float32 or tensor.ref() not in self._dependent:
            return None
        if tensor.ref() in self._widths:
            return self._widths[tensor.ref()]
        inner = _inner(tensor)
        return _size(inner) if tensor.ref() in self._leading and inner is not None else None

    def _analyse(self, op: tf.Operation) -> None:
        """Which outputs depend on rows, how wide they are, and at which level the operation runs."""
        if (
            any(tensor.ref() in self._dependent for tensor in op.inputs)
            or op.outputs
            and (op.outputs[0].ref() in self._row_inputs)
        ):
            self._dependent.update(tensor.ref() for tensor in op.outputs)
        expression = Expression()
        values = self._values(op, expression, {})
        translated = None if values is None else _Site(op, expression, values).translate()
        before = [tensor.op for tensor in op.inputs]
        if translated is not None:
            for tensor, value in zip(op.outputs, translated, strict=True):
                self._widths[tensor.ref()] = width_of(value)
            levels = [self._level[source] + (source not in self._fusable) for source in before]
            self._level[op] = max(levels, default=0)
            self._members.setdefault(self._level[op], []).append(op)
            self._fusable.add(op)
            return
        self._level[op] = max((self._level[source] for source in before), default=0)
        if op.type == "MatMul":
            width, shape = self._width(op.inputs[0]), op.outputs[0].shape
            inner = op.inputs[0].shape[1]
            if width is not None and inner and shape[1] and op.inputs[1].ref() not in self._dependent:
                self._widths[op.outputs[0].ref()] = width // inner * shape[1]

    def _values(self, op: tf.Operation, expression: Expression, known: dict[Any, Pieces]) -> list[Pieces] | None:
        """The inputs of an operation as values of an expression, or None if they cannot be."""
        if op.type not in _TRANSLATORS or not op.outputs or any(t.dtype != tf.float32 for t in op.outputs):
            return None
        if not any(tensor.ref() in self._dependent for tensor in op.inputs):
            return None
        values = []
        for tensor in op.inputs:
            if tensor.dtype != tf.float32:
                continue
            if tensor.ref() not in known:
                value = self._input(tensor, expression)
                if value is None:
                    return None
                known[tensor.ref()] = value
            values.append(known[tensor.ref()])
        return values

    def _input(self, tensor: tf.Tensor, expression: Expression) -> Pieces | None:
        if tensor.ref() in self._dependent:
            width = self._width(tensor)
            return None if not width else expression.input(width, shared=False)
        if not tensor.shape.is_fully_defined() or 0 in tensor.shape:
            return None
        return expression.input(_size(tensor.shape), shared=True)

    # Writing the new graph.

    def _emit(self, outputs: Sequence[tf.Tensor]) -> None:
        levels = sorted({*self._level.values()})
        inside = {op: level for level in self._fused for op in self._members[level]}
        self._kept = {op for op in self._operations if op not in inside}
        wanted = self._wanted(inside, outputs)
        for level in levels:
            if level in self._fused:
                self._emit_expression(self._members[level], wanted)
            for op in self._operations:
                if op in self._kept and self._level[op] == level and any(t.ref() in wanted for t in op.outputs):
                    self._copy(op)

    def _wanted(self, inside: dict[tf.Operation, int], outputs: Sequence[tf.Tensor]) -> set[Any]:
        """The tensors that must exist: outputs, and what an operation reads from outside of its expression."""
        wanted = {tensor.ref() for tensor in outputs}
        needed = set(wanted)
        for op in reversed(self._operations):
            if not any(tensor.ref() in needed for tensor in op.outputs):
                continue
            for tensor in op.inputs:
                if op in inside and tensor.dtype != tf.float32:
                    continue  # shapes and axes are part of the code
                needed.add(tensor.ref())
                if op not in inside or inside.get(tensor.op) != inside[op]:
                    wanted.add(tensor.ref())
        return wanted

    def _emit_expression(self, members: list[tf.Operation], wanted: set[Any]) -> None:
        """One kernel for all operations of a level."""
        expression = Expression()
        known: dict[Any, Pieces] = {}
        produced = {tensor.ref() for op in members for tensor in op.outputs}
        for op in members:
            values = self._values(op, expression, known)
            assert values is not None
            made = _Site(op, expression, values).translate()
            assert made is not None
            known.update({tensor.ref(): value for tensor, value in zip(op.outputs, made, strict=True)})
        inputs = {value[0].array: ref for ref, value in known.items() if ref not in produced}
        aliases: dict[Any, list[tf.Tensor]] = {}
        for tensor in (tensor for op in members for tensor in op.outputs if tensor.ref() in wanted):
            aliases.setdefault(known[tensor.ref()], []).append(tensor)
        computed = []
        for value, tensors in aliases.items():
            array = value[0].array
            if len(value) == 1 and array in inputs and not array.shared and value[0].width == array.width:
                self._alias(self._tensor(inputs[array].deref()), tensors)
            elif all(piece.array in inputs and not piece.array.shared for piece in value):
                self._copy(tensors[0].op)  # nothing is computed: a row program reads the parts where they lie
                self._alias(self._tensor(tensors[0]), tensors[1:])
            else:
                expression.output(value)
                computed.append(tensors)
        if not computed:
            return
        shapes = [tf.TensorShape([None, *(_inner(tensors[0]) or ())]) for tensors in computed]
        results = native.ops().recgraph_expression(
            inputs=[self._tensor(ref.deref()) for ref in inputs.values()],
            code=expression.encode(),
            output_shapes=shapes,
            M=len(shapes),
        )
        for tensors, result in zip(computed, results, strict=True):
            self._made[tensors[0].ref()] = result
            self._alias(result, tensors[1:])

    def _alias(self, tensor: tf.Tensor, others: Sequence[tf.Tensor]) -> None:
        """Returns the same numbers under other shapes."""
        for other in others:
            inner = _inner(other)
            assert inner is not None
            same = _inner(tensor) == inner
            self._made[other.ref()] = tensor if same else tf.reshape(tensor, [-1, *inner])

    def _copy(self, op: tf.Operation) -> None:
        if op.outputs and op.outputs[0].ref() in self._made:
            return
        if op.outputs and op.outputs[0].ref() in self._slots:
            slot = self._slots[op.outputs[0].ref()]
            self._made[op.outputs[0].ref()] = self._capture(slot, plan.RAW, op.outputs[0].dtype, op.outputs[0].shape)
            return
        if self._is_packed(op):
            self._pack(op)
            return
        inputs = [self._tensor(tensor) for tensor in op.inputs]
        copied = tf_private.add_operation(op.type, inputs, dict(op.node_def.attr), op.name)
        for tensor, output in zip(op.outputs, copied.outputs, strict=True):
            self._made[tensor.ref()] = output

    def _tensor(self, tensor: tf.Tensor) -> tf.Tensor:
        if tensor.ref() not in self._made:
            self._copy(tensor.op)
        return self._made[tensor.ref()]

    def _capture(self, slot: int, form: int, dtype: tf.DType, shape: tf.TensorShape) -> tf.Tensor:
        if (slot, form) not in self._given:
            self._given[slot, form] = tf_private.placeholder(tf.TensorSpec(shape, dtype))
            if dtype == tf.resource:
                tf_private.copy_handle_data(self._originals[slot], self._given[slot, form])
            self.captures.forms.append((slot, form))
            self.captures.placeholders.append(self._given[slot, form])
        return self._given[slot, form]

    def _is_packed(self, op: tf.Operation) -> bool:
        """Whether an operation multiplies rows by a captured matrix that is read in its packed form."""
        if op.type != "MatMul" or op.get_attr("transpose_a"):
            return False
        rows, matrix = op.inputs
        if matrix.ref() not in self._slots or matrix.dtype != tf.float32 or rows.ref() not in self._dependent:
            return False
        return bool(matrix.shape.is_fully_defined()) and _size(matrix.shape) >= _SMALLEST_PACKED

    def _pack(self, op: tf.Operation) -> None:
        """Adds such a product."""
        rows, matrix = op.inputs
        transposed = op.get_attr("transpose_b")
        inner, width = matrix.shape[::-1] if transposed else matrix.shape
        form = plan.PACKED_TRANSPOSED if transposed else plan.PACKED
        packed = self._capture(self._slots[matrix.ref()], form, tf.float32, tf.TensorShape([None]))
        self._made[op.outputs[0].ref()] = native.ops().recgraph_packed_product(
            self._tensor(rows), packed, inner=inner, width=width
        )


def _reachable(outputs: Sequence[tf.Tensor]) -> list[tf.Operation]:
    """What the outputs depend on, in the order in which it was made."""
    found: set[tf.Operation] = set()
    stack = [tensor.op for tensor in outputs]
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack.extend(tensor.op for tensor in op.inputs)
            stack.extend(op.control_inputs)
    return [op for op in outputs[0].graph.get_operations() if op in found] if outputs else []


def _translator(*types: str) -> Callable[[Translator], Translator]:
    def enter(translator: Translator) -> Translator:
        _TRANSLATORS.update((name, translator) for name in types)
        return translator

    return enter


@_translator(*_FREE)
def _rearranged(site: _Site) -> list[Pieces] | None:
    return None if _inner(site.op.outputs[0]) is None else site.values[:1]


@_translator(*_UNARY)
def _unary(site: _Site) -> list[Pieces]:
    return [site.expression.apply(_UNARY[site.op.type], site.values[0])]


@_translator(*_BINARY, "ReluGrad", "AddN")
def _elementwise(site: _Site) -> list[Pieces] | None:
    shape = _inner(site.op.outputs[0])
    if shape is None:
        return None
    operands: list[Pieces] = []
    for value, tensor in zip(site.values, site.op.inputs, strict=True):
        operand = _broadcast(value, tensor, shape)
        if operand is None or width_of(operand) != width_of((operands or [operand])[0]):
            return None
        operands.append(operand)
    if site.op.type == "AddN":
        total, *others = operands
        for other in others:
            total = site.expression.apply("Add", total, other)
        return [total]
    if site.op.type == "ReluGrad":
        return [site.expression.apply("ReluGrad", operands[1], operands[0])]
    return [site.expression.apply(_BINARY[site.op.type], *operands)]


def _broadcast(value: Pieces, tensor: tf.Tensor, shape: list[int]) -> Pieces | None:
    """A value as wide as rows of `shape`."""
    wide = _size(shape)
    shared = value[0].array.shared if value[0].array.is_input else False
    own = [int(dim) for dim in tensor.shape] if shared else _inner(tensor)
    if own is None:
        return None
    if shared and len(own) == len(shape) + 1:  # its first dimension stands against the rows
        if own[0] != 1:
            return None
        own = own[1:]
    if not shared and own == shape:
        return value
    if not shared and (len(own) != len(shape) or width_of(value) != _size(own)):
        return None
    own = [1] * (len(shape) - len(own)) + own
    if _size(own) == 1:
        return repeated(value, 0, wide)
    if own == shape:
        return value
    # Dimensions from `same` on are alike; of those before, every index is a piece.
    same = len(shape)
    while own[same - 1] == shape[same - 1]:
        same -= 1
    run = _size(shape[same:])
    last = shape[same - 1] if same and run == 1 and own[same - 1] == 1 else 1
    before = same - 1 if last > 1 else same
    if _size(shape[:before]) > (_MAX_LONG_PIECES if max(run, last) >= _LONG else _MAX_PIECES):
        return None
    strides = [0 if dim == 1 else _size(own[i + 1 :]) for i, dim in enumerate(own)]
    pieces: list[Any] = []
    for index in itertools.product(*map(range, shape[:before])):
        offset = sum(i * stride for i, stride in zip(index, strides, strict=False))
        pieces += repeated(value, offset, last) if last > 1 else part(value, offset, run)
    return tuple(pieces)


def _along(tensor: tf.Tensor, value: Pieces, axis: int) -> tuple[int, int] | None:
    """For parts of a row along an axis: how many rows within the row there are, and floats for one step of the axis."""
    inner = _inner(tensor)
    if inner is None or axis < 1 or width_of(value) != _size(inner) or _size(inner[: axis - 1]) > _MAX_PIECES:
        return None
    return _size(inner[: axis - 1]), _size(inner[axis:])


def _section(value: Pieces, tall: int, begin: int, width: int) -> Pieces:
    """Floats from `begin` of each of the `tall` rows within a row."""
    row = width_of(value) // tall
    return tuple(piece for i in range(tall) for piece in part(value, i * row + begin, width))


@_translator("Split", "SplitV", "Unpack")
def _split(site: _Site) -> list[Pieces] | None:
    op = site.op
    if op.type == "Unpack":
        tensor, axis = op.inputs[0], op.get_attr("axis")
    else:
        at = {"Split": 0, "SplitV": 2}[op.type]
        tensor, axis = op.inputs[1 - min(at, 1)], tf.get_static_value(op.inputs[at])
    if axis is None or tensor.shape.rank is None:
        return None
    axis = int(axis) % tensor.shape.rank
    place = _along(tensor, site.values[0], axis)
    if place is None:
        return None
    tall, step = place
    sizes = [1 if op.type == "Unpack" else output.shape[axis] for output in op.outputs]
    if not all(sizes) or sum(sizes) != tensor.shape[axis]:
        return None
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    return [_section(site.values[0], tall, b * step, size * step) for b, size in zip(begins, sizes, strict=True)]


@_translator("Slice")
def _slice(site: _Site) -> list[Pieces] | None:
    tensor, result = site.op.inputs[0], site.op.outputs[0]
    begins = tf.get_static_value(site.op.inputs[1])
    inner, made = _inner(tensor), _inner(result)
    if begins is None or begins[0] != 0 or inner is None or made is None or 0 in made:
        return None
    sizes = tf.get_static_value(site.op.inputs[2])
    if sizes is None or sizes[0] != -1:
        return None
    axes = [i + 1 for i, (dim, kept) in enumerate(zip(inner, made, strict=True)) if dim != kept]
    if len(axes) != 1:
        return None
    place = _along(tensor, site.values[0], axes[0])
    if place is None:
        return None
    tall, step = place
    return [_section(site.values[0], tall, int(begins[axes[0]]) * step, made[axes[0] - 1] * step)]


@_translator("ConcatV2", "Pack")
def _concat(site: _Site) -> list[Pieces] | None:
    op = site.op
    result = op.outputs[0]
    tensors = [tensor for tensor in op.inputs if tensor.dtype == tf.float32]
    axis = op.get_attr("axis") if op.type == "Pack" else tf.get_static_value(op.inputs[-1])
    inner = _inner(result)
    if axis is None or inner is None or any(_inner(tensor) is None for tensor in tensors):
        return None
    axis = int(axis) % result.shape.rank
    if axis < 1 or _size(inner[: axis - 1]) > _MAX_PIECES:
        return None
    tall = _size(inner[: axis - 1])
    if any(value[0].array.shared and value[0].array.is_input for value in site.values):
        return None
    if sum(map(width_of, site.values)) != _size(inner):
        return None
    return [tuple(piece for i in range(tall) for v in site.values for piece in _section_of(v, tall, i))]


def _section_of(value: Pieces, tall: int, i: int) -> Pieces:
    row = width_of(value) // tall
    return part(value, i * row, row)
