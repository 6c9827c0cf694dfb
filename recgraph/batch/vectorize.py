"""Operations for one invocation, turned into operations for many: every value gets a leading dimension of rows.

Rules are written for the operations that cells are made of; they give what a person would write by hand. Values that
are the same for all invocations (weights, constants) have no rows, so a product with a weight matrix stays one product.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from recgraph import defects, tf_private
from recgraph.batch import nodes


class NoRule(Exception):
    """An operation has no form for many rows; it is run once for each. Rules raise it, and no other exception."""


class IsJoin(Exception):
    """A concatenation of parts whose length is not known: the engine only notes the parts."""


@dataclasses.dataclass(frozen=True)
class VectorizedRows:
    """A value of a block under construction.

    Attributes:
        tensor: with a leading dimension of rows or, shared, without.
        total: the sum over all rows, where it can be had without the rows; it may be of a wider dtype.
    """

    tensor: tf.Tensor
    has_rows: bool
    total: tf.Tensor | None = None

    @property
    def rank(self) -> int:
        """Of one row's value."""
        rank = self.tensor.shape.rank
        if rank is None:
            raise NoRule("rank unknown")
        return rank - self.has_rows

    @property
    def shape(self) -> tf.TensorShape:
        """Of one row's value."""
        return self.tensor.shape[1:] if self.has_rows else self.tensor.shape

    @property
    def spec(self) -> tf.TensorSpec:
        """Of one row's value."""
        return tf.TensorSpec(self.shape, self.tensor.dtype)

    @property
    def static(self) -> np.ndarray | None:
        """The value, where it is shared and known now."""
        return None if self.has_rows else tf_private.constant_value(self.tensor)


Rule: TypeAlias = Callable[["Site"], Any]
RULES: dict[str, Rule] = {}


@dataclasses.dataclass
class Site:
    """An operation to vectorise: its node and inputs, at least one with rows."""

    node: Any
    inputs: list[VectorizedRows]

    def tensors(self) -> list[tf.Tensor]:
        """The inputs' tensors."""
        return [value.tensor for value in self.inputs]

    @functools.cached_property
    def count(self) -> tf.Tensor:
        """How many rows there are, int32 `[1]`."""
        rows = next(value.tensor for value in self.inputs if value.has_rows)
        return tf.shape(rows)[:1]

    def with_rows(self, value: VectorizedRows) -> tf.Tensor:
        """The value with rows: a shared one is repeated."""
        return value.tensor if value.has_rows else with_rows(value, self.count)

    def attribute(self, name: str) -> Any:
        """An attribute's AttrValue."""
        return nodes.attribute(self.node, name)

    def same(self, tensors: Sequence[tf.Tensor], **changed: Any) -> list[tf.Tensor]:
        """Returns the same operation on other tensors."""
        return copy_operation(self.node, tensors, changed)


def vectorize(node: Any, inputs: list[VectorizedRows]) -> list[VectorizedRows]:
    """The outputs of `node` for many rows.

    Raises:
        NoRule: there is no such form.
        IsJoin: see there.
        Exception: what a rule raises by mistake, if defects are fatal.
    """
    if not any(value.has_rows for value in inputs):
        return [
            VectorizedRows(tensor, False) for tensor in copy_operation(node, [value.tensor for value in inputs], {})
        ]
    rule = RULES.get(node.op)
    if rule is None:
        raise NoRule(f"{node.op} has no batched form")
    try:
        with tf.name_scope(name_of(node)):
            made = rule(Site(node, inputs))
    except (NoRule, IsJoin):
        raise
    except Exception as error:
        raise NoRule(_failed(node, inputs, error)) from error
    return [value if isinstance(value, VectorizedRows) else VectorizedRows(value, True) for value in _listed(made)]


def row_form(node: Any, inputs: list[VectorizedRows]) -> list[VectorizedRows]:
    """The outputs of `node` for a single row, whose values come from elsewhere."""
    row = [VectorizedRows(tf_private.placeholder(value.spec), False) if value.has_rows else value for value in inputs]
    return vectorize(node, row)


def _failed(node: Any, inputs: list[VectorizedRows], error: Exception) -> str:
    """Tells of a rule that has failed, unless the operation fails for a single row, too: then that is the program's.

    Returns:
        Why the operation runs row by row.
    """
    try:
        row_form(node, inputs)
    except Exception:
        return f"{node.op} has no batched form here ({defects.described(error)})"
    return defects.contain(f"the batched form of {node.op}", error, instead="row by row here")


def copy_operation(node: Any, tensors: Sequence[tf.Tensor], changed: dict[str, Any]) -> list[tf.Tensor]:
    """Adds an operation like `node` to the current graph."""
    attributes = {key: value for key, value in node.attr.items() if not key.startswith("_")}
    attributes |= changed
    return list(tf_private.add_operation(node.op, tensors, attributes, name_of(node)).outputs)


def name_of(node: Any) -> str:
    """The operation's name within its function, as errors show it."""
    return str(node.name.split("/", 1)[-1].replace(">", "_").lstrip("_"))


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, list | tuple) else [made]


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enters a rule for operation types."""

    def enter(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return enter


def with_rows(value: VectorizedRows, count: tf.Tensor) -> tf.Tensor:
    """The value with rows: a shared one is repeated."""
    if value.has_rows:
        return value.tensor
    return tf.broadcast_to(value.tensor, tf.concat([count, tf.shape(value.tensor)], 0))


def known(value: VectorizedRows, what: str) -> np.ndarray:
    """The value of an input that must be known now."""
    static = value.static
    if static is None:
        raise NoRule(f"{what} is computed")
    return static


def dims(shape: tf.TensorShape) -> list[int] | None:
    """The dimensions with at most one -1 for an unknown one, or None where that does not say it."""
    if shape.rank is None:
        return None
    found = [-1 if dim is None else dim for dim in shape.as_list()]
    return found if found.count(-1) <= 1 else None


def reshape_rows(tensor: tf.Tensor, shape: Sequence[int] | tf.Tensor, count: tf.Tensor | None = None) -> tf.Tensor:
    """`tensor` with rows of the given shape."""
    if isinstance(shape, tf.Tensor) or -1 in shape:
        lead = tf.shape(tensor)[:1] if count is None else count
        made = tf.reshape(tensor, tf.concat([lead, tf.cast(shape, tf.int32)], 0))
        if not isinstance(shape, tf.Tensor):
            made.set_shape([None, *(None if dim == -1 else dim for dim in shape)])
        return made
    # Where the shape of rows is not known, they may have other sizes: they are not to be cut up otherwise.
    is_known = 0 not in shape and tensor.shape[1:].num_elements() == math.prod(shape)
    return tf.reshape(tensor, [-1 if is_known else tf.shape(tensor)[0], *shape])


def expanded(value: VectorizedRows, rank: int) -> tf.Tensor:
    """The tensor with ones after the rows, so that it broadcasts against values of a higher rank."""
    missing = rank - value.rank
    if not value.has_rows or missing <= 0:
        return value.tensor
    shape = dims(value.shape)
    if shape is None:
        lead = tf.shape(value.tensor)
        return tf.reshape(value.tensor, tf.concat([lead[:1], [1] * missing, lead[1:]], 0))
    return reshape_rows(value.tensor, [1] * missing + shape)


def aligned(values: Sequence[VectorizedRows]) -> list[tf.Tensor]:
    """The tensors as they broadcast against each other."""
    rank = max(value.rank for value in values)
    return [expanded(value, rank) for value in values]


def merged(tensor: tf.Tensor) -> tf.Tensor:
    """`[rows, n, ...]` as `[rows * n, ...]`."""
    inner = tensor.shape[2:]
    if inner.is_fully_defined() and 0 not in inner:
        return tf.reshape(tensor, [-1, *inner])
    shape = tf.shape(tensor)
    return tf.reshape(tensor, tf.concat([shape[:1] * shape[1], shape[2:]], 0))


def parted(tensor: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """`[rows * n, ...]` as `[rows, n, ...]`, both dimensions those of `like`."""
    made = tf.reshape(tensor, tf.concat([tf.shape(like)[:2], tf.shape(tensor)[1:]], 0))
    made.set_shape(like.shape[:2].concatenate(tensor.shape[1:]))
    return made
