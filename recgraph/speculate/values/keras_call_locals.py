"""Objects of Keras's that the call makes, and drops: layers, metrics, optimizers.

They are made while the call is converted, with variables that live in its graph. So what they keep in Python is that of
one call, as it is eagerly. What they would share with others is refused: an object that was there before and is put
into one, or one that is given to such an object.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import keras_state, known
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script.contexts import MakingVariable
from recgraph.speculate.script.symbolic import DynamicValue

# Keras takes note in them of who uses them.
_KEEPING = (keras.Layer, keras.metrics.Metric, keras.Optimizer)


class Seed(int):
    """A seed that Keras draws for an object: the one of the call that is converted.

    Attributes:
        drawn: the one of each call.
    """

    drawn: DynamicValue

    @classmethod
    def of(cls, drawn: DynamicValue) -> Seed:
        """What stands for a number that was drawn."""
        made = cls(drawn.example)
        made.drawn = drawn
        return made


@contextlib.contextmanager
def used(ev: Evaluator, function: Any, arguments: list[Any], named: dict[str, Any]) -> Iterator[None]:
    """While a library is called: it may make an object of Keras's, or use one that the call has made."""
    newborn, owner = ev.script.newborn, owner_of(function)
    if not (newborn.has(owner) or (isinstance(function, type) and _makes(function))):
        _refuse_sharing(ev, function, arguments, named)
        yield
        return
    for thing in _members([*arguments, *named.values()]):
        if not keras_state.has_state(thing) or newborn.has(thing):
            continue
        if isinstance(thing, _KEEPING):
            raise ev.refuse(
                Feature.NEW_VARIABLE,
                f"a {type(thing).__name__} from before the call is put into an object that it makes",
            )
        ev.heap.given(thing, ev.where())
    if not _is_certain(ev):  # it makes no variables then
        yield
        return
    before = tf_private.name_counts()
    with ev.within(MakingVariable()):
        yield
    newborn.name(before, tf_private.name_counts())


def _refuse_sharing(ev: Evaluator, function: Any, arguments: list[Any], named: dict[str, Any]) -> None:
    """Checks that nothing from before the call gets what the call makes, and no property changes that in a branch."""
    newborn, owner = ev.script.newborn, owner_of(function)
    is_changed = owner is function and any(isinstance(x, _KEEPING) and newborn.has(x) for x in arguments[:1])
    if is_changed and not _is_certain(ev):
        raise ev.refuse(Feature.NEW_VARIABLE, "an object that the call makes is changed where a tensor decides")
    if isinstance(owner, type) or not keras_state.has_state(owner):
        return
    for thing in _members([*arguments, *named.values()]):
        if isinstance(thing, keras.KerasTensor) or (isinstance(thing, _KEEPING) and newborn.has(thing)):
            raise ev.refuse(
                Feature.NEW_VARIABLE, f"a {type(owner).__name__} may keep an object of Keras's that the call makes"
            )


def owner_of(function: Any) -> Any:
    """The object that a function is a method of; else the function. Keras wraps `build` anew for each layer."""
    wrapped = getattr(function, "__wrapped__", None) if isinstance(function, types.FunctionType) else None
    return getattr(function, "__self__", getattr(wrapped, "__self__", function))


def _makes(kind: type) -> bool:
    return any(known.top_package(base) == "keras" for base in kind.__mro__)


def _is_certain(ev: Evaluator) -> bool:
    """Whether the program gets here in every call, once."""
    return not ev.contexts.forks and tf_private.current_graph() is ev.graph


def taken(ev: Evaluator, owner: Any, value: Any) -> Any:
    """What a library gives, which has made it or has it from an object that the call has made.

    Raises:
        Inconvertible: it tells a name that Keras gives to another object in each call.
    """
    if not (isinstance(owner, type) and _makes(owner)) and not ev.script.newborn.has(owner):
        return value
    if isinstance(value, Seed):
        return value.drawn
    for member in _members(value):
        if isinstance(member, str) and ev.script.newborn.is_named_in(member):
            raise ev.refuse(Feature.NEW_VARIABLE, "the program asks for a name that is another one in each call")
        if keras_state.has_state(member) or isinstance(member, tf.Variable):
            ev.script.newborn.add(member, ev.where())
    return value


def _members(value: Any) -> Iterator[Any]:
    """What is in lists, tuples and dicts, keys of these among it."""
    if isinstance(value, dict):
        yield from (key for key in value if isinstance(key, str))
        yield from _members(list(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for member in value:
            yield from _members(member)
    else:
        yield value
