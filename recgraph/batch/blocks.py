"""One function of a program as nodes of the plan: its operations gathered into blocks, its values in slots."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.batch import plan, vectorize
from recgraph.batch.alike import BlockCopy, Likeness
from recgraph.batch.flow import NOTHING, Call, Flow, FlowProgram, Label, Value, frame_kind
from recgraph.batch.fuse import Fusion
from recgraph.batch.nodes import attribute, origin
from recgraph.batch.vectorize import IsJoin, NoRule, VectorizedRows


@dataclasses.dataclass
class Unit:
    """What becomes one node of the plan: operations that run together, or a single call or frame operation."""

    names: list[str]
    reads: list[Value] = dataclasses.field(default_factory=list)
    writes: list[Value] = dataclasses.field(default_factory=list)
    waits: list[str] = dataclasses.field(default_factory=list)
    node: plan.PlanNode | None = None


@dataclasses.dataclass
class _PlannedBlock:
    """A block under construction: its name, what it is made of, and the graph that it shares with others like it."""

    name: str
    unit: Unit
    likeness: Likeness
    graph: _BlockGraph


class Assembler:
    """Makes the plan of one function, and the functions of its blocks.

    Attributes:
        definitions: functions of its blocks.
        copies: those that are like functions of other blocks.
    """

    def __init__(
        self, program: FlowProgram, flow: Flow, labels: dict[str, Label], traced: dict[Any, _BlockGraph]
    ) -> None:
        """Args: the program, one of its functions, the labels of the nodes there, and graphs of blocks by likeness."""
        self.program, self.flow, self.labels, self.traced = program, flow, labels, traced
        self.units: dict[Any, Unit] = {}
        self.unit_of: dict[str, Unit] = {}
        self.slots: dict[Value, int] = {("", i): i for i in range(flow.arguments)}
        self.specs: dict[Value, tf.TensorSpec] = {}
        self.blocks: list[_PlannedBlock] = []
        self.definitions: list[Any] = []
        self.copies: list[BlockCopy] = []
        self.is_traced = False
        for name in flow.nodes:
            if name not in flow.shared:
                self._unit(self._key(name)).names.append(name)
                self.unit_of[name] = self._unit(self._key(name))
        self._connect()
        self.ordered = self._in_order()

    def trace(self) -> dict[str, str | None]:
        """Builds the graphs of all blocks; once.

        Returns:
            The operations that turned out not to be part of a block: why they run row by row or, of joins, None.
        """
        if not self.is_traced:
            self._argument_specs()
            for unit in self.ordered:
                unit.node = self._node(unit)
        self.is_traced = True
        apart: dict[str, str | None] = {}
        for block in self.blocks:
            numbers = block.graph.likeness.numbers
            apart |= {block.likeness.nodes[numbers[n]].name: reason for n, reason in block.graph.apart.items()}
        return apart

    def assemble(self) -> plan.PlannedFunction:
        """The function's plan, once all operations are where they belong."""
        for block in self.blocks:
            graph = block.graph
            if graph.function is None:
                self.definitions.append(graph.define(block.name, block.likeness))
            else:
                name = graph.function.signature.name
                self.copies.append(BlockCopy(block.name, name, block.likeness, graph.likeness, graph.sources))
            assert block.unit.node is not None
            block.unit.node.block = self._planned(block)
        return self._function()

    def traced_blocks(self) -> list[TracedBlock]:
        """The operations of the function's blocks, in the order of its nodes."""
        return [block.graph.traced(block.likeness) for block in self.blocks]

    def _planned(self, block: _PlannedBlock) -> plan.Block:
        """What the plan has of a block."""
        graph, names = block.graph, block.unit.names
        slots = dict(zip(graph.likeness.slots, block.likeness.slots, strict=True))
        return plan.Block(
            block.name,
            [self.flow.nodes[name].op for name in names] or ["Const"],
            [(slots[slot], form) for slot, form in graph.forms],
            [not rows.has_rows for rows in graph.written],
            [(kind, slots[slot], number) for kind, slot, number in graph.numbered_sums],
            graph.by_row,
            bool(graph.by_row) and names[0] in self.flow.ordered,
            any(not self.specs[value].shape.is_fully_defined() for value in block.unit.reads),
            graph.work,
        )

    def _unit(self, key: Any) -> Unit:
        return self.units.setdefault(key, Unit([]))

    def _key(self, name: str) -> Any:
        if self._is_single(name):
            return ("single", name)
        return ("block", self.labels[name])

    def _is_single(self, name: str) -> bool:
        flow = self.flow
        return (
            name in flow.calls or flow.is_alone(name) or name in flow.joins or frame_kind(flow.nodes[name]) is not None
        )

    # What passes between units.

    def _inputs(self, name: str) -> list[Value]:
        """The values that a node reads, those that only say how to join left out."""
        call = self.flow.calls.get(name)
        if call is not None:
            return call.inputs
        inputs = self.flow.inputs(name)
        return inputs[:-1] if name in self.flow.joins else inputs

    def _connect(self) -> None:
        """Finds what each unit reads and what of its results is read elsewhere."""
        wanted: dict[Value, None] = {}
        for key, unit in list(self.units.items()):
            reads: dict[Value, None] = {}
            plain = key[0] == "block" or self.flow.is_alone(unit.names[0])
            for name in unit.names:
                for value in self._inputs(name):
                    inside = value[0] and self.unit_of.get(value[0]) is unit
                    if not inside and not (plain and self.flow.is_shared(value)):
                        reads[value] = None
            unit.reads = list(reads)
            unit.waits = [source for name in unit.names for source in self.flow.waits(self.flow.nodes[name])]
            wanted.update(reads)
        wanted.update((value, None) for value in self.flow.results)
        for value in wanted:
            if value[0] == "":
                continue
            unit = self._unit(("block", NOTHING)) if self.flow.is_shared(value) else self.unit_of[value[0]]
            unit.writes.append(value)
            self.slots[value] = len(self.slots)

    def _producer(self, value: Value) -> Unit | None:
        if value[0] == "":
            return None
        return self.units["block", NOTHING] if self.flow.is_shared(value) else self.unit_of[value[0]]

    def _in_order(self) -> list[Unit]:
        """Units after those that they read from."""
        ordered: dict[int, Unit] = {}
        waiting: set[int] = set()
        stack = list(reversed(self.units.values()))
        while stack:
            unit = stack[-1]
            sources = [*map(self._producer, unit.reads), *(self.unit_of[name] for name in unit.waits)]
            before = [p for p in sources if p is not None and id(p) not in ordered]
            if before:
                assert id(unit) not in waiting, (self.flow.name, unit.names)  # it would wait for itself
                waiting.add(id(unit))
                stack.extend(before)
            else:
                ordered.setdefault(id(stack.pop()), unit)
        return list(ordered.values())

    # Nodes.

    def _argument_specs(self) -> None:
        definition = self.flow.definition
        for i, argument in enumerate(definition.signature.input_arg):
            shape = tf.TensorShape(None)
            shapes = attribute(definition.arg_attr[i], "_output_shapes").list.shape if i in definition.arg_attr else []
            if shapes:
                shape = tf.TensorShape(shapes[0])
            self.specs["", i] = tf.TensorSpec(shape, tf.as_dtype(argument.type))

    def _node(self, unit: Unit) -> plan.PlanNode:
        name = unit.names[0] if unit.names else ""
        if not name or not self._is_single(name) or self.flow.is_alone(name):
            return self._block(unit)
        if name in self.flow.calls:
            return self._call(name)
        reads = [self.slots[value] for value in self._inputs(name)]
        if name in self.flow.joins:
            self.specs[name, 0] = _joined([self.specs[value] for value in self._inputs(name)])
            return plan.PlanNode(plan.JOIN, reads, [self.slots[name, 0]])
        return self._frame(name, reads)

    def _frame(self, name: str, reads: list[int]) -> plan.PlanNode:
        node = self.flow.nodes[name]
        kind = frame_kind(node)
        assert kind is not None
        if kind != plan.UNPACK:
            dtype = tf.bool if kind == plan.IS_EMPTY else tf.variant
            self.specs[name, 0] = tf.TensorSpec([], dtype)
            return plan.PlanNode(kind, reads, [self.slots.get((name, 0), -1)])
        indices = list(attribute(node, "indices").list.i)
        shapes, types = attribute(node, "shapes").list.shape, attribute(node, "T").list.type
        for i, (shape, dtype) in enumerate(zip(shapes, types, strict=True)):
            self.specs[name, i] = tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(dtype))
        return plan.PlanNode(kind, reads, [self.slots.get((name, i), -1) for i in range(len(indices))], indices=indices)

    def _call(self, name: str) -> plan.PlanNode:
        call = self.flow.calls[name]
        for i, spec in enumerate(result_specs(call)):
            self.specs[name, i] = spec
        return plan.PlanNode(
            plan.CALL,
            [self.slots[value] for value in self._inputs(name)],
            [self.slots.get((name, i), -1) for i in range(call.results)],
            targets=call.targets,
            selector=call.kind,
            site="" if call.made else call.site,
        )

    def _block(self, unit: Unit) -> plan.PlanNode:
        name = f"{self.program.dotted[self.flow.name]}.block{len(self.blocks)}"
        likeness = Likeness(self.flow, self.specs, unit.names, unit.reads, unit.writes)
        graph = self.traced.get(likeness.key)
        if graph is None:
            graph = _BlockGraph(self.flow, self.specs, unit, likeness)
            graph.trace()
            self.traced[likeness.key] = graph
        for value, rows in zip(unit.writes, graph.written, strict=True):
            self.specs[value] = rows.spec
        self.blocks.append(_PlannedBlock(name, unit, likeness, graph))
        return plan.PlanNode(
            plan.BLOCK, [self.slots[value] for value in unit.reads], [self.slots[value] for value in unit.writes]
        )

    # Events.

    def _function(self) -> plan.PlannedFunction:
        program, flow, ordered = self.program, self.flow, self.ordered
        events: list[tuple[list[int], list[int]]] = [([], [])]
        for unit in ordered:
            assert unit.node is not None
            unit.node.event = len(events)
            fired = len(program.groups[unit.node.targets[0]]) if unit.node.kind == plan.CALL else 1
            events.extend(([], []) for _ in range(fired))
        for i, unit in enumerate(ordered):
            assert unit.node is not None
            arrived = {self._event(value) for value in unit.reads} | self._ends(unit.waits)
            _wait(unit.node, i, arrived, events)
        nodes = [unit.node for unit in ordered if unit.node is not None]
        for number, group in enumerate(program.groups[flow.name]):
            arrived = {self._event(flow.results[result]) for result in group}
            if flow.name in program.whole:
                arrived |= self._ends(flow.ordered)
            if len(arrived) > 1:
                nodes.append(plan.PlanNode(plan.WAIT, [], [], event=len(events)))
                _wait(nodes[-1], len(nodes) - 1, arrived, events)
                arrived = {len(events)}
                events.append(([], []))
            events[max(arrived, default=0)][1].append(number)
        results = [self.slots[value] for value in flow.results]
        made = plan.PlannedFunction(
            flow.name, flow.arguments, len(self.slots), results, program.groups[flow.name], events, nodes
        )
        made.has_effects = flow.name in program.with_effects
        made.is_linear = flow.name in program.linear
        return made

    def _ends(self, names: Iterable[str]) -> set[int]:
        """The events that ordered operations and calls fire when they are done."""
        nodes = [self.unit_of[name].node for name in names]
        return {node.event for node in nodes if node is not None}

    def _event(self, value: Value) -> int:
        unit = self._producer(value)
        if unit is None:
            return 0
        assert unit.node is not None
        if unit.node.kind == plan.CALL:
            return unit.node.event + self.program.group_of(self.flow.calls[value[0]], value[1])
        return unit.node.event


def _wait(node: plan.PlanNode, number: int, arrived: set[int], events: list[tuple[list[int], list[int]]]) -> None:
    """Makes a node wait for events, or for the beginning."""
    waits = sorted(arrived) or [0]
    node.pending = len(waits)
    for event in waits:
        events[event][0].append(number)


def made_function(program: FlowProgram, name: str) -> plan.PlannedFunction:
    """The plan of a loop (node 0 calls its condition, node 1 its body) or of a map (node 0 runs for every row)."""
    call = program.made[name]
    arguments = list(range(len(call.arguments)))
    events: list[tuple[list[int], list[int]]] = [([], [])]
    if call.made == plan.LOOP:
        count = len(arguments)
        condition = plan.PlanNode(plan.CALL, arguments, [count], targets=[call.inner[0]])
        body = plan.PlanNode(plan.CALL, arguments, [count + 1 + i for i in arguments], targets=[call.inner[1]])
        slots, results, nodes = 2 * count + 1, arguments, [condition, body]
    else:
        slots = len(arguments) + call.results
        results = list(range(len(arguments), slots))
        nodes = [plan.PlanNode(plan.CALL, arguments, results, targets=list(call.inner), site=call.site or name)]
    function = plan.PlannedFunction(
        name, len(arguments), slots, results, program.groups[name], events, nodes, call.made
    )
    if call.made == plan.MAP:
        function.map_results = [_map_result(spec) for spec in result_specs(call)]
    return function


def _map_result(spec: tf.TensorSpec) -> plan.MapResult:
    shape = [] if spec.shape.rank is None else [dim or 0 for dim in spec.shape[1:]]
    return plan.MapResult(spec.dtype == tf.variant, spec.dtype.as_datatype_enum, shape)


def result_specs(call: Call) -> list[tf.TensorSpec]:
    """What is known of the results of a call; the last one of a recorded call is its frame."""
    node = call.node
    shapes = attribute(node, "results_shapes" if node.op == "Recgraph>InvokeGradient" else "output_shapes").list.shape
    types = attribute(node, "T" if node.op == "Recgraph>While" else "Tout").list.type
    known = len(types)
    specs = []
    for i in range(call.results):
        shape = tf.TensorShape(shapes[i] if i < len(shapes) else (None if i < known else []))
        specs.append(tf.TensorSpec(shape, tf.as_dtype(types[i]) if i < known else tf.variant))
    return specs


def _joined(specs: list[tf.TensorSpec]) -> tf.TensorSpec:
    return tf.TensorSpec(tf.TensorShape([None]).concatenate(specs[0].shape[1:]), specs[0].dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class TracedBlock:
    """The operations of a block for all rows, as they were traced.

    Attributes:
        graph: has the operations.
        inputs: placeholders for what the block's node reads, rows of each.
        captures: placeholders by slot of the environment.
        outputs: what the node writes.
        contributions: (kind, slot of the environment, values of all rows) of what is added to sums.
    """

    graph: Any
    inputs: list[tf.Tensor]
    captures: dict[int, tf.Tensor]
    outputs: list[VectorizedRows]
    contributions: list[tuple[str, int, list[VectorizedRows]]]


class _BlockGraph:
    """Builds the graph of one block, and of those that are like it.

    Attributes:
        apart: operations that turned out not to be part of it: why they run row by row or, of joins, None.
        written: the values that it writes.
        traced_as: what the block is made of that was traced.
        likeness: what the block is made of that it has the names of.
        sources: which operations of it those of the graph compute, by name: their numbers in `likeness`.
        function: what runs, once it was made.
        forms: (slot, form) of the captured tensors that the function is given.
        numbered_sums: (kind, slot, number of its first output) of what it adds to sums.
    """

    def __init__(self, flow: Flow, specs: dict[Value, tf.TensorSpec], unit: Unit, likeness: Likeness) -> None:
        self.flow, self.specs, self.unit, self.likeness = flow, specs, unit, likeness
        self.traced_as = likeness
        self.graph = tf_private.FuncGraph("block")
        self.values: dict[Value, VectorizedRows] = {}
        self.captures: dict[int, tf.Tensor] = {}
        self.inputs: list[tf.Tensor] = []
        self.written: list[VectorizedRows] = []
        self.sums: list[tuple[str, int, list[tf.Tensor]]] = []
        self.contributions: list[tuple[str, int, list[VectorizedRows]]] = []
        self.apart: dict[str, str | None] = {}
        self.sources: dict[str, int] = {}
        self.function: Any = None
        self.forms: list[tuple[int, int]] = []
        self.numbered_sums: list[tuple[str, int, int]] = []
        self.by_row = flow.by_row.get(unit.names[0], "") if unit.names else ""
        self.is_alone = bool(unit.names) and flow.is_alone(unit.names[0])

    def trace(self) -> None:
        """Adds the operations, for all rows."""
        with self.graph.as_default():
            for value in self.unit.reads:
                self._read(value)
            for name in self.unit.names:
                node = self.flow.nodes[name]
                if node.op == "Recgraph>Accumulate":
                    self.sums.append(self._sum(node))
                else:
                    self._run(node)
            self.written = [self._get(value) for value in self.unit.writes]

    def traced(self, likeness: Likeness) -> TracedBlock:
        """What `trace` has added, with the captured tensors of a block that is like the one that was traced."""
        slots = dict(zip(self.traced_as.slots, likeness.slots, strict=True))
        captures = {slots[slot]: placeholder for slot, placeholder in self.captures.items()}
        contributions = [(kind, slots[slot], values) for kind, slot, values in self.contributions]
        return TracedBlock(self.graph, self.inputs, captures, self.written, contributions)

    @functools.cached_property
    def work(self) -> int:
        """Multiplications in the matrix products of one row."""
        return min(sum(map(_multiplications, self.graph.get_operations())), 1 << 30)

    def define(self, name: str, likeness: Likeness) -> Any:
        """The function, with the names of the block that it is made for."""
        outputs = [rows.tensor for rows in self.written]
        for kind, slot, tensors in self.sums:
            self.numbered_sums.append((kind, slot, len(outputs)))
            outputs += tensors
        definition, self.forms = self._define(outputs, name)
        own = BlockCopy(name, name, likeness, self.likeness, self.sources)
        names = own.names(definition)
        self.function = own.make(definition)
        self.sources = {names[old]: number for old, number in self.sources.items() if old in names}
        self._take_slots(likeness)
        return self.function

    def _take_slots(self, likeness: Likeness) -> None:
        """Is a graph of the block from now on that is made of this."""
        slots = dict(zip(self.likeness.slots, likeness.slots, strict=True))
        self.forms = [(slots[slot], form) for slot, form in self.forms]
        self.numbered_sums = [(kind, slots[slot], number) for kind, slot, number in self.numbered_sums]
        nodes = self.likeness.numbers
        self.apart = {likeness.nodes[nodes[name]].name: reason for name, reason in self.apart.items()}
        self.likeness = likeness

    def _define(self, outputs: list[tf.Tensor], name: str) -> tuple[Any, list[tuple[int, int]]]:
        """The block's function, made cheaper where it has many operations, and the captured tensors that it reads."""
        if self.is_alone:
            inputs = [*self.inputs, *self.captures.values()]
            with self.graph.as_default():
                outputs = [tf.identity(tensor) for tensor in outputs]
            definition = tf_private.function_of_graph(self.graph, name, inputs, outputs)
            return definition, [(slot, plan.RAW) for slot in self.captures]
        with_rows = [rows.tensor for rows in self.values.values() if rows.has_rows]
        fusion = Fusion(self.inputs, self.captures, outputs, with_rows, name)
        inputs = [*fusion.inputs, *fusion.captures.placeholders]
        definition = tf_private.function_of_graph(fusion.graph, name, inputs, fusion.outputs, fusion.operations)
        return definition, fusion.captures.forms

    def _read(self, value: Value) -> None:
        spec = self.specs[value]
        self.values[value] = VectorizedRows(tf_private.placeholder(spec), False) if self.by_row else _rows_of(spec)
        self.inputs.append(self.values[value].tensor)

    def _get(self, value: Value) -> VectorizedRows:
        if value not in self.values:
            assert self.flow.is_shared(value), value
            self._run(self.flow.nodes[value[0]])
        return self.values[value]

    def _run(self, node: Any) -> None:
        if node.op == "Recgraph>Capture":
            outputs = [VectorizedRows(self._capture(node), False)]
        else:
            inputs = [self._get(value) for value in self.flow.inputs(node.name)]
            try:
                outputs = self._vectorized(node, inputs)
            except NoRule as reason:
                self.apart[node.name] = str(reason)
                outputs = [_rows_of(output.spec) for output in vectorize.row_form(node, inputs)]
            except IsJoin:
                self.apart[node.name] = None
                outputs = [_rows_of(_joined([value.spec for value in inputs]))]
        for i, output in enumerate(outputs):
            self.values[node.name, i] = output

    def _vectorized(self, node: Any, inputs: list[VectorizedRows]) -> list[VectorizedRows]:
        """The outputs of a node; the user's line is noted on every operation that computes them."""
        before = len(self.graph.get_operations())
        outputs = vectorize.vectorize(node, inputs)
        place = tf.compat.v1.AttrValue(s=origin(node).encode())
        for op in self.graph.get_operations()[before:]:
            self.sources[op.name] = self.likeness.numbers[node.name]
            if place.s:
                tf_private.set_attribute(op, "_recgraph_origin", place)
        return outputs

    def _capture(self, node: Any) -> tf.Tensor:
        slot = attribute(node, "slot").i
        if slot not in self.captures:
            shape = tf.TensorShape(attribute(node, "shape").shape)
            spec = tf.TensorSpec(shape, tf.as_dtype(attribute(node, "dtype").type))
            self.captures[slot] = tf_private.placeholder(spec)
            dtype = attribute(node, "_variable_dtype").type
            if dtype:
                shape = tf.TensorShape(attribute(node, "_variable_shape").shape)
                tf_private.describe_variable(self.captures[slot], shape, tf.as_dtype(dtype))
        return self.captures[slot]

    def _sum(self, node: Any) -> tuple[str, int, list[tf.Tensor]]:
        """What a contribution of all rows adds to a sum."""
        kind, slot = attribute(node, "kind").s.decode(), attribute(node, "slot").i
        values = [self._get(value) for value in self.flow.inputs(node.name)]
        count = self._count()
        self.contributions.append((kind, slot, values))
        if kind == "dense":
            (value,) = values
            if value.has_rows and value.total is not None:
                return kind, slot, [value.total]
            numbers = _summable(value.tensor)
            total = tf.reduce_sum(numbers, 0) if value.has_rows else numbers * tf.cast(count[0], numbers.dtype)
            return kind, slot, [total]
        tensors = [vectorize.with_rows(value, count) for value in values]
        return kind, slot, [_flat(tensor) for tensor in tensors]

    def _count(self) -> tf.Tensor:
        if self.by_row:
            return tf.constant([1])
        if not self.inputs:
            self.apart[self.unit.names[0]] = "it reads nothing"
            return tf.constant([1])
        return tf.shape(self.inputs[0])[:1]


def _summable(values: tf.Tensor) -> tf.Tensor:
    """Half types as floats: a sum is rounded to them once, when all blocks have added to it."""
    return tf.cast(values, tf.float32) if values.dtype in (tf.float16, tf.bfloat16) else values


def _rows_of(spec: tf.TensorSpec) -> VectorizedRows:
    """A value that comes from another block."""
    return VectorizedRows(
        tf_private.placeholder(tf.TensorSpec(tf.TensorShape([None]).concatenate(spec.shape), spec.dtype)), True
    )


def _multiplications(op: tf.Operation) -> int:
    """Of a matrix product, for one row of the first factor."""
    if op.type not in ("MatMul", "BatchMatMulV2") or any(factor.shape.rank is None for factor in op.inputs):
        return 0
    sizes = [dim for factor in op.inputs for dim in factor.shape[1 if factor is op.inputs[0] else 0 :] if dim]
    inner = op.inputs[0].shape[-1] or 1
    return int(np.prod(sizes, dtype=np.int64)) // inner


def _flat(tensor: tf.Tensor) -> tf.Tensor:
    """`[rows, m, ...]` as `[rows * m, ...]`."""
    inner = tensor.shape[2:]
    if inner.is_fully_defined():
        return tf.reshape(tensor, [-1, *inner])
    return tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[2:]], 0))


def reachable(definitions: dict[str, Any], roots: Iterable[str], make: Any) -> dict[str, Flow]:
    """The flows of all functions that can be reached from `roots`."""
    flows: dict[str, Flow] = {}
    queue = [root for root in roots if root in definitions]
    while queue:
        name = queue.pop(0)
        if name in flows:
            continue
        flows[name] = make(definitions[name])
        for call in flows[name].calls.values():
            queue.extend(call.inner or call.targets)
    return flows
