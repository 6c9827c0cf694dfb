"""`rg.optimize`: anybody's function or SavedModel, with the substitutions that make it faster."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import defects, logs, ops, tf_private
from recgraph.errors import RecgraphError
from recgraph.explaining import Explanation
from recgraph.optimize.bridge import graphs, measuring

_LOG = logs.logger("optimize")

# A rewritten function is used if it takes this part of the other's time at most.
MARGIN = 0.97
# Calls of each before time is taken: what is kept of weights is kept then.
_FIRST = 4
# Calls of each that are timed at least, and at most.
_FEWEST, _MOST = 9, 400


class OptimizeError(RecgraphError, ValueError):
    """A function cannot be optimized as it was asked for."""

    id = "optimize"


class OptimizedFunction(tf_private.TellingFunction):
    """A concrete function, and what was done to make it faster.

    Attributes:
        is_rewritten: whether it is another graph than the given one.
        model: what `tf.saved_model.load` gave, where the function is of a SavedModel; else None.
    """

    def __init__(self, concrete: Any, is_rewritten: bool, lines: list[str], model: Any = None) -> None:
        self.__dict__.update(vars(concrete))
        self.is_rewritten, self.model = is_rewritten, model
        self._lines = lines

    def explain(self) -> Explanation:
        """Says what was done, by which substitutions, and what was measured."""
        return Explanation.of(f"optimized {self.graph.name}", self._lines, [], [])


def optimize(
    function: Any,
    *arguments: Any,
    signature: str = "serving_default",
    seconds: float = 10.0,
    gradients: bool = True,
    training: bool = False,
    search: str = "backtracking",
    **named: Any,
) -> OptimizedFunction:
    """Makes a function faster by substitutions: it puts together matrix products, and sums of products.

    The result computes the same up to rounding (see docs/substitution.md), with the same signature, variables,
    captured tensors and structure of results. It is the given function where no substitution applies, or where it is
    not measured to be faster. It can be called, differentiated, and saved in a SavedModel, which loads where recgraph
    is imported.

    Args:
        function: a concrete function, a `tf.function`, or the folder of a SavedModel.
        *arguments: of a call, as tensors or as `tf.TensorSpec`s. A `tf.function` is traced with them. The function is
            called with them to be timed; `TensorSpec`s, and what is missing, are random numbers (integers are 0), with
            1 for each unknown size.
        signature: of the SavedModel.
        seconds: what search and timing may take together; tracing comes on top.
        gradients: whether the result has gradients. Without them, functions with gradients of their own
            (`tf.custom_gradient`) are optimized, too, and whoever asks for a gradient gets an error.
        training: whether what is timed is a call with the gradients by all trainable variables, not a call alone.
        search: "backtracking", or "saturation", which applies all substitutions at once and needs egglog (recgraph's
            extra `optimize`).
        **named: arguments by name.

    Returns:
        A concrete function, whose `explain()` says what was done.

    Raises:
        OptimizeError: `function` is none of these, the SavedModel has no such signature, or an argument is missing
            that random numbers cannot replace; or the function fails with the arguments that it is timed with; or there
            is no such search.

    Examples:
        >>> weights = [tf.Variable(tf.random.normal([64, 64])) for _ in range(3)]
        >>> @tf.function(autograph=False)
        ... def gates(x):
        ...     return [tf.tanh(x @ weight) for weight in weights]
        >>> faster = optimize(gates, tf.TensorSpec([8, 64]), seconds=1.0)
        >>> print(faster.explain().splitlines()[1])
        substitutions in gates: map 3 -> 1, matmul 3 -> 1
    """
    if training and not gradients:
        raise OptimizeError("training=True needs gradients=True")
    if search not in graphs.SEARCHES:
        raise OptimizeError("there is no such search", found=repr(search), expected=" or ".join(graphs.SEARCHES))
    concrete, model = _concrete(function, signature, arguments, named)
    try:
        return _optimize(concrete, model, arguments, named, seconds, gradients, training, search)
    except RecgraphError:
        raise
    except Exception as error:
        line = f"substitutions: {defects.contain(f'the rewriting of {concrete.graph.name}', error)}"
        return OptimizedFunction(concrete, False, [line], model)


def _concrete(function: Any, signature: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    """The function to rewrite, and the model that it is of."""
    if isinstance(function, str | Path):
        model = tf.saved_model.load(str(function))
        if signature not in model.signatures:
            known = ", ".join(map(repr, model.signatures)) or "none"
            raise OptimizeError("the SavedModel has no such signature", found=repr(signature), expected=known)
        return model.signatures[signature], model
    if isinstance(function, tf_private.ConcreteFunction):
        return function, None
    if hasattr(function, "get_concrete_function"):
        return function.get_concrete_function(*arguments, **named), None
    raise OptimizeError(
        "this cannot be optimized",
        found=type(function).__name__,
        expected="a concrete function, a tf.function, or the folder of a SavedModel",
    )


def _optimize(
    concrete: Any,
    model: Any,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    seconds: float,
    gradients: bool,
    training: bool,
    search: str,
) -> OptimizedFunction:
    why = next(_obstacles(concrete), None)
    if why is not None:
        return OptimizedFunction(concrete, False, [f"substitutions: none, {why}"], model)
    count = len(concrete.function_def.signature.output_arg)
    start = time.perf_counter()
    found = graphs.rewritten(concrete.graph, count, seconds / 2, gradients, search)
    if found.graph is None:
        return OptimizedFunction(concrete, False, found.lines, model)
    made = tf_private.concrete_like(concrete, found.graph)
    given = _examples(concrete, arguments, named)
    calls = [_call(one, *given, training) for one in (concrete, made)]
    try:
        before, after, count = _in_turns(calls, max(seconds - (time.perf_counter() - start), 0.0))
    except tf.errors.OpError as error:
        raise OptimizeError(
            "the function cannot be called with the arguments that it is to be timed with",
            found=error.message.strip().splitlines()[0],
            next_step="give others",
        ) from error
    is_better = after <= MARGIN * before
    lines = [
        *found.lines,
        f"measured {before * 1e6:.0f} -> {after * 1e6:.0f} us a {'call with gradients' if training else 'call'}, "
        f"medians of {count} calls each in turns: {'used' if is_better else 'left as it was'}",
    ]
    _LOG.info("%s", "\n".join(lines))
    return OptimizedFunction(made if is_better else concrete, is_better, lines, model)


def _obstacles(concrete: Any) -> Iterator[str]:
    """Why a function is neither rewritten nor timed."""
    attributes = dict(concrete.function_def.attr)
    if "_XlaMustCompile" in attributes and attributes["_XlaMustCompile"].b:
        yield "XLA compiles it"
    for effect in filter(None, map(_effect_of, graphs.all_operations(concrete.graph))):
        yield f"to time it would have effects: {effect}"


def _effect_of(op: tf.Operation) -> str:
    """What can be seen of an operation besides its results: who draws random numbers changes what is drawn next, and a
    SubGraph may do anything."""
    effects, is_seen = ops.effects(op), ops.facts(op.type).state in (ops.State.RANDOM, ops.State.OURS)
    return f"'{op.name}' ({effects.others or op.type})" if effects or is_seen else ""


def _examples(concrete: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    """Arguments to time a function with."""
    specs, named_specs = concrete.structured_input_signature
    filled = [*arguments, *specs[len(arguments) :]]
    random = np.random.default_rng(0)
    return tf.nest.map_structure(lambda one: _example(one, random), (filled, {**named_specs, **named}))


def _example(one: Any, random: np.random.Generator) -> Any:
    if not isinstance(one, tf.TypeSpec):
        return one
    if not isinstance(one, tf.TensorSpec) or one.shape.rank is None or one.dtype in (tf.resource, tf.variant):
        raise OptimizeError("random numbers cannot stand for this argument; give one to time with", found=str(one))
    shape = [1 if size is None else size for size in one.shape]
    if one.dtype.is_floating:
        return tf.constant(random.normal(size=shape), one.dtype)
    return tf.fill(shape, "") if one.dtype == tf.string else tf.zeros(shape, one.dtype)


def _call(concrete: Any, arguments: Any, named: Any, training: bool) -> Callable[[], None]:
    """A call that has ended when it returns."""

    def call() -> None:
        if not training:
            found = concrete(*arguments, **named)
        else:
            with tf.GradientTape() as tape:
                results = tf.nest.flatten(concrete(*arguments, **named), expand_composites=True)
                losses = [tf.reduce_sum(one) for one in results if tf.is_tensor(one) and one.dtype.is_floating]
            found = tape.gradient(losses, concrete.trainable_variables)
        for one in tf.nest.flatten(found, expand_composites=True):
            if isinstance(one, tf_private.EagerTensor):
                one.numpy()

    return call


def _in_turns(calls: list[Callable[[], None]], seconds: float) -> tuple[float, float, int]:
    """The median seconds of two calls that take turns, and how many of each were timed."""
    for _ in range(_FIRST):
        for call in calls:
            call()
    times: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    while len(times[0]) < _FEWEST or len(times[0]) < _MOST and time.perf_counter() < end:
        for call, own in zip(calls, times, strict=True):
            own.append(measuring.seconds_of(call))
    return statistics.median(times[0]), statistics.median(times[1]), len(times[0])
