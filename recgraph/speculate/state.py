"""What a piece of the program has changed, and how the changes of branches and rounds become tensors that flow.

A *slot* is a place that the program can assign: a local name, an attribute or item in the shadow, a member of a list
or dict made during the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import tensorflow as tf

from recgraph.speculate import known, residuals
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.profile import same
from recgraph.speculate.values import MISSING, Missing, Residual

Slot: TypeAlias = tuple[int, Any]


class State:
    """All slots as they are at one moment."""

    def __init__(self, ev: Evaluator) -> None:
        self._ev = ev
        self._held: dict[int, tuple[Any, Any]] = {}
        self._effects = len(ev.effects)
        self._assertions = len(ev.assertions)
        for place in self._roots():
            self._hold(place)

    def _roots(self) -> Iterator[Any]:
        for frame in self._ev.frames:
            inner: Any = frame
            while inner is not None:
                yield inner.locals
                inner = inner.outer
        heap = self._ev.heap
        yield from (heap.shadow, heap.opened, heap.appended, heap.targets)

    def _hold(self, thing: Any) -> None:
        if id(thing) in self._held:
            return
        if isinstance(thing, list | dict):
            self._held[id(thing)] = (thing, type(thing)(thing) if type(thing) in (list, dict) else thing.copy())
            for member in thing.values() if isinstance(thing, dict) else thing:
                self._hold(member)
        elif isinstance(thing, tuple):
            for member in thing:
                self._hold(member)
        elif self._ev.heap.name_of(thing) is None and known.is_users_type(type(thing)) and hasattr(thing, "__dict__"):
            self._held[id(thing)] = (thing, thing)
            self._hold(thing.__dict__)

    def restore(self) -> None:
        """Makes everything as it was."""
        for thing, copy in self._held.values():
            if isinstance(thing, list):
                thing[:] = copy
            elif isinstance(thing, dict):
                thing.clear()
                thing.update(copy)
        del self._ev.assertions[self._assertions :]

    def changes(self) -> dict[Slot, Any]:
        """The slots that have another value now."""
        if len(self._ev.effects) != self._effects:
            raise self._ev.refuse("effect in branch", "something is printed, or a late value made, as a tensor decides")
        found: dict[Slot, Any] = {}
        for key, (thing, copy) in self._held.items():
            if isinstance(thing, list):
                if len(thing) != len(copy):
                    found[(key, None)] = list(thing)
                else:
                    found.update({(key, i): v for i, v in enumerate(thing) if v is not copy[i]})
            elif isinstance(thing, dict):
                for name in {**copy, **thing}:
                    if thing.get(name, MISSING) is not copy.get(name, MISSING):
                        found[(key, name)] = thing.get(name, MISSING)
        return found

    def get(self, slot: Slot) -> Any:
        """What is in a slot now."""
        thing = self._held[slot[0]][0]
        if slot[1] is None:
            return list(thing)
        if isinstance(thing, list):
            return thing[slot[1]]
        return thing.get(slot[1], MISSING)

    def set(self, slot: Slot, value: Any) -> None:
        """Puts a value into a slot."""
        thing = self._held[slot[0]][0]
        if slot[1] is None:
            thing[:] = value
        elif isinstance(value, Missing) and isinstance(thing, dict):
            if thing is self._ev.heap.shadow:
                thing[slot[1]] = value
            else:
                thing.pop(slot[1], None)
        else:
            thing[slot[1]] = value


# Values that flow through a branch or loop: a template with holes, and the tensors in the holes.


class Hole:
    """Where a tensor of the result goes; a number comes back as one."""

    def __init__(self, dtype: tf.DType, shape: tf.TensorShape, is_number: bool) -> None:
        self.dtype, self.shape, self.is_number = dtype, shape, is_number


def template(ev: Evaluator, one: Any, other: Any) -> Any:
    """What both values have in common, with holes where they differ.

    Raises:
        Inconvertible: they differ in structure.
    """
    if isinstance(one, Missing) or isinstance(other, Missing):
        return MISSING
    if _is_tensor(one) or _is_tensor(other):
        return _tensor_hole(ev, one, other)
    if same(one, other):
        return one
    if _is_number(one) and _is_number(other):
        kinds = {_kind(one), _kind(other)}
        if len(kinds) == 1:
            return Hole(kinds.pop(), tf.TensorShape([]), True)
    if isinstance(one, list | tuple) and type(one) is type(other) and len(one) == len(other):
        members = [template(ev, a, b) for a, b in zip(one, other, strict=True)]
        return type(one)._make(members) if hasattr(one, "_make") else type(one)(members)
    if isinstance(one, dict) and type(one) is type(other) and list(one) == list(other):
        return {key: template(ev, one[key], other[key]) for key in one}
    names = f"{_describe(one)} and {_describe(other)}"
    raise ev.refuse("merge", f"values that do not fit together meet after a branch or round: {names}")


def _tensor_hole(ev: Evaluator, one: Any, other: Any) -> Hole:
    dtypes = {v.dtype for v in (one, other) if _is_tensor(v)}
    fits = all(_is_tensor(v) or _is_number(v) for v in (one, other))
    if not fits or len(dtypes) != 1:
        raise ev.refuse("merge", f"{_describe(one)} and {_describe(other)} meet after a branch or round")
    shapes = [v.shape if _is_tensor(v) else tf.TensorShape([]) for v in (one, other)]
    shape = shapes[0] if shapes[0] == shapes[1] else _common(*shapes)
    return Hole(dtypes.pop(), shape, False)


def _common(one: tf.TensorShape, other: tf.TensorShape) -> tf.TensorShape:
    from recgraph.speculate.profile import common_shape

    return common_shape(one, other)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, tf.Tensor)


def _is_number(value: Any) -> bool:
    if isinstance(value, Residual):
        return value.tensor is not None or isinstance(value.example, bool | int | float)
    return type(value) in (bool, int, float)


def _kind(value: Any) -> tf.DType:
    if isinstance(value, Residual) and value.tensor is not None:
        return value.tensor.dtype
    kind = type(value.example if isinstance(value, Residual) else value)
    return {bool: tf.bool, int: tf.int64, float: tf.float64}[kind]


def _describe(value: Any) -> str:
    return f"tensor {value.dtype.name}{value.shape}" if _is_tensor(value) else repr(value)[:60]


def tensors(ev: Evaluator, pattern: Any, value: Any) -> list[tf.Tensor]:
    """The tensors that go into the holes of a template."""
    if isinstance(pattern, Hole):
        if _is_tensor(value):
            return [value]
        if isinstance(value, Residual):
            return [residuals.as_tensor(ev, value, ev._here, pattern.dtype)]  # type: ignore[arg-type]
        return [tf.constant(value, pattern.dtype)]
    if isinstance(pattern, list | tuple) and not isinstance(value, Missing):
        return [t for p, v in zip(pattern, value, strict=True) for t in tensors(ev, p, v)]
    if isinstance(pattern, dict):
        return [t for key in pattern for t in tensors(ev, pattern[key], value[key])]
    return []


def filled(pattern: Any, values: Iterator[tf.Tensor]) -> Any:
    """A template with tensors in its holes."""
    if isinstance(pattern, Hole):
        value = next(values)
        return Residual("", tensor=value, late=True) if pattern.is_number else value
    if isinstance(pattern, list | tuple) and any(map(_has_holes, pattern)):
        members = [filled(p, values) for p in pattern]
        return type(pattern)._make(members) if hasattr(pattern, "_make") else type(pattern)(members)
    if isinstance(pattern, dict) and any(map(_has_holes, pattern.values())):
        return {key: filled(p, values) for key, p in pattern.items()}
    return pattern


def _has_holes(pattern: Any) -> bool:
    if isinstance(pattern, list | tuple):
        return any(map(_has_holes, pattern))
    if isinstance(pattern, dict):
        return any(map(_has_holes, pattern.values()))
    return isinstance(pattern, Hole)


def holes(pattern: Any) -> list[Hole]:
    """The holes of a template, in order."""
    if isinstance(pattern, Hole):
        return [pattern]
    if isinstance(pattern, list | tuple):
        return [hole for p in pattern for hole in holes(p)]
    if isinstance(pattern, dict):
        return [hole for p in pattern.values() for hole in holes(p)]
    return []
