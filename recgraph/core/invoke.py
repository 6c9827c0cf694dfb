"""Calls of SubGraphs: the `Invoke` operation (thesis, 5.3.2)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph import devices, native, tf_private
from recgraph.core import body_rewrites, eager, engines, hoisting, origin, program, signature
from recgraph.core.body import BodyGraph, can_reach, enclosing_body, is_local
from recgraph.core.definition import Definition
from recgraph.core.environment import Slots
from recgraph.errors import DefinitionError, GradientError, ScopeError

AttrValue = tf.compat.v1.AttrValue


def call(subgraph: Definition, args: tuple[Any, ...], name: str | None, rows: bool) -> Any:
    """Calls `subgraph`, from wherever this is executed."""
    subgraph.note_assumed_call()
    is_eager = tf_private.executing_eagerly()
    tensors = subgraph.fitting(args, rows) if is_eager else None
    if tensors is None:
        tensors = arguments(subgraph, args, rows)
    body = None if is_eager else enclosing_body(tf.compat.v1.get_default_graph())
    label = subgraph.name if body is None else name or origin.call_label() or subgraph.name
    if body is not None and not _needs_own_environment(subgraph):
        flat = call_inside(subgraph, body, tensors, label, rows)
    else:
        flat = _call_from_outside(subgraph, tensors, label, rows)
    outputs = subgraph.outputs
    return flat[0] if isinstance(outputs, tf.TensorSpec) else tf.nest.pack_sequence_as(outputs, flat)


def arguments(subgraph: Definition, args: tuple[Any, ...], rows: bool) -> list[Any]:
    """The arguments of a call, flat, as tensors; ragged tensors of rows stay what they are.

    Raises:
        SignatureError: they do not match the inputs.
    """
    return signature.to_tensors(subgraph.name, _nest_like(subgraph.inputs, args), subgraph.inputs, rows)


def _nest_like(inputs: Any, args: tuple[Any, ...]) -> Any:
    """A SubGraph with one declared nest of inputs takes that nest as its only argument, or spread out."""
    if isinstance(inputs, tf.TensorSpec | dict) or hasattr(inputs, "_fields"):
        return args[0] if len(args) == 1 else args
    if isinstance(inputs, list):
        return list(args)
    return args


def _needs_own_environment(subgraph: Definition) -> bool:
    """Whether it captures tensors of a body: then each call of it brings its captures along."""
    if not subgraph.is_finished:
        return False
    try:
        return any(
            is_local(outer) for member in program.reachable(subgraph) for outer in member.finished_body().captured
        )
    except DefinitionError:
        return False


def _common(subgraph: Definition, tensors: list[tf.Tensor], rows: bool) -> dict[str, Any]:
    specs = tf.nest.flatten(subgraph.outputs)
    lead = tensors[0].shape[:1] if rows and tensors else tf.TensorShape([])
    return {
        "args": tensors,
        "Tout": [spec.dtype for spec in specs],
        "output_shapes": [lead.concatenate(spec.shape) for spec in specs],
        "map": rows,
        "max_depth": subgraph.max_depth,
        "name": _op_name(subgraph),
    }


def _op_name(subgraph: Definition) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in subgraph.name).lstrip("_") or "invoke"


def call_inside(
    subgraph: Definition, body: BodyGraph, tensors: list[tf.Tensor], label: str, rows: bool
) -> list[tf.Tensor]:
    """A call in a body: it inherits the environment of the invocation that makes it."""
    if tf_private.a_tape_is_listening() and tf_private.places_of_tangents(tensors):
        raise GradientError(
            f"SubGraph '{subgraph.name}' cannot be called under a tf.autodiff.ForwardAccumulator inside a body",
            where=origin.here(),
            next_step="put the accumulator around the outermost call, or use tf.GradientTape outside the body",
        )
    body.callees[subgraph.identity] = subgraph
    made = native.ops().recgraph_invoke(
        captures=[],
        entry=subgraph.identity,
        site=label,
        **_common(subgraph, tensors, rows),
    )
    return list(made.results)


def _call_from_outside(subgraph: Definition, tensors: list[tf.Tensor], label: str, rows: bool) -> list[tf.Tensor]:
    """A call that opens an environment: it brings the program and the captured tensors along."""
    for body in program.bodies(subgraph):
        tf_private.watch_variables(body)
    if not tf_private.executing_eagerly() and tf_private.asks_for_specs_only(tf_private.current_graph()):
        return _call_for_specs(subgraph, tensors, label, rows)
    subgraph = body_rewrites.prepared(subgraph)
    if (caller := engines.caller_of(subgraph.engine)) is not None:
        return caller(subgraph, tensors, label, rows)
    record = False
    if tf_private.a_tape_is_listening() and tf_private.executing_eagerly():
        outer = hoisting.bases(program.environment_of(subgraph).tensors)
        record = tf_private.tape_is_recording([*tensors, *outer])
    linked = _program_for(subgraph, record, program.may_be_batched(subgraph, rows))
    if tf_private.a_tape_is_listening():
        captures = _captures(subgraph, linked)
        if tf_private.places_of_tangents([*tensors, *captures]):
            return _call_under_accumulators(subgraph, linked, tensors, captures, label, rows)
    return list(invoke_program(subgraph, linked, tensors, label, rows).results)


def _call_for_specs(subgraph: Definition, tensors: list[tf.Tensor], label: str, rows: bool) -> list[tf.Tensor]:
    """A call in a graph that Keras looks at for shapes and dtypes and that never runs: it needs no program."""
    captures = in_reach(subgraph, program.environment_of(subgraph).tensors)
    return for_specs(captures, label, _common(subgraph, tensors, rows))


def for_specs(captures: list[tf.Tensor], label: str, common: dict[str, Any]) -> list[tf.Tensor]:
    """The results of such a call, which depend on what it is given.

    Args:
        captures: what it captures.
        label: of the call site.
        common: the other attributes and inputs of the operation.
    """
    reads = [False] * len(captures)
    made = native.ops().recgraph_invoke(captures=captures, reads=reads, entry="", site=label, **common)
    return list(made.results)


def is_for_specs(op: tf.Operation) -> bool:
    """Whether a call from outside never runs."""
    return tf_private.asks_for_specs_only(op.graph) and not op.get_attr("key")


def _call_under_accumulators(
    subgraph: Definition,
    linked: program.Program,
    tensors: list[tf.Tensor],
    captures: list[tf.Tensor],
    label: str,
    rows: bool,
) -> list[tf.Tensor]:
    """A call that a `tf.autodiff.ForwardAccumulator` follows: as a function, whose results are all tensors.

    An accumulator takes the derivative of an operation from the gradient of its gradient, by all of its outputs; the
    frame is no tensor. In a graph what is captured is handed over, as accumulators follow nothing there that a function
    captures.

    Raises:
        GradientError: the SubGraph has no second derivative.
    """
    is_eager, count = tf_private.executing_eagerly(), len(tensors)
    handed = [] if is_eager else captures

    def function(*given: tf.Tensor) -> list[tf.Tensor]:
        inside = list(given[count:]) if handed else None
        for outer, inner in zip(handed, inside or (), strict=True):
            if outer.dtype == tf.resource:
                tf_private.copy_handle_data(outer, inner)
        return list(invoke_program(subgraph, linked, list(given[:count]), label, rows, inside).results)

    traced = tf.function(function, autograph=False, reduce_retracing=True)
    if is_eager:
        # TensorFlow keeps for a function what it makes of the first tangents, and fails for those of other captures.
        followed = tf_private.places_of_tangents([*tensors, *captures])
        traced = subgraph.followed.setdefault((linked.key, label, rows, followed), traced)
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in [*tensors, *handed]]
    try:
        with tf_private.without_recording():  # what is followed is the call, not how the function is made
            concrete = traced.get_concrete_function(*specs)
        return list(concrete(*tensors, *handed))
    except (GradientError, DefinitionError) as why:
        raise GradientError(
            f"SubGraph '{subgraph.name}' cannot be called under a tf.autodiff.ForwardAccumulator that watches what it "
            "uses",
            where=origin.here(),
            found=str(why),
            expected="a SubGraph with second derivatives, since an accumulator differentiates the gradient",
            next_step="use tf.GradientTape, or make the call where the accumulator watches none of its inputs",
        ) from why


def call_of_rows(op: tf.Operation, tensors: list[tf.Tensor], captures: list[tf.Tensor]) -> Any:
    """A call like `op`, one invocation for each row of what it is given."""
    linked, attributes = _program_of_rows(op)
    names = ("site", "record", "engine", "max_depth", "reads", "Tout")
    lead, given = (tf.TensorShape([None]), 1) if op.get_attr("map") else (tensors[0].shape[:1], 0)
    made = native.ops().recgraph_invoke(
        args=tensors,
        captures=captures,
        output_shapes=[lead.concatenate(tf.TensorShape(shape)[given:]) for shape in op.get_attr("output_shapes")],
        map=True,
        name=op.name.rsplit("/", 1)[-1],
        **({name: op.get_attr(name) for name in names} | attributes),
    )
    if linked is not None:
        _mark_in_graph(made.frame.op, linked)
    return made


def _program_of_rows(op: tf.Operation) -> tuple[program.Program | None, dict[str, Any]]:
    """The program of a call of rows that stands for a call, and its attributes; None in a body, or of a loaded one."""
    linked = program_in(op.graph, op.get_attr("key").decode())
    if linked is None or linked.subgraph is None:
        return None, {name: op.get_attr(name) for name in ("entry", "key", "program")}
    subgraph = linked.subgraph
    linked = program.of(subgraph, linked.contract is not None, program.may_be_batched(subgraph, rows=True))
    attributes = {"entry": linked.entry, "key": linked.key, "program": linked.library}
    if op.type == "Recgraph>Invoke":
        attributes["engine"] = subgraph.engine if linked.plan is not None else "parallel"
    return linked, attributes


def gradient_of_rows(
    op: tf.Operation, frame: tf.Tensor, grads: list[tf.Tensor], primals: list[tf.Tensor]
) -> list[tf.Tensor]:
    """The gradient of a call of rows that stands for the call of which `op` is the gradient."""
    linked, attributes = _program_of_rows(op)
    names = ("site", "slots", "kinds", "Tout", "Tsums", "sums_shapes")
    made = native.ops().recgraph_invoke_gradient(
        frame=frame,
        grads=grads,
        primals=primals,
        map=True,
        results_shapes=[tf.TensorShape(None)] * len(op.get_attr("Tout")),
        **({name: op.get_attr(name) for name in names} | attributes),
    )
    if isinstance(made, tf.Operation):
        return []
    if linked is not None:
        note_gradient([*made.results, *made.sums], linked)
    return [*made.results, *made.sums]


def invoke_program(
    subgraph: Definition,
    linked: program.Program,
    tensors: list[tf.Tensor],
    label: str,
    rows: bool,
    captures: list[tf.Tensor] | None = None,
) -> Any:
    """The operation; `captures` are those tensors of this graph, where they are known."""
    if captures is None:
        captures = _captures(subgraph, linked)
    if tf_private.executing_eagerly():
        return eager.call_of(subgraph, linked, label, rows)(tensors, captures)
    made = native.ops().recgraph_invoke(
        captures=captures,
        reads=slots_of(linked).reads,
        entry=linked.entry,
        key=linked.key,
        program=linked.library,
        record=True,
        engine=subgraph.engine if linked.plan is not None else "parallel",
        site=label,
        **_common(subgraph, tensors, rows),
    )
    _mark_in_graph(made.frame.op, linked)
    return made


def _program_for(subgraph: Definition, record: bool, batched: bool) -> program.Program:
    """With gradients where one is sure to be asked for, or cannot be added later.

    A session may have taken the operation by then, and a SavedModel has the function as it was when it was traced.
    """
    if tf_private.executing_eagerly():
        return program.of(subgraph, record, batched)
    try:
        return program.of(subgraph, True, batched)
    except (GradientError, DefinitionError):  # raised again if a gradient is asked for
        return program.of(subgraph, False, batched)


def slots_of(linked: program.Program) -> Slots:
    assert linked.slots is not None
    return linked.slots


def _captures(subgraph: Definition, linked: program.Program) -> list[tf.Tensor]:
    return in_reach(subgraph, slots_of(linked).tensors)


def in_reach(subgraph: Definition, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """The outer tensors, as a call from here is given them; stand-ins are computed."""
    return hoisting.values(tensors, lambda outers: _in_reach(subgraph, outers))


def _in_reach(subgraph: Definition, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    if devices.gpu_is_visible():
        _require_one_device(subgraph, tensors)
    if tf_private.executing_eagerly():
        for tensor in tensors:
            if not isinstance(tensor, tf_private.EagerTensor):
                raise _out_of_scope(subgraph, tensor)
        return tensors
    graph = tf.compat.v1.get_default_graph()
    for tensor in tensors:
        if not can_reach(graph, tensor):
            raise _out_of_scope(subgraph, tensor)
    return [graph.capture(tensor) for tensor in tensors] if tf_private.in_function_graph(graph) else tensors


def _require_one_device(subgraph: Definition, tensors: list[tf.Tensor]) -> None:
    """TensorFlow places an operation beside the variables that it is given, and fails where they are apart."""
    found = sorted({tensor.device for tensor in tensors if tensor.dtype == tf.resource and tensor.device})
    if len(found) > 1:
        raise ScopeError(
            f"SubGraph '{subgraph.name}' uses variables of several devices",
            where=origin.here(),
            found=" and ".join(found),
            expected="all variables of a SubGraph on one device",
            next_step="make all of them in the same `with tf.device(...)`, or pass a value as an input",
        )


def _out_of_scope(subgraph: Definition, tensor: Any) -> ScopeError:
    return ScopeError(
        f"SubGraph '{subgraph.name}' cannot be called here: it captures a tensor of another graph",
        where=origin.here(),
        found=str(tensor),
        next_step="define the SubGraph where it is called, or pass the tensor as an input",
    )


def _mark_in_graph(op: tf.Operation, linked: program.Program) -> None:
    """Keeps the program alive with the graph, and lets calls run beside each other that only read variables."""
    keep_with_graph(op.graph, linked)
    assert linked.slots is not None
    set_read_only(op, len(op.get_attr("Tin")), linked.slots)


def set_read_only(op: tf.Operation, first: int, slots: Slots) -> None:
    """Says which captured resources, inputs from `first` on, an operation does not write."""
    value = AttrValue()
    value.list.i.extend(
        first + i for i, tensor in enumerate(slots.tensors) if tensor.dtype == tf.resource and not slots.written(tensor)
    )
    tf_private.set_attribute(op, "_read_only_resource_inputs", value)
    if not any(tensor.dtype == tf.resource for tensor in slots.tensors):
        tf_private.run_independently(op)


def note_gradient(tensors: list[tf.Tensor], linked: program.Program) -> None:
    """Lets the gradient of the gradient, whose outputs these are, find its program."""
    if not tensors:
        return
    if tf_private.executing_eagerly():
        tensors[0].recgraph_program = linked
        return
    op = tensors[0].op
    keep_with_graph(op.graph, linked)
    if linked.slots is not None:
        contract = linked.contract
        assert contract is not None
        set_read_only(op, 1 + len(contract.seeds) + contract.arguments, linked.slots)


def keep_with_graph(graph: Any, linked: program.Program) -> None:
    if not hasattr(graph, "recgraph_programs"):
        graph.recgraph_programs = {}
    graph.recgraph_programs[linked.key] = linked


def program_in(graph: Any, key: str) -> program.Program | None:
    """The program with this key that a graph keeps, or the process."""
    found: program.Program | None = getattr(graph, "recgraph_programs", {}).get(key)
    return found or program.find(key)
