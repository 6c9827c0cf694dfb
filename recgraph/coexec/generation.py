"""A plan as one TensorFlow function: operations, switches, and the ops by which it meets Python."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.coexec.cases import Level
from recgraph.coexec.directions import NONE
from recgraph.coexec.operations import rows_of
from recgraph.coexec.plan import PlannedInput, StepPlan
from recgraph.coexec.trace import From, Origin
from recgraph.coexec.trace_graph import START

_names = itertools.count()

Key = tuple[int, int]  # an output of a node
Block = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Signature:
    """Type and attributes of an operation.

    Attributes:
        results: the dtypes of the results if it calls a function, which `name` is then, else None.
    """

    name: str
    attributes: dict[str, Any]
    results: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class StepResource:
    """A variable."""

    name: str
    dtype: tf.DType
    shape: tf.TensorShape


@dataclasses.dataclass(frozen=True)
class InputMeaning:
    """What the numbers in a plan stand for."""

    signature: Callable[[int], Signature]
    resource: Callable[[int], StepResource]
    is_write: Callable[[int], bool]


def generate(plan: StepPlan, meaning: InputMeaning, xla: bool = False) -> Any:
    """The function of a plan; it takes the number of the run and the variables' handles and gives nothing.

    Args:
        plan: what it computes.
        meaning: what the numbers in it stand for.
        xla: whether XLA is to compile those of the program's operations that it can.
    """
    graph = tf_private.FuncGraph("coexec")
    with graph.as_default():
        writer = _Writer(plan, meaning, xla)
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
        originals: what variables were when the step began, those with shadows first.
        deferred: writes that wait for the end of the step, with what they are given and the variables.

    `_met` is what Python was given last, and what it told the graph before that.
    """

    def __init__(self, plan: StepPlan, meaning: InputMeaning, xla: bool) -> None:
        self.plan, self.meaning, self.xla = plan, meaning, xla
        self.run = tf_private.placeholder(tf.TensorSpec([], tf.int64))
        self.outer = {number: self._handle(number) for number in plan.resources}
        self.inputs = [self.run, *(self.outer[number] for number in plan.resources)]
        self.handles = dict(self.outer)
        self.order = _Order()
        self.values: dict[Key, tf.Tensor] = {}
        self.sinks: list[tf.Operation] = []
        self._met: list[tf.Operation] = []
        self.originals: dict[int, tf.Tensor] = {}
        self.deferred: list[tuple[Signature, list[tf.Tensor], set[int]]] = []
        self._users = self._find_users()
        self._used_elsewhere = self._find_used_elsewhere()

    def write(self) -> None:
        """Writes everything."""
        for number in sorted(self.plan.shadowed):
            self._shadow(number)
        if self.plan.commit != NONE:
            self._watch()
        self._scope(START)
        if self.plan.commit != NONE:
            self._commit()

    def _scope(self, scope: int) -> None:
        """The operations of the step, or of a trip of a loop."""
        planned = self.plan.scopes[scope]
        for level, select in zip(planned.levels, planned.selects, strict=True):
            if level.is_switch:
                self._switch(level, select)
            else:
                self._block(level.blocks[0])

    def _block(self, block: Block) -> None:
        for number in block:
            if number in self.plan.nodes:
                self._node(number)
            else:
                self._loop(number)

    def _handle(self, number: int) -> tf.Tensor:
        handle = tf_private.placeholder(tf.TensorSpec([], tf.resource))
        resource = self.meaning.resource(number)
        tf_private.describe_variable(handle, resource.shape, resource.dtype)
        return handle

    def _shadow(self, number: int) -> None:
        """A copy of a variable for the step: what it changes is not seen outside before all of it has happened."""
        resource = self.meaning.resource(number)
        name = f"coexec_{next(_names)}"
        attributes = {"dtype": _type(resource.dtype), "shared_name": tf.compat.v1.AttrValue(s=name.encode())}
        shadow = tf_private.add_operation("Recgraph>Shadow", [self.outer[number]], attributes, "shadow")
        self.handles[number], self.originals[number] = shadow.outputs
        tf_private.describe_variable(shadow.outputs[0], resource.shape, resource.dtype)

    def _watch(self) -> None:
        """Takes note of the variables without a shadow before anything uses them."""
        numbers = [number for number in self.plan.resources if number not in self.plan.shadowed]
        if not numbers:
            return
        types = [self.meaning.resource(number).dtype for number in numbers]
        attributes = {"count": _integer(len(numbers)), "dtypes": _types(types)}
        watch = tf_private.add_operation("Recgraph>Watch", [self.outer[n] for n in numbers], attributes, "watch")
        self.order.add(watch, (), numbers)
        self.originals.update(zip(numbers, watch.outputs, strict=True))

    def _commit(self) -> None:
        """When Python says that the step is over, variables take the values of shadows; then what waited is done."""
        done = self._received("Recgraph>CaseSelect", {"slot": _integer(self.plan.commit)}, "over").op
        with tf.control_dependencies([done, *self._needed_operations()]):
            commit = self._commit_shadows()
        self.sinks.append(commit)
        order = _Order()
        for signature, inputs, used in self.deferred:
            with tf.control_dependencies([commit, *order.before((), used)]):
                op = _operation(signature, inputs)
            order.add(op, (), used)
            self.sinks.append(op)

    def _commit_shadows(self) -> tf.Operation:
        """All that may not happen once variables have changed: afterwards there is no way back."""
        used = sorted({n for signature, _, used in self.deferred if signature.name != "AssignVariableOp" for n in used})
        shadows = [self.handles[n] for n in sorted(self.plan.shadowed)]
        originals = list(self.originals.values())
        attributes = {
            "count": _integer(len(originals)),
            "shadowed": _integer(len(shadows)),
            "uses": _integer(len(used)),
            "dtypes": _types([value.dtype for value in originals]),
        }
        variables = [self.outer[n] for n in self.originals]
        inputs = [self.run, *variables, *originals, *shadows, *(self.outer[n] for n in used)]
        return tf_private.add_operation("Recgraph>Commit", inputs, attributes, "commit")

    def _defer(self, number: int) -> None:
        """A write that waits for the end of the step; that its rows are there is known before."""
        planned = self.plan.nodes[number]
        signature = self.meaning.signature(planned.node.signature)
        inputs = [self._input(given) for given in planned.inputs]
        self.deferred.append((signature, inputs, {r for r in planned.node.resources if r >= 0}))
        rows = rows_of(signature.name)
        if rows is not None:
            attributes = {"dtype": _type(inputs[rows].dtype)}
            check = tf_private.add_operation("Recgraph>CheckRows", [inputs[0], inputs[rows]], attributes, "check")
            self.sinks.append(check)
            self._give("Recgraph>OutputFetching", "slot", planned.fetches, check)

    def _needed_operations(self) -> list[tf.Operation]:
        """What has to have happened before variables may change: an error in any of it must come first.

        That is what leads to a value that Python wants or to a variable. Nothing else can fail: Python would wait.
        """
        needed: set[tf.Operation] = set()
        waiting = [*self.sinks, *(tensor.op for _, inputs, _ in self.deferred for tensor in inputs)]
        while waiting:
            op = waiting.pop()
            if op not in needed:
                needed.add(op)
                waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        graph = tf.compat.v1.get_default_graph()
        unasked = ("Placeholder", "Const", "Recgraph>CaseSelect")
        return [op for op in graph.get_operations() if op in needed and op.type not in unasked]

    def _node(self, number: int) -> None:
        """One operation, with what it is given and what Python wants of it."""
        if number in self.plan.deferred:
            return self._defer(number)
        planned = self.plan.nodes[number]
        node = planned.node
        signature = self.meaning.signature(node.signature)
        used = {r for r in node.resources if r >= 0}
        reads, writes = (set(), used) if self.meaning.is_write(node.signature) else (used, set())
        inputs = [self._input(given) for given in planned.inputs]
        with tf.control_dependencies(self.order.before(reads, writes)):
            op = _operation(signature, inputs)
        if self.xla and not _draws(signature):
            _mark_for_xla(op)
        self.order.add(op, reads, writes)
        if used:
            self.sinks.append(op)
        for i, tensor in enumerate(op.outputs):
            self.values[number, i] = tensor
        self._give("Recgraph>OutputFetching", "slot", planned.fetches, op)
        self._give("Recgraph>Keep", "cell", planned.kept, op)

    def _give(self, kind: str, place: str, numbers: tuple[int, ...], op: tf.Operation) -> None:
        """Hands outputs to Python, or to what comes later in the step; where there are none, that it is done."""
        outputs = op.outputs
        if numbers and not outputs:
            with tf.control_dependencies([op]):
                outputs = [tf.constant(0)]
        for number, tensor in zip(numbers, outputs, strict=True):
            if number != NONE:
                attributes = {place: _integer(number), "dtype": _type(tensor.dtype)}
                given = tf_private.add_operation(kind, [self.run, tensor], attributes, place)
                self.sinks.append(given)
                self._met.append(given)

    def _received(self, kind: str, attributes: dict[str, Any], name: str) -> tf.Tensor:
        """What Python tells the graph, or gives it. With XLA, which makes one operation of many, also after what else
        Python may wait for first: otherwise that could come to need what Python gives only when it has been given it.
        """
        with tf.control_dependencies(self._met if self.xla else []):
            received = tf_private.add_operation(kind, [self.run], attributes, name)
        self._met = [received]
        return received.outputs[0]

    def _input(self, given: PlannedInput) -> tf.Tensor:
        sources = [self._source(s, slot) for s, slot in zip(given.sources, given.slots, strict=True)]
        if given.select == NONE:
            return sources[0]
        index = self._selected(given.select)
        attributes = {"count": _integer(len(sources)), "dtype": _type(sources[0].dtype)}
        return tf_private.add_operation("Recgraph>ChooseInput", [index, *sources], attributes, "choose").outputs[0]

    def _source(self, source: Origin, slot: int) -> tf.Tensor:
        if source.origin is From.OPERATION:
            return self._value((source.number, source.output), tf.dtypes.as_dtype(source.dtype))
        if source.origin is From.RESOURCE:
            return self.handles[source.number]
        dtype = tf.dtypes.as_dtype(source.dtype)
        if source.origin is From.HISTORY:
            cell = self.plan.nodes[source.number].kept[source.output]
            recalled = {"slot": _integer(slot), "cell": _integer(cell), "dtype": _type(dtype)}
            return self._received("Recgraph>Recall", recalled, "recall")
        if source.origin is From.CONSTANT:
            value = np.frombuffer(source.value, dtype.as_numpy_dtype).reshape(source.shape)
            return tf.constant(value, dtype)
        shape = tf.TensorShape(None if source.shape is None else [None if n < 0 else n for n in source.shape])
        attributes = {
            "slot": _integer(slot),
            "dtype": _type(dtype),
            "shape": tf.compat.v1.AttrValue(shape=shape.as_proto()),
        }
        return self._received("Recgraph>InputFeeding", attributes, "feed")

    def _selected(self, slot: int) -> tf.Tensor:
        return self._received("Recgraph>CaseSelect", {"slot": _integer(slot)}, "select")

    def _switch(self, level: Level, select: int) -> None:
        """A level with a choice. What a case does not make is what it was before: an empty tensor if it was nothing."""
        exported = {key: dtype for block in level.blocks for key, dtype in self._exported(block).items()}
        blocks: list[Block] = [*level.blocks, *([()] if level.may_skip else [])]
        reads, writes = self._variables(n for block in level.blocks for n in block)
        index = self._selected(select)
        cases = [lambda block=block: self._case(block, exported) for block in blocks]
        with tf.control_dependencies(self._before(reads, writes)):
            results = tf.switch_case(index, cases)
        self._done(results, exported, reads, writes)

    def _case(self, block: Block, exported: dict[Key, tf.DType]) -> list[tf.Tensor]:
        """The body of a case: the block's operations in a graph of their own."""
        return self._apart(lambda: self._block(block), dict(self.values), exported)

    def _loop(self, number: int) -> None:
        """A loop. What its trips hand on, and leave behind, is carried: the last value of each such output."""
        exported = self._exported((number,))
        reads, writes = self._variables((number,))
        carried = [tf.constant(0), *(self._value(key, dtype) for key, dtype in exported.items())]
        before = dict(self.values)
        slot = {"slot": _integer(self.plan.scopes[number].condition)}

        def goes_on(*_: tf.Tensor) -> tf.Tensor:
            return tf_private.add_operation("Recgraph>LoopCond", [self.run], slot, "again").outputs[0]

        def trip(_: tf.Tensor, *carried: tf.Tensor) -> list[tf.Tensor]:
            values = {**before, **dict(zip(exported, carried, strict=True))}
            return self._apart(lambda: self._scope(number), values, exported)

        shapes = [tf.TensorShape([]), *(tf.TensorShape(None) for _ in exported)]
        with tf.control_dependencies(self._before(reads, writes)):
            # One trip after another: what they say and are told is in order, and so are their writes.
            results = tf.while_loop(goes_on, trip, carried, shape_invariants=shapes, parallel_iterations=1)
        self._done(results, exported, reads, writes)

    def _before(self, reads: Iterable[int], writes: Iterable[int]) -> list[tf.Operation]:
        """What a switch or loop has to wait for that uses these variables: see also `_received`."""
        return [*self.order.before(reads, writes), *(self._met if self.xla else [])]

    def _done(self, results: list[tf.Tensor], exported: Iterable[Key], reads: set[int], writes: set[int]) -> None:
        """Notes what a switch or loop has given."""
        # By its first result, which waits for all effects: a switch is taken apart, and then what comes after the
        # switch itself waits for none, and what no result needs is left out. So is a loop.
        done = tf.identity(results[0]).op
        self.order.add(done, reads, writes)
        self.sinks.append(done)
        self._met = [done]
        self.values.update(zip(exported, results[1:], strict=True))

    def _apart(
        self, write: Callable[[], None], values: dict[Key, tf.Tensor], exported: dict[Key, tf.DType]
    ) -> list[tf.Tensor]:
        """Writes to a graph of its own; gives what tells that all of that is done, and the exported values."""
        outside = self.order, self.sinks, self.values, self._met
        self.order, self.sinks, self.values, self._met = _Order(), [], values, []
        write()
        with tf.control_dependencies(self.sinks):
            done = tf.identity(tf.constant(0))
        results = [self._value(key, dtype) for key, dtype in exported.items()]
        self.order, self.sinks, self.values, self._met = outside
        return [done, *results]

    def _value(self, key: Key, dtype: tf.DType) -> tf.Tensor:
        """The last value of an output; an empty tensor, which nothing will use, if there is none."""
        if key in self.values:
            return self.values[key]
        return tf.raw_ops.OptionalNone() if dtype == tf.variant else tf.zeros([0], dtype)

    def _inside(self, items: Iterable[int]) -> Iterator[int]:
        """The operations among items and in loops among them."""
        for item in items:
            if item in self.plan.nodes:
                yield item
            else:
                blocks = (block for level in self.plan.scopes[item].levels for block in level.blocks)
                yield from self._inside(n for block in blocks for n in block)

    def _variables(self, items: Iterable[int]) -> tuple[set[int], set[int]]:
        """The variables that are only read, and those that are written."""
        used: tuple[set[int], set[int]] = (set(), set())
        for number in self._inside(items):
            node = self.plan.nodes[number].node
            used[self.meaning.is_write(node.signature)].update(r for r in node.resources if r >= 0)
        return used[0] - used[1], used[1]

    def _exported(self, items: Iterable[int]) -> dict[Key, tf.DType]:
        """What comes out of some items: outputs of which something else may use the last value."""
        inside = set(self._inside(items))
        return {key: dtype for key, dtype in self._used_elsewhere.items() if key[0] in inside}

    def _find_users(self) -> dict[Key, dict[int, tf.DType]]:
        """For each output the operations that use the last value of it."""
        users: dict[Key, dict[int, tf.DType]] = {}
        for number, planned in self.plan.nodes.items():
            for source in (s for given in planned.inputs for s in given.sources):
                if source.origin is From.OPERATION:
                    dtype = tf.dtypes.as_dtype(source.dtype)
                    users.setdefault((source.number, source.output), {})[number] = dtype
        return users

    def _find_used_elsewhere(self) -> dict[Key, tf.DType]:
        """The outputs that are used outside of their block, or in it by what stands before them."""
        blocks = [block for scope in self.plan.scopes.values() for level in scope.levels for block in level.blocks]
        found: dict[Key, tf.DType] = {}
        for block in blocks:
            place = {n: i for i, item in enumerate(block) for n in self._inside((item,))}
            for number in set(place) & set(block):
                for i in range(self.plan.nodes[number].node.outputs if number in self.plan.nodes else 0):
                    users = self._users.get((number, i), {})
                    if any(place.get(user, -1) <= place[number] for user in users):
                        found[number, i] = next(iter(users.values()))
        return found


def _operation(signature: Signature, inputs: list[tf.Tensor]) -> tf.Operation:
    """The operation, or the call of a function."""
    if signature.results is None:
        return tf_private.add_operation(signature.name, inputs, signature.attributes, signature.name)
    return tf_private.call_function(signature.name, inputs, signature.results, signature.attributes)


def _draws(signature: Signature) -> bool:
    """Whether it makes random numbers, which by XLA would be others."""
    is_call = signature.results is not None
    types = tf_private.operations_in_function(signature.name) if is_call else {signature.name}
    return any("Random" in name or "Normal" in name or "Multinomial" in name for name in types)


def _mark_for_xla(op: tf.Operation) -> None:
    """As `tf.xla.experimental.jit_scope` does, one scope for all operations, also those in branches and loops.

    On the CPU clusters are found only of what is marked, unless a flag was set before TensorFlow's first operation.
    """
    tf_private.set_attribute(op, "_XlaCompile", tf.compat.v1.AttrValue(b=True))
    tf_private.set_attribute(op, "_XlaScope", tf.compat.v1.AttrValue(s=b"coexec"))


def _integer(value: int) -> Any:
    return tf.compat.v1.AttrValue(i=value)


def _type(dtype: tf.DType) -> Any:
    return tf.compat.v1.AttrValue(type=dtype.as_datatype_enum)


def _types(values: Iterable[tf.DType]) -> Any:
    types = [value.as_datatype_enum for value in values]
    return tf.compat.v1.AttrValue(list=tf.compat.v1.AttrValue.ListValue(type=types))
