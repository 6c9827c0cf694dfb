"""The trips of loops, found from locations, against what programs say of themselves."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recgraph.coexec.loops import Loops, Repeated, Stack, code_loops, nested, trip_counts


class Recorder:
    """Stands for the device: notes the stack of whoever calls `operation`, as a location."""

    def __init__(self) -> None:
        self.stacks: dict[Stack, int] = {}
        self.locations: list[int] = []
        self.expected: list[Any] = []

    def operation(self, *expected: Any) -> None:
        """An operation, which says itself in which trips it is."""
        stack, frame = [], sys._getframe(1)
        while frame is not None and frame.f_code is not Recorder.run.__code__:
            stack.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back  # type: ignore[assignment]
        self.locations.append(self.stacks.setdefault(tuple(stack), len(self.stacks)))
        self.expected.append(expected)

    def run(self, program: Callable[..., None], *arguments: Any) -> list[tuple[int, ...]]:
        """Runs a program, and gives the trips of each of its operations."""
        program(self.operation, *arguments)
        return [tuple(trip for _, trip in around) for around in self.loops().trips(self.locations, self)]

    def loops(self, **others: Any) -> Loops:
        """Loops that know where each location is."""
        stacks = {number: stack for stack, number in self.stacks.items()}
        return Loops(stacks.__getitem__, **others)


def compare(program: Callable[..., None], *arguments: Any) -> None:
    """The operations of a program say in which trips they are."""
    recorder = Recorder()
    assert recorder.run(program, *arguments) == recorder.expected


def a_loop(operation: Any) -> None:
    operation()
    for i in range(3):
        operation(i)
        operation(i)
    operation()


def nested_loops(operation: Any) -> None:
    for i in range(3):
        operation(i)
        for j in range(i + 1):
            operation(i, j)
            operation(i, j)
        k = 0
        while k < 2:
            operation(i, k)
            k += 1
        operation(i)


def a_loop_that_is_left(operation: Any) -> None:
    for i in range(9):
        operation(i)
        if i == 3:
            break
        operation(i)
    else:
        operation()
    operation()


def a_loop_with_short_trips(operation: Any) -> None:
    for i in range(6):
        operation(i)
        if i % 2:
            continue
        operation(i)


def a_loop_with_branches(operation: Any) -> None:
    for i in range(6):
        if i % 2 == 0:
            operation(i)
        else:
            operation(i - 1)  # a later place: nothing says that it is another trip
        if i % 2:
            operation(i - 1)


def calls_in_a_loop(operation: Any) -> None:
    def inner(i: int) -> None:
        operation(i)
        operation(i)

    for i in range(3):
        inner(i)


def loops_in_calls(operation: Any) -> None:
    def inner(*outer: int) -> None:
        operation(*outer)
        for i in range(2):
            operation(*outer, i)

    for i in range(3):
        inner(i)
    inner()


def different_calls_at_one_place(operation: Any) -> None:
    layers = [lambda i: operation(i), lambda i: operation(i), lambda i: operation(i)]
    for i, layer in enumerate(layers):
        layer(i)


def a_comprehension(operation: Any) -> None:
    [operation(i) for i in range(3)]


def a_generator(operation: Any) -> None:
    def items() -> Iterator[int]:
        for i in range(3):
            operation(i)
            yield i

    for i in items():
        operation(i)


def exceptions_in_a_loop(operation: Any) -> None:
    for i in range(4):
        try:
            operation(i)
            if i % 2:
                raise ValueError
            operation(i)
        except ValueError:
            operation(i)
            continue
        operation(i)
    operation()


def recursion(operation: Any, depth: int = 4) -> None:
    operation()
    if depth:
        recursion(operation, depth - 1)
    operation()


def recursion_over_children(operation: Any) -> None:
    def visit(depth: int, *trips: int) -> None:
        operation(*trips)
        if depth:
            for i in range(2):
                visit(depth - 1, *trips, i)
        operation(*trips)

    visit(3)


def a_map(operation: Any) -> None:
    list(map(lambda _: operation(), range(3)))  # noqa: C417 (a loop of C)


PROGRAMS = [
    a_loop,
    nested_loops,
    a_loop_that_is_left,
    a_loop_with_short_trips,
    calls_in_a_loop,
    loops_in_calls,
    different_calls_at_one_place,
    a_comprehension,
    exceptions_in_a_loop,
    recursion,
    recursion_over_children,
    a_map,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_trips(program: Any) -> None:
    """Every loop around an operation, and in which trip it is."""
    compare(program)


def test_a_trip_may_hide() -> None:
    """Two trips that do nothing twice look like one: that is no less a trip."""
    recorder = Recorder()
    found = recorder.run(a_loop_with_branches)
    assert [trip for (trip,) in found] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_what_a_generator_does_is_in_its_own_loop_and_in_that_around_it() -> None:
    """It runs inside of the loop that asks it, so the trips of that are counted."""
    recorder = Recorder()
    assert recorder.run(a_generator) == [(0, 0), (0,), (1, 0), (1,), (2, 0), (2,)]


def test_code_without_jumps_back_has_no_loops() -> None:
    """And one with an inner loop has that after the outer one."""
    assert code_loops(a_map.__code__) == ()
    outer, *inner = code_loops(nested_loops.__code__)
    assert len(inner) == 2
    assert all(loop.offsets < outer.offsets for loop in inner)


def random_program(source: random.Random, depth: int, is_in_loop: bool = False) -> list[str]:
    """Lines of a program with loops, branches, and ways out of them."""
    lines: list[str] = []
    for _ in range(source.randrange(1, 4)):
        kind = source.choice(["operation", "operation", "for", "if", "break", "continue"])
        if kind == "for" and depth:
            name = f"i{depth}"
            lines += [f"for {name} in range(source.randrange(4)):", "    trips.append(0)"]
            body = [f"trips[-1] = {name}", "operation(*trips)", *random_program(source, depth - 1, True)]
            lines += ["    try:", *("        " + line for line in body), "    finally:", "        trips.pop()"]
        elif kind == "if" and depth:
            lines += [
                "if source.random() < 0.5:",
                *("    " + line for line in random_program(source, depth - 1, is_in_loop)),
            ]
        elif kind in ("break", "continue") and is_in_loop:
            lines += [f"if source.random() < 0.3: {kind}"]
        else:
            lines.append("operation(*trips)")
    return lines


@pytest.mark.parametrize("seed", range(200))
def test_random_programs(seed: int) -> None:
    """Loops in loops, left and cut short: every trip begins with an operation, so that all are seen."""
    source = random.Random(seed)
    lines = ["def program(operation, source, trips=[]):", *("    " + line for line in random_program(source, 3))]
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    compare(namespace["program"], random.Random(seed))


def test_runs_of_loops_are_taken_together() -> None:
    """Inner loops inside of outer ones; loops that are not asked for are as if they were not there."""
    trips = [(), ((5, 0),), ((5, 0), (7, 0)), ((5, 0), (7, 1)), ((5, 1),), ((5, 1), (7, 0)), ()]
    inner = Repeated(7, ((2,), (3,)))
    everything = (0, Repeated(5, ((1, inner), (4, Repeated(7, ((5,),))))), 6)
    assert nested(trips, {5, 7}) == everything
    assert nested(trips, {7}) == (0, 1, inner, 4, Repeated(7, ((5,),)), 6)
    assert nested(trips, {5}) == (0, Repeated(5, ((1, 2, 3), (4, 5))), 6)
    assert sorted(trip_counts(everything)) == [(5, 2), (7, 1), (7, 2)]


class Owner:
    """Compares traces with each other."""


def held(loops: Loops) -> int:
    """How much is known of locations, loops and owners."""
    known = loops._places, loops._owners, loops._numbers, loops._keys, loops._inside, loops._seen
    return sum(map(len, known))


def recorded(program: Callable[..., None]) -> Recorder:
    """The locations of a program."""
    recorder = Recorder()
    recorder.run(program)
    return recorder


def test_what_is_known_of_locations_goes_with_the_last_owner() -> None:
    """Also where the code stays: TensorFlow keeps that of functions that run operations below some others."""
    recorder = recorded(nested_loops)
    loops, owners = recorder.loops(), [Owner(), Owner()]
    expected = [list(loops.trips(recorder.locations, owner)) for owner in owners]
    assert expected[0] == expected[1]
    owners.pop(0)
    assert list(loops.trips(recorder.locations, owners[0])) == expected[0]  # its loops have kept their numbers
    known = held(loops)
    assert known > len(set(recorder.locations))
    owners.clear()
    assert list(loops.trips([], loops)) == []
    assert held(loops) == 1  # who has asked last
    assert list(loops.trips(recorder.locations, recorder)) != expected[0]  # as loops that were never seen
    assert held(loops) == known + 1


def test_an_owner_of_forgotten_code_goes_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recgraph.coexec.loops._PLACES", 0)
    recorder, other = recorded(nested_loops), recorded(a_loop)
    gone = list(set(recorder.locations))
    loops, owner = recorder.loops(forget=lambda: gone), Owner()
    list(loops.trips(recorder.locations, owner))
    loops._stack_of = other.loops()._stack_of
    expected = [tuple(trip for _, trip in around) for around in loops.trips(other.locations, other)]
    assert expected == other.expected
    del owner
    assert [tuple(trip for _, trip in around) for around in loops.trips(other.locations, other)] == other.expected
