"""What Keras decides by looking at its objects in Python: a graph holds for them as they were when it was made.

Which activation, which layers, whether a variable is trainable, how the optimizer clips: attributes, compared before
each call. So are the methods of their classes, and that no object has one of its own in place of its class's. What a
class of the user's adds is read by the user's own code, which is converted.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

from recgraph import tf_private
from recgraph.cpython import facts
from recgraph.speculate.observe import known
from recgraph.speculate.observe.known import answers_itself, has_attributes
from recgraph.speculate.observe.profile import same
from recgraph.speculate.observe.snapshots import Snapshot, alike

_PASSING = frozenset(
    [
        # Changed by Keras in every call.
        *("_losses", "_loss_ids", "_lock", "_called", "_self_tracked_trackables", "_tracked"),
        # Changed by `fit`, `evaluate` and `predict` between steps, and read by them alone.
        *("history", "stop_training", "stop_evaluating", "stop_predicting", "_eval_epoch_iterator", "_initial_epoch"),
        *("train_function", "test_function", "predict_function"),
        # TensorFlow's, for checkpoints.
        *("_self_unconditional_checkpoint_dependencies", "_self_unconditional_dependency_names"),
        "_self_unconditional_deferred_dependencies",
    ]
)
# How layers are connected: lists that are made with the model.
_STRUCTURE = ("_nodes", "_operations", "_inbound", "_outbound", "_tensor")
# Noted by themselves, or with a value that is read in the graph.
_OTHERS = (keras.Layer, keras.Variable, keras.KerasTensor, keras.metrics.Metric)
# Classes whose methods the user writes: what else these read is their own.
_WRITTEN = (
    *(keras.Layer, keras.Model, keras.optimizers.schedules.LearningRateSchedule),
    *(keras.regularizers.Regularizer, keras.constraints.Constraint),
)


def has_state(thing: Any) -> bool:
    """Whether Keras looks at attributes of an object when it is called."""
    return has_attributes(thing) and any(known.top_package(kind) == "keras" for kind in type(thing).__mro__)


def is_unbuilt(thing: Any) -> bool:
    """Whether an object is or holds a layer or optimizer that has not made its variables yet.

    Keras would begin to while it is called, and a conversion must not make variables.
    """
    parts = [thing, *vars(thing).values()] if has_attributes(thing) and not answers_itself(thing) else []
    return any(not getattr(one, "built", True) for part in parts if has_state(part) for one in _objects(part))


def unchanged(thing: Any) -> Callable[[], bool]:
    """A function that tells whether an object of Keras's, with all its layers, is as it is now."""
    seen: set[int] = set()
    snapshot = Snapshot(_is_alike)
    for one in _objects(thing):
        _note(one, snapshot, seen)
    return snapshot.checker()


def weighs_by_shape(model: Any, arguments: Any, named: dict[str, Any]) -> bool:
    """Whether the loss of a model depends on whether a dimension is static, and one is not.

    Where a model has several losses, Keras counts examples in the means of them by `y_pred.shape[0]`, each batch as one
    where that is None: the means are those of eager execution for static shapes only.
    """
    if len(getattr(model, "_compile_loss", None) and model._compile_loss.metrics or ()) < 2:
        return False
    tensors = [one for one in keras.tree.flatten((arguments, named)) if isinstance(one, tf.Tensor)]
    return any(one.shape.rank is None or (one.shape.rank and one.shape[0] is None) for one in tensors)


def settings_unchanged() -> Callable[[], bool]:
    """A function that tells whether the settings that all of Keras reads are as they are now."""
    settings = tf_private.keras_settings()

    def check() -> bool:
        return all(map(_are_equal, settings, tf_private.keras_settings()))

    return check


class Losses:
    """The losses that layers keep from their last call: while a call is converted, tensors of its graph."""

    def __init__(self) -> None:
        self._noted: dict[int, _KeptLosses] = {}

    def note(self, thing: Any, taken: Callable[[Any, list[Any]], list[Any]] | None) -> None:
        """A library is going to read an object or to call it.

        Args:
            thing: the object; of a layer or model, all layers in it are meant.
            taken: gives, of a layer and what it keeps, what the library finds there; None if it forgets that first.
        """
        for layer in _objects(thing):
            kept = getattr(layer, "_losses", None)
            if isinstance(kept, list) and id(layer) not in self._noted:
                before = list(kept)
                self._noted[id(layer)] = noted = _KeptLosses(layer, before, before)
                if before and taken is not None:
                    noted.found = taken(layer, before)
                    kept[:] = noted.found

    def changed(self) -> Iterator[tuple[Any, list[Any]]]:
        """The layers that keep other losses now, each with them."""
        for noted in self._noted.values():
            now = noted.layer._losses
            if len(now) != len(noted.found) or any(a is not b for a, b in zip(now, noted.found, strict=True)):
                yield noted.layer, list(now)

    def mark(self) -> list[tuple[_KeptLosses, list[Any]]]:
        """What layers keep now, for `reset`."""
        return [(noted, list(noted.layer._losses)) for noted in self._noted.values()]

    def reset(self, mark: list[tuple[_KeptLosses, list[Any]]]) -> None:
        """Layers keep what they kept then; those that were noted since are new again."""
        self.restore()
        self._noted = {id(noted.layer): noted for noted, _ in mark}
        for noted, kept in mark:
            noted.layer._losses[:] = kept

    def restore(self) -> None:
        """The layers keep what they kept before the conversion."""
        for noted in self._noted.values():
            noted.layer._losses[:] = noted.before


@dataclasses.dataclass
class _KeptLosses:
    """A layer, the losses that it kept before the conversion, and what is in their place at its beginning."""

    layer: Any
    before: list[Any]
    found: list[Any]


def _objects(thing: Any) -> Iterator[Any]:
    if hasattr(thing, "_flatten_layers") and not isinstance(thing, type):
        yield from thing._flatten_layers()
    else:
        yield thing


def _note(thing: Any, snapshot: Snapshot, seen: set[int]) -> None:
    """Takes note of the attributes of an object, with what its lists and dicts hold, and of the objects in them."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, list | dict | set | tuple):
        members = list(thing.values() if isinstance(thing, dict) else thing)
    else:
        _note_methods(thing, snapshot, seen)
        names = [name for name in thing.__dict__ if name not in _PASSING and _is_kerass(thing, name)]
        snapshot.note(thing, {name: thing.__dict__[name] for name in names}, _is_looked_into_below)
        members = [thing.__dict__[name] for name in sorted(names) if _is_looked_into_below(name)]
    for member in members:
        if isinstance(member, list | dict | set | tuple) or _is_looked_into(member):
            _note(member, snapshot, seen)
        elif isinstance(member, keras.Variable):
            _note_variable(member, snapshot, seen)


def _note_variable(variable: keras.Variable, snapshot: Snapshot, seen: set[int]) -> None:
    """Takes note of whether a variable is trainable, of its constraint and its regularizer."""
    if id(variable) in seen:
        return
    seen.add(id(variable))
    snapshot.note(variable, vars(variable), lambda _: False)
    for member in vars(variable).values():
        if _is_looked_into(member):
            _note(member, snapshot, seen)


def _note_methods(thing: Any, snapshot: Snapshot, seen: set[int]) -> None:
    """Takes note of the methods of an object's classes, and that it has none of its own."""
    kinds = [kind for kind in type(thing).__mro__ if facts.is_written_in_python(kind)]
    inherited: dict[str, Any] = {}
    for kind in reversed(kinds):
        own = {name: found for name, found in vars(kind).items() if _is_method(found)}
        if id(kind) not in seen:
            seen.add(id(kind))
            snapshot.note(kind, own)
            snapshot.note_absent(kind, *_absent(name for name in inherited if name not in vars(kind)))
        inherited |= own
    snapshot.note_absent(thing, *_absent(name for name in inherited if name not in thing.__dict__))


def _absent(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """What a part says of names that are not there; one pair of tuples for all objects of a kind."""
    return _absent_of(tuple(names))


@functools.lru_cache(maxsize=512)
def _absent_of(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    return names, (...,) * len(names)


def _is_method(found: Any) -> bool:
    """Whether something in a class is a function or a descriptor: data is for those who read it to assume."""
    return hasattr(type(found), "__get__") and not isinstance(found, types.GetSetDescriptorType)


def _is_alike(found: Any, expected: Any) -> bool:
    """Whether two values are the same, or data that is equal: variables, say, have an idea of equality of their own."""
    return alike(found, expected, same)


def _are_equal(one: Any, other: Any) -> bool:
    """Whether settings are the same, or lists of the same."""
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return same(one, other)


def _is_looked_into_below(name: str) -> bool:
    """Whether what an attribute holds is looked into."""
    return not name.startswith(_STRUCTURE)


def _is_looked_into(thing: Any) -> bool:
    """Whether an object that a layer holds is, say, a regularizer or a schedule: something of Keras's with settings."""
    return has_state(thing) and not isinstance(thing, _OTHERS) and type(thing).__name__ not in ("Tracker", "Node")


def _is_kerass(thing: Any, name: str) -> bool:
    """Whether an attribute is for Keras to read."""
    kind = type(thing)
    if not known.is_users_type(kind):
        return True
    nearest = next(base for base in kind.__mro__ if known.top_package(base) == "keras")
    return nearest not in _WRITTEN or name in _base_names()


@functools.cache
def _base_names() -> frozenset[str]:
    return frozenset({*vars(keras.Layer()), *vars(keras.Model())})
