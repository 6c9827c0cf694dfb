"""From one call to a graph and the script around it."""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.evaluate import exceptions, expressions, loops, matching, statements
from recgraph.speculate.library import builtins, frameworks, iteration, standard
from recgraph.speculate.machine.evaluator import ALL, ConversionSettings, Evaluator, Optimizations
from recgraph.speculate.observe.profile import GeneralProfile, Profile, fits, same
from recgraph.speculate.observe.reasons import PASSING, Again, Feature, Inconvertible, Raised
from recgraph.speculate.observe.syntax import Frame, Syntax, names_of, names_of_parameters, syntax_of
from recgraph.speculate.passes import connections, ordering
from recgraph.speculate.passes.connections import by_dependencies
from recgraph.speculate.passes.randomness import RandomGraph
from recgraph.speculate.passes.rewrites import choose_kernels, merge_reads, stack_products
from recgraph.speculate.run import running
from recgraph.speculate.run.rendering import Renderer
from recgraph.speculate.run.running import runner
from recgraph.speculate.script.assumptions import Assumption, Presence, SameDecision, SameObject
from recgraph.speculate.script.heap import ALIASES
from recgraph.speculate.script.script import Script
from recgraph.speculate.script.stand_ins import Residual, Rows
from recgraph.speculate.values import functions, later
from recgraph.speculate.values.attributes import Namespace
from recgraph.speculate.values.containers import Known, Object
from recgraph.speculate.values.functions import Class, FunctionKind, Made, SuperKind, assume_code, enter
from recgraph.speculate.values.iterators import GraphRows, Iterating, Suspended
from recgraph.speculate.values.later import Later
from recgraph.speculate.values.tables import Row
from recgraph.speculate.values.tensors import Shape, Tensor, Variable


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
    """

    text: str
    assumptions: list[Assumption]
    graph: Any
    run: Callable[[dict[str, Any]], Callable[[Any], Any]]
    watched: list[Any]
    owner: int | None = None
    is_specialised: bool = False
    keeps_shapes: bool = False


class Conversion(Evaluator):
    """The evaluator with all kinds of values, and what the library of Python, TensorFlow, Keras and NumPy defines."""

    kinds = (
        Later, Tensor, Variable, Made, Shape, Row, GraphRows, Iterating, Suspended, Namespace, SuperKind, Class,
        FunctionKind, Object, Known,
    )  # fmt: skip

    def python(
        self, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any] | None = None
    ) -> Any:
        """A pure function of Python's: now, where its arguments are known; else in the script."""
        return later.python(self, function, arguments, named)

    def in_script(
        self, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any] | None = None
    ) -> Residual:
        """A call that the script makes: before the graph where all arguments are known then, else after it."""
        return later.in_script(self, function, arguments, named or {})

    def inline(self, function: types.FunctionType, arguments: list[Any], named: dict[str, Any]) -> Any:
        """A call of a function that is written in Python, converted as a part of its caller."""
        return functions.inline(self, function, arguments, named)

    def collect(self, rows: Rows) -> list[Any]:
        """All rows as members of a list, by a loop in the graph."""
        return loops.collected(self, rows)

    def library(self, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """A call of a function that is not the user's."""
        return builtins.library(self, function, arguments, named)


def convert(
    function: Any,
    parameters: tuple[Any, ...],
    profile: Profile,
    optimizations: Optimizations = ALL,
    keeps_shapes: bool = False,
) -> Converted:
    """Converts a call; where numbers that vary cannot be inputs, for those of this call.

    Args:
        function: of the user's.
        parameters: the values of its parameters, in order, defaults filled in; then, if it has one that differs from
            call to call, its closure.
        profile: what its eager calls have seen.
        optimizations: what is done beyond the general rules.
        keeps_shapes: whether a tensor that has had few shapes is assumed to have the one of this call.

    Raises:
        Inconvertible: it has to run eagerly.
    """
    if not optimizations.specialisation:
        for general in (GeneralProfile(profile), GeneralProfile(profile, keeps_shapes=True)):
            with contextlib.suppress(Exception):  # an operation may need to know more: then it is assumed
                return _until_sure(function, parameters, ConversionSettings(general, optimizations))
    first: Inconvertible | None = None
    for way in _WAYS:
        try:
            return _until_sure(function, parameters, ConversionSettings(profile, optimizations, keeps_shapes), way)
        except RecursionError as error:
            raise Inconvertible(Feature.RECURSION, "its calls go deeper than Python's stack has room for") from error
        except Raised as raised:
            first = first or raised.as_refusal()
        except Inconvertible as reason:
            first = first or reason
        if first.feature in PASSING or not profile.has_variants:
            break
    assert first is not None
    raise first


# How a call is converted, one way after the other until one works: whether numbers that vary are constants, and
# whether items may be set under keys that vary.
_WAYS = ((False, True), (False, False), (True, False))


def _until_sure(
    function: Any,
    parameters: tuple[Any, ...],
    settings: ConversionSettings,
    way: tuple[bool, bool] = _WAYS[0],
) -> Converted:
    """Converts, again where it turns out that ways have to be assumed on which gradients depend."""
    paths: set[Any] = set()
    while True:
        try:
            return _convert(function, parameters, dataclasses.replace(settings, paths=set(paths)), way)
        except Again as again:
            paths |= again.places


def _convert(
    function: Any, parameters: tuple[Any, ...], settings: ConversionSettings, way: tuple[bool, bool]
) -> Converted:
    syntax = syntax_of(function)
    script = Script(len(parameters))
    graph = RandomGraph(f"speculated_{syntax.name.strip('<>')}")
    ev = Conversion(script, graph, settings)
    ev.heap.keeps_shapes, (ev.heap.is_specialised, ev.heap.keys_may_vary) = settings.keeps_shapes, way
    ev.heap.merges_tensors = ALIASES in settings.paths
    with _no_new_variables(ev), graph.as_default(), tf_private.AutomaticControlDependencies() as control, (
        _no_new_variables(ev)
    ):  # fmt: skip
        try:
            outputs = _built(ev, syntax, function, parameters)
        finally:
            ev.heap.losses.restore()
        outputs = [control.mark_as_return(tensor) for tensor in outputs]
    graph.control_outputs.extend(control.ops_which_must_run)
    return _finished(ev, graph, outputs)


def _built(ev: Evaluator, syntax: Syntax, function: Any, parameters: tuple[Any, ...]) -> list[tf.Tensor]:
    """Puts the call into the graph and the script; what the graph has to give."""
    frame = Frame(syntax, names_of(syntax.node), function)
    names = names_of_parameters(function)
    if len(parameters) > len(names):
        _admit_closure(ev, function)
    else:
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
    early = ordering.hold_back_writes(graph, all_early=bool(script.checks))
    merge_reads(graph)
    stack_products(graph)
    choose_kernels(graph)
    graph.variables = list(graph._watched_variables)
    concrete = by_dependencies(tf_private.concrete_function(graph, inputs + ([graph.seeds] if draw else []), outputs))
    handles = tf_private.captured_values(graph, early)
    run = runner(concrete, inputs, draw, handles, checked=bool(script.checks))

    def compiled(scope: dict[str, Any]) -> Callable[[Any], Any]:
        names = {"same": same, "fits": fits, "EagerTensor": tf_private.EagerTensor}
        call = script.compile({"graph": run, **names, **scope})
        return running.whole(call) if script.after else call

    kinds = script.owner(), ev.heap.is_specialised, ev.heap.keeps_shapes
    return Converted(script.text, script.assumptions, graph, compiled, script.watched, *kinds)


def _without_tape(ev: Evaluator, graph: RandomGraph, outputs: list[tf.Tensor]) -> None:
    """Where it depends on a way what a tape around the call finds, ways are assumed if there is a tape, or none is."""
    places = connections.depends_on_ways(ev, graph, outputs)
    if not places:
        return
    if not tf_private.a_tape_is_listening():
        ev.script.scope["a_tape_is_listening"] = tf_private.a_tape_is_listening
        ev.script.assume("not a_tape_is_listening()", SameDecision("whether there is a tape around the call"))
    elif more := set(places) - {None} - ev.paths:
        raise Again(more)


def _no_new_variables(ev: Evaluator) -> Any:
    """Variables are made by eager calls only: this holds for those that Keras makes late, too."""

    def refuse(next_creator: Any, **named: Any) -> Any:
        raise ev.refuse(Feature.NEW_VARIABLE, "the call makes a variable")

    return tf.variable_creator_scope(refuse)


def _assert(ev: Evaluator) -> None:
    """One operation checks all that the graph has to check."""
    if ev.assertions:
        ordering.check(ev.assertions)


# They register what they convert.
_RULES = (builtins, exceptions, expressions, frameworks, iteration, matching, standard, statements)
