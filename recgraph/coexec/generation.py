"""A plan as one TensorFlow function: operations, switches, and the ops by which it meets Python."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.coexec.plan import NONE, Plan, PlannedInput, PlannedNode
from recgraph.coexec.trace import From, Origin

_names = itertools.count()

Key = tuple[int, int]  # an output of a node
Block = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Signature:
    """Type and attributes of an operation."""

    name: str
    attributes: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Resource:
    """A variable."""

    name: str
    dtype: tf.DType
    shape: tf.TensorShape


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What the numbers in a plan stand for."""

    signature: Callable[[int], Signature]
    resource: Callable[[int], Resource]
    is_write: Callable[[int], bool]


def generate(plan: Plan, meaning: Meaning) -> Any:
    """The function of a plan; it takes the number of the run and the variables' handles and gives nothing."""
    graph = tf_private.FuncGraph("coexec")
    with graph.as_default():
        writer = _Writer(plan, meaning)
        writer.write()
    graph.control_outputs = writer.sinks
    return tf_private.concrete_function(graph, writer.inputs, [])


class _Order:
    """Keeps the operations on each variable as they stand in the program."""

    def __init__(self) -> None:
        self._writer: dict[int, tf.Operation] = {}
        self._readers: dict[int, list[tf.Operation]] = {}

    def before(self, reads: Iterable[int], writes: Iterable[int]) -> list[tf.Operation]:
        """What an operation has to wait for that uses these variables."""
        found = [self._writer[r] for r in (*reads, *writes) if r in self._writer]
        return found + [reader for r in writes for reader in self._readers.get(r, [])]

    def add(self, op: tf.Operation, reads: Iterable[int], writes: Iterable[int]) -> None:
        """Notes such an operation."""
        for resource in reads:
            self._readers.setdefault(resource, []).append(op)
        for resource in writes:
            self._writer[resource] = op
            self._readers[resource] = []


class _Writer:
    """The graph of a plan under construction.

    Attributes:
        inputs: the function's parameters.
        sinks: what has to run even though nobody takes its results.
    """

    def __init__(self, plan: Plan, meaning: Meaning) -> None:
        self.plan, self.meaning = plan, meaning
        self.run = tf_private.placeholder(tf.TensorSpec([], tf.int64))
        self.outer = {number: self._handle(number) for number in plan.resources}
        self.inputs = [self.run, *(self.outer[number] for number in plan.resources)]
        self.handles = dict(self.outer)
        self.order = _Order()
        self.values: dict[Key, tf.Tensor] = {}
        self.sinks: list[tf.Operation] = []
        self._wanted = self._wanted_elsewhere()

    def write(self) -> None:
        """Writes everything."""
        for number in sorted(self.plan.written):
            self._shadow(number)
        for i, level in enumerate(self.plan.levels):
            if level.is_switch:
                self._switch(i)
            else:
                for number in level.blocks[0]:
                    self._node(number)
        if self.plan.commit != NONE:
            self._commit()

    def _handle(self, number: int) -> tf.Tensor:
        handle = tf_private.placeholder(tf.TensorSpec([], tf.resource))
        resource = self.meaning.resource(number)
        tf_private.describe_variable(handle, resource.shape, resource.dtype)
        return handle

    def _shadow(self, number: int) -> None:
        """A copy of a variable for the step: what it changes is not seen outside before all of it has happened."""
        resource = self.meaning.resource(number)
        shadow = tf.raw_ops.VarHandleOp(
            dtype=resource.dtype, shape=resource.shape, shared_name=f"recgraph_coexec_{next(_names)}"
        )
        value = tf.raw_ops.ReadVariableOp(resource=self.outer[number], dtype=resource.dtype)
        self.order.add(tf.raw_ops.AssignVariableOp(resource=shadow, value=value), (), (number,))
        self.handles[number] = shadow

    def _commit(self) -> None:
        """When Python says that the step is over, the variables take the values of their copies."""
        done = tf_private.add_operation("Recgraph>CaseSelect", [self.run], {"slot": _integer(self.plan.commit)}, "over")
        with tf.control_dependencies([done, *self._all_operations()]):
            ready = tf.no_op()
        with tf.control_dependencies([ready]):
            for number in sorted(self.plan.written):
                dtype = self.meaning.resource(number).dtype
                value = tf.raw_ops.ReadVariableOp(resource=self.handles[number], dtype=dtype)
                assign = tf.raw_ops.AssignVariableOp(resource=self.outer[number], value=value)
                with tf.control_dependencies([assign]):
                    self.sinks.append(tf.raw_ops.DestroyResourceOp(resource=self.handles[number]))

    def _all_operations(self) -> list[tf.Operation]:
        """What has to have happened before variables may change: an error in any of it must come first."""
        graph = tf.compat.v1.get_default_graph()
        return [op for op in graph.get_operations() if op.type not in ("Placeholder", "Const", "Recgraph>CaseSelect")]

    def _node(self, number: int) -> None:
        """One operation, with what it is given and what Python wants of it."""
        planned = self.plan.nodes[number]
        node = planned.node
        signature = self.meaning.signature(node.signature)
        used = {r for r in node.resources if r >= 0}
        reads, writes = (set(), used) if self.meaning.is_write(node.signature) else (used, set())
        inputs = [self._input(given) for given in planned.inputs]
        with tf.control_dependencies(self.order.before(reads, writes)):
            op = tf_private.add_operation(signature.name, inputs, signature.attributes, signature.name)
        self.order.add(op, reads, writes)
        if used:
            self.sinks.append(op)
        for i, tensor in enumerate(op.outputs):
            self.values[number, i] = tensor
        self._fetch(planned, op)

    def _fetch(self, planned: PlannedNode, op: tf.Operation) -> None:
        for slot, tensor in zip(planned.fetches, op.outputs, strict=True):
            if slot != NONE:
                attributes = {"slot": _integer(slot), "dtype": _type(tensor.dtype)}
                self.sinks.append(
                    tf_private.add_operation("Recgraph>OutputFetching", [self.run, tensor], attributes, "fetch")
                )

    def _input(self, given: PlannedInput) -> tf.Tensor:
        sources = [self._source(s, slot) for s, slot in zip(given.sources, given.slots, strict=True)]
        if given.select == NONE:
            return sources[0]
        index = self._selected(given.select)
        attributes = {"count": _integer(len(sources)), "dtype": _type(sources[0].dtype)}
        return tf_private.add_operation("Recgraph>ChooseInput", [index, *sources], attributes, "choose").outputs[0]

    def _source(self, source: Origin, slot: int) -> tf.Tensor:
        if source.origin is From.OPERATION:
            return self.values[source.number, source.output]
        if source.origin is From.RESOURCE:
            return self.handles[source.number]
        dtype = tf.dtypes.as_dtype(source.dtype)
        if source.origin is From.CONSTANT:
            value = np.frombuffer(source.value, dtype.as_numpy_dtype).reshape(source.shape)
            return tf.constant(value, dtype)
        shape = tf.TensorShape(None if source.shape is None else [None if n < 0 else n for n in source.shape])
        attributes = {
            "slot": _integer(slot),
            "dtype": _type(dtype),
            "shape": tf.compat.v1.AttrValue(shape=shape.as_proto()),
        }
        return tf_private.add_operation("Recgraph>InputFeeding", [self.run], attributes, "feed").outputs[0]

    def _selected(self, slot: int) -> tf.Tensor:
        return tf_private.add_operation("Recgraph>CaseSelect", [self.run], {"slot": _integer(slot)}, "select").outputs[
            0
        ]

    def _switch(self, number: int) -> None:
        """A level with a choice. A value of a block that is not taken is an empty tensor, which nothing uses."""
        level = self.plan.levels[number]
        wanted = {key: dtype for block in level.blocks for key, dtype in self._wanted.get(block, {}).items()}
        blocks: list[tuple[int, ...]] = [*level.blocks, *([()] if level.may_skip else [])]
        numbers = [n for block in level.blocks for n in block]
        used = {n: {r for r in self.plan.nodes[n].node.resources if r >= 0} for n in numbers}
        writes = {r for n in numbers if self.meaning.is_write(self.plan.nodes[n].node.signature) for r in used[n]}
        reads = {r for n in numbers for r in used[n]} - writes
        index = self._selected(self.plan.selects[number])
        cases = [lambda block=block: self._case(block, wanted) for block in blocks]
        with tf.control_dependencies(self.order.before(reads, writes)):
            results = tf.switch_case(index, cases)
        # By its first result, which waits for all effects: a switch is taken apart, and then what comes after the
        # switch itself waits for none, and what no result needs is left out.
        self.order.add(results[0].op, reads, writes)
        self.sinks.append(results[0].op)
        self.values.update(zip(wanted, results[1:], strict=True))

    def _case(self, block: tuple[int, ...], wanted: dict[Key, tf.DType]) -> list[tf.Tensor]:
        """The body of a case: the block's operations in a graph of their own."""
        outside = self.order, self.sinks, self.values
        self.order, self.sinks, self.values = _Order(), [], dict(self.values)
        for number in block:
            self._node(number)
        with tf.control_dependencies(self.sinks):
            done = tf.identity(tf.constant(0))
        results = [self.values[key] if key[0] in block else tf.zeros([0], dtype) for key, dtype in wanted.items()]
        self.order, self.sinks, self.values = outside
        return [done, *results]

    def _wanted_elsewhere(self) -> dict[Block, dict[Key, tf.DType]]:
        """For each block the values of it that are used in another one."""
        block_of = {n: block for level in self.plan.levels for block in level.blocks for n in block}
        found: dict[Block, dict[Key, tf.DType]] = {}
        for number, planned in enumerate(self.plan.nodes):
            for source in (s for given in planned.inputs for s in given.sources):
                if source.origin is From.OPERATION and block_of[source.number] is not block_of[number]:
                    key = source.number, source.output
                    found.setdefault(block_of[source.number], {})[key] = tf.dtypes.as_dtype(source.dtype)
        return found


def _integer(value: int) -> Any:
    return tf.compat.v1.AttrValue(i=value)


def _type(dtype: tf.DType) -> Any:
    return tf.compat.v1.AttrValue(type=dtype.as_datatype_enum)
