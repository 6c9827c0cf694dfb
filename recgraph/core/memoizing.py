"""Memoized SubGraphs: of calls that are given the same, one runs (`cc/kernels/shared_calls.h`).

That is right for bodies that compute a value and do nothing else. Whether gradients can be added up before they are
taken depends on the whole program: what the kernels take for the same argument is one place in memory, and the value of
`tf.stop_gradient(x)` lies where that of x does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from recgraph import ops
from recgraph.core import origin, regions
from recgraph.core.definition import Definition
from recgraph.errors import DefinitionError

# An attribute of functions; `Program::IsMemoized` in C++ looks for it.
MEMOIZED = "_recgraph_memoized"

# All operations of the bodies that a call can reach.
Operations: TypeAlias = Callable[[Definition], Iterator[tf.Operation]]

_HARMLESS = (ops.State.PURE, ops.State.ASKS, ops.State.SILENT, ops.State.OURS)
_WHAT = {
    ops.State.RANDOM: "draws random numbers",
    ops.State.DRAWS: "draws random numbers",
    ops.State.PYTHON: "runs Python",
    ops.State.OUTSIDE: "depends on what is outside of the program",
    ops.State.UNKNOWN: "may have an effect",
}
_STOPS = ("StopGradient", "PreventGradient")  # their results lie where their inputs do


@dataclasses.dataclass(frozen=True)
class Memoized:
    """What is memoized in a program.

    Attributes:
        functions: names of functions of which equal calls are one, gradients among them.
        name: of a SubGraph that is.
    """

    functions: tuple[str, ...] = ()
    name: str = ""


def find(
    members: Sequence[Definition],
    names: dict[str, str],
    operations: Operations,
    is_loaded: Callable[[tf.Operation], bool],
) -> Memoized:
    """What is memoized in the program of `members`, whose functions have these names, by identity.

    `is_loaded` is whether an operation calls a program out of a SavedModel.

    Raises:
        DefinitionError: a body of a memoized SubGraph, or one that it calls, has effects, random numbers or Python.
    """
    memoized = [member for member in members if member.memoize]
    if not memoized:
        return Memoized()
    for member in memoized:
        _check(member, operations(member), is_loaded)
    suffixes = ["", ".rec"]
    if _adds_up(memoized, list(operations(members[0]))):
        suffixes.append(".grad")
    functions = tuple(f"{names[member.identity]}{suffix}" for member in memoized for suffix in suffixes)
    return Memoized(functions, memoized[0].name)


def mark(library: Any, memoized: Memoized) -> None:
    """Notes it in the functions."""
    for function in library.function:
        if function.signature.name in memoized.functions:
            function.attr[MEMOIZED].b = True


def check_state(members: Sequence[Definition], names: dict[str, str], in_order: frozenset[str], where: str) -> None:
    """Checks that no memoized SubGraph reaches state that the program reads and writes.

    Args:
        members: of the program.
        names: of their functions, by identity.
        in_order: names of the functions that reach such state.
        where: the user's line that writes it.

    Raises:
        DefinitionError: one does.
    """
    for member in members:
        if member.memoize and names[member.identity] in in_order:
            raise DefinitionError(
                f"SubGraph '{member.name}': memoize=True gives equal calls one result, and what this one reads is "
                "written in the same program",
                where=where,
                next_step="write it before or after the call from outside, or leave memoize out",
            )


def _check(member: Definition, operations: Iterator[tf.Operation], is_loaded: Callable[[tf.Operation], bool]) -> None:
    for op in operations:
        facts = ops.facts(op.type)
        if is_loaded(op):
            raise DefinitionError(
                f"SubGraph '{member.name}': memoize=True is for bodies that compute a value and do nothing else, and "
                "what a loaded model does is not known",
                where=origin.of_operation(op),
                next_step="leave memoize out, or call the model elsewhere",
            )
        if regions.region_of(op) is not None or facts.state in _HARMLESS or facts.only_reads or facts.checks:
            continue
        raise DefinitionError(
            f"SubGraph '{member.name}': memoize=True runs one of the calls that are given the same, and operation "
            f"'{op.name}' (type {op.type}) {_WHAT.get(facts.state, 'has an effect')}",
            where=origin.of_operation(op),
            next_step="leave memoize out, or let the body compute a value and do nothing else (random numbers: "
            "tf.random.stateless_*)",
        )


def _adds_up(memoized: Sequence[Definition], operations: Sequence[tf.Operation]) -> bool:
    """Whether a gradient for all callers is the sum of those for each, whichever of them is given it."""
    if any("_gradient_op_type" in op.node_def.attr for op in operations):
        return False  # of the program's own: it need not be linear
    for member in memoized:
        outputs = tf.nest.flatten(member.outputs)
        inputs = [member.placeholders[i].dtype for i in member.differentiable_inputs()]
        dtypes = [*inputs, *(outputs[i].dtype for i in member.differentiable_outputs())]
        if not all(dtype.is_floating or dtype.is_complex for dtype in dtypes):
            return False
        if inputs and any(op.type in _STOPS for op in operations):
            return False
    return True
