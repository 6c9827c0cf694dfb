"""The gradient of a SubGraph as a SubGraph of tensors alone: what second and higher derivatives go through.

The first derivative (`gradient.py`) reads frames, which are not tensors that one could differentiate by. Its pullback
computes the same from the arguments: `(arguments, gradients of results) -> (gradients of arguments, gradients of
captured tensors)`, in one body that holds the forward operations again. It is an ordinary SubGraph, so it has a
gradient and a pullback of its own.

Cost: a body runs its calls again to differentiate them, which run theirs again: a node at depth d of a recursion is
computed d + 1 times; an iteration k of a loop k times. Gradients of captured tensors are handed from call to call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import gradient, invoke, program, regions, sums
from recgraph.core.body import BodyGraph
from recgraph.core.definition import Definition, by_identity
from recgraph.core.environment import EnvironmentMap, is_differentiable
from recgraph.core.gradient import Gradient
from recgraph.core.regions import Region
from recgraph.errors import GradientError


class _Copying:
    """A graph in which tensors of a forward graph are computed again where they are used."""

    forward: Any
    environment_of_forward: EnvironmentMap
    regions: dict[str, Region]
    body: PullbackBody

    def begin(self, forward: Any, environment: EnvironmentMap, body: PullbackBody) -> None:
        self.forward = forward
        self.environment_of_forward = environment
        self.body = body
        self.regions = {}
        self.copies: dict[int, tf.Tensor] = {}
        self.contributions: dict[int, tuple[tf.Tensor, list[tf.Tensor]]] = {}
        self._kept: list[Any] = []

    def contribute(self, outer: tf.Tensor, value: Gradient) -> None:
        """Adds to the gradient of a captured tensor."""
        self.contributions.setdefault(id(outer), (outer, []))[1].append(_dense(value, outer))

    def total(self, outer: tf.Tensor) -> tf.Tensor:
        """The gradient of a captured tensor in this graph."""
        values = self.contributions.get(id(outer), (outer, []))[1]
        return tf.add_n(values) if values else tf.zeros(gradient_spec(outer).shape, gradient_spec(outer).dtype)

    def stand_in(self, tensor: tf.Tensor, copy: tf.Tensor) -> None:
        """From now on `copy` is what `tensor` of the forward graph is here."""
        self.copies[id(tensor)] = copy
        self._kept.append(tensor)

    def copy_of(self, tensor: tf.Tensor) -> tf.Tensor:
        if id(tensor) not in self.copies:
            with self.as_default(), tf.control_dependencies(None):  # type: ignore[attr-defined]
                for original, copy in zip(tensor.op.outputs, self._copy(tensor.op), strict=False):
                    self.stand_in(original, copy)
        return self.copies[id(tensor)]

    def _copy(self, op: tf.Operation) -> list[tf.Tensor]:
        inputs = [self.copy_of(source) for source in op.inputs]
        region = regions.region_of(op)
        if region is not None:
            specs = [tf.TensorSpec(output.shape, output.dtype) for output in op.outputs]
            return regions.make_region(region.kind, list(region.graphs), inputs, specs)
        if op.type == "Recgraph>Invoke":
            self.body.adopt_callee(op)
        copy = self.create_op(  # type: ignore[attr-defined]
            op.type,
            inputs,
            [output.dtype for output in op.outputs],
            attrs={key: value for key, value in op.node_def.attr.items() if not key.startswith("_")},
            name=op.name.rsplit("/", 1)[-1],
        )
        for made, original in zip(copy.outputs, op.outputs, strict=True):
            made.set_shape(original.shape)
        return list(copy.outputs)

    # What a reverse pass asks of the graph it builds in.

    def region_gradient(
        self, region: Region, gradients: list[Gradient | None], wanted: set[int]
    ) -> list[Gradient | None]:
        rule = _pull_back_loop if region.kind == regions.WHILE else _pull_back_branches
        return rule(self, region, gradients, wanted)

    def call_gradient(self, op: tf.Operation, gradients: list[Gradient | None]) -> list[Gradient | None]:
        return _pull_back_call(self, op, gradients)


class PullbackBody(_Copying, BodyGraph):
    """The body of a pullback."""

    def __init__(self, name: str, forward: BodyGraph) -> None:
        BodyGraph.__init__(self, name)
        self.begin(forward, forward.environment, self)

    def capture(self, tensor: Any, name: str | None = None, shape: Any = None) -> tf.Tensor:
        if isinstance(tensor, tf_private.EagerTensor) or tensor.graph is not self.forward:
            return BodyGraph.capture(self, tensor, name, shape)
        outer = self.environment_of_forward.outer(tensor)
        return self.copy_of(tensor) if outer is None else BodyGraph.capture(self, outer, name, shape)

    def copy_of(self, tensor: tf.Tensor) -> tf.Tensor:
        outer = self.environment_of_forward.outer(tensor)
        return super().copy_of(tensor) if outer is None else BodyGraph.capture(self, outer)

    def adopt_callee(self, op: tf.Operation) -> None:
        """Keeps what a copied call calls."""
        if op.get_attr("key"):
            raise GradientError("no second derivative through a SubGraph that captures tensors of another body")
        identity = op.get_attr("entry").decode()
        self.callees[identity] = self._find(identity)

    def _find(self, identity: str) -> Definition:
        found = by_identity(identity)
        assert found is not None, "a body keeps its callees"
        return found


class PullbackPart(_Copying, tf_private.FuncGraph):
    """The pullback of a branch or of a loop's body: its inputs are the forward graph's, and gradients."""

    def __init__(self, parent: Any, forward: Any, inputs: Sequence[tf.Tensor]) -> None:
        tf_private.FuncGraph.__init__(self, f"{forward.name}_pullback")
        self.begin(forward, parent.environment_of_forward, parent.body)
        for tensor in inputs:
            self.stand_in(tensor, self.argument_like(tensor))

    def argument_like(self, tensor: tf.Tensor) -> tf.Tensor:
        """A further input."""
        placeholder = self.argument(tf.TensorSpec(tensor.shape, tensor.dtype))
        if tensor.dtype == tf.resource:
            tf_private.copy_handle_data(tensor, placeholder)
        return placeholder

    def argument(self, spec: tf.TensorSpec) -> tf.Tensor:
        with self.as_default(), tf.control_dependencies(None):
            placeholder = tf.compat.v1.placeholder(spec.dtype, spec.shape)
        self.inputs.append(placeholder)
        return placeholder

    def capture(self, tensor: Any, name: str | None = None, shape: Any = None) -> tf.Tensor:
        if isinstance(tensor, tf_private.EagerTensor):
            return super().capture(tensor, name)
        if tensor.graph is self:
            return tensor
        if tensor.graph is not self.forward:
            raise GradientError(f"no second derivative: {tensor.name} is used in a branch by a custom gradient")
        return self.copy_of(tensor)


def gradient_spec(outer: tf.Tensor) -> tf.TensorSpec:
    """The type of the gradient of a captured tensor, or of the variable behind a captured handle."""
    if outer.dtype != tf.resource:
        return tf.TensorSpec(outer.shape, outer.dtype)
    data = tf_private.handle_data(outer)
    return tf.TensorSpec([dim.size for dim in data.shape.dim], tf.as_dtype(data.dtype))


def outers_of(subgraph: Definition) -> list[tf.Tensor]:
    """The captured tensors that gradients flow to, of a SubGraph and all that it calls."""
    found: dict[int, tf.Tensor] = {}
    for member in program.reachable(subgraph):
        for outer in member.finished_body().captured:
            if is_differentiable(outer):
                found[id(outer)] = outer
    return list(found.values())


def of(subgraph: Definition) -> tuple[Definition, list[tf.Tensor]]:
    """The gradient as a definition of tensors alone, made at the first use, and the captures it has gradients for.

    Raises:
        GradientError: an operation of the body has no gradient.
        DefinitionError: running the body again would not do the same again.
    """
    with subgraph.lock:
        if subgraph.pullback is None:
            program.check_recomputable(subgraph, "a second derivative")
            outers = outers_of(subgraph)
            inputs, outputs = _declare(subgraph, outers)
            made = Definition(f"{subgraph.name}_pullback", inputs, outputs, max_depth=subgraph.max_depth)
            subgraph.pullback = made, outers  # declared before it is defined: the recursion calls it
            try:
                with tf_private.without_recording():
                    body = made.begin_generated(PullbackBody(made.name, subgraph.finished_body()))
                    _fill(subgraph, body, made.placeholders, outers)
            except BaseException:
                subgraph.pullback = None
                raise
            made.finish_generated()
        return subgraph.pullback


def _declare(subgraph: Definition, outers: list[tf.Tensor]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Inputs and outputs of the pullback of `subgraph`."""
    arguments = tf.nest.flatten(subgraph.inputs)
    results = tf.nest.flatten(subgraph.outputs)
    inputs = (*arguments, *(results[i] for i in subgraph.differentiable_outputs()))
    outputs = (*(arguments[i] for i in subgraph.differentiable_inputs()), *map(gradient_spec, outers))
    return inputs, outputs


def _fill(subgraph: Definition, body: PullbackBody, placeholders: list[tf.Tensor], outers: list[tf.Tensor]) -> None:
    """Builds the body of the pullback of `subgraph`; `placeholders` are its inputs."""
    count = len(subgraph.placeholders)
    for tensor, copy in zip(subgraph.placeholders, placeholders[:count], strict=True):
        body.stand_in(tensor, copy)
    targets = [subgraph.placeholders[i] for i in subgraph.differentiable_inputs()]
    seeds = subgraph.differentiable_outputs()
    with body.as_default():
        results = _pull_back(body, targets, seeds, placeholders[count:])
        body.outputs = [
            tf.zeros_like(body.capture(target)) if result is None else tf.convert_to_tensor(result)
            for target, result in zip(targets, results, strict=True)
        ]
        body.outputs += [body.total(outer) for outer in outers]


def _pull_back(
    graph: Any, targets: Sequence[tf.Tensor], seeds: Sequence[int], gradients: Sequence[tf.Tensor]
) -> list[tf.Tensor | None]:
    """Differentiates `graph.forward` inside of `graph`; contributions to captured tensors stay with it."""
    pass_ = gradient.ReversePass(graph, targets, graph.environment_of_forward)
    for seed, value in zip(seeds, gradients, strict=True):
        pass_.add(graph.forward.outputs[seed], value)
    pass_.run()
    for outer, value in pass_.outer_gradients():
        graph.contribute(outer, value)
    return [pass_.gradient_of(target) for target in targets]


def _dense(value: Gradient, outer: tf.Tensor) -> tf.Tensor:
    if not isinstance(value, tf.IndexedSlices):
        return value
    shape = gradient_spec(outer).shape
    indices = tf.reshape(value.indices, [-1, 1])
    values = sums.widened(value.values)
    return tf.cast(tf.tensor_scatter_nd_add(tf.zeros(shape, values.dtype), indices, values), value.values.dtype)


def _pull_back_branches(
    graph: Any, region: Region, gradients: list[Gradient | None], wanted: set[int]
) -> list[Gradient | None]:
    seeds = gradient.seeds_of(region.op.outputs, gradients)
    indices = gradient.operands_to_differentiate(region, graph.environment_of_forward, wanted)
    parts = []
    results = []
    for branch in region.graphs:
        part = PullbackPart(graph, branch, branch.inputs)
        values = [part.argument_like(branch.outputs[seed]) for seed in seeds]
        with part.as_default():
            results.append(_pull_back(part, [branch.inputs[i] for i in indices], seeds, values))
        parts.append(part)
    outers = _touched(parts)
    for part, branch, values in zip(parts, region.graphs, results, strict=True):
        _finish_part(part, [branch.inputs[i] for i in indices], values, outers)
    inputs = [graph.capture(source) for source in region.op.inputs]
    inputs += [tf.convert_to_tensor(gradients[seed]) for seed in seeds]
    specs = [tf.TensorSpec(region.operands[i].shape, region.operands[i].dtype) for i in indices]
    made = regions.make_region(region.kind, parts, inputs, [*specs, *map(gradient_spec, outers)])
    return _distribute(graph, region, indices, outers, made)


def _touched(parts: Sequence[Any]) -> list[tf.Tensor]:
    found = {key: outer for part in parts for key, (outer, _) in part.contributions.items()}
    return list(found.values())


def _finish_part(part: Any, targets: list[tf.Tensor], results: list[tf.Tensor | None], outers: list[tf.Tensor]) -> None:
    with part.as_default():
        part.outputs = [
            tf.zeros_like(part.capture(target)) if result is None else part.capture(tf.convert_to_tensor(result))
            for target, result in zip(targets, results, strict=True)
        ]
        part.outputs += [part.total(outer) for outer in outers]


def _distribute(
    graph: Any, region: Region, indices: list[int], outers: list[tf.Tensor], made: list[tf.Tensor]
) -> list[Gradient | None]:
    for outer, value in zip(outers, made[len(indices) :], strict=True):
        graph.contribute(outer, value)
    results: list[Gradient | None] = [None] * len(region.op.inputs)
    for i, value in zip(indices, made, strict=False):
        results[regions.SELECTORS[region.kind] + i] = value
    return results


def _pull_back_call(graph: Any, op: tf.Operation, gradients: list[Gradient | None]) -> list[Gradient | None]:
    graph.body.adopt_callee(op)
    subgraph = graph.body.callees[op.get_attr("entry").decode()]
    pulled_back, outers = of(subgraph)
    rows = op.get_attr("map")
    values = [graph.capture(source) for source in op.inputs]
    for i in subgraph.differentiable_outputs():
        given = gradients[i]
        values.append(tf.zeros_like(graph.capture(op.outputs[i])) if given is None else tf.convert_to_tensor(given))
    made = invoke.call_inside(pulled_back, graph.body, values, op.get_attr("site").decode(), rows)
    targets = subgraph.differentiable_inputs()
    for outer, value in zip(outers, made[len(targets) :], strict=True):
        graph.contribute(outer, tf.reduce_sum(value, 0) if rows else value)
    results: list[Gradient | None] = [None] * len(op.inputs)
    for i, value in zip(targets, made, strict=False):
        results[i] = value
    return results


# Loops: iteration k is differentiated at the state that running the loop k times gives.


def _pull_back_loop(
    graph: Any, region: Region, gradients: list[Gradient | None], wanted: set[int]
) -> list[Gradient | None]:
    environment = graph.environment_of_forward
    condition, body = region.graphs
    regions.map_environment(region, environment)
    skipped = regions.environment_operands(region, environment)
    carried = [i for i, operand in enumerate(region.operands) if i not in skipped and is_differentiable(operand)]
    state = [graph.capture(operand) for operand in region.operands]
    trips = _count_trips(graph, condition, body, state)
    part = _reverse_step(graph, body, carried)
    outers = _touched([part])
    count = len(state)
    reverse_inputs = part.inputs  # trip, state, gradients of carried
    totals = [part.argument(gradient_spec(outer)) for outer in outers]
    with part.as_default():
        trip = reverse_inputs[0] - 1
        sums = [total + part.total(outer) for outer, total in zip(outers, totals, strict=True)]
        part.outputs = [trip, *reverse_inputs[1 : 1 + count], *part.outputs, *sums]
    more = _Plain("more", part.inputs)
    with more.as_default():
        more.outputs = [more.inputs[0] > 0]
    initial = [
        tf.zeros_like(graph.capture(region.op.outputs[i]))
        if gradients[i] is None
        else tf.convert_to_tensor(gradients[i])
        for i in carried
    ]
    zeros = [tf.zeros(gradient_spec(outer).shape, gradient_spec(outer).dtype) for outer in outers]
    inputs = [trips, *state, *initial, *zeros]
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in part.inputs]
    made = regions.make_region(regions.WHILE, [more, part], inputs, specs)
    return _distribute(graph, region, carried, outers, made[1 + count :])


def _reverse_step(graph: Any, body: Any, carried: list[int]) -> PullbackPart:
    """`(trip, state at the start, gradients) -> gradients` before iteration `trip`; a part without outputs yet."""
    part = PullbackPart(graph, body, ())
    trip = part.argument(tf.TensorSpec([], tf.int32))
    start = [part.argument_like(tensor) for tensor in body.inputs]
    values = [part.argument_like(body.inputs[i]) for i in carried]
    with part.as_default():
        for tensor, state in zip(body.inputs, _state_after(trip - 1, body, start), strict=True):
            part.stand_in(tensor, state)
        results = _pull_back(part, [body.inputs[i] for i in carried], carried, values)
    _finish_part(part, [body.inputs[i] for i in carried], results, [])
    return part


class _Plain(tf_private.FuncGraph):
    """A graph of regions over given inputs."""

    def __init__(self, name: str, like: Sequence[tf.Tensor]) -> None:
        super().__init__(name)
        self.regions: dict[str, Region] = {}
        for tensor in like:
            with self.as_default():
                placeholder = tf.compat.v1.placeholder(tensor.dtype, tensor.shape)
            if tensor.dtype == tf.resource:
                tf_private.copy_handle_data(tensor, placeholder)
            self.inputs.append(placeholder)


def _counted(name: str, body: Any, state: Sequence[tf.Tensor]) -> _Plain:
    """`(trip, ..., state) -> (trip + 1, ..., next state)`, the dots handed through; inputs before the state."""
    graph = _Plain(name, state)
    with graph.as_default():
        lead = len(state) - len(body.inputs)
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in body.inputs]
        after = regions.make_region(regions.CALL, [body], graph.inputs[lead:], specs)
        kept = [
            graph.inputs[lead + i] if body.outputs[i] is body.inputs[i] else tensor for i, tensor in enumerate(after)
        ]
        graph.outputs = [graph.inputs[0] + 1, *graph.inputs[1:lead], *kept]
    return graph


def _count_trips(graph: Any, condition: Any, body: Any, state: list[tf.Tensor]) -> tf.Tensor:
    zero = tf.constant(0)
    like = [zero, *body.inputs]
    more = _Plain("more", like)
    with more.as_default():
        more.outputs = regions.make_region(regions.CALL, [condition], more.inputs[1:], [tf.TensorSpec([], tf.bool)])
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in like]
    made = regions.make_region(regions.WHILE, [more, _counted("trip", body, like)], [zero, *state], specs)
    return made[0]


def _state_after(trips: tf.Tensor, body: Any, start: list[tf.Tensor]) -> list[tf.Tensor]:
    """The loop's variables after `trips` iterations."""
    zero = tf.constant(0)
    like = [zero, trips, *body.inputs]
    more = _Plain("more", like)
    with more.as_default():
        more.outputs = [more.inputs[0] < more.inputs[1]]
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in like]
    made = regions.make_region(regions.WHILE, [more, _counted("again", body, like)], [zero, trips, *start], specs)
    return [start[i] if body.outputs[i] is body.inputs[i] else tensor for i, tensor in enumerate(made[2:])]
