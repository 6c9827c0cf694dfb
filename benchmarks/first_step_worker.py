"""A worker of `recgraph bench first_step`: what each part of a model's first step costs. A process of its own.

Each part has a clock of the processor around the functions by which it begins; what runs inside of two parts counts for
the inner one.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.core import body_rewrites, engines, graph_optimizer, program
from recgraph.keras.layer import SubGraphLayer

UNITS, WORDS = 16, 50
PARTS: dict[str, tuple[tuple[Any, str], ...]] = {
    "trace": ((SubGraphLayer, "_recursion"),),
    "substitute": ((body_rewrites, "prepared"),),
    "differentiate": ((program, "derivative_of"),),
    "link": ((program, "of"),),
    "optimize": ((graph_optimizer, "optimize"),),
    "plan": ((engines, "compile_batched"),),
}
REST = "Keras and TensorFlow"


class Tree(rg.keras.TreeLayer):
    """A gated sum over children.

    Args:
        children: how many a node has.
        is_conditional: whether what a child adds is computed in a branch.
        is_deep: whether it is normalized and dropped out.
    """

    def __init__(self, children: int, is_conditional: bool, is_deep: bool) -> None:
        super().__init__(output_size=UNITS)
        self.children, self.is_conditional, self.is_deep = children, is_conditional, is_deep
        self.embedding = keras.layers.Embedding(WORDS, UNITS)
        self.gates = [keras.layers.Dense(2 * UNITS) for _ in range(children)]
        self.norms = [keras.layers.LayerNormalization() for _ in range(2 * children if is_deep else 0)]
        self.drops = [keras.layers.Dropout(0.2) for _ in range(2 * children if is_deep else 0)]

    def node(self, inputs: tf.Tensor, child: Any) -> tf.Tensor:
        """See `TreeLayer`."""
        state = self.embedding(inputs[:, 0])
        for i in range(self.children):
            position = inputs[0, i + 1]
            if self.is_conditional:
                there = functools.partial(self._of, i, child, position)
                state += tf.cond(position < 0, lambda: tf.zeros([1, UNITS]), there)
            else:
                state += self._of(i, child, position)
        return state

    def _of(self, i: int, child: Any, position: tf.Tensor) -> tf.Tensor:
        """What a child adds."""
        below = self._made_even(2 * i, child(position))
        gate, new = tf.split(self.gates[i](below), 2, 1)
        return self._made_even(2 * i + 1, tf.sigmoid(gate) * tf.tanh(new))

    def _made_even(self, i: int, state: tf.Tensor) -> tf.Tensor:
        return self.drops[i](self.norms[i](state)) if self.is_deep else state


CASES: dict[str, Callable[[], keras.layers.Layer]] = {
    "none": lambda: keras.layers.Dense(UNITS),
    "two": lambda: Tree(2, False, False),
    "four": lambda: Tree(4, True, False),
    "eight": lambda: Tree(8, True, False),
    "deep": lambda: Tree(4, True, True),
}


class Clock:
    """Seconds of the processor by part, and how often each part began."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys([*PARTS, REST], 0.0)
        self.times = dict.fromkeys(PARTS, 0)
        self._stack = [REST]
        self._since = time.process_time()

    def watch(self) -> None:
        """Puts a clock around the functions of each part."""
        for part, places in PARTS.items():
            for owner, name in places:
                setattr(owner, name, self._timed(part, getattr(owner, name)))

    def turn(self) -> None:
        """Gives the part that runs what has gone by."""
        now = time.process_time()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            self.turn()
            self.times[part] += self._stack[-1] != part
            self._stack.append(part)
            try:
                return function(*arguments, **named)
            finally:
                self.turn()
                self._stack.pop()

        return timed


def batch(children: int) -> tuple[Any, Any]:
    """Two trees: a root with two children, and a single node."""
    absent = [-1] * children
    trees = np.array([[[1, 1, 2, *absent][: children + 1], [2, *absent], [3, *absent]], [[4, *absent]] * 3], np.int32)
    return trees, np.zeros([2, 1], np.float32)


def measure(case: str) -> dict[str, Any]:
    """Takes the first step of a model with this layer, and a second one."""
    layer = CASES[case]()
    given, labels = batch(getattr(layer, "children", 2))
    if not isinstance(layer, Tree):
        given = given[:, 0].astype(np.float32)
    clock = Clock()
    clock.watch()
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(given, labels, epochs=1, verbose=0)
    clock.turn()
    first, times = dict(clock.seconds), dict(clock.times)
    began = time.process_time()
    model.fit(given, labels, epochs=1, verbose=0)
    return {"seconds": first, "times": times, "second": time.process_time() - began}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
