"""Calls in `tf.vectorized_map`: those of all iterations become one call of `map`.

`tf.vectorized_map` traces one iteration, and asks for each operation what does it for all at once. What it calls
*stacked* has one more leading dimension, a row for each iteration; the rest is the same in all of them.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.core import invoke
from recgraph.errors import ScopeError

_NEXT_STEP = "use tf.map_fn, which runs one iteration after the other"
_NO_SUMS = (
    "SubGraph '{name}': tf.vectorized_map gives no gradients for each iteration by what a body captures: those are "
    "sums over all invocations; take them outside of tf.vectorized_map, of the sum of the results, or " + _NEXT_STEP
)


def _vectorize_call(loop: Any) -> list[Any]:
    """A call of `map` over the rows of all iterations."""
    op, name = loop.op, _name_of(loop.op)
    count = len(op.get_attr("Tin"))
    given = [loop.input(i) for i in range(loop.num_inputs)]
    if any(one.is_stacked for one in given[count:]):
        raise ScopeError(
            f"SubGraph '{name}' cannot be called in tf.vectorized_map: it captures a tensor that differs from "
            "iteration to iteration",
            expected="a SubGraph that receives what differs as an input",
            next_step=f"make it an input, or {_NEXT_STEP}",
        )
    if not count or any(one.t.dtype in (tf.resource, tf.variant) for one in given[:count]):
        raise ScopeError(
            f"SubGraph '{name}' cannot be called in tf.vectorized_map: it has "
            + ("an input of dtype resource or variant, which cannot be split into rows" if count else "no inputs"),
            next_step=_NEXT_STEP,
        )
    rows = bool(op.get_attr("map"))
    tensors, captures = [_rows(loop, i, rows) for i in range(count)], [one.t for one in given[count:]]
    made = invoke.call_of_rows(op, tensors, captures)
    _run_for_no_row(op, range(count))
    return [*_wrapped(loop, made.results, rows, op), tf_private.stacked(made.frame, rows=False)]


def _vectorize_gradient(loop: Any) -> list[Any]:
    """The gradient of the call of `map` that `_vectorize_call` has made, or one for each iteration of the same call."""
    op, name = loop.op, _name_of(loop.op)
    if not loop.input(0).is_stacked:
        raise tf_private.NotVectorized(f"the gradient of SubGraph '{name}' is taken in each iteration")
    sums = len(op.get_attr("Tsums"))
    rows = bool(op.get_attr("map"))
    count = 1 + len(op.get_attr("Tgrads"))
    grads = [_rows(loop, i, rows) for i in range(1, count)]
    primals = []
    for i in range(count, loop.num_inputs):
        dtype = loop.input(i).t.dtype
        is_row = loop.input(i).is_stacked and dtype not in (tf.resource, tf.variant)
        primals.append(_rows(loop, i, rows) if is_row else loop.input(i).t)
    made = invoke.gradient_of_rows(op, loop.input(0).t, grads, primals)
    _run_for_no_row(op, range(1, count))
    text = _NO_SUMS.format(name=name)
    results = _wrapped(loop, made[: len(made) - sums], rows, op)
    refused = [native.ops().recgraph_refuse(_repeated(loop, total), message=text) for total in made[len(made) - sums :]]
    return [*results, *map(tf_private.stacked, refused)]


def _repeated(loop: Any, tensor: tf.Tensor) -> tf.Tensor:
    """The tensor, a time for each iteration."""
    count = tf.reshape(loop.pfor.loop_len_vector, [1])
    return tf.broadcast_to(tensor, tf.concat([count, tf.shape(tensor)], 0))


def _run_for_no_row(op: tf.Operation, inputs: Any) -> None:
    """Lets the call that was traced do nothing: it stays in the graph, which runs all that may have effects.

    One in a function, a branch or a loop stays as it is: the function may be used elsewhere.
    """
    if op.graph is not tf.compat.v1.get_default_graph():
        return
    for i in inputs:
        none = op.inputs[i][:0] if op.get_attr("map") else op.inputs[i][None][:0]
        tf_private.replace_input(op, i, tf.compat.v1.placeholder_with_default(none, None))  # its shape is not looked at
    tf_private.set_attribute(op, "map", tf.compat.v1.AttrValue(b=True))


def _name_of(op: tf.Operation) -> str:
    return str(op.get_attr("entry").decode()).split("#")[0]


def _rows(loop: Any, i: int, rows: bool) -> tf.Tensor:
    """An input of all iterations: a row for each iteration or, of a call of `map`, for each of its rows."""
    loop.stack_inputs([i])
    tensor = loop.input(i).t
    return tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[2:]], 0)) if rows else tensor


def _wrapped(loop: Any, results: list[tf.Tensor], rows: bool, op: tf.Operation) -> list[Any]:
    """Results of all iterations, in which a call of `map` has rows of its own."""
    if rows:
        count = tf.reshape(loop.pfor.loop_len_vector, [1])
        results = [tf.reshape(one, tf.concat([count, [-1], tf.shape(one)[1:]], 0)) for one in results]
    return [tf_private.stacked(one) for one in results]


def register() -> None:
    """Tells TensorFlow."""
    tf_private.register_vectorization("Recgraph>Invoke", _vectorize_call)
    tf_private.register_vectorization("Recgraph>InvokeGradient", _vectorize_gradient)
