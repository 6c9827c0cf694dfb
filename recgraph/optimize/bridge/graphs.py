"""Copies of the graphs of functions, in which products are put together: of whatever `tf.function` has traced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.core import regions
from recgraph.core.regions import CALL, WHILE, Region
from recgraph.optimize import choosing
from recgraph.optimize.bridge import gradient_flow
from recgraph.optimize.bridge.copying import Copy, CopyPlan, Rewritten, inputs_of, maker
from recgraph.optimize.bridge.extraction import FLOATS, Extraction
from recgraph.optimize.costs import Costs
from recgraph.optimize.parts import InParts
from recgraph.optimize.saturation import Saturation
from recgraph.optimize.search import Backtracking, Search, describe
from recgraph.optimize.terms import Apply, Term

# Attributes of operations that are about names or shapes of another graph.
_OF_GRAPH = ("_class", "_output_shapes")
# What says of a call that it is one: another device or compiler runs it, or another implementation takes its place.
_KEPT_CALLS = ("_XlaMustCompile", "_noinline", "api_implements", "_implements")
# Constants with more numbers are not compared.
_FEW = 64


@dataclasses.dataclass(frozen=True)
class RewrittenGraph:
    """A graph and what was done.

    Attributes:
        graph: a finished FuncGraph with the inputs, captures and outputs of the given one; None where nothing is
            cheaper.
        lines: what was done, as text.
        seconds: of processor time that the search took.
    """

    graph: Any
    lines: list[str]
    seconds: float = 0.0


def rewritten(
    given: Any, outputs: int, seconds: float, gradients: bool = True, search: str = "backtracking"
) -> RewrittenGraph:
    """A copy of a graph of a function in which substitutions were made, its branches, loops and functions included.

    Args:
        given: a finished FuncGraph.
        outputs: how many of its outputs count.
        seconds: of processor time that the search may take.
        gradients: whether the copy is to be differentiable where the graph is; if not, to ask for one is an error.
        search: one of `SEARCHES`.
    """
    why = next(_obstacles(given, gradients), None)
    if why is not None:
        return RewrittenGraph(None, [f"substitutions: none, {why}"])
    flat = CopiedGraph(given, CopyPlan({}))
    flat.fill_function(given, outputs)
    plan = CopyPlan({})
    rewriting = Rewriting(plan, seconds, search, gradient_flow.of_function(flat) if gradients else {})
    rewriting.look_at(flat)
    if not plan.rewritten:
        return RewrittenGraph(None, ["substitutions: none makes the graph cheaper"], rewriting.spent)
    made = CopiedGraph(flat, plan)
    made.fill_function(flat, outputs, gradients)
    return RewrittenGraph(made, rewriting.lines, rewriting.spent)


def _obstacles(graph: Any, gradients: bool) -> Iterator[str]:
    """Why a graph is not copied."""
    if tf_private.has_deferred_captures(graph):
        yield "what the graph captures is asked for at each call"
    for op in all_operations(graph):
        if gradients and "_gradient_op_type" in op.node_def.attr and region_kind(op) != CALL:
            yield f"'{op.name}' has a gradient of its own, which may refer to the graph's tensors"
        if op.type == "Recgraph>Region":
            yield f"'{op.name}' is part of the body of a SubGraph"


def all_operations(graph: Any) -> Iterator[tf.Operation]:
    """The operations of a graph, of its branches and loops, and of functions that it calls."""
    for op in graph.get_operations():
        yield op
        region = regions.region_of(op)
        for inner in region.graphs if region is not None else ():
            yield from all_operations(inner)


def region_kind(op: tf.Operation) -> str:
    """Of an operation that runs graphs, which kind it is; else empty."""
    region = regions.region_of(op)
    return "" if region is None else region.kind


SEARCHES: dict[str, Callable[..., Search]] = {"backtracking": Backtracking, "saturation": Saturation}


@cache
def _search(name: str) -> InParts:
    return InParts(SEARCHES[name](choosing.rules()))


class Rewriting:
    """The search for what to make anew in a graph and in its branches and loops.

    Args:
        plan: what is to be made anew is entered there.
        seconds: of processor time that it may take.
        search: one of `SEARCHES`.
        flows: which tensors of each graph get a gradient; empty where nobody asks for one.

    Attributes:
        is_complete: whether the time was enough so far.
    """

    def __init__(self, plan: CopyPlan, seconds: float, search: str, flows: gradient_flow.Flows) -> None:
        self.plan, self.lines, self._search, self._flows = plan, list[str](), _search(search), flows
        self.spent, self._seconds, self.is_complete = 0.0, seconds, True

    def look_at(self, graph: Any, fixed_inputs: frozenset[int] = frozenset()) -> None:
        """Searches a graph, and those within."""
        is_fixed = _fixed_tensors(graph, fixed_inputs)
        self._improve(graph, is_fixed)
        for op in graph.get_operations():
            region = regions.region_of(op)
            if region is None or region.kind == CALL:
                continue
            same = [
                is_fixed(operand) and (region.kind != WHILE or regions.is_invariant(region, i))
                for i, operand in enumerate(region.operands)
            ]
            for inner in region.graphs:
                self.look_at(inner, frozenset(id(t) for t, fixed in zip(inner.inputs, same, strict=False) if fixed))

    def _improve(self, graph: Any, is_fixed: Callable[[tf.Tensor], bool]) -> None:
        products = [op.outputs[0].dtype for op in graph.get_operations() if op.type in ("MatMul", "Conv2D")]
        products = [dtype for dtype in products if dtype in FLOATS]
        if len(products) < 2:
            return
        if self.spent >= self._seconds:
            self.is_complete = False
            return
        flow = self._flows.get(id(graph))
        extraction = Extraction(graph, products[0], is_fixed, _representatives(graph), has_images=True, flow=flow)
        problem = extraction.read(graph.outputs, graph.control_outputs or ())
        if problem is None:
            return
        found = self._search(problem, Costs.read(), self._seconds - self.spent)
        self.spent += found.seconds
        self.is_complete = self.is_complete and found.is_complete
        if found.is_better:
            self.plan.rewritten[id(graph)] = Rewritten(extraction, problem, found.roots)
            self.lines += [
                f"substitutions in {graph.name}: {describe(problem, found)}",
                f"  estimated {found.before * 1e6:.1f} -> {found.after * 1e6:.1f} us; {found.looked_at} graphs in "
                f"{found.seconds:.2f} s",
                *(f"  {step}" for step in dict.fromkeys(found.steps)),
            ]


def _fixed_tensors(graph: Any, fixed_inputs: frozenset[int]) -> Callable[[tf.Tensor], bool]:
    """Whether a tensor is likely to be the same in each call: a weight, that lies in the same memory, or a vector that
    is computed of weights, as those of a normalisation are. Not one that the graph writes: what is made of it has to be
    made in each call."""
    captured = {id(inner) for _, inner in getattr(graph, "captures", ())} | fixed_inputs
    captured -= {id(handle) for op in graph.get_operations() for handle in ops.effects(op).handles}

    known: dict[int, bool] = {}

    def is_fixed(tensor: tf.Tensor) -> bool:
        if id(tensor) not in known:
            known[id(tensor)] = found(tensor)
        return known[id(tensor)]

    def found(tensor: tf.Tensor) -> bool:
        while tensor.op.type in ("Identity", "Reshape", "ReadVariableOp"):
            tensor = tensor.op.inputs[0]
        if id(tensor) in captured or tensor.op.type == "Const":
            return True
        sizes: list[Any] = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
        is_row = None not in sizes and sum(size > 1 for size in sizes) <= 1
        is_pure = bool(tensor.op.inputs) and not tf_private.is_stateful(tensor.op)
        return is_row and is_pure and all(map(is_fixed, tensor.op.inputs))

    return is_fixed


def _representatives(graph: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    """Of tensors that equal operations compute of equal tensors, the first: a reshaped input of several layers, or a
    variable that is read for each step of a recurrent one, where nothing in the graph writes."""
    first: dict[Any, tf.Operation] = {}
    writes = any(map(ops.effects, graph.get_operations()))
    stands_for: dict[int, tf.Tensor] = {}

    def same(tensor: tf.Tensor) -> tf.Tensor:
        return stands_for.get(id(tensor), tensor)

    for op in graph.get_operations():
        is_pure = not tf_private.is_stateful(op) or op.type == "ReadVariableOp" and not writes
        if op.control_inputs or not is_pure or op.type == "Placeholder" or not op.outputs:
            continue
        if op.type == "Const" and (op.outputs[0].shape.num_elements() or 0) > _FEW:
            continue
        attributes = sorted(
            (name, value.SerializeToString(deterministic=True))
            for name, value in op.node_def.attr.items()
            if not name.startswith("_")
        )
        key = op.type, op.device, tuple(attributes), tuple(id(same(source)) for source in op.inputs)
        before = first.setdefault(key, op)
        if before is not op:
            stands_for.update((id(own), other) for own, other in zip(op.outputs, before.outputs, strict=True))
    return same


class _PlainCopy(Copy):
    """A copy that is run by TensorFlow: branches and loops are its own operations."""

    prefix = ""
    as_default: Any
    get_operations: Any

    def bring(self, outer: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError("graphs of functions have no stand-ins")

    def _say_origin(self, op: tf.Operation, before: int) -> None:
        """TensorFlow's errors name operations, not lines."""

    def fixed(self, rewritten: Rewritten, term: Term, as_row: bool) -> tf.Tensor | None:
        if isinstance(term, Apply) and term.operator == "transpose":  # which a product does by itself
            return None
        names = [one.name for one in inputs_of(term)]
        leaves = [rewritten.extraction.leaves[name] for name in names]
        make = maker(rewritten.problem, term, names, tuple(leaf.is_row for leaf in leaves), as_row)
        return make([self.copy_of(leaf.tensor) for leaf in leaves])

    def copy(self, op: tf.Operation) -> tf.Operation:
        region = regions.region_of(op)
        is_plain_call = region is not None and region.kind == CALL
        if op in self._operations or not is_plain_call or any(name in op.node_def.attr for name in _KEPT_CALLS):
            return super().copy(op)
        assert region is not None
        return self._inline(region)

    def _inline(self, region: Region) -> tf.Operation:
        """Copies the operations of a function in place of its call. What it does waits for what the call waits for."""
        op, (graph,) = region.op, region.graphs
        inner = _Inlined(self, graph, f"{self.prefix}{op.name}/")
        for tensor, source in zip(graph.inputs, op.inputs, strict=True):
            inner.note(tensor, self.copy_of(source))
        controls = [self.copy(source) for source in op.control_inputs]
        before = len(self.get_operations())
        made = inner.fill(graph.outputs[: len(op.outputs)])
        acting = [one for one in self.get_operations()[before:] if tf_private.is_stateful(one)]
        for one in acting if controls else ():
            tf_private.add_control_inputs(one, controls)
        for original, copied in zip(op.outputs, made, strict=True):
            self.note(original, copied)
        with self.as_default(), tf.control_dependencies([*controls, *acting, *(tensor.op for tensor in made)]):
            self._operations[op] = tf.no_op(f"{self.prefix}{op.name}")
        return self._operations[op]

    def _copy(self, op: tf.Operation, inputs: list[tf.Tensor]) -> tf.Operation:
        definition = op.node_def
        attributes = {name: value for name, value in definition.attr.items() if name not in _OF_GRAPH}
        return self._create(op, inputs, attributes)

    def _create(self, op: tf.Operation, inputs: list[tf.Tensor], attributes: dict[str, Any]) -> tf.Operation:
        tf_private.bring_functions(op, self.graph)
        with self.as_default(), tf.name_scope(""), tf.device(op.device or None):
            dtypes = [output.dtype for output in op.outputs]
            name = f"{self.prefix}{op.name}"
            made = self.graph.create_op(op.type, inputs, dtypes, attrs=attributes, name=name)
        if hasattr(op, "_gradient_function"):
            made._gradient_function = op._gradient_function
        for original, copied in zip(op.outputs, made.outputs, strict=True):
            if original.dtype in (tf.resource, tf.variant):
                tf_private.copy_handle_data(original, copied)
        return made

    def _copy_region(self, region: Region, inputs: list[tf.Tensor]) -> tf.Operation:
        # New functions also where nothing changes: TensorFlow names what it differentiates after them.
        if region.kind == CALL:
            return self._copy(region.op, inputs)
        attributes = {name: value for name, value in region.op.node_def.attr.items() if name not in _OF_GRAPH}
        with self.as_default():
            attributes.update(copied_parts(region, self.plan, self.graph))
        return self._create(region.op, inputs, attributes)

    @property
    def graph(self) -> Any:
        """The graph that is made."""
        return self


def copied_parts(region: Region, plan: CopyPlan, graph: Any) -> dict[str, Any]:
    """The attributes of an operation that name its branches or its loop, with copies of these, which a graph gets to
    know."""
    names = []
    for inner in region.graphs:
        count = 1 if region.kind == WHILE and inner is region.graphs[0] else len(region.op.outputs)
        part = CopiedGraph(inner, plan)
        part.fill_branch(inner, count)
        names.append(tf_private.enter_function(part, graph))
    found, left = {}, iter(names)
    for key in ("then_branch", "else_branch", "branches", "cond", "body"):
        if key in region.op.node_def.attr:
            value = tf.compat.v1.AttrValue()
            value.CopyFrom(region.op.node_def.attr[key])
            for function in value.list.func if key == "branches" else [value.func]:
                function.name = next(left)
            found[key] = value
    return found


class CopiedGraph(_PlainCopy, tf_private.FuncGraph):
    """The copy of a function's graph, or of a branch or a loop in it."""

    inputs: list[tf.Tensor]

    def __init__(self, forward: Any, plan: CopyPlan) -> None:
        tf_private.FuncGraph.__init__(self, forward.name)
        self.begin(forward, plan, None)  # type: ignore[arg-type]

    def fill_function(self, given: Any, outputs: int, gradients: bool = True) -> None:
        """Copies everything, with arguments, captures and structured outputs of the same kinds."""
        captures = list(given.captures)
        for tensor in given.inputs[: len(given.inputs) - len(captures)]:
            self._argument(tensor)
        for outer, inner in captures:
            placeholder = tf_private.capture_by_placeholder(self, outer, inner.op.name)
            tf_private.copy_handle_data(inner, placeholder)
            self.note(inner, placeholder)
        self.inputs = [*self.inputs[: len(given.inputs) - len(captures)], *(inner for _, inner in self.captures)]
        made = self.fill(given.outputs[:outputs])
        if not gradients:
            made = [self._without_gradient(tensor) for tensor in made]
        self.outputs = made
        self.control_outputs = [self.copy(op) for op in given.control_outputs or ()]
        here = {id(tensor): copied for tensor, copied in zip(given.outputs[:outputs], made, strict=True)}
        self.structured_outputs = tf.nest.map_structure(
            lambda one: here.get(id(one), one), given.structured_outputs, expand_composites=True
        )
        self.structured_input_signature = given.structured_input_signature
        self.variables = given.variables

    def fill_branch(self, given: Any, outputs: int) -> None:
        """Copies everything."""
        for tensor in given.inputs:
            self._argument(tensor)
        self.outputs = self.fill(given.outputs[:outputs])
        self.structured_outputs = list(self.outputs)
        self.control_outputs = [self.copy(op) for op in given.control_outputs or ()]

    def _without_gradient(self, tensor: tf.Tensor) -> tf.Tensor:
        if not tensor.dtype.is_floating:
            return tensor
        message = "the function was optimized with gradients=False"
        with self.as_default():
            return tf.raw_ops.PreventGradient(input=tensor, message=message)

    def _argument(self, like: tf.Tensor) -> None:
        with self.as_default(), tf.control_dependencies(None):
            placeholder = tf.compat.v1.placeholder(like.dtype, like.shape, name=like.op.name)
        if like.dtype in (tf.resource, tf.variant):
            tf_private.copy_handle_data(like, placeholder)
        self.inputs.append(placeholder)
        self.note(like, placeholder)


class _Inlined(_PlainCopy):
    """A function that becomes a part of the graph that calls it."""

    def __init__(self, into: _PlainCopy, forward: Any, prefix: str) -> None:
        self._into, self.prefix = into, prefix
        self.begin(forward, into.plan, None)  # type: ignore[arg-type]

    @property
    def graph(self) -> Any:
        return self._into.graph

    def as_default(self) -> Any:
        """Operations go there."""
        return self.graph.as_default()

    def get_operations(self) -> Any:
        """Those that are there."""
        return self.graph.get_operations()
