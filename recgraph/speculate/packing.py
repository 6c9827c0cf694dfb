"""TensorFlow's functions on lists of which only the graph knows the length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph.speculate import builtin_calls, grown, merging
from recgraph.speculate.builtin_calls import Arguments, special
from recgraph.speculate.evaluator import Evaluator

# What makes a tensor of a list that it is given first, and looks at that.
_PACKING: tuple[Callable[..., Any], ...] = (
    tf.argmax, tf.argmin, tf.cast, tf.identity, tf.reduce_all, tf.reduce_any, tf.reduce_logsumexp, tf.reduce_max,
    tf.reduce_mean, tf.reduce_min, tf.reduce_prod, tf.reduce_sum, tf.reshape, tf.reverse, tf.shape, tf.size, tf.sort,
    tf.stop_gradient, tf.transpose, tf.math.reduce_std, tf.math.reduce_variance, tf.cumsum, tf.math.cumprod, tf.square,
)  # fmt: skip


def _members(ev: Evaluator, arguments: Arguments, named: dict[str, Any], name: str) -> Any:
    """The first argument of a call, by its place or name, if it is a list with runs."""
    given = arguments[0] if arguments else named.get(name)
    return grown.inside(ev, given)


def _packing(function: Callable[..., Any]) -> None:
    @special(function)
    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        if arguments and (members := grown.inside(ev, arguments[0])) is not None:
            arguments = [grown.packed(ev, members), *arguments[1:]]
        return builtin_calls.framework(ev, function, arguments, named)


for _function in _PACKING:
    _packing(_function)


def _bound(names: tuple[str, ...], arguments: Arguments, named: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip(names, arguments, strict=False)), **named}


@special(tf.stack)
def _stack(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    members = _members(ev, arguments, named, "values")
    if members is None:
        return builtin_calls.framework(ev, tf.stack, arguments, named)
    axis = _bound(("values", "axis"), arguments, named).get("axis", 0)
    rows = grown.packed(ev, members)
    rank = rows.shape.rank
    if not isinstance(axis, int) or rank is None or not -rank <= axis < rank:
        raise grown.refuse(ev, "a list is stacked along an axis that is not there")
    return _moved(rows, axis % rank)


def _moved(rows: tf.Tensor, axis: int) -> tf.Tensor:
    """The first axis at another place."""
    others = range(1, rows.shape.rank)
    return rows if axis == 0 else tf.transpose(rows, [*others[:axis], 0, *others[axis:]])


@special(tf.concat)
def _concat(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    members = _members(ev, arguments, named, "values")
    if members is None:
        return builtin_calls.framework(ev, tf.concat, arguments, named)
    axis, hole = _bound(("values", "axis"), arguments, named).get("axis"), grown.whole(ev, members).element
    rank = hole.shape.rank if isinstance(hole, merging.Hole) else None
    if not isinstance(axis, int) or not rank or not -rank <= axis < rank:
        raise grown.refuse(ev, "a list is concatenated along an axis that is not there")
    axis %= rank
    if axis == 0:
        return grown.concatenated(ev, members)
    if hole.shape[axis] is None:
        raise grown.refuse(ev, "tensors of different sizes are joined")
    rows = grown.packed(ev, members)
    sizes = tf.shape(rows)
    shape = tf.concat([sizes[1 : 1 + axis], sizes[:1] * sizes[1 + axis : 2 + axis], sizes[2 + axis :]], 0)
    made = tf.reshape(_moved(rows, axis), shape)
    made.set_shape([None if i == axis else size for i, size in enumerate(hole.shape)])
    return made


@special(tf.add_n)
def _add_n(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    members = _members(ev, arguments, named, "inputs")
    if members is None:
        return builtin_calls.framework(ev, tf.add_n, arguments, named)
    return tf.reduce_sum(grown.packed(ev, members), 0)
