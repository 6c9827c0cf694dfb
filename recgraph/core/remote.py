"""Eager calls that run in another process: `with tf.device("/job:worker/task:1")`, on a server with our operations.

TensorFlow copies arguments and results. A program goes to a server once, before its first call there. The frame of a
call stays where the call ran, and so does its gradient. A variable cannot be copied: it has to be there already.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.core import origin
from recgraph.errors import NativeLibraryError, ScopeError

# The connection, and what it has sent to each server: keys of programs.
_sent: tuple[Any, dict[str, set[str]]] = (None, {})
_MISSING = (tf.errors.NotFoundError, tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)


def server_of(inputs: Sequence[tf.Tensor]) -> str:
    """The task that a call with these inputs runs on, where it is another process; "" where it is this one.

    Raises:
        ScopeError: a variable lives elsewhere.
    """
    if tf_private.connection() is None:
        return ""
    here = tf_private.remote_task(tf_private.scope_device())
    for tensor in inputs:
        if tensor.dtype == tf.resource and tf_private.remote_task(tensor.device) != here:
            raise ScopeError(
                "a call cannot use a variable of another process",
                where=origin.here(),
                found=f"a variable on {tensor.device}, for a call on {here or 'this process'}",
                expected="all variables of a SubGraph where its calls run",
                next_step="make the variable in the same `with tf.device(...)`, or pass its value as an input",
            )
    return here


@contextlib.contextmanager
def on(server: str) -> Iterator[None]:
    """A context in which eager operations run on a server's processor."""
    with tf.device(f"{server}/device:CPU:0"):
        yield


def send(server: str, key: str, library: bytes) -> None:
    """Makes a program known to a server.

    Raises:
        NativeLibraryError: it has not loaded our operations.
    """
    global _sent
    connection = tf_private.connection()
    if _sent[0] is not connection:  # another one, to servers that may have been started again
        _sent = connection, {}
    known = _sent[1]
    with tf_private.eagerly(), on(server):
        if server not in known:
            _require_operations(server)
            known[server] = set()
        if key not in known[server]:
            native.ops().recgraph_register_program(key, library)
            known[server].add(key)


def _require_operations(server: str) -> None:
    try:
        native.ops().recgraph_count_programs().numpy()
    except _MISSING as cause:
        raise NativeLibraryError(
            f"the server {server} has not loaded recgraph's operations",
            found=cause.message.split("\n")[0],
            next_step="start it by `recgraph worker`, or import recgraph in the program that starts it",
        ) from cause


def run(
    server: str, made: dict[Any, Any], key: Any, given: dict[str, Any], attributes: tuple[Any, ...]
) -> list[tf.Tensor]:
    """Runs a call or its gradient on a server; tapes are not told.

    In a function: TensorFlow loses empty lists among the attributes of a single operation on its way.

    Args:
        server: where.
        made: keeps what runs it, by `key`.
        key: what else than the types of the inputs the attributes depend on.
        given: the inputs, by name.
        attributes: of the operation.
    """
    flat = tf.nest.flatten(given)
    key = key, *(tensor.dtype for tensor in flat)
    if key not in made:
        made[key] = tf_private.fast_call(_function(given, dict(zip(attributes[::2], attributes[1::2], strict=True))))
    with tf_private.without_recording(), on(server):
        outputs: list[tf.Tensor] = made[key](flat)
    return outputs


def _function(given: dict[str, Any], attributes: dict[str, Any]) -> Any:
    """A concrete function that consists of the operation."""
    ops = native.ops()
    operation = ops.recgraph_invoke_gradient if "frame" in given else ops.recgraph_invoke
    attributes = {name: value for name, value in attributes.items() if name not in _OF_INPUTS}

    def call(*flat: tf.Tensor) -> list[tf.Tensor]:
        return tf.nest.flatten(operation(**tf.nest.pack_sequence_as(given, flat), **attributes))

    # Of any shape, so that one will do for all calls.
    specs = [
        tf.TensorSpec([] if t.dtype in (tf.resource, tf.variant) else None, t.dtype) for t in tf.nest.flatten(given)
    ]
    with tf_private.without_recording(), tf.device(None):
        return tf.function(call, autograph=False).get_concrete_function(*specs)


# What follows from the inputs.
_OF_INPUTS = frozenset({"Tin", "Tcaptures", "Tgrads", "Tprimals"})
