"""What a layer with a recursion holds, in words: the layers in it, and variables of its own."""

from __future__ import annotations

import math
from typing import Any

import keras


class LayersInside:
    """The layers in a layer, as its attribute `layers`: `model.summary(expand_nested=True)` asks for it.

    What a subclass sets under that name is its own: this has no `__set__`.
    """

    def __get__(self, layer: Any, owner: Any = None) -> Any:
        return self if layer is None else inside(layer)


def inside(layer: Any) -> list[keras.layers.Layer]:
    """The layers that a layer has as attributes or in lists of these."""
    return [each for each in layer._flatten_layers(include_self=False, recursive=False) if each is not layer]


def lines(layer: Any) -> list[str]:
    """A line for the layer, and one for each layer in it and each weight of its own.

    Args:
        layer: a `SubGraphLayer`.
    """
    inner = inside(layer)
    known = {id(weight) for each in inner for weight in each.weights}
    own = [weight for weight in layer.weights if id(weight) not in known]
    size = f", output_size {layer.output_size!r}" if layer.output_size is not None else ""
    first = f"layer '{layer.name}' ({type(layer).__name__}): {_count(layer.weights)}{size}, engine {layer.engine!r}"
    return [
        first,
        *(f"  {each.name} ({type(each).__name__}): {_count(each.weights)}" for each in inner),
        *(f"  {weight.name}: {_count([weight])}, shape {tuple(weight.shape)}" for weight in own),
    ]


def _count(weights: list[keras.Variable]) -> str:
    count = sum(math.prod(weight.shape) for weight in weights)
    return f"{count} parameter{'' if count == 1 else 's'}"
