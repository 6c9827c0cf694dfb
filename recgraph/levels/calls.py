"""Calls from outside as operations of the graph that makes them, with their gradients."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recgraph import native, tf_private
from recgraph.core import invoke, invoke_gradient, program
from recgraph.core.definition import Definition
from recgraph.errors import DefinitionError, GradientError
from recgraph.levels.execution import LevelExecution
from recgraph.levels.layout import LevelProgram
from recgraph.levels.tables import LevelParts, added, tables_of

_programs: weakref.WeakKeyDictionary[program.Program, LevelProgram] = weakref.WeakKeyDictionary()


def call(subgraph: Definition, tensors: list[tf.Tensor], label: str, rows: bool) -> list[tf.Tensor]:
    """Calls a SubGraph from outside: its results, flat."""
    return LevelCall(program_of(subgraph), label, rows).run(tensors)


def program_of(subgraph: Definition) -> LevelProgram:
    """The program of a SubGraph with its gradient, if it has one.

    Raises:
        Unbatchable: see `LevelProgram`.
    """
    try:
        linked = program.of(subgraph, True, True, keeps_operations=True)
    except (GradientError, DefinitionError):
        linked = program.of(subgraph, False, True, keeps_operations=True)
    if linked not in _programs:
        _programs[linked] = LevelProgram(linked)
    return _programs[linked]


class LevelCall:
    """One call, which has two steps: forward it discovers the call and its gradient and runs the call; backward it runs
    the gradient. In a graph they are operations there, eagerly each is a function.

    Args:
        levels: what is called.
        label: of the call site.
        rows: whether it is a call of `map`.
        width: rows of a step, where what is discovered is padded; 0 where not.
    """

    def __init__(self, levels: LevelProgram, label: str, rows: bool, width: int = 0) -> None:
        self.levels, self.linked, self.label, self.rows, self.width = levels, levels.linked, label, rows, width
        self.kind = "" if self.linked.contract is None else "rec"
        self._all = invoke.slots_of(self.linked).tensors
        # What is read when the structure is known; a variable has several slots.
        self._outers = list({id(self._all[slot]): self._all[slot] for slot in levels.slots}.values())

    def captures(self) -> list[tf.Tensor]:
        """The environment, as kernels take it."""
        assert self.linked.subgraph is not None
        return invoke.in_reach(self.linked.subgraph, self._all)

    def run(self, tensors: list[tf.Tensor], found: tuple[LevelParts, LevelParts] | None = None) -> list[tf.Tensor]:
        """Runs the call.

        Args:
            tensors: the arguments.
            found: the tables of the call and of its gradient, where they are known.
        """
        assert self.linked.subgraph is not None
        count, forward, backward = len(tensors), self._forward, self._backward
        if tf_private.executing_eagerly():
            forward, backward = self._as_functions()
        else:
            invoke.keep_with_graph(tf.compat.v1.get_default_graph(), self.linked)
        values = [_value(tensor) for tensor in invoke.in_reach(self.linked.subgraph, self._outers)]
        followed = [i for i, value in enumerate(values) if value.dtype.is_floating or value.dtype.is_complex]

        @tf.custom_gradient
        def called(*given: tf.Tensor) -> Any:
            here = list(values)
            for i, value in zip(followed, given[count:], strict=True):
                here[i] = value
            with tf_private.without_recording():
                results, arenas, tables = forward(list(given[:count]), here, found)

            def gradient(*upstream: Any, variables: Any = None) -> Any:
                made = self._gradient(backward, list(upstream), arenas, tables, here)
                gradients = self._in_order(made, count, followed)
                return gradients if variables is None else (gradients, [None] * len(variables))

            return results, gradient

        return list(called(*tensors, *(values[i] for i in followed)))

    def _as_functions(self) -> tuple[Any, Any]:
        """The two steps as functions, the same for all eager calls."""
        key = self.label, self.rows
        if key not in self.levels.functions:
            self.levels.functions[key] = tuple(
                tf.function(step, autograph=False, reduce_retracing=True) for step in (self._forward, self._backward)
            )
        return self.levels.functions[key]

    def _forward(
        self, tensors: list[tf.Tensor], values: list[tf.Tensor], found: tuple[LevelParts, LevelParts] | None
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], LevelParts]:
        """Results, arenas, and the tables of the gradient."""
        layout = self.levels.layouts[self.kind]
        if found is None:
            parts, frame = added(self.levels, self.kind, tensors, self.captures(), self.label, self.rows)
            # Not in a function of the gradient's own: a SavedModel has no place for the frame.
            backward = added(self.levels, "grad", [frame], [], self.label, self.rows)[0] if self.kind else LevelParts()
        else:
            parts, backward = found
        tables = tables_of(layout, self.width, parts)
        execution = LevelExecution(layout, tables, self._captured(values), tensors, None, self.rows)
        execution.run()
        return execution.results(self.rows), execution.arenas, backward

    def _backward(
        self, seeds: list[tf.Tensor], arenas: list[tf.Tensor], tables: LevelParts, values: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Gradients of the arguments that have one, and sums."""
        layout = self.levels.layouts["grad"]
        found = tables_of(layout, self.width, tables)
        execution = LevelExecution(layout, found, self._captured(values), seeds, arenas, self.rows)
        execution.run()
        return [*execution.results(self.rows), *self._sums(execution, values)]

    def _captured(self, values: list[tf.Tensor]) -> dict[int, tf.Tensor]:
        by_outer = dict(zip(map(id, self._outers), values, strict=True))
        return {slot: by_outer[id(self._all[slot])] for slot in self.levels.slots}

    def _gradient(
        self,
        backward: Callable[..., list[tf.Tensor]],
        upstream: list[Any],
        arenas: list[tf.Tensor],
        tables: LevelParts,
        values: list[tf.Tensor],
    ) -> list[tf.Tensor]:
        contract = self.linked.contract
        if contract is None:
            assert self.linked.subgraph is not None
            program.of(self.linked.subgraph, True, True, True)  # says why there is none
            raise AssertionError("a gradient that was not there before")

        @tf.custom_gradient
        def run(*seeds: tf.Tensor) -> Any:
            with tf_private.without_recording():
                made = backward(list(seeds), arenas, tables, values)

            def again(*_: Any, variables: Any = None) -> Any:
                refused = [self._refused(seed) for seed in seeds]
                return refused if variables is None else (refused, [None] * len(variables))

            return made, again

        return list(run(*(upstream[i] for i in contract.seeds)))

    def _refused(self, tensor: tf.Tensor) -> tf.Tensor:
        """A second derivative: an error where it is used. TensorFlow asks for it wherever two tapes are open."""
        message = f"SubGraph '{self.linked.entry}' has no second derivatives in levels; use engine='batched' for them"
        return native.ops().recgraph_refuse(tf.zeros_like(tensor), message=message)

    def _in_order(self, made: list[tf.Tensor], arguments: int, followed: list[int]) -> list[Any]:
        """The gradients of arguments and of what is followed besides."""
        contract = self.linked.contract
        assert contract is not None
        found: list[Any] = [None] * (arguments + len(followed))
        for position, value in zip(contract.targets, made, strict=False):
            found[position] = value
        totals = invoke_gradient.slot_gradients(contract, made[len(contract.targets) :], self._all)
        by_outer: dict[int, list[Any]] = {}
        for slot, total in totals.items():
            by_outer.setdefault(id(self._all[slot]), []).append(total)
        for place, i in enumerate(followed):
            parts = by_outer.get(id(self._outers[i]))
            found[arguments + place] = None if parts is None else invoke_gradient.sum_parts(parts)
        return found

    def _sums(self, execution: LevelExecution, values: list[tf.Tensor]) -> list[tf.Tensor]:
        """The sums that the contract names, flat."""
        contract, captured = self.linked.contract, self._captured(values)
        assert contract is not None
        found = []
        for total in contract.sums:
            parts = [one.tensors for one in execution.totals if (one.slot, one.kind) == (total.slot, total.kind)]
            if total.kind == "rows":
                for number, spec in enumerate(total.specs):
                    none = tf.zeros([0, *spec.shape[1:]], spec.dtype)
                    found.append(tf.concat([none, *(tensors[number] for tensors in parts)], 0))
                continue
            tensors = [tensors[0] for tensors in parts] or [self._zeros(total, captured)]
            found.append(tf.cast(tf.add_n(tensors), total.specs[0].dtype))
        return found

    def _zeros(self, total: Any, captured: dict[int, tf.Tensor]) -> tf.Tensor:
        """Of a sum to which no block adds."""
        if total.slot in captured:
            return tf.zeros_like(captured[total.slot])
        by_outer = {id(self._all[slot]): value for slot, value in captured.items()}
        return tf.zeros_like(by_outer[id(self._all[total.slot])])


def arguments(subgraph: Definition, args: Sequence[Any], rows: bool) -> list[tf.Tensor]:
    """The arguments of a call, flat, as tensors."""
    return invoke.arguments(subgraph, tuple(args), rows)


def watch_variables(subgraph: Definition) -> None:
    """Tells tapes of the variables that a call reads."""
    for body in program.bodies(subgraph):
        tf_private.watch_variables(body)


def _value(tensor: tf.Tensor) -> tf.Tensor:
    """The value of a variable in place of its handle."""
    data = tf_private.handle_data(tensor) if tensor.dtype == tf.resource else None
    if data is None:
        return tensor
    value = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=data.dtype)
    if not isinstance(value, tf_private.EagerTensor):
        value.set_shape(data.shape)
    return value
