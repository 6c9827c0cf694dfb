"""From one call to a graph and the script around it, and what runs the two: inputs become tensors, seeds are drawn, and
what was done is undone where the graph fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import tensorflow as tf

from recgraph import defects, sharing, tf_private
from recgraph.core import alternatives
from recgraph.cpython import facts
from recgraph.speculate.evaluate import exceptions, expressions, loops, statements
from recgraph.speculate.library import builtins, frameworks, iteration, standard
from recgraph.speculate.machine.evaluator import ALL, ConversionSettings, Evaluator, Optimizations
from recgraph.speculate.observe import module_state
from recgraph.speculate.observe.profile import GeneralProfile, Profile, fits, same
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException, RestartConversion
from recgraph.speculate.observe.syntax import Frame, Syntax, names_of, names_of_parameters, syntax_of
from recgraph.speculate.passes import ordering, outer_tape, workers
from recgraph.speculate.passes.randomness import RandomGraph
from recgraph.speculate.passes.rewrites import choose_kernels, merge_reads, stack_products
from recgraph.speculate.run.ab_timing import AlternatingRunner
from recgraph.speculate.run.rendering import Renderer
from recgraph.speculate.run.specialization import GENERALITIES, ConversionHistory, SpecializationLevel
from recgraph.speculate.script.assumptions import Assumption, Presence, SameConstant, SameDecision, SameObject
from recgraph.speculate.script.contexts import MakingVariable
from recgraph.speculate.script.heap import ALIASES
from recgraph.speculate.script.script import Script
from recgraph.speculate.values import dynamic, functions, library_calls
from recgraph.speculate.values.attributes import Namespace
from recgraph.speculate.values.containers import ConcreteValue, Dataset, Object, RecordValue
from recgraph.speculate.values.dynamic import DynamicValueKind
from recgraph.speculate.values.functions import Class, FunctionKind, Made, SuperKind, assume_code, enter
from recgraph.speculate.values.iterators import GraphRows, Iterating, Suspended
from recgraph.speculate.values.tables import PerhapsNone, Row
from recgraph.speculate.values.tensors import Composite, Ragged, Shape, Tensor, Variable

Run: TypeAlias = Callable[..., Any]


def runner(
    plain: Run,
    inputs: list[tf.Tensor],
    draw: Callable[[], tf.Tensor] | None,
    early: list[Any],
    checked: bool = False,
) -> Run:
    """A function that runs a graph, all or nothing.

    Args:
        plain: runs the graph with tensors for `inputs`, and then, with `draw`, for seeds.
        inputs: its placeholders.
        draw: gives the seeds of a call.
        early: the handles of variables that are written before something that may fail.
        checked: whether the function is given another, too, for the outputs: it may fail, and its result is given
            beside them.
    """
    run = _with_tensors(plain, [tensor.dtype for tensor in inputs])
    run = _with_check(run) if checked else run
    if draw is not None:
        run = _with_seeds(run, draw)
    return _with_undo(run, early) if early else run


def _with_tensors(run: Run, dtypes: list[tf.DType]) -> Run:
    """Python's numbers and arrays become tensors."""
    eager, constant = tf_private.EagerTensor, tf_private.eager_constant

    def call(feeds: Sequence[Any]) -> list[tf.Tensor]:
        tensors = list(feeds)
        for i, dtype in enumerate(dtypes):
            if type(tensors[i]) is not eager:
                tensors[i] = constant(tensors[i], dtype)
        return run(tensors)

    return call


def _with_check(run: Run) -> Run:
    def call(feeds: Sequence[Any], check: Callable[[Any], Any]) -> Any:
        outputs = run(feeds)
        return outputs, check(outputs)

    return call


def _with_seeds(run: Run, draw: Callable[[], tf.Tensor]) -> Run:
    """The generator that eager operations draw seeds from is put back where the graph fails."""

    def call(feeds: Sequence[Any], *check: Any) -> Any:
        before = tf_private.seed_generator_state()
        try:
            return run([*feeds, draw()], *check)
        except BaseException:
            tf_private.set_seed_generator_state(before)
            raise

    return call


def _with_undo(run: Run, handles: list[Any]) -> Run:
    """Variables are read before the graph and put back where it fails; a buffer that was read is not overwritten."""
    dtypes = [tf_private.variable_dtype(handle) for handle in handles]

    def call(feeds: Sequence[Any], *check: Any) -> Any:
        pairs = zip(handles, dtypes, strict=True)
        values = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype) for handle, dtype in pairs]
        try:
            return run(feeds, *check)
        except BaseException:
            for handle, value in zip(handles, values, strict=True):
                tf.raw_ops.AssignVariableOp(resource=handle, value=value)
            raise

    return call


def _with_bound(run: Run, graph: Any) -> Run:
    """The graph waits for other workers, which may never come."""

    def call(feeds: Sequence[Any], *check: Any) -> Any:
        with sharing.bounded(graph):
            return run(feeds, *check)

    return call


_INTERRUPT: Final = int(signal.SIGINT)
_RAISES: Final = signal.default_int_handler


class _Wait(tf_private.Handler):
    """Takes note of the first Ctrl-C, which cancels a graph that is running."""

    def __init__(self) -> None:
        self.has_come = False

    def __call__(self, number: int, frame: Any) -> None:
        if self.has_come:
            _RAISES(number, frame)
        self.has_come = True


def whole(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The call, which Python's own Ctrl-C finds done as a whole or not at all. A second Ctrl-C does not wait."""

    def uninterrupted(parameters: Any) -> Any:
        # Only the main thread is interrupted; a program that handles the signal itself knows what it does.
        if threading.get_ident() != threading.main_thread().ident or facts.signals.getsignal(_INTERRUPT) is not _RAISES:
            return call(parameters)
        wait = _Wait()
        facts.signals.signal(_INTERRUPT, wait)
        try:
            result = call(parameters)
        finally:
            facts.signals.signal(_INTERRUPT, _RAISES)
        if wait.has_come:
            raise KeyboardInterrupt
        return result

    return uninterrupted


@dataclasses.dataclass
class Converted:
    """A call as a graph with its script.

    Attributes:
        text: the script.
        assumptions: by number.
        graph: the operations.
        run: the script with names for `broken` and `failed` still to be given.
        watched: objects, weakly, that the script tells by their addresses: the script dies with them.
        owner: the parameter whose object it holds for, by number; None if it holds for any.
        is_specialised: whether numbers and strings are constants although they have varied.
        keeps_shapes: whether shapes of tensors that have had few are constants.
        turns: runs the graph or another form of it, where that is asked for.
    """

    text: str
    assumptions: list[Assumption]
    graph: Any
    run: Callable[[dict[str, Any]], Callable[[Any], Any]]
    watched: list[Any]
    owner: int | None = None
    is_specialised: bool = False
    keeps_shapes: bool = False
    turns: AlternatingRunner | None = None


class Conversion(Evaluator):
    """The evaluator with all kinds of values, and what the library of Python, TensorFlow, Keras and NumPy defines."""

    kinds = (
        DynamicValueKind, Tensor, Ragged, Composite, Variable, Made, Shape, Row, PerhapsNone, GraphRows, Iterating,
        Suspended, Namespace, SuperKind, Class, FunctionKind, Dataset, Object, RecordValue, ConcreteValue,
    )  # fmt: skip

    python = dynamic.python
    in_script = dynamic.in_script
    inline = functions.inline
    collect = loops.collected
    library = builtins.library


# What says that a call cannot be converted in some way. Whatever else is raised is a defect of ours.
_NOT_SO: Final = (RecursionError, ProgramException, Inconvertible)


def convert(
    function: Any,
    parameters: tuple[Any, ...],
    profile: Profile,
    optimizations: Optimizations = ALL,
    keeps_shapes: bool = False,
    knows_code: bool = False,
    experience: ConversionHistory | None = None,
) -> Converted:
    """Converts a call; where numbers that vary cannot be inputs, for those of this call.

    Args:
        function: of the user's.
        parameters: the values of its parameters, in order, defaults filled in; then, if it has one that differs from
            call to call, its closure.
        profile: what its eager calls have seen.
        optimizations: what is done beyond the general rules.
        keeps_shapes: whether a tensor that has had few shapes is assumed to have the one of this call.
        knows_code: whether only calls come that have the function's code; the graph does not hold the function then.
        experience: what earlier conversions of the function have found out.

    Raises:
        Inconvertible: it has to run eagerly.
    """
    experience = experience or ConversionHistory()
    if not optimizations.specialisation:
        for general in (GeneralProfile(profile), GeneralProfile(profile, keeps_shapes=True)):
            settings = ConversionSettings(general, optimizations, knows_code=knows_code)
            try:
                return _until_sure(function, parameters, settings, GENERALITIES[0])[0]
            except _NOT_SO:  # an operation may need to know more: then it is assumed
                continue
            except Exception as error:
                defects.contain(f"the most general conversion of {function.__qualname__}", error)
    settings = ConversionSettings(profile, optimizations, keeps_shapes, knows_code)
    likely = experience.likely(profile)
    if likely is not None:
        with contextlib.suppress(*_NOT_SO):
            return _until_sure(function, parameters, settings, likely)[0]
    first: Inconvertible | None = None
    for generality in GENERALITIES:
        if first is not None and not generality.may_help(first, profile):
            continue
        try:
            converted, needed = _until_sure(function, parameters, settings, generality)
        except RecursionError as error:
            raise Inconvertible(Feature.RECURSION, "its calls go deeper than Python's stack has room for") from error
        except ProgramException as raised:
            first = first or raised.as_refusal()
        except Inconvertible as reason:
            first = first or reason
        else:
            experience.worked(needed, profile)
            return converted
    assert first is not None
    raise first


def _until_sure(
    function: Any, parameters: tuple[Any, ...], settings: ConversionSettings, generality: SpecializationLevel
) -> tuple[Converted, SpecializationLevel]:
    """Converts, again where it turns out that ways have to be assumed on which gradients depend; with these ways."""
    while True:
        try:
            return _convert(function, parameters, settings, generality), generality
        except RestartConversion as again:
            if generality.is_rolled and any(place[0] == "unrolled" for place in again.places):
                raise Inconvertible(Feature.OPERATIONS, "a long loop does not fit into a loop of the graph") from None
            generality = dataclasses.replace(generality, paths=generality.paths | again.places)


def _convert(
    function: Any, parameters: tuple[Any, ...], settings: ConversionSettings, generality: SpecializationLevel
) -> Converted:
    syntax = syntax_of(function)
    script = Script(len(parameters))
    graph = RandomGraph(f"speculated_{syntax.name.strip('<>')}")
    ev = Conversion(script, graph, dataclasses.replace(settings, paths=set(generality.paths)))
    ev.is_rolled = generality.is_rolled
    ev.heap.keeps_shapes, ev.heap.has_exact_shapes = settings.keeps_shapes, generality.has_exact_shapes
    ev.heap.is_specialised, ev.heap.keys_may_vary = generality.is_specialised, generality.keys_may_vary
    ev.heap.merges_tensors = ALIASES in generality.paths
    around = tf_private.name_scope_in_graph()
    with tf_private.kept_variable_scope(), _new_variables(ev), graph.as_default(), (
        tf.name_scope(around) if around else contextlib.nullcontext()
    ), tf_private.AutomaticControlDependencies() as control, _new_variables(ev):  # fmt: skip
        names = tf_private.name_counts()
        try:
            with script.rehearsal:
                outputs = _built(ev, syntax, function, parameters, settings.knows_code)
        except (Inconvertible, ProgramException) as reason:
            if ev.rolled and not _is_too_long(reason):
                raise RestartConversion(ev.rolled) from reason
            raise
        finally:
            ev.heap.losses.restore()
            tf_private.set_name_counts(names)
        outputs = [control.mark_as_return(tensor) for tensor in outputs]
    graph.control_outputs.extend(control.ops_which_must_run)
    return _finished(ev, graph, outputs)


def _is_too_long(reason: Exception) -> bool:
    return isinstance(reason, Inconvertible) and reason.feature is Feature.OPERATIONS


def _built(
    ev: Evaluator, syntax: Syntax, function: Any, parameters: tuple[Any, ...], knows_code: bool
) -> list[tf.Tensor]:
    """Puts the call into the graph and the script; what the graph has to give."""
    frame = Frame(syntax, names_of(syntax.node), function)
    names = names_of_parameters(function)
    if len(parameters) > len(names):
        _admit_closure(ev, function)
    elif not knows_code:
        assume_code(ev, function)
    for name, code, value in zip(names, ev.script.parameters, parameters, strict=False):
        site, where = ("argument", name), syntax.where(syntax.node)
        frame.locals[name] = ev.heap.admit(value, code, name, ev.profile.seen(site, 0), (site, 0), where)
    result = enter(ev, frame)
    for table in ev.tables.values():
        table.finish()
    renderer = Renderer(ev)
    renderer.finish(result)
    _assert(ev)
    return renderer.outputs


def _admit_closure(ev: Evaluator, function: Any) -> None:
    """The function has the same code in every call, but cells of its own."""
    held = ev.script.parameters[-1]
    for i, (name, cell) in enumerate(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)):
        ev.cells[id(cell)] = f"{held}[{i}]"
        if name == "__class__":
            kind = ev.script.read(f"{held}[{i}].cell_contents", Presence("the class of the method"))
            same_class = SameObject("the class of the method")
            ev.script.assume(ev.script.is_same(kind, cell.cell_contents), same_class)


def _finished(ev: Evaluator, graph: RandomGraph, outputs: list[tf.Tensor]) -> Converted:
    """The graph as a function, in the order that all-or-nothing asks for."""
    script, inputs = ev.script, ev.heap.inputs
    _without_tape(ev, graph, outputs)
    graph.check()
    draw = graph.seeds_drawn()
    if graph.has_random_numbers:
        condition = f"(global_seed() is not None) is {graph.is_seeded}"
        script.scope["global_seed"] = tf_private.global_seed
        script.assume(condition, SameDecision("whether tf.random.set_seed was called"))
    ordering.hold_back(graph, ev.assertions)
    workers.commit(ev, graph)
    early = ordering.hold_back_writes(graph, all_early=bool(script.checks))
    merge_reads(graph)
    stack_products(graph)
    choose_kernels(graph)
    tf_private.forget_variables_of_graph(graph)
    graph.variables = list(graph._watched_variables)
    if graph.variables:
        check = script.constant(module_state.as_trainable(graph.variables))
        script.assume(f"{check}()", SameConstant("which variables are trainable"))
    concrete = outer_tape.by_dependencies(
        ev, tf_private.concrete_function(graph, inputs + ([graph.seeds] if draw else []), outputs)
    )
    handles = tf_private.captured_values(graph, early)
    turns = _turns(concrete, graph, ev.optimizations.substitutions)
    run = runner(turns or tf_private.fast_call(concrete), inputs, draw, handles, checked=bool(script.checks))
    run = _with_bound(run, graph) if graph.sums else run

    def compiled(scope: dict[str, Any]) -> Callable[[Any], Any]:
        names = {"same": same, "fits": fits, "EagerTensor": tf_private.EagerTensor}
        call = script.compile({"graph": run, **names, **scope})
        return whole(call) if script.after else call

    kinds = script.owner(), ev.heap.is_specialised, ev.heap.keeps_shapes
    return Converted(script.text, script.assumptions, graph, compiled, script.watched, *kinds, turns)


def _turns(concrete: Any, graph: RandomGraph, is_asked_for: bool | None) -> AlternatingRunner | None:
    """Turns with another form of the graph. Steps that several workers share are the same on all of them, and where
    results are to be the same in every run, none depends on what was measured."""
    if graph.sums or tf_private.is_deterministic():
        return None
    alternative = alternatives.of(concrete, is_asked_for)
    return None if alternative is None else AlternatingRunner(concrete, alternative)


def _without_tape(ev: Evaluator, graph: RandomGraph, outputs: list[tf.Tensor]) -> None:
    """Where it depends on a way what a tape around the call finds, ways are assumed if there is a tape, or none is.

    Raises:
        RestartConversion: there is a tape, and ways have to be assumed.
        Inconvertible: there is, and the ways are those of rounds of a loop.
    """
    places, reason = outer_tape.decisive(ev, graph, outputs)
    if not places and not reason:
        return
    if not tf_private.a_tape_is_listening():
        ev.script.scope["a_tape_is_listening"] = tf_private.a_tape_is_listening
        ev.script.assume("not a_tape_is_listening()", SameDecision("whether there is a tape around the call"))
    elif more := places - {None} - ev.paths:
        raise RestartConversion(more)
    elif reason:
        raise Inconvertible(Feature.TAPE, reason)
    elif places != {None}:
        raise Inconvertible(
            Feature.TAPE, "which gradients a tape around the call finds depends on what a tensor decides in a loop"
        )


def _new_variables(ev: Evaluator) -> Any:
    """Variables that the program makes live in the graph. A library keeps its own, so only eager calls make these."""

    def make(next_creator: Any, **named: Any) -> Any:
        if not ev.inside(MakingVariable):
            raise ev.refuse(Feature.NEW_VARIABLE, "the call makes a variable")
        if tf_private.current_graph() is not ev.graph:
            raise ev.refuse(Feature.NEW_VARIABLE, "a variable is made where a tensor decides")
        library_calls.name_scope_read(ev)  # the variable's name has them
        return ev.script.newborn.add(tf_private.variable_of_graph(**named), ev.where())

    return tf.variable_creator_scope(make)


def _assert(ev: Evaluator) -> None:
    """One operation checks all that the graph has to check."""
    if ev.assertions:
        ordering.check(ev.assertions)


# They register what they convert.
_RULES = (builtins, exceptions, expressions, frameworks, iteration, standard, statements)
