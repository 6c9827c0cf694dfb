"""Reverse-mode differentiation of a body: the graph of its gradient, and what that needs of the forward run.

For every graph (a SubGraph's body, a branch, a loop body) the result is a gradient graph with inputs
`(frame, gradients of outputs)` and outputs `gradients of inputs`, and the list of forward values that the frame
must hold. A region's frame is one of these values, so recursion, branches and loops nest without further keys.
Gradients of captured outer tensors are not outputs: each contribution is added to a sum where it arises.
Source: thesis, 5.4.2 (recursive backpropagation).
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import origin, regions, rematerialization, sums
from recgraph.core.environment import EnvironmentMap, is_differentiable
from recgraph.core.regions import FrameOf, Region

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices
Item: TypeAlias = tf.Tensor | FrameOf


class GradientGraph(tf_private.FuncGraph):
    """A gradient body under construction.

    Tensors of the forward graph that it uses become items of the frame or, with `recompute`, are computed again from
    what the forward graph was given and what its calls, branches and loops gave.
    """

    def __init__(self, forward: Any, environment: EnvironmentMap, recompute: bool) -> None:
        super().__init__(f"{forward.name}_gradient")
        self.forward = forward
        self.environment = environment
        self.recompute = recompute
        self.regions: dict[str, Region] = {}
        self.accumulated: dict[str, tf.Tensor] = {}
        self.sparse: set[str] = set()
        self.frames: dict[FrameOf, Sequence[GradientGraph]] = {}
        self.items: list[Item] = []
        self.item_placeholders: list[tf.Tensor] = []
        self.gradient_inputs: list[tf.Tensor] = []
        self._inside: dict[Any, tf.Tensor] = {}
        self._kept: list[Any] = []

    def capture(self, tensor: Any, name: str | None = None, shape: Any = None) -> tf.Tensor:
        """The tensor of this graph that stands for `tensor`."""
        if not isinstance(tensor, tf_private.EagerTensor) and tensor.graph is self:
            return tensor
        key = id(tensor)
        if key not in self._inside:
            self._inside[key] = self._bring_in(tensor)
            self._kept.append(tensor)
        return self._inside[key]

    def frame_of(self, op: tf.Operation, derivatives: Sequence[GradientGraph]) -> tf.Tensor:
        """The frame of a region of the forward graph, whose graphs have these gradients."""
        key = FrameOf(op)
        self.frames[key] = derivatives
        if key not in self._inside:
            self._inside[key] = self._new_item(key, tf.TensorSpec([], tf.variant))
        return self._inside[key]

    def region_gradient(
        self, region: Region, gradients: list[Gradient | None], wanted: set[int]
    ) -> list[Gradient | None]:
        """The gradients of the inputs of a branch, loop or function call."""
        return RULES_OF_REGIONS[region.kind](self, region, gradients, wanted)

    def call_gradient(self, op: tf.Operation, gradients: list[Gradient | None]) -> list[Gradient | None]:
        """The gradients of the inputs of a call of a SubGraph."""
        return RULES_OF_CALLS[op.type](op, gradients)

    def _bring_in(self, tensor: Any) -> tf.Tensor:
        if isinstance(tensor, tf_private.EagerTensor) or tensor.graph is not self.forward:
            return self._bring_in_from_outside(tensor)
        outer = self.environment.outer(tensor)
        if outer is not None:
            return self._environment_placeholder(tensor, outer)
        if self._is_remade(tensor):
            self._remake(tensor.op)
            return self._inside[id(tensor)]
        if tensor.dtype.is_integer and (value := tf_private.constant_value(tensor)) is not None:
            with self.as_default(), tf.control_dependencies(None):
                return tf.constant(value, tensor.dtype)  # the order of a transposition, for instance
        return self._new_item(tensor, tf.TensorSpec(tensor.shape, tensor.dtype))

    def _bring_in_from_outside(self, tensor: Any) -> tf.Tensor:
        """A tensor around the forward graph, as custom gradients close over: captured there first."""
        captured = self.forward.capture(tensor)
        if captured is tensor:
            raise ValueError(f"the gradient of {self.forward.name} uses {tensor}, which is out of its reach")
        return self.capture(captured)

    def _environment_placeholder(self, tensor: tf.Tensor, outer: tf.Tensor) -> tf.Tensor:
        placeholder = self._placeholder(tf.TensorSpec(tensor.shape, tensor.dtype))
        if tensor.dtype == tf.resource:
            tf_private.copy_handle_data(tensor, placeholder)
        self.environment.add(placeholder, outer)
        return placeholder

    def _new_item(self, item: Item, spec: tf.TensorSpec) -> tf.Tensor:
        placeholder = self._placeholder(spec)
        self.items.append(item)
        self.item_placeholders.append(placeholder)
        return placeholder

    def take(self, tensor: tf.Tensor) -> None:
        """Makes an input of the forward graph an argument, in place of an item of the frame."""
        placeholder = self.capture(tensor)
        self._keep_items([known is not placeholder for known in self.item_placeholders])
        self.gradient_inputs.append(placeholder)

    def drop_unused_items(self) -> None:
        """Forgets forward values that only unused gradients ask for: they need not be kept."""
        needed = {id(op) for op in needed_operations(self, [tensor.op for tensor in self.outputs])}
        self._keep_items([id(placeholder.op) in needed for placeholder in self.item_placeholders])
        regions_kept = {item for item in self.items if isinstance(item, FrameOf)}
        self.frames = {item: graphs for item, graphs in self.frames.items() if item in regions_kept}

    def _keep_items(self, kept: list[bool]) -> None:
        self.items = list(itertools.compress(self.items, kept))
        self.item_placeholders = list(itertools.compress(self.item_placeholders, kept))

    def _placeholder(self, spec: tf.TensorSpec) -> tf.Tensor:
        with self.as_default(), tf.control_dependencies(None):
            placeholder = tf.compat.v1.placeholder(spec.dtype, spec.shape)
        self.inputs.append(placeholder)
        return placeholder

    def _is_remade(self, tensor: tf.Tensor) -> bool:
        if self.environment.outer(tensor) is not None:
            return False
        return rematerialization.is_remade(tensor.op, self.environment, self.recompute)

    def _remake(self, op: tf.Operation) -> None:
        """Makes an operation again, after those that it reads from."""
        stack = [op]
        while stack:
            before = [s.op for s in stack[-1].inputs if id(s) not in self._inside and self._is_remade(s)]
            if before:
                stack.extend(before)
            elif id(stack[-1].outputs[0]) in self._inside:
                stack.pop()
            else:
                self._remake_one(stack.pop())

    def _remake_one(self, op: tf.Operation) -> None:
        with self.as_default(), tf.control_dependencies(None):
            copy = self.create_op(
                op.type,
                [self.capture(source) for source in op.inputs],
                [output.dtype for output in op.outputs],
                attrs={key: value for key, value in op.node_def.attr.items() if not key.startswith("_")},
                name=op.name.rsplit("/", 1)[-1],
            )
        for made, original in zip(copy.outputs, op.outputs, strict=True):
            made.set_shape(original.shape)
            self._inside[id(original)] = made
            self._kept.append(original)


def has_effect(op: tf.Operation) -> bool:
    """Whether an operation of a gradient body is there for more than its results."""
    if op.type == "Recgraph>Region":
        region = regions.region_of(op)
        assert region is not None
        return any(has_effect(inner) for graph in region.graphs for inner in graph.get_operations())
    return op.type in ("Recgraph>Accumulate", "Recgraph>InvokeGradient")


def needed_operations(graph: Any, roots: list[tf.Operation]) -> list[tf.Operation]:
    """What `roots`, and the effects of a gradient body, need: inputs and control inputs included."""
    stack = [*roots, *(op for op in graph.get_operations() if has_effect(op))]
    needed: dict[int, tf.Operation] = {}
    while stack:
        op = stack.pop()
        if id(op) not in needed:
            needed[id(op)] = op
            stack += [tensor.op for tensor in op.inputs]
            stack += op.control_inputs
    return list(needed.values())


@dataclasses.dataclass(frozen=True)
class Derivative:
    """The gradient of one graph.

    Attributes:
        graph: the gradient graph; its `items` are what the frame must hold.
        seeds: positions of the forward outputs whose gradients it takes, in order.
        results: per target a gradient, or None where the outputs do not depend on it.
    """

    graph: GradientGraph
    seeds: tuple[int, ...]
    results: tuple[tf.Tensor | None, ...]


def differentiate(
    forward: Any,
    targets: Sequence[tf.Tensor],
    seeds: Sequence[int],
    environment: EnvironmentMap,
    recompute: bool = False,
) -> Derivative:
    """Differentiates the outputs number `seeds` of `forward` with respect to its inputs `targets`.

    With `recompute`, the gradient runs the operations of `forward` again in place of having their results kept.

    Raises:
        LookupError: an operation on the way has no gradient; names the operation and the user's line.
    """
    graph = GradientGraph(forward, environment, recompute)
    pass_ = ReversePass(graph, targets, environment)
    with graph.as_default():
        for seed in seeds:
            output = forward.outputs[seed]
            placeholder = graph._placeholder(tf.TensorSpec(output.shape, output.dtype))
            graph.gradient_inputs.append(placeholder)
            pass_.add(output, placeholder)
        pass_.run()
        results = tuple(pass_.gradient_of(target) for target in targets)
        for outer, gradient in pass_.outer_gradients():
            name = sums.add(gradient)
            graph.accumulated[name] = outer
            if isinstance(gradient, tf.IndexedSlices):
                graph.sparse.add(name)
    return Derivative(graph, tuple(seeds), results)


class ReversePass:
    """One walk over the forward operations, last to first, gathering gradients of tensors."""

    def __init__(self, graph: Any, targets: Sequence[tf.Tensor], environment: EnvironmentMap) -> None:
        self.graph = graph
        self.environment = environment
        self.targets = targets
        self._gradients: dict[int, list[Gradient]] = collections.defaultdict(list)
        self._outer: list[tf.Tensor] = []
        self._wanted = self._tensors_on_the_way()

    def add(self, tensor: tf.Tensor, gradient: Gradient | None) -> None:
        if gradient is not None:
            self._gradients[id(tensor)].append(gradient)

    def gradient_of(self, tensor: tf.Tensor) -> tf.Tensor | None:
        total = _total(self._gradients.get(id(tensor), []))
        return None if total is None else tf.convert_to_tensor(total)

    def run(self) -> None:
        for op in reversed(self.graph.forward.get_operations()):
            if any(id(output) in self._gradients for output in op.outputs) and op.inputs:
                self._differentiate(op)

    def outer_gradients(self) -> Iterator[tuple[tf.Tensor, Gradient]]:
        """Every contribution to the gradient of an outer tensor."""
        for placeholder in self._outer:
            outer = self.environment.outer(placeholder)
            assert outer is not None
            for gradient in self._gradients.get(id(placeholder), []):
                yield outer, gradient

    def _tensors_on_the_way(self) -> set[int]:
        """Tensors through which a gradient can reach a target or an outer tensor."""
        wanted = {id(target) for target in self.targets}
        for op in self.graph.forward.get_operations():
            region = regions.region_of(op)
            if region is not None:
                regions.map_environment(region, self.environment)
            reaching = [id(source) in wanted for source in op.inputs] + [self._is_outer(source) for source in op.inputs]
            if any(reaching) or _calls(op, region, self.environment):
                wanted.update(id(output) for output in op.outputs)
        return wanted

    def _is_outer(self, tensor: tf.Tensor) -> bool:
        if self.environment.outer(tensor) is None or not is_differentiable(tensor):
            return False
        if not any(tensor is known for known in self._outer):
            self._outer.append(tensor)
        return True

    def _differentiate(self, op: tf.Operation) -> None:
        gradients = [_total(self._gradients.pop(id(output), [])) for output in op.outputs]
        if not any(id(output) in self._wanted for output in op.outputs):
            return
        region = regions.region_of(op)
        results: Iterable[Gradient | None]
        if region is not None:
            results = self.graph.region_gradient(region, gradients, self._wanted)
        elif op.type == "Recgraph>Invoke":
            results = self.graph.call_gradient(op, gradients)
        else:
            results = _by_table(op, gradients)
        for source, result in zip(op.inputs, results, strict=True):
            if result is not None and (id(source) in self._wanted or self.environment.outer(source) is not None):
                self.add(source, result)


def _calls(op: tf.Operation, region: Region | None, environment: EnvironmentMap) -> bool:
    """Whether an operation reaches outer tensors by what it runs."""
    if region is None:
        return bool(op.type == "Recgraph>Invoke")
    return _reaches_outer(region, environment)


def _reaches_outer(region: Region, environment: EnvironmentMap) -> bool:
    """Whether an outer tensor or a call is used inside of a region."""
    for graph in region.graphs:
        for op in graph.get_operations():
            if op.type == "Recgraph>Invoke":
                return True
            inner = regions.region_of(op)
            if inner is not None:
                regions.map_environment(inner, environment)
                if _reaches_outer(inner, environment):
                    return True
            if any(environment.outer(source) is not None and is_differentiable(source) for source in op.inputs):
                return True
    return False


def _by_table(op: tf.Operation, gradients: list[Gradient | None]) -> list[Gradient | None]:
    """The gradient by TensorFlow's table, which custom gradients enter too."""
    try:
        rule = tf_private.gradient_function(op)
    except LookupError:
        raise LookupError(
            f"no gradient is defined for operation '{op.name}' (type {op.type}), made at {origin.of_operation(op)}"
        ) from None
    if rule is None:
        return [None] * len(op.inputs)
    given = [_or_zeros(op, i, gradient) for i, gradient in enumerate(gradients)]
    with tf.name_scope(f"{op.name.rsplit('/', 1)[-1]}_gradient"):
        results = rule(op, *given)
    return list(results) if isinstance(results, list | tuple) else [results]


def _or_zeros(op: tf.Operation, index: int, gradient: Gradient | None) -> Gradient | None:
    output = op.outputs[index]
    if gradient is not None or not (is_differentiable(output) or output.dtype == tf.variant):
        return gradient
    return tf.zeros_like(output)


def _total(gradients: list[Gradient]) -> Gradient | None:
    if not gradients:
        return None
    if len(gradients) == 1:
        return gradients[0]
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
        return tf.IndexedSlices(
            tf.concat([gradient.values for gradient in gradients], 0),
            tf.concat([gradient.indices for gradient in gradients], 0),
            gradients[0].dense_shape,
        )
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in gradients])


def seeds_of(outputs: Sequence[tf.Tensor], gradients: Sequence[Gradient | None]) -> list[int]:
    """The outputs whose gradients arrive."""
    return [i for i, gradient in enumerate(gradients) if gradient is not None and is_differentiable(outputs[i])]


def operands_to_differentiate(region: Region, environment: EnvironmentMap, wanted: set[int]) -> list[int]:
    """The operands that a gradient is wanted for and that are not captured tensors."""
    regions.map_environment(region, environment)
    skipped = regions.environment_operands(region, environment)
    return [
        i
        for i, operand in enumerate(region.operands)
        if i not in skipped and id(operand) in wanted and is_differentiable(operand)
    ]


def _branch_rule(
    graph: GradientGraph, region: Region, gradients: list[Gradient | None], wanted: set[int]
) -> list[Gradient | None]:
    """If, Case and function calls: the gradient runs the gradient of the branch that was taken, on its frame."""
    seeds = seeds_of(region.op.outputs, gradients)
    environment = graph.environment
    indices = operands_to_differentiate(region, environment, wanted)
    derivatives = [
        differentiate(branch, [branch.inputs[i] for i in indices], seeds, environment, graph.recompute)
        for branch in region.graphs
    ]
    used = [k for k in range(len(indices)) if any(d.results[k] is not None for d in derivatives)]
    for branch, derivative in zip(region.graphs, derivatives, strict=True):
        inputs = [branch.inputs[indices[k]] for k in used]
        _set_outputs(derivative, [derivative.results[k] for k in used], inputs)
    handed = _hand_in(region, [d.graph for d in derivatives]) if graph.recompute else []
    inputs = [] if region.selector is None else [region.selector]
    inputs += [
        graph.frame_of(region.op, [d.graph for d in derivatives]),
        *(tf.convert_to_tensor(gradients[seed]) for seed in seeds),
        *handed,
    ]
    specs = [tf.TensorSpec(region.operands[indices[k]].shape, region.operands[indices[k]].dtype) for k in used]
    made = regions.make_region(region.kind, [d.graph for d in derivatives], inputs, specs)
    results: list[Gradient | None] = [None] * len(region.op.inputs)
    for k, gradient in zip(used, made, strict=True):
        results[regions.SELECTORS[region.kind] + indices[k]] = gradient
    return results


def _hand_in(region: Region, graphs: Sequence[GradientGraph]) -> list[tf.Tensor]:
    """The operands that the gradients of branches need: computed again around them, and handed in."""
    places = {id(tensor): i for branch in region.graphs for i, tensor in enumerate(branch.inputs)}
    needed = sorted({places[id(item)] for graph in graphs for item in graph.items if id(item) in places})
    for graph in graphs:
        for i in needed:
            graph.take(graph.forward.inputs[i])
    return [region.operands[i] for i in needed]


def set_outputs(derivative: Derivative, targets: Sequence[tf.Tensor]) -> None:
    """Makes the gradients of all targets the outputs of the gradient graph; zeros where there is none."""
    _set_outputs(derivative, list(derivative.results), list(targets))


def _set_outputs(derivative: Derivative, results: list[tf.Tensor | None], inputs: list[tf.Tensor]) -> None:
    """Makes `results` the outputs of the gradient graph; zeros where there is none."""
    graph = derivative.graph
    with graph.as_default():
        graph.outputs = [
            tf.zeros_like(source) if result is None else graph.capture(result)
            for result, source in zip(results, inputs, strict=True)
        ]
    graph.drop_unused_items()


def _loop_rule(
    graph: GradientGraph, region: Region, gradients: list[Gradient | None], wanted: set[int]
) -> list[Gradient | None]:
    """While: the gradient is a loop over the stack of the iterations' frames, last to first."""
    environment = graph.environment
    regions.map_environment(region, environment)
    skipped = regions.environment_operands(region, environment)
    body = region.graphs[1]
    carried = [i for i, operand in enumerate(region.operands) if i not in skipped and _is_carried(operand)]
    derivative = differentiate(body, [body.inputs[i] for i in carried], carried, environment, graph.recompute)
    _set_outputs(derivative, list(derivative.results), [body.inputs[i] for i in carried])
    initial = [
        tf.convert_to_tensor(gradients[i]) if gradients[i] is not None else tf.zeros_like(region.op.outputs[i])
        for i in carried
    ]
    specs = [tf.TensorSpec([], tf.variant)]
    specs += [tf.TensorSpec(body.inputs[i].shape, body.inputs[i].dtype) for i in carried]
    made = regions.make_region(
        regions.LOOP_GRADIENT, [derivative.graph], [graph.frame_of(region.op, [derivative.graph]), *initial], specs
    )
    results: list[Gradient | None] = [None] * len(region.op.inputs)
    for i, gradient in zip(carried, made[1:], strict=True):
        results[i] = gradient
    return results


def _is_carried(operand: tf.Tensor) -> bool:
    return is_differentiable(operand) or operand.dtype == tf.variant


def _no_rule(graph: GradientGraph, region: Region, *_: Any) -> list[Gradient | None]:
    raise LookupError(f"no gradient of {region.kind} regions ({region.op.name})")


RULES_OF_REGIONS: dict[str, Callable[..., list[Gradient | None]]] = {
    regions.IF: _branch_rule,
    regions.CASE: _branch_rule,
    regions.CALL: _branch_rule,
    regions.WHILE: _loop_rule,
    regions.LOOP_GRADIENT: _no_rule,
}

# Gradients of calls of SubGraphs, by operation type; `invoke_gradient.register` enters them.
RULES_OF_CALLS: dict[str, Callable[..., list[Gradient | None]]] = {}
