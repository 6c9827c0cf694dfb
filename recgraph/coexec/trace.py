"""What a step did: its operations in order, each with what it was given and where in the program it stands."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Trip: TypeAlias = tuple[int, int]  # the number of a loop, and which of its trips


class From(enum.IntEnum):
    """Where an input comes from; the numbers are those of `Source::From` in cc/python/plan.h."""

    OPERATION = 0  # an earlier operation of the step
    FEED = 1  # Python
    CONSTANT = 2  # Python, and so small that its value is known
    RESOURCE = 3  # a variable
    HISTORY = 4  # in a graph with loops: an operation, but not the last time that it was done


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where one input came from.

    Attributes:
        number: the position of an operation in the trace, or the number of a resource.
        output: which output of the operation.
        shape: of a feed or constant.
        value: of a constant, as bytes.
    """

    origin: From
    number: int = 0
    output: int = 0
    dtype: int = 0
    shape: tuple[int, ...] | None = None
    value: bytes = b""


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation of a step.

    Attributes:
        signature: type and attributes, by number.
        location: the stack of call sites, by number.
        inputs: where each comes from.
        outputs: how many there are.
        fetched: the outputs whose values Python looked at, or kept after the step.
        is_open: whether the shapes of its outputs depend on values.
        is_foreseen: whether Python's thread knows those, and that there is no error, without the graph.
        trips: every loop around it, the outermost first.
    """

    signature: int
    location: int
    inputs: tuple[Origin, ...] = ()
    outputs: int = 1
    fetched: frozenset[int] = frozenset()
    is_open: bool = False
    is_foreseen: bool = False
    trips: tuple[Trip, ...] = ()


@dataclasses.dataclass(frozen=True)
class Trace:
    """The operations of a step that the graph can do, in order.

    Attributes:
        outside: operations with resources that Python's thread did itself, as (type, number of the resource, or -1).
    """

    operations: tuple[Operation, ...]
    outside: tuple[tuple[str, int], ...] = ()

    @property
    def resources(self) -> frozenset[int]:
        """The variables that the operations use."""
        return frozenset(
            origin.number for op in self.operations for origin in op.inputs if origin.origin is From.RESOURCE
        )

    def conflict(self) -> str:
        """Why these operations cannot be done by a graph beside what Python's thread does itself; "" if they can."""
        for name, resource in self.outside:
            if resource in self.resources or (resource < 0 and self.resources):
                return f"{name} may use a variable that the step's other operations use"
        return ""

    def __str__(self) -> str:
        lines = [f"{i}: {_text(op)}" for i, op in enumerate(self.operations)]
        return "\n".join(lines) or "(no operation)"


def _text(op: Operation) -> str:
    inputs = ", ".join(f"{o.origin.name.lower()} {o.number}.{o.output}" for o in op.inputs)
    return f"type {op.signature} at {op.location} ({inputs})"


def read_trace(
    records: tuple[Any, ...],
    outside: tuple[tuple[str, int], ...],
    trips_of: Callable[[Iterable[int]], Iterable[tuple[Trip, ...]]],
) -> Trace:
    """A trace from what the device gives at the end of a step.

    Args:
        records: the operations.
        outside: those that are not part of the trace.
        trips_of: for locations in the order of a trace, the loops around each.
    """
    operations = []
    trips = trips_of(record[1] for record in records)
    for (signature, location, is_open, is_foreseen, inputs, outputs), around in zip(records, trips, strict=True):
        origins = tuple(
            Origin(From(o), n, output, dtype, shape, value or b"") for o, n, output, dtype, shape, value in inputs
        )
        fetched = frozenset(i for i, (_, _, is_needed) in enumerate(outputs) if is_needed)
        known = bool(is_open), bool(is_foreseen)
        operations.append(Operation(signature, location, origins, len(outputs), fetched, *known, around))
    return Trace(tuple(operations), tuple(outside))
