"""The end of the script: what the call returns and does to Python, written down when all of it is known."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.profile import is_plain
from recgraph.speculate.observe.reasons import Feature, Inconvertible, RestartConversion
from recgraph.speculate.passes import aliases
from recgraph.speculate.passes.backward import may_take_other_ways
from recgraph.speculate.passes.connections import RECORDS, assume_ways
from recgraph.speculate.run import referring
from recgraph.speculate.script.assumptions import TwoObjects
from recgraph.speculate.script.heap import check_dropped, check_plain, memory_of
from recgraph.speculate.script.script import Delete, Let, Perform, Write
from recgraph.speculate.script.symbolic import (
    COLLECTIONS,
    DynamicValue,
    FormattableVariable,
    LateCall,
    ListSegment,
    Missing,
    PartialShape,
    SymbolicValue,
    VariableSnapshot,
    is_symbolic,
    parts_of,
)
from recgraph.speculate.values import lists, merging, objects, state


class Renderer:
    """Writes values as Python.

    Attributes:
        outputs: the tensors that the graph has to give.
    """

    def __init__(self, ev: Evaluator) -> None:
        self.ev, self.script, self.heap = ev, ev.script, ev.heap
        self.outputs: list[tf.Tensor] = []
        self._numbers: dict[int, int] = {}
        self._made: dict[int, str] = {}
        self._memories: dict[int, np.ndarray] = {}
        self._held: list[Any] = []
        self._begun: set[int] = set()

    def finish(self, result: Any) -> None:
        """Writes the effects in order, then the slots, then the result."""
        self.script.scope["replace"] = _replace
        self.ev.twins.check_unchanged()
        self._assume_distinct()
        self.heap.assume_distinct_tensors()
        for effect in self._effects():
            self._late(effect)
        for identity, members in self.heap.appended.items():
            for member in members:
                more = (
                    f"extend({self._run(member)})"
                    if isinstance(member, ListSegment)
                    else f"append({self.code(member)})"
                )
                self.script.effect(Perform(f"{self.heap.names[identity]}.{more}"))
        for key, value in self.heap.shadow.items():
            self._slot(key, value)
        for identity, (_, before) in self.heap.originals.items():
            self._container(identity, before)
        for layer, losses in self.heap.losses.changed():
            self.script.effect(Write(f"{self.script.constant(weakref.ref(layer))}()._losses[:]", self._list(losses)))
        if self.script.newborn.counts:
            self.script.scope["count_names"] = tf_private.count_names
            self.script.effect(Perform(f"count_names({self.script.newborn.counts})"))
        self.script.result = self.code(result)
        self._give_themselves()

    def _effects(self) -> list[LateCall]:
        """What is done to Python. What may raise is done before, and all that it may depend on."""
        effects = self.ev.effects
        if not any(effect.may_raise for effect in effects):
            return effects
        if any(effect.may_raise and not effect.is_pure for effect in effects):
            raise Inconvertible(
                Feature.LATE_VALUE,
                "an operation that may fail modifies a value that is known only after the graph has run",
            )
        with self.script.checking():
            for effect in effects:
                if effect.is_pure:
                    self._late(effect)
        return [effect for effect in effects if not effect.is_pure]

    def _assume_distinct(self) -> None:
        """Where an object is written, no other name may be one of it."""
        written = {key[1] for key in self.heap.shadow} | set(self.heap.appended) | set(self.heap.originals)
        written |= set(self.heap.sealed)
        kinds: dict[type, dict[int, str]] = {}
        for thing in self.heap.held:
            name = self.heap.name_of(thing)
            if name is not None:
                kinds.setdefault(type(thing), {})[id(thing)] = name
        for kind, names in kinds.items():
            if len(names) > 1 and written & set(names):
                distinct = TwoObjects(f"{len(names)} objects of {kind.__name__}")
                self.script.assume(
                    f"len({{{', '.join(f'id({n})' for n in names.values())}}}) == {len(names)}", distinct
                )

    def _late(self, effect: LateCall) -> None:
        arguments = [self.code(a) for a in effect.arguments]
        arguments += [f"{name}={self.code(value)}" for name, value in effect.named.items()]
        self.script.effect(Let(effect.name, f"{effect.function}({', '.join(arguments)})"))

    def _slot(self, key: Any, value: Any) -> None:
        target = self.heap.targets[key]
        if key in self.heap.deleted:  # made during the call, perhaps: then nothing is there
            self.script.effect(Delete(target))
        if not isinstance(value, Missing):
            self.script.effect(Write(target, self.code(value)))

    def _container(self, identity: int, before: Any) -> None:
        now = self.heap.opened[identity]
        lines = len(self.script.after)
        self._changes(identity, now, before)
        if len(self.script.after) != lines:
            check_plain(self.heap.originals[identity][0], "")
            for member in parts_of(before):
                check_dropped(member, "")

    def _changes(self, identity: int, now: Any, before: Any) -> None:
        name = self.heap.names[identity]
        if isinstance(now, set):
            self._set_changes(name, self.heap.set_calls.get(identity, []), now, before)
        elif isinstance(now, list | collections.deque):
            if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
                self.script.effect(Perform(f"replace({name}, {self._list(list(now))})"))
        elif _keys(now) != _keys(before) or any(now[k] is not before[k] for k in now):
            self._dict_changes(name, now, before)

    def _set_changes(self, name: str, calls: list[Any], now: set[Any], before: set[Any]) -> None:
        """Does what the program has done, in its order, on which that of the set depends."""
        done = before.copy()
        for method, arguments in calls:
            getattr(done, method)(*arguments)
        if not state.are_same(now, list(done)):
            raise Inconvertible(Feature.CONTAINER, "a set is changed otherwise than by its methods")
        for method, arguments in calls:
            given = [self.script.constant(a) if isinstance(a, set) else self.code(a) for a in arguments]
            self.script.effect(Perform(f"{name}.{method}({', '.join(given)})"))

    def _dict_changes(self, name: str, now: dict[Any, Any], before: dict[Any, Any]) -> None:
        """Sets what has changed; where keys have gone or moved, all of them."""
        if _keys(now)[: len(before)] != _keys(before):
            self.script.effect(Perform(f"replace({name}, {self._dict(now)})"))
            return
        for key, value in now.items():
            if key not in before or before[key] is not value:
                self.script.effect(Write(f"{name}[{self.heap.literal(key)}]", self.code(value)))

    def code(self, value: Any) -> str:
        """A value as an expression."""
        if isinstance(value, DynamicValue):
            if value.is_array and value.tensor is not None:
                return self._array(value)
            return value.name if value.tensor is None else f"{self._output(value.tensor)}.numpy().item()"
        if is_symbolic(value):
            return self._tensor(value)
        if isinstance(value, VariableSnapshot):
            parts = f"{self.script.constant(value.variable)}, {self._output(value.value)}"
            return f"{self.script.constant(FormattableVariable)}({parts})"
        if isinstance(value, PartialShape):
            return f"{self.script.constant(tf.TensorShape)}({self._list(value.dims)})"
        name = self.heap.name_of(value)
        if name is not None:
            return name
        if is_plain(value):
            return repr(value) if type(value) in (int, str, bool, type(None), bytes) else self.script.constant(value)
        if id(value) not in self._made:
            self.ev.twins.check(value)
            if id(value) in self._begun:
                raise Inconvertible(Feature.ESCAPE, f"a {type(value).__name__} that leads to itself leaves the call")
            self._held.append(value)
            self._begun.add(id(value))
            made = self.script.name()
            code = self._fresh(value)
            self._begun.discard(id(value))
            if code is None:
                return self.script.constant(value)
            self.script.effect(Let(made, code))
            self._made[id(value)] = made
            self._fill(made, value)
        return self._made[id(value)]

    def _array(self, value: DynamicValue) -> str:
        """One array, whoever has it."""
        if id(value) not in self._made:
            self.ev.twins.check(value)
            self._held.append(value)
            self._made[id(value)] = self.script.name()
            self.script.effect(Let(self._made[id(value)], f"{self._output(value.tensor)}.numpy()"))
        return self._made[id(value)]

    def _fresh(self, value: Any) -> str | None:
        """What makes a value that the call has made; None for what was there before and stays the same."""
        if isinstance(value, SymbolicValue):
            raise Inconvertible(Feature.ESCAPE, "the call returns or stores a function or method that it made")
        if isinstance(value, RECORDS):
            return self._spent(value)
        if type(value) is list:
            return self._list(value)
        if type(value) is dict:
            return self._dict(value)
        if type(value) is collections.deque:
            return f"{self.script.constant(collections.deque)}({self._list(list(value))}, {value.maxlen})"
        if type(value) is collections.defaultdict:
            made = f"{self.script.constant(type(value))}({self.code(value.default_factory)}"
            return f"{made}, {self._dict(value)})"
        if type(value) in (collections.OrderedDict, collections.Counter):
            return f"{self.script.constant(type(value))}({self._dict(value)})"
        if isinstance(value, tuple):
            parts = self._parts(value)
            if type(value) is tuple:
                return f"({parts}{',' if len(value) == 1 else ''})"
            if hasattr(value, "_make"):
                return f"{self.script.constant(tuple.__new__)}({self.script.constant(type(value))}, [{parts}])"
        if type(value) in (set, frozenset):
            return self._set(value)
        if isinstance(value, slice | range):
            return None
        if isinstance(value, np.ndarray) and self.heap.is_made(value):
            if self._memories.setdefault(id(memory_of(value)), value) is not value:
                raise Inconvertible(Feature.ESCAPE, "two arrays that share memory, made during the call, leave it")
            return f"{self.script.constant(value)}.copy('K')"
        if isinstance(value, COLLECTIONS):
            raise Inconvertible(Feature.ESCAPE, f"a {type(value).__name__} made during the call leaves it")
        if objects.is_object(value) and self.heap.is_made(value):
            if known.is_frameworks_object(value):
                raise Inconvertible(Feature.ESCAPE, f"the call returns or stores a {type(value).__name__} that it made")
            if isinstance(value, BaseException):
                return self._exception(value)
            self.script.scope["new"] = object.__new__
            return f"new({self.script.constant(type(value))})"
        return self._referring(value)

    def _referring(self, value: Any) -> str | None:
        """What makes a value that refers to others.

        Raises:
            Inconvertible: it is none of which that is known, and leads to what is of this call alone.
        """
        if self.script.newborn.kept_by(value) is not None:
            return None  # no constant either: the script refuses it with the line that makes it
        if (found := referring.owner_of(value)) is not None:
            return f"{self.code(self._original(found[0]))}{found[1]}"
        if (parts := referring.made_of(value)) is not None:
            kind, given, named = parts
            return f"{self.script.constant(kind)}({self._parts(given)}{',' if given else ''} **{self._dict(named)})"
        if why := referring.why_not_kept(self.ev, value):
            raise Inconvertible(Feature.ESCAPE, f"a {type(value).__name__} leaves the call, and {why}")
        return None

    def _original(self, copy: Any) -> Any:
        """The container that was there before the call, of its working copy."""
        opened = self.heap.opened.items()
        return next((self.heap.originals[identity][0] for identity, now in opened if now is copy), copy)

    def _spent(self, record: Any) -> str:
        """A tape that has given its gradients holds on to nothing of the graph; it says which variables it watched."""
        watched = tf_private.what_was_watched(record) if type(record) is tf.GradientTape else None
        if watched is None or may_take_other_ways(self.ev.graph) or any(map(self.script.newborn.has, watched[1])):
            name = type(record).__name__
            raise Inconvertible(Feature.ESCAPE, f"a {name} leaves the call, with tensors of the graph")
        variables = [f"{self.script.constant(weakref.ref(variable))}()" for variable in watched[1]]
        return f"{self.script.constant(tf_private.spent_tape)}({watched[0]}, [{', '.join(variables)}])"

    def _set(self, value: Any) -> str | None:
        if all(map(is_plain, value)):
            constant = self.script.constant(value)
            return f"set({constant})" if isinstance(value, set) else None
        return f"{type(value).__name__}({self._list(list(value))})"

    def _exception(self, error: BaseException) -> str:
        if error.__cause__ is not None:
            raise Inconvertible(Feature.ESCAPE, "the call returns or stores an exception with a cause")
        kind, parts = type(error), "".join(f", {self.code(part)}" for part in error.args)
        return f"{self.script.constant(kind.__new__)}({self.script.constant(kind)}{parts})"

    def _fill(self, made: str, value: Any) -> None:
        if not self.heap.is_made(value) or referring.made_of(value) is not None:
            return
        for name, member in getattr(value, "__dict__", {}).items():
            self.script.effect(Write(f"{made}.__dict__[{name!r}]", self.code(member)))
        self.script.scope["set_attribute"] = object.__setattr__
        for name in objects.slots_of(type(value)):
            if hasattr(value, name):
                self.script.effect(Perform(f"set_attribute({made}, {name!r}, {self.code(getattr(value, name))})"))

    def _list(self, members: list[Any]) -> str:
        return f"[{self._parts(members)}]"

    def _parts(self, members: Sequence[Any]) -> str:
        return ", ".join(f"*{self._run(m)}" if isinstance(m, ListSegment) else self.code(m) for m in members)

    def _run(self, run: ListSegment) -> str:
        """The members that the graph has for a list, as a list."""
        if id(run) not in self._made:
            self._held.append(run)
            made = self._made[id(run)] = self.script.name()
            rows = ", ".join(map(self._output, [run.count, *merging.stacks(self.ev, merging.alike(self.ev, run))]))
            self.script.scope["members"] = lists.members
            self.script.effect(Let(made, f"members({self.script.constant(run.element)}, {rows})"))
        return self._made[id(run)]

    def _dict(self, members: dict[Any, Any]) -> str:
        return "{" + ", ".join(f"{self.code(k)}: {self.code(v)}" for k, v in members.items()) + "}"

    def _tensor(self, value: Any) -> str:
        if isinstance(value, tf.Tensor):
            fed = self.heap.input_of(value)
            if fed is not None and fed.example is not None:  # of a number or an array, a library gives a tensor
                return fed.name
            mask = tf_private.keras_mask(value)
            if mask is None:
                return self._output(value)
            self.script.scope["masked"] = _masked
            return f"masked({self._output(value)}, {self._tensor(mask)})"
        components = tf.nest.flatten(value, expand_composites=True)
        spec = tf.type_spec_from_value(value)
        self.script.scope["pack"] = _pack
        return f"pack({self.script.constant(spec)}, [{', '.join(map(self._output, components))}])"

    def _give_themselves(self) -> None:
        """A result that is a tensor which the call was given, on the way that was taken, is that very tensor.

        Raises:
            RestartConversion: another way gives a copy that cannot be told from it: it is made anew, or a way assumed.
            Inconvertible: the ways are none of the program's.
        """
        several = []
        for number, codes, ways in aliases.of_outputs(
            self.ev.graph, self.ev.conditionals, self.outputs, self.heap.name_of_given
        ):
            if ways and aliases.COPIES not in self.ev.paths:
                raise RestartConversion({aliases.COPIES})
            places = {self.ev.conditionals.get(op) for op in ways}
            assume_ways(self.ev, places, "a branch or loop gives a tensor or a copy of it", Feature.ESCAPE)
            several.append(f"({number}, ({', '.join(codes)},))")
        if several:
            self.script.scope["themselves"] = aliases.themselves
            self.script.at_once(Let("t", f"themselves(t, [{', '.join(several)}])"))

    def _output(self, tensor: tf.Tensor) -> str:
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = len(self.outputs)
            self.outputs.append(tensor)
        return f"t[{self._numbers[id(tensor)]}]"


def _masked(tensor: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """A tensor with the mask that Keras's layers take from it."""
    tf_private.set_keras_mask(tensor, mask)
    return tensor


def _pack(spec: Any, components: list[tf.Tensor]) -> Any:
    return tf.nest.pack_sequence_as(spec, components, expand_composites=True)


def _keys(table: dict[Any, Any]) -> list[tuple[Any, type]]:
    """The keys of a dict as they are: 1 and True are equal."""
    return [(key, type(key)) for key in table]


def _replace(container: Any, members: Any) -> None:
    if isinstance(container, list):
        container[:] = members
        return
    container.clear()
    if isinstance(container, dict | set):
        container.update(members)
    else:
        container.extend(members)
