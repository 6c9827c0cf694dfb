"""Rewrites the bodies of SubGraphs before they are linked: for either engine, and for gradients, which are made of the
rewritten bodies."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any

import tensorflow as tf

from recgraph import defects, logs
from recgraph.core import body_rewrites, hoisting, program, regions
from recgraph.core.definition import Definition
from recgraph.core.environment import EnvironmentMap, Slots
from recgraph.errors import DefinitionError
from recgraph.optimize import choosing, switch
from recgraph.optimize.bridge import gradient_flow
from recgraph.optimize.bridge.copying import CopiedBody, CopyPlan, Rewritten
from recgraph.optimize.bridge.extraction import FLOATS, Extraction
from recgraph.optimize.costs import Costs
from recgraph.optimize.problem import Problem
from recgraph.optimize.search import Backtracking, SearchResult, describe
from recgraph.optimize.searched import Searched

_LOG = logs.logger("optimize")

# Graphs with more operations are left as they are: the search would take too long.
MOST_OPERATIONS = 400
# Seconds that the first call of a SubGraph may wait for the search.
PATIENCE = 0.9


@cache
def _search() -> Backtracking:
    return Backtracking(choosing.rules())


def prepare(root: Definition) -> tuple[Definition, list[str]]:
    """See `preparing.Preparer`."""
    if not switch.is_asked_for(root.optimize):
        return root, []
    if switch.is_off():
        return root, [f"substitutions: {switch.VARIABLE}=0"]
    members = list(program.reachable(root))
    if any(member.optimize is False for member in members):
        return root, ["substitutions: a SubGraph that is called has optimize=False"]
    try:
        return _prepare(root, members)
    except DefinitionError:
        raise
    except Exception as error:
        return root, [f"substitutions: {defects.contain(f'the rewriting of {root.name}', error)}"]


def _prepare(root: Definition, members: list[Definition]) -> tuple[Definition, list[str]]:
    why = next((why for member in members for why in _obstacles(member)), None)
    if why is not None:
        return root, [f"substitutions: none, {why}"]
    copies = {one.identity: _declared(one) for one in members}
    plan, lines = CopyPlan(copies), []
    slots = Slots(written=program.written(members))
    left = PATIENCE
    for member in members:
        sources = _Sources(plan, slots, member.finished_body().environment)
        graphs = list(sources.graphs(member.finished_body()))
        flows = gradient_flow.of_body(member.finished_body())
        for graph in graphs:
            found = _improve(graph, sources, flows.get(id(graph)), left)
            if found is not None:
                extraction, problem, result = found
                left = max(left - result.seconds, 0.0)
                if result.is_better:
                    plan.rewritten[id(graph)] = Rewritten(extraction, problem, result.roots)
                    lines += _lines(member, graph, problem, result)
    if not plan.rewritten:
        return root, ["substitutions: none makes a body cheaper"]
    for member in members:
        _fill(member, copies[member.identity], plan)
    _LOG.info("%s", "\n".join(lines))
    return copies[root.identity], lines


def _lines(member: Definition, graph: Any, problem: Any, found: SearchResult) -> list[str]:
    where = member.name if graph is member.finished_body() else f"{member.name}, {graph.name}"
    return [
        f"substitutions in {where}: {describe(problem, found)}",
        f"  estimated {found.before * 1e6:.1f} -> {found.after * 1e6:.1f} us; {found.looked_at} graphs in "
        f"{found.seconds:.2f} s",
        *(f"  {step}" for step in found.steps),
    ]


def _declared(one: Definition) -> Definition:
    made = Definition(one.name, one.inputs, one.outputs, one.engine, one.gradient, one.max_depth, memoize=one.memoize)
    made.prepared = made
    return made


def _fill(member: Definition, copy: Definition, plan: CopyPlan) -> None:
    body = copy.begin_generated(CopiedBody(member, plan))
    for tensor, placeholder in zip(member.placeholders, copy.placeholders, strict=True):
        body.note(tensor, placeholder)
    body.outputs = body.fill(member.finished_body().outputs)
    body.control_outputs = [body.copy(op) for op in member.finished_body().control_outputs]
    copy.finish_generated()


def _obstacles(member: Definition) -> Iterator[str]:
    """Why the body of a SubGraph is not copied."""
    body = member.finished_body()
    for op, _ in program.all_operations(body, body.environment):
        attributes = op.node_def.attr
        if "_gradient_op_type" in attributes:
            yield f"'{op.name}' in {member.name} has a gradient of its own, which may refer to the body's tensors"
        if regions.region_of(op) is None and any(one.HasField("func") or one.list.func for one in attributes.values()):
            yield f"'{op.name}' in {member.name} runs a function"
        if op.type == "Recgraph>Invoke" and op.get_attr("key"):
            yield f"'{op.name}' in {member.name} is a call with captured tensors of its own"


class _Sources:
    """Which tensors of the graphs of a body are the same in each run, and what they are."""

    def __init__(self, plan: CopyPlan, slots: Slots, environment: EnvironmentMap) -> None:
        self._plan, self._slots, self._environment = plan, slots, environment
        self._handed: dict[int, hoisting.OuterValue] = {}
        self._kept: list[Any] = []

    def graphs(self, graph: Any) -> Iterator[Any]:
        """A body and all of its branches and loops, what is around a graph before it."""
        yield graph
        for op in graph.get_operations():
            region = regions.region_of(op)
            if region is None:
                continue
            regions.map_environment(region, self._environment)
            for i, operand in enumerate(region.operands):
                source = self.of(operand)
                if source is None or region.kind == regions.WHILE and not regions.is_invariant(region, i):
                    continue
                for inner in region.graphs:
                    self._handed[id(inner.inputs[i])] = source
                    self._kept.append(inner.inputs[i])
            for inner in region.graphs:
                yield from self.graphs(inner)

    def of(self, tensor: tf.Tensor) -> hoisting.OuterValue | None:
        """What a tensor is, if it is the same in each run."""
        while tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        if id(tensor) in self._handed:
            return self._handed[id(tensor)]
        outer = self._environment.outer(tensor)
        if outer is not None:
            return None if tensor.dtype == tf.resource else hoisting.OuterValue(outer, False, tensor.dtype)
        if tensor.op.type == "ReadVariableOp":
            handle = self._environment.outer(tensor.op.inputs[0])
            if handle is not None and self._slots.may_read_once(handle):
                return hoisting.OuterValue(handle, True, tensor.dtype)
        return None

    def is_fixed(self, tensor: tf.Tensor) -> bool:
        """Whether a tensor is the same in each run; notes what it is."""
        source = self.of(tensor)
        if source is not None:
            self._plan.sources[id(tensor)] = source
        return source is not None


def _improve(
    graph: Any, sources: _Sources, flow: gradient_flow.GradientFlow | None, seconds: float
) -> tuple[Extraction, Any, SearchResult] | None:
    operations = graph.get_operations()
    if len(operations) > MOST_OPERATIONS:
        return None
    products = [op.outputs[0].dtype for op in operations if op.type == "MatMul" and op.outputs[0].dtype in FLOATS]
    if len(products) < 2:  # there is nothing to put together
        return None
    extraction = Extraction(graph, products[0], sources.is_fixed, flow=flow)
    problem = extraction.read(graph.outputs, graph.control_outputs)
    found = None if problem is None else _found(problem, seconds)
    return None if found is None else (extraction, problem, found)


_known = Searched()


def _found(problem: Problem, seconds: float) -> SearchResult | None:
    """What the search finds; the same for graphs that are alike, as the layers of a network are."""
    found = _known.of(problem, Costs.read(), seconds, _search())
    return found and dataclasses.replace(found, roots=tuple(map(problem.shared, found.roots)))


body_rewrites.register(prepare)
