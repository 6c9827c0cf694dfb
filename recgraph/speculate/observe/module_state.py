"""Which variables and modules TensorFlow finds in a module, and whether variables are trainable.

TensorFlow goes through all attributes each time it is asked. So does a graph only where an attribute or container has
changed that may lead to a variable: dictionaries know whether they were written.
"""

from __future__ import annotations

import operator
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.speculate.observe.snapshots import Members, Snapshot, WeakData, WeakObject, members_of

# What leads to no variable. Texts may be names, by which TensorFlow sorts.
_DATA = (bool, int, float, complex, bytes, type(None), types.FunctionType, np.generic, np.ndarray, tf.Tensor)

# What TensorFlow does not look into: its own lists, for checkpoints.
_IGNORED = frozenset({"_self_unconditional_checkpoint_dependencies", "_self_unconditional_dependency_names"})


def unchanged(module: tf.Module) -> Callable[[], bool]:
    """A function that tells whether TensorFlow finds in a module what it finds now."""
    reference, expected = weakref.ref(module), tuple(map(_held, _discovered(module)))
    holds = _snapshot(module)

    def check() -> bool:
        nonlocal holds
        if holds():
            return True
        alive = reference()
        if alive is None or not _are_same(_discovered(alive), expected):
            return False
        holds = _snapshot(alive)
        return True

    return check


def as_trainable(variables: Iterable[tf.Variable]) -> Callable[[], bool]:
    """A function that tells whether variables are trainable that are now, and no others."""
    snapshot = Snapshot(operator.is_)
    for variable in variables:
        if "_trainable" in vars(variable):
            snapshot.note(variable, {"_trainable": variable.trainable})
    return snapshot.checker()


def _discovered(module: Any) -> list[Any]:
    collected: Any = tf.Module
    variables = list(collected.variables.fget(module))
    return [*variables, *(v.trainable for v in variables), *collected.submodules.fget(module)]


def _held(found: Any) -> Any:
    return found if isinstance(found, bool) else weakref.ref(found)


def _are_same(found: list[Any], expected: tuple[Any, ...]) -> bool:
    pairs = zip(map(_held, found), expected, strict=False)
    return len(found) == len(expected) and all(a is b for a, b in pairs)


def _snapshot(module: tf.Module) -> Callable[[], bool]:
    """A quick check, which may say no though TensorFlow would find the same."""
    snapshot = Snapshot(_will_do, _DATA)
    for one in (module, *module.submodules):
        snapshot.note_all(one, _IGNORED)
    is_held, are_trainable = snapshot.checker(), as_trainable(module.variables)
    return lambda: is_held() and are_trainable()


def _will_do(found: Any, expected: Any) -> bool:
    """Whether something is what was there, or data where there was data: that may have changed, also in number."""
    if isinstance(expected, Members):
        members = members_of(found) if type(found) is expected.kind else None
        if members is None:
            return False
        pairs = zip(members, expected[2:], strict=False)
        more = *members[len(expected) - 2 :], *expected[2 + len(members) :]
        return all(_will_do(one, other) for one, other in pairs) and all(map(_is_data, more))
    if isinstance(expected, WeakObject) and not isinstance(expected, WeakData):
        return expected() is found
    return found is expected or (_is_data(found) and _is_data(expected))


def _is_data(value: Any) -> bool:
    return isinstance(value, (*_DATA, WeakData))
