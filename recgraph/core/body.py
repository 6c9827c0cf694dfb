"""The graph of a SubGraph's body while the user's code fills it, and after."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import hoisting, origin
from recgraph.core.environment import EnvironmentMap
from recgraph.errors import ScopeError


class BodyGraph(tf_private.FuncGraph):
    """A graph whose references to outer tensors are gathered in an environment.

    Attributes:
        environment: what its placeholders stand for.
        captured: the outer tensors, in the order of their first use.
        callees: the SubGraphs that the body calls, by id; keeps them alive.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.environment = EnvironmentMap()
        self.captured: list[tf.Tensor] = []
        self.callees: dict[str, Any] = {}
        self._inside: dict[int, tf.Tensor] = {}

    def capture(self, tensor: Any, name: str | None = None, shape: Any = None) -> tf.Tensor:
        """The tensor of this graph that stands for `tensor`."""
        if not isinstance(tensor, tf_private.EagerTensor) and tensor.graph is self:
            return tensor
        if id(tensor) not in self._inside:
            self._inside[id(tensor)] = self._bring_in(tensor, name)
        return self._inside[id(tensor)]

    def _bring_in(self, tensor: Any, name: str | None) -> tf.Tensor:
        if hoisting.recipe_of(tensor) is not None:
            with self.as_default(), tf.control_dependencies(None):
                placeholder = tf_private.placeholder(tf.TensorSpec(tensor.shape, tensor.dtype))
            self.inputs.append(placeholder)
            return self._note(placeholder, tensor)
        if not can_reach(self, tensor):
            raise ScopeError(
                f"{self.name}: the body uses a tensor from an unrelated graph",
                where=origin.here(),
                found=str(tensor),
                expected="tensors of the graphs that enclose the SubGraph",
                next_step="pass the tensor as an input, or define the SubGraph inside the function that creates it",
            )
        return self._note(tf_private.capture_by_placeholder(self, tensor, name), tensor)

    def _note(self, placeholder: tf.Tensor, outer: tf.Tensor) -> tf.Tensor:
        self.captured.append(outer)
        self.environment.add(placeholder, outer)
        return placeholder


def can_reach(graph: Any, tensor: Any) -> bool:
    """Whether operations of `graph` can use `tensor`: it has a value now, or is of this graph or one around it."""
    if isinstance(tensor, tf_private.EagerTensor):
        return True
    while graph is not None and graph is not tensor.graph:
        graph = getattr(graph, "outer_graph", None)
    return graph is not None


def enclosing_body(graph: Any) -> BodyGraph | None:
    """The innermost body that `graph` is, or is nested in."""
    while graph is not None:
        if isinstance(graph, BodyGraph):
            return graph
        graph = getattr(graph, "outer_graph", None)
    return None


def is_local(tensor: Any) -> bool:
    """Whether a tensor belongs to some body: it differs from invocation to invocation."""
    return not isinstance(tensor, tf_private.EagerTensor) and enclosing_body(tensor.graph) is not None
