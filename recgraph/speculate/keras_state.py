"""What Keras decides by looking at its objects in Python: a graph holds for them as they were when it was made.

Which activation, which layers, whether it is trainable, how the optimizer clips: attributes, compared before each call.
Attributes that a class of the user's adds are read by the user's own code, which is converted.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras

from recgraph.speculate import known

# Changed by Keras in every call.
_PASSING = frozenset({"_losses", "_loss_ids", "_lock", "_called", "_self_tracked_trackables"})


def has_state(thing: Any) -> bool:
    """Whether Keras looks at attributes of an object when it is called."""
    return hasattr(thing, "__dict__") and any(known.top_package(kind) == "keras" for kind in type(thing).__mro__)


def is_unbuilt(thing: Any) -> bool:
    """Whether an object is or holds a layer or optimizer that has not made its variables yet.

    Keras would begin to while it is called, and a conversion must not make variables.
    """
    parts = [thing, *vars(thing).values()] if hasattr(thing, "__dict__") else []
    return any(not getattr(one, "built", True) for part in parts if has_state(part) for one in _objects(part))


def unchanged(thing: Any) -> Callable[[], bool]:
    """A function that tells whether an object of Keras's, with all its layers, is as it is now."""
    parts = [part for part in map(_attributes, _objects(thing)) if part is not None]

    def check() -> bool:
        for owner, read, values in parts:
            found = owner()
            if found is None or read(found.__dict__) != values:
                return False
        return True

    return check


class Losses:
    """The losses that layers keep from their last call: while a call is converted, tensors of its graph."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[Any, list[Any]]] = {}

    def note(self, thing: Any) -> None:
        """A layer or model is going to be called."""
        for layer in _objects(thing):
            if hasattr(layer, "_losses") and isinstance(layer._losses, list):
                self._before.setdefault(id(layer), (layer, list(layer._losses)))

    def changed(self) -> Iterator[tuple[Any, list[Any]]]:
        """The layers that keep other losses now, each with them."""
        for layer, before in self._before.values():
            if len(layer._losses) != len(before) or any(a is not b for a, b in zip(layer._losses, before, strict=True)):
                yield layer, list(layer._losses)

    def restore(self) -> None:
        """The layers keep what they kept before the conversion."""
        for layer, before in self._before.values():
            layer._losses[:] = before


def _objects(thing: Any) -> Iterator[Any]:
    if hasattr(thing, "_flatten_layers"):
        yield from thing._flatten_layers()
    else:
        yield thing


def _attributes(thing: Any) -> tuple[Any, Any, Any] | None:
    names = sorted(name for name in thing.__dict__ if name not in _PASSING and _is_kerass(thing, name))
    if not names:
        return None
    read = operator.itemgetter(*names)
    return weakref.ref(thing), read, read(thing.__dict__)


def _is_kerass(thing: Any, name: str) -> bool:
    """Whether an attribute is for Keras to read."""
    kind = type(thing)
    if not known.is_users_type(kind):
        return True
    nearest = next(base for base in kind.__mro__ if known.top_package(base) == "keras")
    return nearest not in (keras.Layer, keras.Model) or name in _base_names()


@functools.cache
def _base_names() -> frozenset[str]:
    return frozenset({*vars(keras.Layer()), *vars(keras.Model())})
