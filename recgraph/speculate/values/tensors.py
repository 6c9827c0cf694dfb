"""Tensors of the graph, variables and shapes: what the program does with them is done in the graph.

Of some shapes the graph does not know every dimension: Python sees a number where the graph has none.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe.known import IN_PLACE
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import Presence
from recgraph.speculate.script.symbolic import (
    BoundConstantMethod,
    DynamicValue,
    IterationSpace,
    PartialShape,
    is_tensor_like,
    read_variable,
)
from recgraph.speculate.values import arrays, library_calls, lists, sizes, texts
from recgraph.speculate.values.containers import ConcreteValue
from recgraph.speculate.values.dynamic import Method


def shape_of(ev: Evaluator, tensor: tf.Tensor) -> tf.TensorShape | PartialShape:
    """The shape of a tensor of the graph as Python sees it."""
    if tensor.shape.is_fully_defined():
        return tensor.shape
    if tensor.shape.rank is None:
        raise ev.refuse(Feature.SHAPE, "the program reads the shape of a tensor of unknown rank")
    return PartialShape([_dim(ev, tensor, i, size) for i, size in enumerate(tensor.shape)])


def _dim(ev: Evaluator, tensor: tf.Tensor, index: int, size: int | None) -> int | DynamicValue:
    """A dimension; of a tensor that the script gives to the graph it is known before that runs."""
    if size is not None:
        return size
    fed = ev.heap.input_of(tensor)
    before = None if fed is None else sizes.of_input(ev, fed, index)
    return before or DynamicValue("", tensor=tf.shape(tensor, tf.int64)[index], late=True, limit=1 << 40)


class Shape(Kind):
    """A shape of which the graph does not know every dimension."""

    name = "a shape that differs from call to call"
    of = PartialShape

    def type(self) -> type:
        """What it is in eager execution."""
        return tf.TensorShape

    def truth(self) -> Any:
        """Of one that is known: whatever its dimensions are."""
        return True

    def get(self, name: str) -> Any:
        """Its rank, or its dimensions as a list."""
        if name in ("rank", "ndims"):
            return len(self.it.dims)
        if name == "as_list":
            return BoundConstantMethod(lambda: list(self.it.dims))
        raise self.ev.refuse(Feature.SHAPE, f"{name} of a shape that differs from call to call")

    def item(self, index: Any) -> Any:
        """A dimension, or a part of the shape."""
        found = self.ev.item(self.it.dims, index)
        return PartialShape(found) if isinstance(index, slice) else found

    def members(self) -> list[Any]:
        """Its dimensions."""
        return list(self.it.dims)

    def length(self) -> int:
        """Its rank."""
        return len(self.it.dims)

    def operand(self) -> Any:
        """The shape as Python has it, if it is known before the graph."""
        if not self.it.is_early:
            raise self.ev.refuse(Feature.SHAPE, "a shape is known only after the graph has run")
        return self.ev.in_script(tf.TensorShape, [list(self.it.dims)])


@functools.cache
def _eager_tensor() -> tf.Tensor:
    """One with the attributes of every eager tensor; on import it would settle how many threads TensorFlow has."""
    with tf.init_scope():
        return tf.constant(0.0)


def _only_device() -> str:
    """Where all eager tensors are, if there is one device; else ""."""
    devices = tf.config.list_logical_devices()
    return _eager_tensor().device if len(devices) == 1 else ""


def _on_tensors(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    dtype = next(tf.as_dtype(o.dtype) for o in operands if is_tensor_like(o))
    lifted = [_beside(ev, o, dtype) for o in operands]
    if any(isinstance(o, tf.Variable) for o in lifted[:1]) and function in IN_PLACE:
        raise ev.refuse(Feature.IN_PLACE_VARIABLE, "an in-place operator is applied to a variable")
    return library_calls.build(ev, function, lifted, {})


def _beside(ev: Evaluator, value: Any, dtype: tf.DType) -> Any:
    """An operand of an operator whose other operand is a tensor: numbers take its dtype, as in eager."""
    if isinstance(value, DynamicValue) and isinstance(value.example, np.ndarray | np.generic):
        if dtype == tf.bool and not isinstance(value.example, np.bool_):  # an integer first, on one side alone
            raise ev.refuse(Feature.VALUE, f"a {type(value.example).__name__} beside a tensor of truth values")
        return ev.tensor(value, dtype)
    if isinstance(value, DynamicValue):
        tensor = ev.tensor(value)
        if tensor.dtype == dtype:
            return tensor
        if value.is_array:
            raise ev.refuse(Feature.ARRAY, f"an array of {tensor.dtype.name} beside a tensor of {dtype.name}")
        if tensor.dtype.is_floating and not (dtype.is_floating or dtype.is_complex):
            raise ev.refuse(Feature.RAISES, "a float is combined with an integer tensor")
        if tensor.dtype == tf.bool:
            _check_truths(ev, dtype)
        if tensor.dtype == tf.int64 and not dtype.is_integer:  # eager execution makes a float64 of it first
            tensor = tf.cast(tensor, tf.float64)
        return tf.cast(tensor, dtype)
    if type(value) is bool:
        _check_truths(ev, dtype)
    return ev.lift(value)


# What Python's truth values become beside a tensor.
_BESIDE_TRUTHS = (tf.bool, tf.int32, tf.int64, tf.uint64, tf.float16, tf.float32, tf.float64)


def _check_truths(ev: Evaluator, dtype: tf.DType) -> None:
    """Checks that eager execution takes Python's truth values beside a tensor."""
    if dtype not in _BESIDE_TRUTHS:
        raise ev.refuse(Feature.RAISES, f"a truth value is combined with a tensor of {dtype.name}")


class InGraph(Kind):
    """What has its value in the graph: a tensor, what is made of tensors, a variable."""

    precedence = 2

    def item(self, index: Any) -> Any:
        """A slice of the value that it has now."""
        ev, tensor = self.ev, self.it
        if ev.heap.name_of(index) is not None:
            index = ev.lift(index)
        parts = index if isinstance(index, tuple) else (index,)
        return library_calls.build(ev, symbolic.get_item, [tensor, tuple(_part(ev, p) for p in parts)], {})

    def contains(self, member: Any) -> Any:
        """Is refused."""
        raise self.ev.refuse(Feature.IN, "`in` is used with a tensor")

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """In the graph, but for the text that `%` makes of it."""
        if function in (operator.mod, operator.imod) and texts.is_text(operands[0]):
            return self.ev.python(function, operands)
        return _on_tensors(self.ev, function, operands)


class Composite(InGraph):
    """What is made of tensors of the graph: slices, ragged and sparse tensors."""

    name = "a tensor"
    of = (tf.IndexedSlices, tf.SparseTensor)

    def type(self) -> type:
        """Its own, which it is in eager execution."""
        return type(self.it)

    def call(self, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Raises in eager execution, too."""
        raise self.ev.refuse(Feature.RAISES, "a tensor is called")

    def get(self, name: str) -> Any:
        """What it has. What only eager tensors have is made after the graph."""
        if name in ("numpy", "tolist", "__str__", "__repr__", "__format__"):
            return Method(self.it, name)
        if name == "device":
            if isinstance(self.it, tf.Tensor) and (only := _only_device()):
                return only
            raise self.ev.refuse(Feature.DEVICE, "the program reads the device of a tensor")
        return self.ev.attribute(self.it, name)

    def has(self, name: str) -> bool:
        """As eager execution has."""
        return hasattr(self.type(), name)

    def put(self, name: str, value: Any) -> None:
        """Is refused."""
        raise self.ev.refuse(Feature.ATTRIBUTE, "an attribute of a tensor or number is assigned")

    def members(self) -> list[Any]:
        """Are refused."""
        raise self.ev.refuse(Feature.ITERATOR, f"a loop iterates over a {type(self.it).__name__}")

    def length(self) -> Any:
        """As Python finds it."""
        return self.ev.python(len, [self.it])


class Ragged(Composite):
    """A ragged tensor, whose rows a loop goes through as it goes through those of a tensor."""

    of = tf.RaggedTensor

    def members(self) -> list[Any]:
        """As many as the static shape of its splits says."""
        if (count := self._known_count()) is None:
            raise self.ev.refuse(Feature.TRIPS, "a loop iterates over a ragged tensor of unknown length")
        return [self.it[i] for i in range(count)]

    def rows(self, varies: bool) -> IterationSpace | None:
        """Where their number is not known, or loops are not unrolled."""
        ragged, count = self.it, self._known_count()
        if count is None:
            return IterationSpace(ragged.nrows(tf.int64), lambda i: ragged[i])
        if self.ev.optimizations.unrolling or count < 2:
            return None
        return IterationSpace(tf.constant(count, tf.int64), lambda i: ragged[i], True, True)

    def length(self) -> Any:
        """Raises in eager execution, too."""
        raise self.ev.refuse(Feature.RAISES, "a ragged tensor has no len()")

    def _known_count(self) -> int | None:
        splits = self.it.row_splits.shape[0]
        return None if splits is None else int(splits) - 1


class Tensor(Composite):
    """A tensor of the graph."""

    of = tf.Tensor

    def truth(self) -> Any:
        """Of a tensor with one element."""
        if self.it.shape.num_elements() not in (None, 1):
            raise self.ev.refuse(Feature.RAISES, "a tensor with several elements is used as a condition")
        truth = tf.not_equal(self.it, 0) if self.it.dtype.is_complex else tf.cast(self.it, tf.bool)  # not its real part
        return tf.reshape(truth, [])

    def type(self) -> type:
        """Returns what an eager tensor has, which it is in eager execution."""
        eager: type = self.ev.heap.eager_tensor_type
        return eager

    def get(self, name: str) -> Any:
        """What eager tensors have."""
        if name == "numpy":
            return BoundConstantMethod(lambda: arrays.of(self.it))
        if name == "shape":
            return shape_of(self.ev, self.it)
        if name == "get_shape":
            return BoundConstantMethod(lambda: shape_of(self.ev, self.it))
        if name == "__class__":
            return self.type()
        if hasattr(_eager_tensor(), name) or name == "tolist":
            return super().get(name)
        raise self.ev.refuse(Feature.RAISES, f"an eager tensor has no {name}")

    def has(self, name: str) -> bool:
        """As eager tensors have, and what the program has given the tensor besides; that it has nothing is assumed."""
        ev, fed = self.ev, self.ev.heap.input_of(self.it)
        if super().has(name):
            return True
        has_mask = name == tf_private.KERAS_MASK and tf_private.keras_mask(self.it) is not None
        if has_mask or (fed is not None and hasattr(fed.example, name)):
            raise ev.refuse(Feature.ATTRIBUTE, f"a tensor was given the attribute {name}")
        if fed is not None:
            ev.script.assume(f"not hasattr({fed.name}, {name!r})", ev.noted(Presence, f"no .{name}"))
        return False

    def members(self) -> list[Any]:
        """As many as its static shape says."""
        if self.it.shape.rank in (None, 0) or self.it.shape[0] is None:
            raise self.ev.refuse(Feature.TRIPS, "a loop iterates over a tensor of unknown length")
        return tf.unstack(self.it) if self.it.shape[0] else []

    def pieces(self) -> list[Any]:
        """Its rows as a run, if only the graph knows how many there are."""
        is_run = self.it.shape.rank and self.it.shape[0] is None
        return [lists.of_tensor(self.it)] if is_run else self.members()

    def rows(self, varies: bool) -> IterationSpace | None:
        """Where its length is not known, or loops are not unrolled."""
        tensor = self.it
        if tensor.shape.rank == 0:
            return None
        if tensor.shape.rank is None or tensor.shape[0] is None:
            return IterationSpace(tf.shape(tensor, tf.int64)[0], lambda i: tensor[i])
        if self.ev.optimizations.unrolling or tensor.shape[0] < 2:
            return None
        return IterationSpace(tf.constant(tensor.shape[0], tf.int64), lambda i: tensor[i], True, True)

    def length(self) -> Any:
        """Its first dimension."""
        if self.it.shape.rank == 0:
            raise self.ev.refuse(Feature.RAISES, "len() of a scalar tensor")
        shape = shape_of(self.ev, self.it)
        return shape.dims[0] if isinstance(shape, PartialShape) else int(shape[0])

    def tensor(self, dtype: tf.DType | None = None) -> tf.Tensor:
        """Itself."""
        tensor: tf.Tensor = self.it
        return tensor if dtype is None else tf.cast(tensor, dtype)


class Variable(InGraph, ConcreteValue):
    """A variable, TensorFlow's or Keras's: it is what it was in every call, and its value is in the graph."""

    name = "a variable"
    of = (tf.Variable, keras.Variable)

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Variables of both libraries."""
        return isinstance(value, cls.of)

    def truth(self) -> Any:
        """Of its value now."""
        return self.ev.truth(read_variable(self.it))

    def members(self) -> list[Any]:
        """Of its value now. One of Keras's cannot be gone through."""
        return self.ev.members(self.it.read_value()) if isinstance(self.it, tf.Variable) else super().members()


_NO_INDEX = (bool, float, complex, str, np.inexact, np.bool_)


def _part(ev: Evaluator, part: Any) -> Any:
    if isinstance(part, slice):
        return slice(*(_part(ev, p) for p in (part.start, part.stop, part.step)))
    if isinstance(part, DynamicValue):
        if issubclass(ev.type_of(part), _NO_INDEX):
            raise ev.refuse(Feature.RAISES, f"a tensor is indexed by a {ev.type_of(part).__name__}")
        return ev.tensor(part, tf.int64)
    return part
