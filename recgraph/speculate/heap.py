"""Python objects that were there before the call: what the call reads of them, and what it writes.

Reads happen before the graph runs, each with the assumption about what will be found. Writes go to a shadow and are
done after the graph, all of them or none. An object is known by the name that the script reads it under.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate import keras_state, known
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.profile import Seen, is_plain
from recgraph.speculate.reasons import Inconvertible
from recgraph.speculate.script import Script
from recgraph.speculate.values import MISSING, Residual

_IDENTITIES = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, tf.Variable, tf.DType)


class Heap:
    """The objects of one call.

    Attributes:
        is_specialised: whether numbers and strings are constants although they have varied.
        names: by id, of the objects that were there before, as the script reads them.
        shadow: slots that were set.
        targets: how the script writes these slots.
        appended: lists that have grown, by id, with what was appended.
        opened: containers as working copies, by id.
        originals: by id, those containers and their first members.
        places: by id, the list or tuple that an object is a member of, and where.
        losses: of Keras's layers.
        inputs: the placeholders of what the script feeds.
        placeholders: by id, the names of the values that are fed.
    """

    eager_tensor_type = tf_private.EagerTensor

    def __init__(self, script: Script, graph: Any) -> None:
        self.script, self.graph = script, graph
        self.is_specialised = False
        self.names: dict[int, str] = {}
        self.held: list[Any] = []
        self.shadow: dict[tuple[Any, ...], Any] = {}
        self.targets: dict[tuple[Any, ...], str] = {}
        self.appended: dict[int, list[Any]] = {}
        self.opened: dict[int, Any] = {}
        self.originals: dict[int, tuple[Any, Any]] = {}
        self.places: dict[int, tuple[Any, int]] = {}
        self.inputs: list[tf.Tensor] = []
        self.placeholders: dict[int, str] = {}
        self.losses = keras_state.Losses()
        self._given: set[int] = set()
        self._feeds: dict[str, tf.Tensor] = {}

    def name_of(self, thing: Any) -> str | None:
        """The name of an object that was there before the call; None for others."""
        return self.names.get(id(thing))

    def admit(self, value: Any, name: str, what: str, seen: Seen, site: Any, where: str) -> Any:
        """What a value that the script has read is to the program. Makes the assumptions about it."""

        def assume(kind: str, condition: str) -> None:
            self.script.assume(condition, assumption(kind, what, where, site))

        if isinstance(value, tf_private.EagerTensor):
            return self._tensor(value, name, seen, assume)
        if isinstance(value, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
            return self._composite(value, name, seen, assume)
        if is_plain(value):
            return self._plain(value, name, seen, assume)
        if isinstance(value, _IDENTITIES):
            if not known.is_frameworks(value) or isinstance(value, tf.Variable):
                assume("identity", self.script.is_same(name, value))
            return value
        assume("type", f"type({name}) is {self.script.constant(type(value))}")
        if isinstance(value, np.ndarray):
            return Residual(name, value)
        return self._object(value, name, assume)

    def _plain(self, value: Any, name: str, seen: Seen, assume: Any) -> Any:
        """Numbers and strings that vary are inputs; of other data each value has its graph."""
        may_be_input = type(value) in (int, float, str)
        if seen.varies and seen.count > 1 and may_be_input and not self.is_specialised:
            assume("type", f"type({name}) is {self.script.constant(type(value))}")
            return Residual(name, value)
        assume("value" if may_be_input else "constant", self.script.is_equal(name, value))
        return value

    def _object(self, value: Any, name: str, assume: Any) -> Any:
        before = self.names.setdefault(id(value), name)
        self.held.append(value)
        if before != name:
            assume("alias", f"{name} is {before}")
        return value

    def given(self, value: Any, where: str) -> None:
        """An object that a library is given, or whose method it is: this very one, as it is now."""
        name = self.names.get(id(value))
        if name is None or id(value) in self._given:
            return
        self._given.add(id(value))
        what = f"a {type(value).__name__} that is given to a library"
        self.script.assume(self.script.is_same(name, value), assumption("identity", what, where))
        if keras_state.has_state(value):
            check = self.script.constant(keras_state.unchanged(value))
            what = f"attributes of a {type(value).__name__} and its layers"
            self.script.assume(f"{check}()", assumption("constant", what, where))

    def _composite(self, value: Any, name: str, seen: Seen, assume: Any) -> Any:
        """A ragged or sparse tensor or slices: its parts are inputs."""
        if isinstance(value, tf.RaggedTensor) and value.uniform_row_length is not None:
            raise Inconvertible("ragged", "a ragged tensor with rows of one length")
        assume("type", f"type({name}) is {self.script.constant(type(value))}")
        components = tf.nest.flatten(value, expand_composites=True)
        self.script.scope["parts_of"] = _parts_of
        parts = self.script.read(f"parts_of({name})")
        assume("tensor", f"len({parts}) == {len(components)}")
        tensors = []
        for i, component in enumerate(components):
            known_shapes = seen.parts[i] if i < len(seen.parts) else Seen()
            tensors.append(self._tensor(component, self.script.read(f"{parts}[{i}]"), known_shapes, assume))
        with self.graph.as_default():
            return _packed(value, tensors)

    def _tensor(self, value: Any, name: str, seen: Seen, assume: Any) -> tf.Tensor:
        shape = value.shape if seen.shape is None else seen.shape
        dtype, dims = value.dtype.as_datatype_enum, None if shape.rank is None else tuple(shape)
        assume("tensor", self.script.is_tensor(name, dtype, dims))
        return self.fed(name, tf.TensorSpec(shape, value.dtype))

    def fed(self, name: str, spec: tf.TensorSpec) -> tf.Tensor:
        """The placeholder for a value that the script gives to the graph."""
        key = f"{name}:{spec.dtype.name}"
        if key not in self._feeds:
            with self.graph.as_default(), tf.control_dependencies(None):
                tensor = tf_private.placeholder(spec)
            self.inputs.append(tensor)
            self._feeds[key] = tensor
            self.placeholders[id(tensor)] = name
            self.script.feed(name)
        return self._feeds[key]

    def captured(self, value: Any) -> tf.Tensor:
        """A tensor with a value that no path of the program leads to: it is a part of the graph."""
        return self.graph.capture(value)

    # Attributes, globals, cells and items all are slots: a key, and the expression that reads and writes it.

    def read(
        self, key: tuple[Any, ...], expression: str, current: Any, what: str, seen: Seen, site: Any, where: str
    ) -> Any:
        """The value of a slot, as the call has left it so far."""
        if key in self.shadow:
            return self.shadow[key]
        name = self.script.read(expression, assumption("presence", what, where, site))
        return self.admit(current, name, what, seen, site, where)

    def write(self, key: tuple[Any, ...], target: str, value: Any) -> None:
        """Sets a slot after the graph."""
        self.shadow[key] = value
        self.targets[key] = target

    def delete(self, key: tuple[Any, ...], target: str) -> None:
        """Deletes a slot after the graph."""
        self.write(key, target, MISSING)

    # Containers. A list is read by index as it is, and opened, with its length assumed, for everything else.

    def item(self, container: Any, index: Any, seen: Seen, site: Any, where: str) -> Any:
        """The value under a key that is known now."""
        if id(container) in self.opened:
            return self.opened[id(container)][index]
        name, key = self.names[id(container)], ("item", id(container), index)
        if key not in self.shadow and isinstance(container, list) and self.appended.get(id(container)):
            return self.open(container, where)[index]
        what = f"[{index!r}] of {type(container).__name__}"
        return self.read(
            key, f"{name}[{self.literal(index)}]", _current(container, index, where), what, seen, site, where
        )

    def literal(self, value: Any) -> str:
        """A plain value as the script writes it."""
        if type(value) in (int, str, bool, bytes, type(None)):
            return repr(value)
        if isinstance(value, slice):
            return f"{value.start!r}:{value.stop!r}:{value.step!r}"
        return self.script.constant(value)

    def set_item(self, container: Any, index: Any, value: Any, where: str) -> None:
        """Sets a member of a container that was there before."""
        if isinstance(container, list):
            self.open(container, where)[index] = value
        elif isinstance(container, dict):
            if id(container) in self.opened:
                self.opened[id(container)][index] = value
            self.write(("item", id(container), index), f"{self.names[id(container)]}[{self.literal(index)}]", value)
        else:
            raise Inconvertible("container", f"items of a {type(container).__name__} are set", where)

    def append(self, container: list[Any], value: Any) -> None:
        """Appends to a list whose members need not be known."""
        if id(container) in self.opened:
            self.opened[id(container)].append(value)
        else:
            self.appended.setdefault(id(container), []).append(value)

    def open(self, container: Any, where: str) -> Any:
        """A container that was there before as a working copy with all its members."""
        if id(container) in self.opened:
            return self.opened[id(container)]
        name = self.names[id(container)]
        what = f"members of a {type(container).__name__}"
        if isinstance(container, list | tuple):
            self.script.assume(f"len({name}) == {len(container)}", assumption("length", what, where))
            members = [self.item(container, i, _seen_now(v), None, where) for i, v in enumerate(container)]
            self.places.update({id(member): (container, i) for i, member in enumerate(members)})
            opened: Any = [*members, *self.appended.pop(id(container), [])]
            if isinstance(container, tuple):
                return _rebuilt(container, opened)
        elif isinstance(container, dict):
            keys = tuple(container)
            if not is_plain(keys):
                raise Inconvertible("container", "a dict whose keys are no plain data is taken as a whole", where)
            self.script.assume(f"same(tuple({name}), {self.script.constant(keys)})", assumption("keys", what, where))
            opened = {key: self.item(container, key, _seen_now(v), None, where) for key, v in container.items()}
            opened.update(self._written(container))
        else:
            members = sorted(container, key=repr)
            if not is_plain(tuple(members)):
                raise Inconvertible("container", f"a {type(container).__name__} of objects is taken as a whole", where)
            self.script.assume(
                f"{name} == {self.script.constant(type(container)(container))}", assumption("value", what)
            )
            return type(container)(container)
        self.opened[id(container)] = opened
        self.originals[id(container)] = (container, type(opened)(opened))
        return opened

    def _written(self, container: Any) -> dict[Any, Any]:
        """What was set in a dict so far."""
        written = {key[2]: value for key, value in self.shadow.items() if key[:2] == ("item", id(container))}
        return {key: value for key, value in written.items() if value is not MISSING}


def _parts_of(value: Any) -> list[Any]:
    return tf.nest.flatten(value, expand_composites=True)


def _packed(value: Any, parts: list[tf.Tensor]) -> Any:
    """A value of the same kind of other tensors, of which no more is known than of these."""
    if isinstance(value, tf.RaggedTensor):
        return tf.RaggedTensor.from_nested_row_splits(parts[0], parts[1:], validate=False)
    if isinstance(value, tf.SparseTensor):
        return tf.SparseTensor(*parts)
    return tf.IndexedSlices(*parts)


def _current(container: Any, index: Any, where: str) -> Any:
    try:
        return container[index]
    except (LookupError, TypeError) as error:
        raise Inconvertible("raises", f"{type(error).__name__}: {error}", where) from error


def _seen_now(value: Any) -> Seen:
    seen = Seen()
    seen.add(value)
    return seen


def _rebuilt(original: Any, members: list[Any]) -> Any:
    """A tuple, or a named one, of other members."""
    return type(original)._make(members) if hasattr(original, "_make") else tuple(members)
