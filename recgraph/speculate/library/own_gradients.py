"""Functions that `tf.custom_gradient` makes, given more than tensors.

In a graph TensorFlow makes tensors of all arguments, and takes none by name. Eagerly the function inside gets what it
is given: a flag, a number that takes the dtype of the tensor beside it. So the tensors alone are given to TensorFlow,
and the function inside, which is converted, gets them and all the rest as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.frames import watched
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script.symbolic import MadeFunction, is_tensor_like
from recgraph.speculate.values import library_calls
from recgraph.speculate.values.functions import Closure


def is_given_more(ev: Evaluator, function: Any, arguments: list[Any], named: dict[str, Any]) -> bool:
    """Whether a function that `tf.custom_gradient` has made of one of the program's is given more than tensors."""
    if _inside(function) is None:
        return False
    return bool(named) or not all(map(_is_tensor, tf.nest.flatten([ev.lift(a) for a in arguments])))


def call(ev: Evaluator, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Calls it with its tensors.

    Raises:
        Inconvertible: it is given ragged or sparse tensors, for each of which its gradient gives several.
    """
    inside, given = _inside(function), [ev.lift(a) for a in arguments]
    leaves = tf.nest.flatten(given)
    places = [i for i, leaf in enumerate(leaves) if _is_tensor(leaf)]
    if any(isinstance(leaf, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices) for leaf in leaves):
        raise ev.refuse(Feature.RAGGED, "a ragged or sparse tensor and numbers are given to tf.custom_gradient")

    @tf.custom_gradient
    def of_tensors(*tensors: tf.Tensor) -> Any:
        placed = dict(zip(places, tensors, strict=True))
        packed = tf.nest.pack_sequence_as(given, [placed.get(i, leaf) for i, leaf in enumerate(leaves)])
        with watched(None):
            result, gradient = ev.members(ev.call(inside, packed, named))
            return library_calls.argument(ev, result, []), _of_places(ev, gradient, places, len(leaves))

    return library_calls.build(ev, of_tensors, [leaves[place] for place in places], {})


def _inside(function: Any) -> Any:
    """The program's function in one that `tf.custom_gradient` has made."""
    inside = tf_private.with_own_gradient(function)
    inside = inside.function if isinstance(inside, library_calls.Callback) else inside
    return inside if isinstance(inside, MadeFunction) or known.is_users_function(inside) else None


def _is_tensor(value: Any) -> bool:
    return is_tensor_like(value) or isinstance(value, tf.Tensor)


def _of_places(ev: Evaluator, gradient: Any, places: Sequence[int], count: int) -> Any:
    """The gradient function that the program gives, which has one for each argument, for some of these."""

    def of_tensors(upstream: tuple[Any, ...], variables: Any = None) -> Any:
        named = {"variables": variables} if variables else {}
        with library_calls.called_back(ev), watched(None):
            found = ev.lift(ev.call(gradient, list(upstream), named))
        found, of_variables = found if variables else (found, [])
        flat = tf.nest.flatten(found)
        if len(flat) != count:
            raise ev.refuse(Feature.RAISES, f"{len(flat)} gradients for {count} arguments of tf.custom_gradient")
        of_places = [library_calls.argument(ev, flat[place], []) for place in places]
        return (of_places, of_variables) if variables else of_places

    if _takes_variables(ev, gradient):  # TensorFlow asks the signature
        return lambda *upstream, variables=None: of_tensors(upstream, variables)
    return lambda *upstream: of_tensors(upstream)


def _takes_variables(ev: Evaluator, gradient: Any) -> bool:
    if isinstance(gradient, Closure):
        parts = gradient.node.args
        return parts.kwarg is not None or any(one.arg == "variables" for one in [*parts.args, *parts.kwonlyargs])
    if not known.is_users_function(gradient):
        raise ev.refuse(Feature.WRAPPED_FUNCTION, "the gradient function of tf.custom_gradient is none of the program")
    parameters = inspect.signature(gradient).parameters.values()
    return any(one.name == "variables" or one.kind is one.VAR_KEYWORD for one in parameters)
