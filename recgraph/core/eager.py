"""Eager calls from outside: what all calls of a program have in common is made once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import program, remote
from recgraph.core.definition import Definition


@dataclasses.dataclass(frozen=True, eq=False)
class EagerCall:
    """Eager calls of one program with one label.

    Attributes:
        linked: the program.
        label: the label of the call site.
        rows: whether they are calls of `map`.
        attributes: of the operation.
        results: the number of results.
        handles: positions of arguments that are resources.
        variants: positions of arguments that are variants.
        is_plain: whether all arguments and results are plain tensors.
        gradients: attributes of the gradient's operation, by the dtypes and shapes that they depend on.
        elsewhere: functions that run an operation on servers, by the same.
    """

    linked: program.Program
    label: str
    rows: bool
    attributes: tuple[Any, ...]
    results: int
    handles: tuple[int, ...]
    variants: tuple[int, ...]
    is_plain: bool
    gradients: dict[Any, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    elsewhere: dict[Any, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, tensors: list[tf.Tensor], captures: list[tf.Tensor]) -> CallOutputs:
        """Runs the operation; its frame keeps for the gradient what a tape does not."""
        inputs = [*tensors, *captures]
        server = remote.server_of(inputs)
        if server:
            outputs = self._elsewhere(server, self.linked, tensors, captures)
        else:
            outputs = tf_private.run_operation("Recgraph>Invoke", self.results + 1, inputs, self.attributes)
        frame = outputs[-1]
        frame.recgraph_call, frame.recgraph_server = self, server
        if not self.is_plain:
            given = [tensors[i] for i in self.variants]
            frame.recgraph_watched_handles = [i for i in self.handles if _is_watched([tensors[i]])]
            frame.recgraph_watched_variants = bool(given) and _is_watched(given)
        return CallOutputs(outputs[:-1], frame)

    def _elsewhere(
        self, server: str, linked: program.Program, tensors: list[tf.Tensor], captures: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Runs the operation on a server. A tape that knew of the frame would ask for zeros like it, here."""
        remote.send(server, linked.key, linked.library)
        given = {"args": tensors, "captures": captures}
        outputs = remote.run(server, self.elsewhere, "forward", given, self.attributes)
        tf_private.record_all_but_last("Recgraph>Invoke", [*tensors, *captures], self.attributes, outputs)
        return outputs

    def gradient(
        self,
        frame: tf.Tensor,
        seeds: list[tf.Tensor],
        primals: list[tf.Tensor],
        linked: program.Program,
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Runs the operation of the gradient, by the program `linked`: gradients of arguments, and sums."""
        contract = linked.contract
        assert contract is not None
        # Shapes are of use where there are no rows, and a kernel is kept for each.
        shapes = [tuple(primals[i].shape[1:]) for i in contract.targets] if self.rows else []
        key = (linked.key, *[seed.dtype for seed in seeds], *shapes)
        if key not in self.gradients:
            self.gradients[key] = self._gradient_attributes(linked, seeds, primals, shapes)
        count = len(contract.targets)
        specs = sum(len(total.specs) for total in contract.sums)
        inputs = [frame, *seeds, *primals]
        if frame.recgraph_server:
            given = {"frame": frame, "grads": seeds, "primals": primals}
            remote.send(frame.recgraph_server, linked.key, linked.library)
            made = remote.run(frame.recgraph_server, self.elsewhere, key, given, self.gradients[key])
            tf_private.record("Recgraph>InvokeGradient", inputs, self.gradients[key], made)
        else:
            made = tf_private.run_operation("Recgraph>InvokeGradient", count + specs, inputs, self.gradients[key])
        return made[:count], made[count:]

    def _gradient_attributes(
        self,
        linked: program.Program,
        seeds: list[tf.Tensor],
        primals: list[tf.Tensor],
        shapes: Sequence[tuple[int, ...]],
    ) -> tuple[Any, ...]:
        contract = linked.contract
        assert contract is not None
        linked.register()
        specs = [spec for total in contract.sums for spec in total.specs]
        unknown = tf.TensorShape(None)
        return tf_private.attributes_of(
            entry=linked.entry,
            program="",
            key=linked.key,
            site=self.label,
            map=self.rows,
            slots=[total.slot for total in contract.sums],
            kinds=[total.kind for total in contract.sums],
            Tgrads=[seed.dtype for seed in seeds],
            Tprimals=[primal.dtype for primal in primals],
            Tout=[primals[i].dtype for i in contract.targets],
            Tsums=[spec.dtype for spec in specs],
            results_shapes=[tf.TensorShape([None, *shape]) for shape in shapes] or [unknown for _ in contract.targets],
            sums_shapes=[spec.shape for spec in specs],
        )


@dataclasses.dataclass(frozen=True, eq=False)
class CallOutputs:
    """What an eager call has given."""

    results: list[tf.Tensor]
    frame: tf.Tensor


def call_of(subgraph: Definition, linked: program.Program, label: str, rows: bool) -> EagerCall:
    """Eager calls of a program; made at the first use."""
    found: EagerCall | None = linked.calls.get((label, rows))
    if found is None:
        linked.register()
        found = linked.calls.setdefault((label, rows), _call_of(subgraph, linked, label, rows))
    return found


def _call_of(subgraph: Definition, linked: program.Program, label: str, rows: bool) -> EagerCall:
    inputs, outputs = tf.nest.flatten(subgraph.inputs), tf.nest.flatten(subgraph.outputs)
    slots = linked.slots
    assert slots is not None
    lead = tf.TensorShape([None] if rows else [])
    attributes = tf_private.attributes_of(
        entry=linked.entry,
        program="",  # TensorFlow would hash it for each call: it is registered
        key=linked.key,
        site=label,
        map=rows,
        record=linked.contract is not None,
        engine=subgraph.engine if linked.plan is not None else "parallel",
        max_depth=subgraph.max_depth,
        reads=slots.reads,
        Tin=[spec.dtype for spec in inputs],
        Tcaptures=[tensor.dtype for tensor in slots.tensors],
        Tout=[spec.dtype for spec in outputs],
        output_shapes=[lead.concatenate(spec.shape) for spec in outputs],
    )
    handles, variants = (
        tuple(i for i, spec in enumerate(inputs) if spec.dtype == kind) for kind in (tf.resource, tf.variant)
    )
    is_plain = not handles and not variants and all(spec.dtype != tf.variant for spec in outputs)
    return EagerCall(linked, label, rows, attributes, len(outputs), handles, variants, is_plain)


def _is_watched(tensors: list[tf.Tensor]) -> bool:
    return tf_private.tape_is_recording(tensors)
