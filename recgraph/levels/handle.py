"""A SubGraph whose calls are taken apart: discovered on the host, run wherever TensorFlow or XLA runs."""

from __future__ import annotations

import threading
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import body_rewrites
from recgraph.core.subgraph import SubGraph
from recgraph.errors import DefinitionError
from recgraph.levels import calls
from recgraph.levels.tables import LevelParts, added

WIDTH = 64


class LevelPlan(tf.experimental.ExtensionType):
    """What has been discovered of one call: tables of integers, made by `Levels.plan`.

    A function that is given one is traced, or compiled by XLA, once for all plans whose tables have the same sizes.

    Attributes:
        forward, backward: tables, how many rows and steps there are, tensors as long as the arenas, and the values that
            decide the structure; of the call and of its gradient. Of the last nothing where there is no gradient.
        width: rows of a step.
    """

    forward: tuple[tuple[tf.Tensor, ...], ...]
    backward: tuple[tuple[tf.Tensor, ...], ...]
    width: int


class Levels:
    """A SubGraph in two halves: `plan` discovers a call on the host, a call of this object runs what was discovered.

    The second half is made of TensorFlow's own operations, with a gradient of its own. XLA compiles it as a whole in a
    `tf.function(jit_compile=True)`: once for many batches, as tables are made up to few different sizes.

    Args:
        subgraph: a SubGraph whose structure is known before its values. What decides it are arguments, constants or
            variables: it has to be there when `plan` is called.
        rows: whether calls are those of `map`.
        width: how many rows a step has: wide ones waste arithmetic at narrow levels, narrow ones take more steps.

    Raises:
        Unbatchable: values decide what is called, or a value has rows of unknown size.
        DefinitionError: not a SubGraph.
    """

    autograph_info__ = None  # AutoGraph calls an object with this mark as it is

    def __init__(self, subgraph: SubGraph, rows: bool = True, width: int = WIDTH) -> None:
        if not isinstance(subgraph, SubGraph):
            raise DefinitionError("levels are those of a SubGraph", found=type(subgraph).__name__)
        if width < 1:
            raise DefinitionError("a step has at least one row", found=f"width={width}")
        self.subgraph, self.rows, self.width = subgraph, rows, int(width)
        self._program = calls.program_of(body_rewrites.prepared(subgraph))
        self._lock = threading.Lock()
        self._least: dict[str, list[int]] = {}

    @tf.autograph.experimental.do_not_convert
    def plan(self, *args: Any) -> LevelPlan:
        """Discovers a call, outside of any graph.

        Args:
            *args: the arguments of the call or, of `map`, rows of them.

        Raises:
            tf.errors.OpError: the structure has no end, is too deep, or an operation that decides it has failed.
        """
        if not tf_private.executing_eagerly():
            raise DefinitionError(
                "a plan is made outside of functions: it says how large a function's tables are",
                next_step="call `plan` before the function, and pass it what it returns",
            )
        called = self._call(self.width)
        tensors = calls.arguments(self.subgraph, args, self.rows)
        forward, frame = self._discovered(called.kind, tensors, called.captures())
        backward = self._discovered("grad", [frame], [])[0] if called.kind else LevelParts()
        return LevelPlan(tuple(forward), tuple(backward), self.width)

    def _call(self, width: int) -> calls.LevelCall:
        return calls.LevelCall(self._program, self.subgraph.name, self.rows, width)

    def _discovered(self, kind: str, args: list[tf.Tensor], captures: list[tf.Tensor]) -> tuple[LevelParts, tf.Tensor]:
        """No smaller than what was discovered before, so that sizes soon are the same."""
        layout = self._program.layouts[kind]
        with self._lock:
            least = list(self._least.get(kind, ()))
        parts, frame = added(self._program, kind, args, captures, self.subgraph.name, self.rows, self.width, least)
        sizes = [int(tensor.shape[0]) for tensor in (*parts.tables, *parts.rooms, *parts.values)]
        sizes[layout.tables - len(layout.results) : layout.tables] = [0] * len(layout.results)  # one for each root
        with self._lock:
            known = self._least.get(kind, sizes)
            self._least[kind] = [max(pair) for pair in zip(known, sizes, strict=True)]
        return parts, frame

    @tf.autograph.experimental.do_not_convert
    def __call__(self, plan: LevelPlan, *args: Any) -> Any:
        """Runs a call by its plan.

        Args:
            plan: of a call with these arguments.
            *args: the arguments.

        Returns:
            The outputs, as of the SubGraph.
        """
        calls.watch_variables(self.subgraph)
        tensors = calls.arguments(self.subgraph, args, self.rows)
        found = LevelParts(*plan.forward), LevelParts(*plan.backward)
        flat = self._call(plan.width).run(tensors, found)
        outputs = self.subgraph.outputs
        return flat[0] if isinstance(outputs, tf.TensorSpec) else tf.nest.pack_sequence_as(outputs, flat)
