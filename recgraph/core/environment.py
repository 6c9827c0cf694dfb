"""The environment of a program: the outer tensors that its bodies capture, each known by one key.

A body refers to an outer tensor through a placeholder of its own; nested branches and loops through further
ones. `EnvironmentMap` knows for every placeholder which outer tensor it stands for. When the program is written
out, each becomes a read of a numbered slot, and is handed from call to call no more (thesis, 5.5, outer
reference: there they are appended to a SubGraph's inputs).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from recgraph import tf_private


class EnvironmentMap:
    """Placeholder -> the outer tensor it stands for, over all graphs of one SubGraph."""

    def __init__(self) -> None:
        self._outer: dict[int, tf.Tensor] = {}
        self._keep: list[tf.Tensor] = []

    def add(self, placeholder: tf.Tensor, outer: tf.Tensor) -> None:
        """Notes that `placeholder` stands for `outer`."""
        if id(placeholder) not in self._outer:
            self._outer[id(placeholder)] = outer
            self._keep.append(placeholder)

    def outer(self, tensor: tf.Tensor) -> tf.Tensor | None:
        """The outer tensor that `tensor` stands for, or None."""
        return self._outer.get(id(tensor))


class Slots:
    """The numbered slots of a program's environment.

    A slot is an outer tensor, or the value that a variable has when the program is called: variables that no
    body writes are read once a call, not once an invocation.
    """

    def __init__(self, written: Iterable[tf.Tensor] = ()) -> None:
        self.tensors: list[tf.Tensor] = []
        self.reads: list[bool] = []
        self._numbers: dict[tuple[int, bool], int] = {}
        self._written = {id(tensor) for tensor in written}

    def number(self, outer: tf.Tensor, read: bool = False) -> int:
        """The slot for `outer`, made at its first use."""
        key = (id(outer), read)
        if key not in self._numbers:
            self._numbers[key] = len(self.tensors)
            self.tensors.append(outer)
            self.reads.append(read)
        return self._numbers[key]

    def may_read_once(self, handle: tf.Tensor) -> bool:
        """Whether the variable behind `handle` keeps its value throughout a call."""
        return id(handle) not in self._written

    def written(self, handle: tf.Tensor) -> bool:
        """Whether some body assigns to the variable behind `handle`."""
        return id(handle) in self._written


def is_differentiable(tensor: Any) -> bool:
    """Whether gradients flow to `tensor`: floating or complex, or the handle of such a variable."""
    dtype = tensor.dtype
    if dtype == tf.resource:
        if isinstance(tensor, tf.TensorSpec):  # of an input: which variable it will be is not known
            return False
        data = tf_private.handle_data(tensor)
        return data is not None and _is_continuous(tf.as_dtype(data.dtype))
    return _is_continuous(dtype)


def _is_continuous(dtype: tf.DType) -> bool:
    return bool(dtype.is_floating or dtype.is_complex)
