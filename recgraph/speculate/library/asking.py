"""What TensorFlow asks of numbers: where one differs from call to call it is given a tensor, which it asks nothing."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script.assumptions import SameDecision
from recgraph.speculate.script.contexts import CalledBack
from recgraph.speculate.script.stand_ins import Residual
from recgraph.speculate.values import building


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
    return building.PLAIN


def _constant(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """Flags are no numbers in eager execution."""
    value, dtype, *_ = values
    leaves = tf.nest.flatten(value) if isinstance(value, bool | list | tuple) else []
    flags = [isinstance(leaf, bool | np.bool_) for leaf in leaves]
    if any(flags) and not (all(flags) and dtype in (None, tf.bool)):
        raise ev.refuse(Feature.RAISES, "a flag where a number is wanted")
    return building.PLAIN


def _dropping(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """A rate of 0 drops nothing, and others beyond 0 and 1 raise."""
    _, given, _, sampler, *_ = values
    if isinstance(given, int | float) and given == 0 and getattr(sampler, "func", None) is tf.random.uniform:
        sampler(shape=[], dtype=tf.float32)  # eagerly, the next operation draws as if this one had drawn
    rate = _number(ev, given)
    if rate is None:
        return building.PLAIN
    what = ev.noted(SameDecision, "a rate between 0 and 1")
    if rate.tensor is not None:
        if ev.inside(CalledBack):
            raise ev.refuse(Feature.LATE_VALUE, "a rate is known only after the graph has run")
        ev.assert_in_graph((rate.tensor > 0.0) & (rate.tensor < 1.0), what)
    elif 0 < rate.example < 1:
        ev.script.assume(f"0 < {rate.name} < 1", what)
    else:
        raise ev.refuse(Feature.RAISES, "a rate that differs from call to call is not between 0 and 1")
    return building.PLAIN


def _seeding(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """A number is the first of the state's, with its sign in the others; a tensor the last."""
    size, seed = values
    if _number(ev, seed) is None:
        return building.PLAIN
    first = tf.cast(seed, tf.int64)
    return tf.stack([first, *[tf.where(first < 0, tf.constant(-1, tf.int64), 0)] * (int(size) - 1)])


def _making_eye(ev: Evaluator, values: tuple[Any, ...]) -> Any:
    """Sizes are integers."""
    sizes = values[:2]
    if any(isinstance(v, bool) or (_number(ev, v) is not None and not v.dtype.is_integer) for v in sizes):
        raise ev.refuse(Feature.RAISES, "the size of a matrix is no integer")
    return building.PLAIN


def _number(ev: Evaluator, value: Any) -> Residual | None:
    """The number that a library was given as this tensor."""
    _, number = ev.numbers.get(id(value), (None, None))
    return number


RULES: Final = {
    tf_private.PACKING: _packing,
    tf_private.MAKING_CONSTANT: _constant,
    tf_private.DROPPING: _dropping,
    tf_private.SEEDING: _seeding,
    tf_private.MAKING_EYE: _making_eye,
}
building.REPLACED.update(RULES)
