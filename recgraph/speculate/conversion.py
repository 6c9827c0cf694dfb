"""From one call to a graph and the script around it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate import branches, builtin_calls, on_expressions, on_statements, ordering
from recgraph.speculate.calls import enter
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.profile import Profile, same
from recgraph.speculate.reasons import Inconvertible
from recgraph.speculate.rendering import Renderer
from recgraph.speculate.scopes import Frame, names_of
from recgraph.speculate.script import Assumption, Script
from recgraph.speculate.syntax import syntax_of

MARK = "recgraph: broken assumption"


@dataclasses.dataclass
class Converted:
    """A call as a graph with its script.

    Attributes:
        text: the script.
        assumptions: by number.
        graph: the operations.
        run: the script with names for `broken` and `failed` still to be given.
        written: variables that are written before something that can fail.
    """

    text: str
    assumptions: list[Assumption]
    graph: Any
    run: Callable[[dict[str, Any]], Callable[[Any], Any]]
    written: list[tf.Variable]


def convert(function: Any, parameters: tuple[Any, ...], profile: Profile) -> Converted:
    """Converts a call.

    Args:
        function: of the user's.
        parameters: the values of its parameters, in order, defaults filled in.
        profile: what its eager calls have seen.

    Raises:
        Inconvertible: it has to run eagerly.
    """
    syntax = syntax_of(function)
    script = Script(len(parameters))
    graph = tf_private.FuncGraph(f"speculated_{syntax.name.strip('<>')}")
    with graph.as_default(), tf_private.AutomaticControlDependencies() as control:
        ev = Evaluator(script, graph, profile)
        frame = Frame(syntax, names_of(syntax.node), function)
        for name, code, value in zip(
            inspect.signature(function).parameters, script.parameters, parameters, strict=True
        ):
            site = ("argument", name)
            frame.locals[name] = ev.heap.admit(
                value, code, name, profile.seen(site, 0), (site, 0), syntax.where(syntax.node)
            )
        result = enter(ev, frame)
        for table in ev.tables.values():
            table.finish()
        renderer = Renderer(ev)
        renderer.finish(result)
        _assert(ev)
        outputs = [control.mark_as_return(tensor) for tensor in renderer.outputs]
    graph.control_outputs.extend(control.ops_which_must_run)
    unsafe = ordering.hold_back_writes(graph)
    if unsafe:
        raise Inconvertible("order", "an assumption is about something that the call has written")
    concrete = tf_private.concrete_function(graph, ev.heap.inputs, outputs)

    def run(scope: dict[str, Any]) -> Callable[[Any], Any]:
        feed = _feeder(concrete, ev.heap.inputs)
        names = {"graph": feed, "errors": tf.errors.OpError, "same": same, "is_tensor": tf_private.is_eager_tensor}
        return script.compile({**names, **scope})

    return Converted(script.text, script.assumptions, graph, run, [])


def _assert(ev: Evaluator) -> None:
    """One operation checks all that the graph has to check."""
    if ev.assertions:
        number = branches.broken(ev.assertions)
        tf.debugging.Assert(number < 0, [MARK, number], summarize=1)


def _feeder(concrete: Any, inputs: list[tf.Tensor]) -> Callable[[tuple[Any, ...]], list[tf.Tensor]]:
    """Calls the graph; Python's numbers and arrays become tensors."""
    captured = concrete.captured_inputs
    convert = [(i, tensor.dtype) for i, tensor in enumerate(inputs)]
    eager = tf_private.EagerTensor

    def call(feeds: tuple[Any, ...]) -> list[tf.Tensor]:
        tensors = list(feeds)
        for i, dtype in convert:
            if type(tensors[i]) is not eager:
                tensors[i] = tf.constant(tensors[i], dtype)
        return concrete._call_flat(tensors, captured)

    return call


_RULES = (builtin_calls, on_expressions, on_statements)  # they register themselves
