"""Gradients of calls: that of an `Invoke` operation, and that of its gradient (thesis, 5.4.2)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.core import eager, gradient, invoke, origin, program, pullback, remote, sums
from recgraph.core.body import enclosing_body
from recgraph.core.contract import Sum
from recgraph.core.definition import Definition, by_identity
from recgraph.core.environment import is_differentiable
from recgraph.errors import GradientError

# Operations through which gradients flow to a variable.
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd")


def _inner_rule(op: tf.Operation, gradients: list[Any]) -> list[Any]:
    """The gradient of a call in a body: a call of the gradient SubGraph at the mirrored place."""
    if op.get_attr("key"):
        return _outer_rule(op, *gradients)
    _check_variants(op, len(op.inputs), gradients)
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


def _check_handles(op: Any, arguments: int, subgraph: Definition | None) -> None:
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


def _name_of(op: Any, subgraph: Definition | None) -> str:
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


def _may_read(subgraph: Definition | None) -> bool:
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
    return [_seed(op.outputs[i], gradients[i]) for i in positions]


def _seed(output: tf.Tensor, gradient: Any) -> tf.Tensor:
    if isinstance(gradient, tf_private.EagerTensor):
        return gradient
    return tf.zeros_like(output) if gradient is None else tf.convert_to_tensor(gradient)


def _outer_rule(op: Any, *gradients: Any) -> list[Any]:
    """The gradient of a call from outside of a body: it returns the sums for the captured tensors too."""
    frame = op.outputs[-1]
    if not isinstance(frame, tf_private.EagerTensor) and invoke.is_for_specs(frame.op):
        return [_like(tensor) for tensor in op.inputs]
    linked = _gradient_program(op)
    contract = linked.contract
    assert contract is not None
    call: eager.EagerCall | None = getattr(op.outputs[-1], "recgraph_call", None)
    if call is None or not call.is_plain:
        _check_variants(op, contract.arguments, gradients)
        _check_handles(op, contract.arguments, linked.subgraph)
    seeds = _seed_gradients(op, contract.seeds, gradients)
    if call is None or not tf_private.executing_eagerly():
        made, sums = _gradient_in_graph(op, seeds, linked)
    else:
        made, sums = call.gradient(op.outputs[-1], seeds, list(op.inputs), linked)
    results: list[Any] = [None] * len(op.inputs)
    if not made and not sums:
        return results
    invoke.note_gradient([*made, *sums], linked)
    for i, result in zip(contract.targets, made, strict=True):
        results[i] = result
    captures = list(op.inputs)[contract.arguments :]
    for slot, total in slot_gradients(contract, sums, captures).items():
        results[contract.arguments + slot] = total
    return results


def _like(tensor: tf.Tensor) -> tf.Tensor | None:
    """A tensor with the shape and dtype of a gradient."""
    if not is_differentiable(tensor):
        return None
    data = tf_private.handle_data(tensor) if tensor.dtype == tf.resource else None
    spec = tensor if data is None else tf.TensorSpec(data.shape, data.dtype)
    return tf_private.placeholder(tf.TensorSpec(spec.shape, spec.dtype))


def _gradient_in_graph(
    op: Any, seeds: list[tf.Tensor], linked: program.Program
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """The operation of the gradient in a graph: gradients of arguments, and sums."""
    contract = linked.contract
    assert contract is not None
    specs = [spec for total in contract.sums for spec in total.specs]
    made = native.ops().recgraph_invoke_gradient(
        frame=op.outputs[-1],
        grads=seeds,
        primals=list(op.inputs),
        entry=linked.entry,
        key=linked.key,
        program=linked.library,
        site=op.get_attr("site"),
        map=op.get_attr("map"),
        slots=[total.slot for total in contract.sums],
        kinds=[total.kind for total in contract.sums],
        Tout=[op.inputs[i].dtype for i in contract.targets],
        Tsums=[spec.dtype for spec in specs],
        results_shapes=[op.inputs[i].shape for i in contract.targets],
        sums_shapes=[spec.shape for spec in specs],
    )
    return ([], []) if isinstance(made, tf.Operation) else (list(made.results), list(made.sums))


def _gradient_program(op: Any) -> program.Program:
    """The program with gradients for a forward call; one in a graph is made to carry it."""
    frame = op.outputs[-1]
    call: eager.EagerCall | None = getattr(frame, "recgraph_call", None)
    if call is not None:
        return call.linked.with_gradient()
    real = frame.op
    key = real.get_attr("key").decode()
    linked = invoke.program_in(real.graph, key)
    if linked is None and not key:
        raise _differentiated_while_traced(real)
    if linked is None:
        linked = program.revive(real.get_attr("entry").decode(), key, real.get_attr("program"))
    with_gradient = linked.with_gradient()
    if with_gradient.key != key:
        tf_private.set_attribute(real, "key", invoke.AttrValue(s=with_gradient.key.encode()))
        tf_private.set_attribute(real, "program", invoke.AttrValue(s=with_gradient.library))
        tf_private.set_attribute(real, "entry", invoke.AttrValue(s=with_gradient.entry.encode()))
    invoke.keep_with_graph(real.graph, with_gradient)
    return with_gradient


def _differentiated_while_traced(call: tf.Operation) -> GradientError:
    """Returns the error for a call in a body under construction. Where two tapes are around, TensorFlow differentiates
    branches and loops as they are built, which neither tape needs.
    """
    entry = call.get_attr("entry").decode()
    return GradientError(
        f"a function that calls {entry!r} is traced by its first call while two tapes are open",
        where=origin.here(),
        next_step="call it once before the tapes are opened, or define it by `with rg.SubGraph(...)`",
    )


def slot_gradients(contract: Any, values: list[tf.Tensor], captures: list[tf.Tensor]) -> dict[int, Any]:
    """Slot -> its gradient, from what the kernel summed up: one matrix product a weight and step."""
    parts: dict[int, list[Any]] = {}
    for total in contract.sums:
        taken, values = values[: len(total.specs)], values[len(total.specs) :]
        parts.setdefault(total.slot, []).append(_total_of(total, taken, captures[total.slot]))
    return {slot: sum_parts(gradients) for slot, gradients in parts.items()}


def _total_of(total: Sum, taken: list[tf.Tensor], capture: tf.Tensor) -> Any:
    if total.kind != "rows":
        return taken[0]
    rows = tf.IndexedSlices(taken[1], taken[0], dense_shape=_shape_of(capture))
    return rows if total.sparse else sums.dense(rows)


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
    """The shape, int32 as of the gradients of `tf.gather`: those of the branches of a `tf.cond` have to agree."""
    if capture.dtype == tf.resource:
        data = tf_private.handle_data(capture)
        return tf.constant([dim.size for dim in data.shape.dim], tf.int32)
    return tf.shape(capture)


def sum_parts(gradients: list[Any]) -> Any:
    if len(gradients) == 1:
        return gradients[0]
    return tf.add_n([tf.convert_to_tensor(part) for part in gradients])


def _second_rule(op: Any, *gradients: Any) -> list[Any]:
    """The gradient of the gradient of a call from outside: that of its pullback at the same arguments.

    Where the call was, be that on a server.
    """
    server = getattr(op.inputs[0], "recgraph_server", "")
    with remote.on(server) if server else contextlib.nullcontext():
        return _pulled_back(op, gradients)


def _pulled_back(op: Any, gradients: Sequence[Any]) -> list[Any]:
    linked = _program_of_gradient(op)
    contract = linked.contract
    if contract is None or linked.subgraph is None:
        raise GradientError(
            f"the gradient of SubGraph '{linked.entry}' cannot be differentiated again",
            next_step="second derivatives need the SubGraph's definition; a SavedModel has only first derivatives",
        )
    rows = bool(op.get_attr("map"))
    pulled_back, outers = pullback.of(linked.subgraph)
    seeds = len(contract.seeds)
    tensors = list(op.inputs)[1 + seeds : 1 + seeds + contract.arguments] + list(op.inputs)[1 : 1 + seeds]
    with_gradient = program.of(pulled_back, True)
    captures = _captures_of_pullback(op, linked, pulled_back, with_gradient)
    _check_variables(op, linked)
    made = invoke.invoke_program(pulled_back, with_gradient, tensors, op.get_attr("site").decode(), rows, captures)
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
    op: Any, linked: program.Program, pulled_back: Definition, pulled: program.Program
) -> list[tf.Tensor]:
    """What the pullback captures: what the forward call was given, as inputs of `op`.

    The SubGraph that is known by the program's key may be another one, with variables of its own: two that are defined
    alike have one program, and so have a model and what is loaded of it.
    """
    contract = linked.contract
    assert contract is not None
    inputs = list(op.inputs)[1 + len(contract.seeds) + contract.arguments :]
    given = {id(outer): tensor for outer, tensor in zip(invoke.slots_of(linked).tensors, inputs, strict=True)}
    rest = [
        outer for outer in invoke.slots_of(pulled).tensors if id(outer) not in given
    ]  # constants of gradient functions
    made = dict(zip(map(id, rest), invoke.in_reach(pulled_back, rest), strict=True))
    return [given[id(outer)] if id(outer) in given else made[id(outer)] for outer in invoke.slots_of(pulled).tensors]


def _check_variables(op: Any, linked: program.Program) -> None:
    """The pullback reads variables now: an error where they have other values than in the forward call.

    Not in a function that TensorFlow makes of the backward pass: there is nothing to assign between the two.
    """
    contract, slots = linked.contract, invoke.slots_of(linked)
    assert contract is not None
    inputs = list(op.inputs)[1 + len(contract.seeds) + contract.arguments :]
    read, frame = [i for i, is_read in enumerate(slots.reads) if is_read], op.inputs[0]
    is_here = isinstance(frame, tf_private.EagerTensor) or frame.graph is tf.compat.v1.get_default_graph()
    if read and is_here:
        native.ops().recgraph_check_captures(frame=frame, variables=[inputs[i] for i in read], slots=read)


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
    kept = invoke.program_in(op.outputs[0].op.graph, key)
    return kept or program.revive(op.get_attr("entry").decode(), key, op.get_attr("program"))


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
        key = id(invoke.slots_of(linked).tensors[total.slot])
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
    for outer, value in zip(invoke.slots_of(pulled).tensors, found[arguments + seeds :], strict=True):
        if value is not None:
            by_outer.setdefault(id(outer), []).append(value)
    for outer in invoke.slots_of(linked).tensors:
        values = by_outer.pop(id(outer), [])
        results.append(sum_parts(values) if values else None)
    return results


def register() -> None:
    """Tells TensorFlow."""
    tf.RegisterGradient("Recgraph>Invoke")(_outer_rule)
    tf.RegisterGradient("Recgraph>InvokeGradient")(_second_rule)
    gradient.RULES_OF_CALLS["Recgraph>Invoke"] = _inner_rule
