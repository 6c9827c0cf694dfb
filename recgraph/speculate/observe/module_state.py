"""Which variables and modules TensorFlow finds in a module, and whether variables are trainable.

TensorFlow goes through all attributes each time it is asked. So does a graph only where an attribute or container has
changed that may lead to a variable: dictionaries know whether they were written.
"""

from __future__ import annotations

import array
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import native, tf_private
from recgraph.speculate.observe.keras_state import members_of

# What leads to no variable. Texts may be names, by which TensorFlow sorts.
_DATA = (bool, int, float, complex, bytes, type(None), types.FunctionType, np.generic, np.ndarray, tf.Tensor)


def unchanged(module: tf.Module) -> Callable[[], bool]:
    """A function that tells whether TensorFlow finds in a module what it finds now."""
    reference, expected = weakref.ref(module), _found(module)
    holds = _snapshot(module)

    def check() -> bool:
        nonlocal holds
        if holds():
            return True
        alive = reference()
        if alive is None or not _are_same(_found(alive), expected):
            return False
        holds = _snapshot(alive)
        return True

    return check


def as_trainable(variables: Iterable[tf.Variable]) -> Callable[[], bool]:
    """A function that tells whether variables are trainable that are now, and no others."""
    parts = tuple((weakref.ref(v), ("_trainable",), (v.trainable,)) for v in variables if "_trainable" in vars(v))
    return _holding(parts, _are_same)


def _found(module: Any) -> list[Any]:
    collected: Any = tf.Module
    variables = list(collected.variables.fget(module))
    return [*variables, *(v.trainable for v in variables), *collected.submodules.fget(module)]


def _snapshot(module: tf.Module) -> Callable[[], bool]:
    """A quick check, which may say no though TensorFlow would find the same."""
    modules = [module, *module.submodules]
    containers = [vars(one) for one in modules]
    containers += [inner for attributes in list(containers) for inner in _containers(attributes.values())]
    is_held = _holding(tuple((c, None, members_of(c)) for c in containers), _are_same_but_data)
    are_trainable = as_trainable(module.variables)
    return lambda: is_held() and are_trainable()


def _holding(parts: tuple[Any, ...], is_alike: Callable[[Any, Any], bool]) -> Callable[[], bool]:
    holds, versions = native.snapshots().holds, array.array("Q", [0] * len(parts))
    return lambda: bool(holds(parts, versions, members_of, is_alike))


def _containers(values: Iterable[Any]) -> Iterator[Any]:
    """The lists and dicts among values, and in them."""
    for value in values:
        inner = tf_private.wrapped_container(value)
        if isinstance(inner, list | dict):
            yield inner
        if isinstance(inner, list | dict | tuple):
            yield from _containers(inner.values() if isinstance(inner, dict) else inner)


def _are_same_but_data(found: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    """Whether containers hold the same at each place, or data that may have changed, also in number."""
    pairs = zip(found, expected, strict=False)
    more = (*found[len(expected) :], *expected[len(found) :])
    return all(a is b or _are_data(a, b) for a, b in pairs) and _are_data(*more)


def _are_data(*values: Any) -> bool:
    return all(isinstance(value, _DATA) for value in values)


def _are_same(found: Any, expected: Any) -> bool:
    if isinstance(found, bool):
        return found is expected
    return len(found) == len(expected) and all(a is b for a, b in zip(found, expected, strict=True))
