"""Copies of bodies, in which some tensors are made in another way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from recgraph import devices, tf_private
from recgraph.core import hoisting, origin, regions
from recgraph.core.body import BodyGraph
from recgraph.core.definition import Definition
from recgraph.core.regions import Region
from recgraph.optimize import terms
from recgraph.optimize.bridge import merging
from recgraph.optimize.bridge.emission import Emission
from recgraph.optimize.bridge.extraction import Extraction, waited_for
from recgraph.optimize.evaluate import Shape
from recgraph.optimize.problem import Problem
from recgraph.optimize.terms import TensorVariable, Term

AttrValue = tf.compat.v1.AttrValue


class Rewritten:
    """The part of a graph that is made anew.

    Attributes:
        extraction: the operations as terms.
        problem: the terms.
        roots: what is to be made in place of the problem's results.
    """

    def __init__(self, extraction: Extraction, problem: Problem, roots: tuple[Term, ...]) -> None:
        self.extraction, self.problem, self.roots = extraction, problem, roots
        self.terms = {id(tensor): term for tensor, term in zip(extraction.roots, roots, strict=True)}


class CopyPlan:
    """What all graphs of the copies of a program's bodies share.

    Attributes:
        environment: of the body that is copied.
        sources: what tensors that are the same in each run are, by id.
        rewritten: the parts that are made anew, by the id of the graph.
        definitions: the copies, by the identity of the original.
    """

    def __init__(self, definitions: dict[str, Definition]) -> None:
        self.definitions = definitions
        self.rewritten: dict[int, Rewritten] = {}
        self.sources: dict[int, hoisting.OuterValue] = {}
        self.hoisted = hoisting.Hoisted()
        self._stand_ins: dict[Any, tf.Tensor] = {}

    def stand_in(self, rewritten: Rewritten, term: Term, is_row: bool) -> tf.Tensor:
        """The stand-in for a term that is the same in each run; equal ones of all graphs are one."""
        leaves = rewritten.extraction.leaves
        names = [one.name for one in inputs_of(term)]
        sources = tuple(self.sources[id(leaves[name].tensor)] for name in names)
        rows = tuple(leaves[name].is_row for name in names)
        key = _renamed(term, {name: (source.key, row) for name, source, row in zip(names, sources, rows, strict=True)})
        if (key, is_row) not in self._stand_ins:
            recipe = hoisting.Recipe(sources, maker(rewritten.problem, term, names, rows, is_row))
            dims = rewritten.problem.dims(term)
            shape = [dims[1]] if is_row else list(dims[:2])
            spec = tf.TensorSpec(shape, rewritten.extraction.dtype)
            self._stand_ins[key, is_row] = self.hoisted.stand_in(spec, recipe)
        return self._stand_ins[key, is_row]


def inputs_of(term: Term) -> list[TensorVariable]:
    """The inputs that a term is made of, each once."""
    return [one for one in terms.subterms(term) if isinstance(one, TensorVariable)]


def _renamed(term: Term, names: dict[str, Any]) -> Any:
    if isinstance(term, TensorVariable):
        return names[term.name]
    return term.operator, term.parameters, tuple(_renamed(one, names) for one in term.arguments)


def maker(problem: Problem, term: Term, names: list[str], rows: tuple[bool, ...], is_row: bool) -> Any:
    """Computes a term of the values of its inputs."""

    def make(values: Any) -> tf.Tensor:
        given = {name: (value, row) for name, value, row in zip(names, values, rows, strict=True)}

        def leaf(one: Term, as_row: bool) -> tf.Tensor | None:
            return as_asked(*given[one.name], as_row, problem.dims(one)) if isinstance(one, TensorVariable) else None

        emission = Emission(problem, leaf)
        blocks = merging.blocks(problem, term)
        if len(blocks) > 1 and not devices.gpu_is_visible():  # from there weights would travel to be merged on the host
            parts = [emission.row(block.term) if is_row else emission(block.term) for block in blocks]
            return merging.joined(parts, [block.begin for block in blocks], problem.dims(term), is_row)
        return emission.row(term) if is_row else emission(term)

    return make


def as_asked(tensor: tf.Tensor, is_vector: bool, as_row: bool, dims: Shape) -> tf.Tensor:
    """A tensor as a vector, or as a matrix of one row or an image of one place."""
    if is_vector == as_row:
        return tensor
    if as_row:
        return tf.reshape(tensor, [-1])
    return tf.reshape(tensor, [1, -1] if dims[2:] == (1, 1) else dims)


class Copy:
    """A graph under construction that computes what another one does."""

    forward: Any
    plan: CopyPlan
    body: CopiedBody
    regions: dict[str, Region]

    def begin(self, forward: Any, plan: CopyPlan, body: CopiedBody) -> None:
        self.forward, self.plan, self.body = forward, plan, body
        self.regions = {}
        self.origins: dict[str, str] = {}
        self._copies: dict[int, tf.Tensor] = {}
        self._operations: dict[tf.Operation, tf.Operation] = {}
        self._kept: list[Any] = []
        self._rewritten = plan.rewritten.get(id(forward))
        self._emission: Emission | None = None
        if self._rewritten is not None:
            self._emission = Emission(self._rewritten.problem, self._given)
            self._emission.want(self._rewritten.roots)

    def bring(self, outer: tf.Tensor) -> tf.Tensor:
        """The tensor of this graph that stands for a stand-in."""
        raise NotImplementedError

    def fixed(self, rewritten: Rewritten, term: Term, as_row: bool) -> tf.Tensor | None:
        """The tensor of a term that is the same in each run; None where it is made like others."""
        return self.bring(self.plan.stand_in(rewritten, term, as_row))

    def fill(self, outputs: Iterable[tf.Tensor]) -> list[tf.Tensor]:
        """Copies everything; the copies of the outputs."""
        with self.as_default():  # type: ignore[attr-defined]
            for op in self.forward.get_operations():
                if op.type != "Placeholder" and not self._is_rewritten(op):
                    self.copy(op)
            made = [self.copy_of(tensor) for tensor in outputs]
        return made

    def note(self, tensor: tf.Tensor, copy: tf.Tensor) -> None:
        """From now on `copy` is what `tensor` of the other graph is here."""
        self._copies[id(tensor)] = copy
        self._kept.append(tensor)

    def copy_of(self, tensor: tf.Tensor) -> tf.Tensor:
        """What a tensor of the other graph is here."""
        if id(tensor) not in self._copies:
            if self._rewritten is not None and id(tensor) in self._rewritten.terms:
                self.note(tensor, self._emit(tensor))
            else:
                self.copy(tensor.op)
        return self._copies[id(tensor)]

    def copy(self, op: tf.Operation) -> tf.Operation:
        """Copies an operation, after those that it reads from or waits for."""
        if op not in self._operations:
            inputs = [self.copy_of(source) for source in op.inputs]
            controls = [self.copy(source) for source in self._waited_for(op)]
            before = len(self.get_operations())  # type: ignore[attr-defined]
            with tf.control_dependencies(None):
                region = regions.region_of(op)
                made = self._copy(op, inputs) if region is None else self._copy_region(region, inputs)
            self._say_origin(op, before)
            if controls:
                tf_private.add_control_inputs(made, controls)
            self._operations[op] = made
            for original, copied in zip(op.outputs, made.outputs, strict=False):
                copied.set_shape(original.shape)
                self.note(original, copied)
        return self._operations[op]

    def _waited_for(self, op: tf.Operation) -> list[tf.Operation]:
        return waited_for(op) if self._rewritten is None else self._rewritten.extraction.waited_for(op)

    def _is_rewritten(self, op: tf.Operation) -> bool:
        return self._rewritten is not None and self._rewritten.extraction.is_term(op)

    def _say_origin(self, op: tf.Operation, before: int) -> None:
        place = origin.of_operation(op)
        for made in self.get_operations()[before:]:  # type: ignore[attr-defined]
            self.origins.setdefault(made.name, place)

    def _emit(self, tensor: tf.Tensor) -> tf.Tensor:
        assert self._rewritten is not None
        assert self._emission is not None
        before = len(self.get_operations())  # type: ignore[attr-defined]
        with tf.control_dependencies(None), tf.name_scope("substituted"):
            made = self._emission(self._rewritten.terms[id(tensor)])
        self._say_origin(tensor.op, before)
        return made

    def _given(self, term: Term, as_row: bool) -> tf.Tensor | None:
        """The tensor of an input, or of what is the same in each run."""
        rewritten = self._rewritten
        assert rewritten is not None
        if isinstance(term, TensorVariable):
            leaf = rewritten.extraction.leaves[term.name]
            return as_asked(self.copy_of(leaf.tensor), leaf.is_row, as_row, rewritten.problem.dims(term))
        return self.fixed(rewritten, term, as_row) if rewritten.problem.is_fixed(term) else None

    def _copy(self, op: tf.Operation, inputs: list[tf.Tensor]) -> tf.Operation:
        definition = op.node_def
        attributes = {key: value for key, value in definition.attr.items() if not key.startswith("_")}
        if op.type == "Recgraph>Invoke" and not op.get_attr("key"):
            callee = self.plan.definitions[op.get_attr("entry").decode()]
            self.body.callees[callee.identity] = callee
            attributes["entry"] = AttrValue(s=callee.identity.encode())
        made = self.create_op(  # type: ignore[attr-defined]
            op.type, inputs, [output.dtype for output in op.outputs], attrs=attributes, name=f"{op.name}/"
        )
        for original, copied in zip(op.outputs, made.outputs, strict=True):
            if original.dtype in (tf.resource, tf.variant):
                tf_private.copy_handle_data(original, copied)
        return made

    def _copy_region(self, region: Region, inputs: list[tf.Tensor]) -> tf.Operation:
        parts = [CopiedPart(self, graph) for graph in region.graphs]
        is_loop = region.kind == regions.WHILE
        for part in parts:
            part.fill_part()
        outers = list({id(outer): outer for part in parts for outer in part.brought.values()}.values())
        for i, part in enumerate(parts):
            added = [part.bring(outer) for outer in outers]
            part.inputs = [*part.inputs[: len(region.operands)], *added]
            if is_loop and i == 1:
                part.outputs += added
        selector = inputs[: len(inputs) - len(region.operands)]
        operands = [*inputs[len(selector) :], *map(self.bring, outers)]
        results = list(region.op.outputs) + (outers if is_loop else [])
        specs = [tf.TensorSpec(output.shape, output.dtype) for output in results]
        made = regions.add_region(region.kind, parts, [*selector, *operands], specs, region.op.name)
        for original, copied in zip(region.op.outputs, made.outputs, strict=False):
            if original.dtype in (tf.resource, tf.variant):
                tf_private.copy_handle_data(original, copied)
        return made


class CopiedBody(Copy, BodyGraph):
    """The copy of a body."""

    def __init__(self, definition: Definition, plan: CopyPlan) -> None:
        BodyGraph.__init__(self, definition.name)
        self.begin(definition.finished_body(), plan, self)

    def bring(self, outer: tf.Tensor) -> tf.Tensor:
        return self.capture(outer)

    def copy_of(self, tensor: tf.Tensor) -> tf.Tensor:
        outer = self.forward.environment.outer(tensor)
        if outer is not None and id(tensor) not in self._copies:
            self.note(tensor, self.capture(outer))
        return super().copy_of(tensor)


class CopiedPart(Copy, tf_private.FuncGraph):
    """The copy of a branch, a loop or a function."""

    def __init__(self, parent: Copy, forward: Any) -> None:
        tf_private.FuncGraph.__init__(self, forward.name)
        self.begin(forward, parent.plan, parent.body)
        self.brought: dict[int, tf.Tensor] = {}
        self._inside: dict[int, tf.Tensor] = {}

    def fill_part(self) -> None:
        """Copies everything."""
        for tensor in self.forward.inputs:
            self.note(tensor, self._argument(tensor))
        self.outputs = self.fill(self.forward.outputs)
        self.control_outputs = [self._operations[op] for op in self.forward.control_outputs if op in self._operations]

    def bring(self, outer: tf.Tensor) -> tf.Tensor:
        if id(outer) not in self._inside:
            self.brought[id(outer)] = outer
            self._inside[id(outer)] = self._argument(outer)
            self.body.environment.add(self._inside[id(outer)], outer)
        return self._inside[id(outer)]

    def _argument(self, like: tf.Tensor) -> tf.Tensor:
        with self.as_default(), tf.control_dependencies(None):
            placeholder = tf.compat.v1.placeholder(like.dtype, like.shape)
        if like.dtype in (tf.resource, tf.variant):
            tf_private.copy_handle_data(like, placeholder)
        self.inputs.append(placeholder)
        return placeholder
