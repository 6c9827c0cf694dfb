"""Calls of SubGraphs: the `Invoke` operation and its gradient (thesis, 5.3.2 and 5.4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.core import gradient, origin, program, remaking, signature
from recgraph.core.body import BodyGraph, can_reach, enclosing_body, is_local
from recgraph.core.environment import Slots, is_differentiable
from recgraph.errors import DefinitionError, GradientError, ScopeError

if TYPE_CHECKING:
    from recgraph.core.subgraph import SubGraph

AttrValue = tf.compat.v1.AttrValue
# Operations through which gradients flow to a variable.
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd")


def call(subgraph: SubGraph, args: tuple[Any, ...], name: str | None, rows: bool) -> Any:
    """Calls `subgraph`, from wherever this is executed."""
    subgraph.note_assumed_call()
    tensors = signature.to_tensors(subgraph.name, _nest_like(subgraph.inputs, args), subgraph.inputs, rows)
    label = name or origin.call_label() or subgraph.name
    body = None if tf_private.executing_eagerly() else enclosing_body(tf.compat.v1.get_default_graph())
    if body is not None and not _needs_own_environment(subgraph):
        flat = call_inside(subgraph, body, tensors, label, rows)
    else:
        flat = _call_from_outside(subgraph, tensors, subgraph.name if body is None else label, rows)
    return tf.nest.pack_sequence_as(subgraph.outputs, flat)


def _nest_like(inputs: Any, args: tuple[Any, ...]) -> Any:
    """A SubGraph with one declared nest of inputs takes that nest as its only argument, or spread out."""
    if isinstance(inputs, tf.TensorSpec | dict) or hasattr(inputs, "_fields"):
        return args[0] if len(args) == 1 else args
    if isinstance(inputs, list):
        return list(args)
    return args


def _needs_own_environment(subgraph: SubGraph) -> bool:
    """Whether it captures tensors of a body: then each call of it brings its captures along."""
    if not subgraph.is_finished:
        return False
    try:
        return any(
            is_local(outer) for member in program.reachable(subgraph) for outer in member.finished_body().captured
        )
    except DefinitionError:
        return False


def _common(subgraph: SubGraph, tensors: list[tf.Tensor], rows: bool) -> dict[str, Any]:
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


def _op_name(subgraph: SubGraph) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in subgraph.name).lstrip("_") or "invoke"


def call_inside(
    subgraph: SubGraph, body: BodyGraph, tensors: list[tf.Tensor], label: str, rows: bool
) -> list[tf.Tensor]:
    """A call in a body: it inherits the environment of the invocation that makes it."""
    if tf_private.a_tape_is_listening() and tf_private.has_tangents(tensors):
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


def _call_from_outside(subgraph: SubGraph, tensors: list[tf.Tensor], label: str, rows: bool) -> list[tf.Tensor]:
    """A call that opens an environment: it brings the program and the captured tensors along."""
    for member in program.reachable(subgraph):
        tf_private.watch_variables(member.finished_body())
    eager = tf_private.executing_eagerly()
    outer = _slots(subgraph.program(gradient=False)).tensors if eager else []
    record = eager and tf_private.tape_is_recording([*tensors, *outer])
    linked = _program_for(subgraph, record, subgraph.may_be_batched(rows))
    if tf_private.a_tape_is_listening():
        captures = _captures(subgraph, linked)
        if tf_private.has_tangents([*tensors, *captures]):
            return _call_under_accumulators(subgraph, linked, tensors, captures, label, rows)
    return list(_invoke_program(subgraph, linked, tensors, label, rows).results)


def _call_under_accumulators(
    subgraph: SubGraph,
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
    eager, count = tf_private.executing_eagerly(), len(tensors)
    handed = [] if eager else captures

    def function(*given: tf.Tensor) -> list[tf.Tensor]:
        inside = list(given[count:]) if handed else None
        for outer, inner in zip(handed, inside or (), strict=True):
            if outer.dtype == tf.resource:
                tf_private.copy_handle_data(outer, inner)
        return list(_invoke_program(subgraph, linked, list(given[:count]), label, rows, inside).results)

    traced = tf.function(function, autograph=False, reduce_retracing=True)
    if eager:
        traced = subgraph.followed.setdefault((linked.key, label, rows), traced)
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
    linked = _program_in(op.graph, op.get_attr("key").decode())
    if linked is None or linked.subgraph is None:
        return None, {name: op.get_attr(name) for name in ("entry", "key", "program")}
    subgraph = linked.subgraph
    linked = subgraph.program(linked.contract is not None, subgraph.may_be_batched(rows=True))
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
        _note_gradient(made, linked)
    return [*made.results, *made.sums]


def _operation(name: str, eager: bool) -> Any:
    """What adds an operation to the graph, or runs it, so that Ctrl-C ends it."""
    return tf_private.cancellable_operation(native.ops(), name) if eager else getattr(native.ops(), name)


def _invoke_program(
    subgraph: SubGraph,
    linked: program.Program,
    tensors: list[tf.Tensor],
    label: str,
    rows: bool,
    captures: list[tf.Tensor] | None = None,
) -> Any:
    """The operation; `captures` are those tensors of this graph, where they are known."""
    eager = tf_private.executing_eagerly()
    if eager:
        linked.register()
    made = _operation("recgraph_invoke", eager)(
        captures=_captures(subgraph, linked) if captures is None else captures,
        reads=_slots(linked).reads,
        entry=linked.entry,
        key=linked.key,
        program=b"" if eager else linked.library,
        record=linked.contract is not None or not eager,
        engine=subgraph.engine if linked.plan is not None else "parallel",
        site=label,
        **_common(subgraph, tensors, rows),
    )
    if eager:
        variants = [tensor for tensor in tensors if tensor.dtype == tf.variant]
        handles = [i for i, tensor in enumerate(tensors) if tensor.dtype == tf.resource]
        made.frame.recgraph_watched_handles = [i for i in handles if tf_private.tape_is_recording([tensors[i]])]
        made.frame.recgraph_watched_variants = bool(variants) and tf_private.tape_is_recording(variants)
        made.frame.recgraph_program = linked  # a tape keeps the frame, the frame what its gradient needs
    else:
        _mark_in_graph(made.frame.op, linked)
    return made


def _program_for(subgraph: SubGraph, record: bool, batched: bool) -> program.Program:
    """With gradients where one is sure to be asked for, or cannot be added later.

    A session may have taken the operation by then, and a SavedModel has the function as it was when it was traced.
    """
    if tf_private.executing_eagerly():
        return subgraph.program(record, batched)
    try:
        return subgraph.program(True, batched)
    except (GradientError, DefinitionError):  # raised again if a gradient is asked for
        return subgraph.program(False, batched)


def _slots(linked: program.Program) -> Slots:
    assert linked.slots is not None
    return linked.slots


def _captures(subgraph: SubGraph, linked: program.Program) -> list[tf.Tensor]:
    return _in_reach(subgraph, _slots(linked).tensors)


def _in_reach(subgraph: SubGraph, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """The tensors, as a call from here is given them."""
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


def _out_of_scope(subgraph: SubGraph, tensor: Any) -> ScopeError:
    return ScopeError(
        f"SubGraph '{subgraph.name}' cannot be called here: it captures a tensor of another graph",
        where=origin.here(),
        found=str(tensor),
        next_step="define the SubGraph where it is called, or pass the tensor as an input",
    )


def _mark_in_graph(op: tf.Operation, linked: program.Program) -> None:
    """Keeps the program alive with the graph, and lets calls run beside each other that only read variables."""
    _keep_with_graph(op.graph, linked)
    assert linked.slots is not None
    _set_read_only(op, len(op.get_attr("Tin")), linked.slots)


def _set_read_only(op: tf.Operation, first: int, slots: Slots) -> None:
    """Says which captured resources, inputs from `first` on, an operation does not write."""
    value = AttrValue()
    value.list.i.extend(
        first + i for i, tensor in enumerate(slots.tensors) if tensor.dtype == tf.resource and not slots.written(tensor)
    )
    tf_private.set_attribute(op, "_read_only_resource_inputs", value)
    if not any(tensor.dtype == tf.resource for tensor in slots.tensors):
        tf_private.run_independently(op)


# Gradients.


def _inner_rule(op: tf.Operation, gradients: list[Any]) -> list[Any]:
    """The gradient of a call in a body: a call of the gradient SubGraph at the mirrored place."""
    if op.get_attr("key"):
        return _outer_rule(op, *gradients)
    _check_variants(op, len(op.inputs), gradients)
    from recgraph.core.subgraph import by_identity

    subgraph = by_identity(op.get_attr("entry").decode())
    assert subgraph is not None, "a body keeps its callees"
    _check_handles(op, len(op.inputs), subgraph)
    targets = subgraph.differentiable_inputs()
    made = native.ops().recgraph_invoke_gradient(
        frame=op.outputs[-1],
        grads=_seed_gradients(op, subgraph.differentiable_outputs(), gradients),
        primals=[],
        entry=subgraph.identity,
        site=op.get_attr("site"),
        map=op.get_attr("map"),
        Tout=[op.inputs[i].dtype for i in targets],
        Tsums=[],
        results_shapes=[op.inputs[i].shape for i in targets],
    )
    results: list[Any] = [None] * len(op.inputs)
    for i, result in zip(targets, _results(made), strict=True):
        results[i] = result
    return results


def _check_variants(op: Any, arguments: int, gradients: Sequence[Any]) -> None:
    """No gradient flows through a TensorList (or another variant) that goes into a call or comes out of it.

    Raises:
        GradientError: one would have to.
    """
    frame = op.outputs[-1]
    given = [tensor for tensor in list(op.inputs)[:arguments] if tensor.dtype == tf.variant]
    gives = [g for g, tensor in zip(gradients, op.outputs[:-1], strict=False) if tensor.dtype == tf.variant]
    if tf_private.executing_eagerly():
        refused = getattr(frame, "recgraph_watched_variants", False) or bool(gives)
    else:
        refused = any(_may_depend(tensor) for tensor in given) or any(
            g is not None and g.op.type != "ZerosLike" for g in gives
        )
    if refused:
        raise GradientError(
            f"call of SubGraph '{op.get_attr('site').decode()}': no gradient flows through a TensorList that a call "
            + ("gives" if gives else "is given"),
            found="a result of dtype variant" if gives else "an argument of dtype variant",
            expected="tensors, whose gradients are defined",
            next_step="pass the stacked tensors instead (`stack`), or apply tf.stop_gradient where the list is created",
        )


def _check_handles(op: Any, arguments: int, subgraph: SubGraph | None) -> None:
    """No gradient flows to a variable by a handle that a call is given: a body must capture it, or be given its value.

    Raises:
        GradientError: one would have to.
    """
    if isinstance(op, _Made):  # of a second derivative: the first one has asked
        return
    given = [i for i, tensor in enumerate(list(op.inputs)[:arguments]) if tensor.dtype == tf.resource]
    if any(_may_be_wanted(op, i) for i in given) and _may_read(subgraph):
        raise GradientError(
            f"call of SubGraph '{_name_of(op, subgraph)}': no gradient flows to a variable that is passed as a handle",
            found="an argument of dtype resource",
            expected="a body that captures the variable, or receives its value",
            next_step="let the body use the variable (it is captured), pass its value (`variable.read_value()`), or "
            "take the gradient in a tf.GradientTape that does not watch the variable",
        )


def _name_of(op: Any, subgraph: SubGraph | None) -> str:
    return str(op.get_attr("entry").decode()) if subgraph is None else subgraph.name


def _may_be_wanted(op: Any, i: int) -> bool:
    """Whether somebody may want the gradient by the variable whose handle is an input of a call.

    A tape says what it watches; in a graph that is not known. In a body the sums for a variable that it captures would
    miss what the call reads; what the body itself is given is judged where it is called from outside.
    """
    handle = op.inputs[i]
    data = tf_private.handle_data(handle)
    if data is not None and not is_differentiable(handle):
        return False
    if tf_private.executing_eagerly():
        return i in getattr(op.outputs[-1], "recgraph_watched_handles", ())
    if hasattr(op, "skip_input_indices"):
        return op.skip_input_indices is None or i not in op.skip_input_indices
    body = enclosing_body(handle.graph)
    if body is not None and handle.op.type == "Placeholder":
        return body.environment.outer(handle) is not None
    return data is not None or handle.op.type == "Placeholder"


def _may_read(subgraph: SubGraph | None) -> bool:
    """Whether bodies read floating-point variables whose handles they are given; taken to be so of a SavedModel's."""
    if subgraph is None:
        return True
    for member in program.reachable(subgraph):
        body = member.finished_body()
        for op, _ in program.all_operations(body, body.environment):
            if op.type in _READS and body.environment.outer(op.inputs[0]) is None:
                dtype = op.outputs[0].dtype
                if dtype.is_floating or dtype.is_complex:
                    return True
    return False


def _may_depend(tensor: tf.Tensor) -> bool:
    """Whether gradients may flow through a tensor of a graph to an input or a variable."""
    seen, stack = set(), [tensor.op]
    while stack:
        op = stack.pop()
        if op in seen or op.type == "StopGradient":
            continue
        seen.add(op)
        if not op.inputs or op.type in ("ReadVariableOp", "ResourceGather"):
            if op.type not in ("Const", "Recgraph>Capture") and any(
                is_differentiable(output) or output.dtype in (tf.variant, tf.resource) for output in op.outputs
            ):
                return True
            continue
        stack += [source.op for source in op.inputs]
    return False


def _results(made: Any) -> list[tf.Tensor]:
    return [] if isinstance(made, tf.Operation) else list(made.results)


def _seed_gradients(op: tf.Operation, positions: Sequence[int], gradients: Any) -> list[tf.Tensor]:
    return [
        tf.zeros_like(op.outputs[i]) if gradients[i] is None else tf.convert_to_tensor(gradients[i]) for i in positions
    ]


def _outer_rule(op: Any, *gradients: Any) -> list[Any]:
    """The gradient of a call from outside of a body: it returns the sums for the captured tensors too."""
    linked = _gradient_program(op)
    contract = linked.contract
    assert contract is not None
    _check_variants(op, contract.arguments, gradients)
    _check_handles(op, contract.arguments, linked.subgraph)
    specs = [spec for total in contract.sums for spec in total.specs]
    eager = tf_private.executing_eagerly()
    made = _operation("recgraph_invoke_gradient", eager)(
        frame=op.outputs[-1],
        grads=_seed_gradients(op, contract.seeds, gradients),
        primals=list(op.inputs),
        entry=linked.entry,
        key=linked.key,
        program=b"" if eager else linked.library,
        site=op.get_attr("site"),
        map=op.get_attr("map"),
        slots=[total.slot for total in contract.sums],
        kinds=[total.kind for total in contract.sums],
        Tout=[op.inputs[i].dtype for i in contract.targets],
        Tsums=[spec.dtype for spec in specs],
        results_shapes=[op.inputs[i].shape for i in contract.targets],
        sums_shapes=[spec.shape for spec in specs],
    )
    results: list[Any] = [None] * len(op.inputs)
    if isinstance(made, tf.Operation):
        return results
    _note_gradient(made, linked)
    for i, result in zip(contract.targets, made.results, strict=True):
        results[i] = result
    captures = list(op.inputs)[contract.arguments :]
    for slot, total in _slot_gradients(contract, list(made.sums), captures).items():
        results[contract.arguments + slot] = total
    return results


def _note_gradient(made: Any, linked: program.Program) -> None:
    """Lets the gradient of the gradient find its program."""
    tensors = [*made.results, *made.sums]
    if not tensors:
        return
    if tf_private.executing_eagerly():
        tensors[0].recgraph_program = linked
        return
    op = tensors[0].op
    _keep_with_graph(op.graph, linked)
    if linked.slots is not None:
        contract = linked.contract
        assert contract is not None
        _set_read_only(op, 1 + len(contract.seeds) + contract.arguments, linked.slots)


def _gradient_program(op: Any) -> program.Program:
    """The program with gradients for a forward call; one in a graph is made to carry it."""
    frame = op.outputs[-1]
    linked = getattr(frame, "recgraph_program", None)
    if linked is not None:
        with_gradient: program.Program = linked.with_gradient()
        with_gradient.register()
        return with_gradient
    real = frame.op
    key = real.get_attr("key").decode()
    linked = _program_in(real.graph, key)
    if linked is None:
        linked = program.revive(real.get_attr("entry").decode(), key, real.get_attr("program"))
    with_gradient = linked.with_gradient()
    if with_gradient.key != key:
        tf_private.set_attribute(real, "key", AttrValue(s=with_gradient.key.encode()))
        tf_private.set_attribute(real, "program", AttrValue(s=with_gradient.library))
        tf_private.set_attribute(real, "entry", AttrValue(s=with_gradient.entry.encode()))
    _keep_with_graph(real.graph, with_gradient)
    return with_gradient


def _keep_with_graph(graph: Any, linked: program.Program) -> None:
    if not hasattr(graph, "recgraph_programs"):
        graph.recgraph_programs = {}
    graph.recgraph_programs[linked.key] = linked


def _program_in(graph: Any, key: str) -> program.Program | None:
    """The program with this key that a graph keeps, or the process."""
    found: program.Program | None = getattr(graph, "recgraph_programs", {}).get(key)
    return found or program.find(key)


def _slot_gradients(contract: Any, values: list[tf.Tensor], captures: list[tf.Tensor]) -> dict[int, Any]:
    """Slot -> its gradient, from what the kernel summed up: one matrix product a weight and step."""
    parts: dict[int, list[Any]] = {}
    for total in contract.sums:
        taken, values = values[: len(total.specs)], values[len(total.specs) :]
        parts.setdefault(total.slot, []).append(_total_of(total.kind, taken, captures[total.slot]))
    return {slot: _sum_parts(gradients) for slot, gradients in parts.items()}


def _total_of(kind: str, taken: list[tf.Tensor], capture: tf.Tensor) -> Any:
    if kind == "rows":
        return tf.IndexedSlices(taken[1], taken[0], dense_shape=_shape_of(capture))
    return taken[0]


def table_of(rows: tf.Tensor) -> tf.Tensor | None:
    """The captured tensor whose rows an output of InvokeGradient numbers, which the forward call has read.

    Args:
        rows: an output of InvokeGradient in a graph.

    Returns:
        An input of the operation; None if the output is something else, or the forward call is not in the graph.
    """
    op, forward = rows.op, rows.op.inputs[0].op
    if forward.type != "Recgraph>Invoke":
        return None
    captures = list(forward.inputs)[len(forward.get_attr("Tin")) :]
    place = len(op.get_attr("Tout"))
    for slot, kind in zip(op.get_attr("slots"), op.get_attr("kinds"), strict=True):
        if place == rows.value_index and kind == b"rows":
            return captures[slot]
        place += 2 if kind == b"rows" else 1
    return None


def _shape_of(capture: tf.Tensor) -> tf.Tensor:
    if capture.dtype == tf.resource:
        data = tf_private.handle_data(capture)
        return tf.constant([dim.size for dim in data.shape.dim], tf.int64)
    return tf.shape(capture, out_type=tf.int64)


def _sum_parts(gradients: list[Any]) -> Any:
    if len(gradients) == 1:
        return gradients[0]
    return tf.add_n([tf.convert_to_tensor(part) for part in gradients])


def check_recomputable(subgraph: SubGraph, why: str) -> None:
    """A body that is run again must do the same again: no random numbers from a state, no side effects."""
    for op, _ in program.all_operations(subgraph.finished_body(), subgraph.finished_body().environment):
        if not remaking.does_the_same_again(op):
            raise DefinitionError(
                f"SubGraph '{subgraph.name}': {why} runs the body a second time, and operation "
                f"'{op.name}' (type {op.type}) would not do the same again",
                where=origin.of_operation(op),
                next_step="use tf.random.stateless_* functions, or gradient='cache' and first derivatives only",
            )


def _second_rule(op: Any, *gradients: Any) -> list[Any]:
    """The gradient of the gradient of a call from outside: that of its pullback at the same arguments."""
    linked = _program_of_gradient(op)
    contract = linked.contract
    if contract is None or linked.subgraph is None:
        raise GradientError(
            f"the gradient of SubGraph '{linked.entry}' cannot be differentiated again",
            next_step="second derivatives need the SubGraph's definition; a SavedModel has only first derivatives",
        )
    rows = bool(op.get_attr("map"))
    pullback, outers = linked.subgraph.pullback()
    seeds = len(contract.seeds)
    tensors = list(op.inputs)[1 + seeds : 1 + seeds + contract.arguments] + list(op.inputs)[1 : 1 + seeds]
    with_gradient = pullback.program(gradient=True)
    captures = _captures_of_pullback(op, linked, pullback, with_gradient)
    made = _invoke_program(pullback, with_gradient, tensors, op.get_attr("site").decode(), rows, captures)
    arrived = _cotangents_of_captures(linked, contract, op, gradients)
    upstream = list(gradients[: len(contract.targets)])
    for outer in outers:
        value = arrived.get(id(outer))
        if value is not None and rows:
            value = tf.repeat(value[None], tf.shape(tensors[0])[:1], axis=0)
        upstream.append(value)
    found = _outer_rule(_Made(made, tensors, captures, op), *upstream, None)
    return _in_order(found, linked, with_gradient, contract, seeds)


def _captures_of_pullback(
    op: Any, linked: program.Program, pullback: SubGraph, pulled: program.Program
) -> list[tf.Tensor]:
    """What the pullback captures: what the forward call was given, as inputs of `op`.

    The SubGraph that is known by the program's key may be another one, with variables of its own: two that are defined
    alike have one program, and so have a model and what is loaded of it.
    """
    contract = linked.contract
    assert contract is not None
    inputs = list(op.inputs)[1 + len(contract.seeds) + contract.arguments :]
    given = {id(outer): tensor for outer, tensor in zip(_slots(linked).tensors, inputs, strict=True)}
    rest = [outer for outer in _slots(pulled).tensors if id(outer) not in given]  # constants of gradient functions
    made = dict(zip(map(id, rest), _in_reach(pullback, rest), strict=True))
    return [given[id(outer)] if id(outer) in given else made[id(outer)] for outer in _slots(pulled).tensors]


class _Made:
    """What `_outer_rule` needs of a call: operations that ran eagerly are not kept."""

    def __init__(self, made: Any, tensors: list[tf.Tensor], captures: list[tf.Tensor], op: Any) -> None:
        self.inputs = [*tensors, *captures]
        self.outputs = [*made.results, made.frame]
        self.get_attr = op.get_attr


def _program_of_gradient(op: Any) -> program.Program:
    for tensor in op.outputs:
        linked: program.Program | None = getattr(tensor, "recgraph_program", None)
        if linked is not None:
            return linked
    key = op.get_attr("key").decode()
    real = op.outputs[0].op
    return _program_in(real.graph, key) or program.revive(op.get_attr("entry").decode(), key, op.get_attr("program"))


def _cotangents_of_captures(linked: program.Program, contract: Any, op: Any, gradients: Any) -> dict[int, tf.Tensor]:
    """id of a captured tensor -> what arrives for its gradient, dense.

    A capture may have several sums: a variable that is read as a whole and by rows has one for its value and one for
    its handle. All are parts of one gradient, so the same arrives for each, and a dense part has all of it.
    """
    dense: dict[int, tf.Tensor] = {}
    by_rows: dict[int, list[tuple[tf.Tensor, tf.Tensor]]] = {}
    shapes: dict[int, tf.Tensor] = {}
    position = len(contract.targets)
    for total in contract.sums:
        key = id(_slots(linked).tensors[total.slot])
        value = gradients[position + (total.kind == "rows")]
        if value is not None and total.kind == "rows":
            capture = op.inputs[1 + len(contract.seeds) + contract.arguments + total.slot]
            shapes[key] = _shape_of(capture)
            by_rows.setdefault(key, []).append((op.outputs[position], tf.convert_to_tensor(value)))
        elif value is not None:
            dense.setdefault(key, tf.convert_to_tensor(value))
        position += len(total.specs)
    return {key: _spread_rows(parts, shapes[key]) for key, parts in by_rows.items()} | dense


def _spread_rows(parts: list[tuple[tf.Tensor, tf.Tensor]], shape: tf.Tensor) -> tf.Tensor:
    """A dense tensor with the given rows, `(indices, rows)`, in which rows with one index must be the same.

    They are the same where the sparse gradient was used as the tensor that it stands for. They are not where somebody
    computed with its `values`: no dense gradient says that, and the step fails.
    """
    indices = tf.concat([tf.reshape(numbers, [-1, 1]) for numbers, _ in parts], 0)
    rows = tf.concat([values for _, values in parts], 0)
    spread = tf.tensor_scatter_nd_update(tf.zeros(shape, rows.dtype), indices, rows)
    again = tf.gather_nd(spread, indices)
    agrees = tf.equal(again, rows) | tf.not_equal(rows, rows)  # NaN arrives where NaN was
    message = (
        "a second derivative goes through the values of a sparse gradient that has a row several times; "
        "use tf.convert_to_tensor on the gradient before computing with it"
    )
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(agrees), [message])]):
        return tf.identity(spread)


def _in_order(
    found: list[Any], linked: program.Program, pulled: program.Program, contract: Any, seeds: int
) -> list[Any]:
    """The pullback's gradients in the order of InvokeGradient's inputs: frame, gradients, arguments, captures."""
    arguments = contract.arguments
    results: list[Any] = [None, *found[arguments : arguments + seeds], *found[:arguments]]
    by_outer: dict[int, list[Any]] = {}
    for outer, value in zip(_slots(pulled).tensors, found[arguments + seeds :], strict=True):
        if value is not None:
            by_outer.setdefault(id(outer), []).append(value)
    for outer in _slots(linked).tensors:
        values = by_outer.pop(id(outer), [])
        results.append(_sum_parts(values) if values else None)
    return results


tf.RegisterGradient("Recgraph>Invoke")(_outer_rule)
tf.RegisterGradient("Recgraph>InvokeGradient")(_second_rule)
gradient.RULES_OF_CALLS["Recgraph>Invoke"] = _inner_rule
