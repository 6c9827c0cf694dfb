"""What TensorFlow asks of numbers: where one differs from call to call it is given a tensor, which it asks nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script.assumptions import SameDecision
from recgraph.speculate.script.contexts import CalledBack
from recgraph.speculate.script.symbolic import DynamicValue, is_symbolic
from recgraph.speculate.values import library_calls


def may_become(natural: tf.DType, dtype: tf.DType) -> bool:
    """Whether eager TensorFlow makes a tensor of this dtype of a number that is one of the natural dtype by itself."""
    if natural.is_integer:
        return bool(dtype.is_integer or dtype.is_floating or dtype.is_complex)
    return natural == dtype or bool(natural.is_floating and (dtype.is_floating or dtype.is_complex))


def _packing(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """Tensors in a list are cast to the dtype that is wanted; numbers would have to fit."""
    members, dtype, *_ = values
    for member in tf.nest.flatten(members) if dtype is not None else []:
        natural = member.dtype if _number(ev, member) is not None else dtype
        is_narrow = dtype.is_integer and natural.is_integer and dtype.max < natural.max
        if not may_become(natural, dtype) or is_narrow:
            raise ev.refuse(Feature.RAISES, f"a number of {natural.name} in a list of {dtype.name}")
    return library_calls.PLAIN


def _constant(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """Flags are no numbers in eager execution."""
    value, dtype, *_ = values
    leaves = tf.nest.flatten(value) if isinstance(value, bool | list | tuple) else []
    flags = [isinstance(leaf, bool | np.bool_) for leaf in leaves]
    if any(flags) and not (all(flags) and dtype in (None, tf.bool)):
        raise ev.refuse(Feature.RAISES, "a flag where a number is wanted")
    return library_calls.PLAIN


def _dropping(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """A rate of 0 drops nothing, and others beyond 0 and 1 raise."""
    _, given, _, sampler, *_ = values
    if isinstance(given, int | float) and given == 0 and getattr(sampler, "func", None) is tf.random.uniform:
        sampler(shape=[], dtype=tf.float32)  # eagerly, the next operation draws as if this one had drawn
    if _number(ev, given) is not None:
        _assume_between(ev, given, "0 < {} < 1", lambda rate: (rate > 0) & (rate < 1))
    return library_calls.PLAIN


def _hue(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """Only eagerly, TensorFlow looks whether the change is a possible one."""
    _assume_between(ev, values[1], "-1 <= {} <= 1", lambda change: (change >= -1) & (change <= 1))
    return library_calls.PLAIN


def _cropping(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """Only of what it knows, TensorFlow looks whether the part is a possible one."""
    _assume_between(ev, values[1], "0 < {} < 1", lambda part: (part > 0) & (part < 1))
    return library_calls.PLAIN


def _assume_between(ev: Evaluator, value: Any, condition: str, holds: Callable[[Any], Any]) -> None:
    """Checks that a value which differs from call to call is within bounds; the script has the condition as a text."""
    number = _number(ev, value)
    what = ev.noted(SameDecision, f"{condition.format('a number')}")
    if number is not None and number.tensor is None:
        if not holds(number.example):
            raise ev.refuse(Feature.RAISES, "a number that differs from call to call is beyond its bounds")
        ev.script.assume(condition.format(number.name), what)
    elif is_symbolic(value):
        if ev.inside(CalledBack):
            raise ev.refuse(Feature.LATE_VALUE, "a number with bounds is known only after the graph has run")
        ev.assert_in_graph(tf.reduce_all(holds(value)), what)


def _seeding(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """A number is the first of the state's, with its sign in the others; a tensor the last."""
    size, seed = values
    if _number(ev, seed) is None or not seed.dtype.is_integer:
        return library_calls.PLAIN
    first = tf.cast(seed, tf.int64)
    return tf.stack([first, *[tf.where(first < 0, tf.constant(-1, tf.int64), 0)] * (int(size) - 1)])


def _making_eye(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """Sizes are integers."""
    sizes = values[:2]
    if any(isinstance(v, bool) or (_number(ev, v) is not None and not v.dtype.is_integer) for v in sizes):
        raise ev.refuse(Feature.RAISES, "the size of a matrix is no integer")
    return library_calls.PLAIN


def float_as(ev: Evaluator, value: Any, dtype: Any) -> tf.Tensor | None:
    """A float for which Keras was given a tensor, in another dtype that Keras knows; None of what is none."""
    number = _number(ev, value)
    if number is None or not value.dtype.is_floating:
        return None
    wanted = tf.as_dtype(keras.backend.standardize_dtype(dtype))
    return tf.identity(ev.tensor(number, wanted)) if wanted.is_floating else None


def _number(ev: Evaluator, value: Any) -> DynamicValue | None:
    """The number that a library was given as this tensor."""
    _, number = ev.numbers.get(id(value), (None, None))
    return number


RULES: Final = {
    tf_private.PACKING: _packing,
    tf_private.MAKING_CONSTANT: _constant,
    tf_private.DROPPING: _dropping,
    tf_private.CHANGING_HUE: _hue,
    tf_private.CROPPING: _cropping,
    tf_private.SEEDING: _seeding,
    tf_private.MAKING_EYE: _making_eye,
}
library_calls.REPLACED.update(RULES)
