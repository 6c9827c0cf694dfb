"""Tensors that each call from outside computes of captured tensors, once, and that bodies capture in their place.

A stand-in is a tensor that nothing computes. A body captures it as any outer tensor; whoever calls gives its value,
made with ordinary operations where the call is. So gradients flow through these to the tensors that it is made of, and
a SavedModel holds them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from recgraph import tf_private


@dataclasses.dataclass(frozen=True)
class OuterValue:
    """An outer tensor that a stand-in is made of.

    Attributes:
        outer: the tensor, or the handle of a variable.
        is_read: whether it is the variable's value that counts.
        dtype: of the value.
    """

    outer: tf.Tensor
    is_read: bool
    dtype: tf.DType

    @property
    def key(self) -> tuple[int, bool]:
        """Equal for equal values."""
        return id(self.outer), self.is_read


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How the value of a stand-in is made.

    Attributes:
        sources: what it is made of.
        make: gives the value of those of the sources.
    """

    sources: tuple[OuterValue, ...]
    make: Callable[[Sequence[tf.Tensor]], tf.Tensor]


class Hoisted(tf_private.FuncGraph):
    """Where stand-ins live.

    Attributes:
        recipes: of each, by name.
    """

    def __init__(self) -> None:
        super().__init__("hoisted")
        self.recipes: dict[str, Recipe] = {}

    def stand_in(self, spec: tf.TensorSpec, recipe: Recipe) -> tf.Tensor:
        """A new stand-in."""
        with self.as_default():
            made = tf_private.placeholder(spec)
        self.recipes[made.name] = recipe
        return made


def recipe_of(tensor: tf.Tensor) -> Recipe | None:
    """How the value of a stand-in is made; None of any other tensor."""
    if isinstance(tensor, tf_private.EagerTensor) or not isinstance(tensor.graph, Hoisted):
        return None
    return tensor.graph.recipes[tensor.name]


def bases(tensors: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    """The tensors, with what they are made of in place of stand-ins."""
    found: dict[int, tf.Tensor] = {}
    for tensor in tensors:
        recipe = recipe_of(tensor)
        for outer in [tensor] if recipe is None else [source.outer for source in recipe.sources]:
            found[id(outer)] = outer
    return list(found.values())


def values(tensors: Sequence[tf.Tensor], given: Callable[[list[tf.Tensor]], list[tf.Tensor]]) -> list[tf.Tensor]:
    """The values of outer tensors, stand-ins among them, where a call is.

    Args:
        tensors: the outer tensors.
        given: what they are here, stand-ins aside.
    """
    outers = bases(tensors)
    here = dict(zip(map(id, outers), given(outers), strict=True))
    read: dict[tuple[int, bool], tf.Tensor] = {}

    def value(source: OuterValue) -> tf.Tensor:
        if source.key not in read:
            tensor = here[id(source.outer)]
            if source.is_read:
                tensor = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=source.dtype)
            read[source.key] = tensor
        return read[source.key]

    found = []
    for tensor in tensors:
        recipe = recipe_of(tensor)
        found.append(here[id(tensor)] if recipe is None else recipe.make([value(one) for one in recipe.sources]))
    return found
