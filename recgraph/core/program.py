"""Programs: a SubGraph and all that it calls, linked into one function library that its `Invoke` carries.

The library travels in a string attribute: `func` attributes that form a cycle are refused by
`tf.saved_model.load`. Its hash is the program's name in the process.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import weakref
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from recgraph import logs, native, ops, tf_private
from recgraph.core import (
    breadth,
    engines,
    finishing,
    gradient,
    graph_optimizer,
    memoizing,
    origin,
    regions,
    rematerialization,
    state,
)
from recgraph.core.contract import GradientContract, Sum, sum_specs
from recgraph.core.definition import Definition
from recgraph.core.environment import Slots
from recgraph.core.finishing import Finished, Written, key_of
from recgraph.core.gradient import GradientGraph
from recgraph.core.writing import LINEAR, Source, WritingContext, write_function
from recgraph.errors import DefinitionError, GradientError, Unbatchable

_LOG = logs.logger("core")
# Keys of programs that nobody has any more. The last few stay known to the process: a graph of a program that runs
# beside Python may still call them, and a SubGraph that is made anew for each call has the same one.
_dropped: collections.deque[str] = collections.deque()
_LINGERING = 16
_by_key: weakref.WeakValueDictionary[str, Program] = weakref.WeakValueDictionary()


@dataclasses.dataclass(eq=False)
class Program:
    """A linked program.

    Attributes:
        subgraph: what it runs; None for a program out of a SavedModel.
        entry: the SubGraph's name in the library.
        slots: the environment, in order; None for a program out of a SavedModel.
        contract: how its gradient is called; None without one.
        finished: what runs; programs that were written alike share it.
        batched: whether it was linked for the batched engine, too.
        is_registered: whether the kernels of this process know it by its key.
        calls: its eager calls, by label and whether they are of rows (`eager.py`).
    """

    subgraph: Definition | None
    entry: str
    slots: Slots | None
    contract: GradientContract | None
    finished: Finished
    batched: bool = False
    is_registered: bool = False
    calls: dict[tuple[str, bool], Any] = dataclasses.field(default_factory=dict)

    @property
    def library(self) -> bytes:
        """Serialised FunctionDefLibrary."""
        return self.finished.library

    @property
    def key(self) -> str:
        """Hash of the library."""
        return self.finished.key

    @property
    def report(self) -> graph_optimizer.Report | None:
        """What TensorFlow's graph optimizer did; None for a program out of a SavedModel."""
        return self.finished.report

    @property
    def plan(self) -> engines.EnginePlan | None:
        """What the batched engine runs; None where it cannot, or the program was not linked for it."""
        return self.finished.plan

    @property
    def unbatchable(self) -> Unbatchable | None:
        """Why the batched engine cannot run it."""
        return self.finished.unbatchable

    def register(self) -> None:
        """Makes the program known to the kernels of this process."""
        if self.is_registered:
            return
        with tf_private.eagerly(), tf_private.on_this_process():
            native.ops().recgraph_register_program(self.key, self.library)
            self.is_registered = True
            # Not from the finalizer: it may run in the midst of anything.
            weakref.finalize(self, _dropped.append, self.key).atexit = False
            if late := [_dropped.popleft() for _ in range(len(_dropped) - _LINGERING)]:
                native.ops().recgraph_forget_programs(late)

    def with_gradient(self) -> Program:
        """Returns the same with the gradients of all its SubGraphs.

        Raises:
            GradientError: one of them cannot be differentiated, or the gradient was not saved.
        """
        if self.contract is not None:
            return self
        if self.subgraph is None:
            raise GradientError(
                f"SubGraph '{self.entry}' was saved without a gradient",
                next_step="differentiate it in the program that saves it; the error there says why it has no gradient",
            )
        return of(self.subgraph, True, self.batched)


def find(key: str) -> Program | None:
    """The program with this key, if it is still in use."""
    return _by_key.get(key)


def environment_of(root: Definition) -> Slots:
    """The outer tensors that a call of a finished SubGraph reads, found at the first use."""
    with root.lock:
        if root.environment is None:
            root.environment = _environment(list(reachable(root)))
        found: Slots = root.environment
        return found


def of(root: Definition, gradient: bool, batched: bool | None = None, keeps_operations: bool = False) -> Program:
    """The linked program of a finished SubGraph, with or without gradients and the batched engine.

    It is linked at the first use. Its plan keeps the operations of its blocks if it is told to.
    """
    key = gradient, root.engine in ("batched", "levels") if batched is None else batched, keeps_operations
    with root.lock:
        if key not in root.programs:
            what = f"preparing the first call of SubGraph '{root.name}' (gradient, plan, TensorFlow's optimizer)"
            with tf_private.without_recording(), logs.when_it_takes_long(_LOG, what):
                root.programs[key] = link(root, *key)
        found: Program = root.programs[key]
        return found


def may_be_batched(root: Definition, rows: bool) -> bool:
    """Whether the batched engine may run a call from outside: a call of `map`, or a single one."""
    return root.engine in ("batched", "levels") or (root.engine == "auto" and (rows or is_wide(root)))


def is_wide(root: Definition) -> bool:
    """Whether there is something to batch in a single call."""
    with root.lock:
        if root.is_wide is None:
            root.is_wide = breadth.is_wide(list(reachable(root)))
        return root.is_wide


def derivative_of(subgraph: Definition) -> gradient.Derivative:
    """The gradient of a body, made at the first use.

    Raises:
        GradientError: an operation of the body has none.
    """
    with subgraph.lock:
        if subgraph.derivative is None:
            subgraph.derivative = _differentiate(subgraph)
        found: gradient.Derivative = subgraph.derivative
        return found


def _differentiate(subgraph: Definition) -> gradient.Derivative:
    body, recompute = subgraph.finished_body(), subgraph.gradient == "recompute"
    if recompute:
        check_recomputable(subgraph, "gradient='recompute'")
    targets = [subgraph.placeholders[i] for i in subgraph.differentiable_inputs()]
    try:
        with tf_private.without_recording():
            seeds = subgraph.differentiable_outputs()
            derivative = gradient.differentiate(body, targets, seeds, body.environment, recompute)
    except LookupError as error:
        raise GradientError(
            f"SubGraph '{subgraph.name}' cannot be differentiated",
            found=str(error),
            next_step="use an operation that has a gradient, or apply tf.stop_gradient to its inputs",
        ) from error
    gradient.set_outputs(derivative, targets)
    return derivative


def check_recomputable(subgraph: Definition, why: str) -> None:
    """A body that is run again must do the same again: no random numbers from a state, no side effects."""
    for op, _ in all_operations(subgraph.finished_body(), subgraph.finished_body().environment):
        if not rematerialization.does_the_same_again(op):
            raise DefinitionError(
                f"SubGraph '{subgraph.name}': {why} runs the body a second time, and operation "
                f"'{op.name}' (type {op.type}) would not do the same again",
                where=origin.of_operation(op),
                next_step="use tf.random.stateless_* functions, or gradient='cache' and first derivatives only",
            )


def link(root: Definition, gradient: bool, batched: bool, keeps_operations: bool = False) -> Program:
    """Links the finished SubGraph `root`, with the gradients of all that it calls, for the batched engine, too."""
    members = list(reachable(root))
    slots = _environment(members)
    names = _names(members)
    memoized = memoizing.find(members, names, operations_below, _is_loaded)
    library = tf.compat.v1.GraphDef().library
    own = {f"{name}{suffix}" for name in names.values() for suffix in ("", ".rec", ".grad")}
    context = WritingContext(library, slots, lambda identity: names[identity], own)
    for member in members:
        _write(context, names[member.identity], member, gradient)
    entry = names[root.identity]
    contract = _contract(root, members, slots) if gradient else None
    order = state.put_in_order(library, _captures_written)
    memoizing.check_state(members, names, order.functions, order.where)
    strict = keeps_operations or root.engine == "batched"
    written = Written(library, entry, order, memoized, contract, batched, strict, keeps_operations)
    program = Program(root, entry, slots, contract, finishing.finished(written), batched)
    _by_key[program.key] = program
    return program


def bodies(root: Definition) -> list[Any]:
    """The bodies of all SubGraphs that a call of `root` can reach."""
    if root.reached is None:
        root.reached = [member.finished_body() for member in reachable(root)]
    return root.reached


def reachable(root: Definition) -> Iterator[Definition]:
    """`root` and every SubGraph that it calls in its own environment, each once."""
    seen = {root.identity: root}
    queue = [root]
    while queue:
        member = queue.pop(0)
        yield member
        for identity, callee in member.finished_body().callees.items():
            if identity not in seen:
                seen[identity] = callee
                queue.append(callee)


def _names(members: list[Definition]) -> dict[str, str]:
    """A readable name for each member, unique in the program."""
    names: dict[str, str] = {}
    for member in members:
        base = re.sub(r"[^A-Za-z0-9_]", "_", member.name)
        base = base if base[0].isalnum() else f"subgraph{base}"
        name, i = base, 1
        while name in names.values():
            i += 1
            name = f"{base}_{i}"
        names[member.identity] = name
    return names


def _environment(members: list[Definition]) -> Slots:
    """All captures of all members, numbered alike with and without the gradient."""
    slots = Slots(written=written(members))
    for member in members:
        body = member.finished_body()
        for outer in body.captured:
            slots.number(outer)
    for member in members:
        body = member.finished_body()
        for op, _ in all_operations(body, body.environment):
            if op.type == "ReadVariableOp":
                outer = body.environment.outer(op.inputs[0])
                if outer is not None and slots.may_read_once(outer):
                    slots.number(outer, read=True)
    return slots


def _captures_written(key: str) -> list[bool | None]:
    """See `state.Writes`. A body keeps the programs that it calls; those of a SavedModel capture nothing of it."""
    linked = _by_key.get(key)
    if linked is None or linked.slots is None:
        return []
    slots = linked.slots
    return [slots.written(tensor) if tensor.dtype == tf.resource else None for tensor in slots.tensors]


def written(members: list[Definition]) -> list[tf.Tensor]:
    """Captured handles of resources that some body may write: all, where it writes one that it was given."""
    written = []
    handles = [outer for m in members for outer in m.finished_body().captured if outer.dtype == tf.resource]
    for member in members:
        body = member.finished_body()
        for op, _ in all_operations(body, body.environment):
            if ops.facts(op.type).only_reads or regions.region_of(op) is not None:
                continue
            for source in op.inputs:
                outer = body.environment.outer(source)
                if outer is not None and outer.dtype == tf.resource:
                    written.append(outer)
                elif source.dtype == tf.resource:
                    written += handles
    return written


def all_operations(graph: Any, environment: Any) -> Iterator[tuple[tf.Operation, Any]]:
    """Every operation of a graph and of its branches and loops, with the graph it is in."""
    for op in graph.get_operations():
        yield op, graph
        region = regions.region_of(op)
        if region is not None:
            regions.map_environment(region, environment)
            for inner in region.graphs:
                yield from all_operations(inner, environment)


def operations_below(root: Definition) -> Iterator[tf.Operation]:
    """Every operation of the bodies that a call of `root` can reach."""
    for member in reachable(root):
        body = member.finished_body()
        for op, _ in all_operations(body, body.environment):
            yield op
            linked = _program_of(op)
            if linked is not None and linked.subgraph is not None:
                yield from operations_below(linked.subgraph)


def _program_of(op: tf.Operation) -> Program | None:
    """The program that a call in a body brings along, as far as it is known."""
    return find(op.get_attr("key").decode()) if op.type == "Recgraph>Invoke" else None


def _is_loaded(op: tf.Operation) -> bool:
    """Whether a call in a body brings along a program of which there are no bodies."""
    if op.type != "Recgraph>Invoke" or not op.get_attr("key"):
        return False
    linked = _program_of(op)
    return linked is None or linked.subgraph is None


def _write(context: WritingContext, name: str, member: Definition, gradient: bool) -> None:
    body = member.finished_body()
    arguments = member.placeholders
    outputs = list(body.outputs)
    write_function(context, name, Source(body, arguments, outputs, body.environment))
    if not gradient:
        return
    derivative = derivative_of(member)
    recorded = Source(body, arguments, outputs, body.environment, recorded_for=derivative.graph)
    write_function(context, f"{name}.rec", recorded)
    source = Source(derivative.graph, (), list(derivative.graph.outputs), body.environment)
    write_function(context, f"{name}.grad", source)
    if not any("_gradient_op_type" in op.node_def.attr for op, _ in all_operations(body, body.environment)):
        written = next(f for f in context.library.function if f.signature.name == f"{name}.grad")
        written.attr[LINEAR].b = True


def _contract(root: Definition, members: list[Definition], slots: Slots) -> GradientContract:
    found: dict[tuple[int, str], Sum] = {}
    for member in members:
        for graph in _gradient_graphs(derivative_of(member).graph):
            for name, outer in graph.accumulated.items():
                op = graph.get_operation_by_name(name)
                key = (slots.number(outer), op.get_attr("kind").decode())
                known = found.get(key) or Sum(*key, sum_specs(key[1], op.inputs), sparse=True)
                found[key] = dataclasses.replace(known, sparse=known.sparse and name in graph.sparse)
    return GradientContract(
        arguments=len(root.placeholders),
        targets=tuple(root.differentiable_inputs()),
        seeds=tuple(root.differentiable_outputs()),
        sums=tuple(found.values()),
    )


def _gradient_graphs(graph: GradientGraph) -> Iterator[GradientGraph]:
    yield graph
    for region in graph.regions.values():
        for inner in region.graphs:
            yield from _gradient_graphs(inner)


def revive(entry: str, key: str, library: bytes) -> Program:
    """The program that an operation out of a SavedModel carries.

    Raises:
        GradientError: it is damaged, or not the one that its key is for.
    """
    functions = tf.compat.v1.GraphDef().library
    try:
        if key_of(library) != key:
            raise ValueError(f"its key is '{key}', that of its {len(library)} bytes is '{key_of(library)}'")
        functions.ParseFromString(library)
        contract = GradientContract.read(functions, entry)
    except (DecodeError, ValueError, TypeError, KeyError, AttributeError) as why:
        raise GradientError(
            f"the program of SubGraph '{entry}' is damaged: {why}",
            next_step="save the model again, or load an undamaged copy",
        ) from why
    program = Program(None, entry, None, contract, Finished(library, key, report=None))
    _by_key[key] = program
    return program
