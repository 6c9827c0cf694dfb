"""Calls of a concrete function under tapes, which differentiate it with respect to what they watch and nothing else.

TensorFlow's own calls differentiate a function with respect to all of its inputs. Eagerly, gradients that lead to
nothing that is watched are never computed, and some of them would fail.
"""

from __future__ import annotations

import enum
import functools
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

# A tape has to be told what a call depends on, and is asked what it watches, one input at a time. What a function under
# `tf.custom_gradient` reads is told to a watcher of variables, which is there without a tape, too.
from tensorflow.python import pywrap_tfe as _pywrap_tfe
from tensorflow.python.eager import backprop_util as _backprop_util
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import forwardprop_util as _forwardprop_util
from tensorflow.python.eager import record as _record
from tensorflow.python.eager import tape as _tape
from tensorflow.python.eager.polymorphic_function import concrete_function as _concrete_function
from tensorflow.python.ops import gradients_util as _gradients_util
from tensorflow.python.ops import handle_data_util as _handle_data_util
from tensorflow.python.ops import resource_variable_ops as _resource_variable_ops

from recgraph.tf_private.cancelling import execute
from recgraph.tf_private.graphs import ConcreteFunction, FuncGraph, placeholder

# Which inputs are watched.
Watched = tuple[bool, ...]
# The numbers of outputs, with those of the inputs that they depend on.
Group = tuple[list[int], list[int]]


class Differentiated(enum.Enum):
    """How outputs are differentiated that have a gradient, where others have none.

    As if these had zeros; by a function for those that have one, made when it is asked for; or by one for each output,
    made beforehand: what a gradient keeps of a branch or loop is not the same for all outputs.
    """

    WITH_ZEROS, TOGETHER, ONE_BY_ONE = range(3)


# Variables, not kept alive.
VariableReferences = tuple[weakref.ref[Any], ...]

_NOTHING = _gradients_util.POSSIBLE_GRADIENT_TYPES_NONE
_selecting = threading.Lock()


def connected_inputs(graph: Any, output: tf.Tensor, watched: Watched) -> list[bool]:
    """Of each watched input of a function's graph, whether `tf.gradients` of an output with respect to it is not None.

    Asked in a graph of its own, which `tf.gradients` cannot: the function's graph is finished.
    """
    with FuncGraph("connected").as_default():
        given = placeholder(tf.TensorSpec(output.shape, output.dtype))
        found = _gradients_of_watched(watched, [output], list(graph.inputs), grad_ys=[given], src_graph=graph)
    return [gradient is not None for gradient in found]


def what_was_watched(tape: tf.GradientTape) -> tuple[bool, list[tf.Variable]] | None:
    """Of a tape that has given its gradients: whether it watches what is read, and the variables that it has watched;
    None of one that may still give some.
    """
    if tape._tape is not None or tape._persistent or tape._recording:
        return None
    return tape._watch_accessed_variables, list(tape._watched_variables)


def known_to(tape: tf.GradientTape, tensors: Sequence[tf.Tensor]) -> list[bool]:
    """Whether a tape watches each tensor, or has recorded the operation that made it.

    A tape answers for all tapes of its thread at once, so it is asked in a thread that has no other.
    """
    found: list[bool] = []

    def ask() -> None:
        _tape.push_tape(tape._tape)
        try:
            found.extend(_record.should_record_backprop([tensor]) for tensor in tensors)
        finally:
            _tape.pop_tape(tape._tape)

    if tape._tape is None:
        return [False] * len(tensors)
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found


def spent_tape(watches: bool, variables: Sequence[tf.Variable]) -> tf.GradientTape:
    """A tape that has given its gradients already. There is no public way to one but to differentiate something."""
    tape = tf.GradientTape(watch_accessed_variables=watches)
    tape._watched_variables = tuple(variables)
    return tape


def trainable(variables: Iterable[Any]) -> VariableReferences:
    """Of variables that are read, those that watchers of variables are told of: trainable ones, each replica's own."""
    read = [part for variable in variables if variable.trainable for part in _tape._variables_override(variable)]
    return tuple(map(weakref.ref, read))


def tell_watchers(variables: VariableReferences) -> None:
    """Tells the watchers of this thread that variables are read; `tf.custom_gradient` has one, within which
    `tf.recompute_grad` lets no tape record. Nobody can be asked whether there is one.
    """
    tell = _pywrap_tfe.TFE_Py_VariableWatcherVariableAccessed
    for reference in variables:
        variable = reference()
        if variable is not None:
            tell(variable)


class TellingFunction(ConcreteFunction):
    """A concrete function that tells the watchers of variables what it reads. TensorFlow's own do so under tapes only,
    so gradients are lost where they are called in a function under `tf.recompute_grad`.
    """

    def _call_flat(self, tensor_inputs: Any, captured_inputs: Any) -> Any:
        tell_watchers(trainable(self.graph.variables))
        return super()._call_flat(tensor_inputs, captured_inputs)


def record_in_groups(
    function: Any,
    groups: Callable[[Watched], list[Group]],
    how_apart: Callable[[list[tf.Tensor], Watched], Differentiated],
) -> None:
    """Tells tapes which inputs each output of a concrete function depends on; TensorFlow takes it to be all.

    Args:
        function: concrete.
        groups: gives them, of those inputs that are watched; asked when a tape first records.
        how_apart: gives how some of all outputs that tapes are told of are differentiated.
    """
    function.recgraph_groups, function.recgraph_apart = groups, how_apart


def call(function: Any, tensors: list[tf.Tensor], attributes: Sequence[Any], may_repeat: bool = False) -> Any:
    """Calls a concrete function while tapes may be listening.

    Args:
        function: what it captures has to be complete.
        tensors: its inputs without what it captures.
        attributes: those of the call.
        may_repeat: as in `cancelling.execute`.
    """
    context, captured = _context.context(), function.captured_inputs
    for variable in function.graph.variables:
        _resource_variable_ops.variable_accessed(variable)
    return _call(context, function, tensors, captured, (attributes, may_repeat))


def _call(context: Any, function: Any, tensors: list[tf.Tensor], captured: list[tf.Tensor], how: Any) -> Any:
    if not context.executing_eagerly():  # a Jacobian differentiates in a graph
        return type(function)._call_flat(function, tensors, captured)
    arguments = [*tensors, *captured]
    kind = _gradients_util.PossibleTapeGradientTypes(arguments)
    if kind == _NOTHING:
        outputs = _run(context, function._inference_function, arguments, how)
        return function.function_type.pack_output(outputs)
    if _forwardprop_util.pack_tangents(arguments).indices:
        return function._call_flat(tensors, captured)
    selected = _selected(context, function, arguments, kind, how)
    forward, given = selected.forward()
    with _record.stop_recording():
        outputs = _run(context, forward, given, how)
    selected.record(outputs)
    return function.function_type.pack_output(outputs)


def _run(context: Any, function: Any, arguments: list[tf.Tensor], how: Any) -> Any:
    attributes, may_repeat = how
    types_of_outputs = function.function_type.flat_outputs
    name, count = function.name.decode(), len(types_of_outputs)
    outputs = execute(name, count, arguments, attributes, context, may_repeat=may_repeat)
    for output, kind in zip(outputs, types_of_outputs, strict=True):
        handle_data = kind.dtype._handle_data
        if handle_data:
            _handle_data_util.set_handle_data(output, handle_data.shape_inference)
    return outputs or None


def _selected(context: Any, function: Any, arguments: list[tf.Tensor], kind: Any, how: Any) -> Any:
    """TensorFlow's call of a function that has a gradient, with functions of its own for each set of watched inputs."""
    watched = tuple(bool(_record.should_record_backprop([argument])) for argument in arguments)
    caches = vars(function).setdefault("recgraph_caches", {})
    with _selecting:
        own = function._first_order_tape_functions, function._higher_order_tape_functions
        made = caches.setdefault(watched, ({}, {}))
        function._first_order_tape_functions, function._higher_order_tape_functions = made
        try:
            selected = function._select_forward_and_backward_functions(arguments, kind, True)
        finally:
            function._first_order_tape_functions, function._higher_order_tape_functions = own
        if "record" not in vars(selected._functions):
            _restrict(context, function, selected._functions, watched, how)
    return selected


def _restrict(context: Any, function: Any, functions: Any, watched: Watched, how: Any) -> None:
    """Lets the functions for a forward and a backward pass differentiate what is watched."""
    count = len(function.function_type.flat_outputs)  # more may be in the graph, for those that were made before
    functions._num_outputs = functions._num_inference_outputs = count
    trainable = [t for t in functions._func_graph.outputs[:count] if _backprop_util.IsTrainable(t)]
    functions._num_trainable_inference_outputs = len(trainable)
    build = type(functions)._build_functions_for_outputs
    watching = types.SimpleNamespace(_GradientsHelper=functools.partial(_gradients_of_watched, watched))
    own = types.FunctionType(build.__code__, {**build.__globals__, "gradients_util": watching}, build.__name__)
    functions._build_functions_for_outputs = types.MethodType(own, functions)
    record, groups = functions.record, getattr(function, "recgraph_groups", None)
    is_single = count == 1 and not isinstance(functions, _concrete_function._HigherOrderTapeGradientFunctions)

    @functools.cache
    def told_apart() -> list[Group] | None:
        found = None if groups is None else groups(watched)
        is_told = found is not None and is_single and sum(len(taken) for _, taken in found) == sum(watched)
        return None if is_told else found  # the only output depends on all that is watched, as TensorFlow has it

    of_some = _of_some(context, function, functions, watched, how) if groups is not None and count > 1 else None

    def recording(outputs: list[tf.Tensor], inputs: list[tf.Tensor], tangents: Any) -> None:
        backward = functions._backward
        if "_call_flat" not in vars(backward):
            backward._call_flat = functools.partial(_call, context, backward, how=(how[0], False))
        several = None if tangents else told_apart()
        if several is None:
            record(outputs, inputs, tangents)
        else:
            _record_groups(functions, several, outputs, inputs, of_some or (lambda recorded: None))

    functions.record = recording


def _gradients_of_watched(watched: Watched, ys: Any, xs: list[tf.Tensor], **named: Any) -> list[Any]:
    """Gradients with respect to some of `xs`; None for the others."""
    taken = [x for x, is_watched in zip(xs, watched, strict=True) if is_watched]
    found = iter(_gradients_util._GradientsHelper(ys, taken, **named) if taken else ())
    return [next(found) if is_watched else None for is_watched in watched]


def _record_groups(
    functions: Any, groups: list[Group], outputs: list[tf.Tensor], inputs: list[tf.Tensor], some_of: Any
) -> None:
    """Records a call for each group of outputs; what it gives besides, to the backward function, depends on all."""
    backward, recorded = functions._wrap_backward_function(functions._forward_graph, functions._backward, outputs)
    kinds = [(tensor.shape, tensor.dtype) if _has_zeros(tensor) else None for tensor in recorded]
    name = functions._forward.cached_definition.signature.name
    with_zeros = functools.partial(_backward_of_group, backward, kinds)
    of_some = some_of(len(recorded))
    told = None if of_some is None else _Told(functions._forward_graph, outputs, recorded, of_some)
    back, made = (with_zeros, recorded) if told is None else (functools.partial(told.backward, with_zeros), told.copies)
    besides = list(range(functions._num_inference_outputs, len(recorded)))
    for given, taken in [*groups, (besides, list(range(len(inputs))))]:
        given = [i for i in given if i < len(recorded)]
        if given and taken:
            one = functools.partial(back, given, taken)
            _record.record_operation(name, [made[i] for i in given], [inputs[j] for j in taken], one)
    if told is not None:
        told.record(name)


class _Told:
    """A call whose backward function knows to which outputs a gradient has come: a tape gives it zeros for the others.

    What is recorded as its outputs are copies. That each output is one is recorded, too, which is a step of its own on
    the way back: it is taken only where a gradient comes.

    Args:
        graph: of the function for a forward pass.
        outputs: all that it gave.
        recorded: those that tapes are told of.
        of_some: a backward function that is given the gradients of some of these, by their numbers; or None.
    """

    def __init__(self, graph: Any, outputs: list[tf.Tensor], recorded: list[tf.Tensor], of_some: Any) -> None:
        self._kept = {id(inner): outer for inner, outer in zip(graph.outputs, outputs, strict=False)}
        self._recorded, self._of_some = recorded, of_some
        self._came: dict[int, set[int]] = {}  # by thread: several may ask one tape
        self.copies = [one._copy_nograd(device_name=one.backing_device) if _can_come(one) else one for one in recorded]
        for copy, output in zip(self.copies, recorded, strict=True):
            copy._handle_data = output._handle_data

    def record(self, name: str) -> None:
        """Records that the outputs are copies of what is recorded as outputs."""
        for i, (copy, output) in enumerate(zip(self.copies, self._recorded, strict=True)):
            if copy is not output:
                _record.record_operation(name, [output], [copy], functools.partial(self._comes, i))

    def backward(self, with_zeros: Any, given: list[int], taken: list[int], *gradients: Any) -> Any:
        """The gradients of a group's inputs; `with_zeros` gives them where all of its outputs have one."""
        came = self._came.get(threading.get_ident(), set())
        there = [(i, gradient) for i, gradient in zip(given, gradients, strict=True) if i in came]
        came.difference_update(given)
        functions = self._of_some(tuple(i for i, _ in there)) if 0 < len(there) < self._count else None
        if functions is None:
            return with_zeros(given, taken, *gradients)
        found = [self._gradients(function, [dict(there)[i] for i in some]) for some, function in functions]
        return [_sum([one[j] for one in found if one[j] is not None]) for j in taken]

    def _gradients(self, function: Any, gradients: list[Any]) -> Any:
        if not function.outputs:
            return function.structured_outputs  # all None: nothing leads to what is watched
        kept = [self._kept.get(id(capture), capture) for capture in function.captured_inputs]
        return function._call_flat([tf.convert_to_tensor(gradient) for gradient in gradients], kept)

    @property
    def _count(self) -> int:
        return sum(map(_can_come, self._recorded))

    def _comes(self, number: int, gradient: Any) -> list[Any]:
        self._came.setdefault(threading.get_ident(), set()).add(number)
        return [gradient]


def _sum(gradients: list[Any]) -> Any:
    """Dense, slices, or None of no gradients."""
    return _backprop_util.AggregateIndexedSlicesGradients(gradients) if gradients else None


def _can_come(tensor: tf.Tensor) -> bool:
    return bool(_backprop_util.IsTrainable(tensor))


def _of_some(context: Any, function: Any, functions: Any, watched: Watched, how: Any) -> Any:
    """Of how many outputs are recorded, what gives the functions that differentiate some of them, by their numbers."""
    graph, count = functions._func_graph, functions._num_inference_outputs
    make = functools.partial(_backward_of_some, context, functions, how)
    is_beforehand = function.recgraph_apart(graph.outputs[:count], watched) is Differentiated.ONE_BY_ONE
    ones = [i for i, output in enumerate(graph.outputs[:count]) if _can_come(output)] if is_beforehand else []
    beforehand = {i: make((i,)) for i in ones}

    @functools.cache
    def together(some: tuple[int, ...]) -> Any:
        """None if the function needs what the call has not kept."""
        kept = len(graph.outputs)
        made = make(some)
        return [(some, made)] if len(graph.outputs) == kept else None

    def one_by_one(some: tuple[int, ...]) -> Any:
        found = [[((i,), beforehand[i])] if i in beforehand else together((i,)) for i in some]
        return None if None in found else [one for several in found for one in several]

    @functools.cache
    def of_some(recorded: int) -> Any:
        apart = function.recgraph_apart(graph.outputs[:recorded], watched)
        if apart is Differentiated.WITH_ZEROS:
            return None
        return together if apart is Differentiated.TOGETHER else one_by_one

    return of_some


def _backward_of_some(context: Any, functions: Any, how: Any, some: tuple[int, ...]) -> Any:
    """A backward function that takes the gradients of some outputs only.

    Args:
        context: the eager context.
        functions: for a forward and a backward pass.
        how: as of `_call`.
        some: the numbers of the outputs.
    """
    outputs = [functions._func_graph.outputs[i] for i in some]
    made = functions._build_functions_for_outputs(outputs, [], None)[2]
    made._call_flat = functools.partial(_call, context, made, how=(how[0], False))
    return made


def _has_zeros(tensor: tf.Tensor) -> bool:
    """Whether a gradient that does not come is zeros; of a list of tensors TensorFlow knows it itself."""
    return bool(_backprop_util.IsTrainable(tensor)) and tensor.dtype not in (tf.resource, tf.variant)


def _backward_of_group(backward: Any, kinds: list[Any], given: list[int], taken: list[int], *gradients: Any) -> Any:
    """The gradients of a group's inputs, where the other outputs have none. `kinds` has their shapes and dtypes."""
    every: list[Any] = [None] * len(kinds)
    for i, gradient in zip(given, gradients, strict=True):
        every[i] = gradient
    for i, kind in enumerate(kinds):
        if every[i] is None and kind is not None:
            every[i] = tf.zeros(*kind)
    found = backward(*every)
    return [found[j] for j in taken]
