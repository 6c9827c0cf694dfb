"""Python objects that were there before the call: what the call reads of them, and what it writes.

Reads happen before the graph runs, each with the assumption about what will be found. Writes go to a shadow and are
done after the graph, all of them or none. An object is known by the name that the script reads it under.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import operator
import pathlib
import re
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.observe import keras_state, known, module_state
from recgraph.speculate.observe.keras_state import Losses
from recgraph.speculate.observe.known import answers_itself, has_attributes
from recgraph.speculate.observe.profile import OCCURRENCES, VARIES, Profile, Seen, common_shape, is_plain
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException, RestartConversion
from recgraph.speculate.script.assumptions import (
    NOTED,
    Assumption,
    FittingShape,
    OneObject,
    Presence,
    SameConstant,
    SameDecision,
    SameKeys,
    SameLength,
    SameObject,
    SameShape,
    SameType,
    SameValue,
    TwoObjects,
)
from recgraph.speculate.script.contexts import Contexts
from recgraph.speculate.script.script import Condition, Script
from recgraph.speculate.script.symbolic import CONTAINERS, MISSING, DynamicValue, fixed, has_run, rebuilt

_IDENTITIES = (
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, tf.Variable, tf.DType, enum.Enum
)  # fmt: skip
# What the script may hold alive.
_LASTING = (types.FunctionType, types.ModuleType, type, enum.Enum)
# Among the ways that a conversion assumes: that tensors which are one in this call are one.
ALIASES: Final = "aliases"
# What cannot change, though it is no number or string: equal ones are the same.
_VALUES = (
    range, slice, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction,
    pathlib.PurePath, re.Pattern, np.dtype, tf.TensorShape, types.GenericAlias, types.UnionType,
)  # fmt: skip
# Containers that the rules know.
_KNOWN = frozenset(
    {
        *(list, tuple, dict, set, frozenset, collections.deque, collections.Counter, collections.OrderedDict),
        *(collections.defaultdict, object),
    }
)
# Methods by which containers give and take members.
_STRUCTURE = frozenset(
    name for kind in _KNOWN - {object} for name, found in vars(kind).items() if callable(found)
) - {
    "__new__", "__init__", "__repr__", "__getattribute__", "__hash__", "__sizeof__", "__reduce__", "__reduce_ex__",
    "__class_getitem__", "__missing__", "__getnewargs__", "__copy__", "__doc__",
}  # fmt: skip


@dataclasses.dataclass(eq=False)
class Input:
    """What the script gives to the graph.

    Attributes:
        tensor: the placeholder.
        name: of the value in the script.
        example: the tensor that is fed in the call that is converted; None where an array or a number is.
        shape: of the tensor or array that is fed in that call; None where a number is.
        is_told: whether the program tells it apart from others: a tape is asked about it.
    """

    tensor: tf.Tensor
    name: str
    example: Any = None
    shape: tuple[int, ...] | None = None
    is_told: bool = False


class Heap:
    """The objects of one call.

    Attributes:
        is_specialised: whether numbers, strings and shapes are constants although they have varied.
        has_exact_shapes: whether shapes alone are.
        keeps_shapes: whether shapes are constants although they have varied a little.
        keys_may_vary: whether items are set under keys that differ from call to call, and not used afterwards.
        names: by id, of the objects that were there before, as the script reads them.
        shadow: slots that were set.
        targets: how the script writes these slots.
        previous: what was in a slot that a branch or round has set first.
        deleted: slots that were deleted, perhaps to be set again.
        contexts: what is around the node that is being converted.
        appended: lists that have grown, by id, with what was appended.
        opened: containers as working copies, by id.
        originals: by id, those containers and their first members.
        set_calls: by id, what was done to the working copies of sets, in order: methods and their arguments.
        losses: of Keras's layers.
        sealed: by id, the containers in which items were set under keys that differ from call to call.
        places: by id, of arrays that the call has made, what `Evaluator.paths` has where the script has to make them.
        merges_tensors: whether one tensor that is read in two places is one placeholder.
    """

    eager_tensor_type = tf_private.EagerTensor

    def __init__(self, script: Script, graph: Any, profile: Profile, contexts: Contexts) -> None:
        self.script, self.graph, self.profile, self.contexts = script, graph, profile, contexts
        self.is_specialised, self.keeps_shapes, self.keys_may_vary = False, False, True
        self.has_exact_shapes = False
        self.names: dict[int, str] = {}
        self.held: list[Any] = []
        self.shadow: dict[tuple[Any, ...], Any] = {}
        self.targets: dict[tuple[Any, ...], str] = {}
        self.previous: dict[tuple[Any, ...], Any] = {}
        self.deleted: dict[tuple[Any, ...], bool] = {}
        self.appended: dict[int, list[Any]] = {}
        self.opened: dict[int, Any] = {}
        self.originals: dict[int, tuple[Any, Any]] = {}
        self.set_calls: dict[int, list[tuple[str, list[Any]]]] = {}
        self.merges_tensors = False
        self._arrays: collections.Counter[Any] = collections.Counter()
        self.losses = Losses()
        self._asked = set[Callable[[], Any]]()
        self.sealed: dict[int, Any] = {}
        self.places: dict[int, Any] = {}
        self._made: dict[int, Any] = {}
        self._given: set[int] = set()
        self._feeds: dict[str, Input] = {}

    def name_of(self, thing: Any) -> str | None:
        """The name of an object that was there before the call; None for others."""
        return self.names.get(id(thing))

    def make(self, thing: Any, place: Any = None) -> Any:
        """Takes note of an object that the call has made: only such a one is changed while it is converted.

        Args:
            thing: the object.
            place: of an array, what `Evaluator.paths` has where the script has to make it.
        """
        self._made[id(thing)] = thing
        self.places[id(thing)] = place
        return thing

    def reached(self, thing: Any) -> None:
        """A library gives an object of the user's: it has a name from now on, by which it is found while it lives."""
        if id(thing) in self.names or id(thing) in self._made:
            return
        if answers_itself(thing):
            raise Inconvertible(Feature.CUSTOM_ACCESS, "an object overrides attribute access or __class__")
        try:
            reference = weakref.ref(thing)
        except TypeError:
            self.names[id(thing)] = self.script.constant(thing)
            return
        self.script.watched.append(reference)
        self.held.append(thing)
        self.names[id(thing)] = self.script.read(f"{self.script.constant(reference)}()")

    def path_to(self, thing: Any) -> str | None:
        """How the script finds an object that was there before; None for one that the call has made."""
        if id(thing) in self.names:
            return self.names[id(thing)]
        if self.is_made(thing) or self.script.newborn.has(thing) or _is_made_anew(thing):
            return None
        if isinstance(thing, _LASTING) or self.script.is_told(thing):
            return self.script.found(thing)
        self.reached(thing)
        return self.names[id(thing)]

    def is_changed(self, sequence: Any) -> bool:
        """Whether the working copy of a sequence that was there before has other members than it had."""
        if id(sequence) not in self.opened:
            return False
        now, before = self.opened[id(sequence)], self.originals[id(sequence)][1]
        return len(now) != len(before) or not all(map(operator.is_, now, before))

    def is_made(self, thing: Any) -> bool:
        """Whether the call has made an object; or, of an array, that of which it is a view."""
        return id(thing) in self._made or (isinstance(thing, np.ndarray) and id(memory_of(thing)) in self._made)

    def arrays(self) -> list[np.ndarray]:
        """Those that the call has made and may change."""
        return [thing for thing in self._made.values() if isinstance(thing, np.ndarray) and thing.flags.writeable]

    def admit(self, value: Any, name: str, what: str, seen: Seen, site: Any, where: str) -> Any:
        """What a value that the script has read is to the program. Makes the assumptions about it."""

        def assume(kind: type[Assumption], condition: str | Condition) -> None:
            self.script.assume(condition, kind(what, where, site))

        if answers_itself(value):
            raise Inconvertible(Feature.CUSTOM_ACCESS, "an object overrides attribute access or __class__", where)
        if isinstance(value, tf_private.EagerTensor):
            return self._tensor(value, name, seen, assume)
        if isinstance(value, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
            return self._composite(value, name, seen, assume)
        if is_plain(value) and not (isinstance(value, tuple) and seen.varies and seen.count > 1):
            return self._plain(value, name, seen, assume)
        if isinstance(value, _IDENTITIES):
            assume(SameObject, self.script.is_same(name, value))
            if isinstance(value, types.BuiltinFunctionType) and not isinstance(value.__self__, types.ModuleType | None):
                self._receiver(value, name, where)
            return value
        if isinstance(value, keras.Variable):
            assume(SameObject, self.script.is_same(name, value))
            self.keras_called(where)  # it may be cast where it is read
            return self._object(value, name, assume)
        assume(SameType, f"type({name}) is {self.script.constant(type(value))}")
        if isinstance(value, np.ndarray):
            return DynamicValue(name, fixed(value), site=site and site[0])
        if isinstance(value, np.generic):
            return DynamicValue(name, value)
        if isinstance(value, _VALUES) and not known.is_users_type(type(value)):
            self.script.scope["are_alike"] = _are_alike
            assume(SameConstant, f"are_alike({name}, {self.script.constant(value)})")
        elif isinstance(value, types.MethodType):
            assume(SameObject, f"{name}.__func__ is {self.script.constant(value.__func__)}")
            self._receiver(value, name, where)
        elif callable(value) and not isinstance(value, functools.partial) and _is_librarys(value):
            assume(SameObject, self.script.is_same(name, value))
        return self._object(value, name, assume)

    def _receiver(self, method: Any, name: str, where: str) -> None:
        """The object that a method belongs to which the script has read."""
        what = f"the object of {method.__name__}"
        read, noted = self.script.read(f"{name}.__self__"), SameObject(what, where)
        if isinstance(method.__self__, tf_private.EagerTensor) or is_plain(method.__self__):
            self.script.assume(f"{read} is {self.script.constant(method.__self__)}", noted)
        else:
            self.admit(method.__self__, read, what, Seen(), None, where)

    def _plain(self, value: Any, name: str, seen: Seen, assume: Any) -> Any:
        """Numbers and strings that vary are inputs; of other data each value has its graph."""
        may_be_input = type(value) in (int, float, str)
        if seen.varies and seen.count > 1 and may_be_input and not self.is_specialised:
            assume(SameType, f"type({name}) is {self.script.constant(type(value))}")
            return DynamicValue(name, value)
        assume(SameValue if may_be_input else SameConstant, self.script.is_equal(name, value))
        return value

    def _object(self, value: Any, name: str, assume: Any) -> Any:
        before = self.names.setdefault(id(value), name)
        self.held.append(value)
        if before != name:
            assume(OneObject, f"{name} is {before}")
        return value

    def given(self, value: Any, where: str, forgets_losses: bool = False) -> None:
        """An object that a library is given, or whose method it is: this very one, as it is now.

        Args:
            value: the object.
            where: the user's line.
            forgets_losses: whether it is a layer that is called, which forgets what it and its layers added last time.
        """
        self.losses.note(value, None if forgets_losses else functools.partial(self._kept_losses, where))
        if id(value) in self._given:
            return
        if isinstance(value, tf.Module) and not self.is_made(value):
            self._given.add(id(value))
            check = self.script.constant(module_state.unchanged(value))
            what = f"the variables and modules of a {type(value).__name__}"
            self.script.assume(f"{check}()", SameConstant(what, where))
        name = self.names.get(id(value))
        if name is None:
            return
        self._given.add(id(value))
        what = f"a {type(value).__name__} that is given to a library"
        self.script.assume(self.script.is_same(name, value), SameObject(what, where))
        if keras_state.has_state(value):
            check = self.script.constant(keras_state.unchanged(value))
            what = f"attributes of a {type(value).__name__} and its layers"
            self.script.assume(f"{check}()", SameConstant(what, where))

    def _kept_losses(self, where: str, layer: Any, losses: list[Any]) -> list[Any]:
        """Inputs for the losses that a layer has added before the call. What is no tensor stays as it is."""
        what = f"the losses that a {type(layer).__name__} has added"

        def assume(kind: type[Assumption], condition: str | Condition) -> None:
            self.script.assume(condition, kind(what, where))

        kept = self.script.read(f"{self.script.constant(weakref.ref(layer))}()._losses", Presence(what, where))
        assume(SameConstant, f"len({kept}) == {len(losses)}")
        found: list[Any] = []
        for i, loss in enumerate(losses):
            is_tensor = isinstance(loss, tf_private.EagerTensor)
            name = self.script.read(f"{kept}[{i}]")
            found.append(self._tensor(loss, name, Seen(), assume) if is_tensor else loss)
            if not is_tensor:
                assume(SameObject, self.script.is_same(name, loss))
        return found

    def keras_called(self, where: str) -> None:
        """Keras is called, which reads settings of its own."""
        if keras_state.settings_unchanged in self._asked:
            return
        self._asked.add(keras_state.settings_unchanged)
        check = self.script.constant(keras_state.settings_unchanged())
        self.script.assume(f"{check}()", SameConstant("the settings of Keras", where))

    def asked_around(self, ask: Callable[[], bool | str], what: str, where: str) -> None:
        """A library depends on what is around the call, in this thread, of which `ask` tells."""
        if ask not in self._asked:
            self._asked.add(ask)
            self.script.assume(f"{self.script.constant(ask)}() == {ask()!r}", SameDecision(what, where))

    def _composite(self, value: Any, name: str, seen: Seen, assume: Any) -> Any:
        """A ragged or sparse tensor or slices: its parts are inputs."""
        if isinstance(value, tf.RaggedTensor) and value.uniform_row_length is not None:
            raise Inconvertible(Feature.RAGGED, "a ragged tensor has a uniform row length")
        assume(SameType, f"type({name}) is {self.script.constant(type(value))}")
        components = tf.nest.flatten(value, expand_composites=True)
        self.script.scope["parts_of"] = _parts_of
        parts = self.script.read(f"parts_of({name})")
        assume(FittingShape, f"len({parts}) == {len(components)}")
        pairs = list(zip(components, [*seen.parts, *(Seen() for _ in components)], strict=False))
        for component, known_shapes in pairs:
            known_shapes.count_shape(component.shape)
        tensors = []
        for i, (component, known_shapes) in enumerate(pairs):
            if not seen.has_few_shapes:  # of one part: then those of no part are constants, so that one graph has all
                known_shapes.shapes = None
            tensors.append(self._tensor(component, self.script.read(f"{parts}[{i}]"), known_shapes, assume))
        with self.graph.as_default():
            return _packed(value, tensors)

    def _tensor(self, value: Any, name: str, seen: Seen, assume: Any) -> tf.Tensor:
        seen.count_shape(value.shape)
        kind, shape = self._shape(value.shape, seen)
        if self.merges_tensors and (before := self._input_with(value)) is not None:
            assume(OneObject, f"{name} is {before.name}")
            return before.tensor
        dtype, dims = value.dtype.as_datatype_enum, tuple(shape)
        assume(SameType, self.script.is_eager(name, dtype))  # a more general shape would not help where this breaks
        assume(kind, self.script.has_shape(name, dims))
        made = self._fed(name, tf.TensorSpec(shape, value.dtype))
        made.example, made.shape = value, tuple(value.shape)
        if (mask := tf_private.keras_mask(value)) is not None:  # which Keras keeps with a tensor, for the next layer
            own = self._tensor(mask, self.script.read(f"{name}.{tf_private.KERAS_MASK}"), Seen(), assume)
            tf_private.set_keras_mask(made.tensor, own)
        return made.tensor

    def _shape(self, actual: tf.TensorShape, seen: Seen) -> tuple[type[Assumption], tf.TensorShape]:
        """What is assumed of the shape of a tensor or an array that is read, and the shape of its placeholder."""
        shape = actual if seen.shape is None else common_shape(seen.shape, actual)
        if self.is_specialised or self.has_exact_shapes:  # a graph for each shape
            return FittingShape if shape.is_fully_defined() else SameShape, actual
        if self.keeps_shapes and seen.has_few_shapes:
            return FittingShape, actual
        if shape.rank is None:  # a graph for each rank
            return SameType, tf.TensorShape([None] * actual.rank)
        return FittingShape, shape

    def _input_with(self, value: Any) -> Input | None:
        """The input for a tensor that has been read already."""
        return next((known for known in self._feeds.values() if known.example is value), None)

    @property
    def inputs(self) -> list[tf.Tensor]:
        """The placeholders of what the script gives to the graph, in order."""
        return [known.tensor for known in self._feeds.values()]

    def input_of(self, tensor: Any) -> Input | None:
        """The input whose placeholder a tensor is."""
        return next((known for known in self._feeds.values() if known.tensor is tensor), None)

    def name_of_given(self, tensor: tf.Tensor) -> str | None:
        """The name of the eager tensor that the graph is given, or has taken, for one of its inputs."""
        if (fed := self.input_of(tensor)) is not None:
            return fed.name if fed.example is not None else None
        taken = next((outer for outer, inner in self.graph.captures if inner is tensor), None)
        return self.script.found(taken) if type(taken) is tf_private.EagerTensor else None

    def tell(self, tensor: Any) -> None:
        """The program can tell by what a tape gives whether a tensor is another one, too."""
        if (known := self.input_of(tensor)) is not None:
            known.is_told = True

    def assume_distinct_tensors(self) -> None:
        """No tensor that the program tells apart is read in two places, or all are where they were in this call.

        Raises:
            RestartConversion: in this call one is, and its places have not been merged yet.
        """
        fed = [known for known in self._feeds.values() if known.example is not None]
        told, others = ([known for known in fed if known.is_told is wanted] for wanted in (True, False))
        if not told or len(fed) == 1:
            return
        if not are_apart(*([known.example for known in part] for part in (told, others))):
            raise RestartConversion({ALIASES})
        names = ("".join(f"{known.name}, " for known in part) for part in (told, others))
        self.script.scope["are_apart"] = are_apart
        what = f"{len(fed)} tensors, {len(told)} of which a tape is asked about"
        self.script.assume(f"are_apart({', '.join(f'({part})' for part in names)})", TwoObjects(what))

    def fed(self, name: str, spec: tf.TensorSpec) -> tf.Tensor:
        """The placeholder for a value that the script gives to the graph."""
        return self._fed(name, spec).tensor

    def array(self, value: DynamicValue, array: np.ndarray, dtype: Any, site: tuple[Any, ...], where: str) -> tf.Tensor:
        """The placeholder for an array of NumPy's that the script gives to the graph.

        Args:
            value: the script's.
            array: that of this call.
            dtype: of the tensor.
            site: where it becomes one; more than one may there, in one call.
            where: the user's line.
        """
        name = value.name
        if (key := _key_of(name, dtype)) in self._feeds:
            return self._feeds[key].tensor
        self._arrays[site] += 1
        place = (*site, min(self._arrays[site], OCCURRENCES), NOTED)
        seen = self.profile.note_array(place, array, value.site, value.sizes)
        kind, shape = self._shape(tf.TensorShape(array.shape), seen)
        condition = f"{name}.shape == {array.shape}" if shape.is_fully_defined() else f"fits({name}.shape, {(*shape,)})"
        self.script.assume(f"{name}.dtype == {self.script.constant(array.dtype)}", SameType("dtype of an array", where))
        self.script.assume(condition, kind("an array", where, (place, 0)))
        made = self._fed(name, tf.TensorSpec(shape, dtype))
        made.shape = array.shape
        return made.tensor

    def _fed(self, name: str, spec: tf.TensorSpec) -> Input:
        key = _key_of(name, spec.dtype)
        if key not in self._feeds:
            with self.graph.as_default(), tf.control_dependencies(None):
                self._feeds[key] = Input(tf_private.placeholder(spec), name)
            self.script.feed(name)
        return self._feeds[key]

    def mark(self) -> Any:
        """What has been read so far, for `reset`."""
        read = [dict(part) for part in (self.names, self._feeds, self.originals, self.previous)]
        return read, set(self._given), set(self._asked), self.losses.mark()

    def reset(self, mark: Any) -> None:
        """Forgets what was read since."""
        read, given, asked, losses = mark
        self.names, self._feeds, self.originals, self.previous = (dict(part) for part in read)
        self._given, self._asked = set(given), set(asked)
        self.losses.reset(losses)

    def unsealed(self, container: Any, where: str) -> None:
        """Checks that nothing was set in a container under a key that differs from call to call.

        Raises:
            Inconvertible: something was.
        """
        if id(container) in self.sealed:
            raise Inconvertible(
                Feature.KEY,
                f"a {type(container).__name__} is read after an item was set under a key that varies",
                where,
            )

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
        name = self.script.read(expression, Presence(what, where, site))
        return self.admit(current, name, what, seen, site, where)

    def write(self, key: tuple[Any, ...], target: str, value: Any, current: Any, where: str) -> None:
        """Sets a slot after the graph. Where a tensor decides about it, what is there `current`ly may stay there."""
        check_dropped(current, where)
        if self.contexts.forks and key not in self.shadow and current is not MISSING:
            what = f"{target} as it was"
            name = self.script.read(target, Presence(what, where))
            self.previous[key] = self._noted(current, name, what, ("slot", target), where)
        if self.shadow.get(key) is MISSING and value is not MISSING:
            del self.shadow[key]  # it goes to the end
        self.deleted.update({key: True} if value is MISSING else {})
        self.shadow[key] = value
        self.targets[key] = target

    # Containers. A list is read by index as it is, and opened, with its length assumed, for everything else.

    def item(self, container: Any, index: Any, seen: Seen, site: Any, where: str) -> Any:
        """The value under a key that is known now."""
        self.unsealed(container, where)
        check_plain(container, where)
        if id(container) in self.opened:
            return _current(self.opened[id(container)], index, where)
        name, key = self.names[id(container)], item_of(container, index)
        if key in self.shadow:
            return self.shadow[key]
        more = self.appended.get(id(container))
        if more and -len(more) <= index < 0:
            return more[index]
        if more:
            index += len(more) if index < 0 else 0
            key = ("item", id(container), index)
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
        self.unsealed(container, where)
        check_plain(container, where)
        if isinstance(container, list | collections.deque):
            try:
                self.open(container, where)[index] = value
            except (LookupError, TypeError, ValueError) as error:
                raise ProgramException(error, where) from error
        elif isinstance(container, dict):
            if id(container) in self.opened:
                _put(self.opened[id(container)], index, value)
                return
            target = f"{self.names[id(container)]}[{self.literal(index)}]"
            self.write(item_of(container, index), target, value, container.get(index, MISSING), where)
        else:
            raise Inconvertible(Feature.CONTAINER, f"items of a {type(container).__name__} are assigned", where)

    def append(self, container: list[Any] | collections.deque[Any], value: Any) -> None:
        """Appends to a list whose members need not be known."""
        self.unsealed(container, "")
        check_plain(container, "")
        if id(container) in self.opened:
            self.opened[id(container)].append(value)
        else:
            self.appended.setdefault(id(container), []).append(value)

    def with_runs(self, container: Any, where: str) -> Any:
        """The members of a list or tuple if only the graph knows how many they are; else None."""
        if not isinstance(container, list | tuple):
            return None
        if self.name_of(container) is not None:
            if id(container) not in self.opened and not has_run(self.appended.get(id(container))):
                return None
            container = self.open(container, where)
        return container if has_run(container) else None

    def open(self, container: Any, where: str) -> Any:
        """A container that was there before as a working copy with all its members."""
        if is_namespace(container):
            raise Inconvertible(Feature.NAMESPACE, "the names of a module are taken as a whole", where)
        self.unsealed(container, where)
        check_plain(container, where)
        if id(container) in self.opened:
            return self.opened[id(container)]
        read = self.originals.get(id(container))
        before = self._members(container, where) if read is None else read[1]
        if isinstance(container, tuple | frozenset):
            return before
        opened = before.copy()
        if isinstance(container, list | collections.deque):
            opened += self.appended.pop(id(container), [])
        elif isinstance(container, dict):
            self._take_over(container, opened)
        self.opened[id(container)] = opened
        self.originals[id(container)] = (container, before)
        return opened

    def _members(self, container: Any, where: str) -> Any:
        """What a container holds when the call begins."""
        name, what = self.names[id(container)], f"members of a {type(container).__name__}"
        if isinstance(container, list | tuple | collections.deque):
            self.script.assume(f"len({name}) == {len(container)}", SameLength(what, where))
            found = [self._member(container, i, v, where) for i, v in enumerate(container)]
            if isinstance(container, collections.deque):
                return collections.deque(found, container.maxlen)
            if not isinstance(container, tuple):
                return found
            return rebuilt(container, found) if hasattr(container, "_make") else tuple(found)
        keys = tuple(container)
        if not is_plain(keys):
            raise Inconvertible(
                Feature.CONTAINER, f"a {type(container).__name__} of objects is taken as a whole", where
            )
        if isinstance(container, dict):
            self.script.assume(f"same(tuple({name}), {self.script.constant(keys)})", SameKeys(what, where))
            items = {key: self._member(container, key, v, where) for key, v in container.items()}
            return like(container, items)
        self.script.scope["has_members"] = _has_members
        members = type(container)(container)
        self.script.assume(f"has_members({name}, {self.script.constant(members)})", SameKeys(what, where))
        return members

    def check_order(self, container: Any, where: str) -> None:
        """Checks that a set from before has its members in the order of its working copy, before somebody sees it.

        Raises:
            Inconvertible: it has another: that depends on all that was ever in it.
        """
        if not isinstance(container, set | frozenset) or id(container) not in self.names:
            return
        members = tuple(container)
        if tuple(type(container)(container)) != members:
            raise Inconvertible(Feature.CONTAINER, "a set has its members in another order than a copy of it", where)
        what = "the order of a set"
        condition = f"same(tuple({self.names[id(container)]}), {self.script.constant(members)})"
        self.script.assume(condition, SameKeys(what, where))

    def _member(self, container: Any, index: Any, value: Any, where: str) -> Any:
        """A member of a container that is opened; what is assumed of one is given up for all."""
        name, what = self.names[id(container)], f"[{index!r}] of {type(container).__name__}"
        read = self.script.read(f"{name}[{self.literal(index)}]", Presence(what, where))
        return self._noted(value, read, what, ("members", where, index), where, isinstance(container, tuple | dict))

    def members_at(self, sequence: Any, indices: Iterable[int], where: str) -> list[Any]:
        """Some members of a list or tuple that was there before, as it was then."""
        return [self._member(sequence, i, sequence[i], where) for i in indices]

    def _noted(
        self, value: Any, name: str, what: str, place: tuple[Any, ...], where: str, is_part: bool = False
    ) -> Any:
        """What was read where the profile saw nothing; what is assumed of one at a line is given up for all.

        A part is one of a few that belong together, as a batch does: for each, assumptions are its own.
        """
        seen, site = self.profile.note(place, value, is_part), (*(place if is_part else place[:2]), NOTED)
        if is_part:
            self.profile.share_shapes(place, site)
        if self.profile.seen(site, 0).count:
            seen = dataclasses.replace(seen, constant=VARIES, count=2)
        return self.admit(value, name, what, seen, (site, 0), where)

    def _take_over(self, container: dict[Any, Any], opened: dict[Any, Any]) -> None:
        """Makes what was set and deleted in a dict, key by key, in its working copy."""
        slots = [key for key in self.shadow if key[:2] == ("item", id(container))]
        for slot in slots:
            value = self.shadow.pop(slot)
            if value is MISSING:
                opened.pop(slot[2], None)
            else:
                opened[slot[2]] = value


def _key_of(name: str, dtype: Any) -> str:
    """What an input is kept under."""
    return f"{name}:{tf.as_dtype(dtype).name}"


def memory_of(array: np.ndarray) -> np.ndarray:
    """The array that a view shows a part of, or itself."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _has_members(now: Any, members: Any) -> bool:
    """Whether a set has these very members: 1 and True are equal."""
    return set(map(_kept, now)) == set(map(_kept, members))


def _kept(member: Any) -> Any:
    return member, type(member), repr(member) if type(member) is float else ""


def slot_of(owner: Any, name: str) -> tuple[Any, ...]:
    """The key of an attribute; that of a module is a global, too."""
    if isinstance(owner, types.ModuleType):
        return "global", id(vars(owner)), name
    return "attribute", id(owner), name


def item_of(container: Any, index: Any) -> tuple[Any, ...]:
    """The key of an item; that of the names of a module is a global, too."""
    return "global" if is_namespace(container) else "item", id(container), index


def is_namespace(container: Any) -> bool:
    """Whether a dict has the names of a module."""
    return type(container) is dict and "__builtins__" in container


def are_apart(told: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether objects differ from one another and from others, which may be the same."""
    found = set(map(id, told))
    return len(found) == len(told) and found.isdisjoint(map(id, others))


def _is_made_anew(thing: Any) -> bool:
    """Whether a value without a name is one that a call makes where it needs it: a container, a method, data."""
    if isinstance(thing, (tuple, types.MethodType, types.BuiltinMethodType)) or type(thing) in CONTAINERS:
        return True
    return type(thing).__weakrefoffset__ == 0 and not has_attributes(thing) and not known.is_users_type(type(thing))


def _are_alike(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other) and repr(one) == repr(other))


def _is_librarys(value: Any) -> bool:
    """Whether an object is neither the user's nor a framework's, of which more is known."""
    return not known.is_users_type(type(value)) and not known.is_frameworks_object(value)


def check_plain(container: Any, where: str) -> None:
    """Checks that a container gives and takes its members as the built-in class does from which its class is derived.

    Raises:
        Inconvertible: a class of the program's, or of a library's, has methods of its own for that.
    """
    kind = type(container)
    if kind in _KNOWN or not issubclass(kind, tuple(_KNOWN - {object})) or known.is_frameworks_object_type(kind):
        return
    for base in kind.__mro__:
        if base in _KNOWN:
            return
        own = sorted(name for name, found in vars(base).items() if name in _STRUCTURE and callable(found))
        if own:
            raise Inconvertible(Feature.CONTAINER, f"the class {kind.__name__} overrides {own[0]}", where)


def check_dropped(value: Any, where: str) -> None:
    """Checks that nothing of the program's runs when a value is given up, which the script does when the call is over.

    Raises:
        Inconvertible: its class defines `__del__`.
    """
    kind = type(value)
    if hasattr(kind, "__del__") and known.is_users_type(kind):
        raise Inconvertible(Feature.OBJECT, f"the call gives up a {kind.__name__}, whose class defines __del__", where)


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
        raise ProgramException(error, where) from error


def like(container: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
    """A dict of the kind of another, with other items."""
    if isinstance(container, collections.defaultdict):
        return collections.defaultdict(container.default_factory, items)
    kind = type(container)
    return kind(items) if kind in (collections.OrderedDict, collections.Counter) else items


def _put(opened: dict[Any, Any], key: Any, value: Any) -> None:
    if value is MISSING:
        del opened[key]
    else:
        opened[key] = value


# What a class gives as it holds it, so that asking the class itself is enough.
_GIVEN_AS_HELD: Final = (types.FunctionType, property, types.WrapperDescriptorType, types.MemberDescriptorType)


def held_by(kind: type, name: str) -> Any:
    """What a class or the first of its bases holds under a name, unbound; None where none does."""
    return next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)


def own(script: Script, kind: type, name: str, where: str) -> Any:
    """What a class itself holds under a name, its bases left aside, which is assumed to stay so."""
    found = kind.__dict__.get(name)
    if known.is_users_type(kind):
        condition = f"{script.constant(kind)}.__dict__.get({name!r}) is {script.constant(found)}"
        script.assume(condition, SameObject(f"{kind.__name__}.{name} is as it was", where))
    return found


def of_class(script: Script, kind: type, name: str, where: str) -> Any:
    """What `held_by` gives, which is assumed to stay so where the class is a part of the user's program."""
    found = held_by(kind, name)
    if any(known.is_users_type(base) for base in kind.__mro__[:-1]):
        owner, expected = script.constant(kind), script.constant(found)
        if found is None and not hasattr(kind, name):
            condition = f"not hasattr({owner}, {name!r})"
        elif isinstance(found, _GIVEN_AS_HELD) and getattr(kind, name, None) is found:
            condition = f"getattr({owner}, {name!r}, None) is {expected}"
        else:
            script.scope["held_by"] = held_by
            condition = f"held_by({owner}, {name!r}) is {expected}"
        script.assume(condition, SameObject(f"{kind.__name__}.{name} is as it was", where))
    return found
