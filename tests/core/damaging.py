"""Programs that are changed after they were made, as in a damaged file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import native
from recgraph.core.program import Program

FLOAT = tf.TensorSpec([])


Library = Any


def make(name: str = "f", engine: str = "batched") -> rg.SubGraph:
    """f(n, x) = x if n < 1 else v * f(n - 1, x)."""
    v = tf.Variable(2.0)
    with rg.SubGraph(name, outputs=FLOAT, engine=engine) as f:
        n, x = f.input(tf.int32), f.input(tf.float32)
        f.output(tf.cond(n < 1, lambda: x, lambda: v * f(n - 1, x)))
    return f


def linked(subgraph: rg.SubGraph, gradient: bool = False) -> Program:
    """Its program."""
    return subgraph.program(gradient, subgraph.engine != "parallel")


def changed(program: Program, change: Callable[[Library], None]) -> bytes:
    """Its library, changed."""
    library = tf.compat.v1.GraphDef().library
    library.ParseFromString(program.library)
    change(library)
    return bytes(library.SerializeToString(deterministic=True))


def call(program: Program, library: bytes | None = None, key: str | None = None, **options: Any) -> Any:
    """A raw call f(3, 1.0) of the program, or of a changed one under its right key."""
    library = program.library if library is None else library
    assert program.slots is not None
    attributes = {
        "args": [tf.constant(3), tf.constant(1.0)],
        "captures": program.slots.tensors,
        "reads": program.slots.reads,
        "entry": program.entry,
        "program": library,
        "key": hashlib.sha256(library).hexdigest()[:32] if key is None else key,
        "Tout": [tf.float32],
        "output_shapes": [[]],
        "record": program.contract is not None,
        "engine": "batched" if program.batched else "parallel",
    }
    return native.ops().recgraph_invoke(**{**attributes, **options})


def refusal(work: Callable[[], Any], kind: type[Exception] = tf.errors.OpError) -> str:
    """The text of the error that it ends with."""
    with pytest.raises(kind) as caught:
        work()
    return str(caught.value)
