"""Changes of a finished graph that are put back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from recgraph import tf_private


class GraphChanges:
    """Changes of a graph, to be undone."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self._undo: list[Callable[[], object]] = []

    def give(self, op: tf.Operation, i: int, tensor: tf.Tensor) -> None:
        """An operation is given another tensor."""
        before = op.inputs[i]
        self._undo.append(lambda: tf_private.replace_input(op, i, before))
        tf_private.replace_input(op, i, tensor)

    def redirect(
        self, old: tf.Tensor, new: tf.Tensor, besides: Callable[[tf.Operation], bool] = lambda op: False
    ) -> None:
        """Who is given a tensor is given another one, besides some."""
        for user in old.consumers():
            for i, source in enumerate(user.inputs):
                if source is old and not besides(user):
                    self.give(user, i, new)

    def order(self, op: tf.Operation, waits_for: Iterable[tf.Operation]) -> None:
        """An operation waits for others."""
        before = list(op.control_inputs)
        self._undo.append(lambda: tf_private.set_control_inputs(op, before))
        tf_private.set_control_inputs(op, list(waits_for))

    def set_attribute(self, op: tf.Operation, name: str, value: Any) -> None:
        """An attribute becomes another one."""
        before = tf.compat.v1.AttrValue()
        before.CopyFrom(op.node_def.attr[name])
        self._undo.append(lambda: tf_private.set_attribute(op, name, before))
        tf_private.set_attribute(op, name, value)

    def return_instead(self, outputs: list[tf.Tensor]) -> None:
        """The graph gives other tensors."""
        before = self.graph.outputs
        self._undo.append(lambda: setattr(self.graph, "outputs", before))
        self.graph.outputs = outputs

    def undo(self) -> None:
        """Puts everything back; operations that were added are used by nobody then."""
        while self._undo:
            self._undo.pop()()
