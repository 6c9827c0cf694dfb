"""Calls of what is not the user's: builtins, TensorFlow, Keras, NumPy. A table says which are special and how."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.core.subgraph import SubGraph
from recgraph.cpython import sources
from recgraph.defects import described
from recgraph.speculate.evaluate import branches
from recgraph.speculate.library import SPECIAL, Arguments, Special, draws, own_gradients, scalar_checks, special
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import keras_state, known
from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.observe.syntax import syntax_of
from recgraph.speculate.passes import connections, ordering
from recgraph.speculate.passes.ordering import subgraph_writes
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import NoException, SameDecision
from recgraph.speculate.script.contexts import CalledBack, Fork, MakingVariable
from recgraph.speculate.script.symbolic import DynamicValue, LateCall, ListSegment, is_symbolic
from recgraph.speculate.values import keras_call_locals, library_calls, lists
from recgraph.speculate.values.merging import SpecLeaf

_REFUSED = {
    tf.py_function: "tf.py_function runs Python",
    tf.numpy_function: "tf.numpy_function runs Python",
    tf.function: "a new tf.function",
    tf.config.run_functions_eagerly: "a setting of TensorFlow",
    tf.io.read_file: "what a file holds may change",
    tf.io.matching_files: "which files there are may change",
    tf.get_static_value: "it tells of a graph what eager execution does not have",
    tf.is_symbolic_tensor: "it tells of a graph what eager execution does not have",
    tf.random.get_global_generator: "the global generator may be another one later",
    tf.summary.experimental.get_step: "the default step of summaries may change",
    **dict.fromkeys(
        (keras.config.epsilon, keras.config.floatx, keras.config.image_data_format), "a setting of Keras may change"
    ),
}
_RUNNING = frozenset(
    {"fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch", "compile", "save"}
)
_STRATEGIES = (tf.distribute.Strategy, tf.distribute.StrategyExtended, tf.distribute.ReplicaContext)
_FILES = (tf.io.gfile.GFile, tf.train.CheckpointManager)
_LOSSES = frozenset({"compute_loss", "_compute_loss"})
_SETTINGS = ("set_", "reset_", "enable_", "disable_", "clear_")


def framework(ev: Evaluator, function: Any, arguments: Arguments, named: dict[str, Any]) -> Any:
    """A call of TensorFlow or Keras, which makes operations."""
    if known.is_hashable(function) and function in _REFUSED:
        raise ev.refuse(Feature.FRAMEWORK, _REFUSED[function])
    owner = getattr(function, "__self__", None)
    name = str(getattr(function, "__name__", ""))
    if str(getattr(function, "__module__", "")) == tf.io.gfile.exists.__module__ or isinstance(owner, _FILES):
        raise ev.refuse(Feature.FRAMEWORK, f"{name} reads or changes files")
    if isinstance(owner, keras.utils.Progbar) or function is keras.utils.Progbar:
        raise ev.refuse(Feature.FRAMEWORK, "a progress bar of Keras's runs Python")
    if isinstance(owner, _STRATEGIES):
        kind = type(owner).__name__.lstrip("_")
        raise ev.refuse(Feature.DISTRIBUTION, f"{name}() of a {kind} of tf.distribute")
    if tf_private.is_iterator(owner):
        if name not in ("get_next", "next", "__next__"):
            raise ev.refuse(Feature.ITERATOR, f"{name} of an iterator over a dataset")
        return draws.take(ev, owner)
    if owner is None and name.startswith(_SETTINGS):
        raise ev.refuse(Feature.FRAMEWORK, f"{name} is a setting of a library")
    called = next((thing for thing in (owner, function) if isinstance(thing, SubGraph)), None)
    if called is not None and subgraph_writes(called):
        raise ev.refuse(Feature.EFFECTS, f"the SubGraph {called.name} has effects, which could not be undone")
    if isinstance(owner, keras.Model) and name in _RUNNING:
        raise ev.refuse(Feature.FRAMEWORK, f"{name} runs Python of Keras's own around the model")
    if isinstance(owner, keras.Model) and name in _LOSSES and keras_state.weighs_by_shape(owner, arguments, named):
        raise ev.refuse(
            Feature.SHAPE, "Keras weighs the loss of each output by the number of examples, if it is static"
        )
    if any(known.top_package(thing) == "keras" or keras_state.has_state(thing) for thing in (owner, function)):
        ev.heap.keras_called(ev.where())
    if own_gradients.is_given_more(ev, function, arguments, named):
        return own_gradients.call(ev, function, arguments, named)
    inner = wrapped(function)
    if inner is not None and not only_computes(inner):
        raise ev.refuse(Feature.WRAPPED_FUNCTION, f"{inner.__qualname__}, which {name} wraps, may do more than compute")
    if isinstance(owner, tf.GradientTape) and any(isinstance(a, DynamicValue) for a in symbolic.leaves(arguments)):
        raise ev.refuse(Feature.RAISES, f"{name}() needs tensors")
    is_call = isinstance(function, keras.Layer) or (isinstance(owner, keras.Layer) and name == "__call__")
    for thing in (owner, function):
        if ev.script.newborn.has(thing):
            continue
        if isinstance(thing, keras.Optimizer | keras.Layer) and not thing.built:
            raise ev.refuse(Feature.NEW_VARIABLE, f"a {type(thing).__name__} creates its variables")
        ev.heap.given(thing, ev.where(), forgets_losses=is_call and not tf_private.is_in_layer())
    connections.refuse_old_record(ev, owner)
    _refuse_replaced(ev, [owner, *arguments, *named.values()])
    if isinstance(owner, tf.GradientTape | tf.autodiff.ForwardAccumulator) and name in ("__enter__", "__exit__"):
        raise ev.refuse(
            Feature.TAPE,
            f"{name}() is called outside a `with` block, so nothing would stop the recording if the call fails",
        )
    if isinstance(owner, tf.GradientTape) and ev.contexts.forks > ev.tapes.get(id(owner), 0):
        raise ev.refuse(Feature.TAPE, "a tensor-dependent branch uses a tape that was opened around it")
    recorded = None
    if isinstance(owner, tf.GradientTape):
        recorded = connections.before(ev, owner, name, *_lifted(ev, arguments, named))
    elif function is tf.autodiff.ForwardAccumulator:
        connections.follow(ev, _lifted(ev, arguments, named))
    seen = library_calls.converted(ev) if inner is None else contextlib.nullcontext()
    with keras_call_locals.used(ev, function, arguments, named), seen, ordering.noted(owner, name, arguments, named):
        try:
            result = library_calls.build(ev, function, arguments, named)
        except Inconvertible as reason:
            if isinstance(owner, tf.GradientTape) and connections.is_asked(name):
                connections.unroll_underivable(ev, reason)
            raise
    if isinstance(owner, tf.TensorArray) and isinstance(result, tf.TensorArray):
        ev.replaced[id(owner)] = owner
        ev.replaced_in.append((owner, ev.contexts.all(Fork)))
    result = keras_call_locals.taken(ev, keras_call_locals.owner_of(function), result)
    if isinstance(owner, tf.GradientTape) and connections.is_asked(name):
        return connections.check(ev, recorded, *_lifted(ev, arguments, named), result)
    if isinstance(owner, tf.autodiff.ForwardAccumulator) and name == "jvp":
        lifted, keywords = _lifted(ev, arguments, named)
        return connections.check_tangents(ev, (lifted, keywords), result)
    return None if isinstance(result, tf.Operation) else result  # eagerly one without results gives none


def _lifted(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return [ev.lift(a) for a in arguments], {k: ev.lift(v) for k, v in named.items()}


def _refuse_replaced(ev: Evaluator, values: list[Any]) -> None:
    """Eagerly, a TensorArray is changed where it is; in a graph it stays, and what the method gives is another."""
    forks = ev.contexts.all(Fork)
    for value in symbolic.leaves([values]):
        if not isinstance(value, tf.TensorArray):
            continue
        # On this way, or in a branch or loop that is over.
        is_over = any(one is value and any(fork not in forks for fork in place) for one, place in ev.replaced_in)
        if id(value) in ev.replaced or is_over:
            raise ev.refuse(Feature.IN_GRAPH, "a TensorArray is used after a write, in place of what that gave")


_OF_VARIABLES: Final = ("initial_value", "trainable", "validate_shape", "caching_device", "name")


@special(tf.Variable)
def _variable(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    if ev.contexts.forks:
        raise ev.refuse(Feature.NEW_VARIABLE, "a variable is made where a tensor decides")
    given = _by_name(_OF_VARIABLES, arguments, named)
    if callable(given.get("initial_value")):
        given["initial_value"] = ev.call(given["initial_value"], [], {})
    with ev.within(MakingVariable()):
        return ev.script.newborn.add(framework(ev, tf.Variable, [], given), ev.where())


@special(tf.is_tensor)
def _is_tensor(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> bool:
    if isinstance(arguments[0], DynamicValue):
        return False
    return bool(library_calls.build(ev, tf.is_tensor, arguments, named))


SPECIAL[tf.executing_eagerly] = lambda ev, arguments, named: True
SPECIAL[tf.inside_function] = lambda ev, arguments, named: False

# What a list of numbers becomes, by the types that are in it.
_DTYPES: Final[dict[frozenset[type], tf.DType]] = {
    frozenset({int}): tf.int32,
    frozenset({float}): tf.float32,
    frozenset({int, float}): tf.float32,
    frozenset({bool}): tf.bool,
    frozenset({str}): tf.string,
    frozenset({bytes}): tf.string,
}


def _making(function: Callable[..., Any], *names: str) -> Special:
    """`tf.constant` or `tf.convert_to_tensor`, which have these parameters."""

    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        given = _by_name(names, arguments, named)
        if (members := ev.with_runs(given.get("value"))) is not None:
            return _of_grown(ev, members, given)
        value = ev.lift(given.get("value"))
        if not _has_numbers(value):
            return framework(ev, function, arguments, named)
        hint = given.get("dtype_hint")
        tensor = _converted(ev, value, _dtype(ev, given), None if hint is None else tf.as_dtype(ev.concrete(hint)))
        if given.get("shape") is None:
            return tensor
        if tensor.shape.rank != 0:
            raise ev.refuse(Feature.VALUE, "tf.constant of several numbers that differ from call to call, in a shape")
        return library_calls.build(ev, tf.fill, [given["shape"], tensor], {})

    return convert


SPECIAL[tf.constant] = _making(tf.constant, "value", "dtype", "shape", "name")
SPECIAL[tf.convert_to_tensor] = _making(tf.convert_to_tensor, "value", "dtype", "dtype_hint", "name")


# What gives values that it is given as they are, also numbers that differ from call to call.
_MOVING: Final = (
    tf.nest.flatten, tf.nest.pack_sequence_as, tf.nest.is_nested, tf.compat.dimension_value, keras.tree.flatten,
    keras.tree.pack_sequence_as, keras.tree.is_nested, keras.tree.flatten_with_path,
)  # fmt: skip
# Which flattens and which packs, for what calls a function with each value.
_MAPPING: Final = {
    tf.nest.map_structure: (tf.nest.flatten, tf.nest.pack_sequence_as),
    keras.tree.map_structure: (keras.tree.flatten, keras.tree.pack_sequence_as),
}
_TREES: Final = (keras.tree.traverse, keras.tree.map_structure_up_to, keras.tree.map_shape_structure)


def _moving(function: Callable[..., Any], move: Callable[[Evaluator, Arguments, dict[str, Any]], Any]) -> Special:
    """One that only moves what it is given. Where that are tensors, TensorFlow or Keras does it."""

    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        lifted, keywords = [ev.lift(a) for a in arguments], {name: ev.lift(value) for name, value in named.items()}
        held = list(symbolic.leaves([lifted, keywords]))
        if not any(isinstance(one, DynamicValue) for one in held) or any(isinstance(one, ListSegment) for one in held):
            return framework(ev, function, arguments, named)
        try:
            return move(ev, lifted, keywords)
        except (TypeError, ValueError) as error:
            raise ev.refuse(Feature.RAISES, described(error)) from error

    return convert


def _mapping(function: Callable[..., Any]) -> Special:
    flatten, pack = _MAPPING[function]

    def move(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        called, *structures = arguments
        if named or not structures:
            raise ev.refuse(Feature.FRAMEWORK, f"{function.__name__} of numbers that differ, with options")
        for other in structures[1:]:
            tf.nest.assert_same_structure(structures[0], other)
        rows = zip(*map(flatten, structures), strict=True)
        return pack(structures[0], [ev.call(called, list(row), {}) for row in rows])

    return _moving(function, move)


def _giving(function: Callable[..., Any]) -> Special:
    return _moving(function, lambda ev, given, named: function(*given, **named))


def _refused_moving(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    raise ev.refuse(Feature.FRAMEWORK, "a function of keras.tree is given numbers that differ from call to call")


SPECIAL.update({f: _giving(f) for f in _MOVING})
SPECIAL.update({f: _mapping(f) for f in _MAPPING})
SPECIAL.update({f: _moving(f, _refused_moving) for f in _TREES})


@special(keras.ops.shape)
def _shape(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    """Numbers, as eager tensors have them."""
    if named or len(arguments) != 1 or not isinstance(arguments[0], tf.Tensor) or arguments[0].shape.rank is None:
        return framework(ev, keras.ops.shape, arguments, named)
    return tuple(ev.members(ev.get(arguments[0], "shape")))


def _of_arrays(function: Callable[..., Any]) -> Special:
    """A function of Keras's that gives an array where it is given no tensors."""

    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        lifted, keywords = [ev.lift(a) for a in arguments], {name: ev.lift(value) for name, value in named.items()}
        if any(map(is_symbolic, symbolic.leaves([*lifted, *keywords.values()]))):
            return framework(ev, function, arguments, named)
        return ev.python(function, lifted, keywords)

    return convert


SPECIAL.update({f: _of_arrays(f) for f in (keras.utils.normalize, keras.utils.to_categorical)})


@special(keras.layers.Layer.get_weights)
def _get_weights(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> list[Any]:
    """What `.numpy()` gives of each of them."""
    return [ev.call(ev.get(weight, "numpy"), [], {}) for weight in ev.members(ev.get(arguments[0], "weights"))]


def _by_name(names: Sequence[str], arguments: Arguments, named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function whose parameters have these names."""
    return dict(zip(names, arguments, strict=False)) | named


def _of_grown(ev: Evaluator, members: Any, given: dict[str, Any]) -> tf.Tensor:
    """Of a list of which only the graph knows the length."""
    if any(given.get(name) is not None for name in ("shape", "dtype_hint")):
        raise ev.refuse_runs("a tensor is made of a list with options that are not converted")
    wanted = _dtype(ev, given)
    rows = lists.packed(ev, members, wanted)
    if wanted not in (None, rows.dtype):
        raise ev.refuse_runs(f"a list of {rows.dtype.name} as {wanted.name}")
    return rows


def _dtype(ev: Evaluator, given: dict[str, Any]) -> tf.DType | None:
    dtype = given.get("dtype")
    return None if dtype is None else tf.dtypes.as_dtype(ev.concrete(dtype))


def _has_numbers(value: Any) -> bool:
    """Whether there are numbers that differ, and no tensors beside them."""
    found = list(symbolic.leaves([value]))
    return any(isinstance(one, DynamicValue) for one in found) and not any(map(is_symbolic, found))


def _converted(ev: Evaluator, value: Any, dtype: tf.DType | None, hint: tf.DType | None = None) -> tf.Tensor:
    """Numbers, in lists perhaps, as a tensor of the dtype that eager execution would choose."""
    kinds = frozenset(_kind(ev, one) for one in symbolic.leaves([value]))
    if any(issubclass(kind, np.ndarray | np.generic) for kind in kinds):
        return _of_array(ev, value, dtype, hint)
    natural = _DTYPES.get(kinds)
    if natural is None:
        raise ev.refuse(Feature.VALUE, f"a tensor of {', '.join(sorted(kind.__name__ for kind in kinds))}")
    if natural == tf.int32 and any(_is_long(one) for one in symbolic.leaves([value])):
        natural = tf.int64
    if dtype is None and hint is not None and scalar_checks.may_become(natural, hint):
        dtype = hint
    dtype = dtype or natural
    if not scalar_checks.may_become(natural, dtype):
        raise ev.refuse(Feature.RAISES, f"a {natural.name} as {dtype.name}")
    return _packed(ev, value, dtype)


def _kind(ev: Evaluator, one: Any) -> type:
    is_known = isinstance(one, DynamicValue) and (one.late or one.tensor is not None)
    return ev.type_of(one) if is_known else type(symbolic.example_of(one))


def _of_array(ev: Evaluator, value: Any, dtype: tf.DType | None, hint: tf.DType | None) -> tf.Tensor:
    if not isinstance(value, DynamicValue):
        raise ev.refuse(Feature.ARRAY, "a list of arrays that differ from call to call")
    tensor = ev.tensor(value)
    if dtype is None and hint not in (None, tensor.dtype):
        if not (tensor.dtype.is_floating and hint.is_floating):
            raise ev.refuse(Feature.ARRAY, f"an array of {tensor.dtype.name}, and {hint.name} as a hint")
        dtype = hint
    if dtype is None or dtype == tensor.dtype:
        return tf.identity(tensor)
    is_same = dtype.is_floating or (dtype.is_integer and not tensor.dtype.is_floating)  # as NumPy's own conversion
    if not is_same or not (tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool):
        raise ev.refuse(Feature.ARRAY, f"an array of {tensor.dtype.name} as {dtype.name}")
    return tf.cast(tensor, dtype)


def _is_long(one: Any) -> bool:
    """Whether a constant needs more than 32 bits."""
    return isinstance(one, int) and not tf.int32.min <= one <= tf.int32.max


def _packed(ev: Evaluator, value: Any, dtype: tf.DType) -> tf.Tensor:
    if isinstance(value, list | tuple):
        members = [_packed(ev, member, dtype) for member in value]
        return library_calls.build(ev, tf.stack, [members], {}) if members else tf.constant([], dtype)
    if not isinstance(value, DynamicValue):
        if dtype.is_integer and not dtype.min <= value <= dtype.max:  # in a graph, TensorFlow cuts it off
            raise ev.refuse(Feature.RAISES, f"an integer beyond {dtype.name}")
        return tf.constant(value, dtype)
    if dtype.is_integer and value.tensor is None and not value.late:
        limits = f"{dtype.min} <= {value.name} <= {dtype.max}"
        if not dtype.min <= value.example <= dtype.max:
            raise ev.refuse(Feature.VALUE, f"an integer beyond {dtype.name}")
        ev.script.assume(limits, SameDecision(f"an integer within {dtype.name}", ev.where()))
    elif dtype.is_integer and value.tensor is not None and dtype != tf.int64:
        fits = tf.logical_and(value.tensor >= dtype.min, value.tensor <= dtype.max)
        ev.assert_in_graph(fits, ev.noted(NoException, f"an integer within {dtype.name}"))
    return tf.identity(ev.tensor(value, dtype))  # the other stands for the number itself


# What makes a tensor of a list that it is given first, and looks at that.
_PACKING: tuple[Callable[..., Any], ...] = (
    tf.argmax, tf.argmin, tf.cast, tf.identity, tf.reduce_all, tf.reduce_any, tf.reduce_logsumexp, tf.reduce_max,
    tf.reduce_mean, tf.reduce_min, tf.reduce_prod, tf.reduce_sum, tf.reshape, tf.reverse, tf.shape, tf.size, tf.sort,
    tf.stop_gradient, tf.transpose, tf.math.reduce_std, tf.math.reduce_variance, tf.cumsum, tf.math.cumprod, tf.square,
)  # fmt: skip


def _members(ev: Evaluator, arguments: Arguments, named: dict[str, Any], name: str) -> Any:
    """The first argument of a call, by its place or name, if it is a list with runs."""
    given = arguments[0] if arguments else named.get(name)
    return ev.with_runs(given)


def _packing(function: Callable[..., Any]) -> Special:
    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
        if arguments and (members := ev.with_runs(arguments[0])) is not None:
            arguments = [lists.packed(ev, members), *arguments[1:]]
        return framework(ev, function, arguments, named)

    return convert


SPECIAL.update({function: _packing(function) for function in _PACKING})


@special(tf.stack)
def _stack(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    members = _members(ev, arguments, named, "values")
    if members is None:
        return framework(ev, tf.stack, arguments, named)
    axis = _by_name(("values", "axis"), arguments, named).get("axis", 0)
    rows = lists.packed(ev, members)
    rank = rows.shape.rank
    if not isinstance(axis, int) or rank is None or not -rank <= axis < rank:
        raise ev.refuse_runs("tf.stack() needs an axis that the result has")
    return _moved(rows, axis % rank)


def _moved(rows: tf.Tensor, axis: int) -> tf.Tensor:
    """The first axis at another place."""
    others = range(1, rows.shape.rank)
    return rows if axis == 0 else tf.transpose(rows, [*others[:axis], 0, *others[axis:]])


@special(tf.concat)
def _concat(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    members = _members(ev, arguments, named, "values")
    if members is None:
        return framework(ev, tf.concat, arguments, named)
    axis, hole = _by_name(("values", "axis"), arguments, named).get("axis"), lists.whole(ev, members).element
    rank = hole.shape.rank if isinstance(hole, SpecLeaf) else None
    if not isinstance(axis, int) or not rank or not -rank <= axis < rank:
        raise ev.refuse_runs("tf.concat() needs an axis that the list's tensors have")
    axis %= rank
    if axis == 0:
        return lists.concatenated(ev, members)
    if hole.shape[axis] is None:
        raise ev.refuse_runs("tf.concat() of tensors of different sizes along another axis than the first")
    rows = lists.packed(ev, members)
    sizes = tf.shape(rows)
    shape = tf.concat([sizes[1 : 1 + axis], sizes[:1] * sizes[1 + axis : 2 + axis], sizes[2 + axis :]], 0)
    made = tf.reshape(_moved(rows, axis), shape)
    made.set_shape([None if i == axis else size for i, size in enumerate(hole.shape)])
    return made


@special(tf.add_n)
def _add_n(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    members = _members(ev, arguments, named, "inputs")
    if members is None:
        return framework(ev, tf.add_n, arguments, named)
    return tf.reduce_sum(lists.packed(ev, members), 0)


@special(tf.cond)
def _cond(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    given = _by_name(("pred", "true_fn", "false_fn"), arguments, named)
    functions = [given.get("true_fn"), given.get("false_fn")]
    if ev.inside(CalledBack) or not is_symbolic(given.get("pred")) or not all(map(callable, functions)):
        return framework(ev, tf.cond, arguments, named)
    decided = ev.decide(given["pred"])
    then, otherwise = (functools.partial(ev.call, function, [], {}) for function in functions)
    if isinstance(decided, tf.Tensor):
        return branches.choose(ev, decided, then, otherwise)
    return then() if decided else otherwise()


@special(tf.switch_case)
def _switch_case(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    given = _by_name(("branch_index", "branch_fns", "default"), arguments, named)
    index, functions = given.get("branch_index"), given.get("branch_fns")
    if ev.inside(CalledBack) or not is_symbolic(index) or not isinstance(functions, list | tuple):
        return framework(ev, tf.switch_case, arguments, named)
    functions = [*functions, *([given["default"]] if given.get("default") is not None else [])]
    if not functions or not all(map(callable, functions)):
        return framework(ev, tf.switch_case, arguments, named)
    return _case(ev, index, functions, 0)


def _case(ev: Evaluator, index: Any, functions: list[Any], number: int) -> Any:
    """The function of this number or a later one; what no number fits calls the last."""

    def this() -> Any:
        return ev.call(functions[number], [], {})

    if number == len(functions) - 1:
        return this()
    what = f"case {number}"
    ev.seen(what)
    is_this = tf.reshape(tf.equal(index, number), [])
    return branches.choose(ev, is_this, this, lambda: _case(ev, index, functions, number + 1), what)


_STREAMS: Final = {"stdout": 1, "stderr": 2}


@special(tf.print)
def _print(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> Any:
    if ev.inside(CalledBack):
        if ev.effects:
            raise ev.refuse(Feature.ORDER, "tf.print in a function that TensorFlow calls, after something else")
        return framework(ev, tf.print, arguments, named)
    stream = named.get("output_stream", sys.stderr)
    given = {**named, "output_stream": stream.example if isinstance(stream, DynamicValue) else stream}
    lifted = [_read(ev.lift(a)) for a in arguments]
    if any(map(_is_number, symbolic.leaves(lifted))):
        raise ev.refuse(Feature.PRINT, "tf.print of a number or string that is no tensor and differs from call to call")
    with branches.scratch():
        made = library_calls.build(ev, tf.print, lifted, given)
    target = made.get_attr("output_stream").decode()
    if target not in _STREAMS or sources.shell() is not None:  # there, TensorFlow prints into the cell
        raise ev.refuse(Feature.PRINT, f"tf.print to {target}")
    end = made.get_attr("end")
    effect = LateCall(ev.script.name(), ev.script.constant(_write), [_STREAMS[target], _text(made), end], {})
    ev.effects.append(effect)
    return None


def _is_number(value: Any) -> bool:
    """Whether Python would write a value otherwise than TensorFlow writes a tensor of it."""
    return (
        isinstance(value, DynamicValue)
        and not value.is_array
        and not isinstance(value.example, np.ndarray | np.generic)
    )


def _text(made: tf.Operation) -> tf.Tensor:
    """What an operation in another graph would print, in this one."""
    captured = {id(inner): outer for outer, inner in made.graph.captures}
    text = made.inputs[0]
    if id(text) in captured:
        return captured[id(text)]
    form = text.op
    if form.type != "StringFormat":
        return tf.constant(tf.get_static_value(text))
    names = ("template", "placeholder", "summarize")
    attributes = {name: form.get_attr(name) for name in names}
    inputs = [captured.get(id(tensor), tensor) for tensor in form.inputs]
    constants = [tf.constant(tf.get_static_value(t)) if t.graph is made.graph else t for t in inputs]
    return tf.raw_ops.StringFormat(inputs=constants, **attributes)


def _read(value: Any) -> Any:
    """A value with its variables read now."""
    if isinstance(value, tf.Variable):
        return value.read_value()
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(map(_read, value))
    return {key: _read(v) for key, v in value.items()} if isinstance(value, dict) else value


def _write(stream: int, text: tf.Tensor, end: bytes) -> None:
    """As the kernel of `PrintV2` does it: past Python's buffers."""
    rest = text.numpy() + end
    while rest:
        rest = rest[os.write(stream, rest) :]


_FORBIDDEN = (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.Import, ast.ImportFrom, ast.ClassDef)
_SAFE_BUILTINS = frozenset({"len", "range", "zip", "enumerate", "tuple", "list", "float", "int", "isinstance", "sum"})


def wrapped(function: Any) -> types.FunctionType | None:
    """The function of the user's that a library's decorator has wrapped; a `tf.function` is traced eagerly, too."""
    inner = None if hasattr(function, "get_concrete_function") else getattr(function, "__wrapped__", None)
    return inner if known.is_users_function(inner) else None


def only_computes(function: types.FunctionType) -> bool:
    """Whether it assigns to its own names only and reads nothing else that can change."""
    try:
        node = syntax_of(function).node
    except Inconvertible:
        return False
    parts = list(_running_parts(node))
    own = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    own |= {part.arg for part in parts if isinstance(part, ast.arg)}
    own |= {part.name for part in parts if isinstance(part, ast.FunctionDef)}
    return not any(_is_more(part, own, function) for part in parts[1:])


def _running_parts(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations and decorators."""
    yield node
    for name, field in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST):
                    yield from _running_parts(child)


def _is_more(part: ast.AST, own: set[str], function: types.FunctionType) -> bool:
    if isinstance(part, _FORBIDDEN):
        return True
    if isinstance(part, ast.Attribute | ast.Subscript):
        return not isinstance(part.ctx, ast.Load)
    if not isinstance(part, ast.Name) or part.id in own:
        return False
    return not _stays(part.id, function)


def _stays(name: str, function: types.FunctionType) -> bool:
    """Whether a name from outside stands for a library's module, a variable, or a function that computes only."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    value = cells[name].cell_contents if name in cells else function.__globals__.get(name)
    if value is None:
        return name in _SAFE_BUILTINS and hasattr(builtins, name)
    if isinstance(value, types.ModuleType):
        return value.__name__.split(".")[0] in ("tensorflow", "keras")
    return isinstance(value, tf.Variable | tf.DType)
