"""Errors of a TreeLayer when it runs: trees and nodes in them have the numbers that the user has given them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
import tensorflow as tf

from recgraph.core import origin
from recgraph.errors import RecgraphError
from recgraph.keras.seeds import Nest

# The name of what looks for a node's entry: it is in TensorFlow's message, also where a graph runs it in `fit`.
LOOKUP: Final = "child_at_a_position_within_its_tree"

_OUTSIDE: Final = re.compile(r"indices.* = (\d+) is not in \[0, (\d+)\)")
_ROW: Final = re.compile(r"(call path: [^\[\n]*)\[(\d+)\]")
_PLACE: Final = re.compile(r"\((\d+), \d+, \d+(?=[,)])")


def told(layer: str, text: str, inputs: Nest, starts: tf.Tensor, which: tf.Tensor | None) -> str:
    """An error's message with the user's numbers in place of those of the table of all nodes.

    Args:
        layer: its name.
        text: the message.
        inputs: of the layer.
        starts: where in the table each tree begins.
        which: of which trees the rows of roots are; None for all.
    """
    begins = np.asarray(starts)
    rows = np.arange(len(begins)) if which is None else np.asarray(which)

    def node(number: int) -> tuple[int, int]:
        tree = int(np.searchsorted(begins, number, side="right")) - 1
        return tree, number - int(begins[tree])

    text = _PLACE.sub(lambda found: "(node {1} of tree {0}".format(*node(int(found[1]))), text)
    text = _ROW.sub(lambda found: f"{found[1]}[{rows[int(found[2])]}]", text)
    outside = _OUTSIDE.search(text)
    return _beyond(layer, text, inputs, node, outside) if outside and LOOKUP in text else text


def _beyond(layer: str, text: str, inputs: Nest, node: Callable[[int], tuple[int, int]], outside: re.Match[str]) -> str:
    tree, parent = node(int(outside[1]) - int(outside[2]))
    entries = tf.nest.map_structure(lambda tensor: np.asarray(tensor[tree][parent]).tolist(), inputs)
    last = int(tf.nest.flatten(inputs)[0][tree].shape[0]) - 1
    path = re.search(r"call path: .*", text)
    message = RecgraphError(
        f"layer '{layer}': a node has a child at a position beyond its tree",
        where=origin.here(),
        found=f"node {parent} of tree {tree}, which has {entries}",
        expected=f"a position from 0 to {last}, or -1 for no child",
        next_step="count positions from 0 in each tree",
    )
    return f"{message}\n  {path[0]}" if path else str(message)
