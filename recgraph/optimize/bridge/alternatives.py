"""Graphs of `rg.function`, with backward passes and updates: a second form of each, by substitutions.

The graph itself is changed, described to TensorFlow as another function, and put back. So the other form does all that
the graph does, in the order that it has: checks, effects, random numbers. Nothing is copied but what is inside of
branches and loops.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from recgraph import defects, logs, tf_private
from recgraph.core import alternatives, regions
from recgraph.core.regions import CALL
from recgraph.optimize import remembering, switch
from recgraph.optimize.bridge.changing import GraphChanges
from recgraph.optimize.bridge.copying import CopyPlan, Rewritten, as_asked, inputs_of, maker
from recgraph.optimize.bridge.emission import Emission
from recgraph.optimize.bridge.fingerprints import fingerprint
from recgraph.optimize.bridge.flattening import flatten
from recgraph.optimize.bridge.graphs import Rewriting, copied_parts
from recgraph.optimize.remembering import GraphTiming
from recgraph.optimize.terms import Apply, TensorVariable, Term

_LOG = logs.logger("optimize")

# Graphs with more operations are left as they are: to look at them would take too long.
MOST_OPERATIONS = 20_000
# Seconds of processor time that the search may take, for which one call waits.
PATIENCE = 0.6
_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMul", "Einsum", "Conv2D")


class Substituted:
    """See `alternatives.Alternative`.

    Attributes:
        is_better: whether it was found to be faster, in another process perhaps; None if that is not known.
        lines: what was done, as text.
    """

    def __init__(self, concrete: Any) -> None:
        self.lines: list[str] = []
        self._concrete, self._is_complete = concrete, True
        self._key = fingerprint(concrete, tf.__version__, importlib.metadata.version("recgraph"))
        known = remembering.recall(self._key)
        self.is_better = None if known is None else known.is_better
        if known is not None:
            self.lines = [_told(known, "on this machine, before")]

    def make(self) -> Any | None:
        """The graph with substitutions as another concrete function; None where none makes it cheaper."""
        start = time.perf_counter()
        try:
            made = self._made()
        except Exception as error:
            self.lines = [f"substitutions: {defects.contain(f'the rewriting of {self._concrete.graph.name}', error)}"]
            return None
        self.lines.append(f"  looked for and made in {time.perf_counter() - start:.1f} s, in one call")
        _LOG.info("%s", "\n".join(self.lines))
        if made is None and self._is_complete:
            remembering.remember(self._key, GraphTiming(False))
        return made

    def _made(self) -> Any | None:
        graph = self._concrete.graph
        why = next(_obstacles(graph), None)
        if why is not None:
            self.lines = [f"substitutions: none, {why}"]
            return None
        changes = GraphChanges(graph)
        try:
            products, sums = flatten(graph, changes)
            plan = CopyPlan({})
            rewriting = Rewriting(plan, PATIENCE, "backtracking", {})
            rewriting.look_at(graph)
            self._is_complete = rewriting.is_complete
            if not plan.rewritten and not sums:
                self.lines = ["substitutions: none makes the graph cheaper"]
                return None
            flat = f"{products} products of stacks by one matrix, and {sums} sums of products of stacks"
            done = [f"substitutions: {flat} are products of matrices"] if products or sums else []
            self.lines = [*done, *rewriting.lines, *self.lines]
            _change(graph, plan, changes)
            return tf_private.concrete_like(self._concrete, graph)
        finally:
            changes.undo()

    def decide(self, is_better: bool, before: float, after: float, is_sure: bool) -> None:
        """Both forms have taken turns, and have needed so many seconds for a call; that is remembered if it is sure.

        Not that the other form is slower where there was no time to look for a better one.
        """
        verdict = GraphTiming(is_better, before, after)
        self.is_better = is_better
        self.lines.append(_told(verdict, "in turns"))
        if is_sure and (is_better or self._is_complete):
            remembering.remember(self._key, verdict)


def _told(verdict: GraphTiming, when: str) -> str:
    what = "used" if verdict.is_better else "left as it was"
    if not verdict.after:
        return f"substitutions: {what}, as nothing was found to be cheaper {when}"
    return f"measured {when}: {verdict.before * 1e6:.0f} -> {verdict.after * 1e6:.0f} us a call: {what}"


def find(concrete: Any, is_asked_for: bool | None) -> Substituted | None:
    """See `alternatives.Finder`."""
    is_wanted = switch.is_asked_for(is_asked_for) and not switch.is_off()
    return Substituted(concrete) if is_wanted and _has_products(concrete.graph) else None


def _has_products(graph: Any) -> bool:
    """Whether there are two products to put together in a graph, or in a branch or loop of it."""
    found = 0
    for op in graph.get_operations():
        found += op.type in _PRODUCTS
        region = regions.region_of(op)
        if found > 1 or (region is not None and any(map(_has_products, region.graphs))):
            return True
    return False


def _obstacles(graph: Any) -> Iterator[str]:
    """Why a graph is not looked at."""
    if len(graph.get_operations()) > MOST_OPERATIONS:
        yield f"it has more than {MOST_OPERATIONS} operations"
    if tf_private.has_deferred_captures(graph):
        yield "what the graph captures is asked for at each call"


def _change(graph: Any, plan: CopyPlan, changes: GraphChanges) -> None:
    """Makes the substitutions of a plan in a graph, and in its branches and loops."""
    for op in graph.get_operations():
        region = regions.region_of(op)
        if region is not None and region.kind != CALL and any(_is_changed(inner, plan) for inner in region.graphs):
            with graph.as_default():
                parts = copied_parts(region, plan, graph)
            for name, value in parts.items():
                changes.set_attribute(op, name, value)
    rewritten = plan.rewritten.get(id(graph))
    if rewritten is None:
        return
    made = _made(graph, rewritten)

    for op in graph.get_operations():
        if op.control_inputs and any(map(rewritten.extraction.is_term, op.control_inputs)):
            changes.order(op, rewritten.extraction.waited_for(op))
    for tensor, other in made:
        changes.redirect(tensor, other, besides=rewritten.extraction.is_term)
    instead = {id(tensor): other for tensor, other in made}
    changes.return_instead([instead.get(id(tensor), tensor) for tensor in graph.outputs])


def _is_changed(graph: Any, plan: CopyPlan) -> bool:
    """Whether something in a graph is made anew."""
    inner = (one for op in graph.get_operations() if (region := regions.region_of(op)) for one in region.graphs)
    return id(graph) in plan.rewritten or any(_is_changed(one, plan) for one in inner)


def _made(graph: Any, rewritten: Rewritten) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """The tensors that others use of what is rewritten, each with what is made in its place.

    What stays the same term stays the same operation.
    """
    extraction, problem = rewritten.extraction, rewritten.problem
    tensors = {id(output): output for op in graph.get_operations() for output in op.outputs}
    kept: dict[Term, tf.Tensor] = {}
    for identity, term in extraction.terms.items():
        kept.setdefault(problem.shared(term), tensors[identity])

    def given(term: Term, as_row: bool) -> tf.Tensor | None:
        if isinstance(term, TensorVariable):
            leaf = extraction.leaves[term.name]
            return as_asked(leaf.tensor, leaf.is_row, as_row, problem.dims(term))
        if term in kept:
            return as_asked(kept[term], False, as_row, problem.dims(term))
        return _fixed(rewritten, term, as_row) if problem.is_fixed(term) else None

    emission = Emission(problem, given)
    emission.want(rewritten.roots)
    with graph.as_default(), tf.control_dependencies(None), tf.name_scope("substituted"):
        made = [(tensor, emission(term)) for tensor, term in zip(extraction.roots, rewritten.roots, strict=True)]
    return [(tensor, other) for tensor, other in made if other is not tensor]


def _fixed(rewritten: Rewritten, term: Apply, as_row: bool) -> tf.Tensor | None:
    """What is made of weights: kept from call to call while these do not change."""
    if term.operator == "transpose":  # which a product does by itself
        return None
    names = [one.name for one in inputs_of(term)]
    leaves = [rewritten.extraction.leaves[name] for name in names]
    make = maker(rewritten.problem, term, names, tuple(leaf.is_row for leaf in leaves), as_row)
    made: tf.Tensor = make([leaf.tensor for leaf in leaves])
    return made


alternatives.register(find)
