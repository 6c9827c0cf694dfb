"""`tf.print`: the text is made in the graph and written after it, so that it keeps its place between other prints."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph.speculate import branches, builtin_calls, calls, containers, residuals
from recgraph.speculate.builtin_calls import Arguments, special
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.values import Residual

_STREAMS: Final = {"stdout": 1, "stderr": 2}


@special(tf.print)
def _print(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    if ev.callbacks:
        if ev.effects:
            raise ev.refuse("order", "tf.print in a function that TensorFlow calls, after something else")
        return builtin_calls.framework(ev, tf.print, arguments, named)
    stream = named.get("output_stream", sys.stderr)
    given = {**named, "output_stream": stream.example if isinstance(stream, Residual) else stream}
    lifted = [_read(containers.lift(ev, a)) for a in arguments]
    if any(map(_is_number, residuals.leaves(lifted))):
        raise ev.refuse("print", "tf.print of a number or string that differs from call to call, as Python writes it")
    with branches.scratch():
        made = calls.native(ev, tf.print, lifted, given)
    target = made.get_attr("output_stream").decode()
    if target not in _STREAMS or "ipykernel" in sys.modules:
        raise ev.refuse("print", f"tf.print to {target}")
    end = made.get_attr("end")
    effect = calls.LateCall(ev.script.name(), ev.script.constant(_write), [_STREAMS[target], _text(made), end], {})
    ev.effects.append(effect)
    return None


def _is_number(value: Any) -> bool:
    """Whether Python would write a value otherwise than TensorFlow writes a tensor of it."""
    return isinstance(value, Residual) and not value.is_array and not isinstance(value.example, np.ndarray | np.generic)


def _text(made: tf.Operation) -> tf.Tensor:
    """What an operation in another graph would print, in this one."""
    captured = {id(inner): outer for outer, inner in made.graph.captures}
    text = made.inputs[0]
    if id(text) in captured:
        return captured[id(text)]
    form = text.op
    if form.type != "StringFormat":
        return tf.constant(tf.get_static_value(text))
    names = ("template", "placeholder", "summarize")
    attributes = {name: form.get_attr(name) for name in names}
    inputs = [captured.get(id(tensor), tensor) for tensor in form.inputs]
    constants = [tf.constant(tf.get_static_value(t)) if t.graph is made.graph else t for t in inputs]
    return tf.raw_ops.StringFormat(inputs=constants, **attributes)


def _read(value: Any) -> Any:
    """A value with its variables read now."""
    if isinstance(value, tf.Variable):
        return value.read_value()
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(map(_read, value))
    return {key: _read(v) for key, v in value.items()} if isinstance(value, dict) else value


def _write(stream: int, text: tf.Tensor, end: bytes) -> None:
    """As the kernel of `PrintV2` does it: past Python's buffers."""
    rest = text.numpy() + end
    while rest:
        rest = rest[os.write(stream, rest) :]
