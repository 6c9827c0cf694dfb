"""The loops of the program that a trace went through, found from where its operations stand.

Python does not say that a loop has begun another trip, but an operation that stands before the last one, in the same
call of the same function, can have come after it only if a loop went around. Loops are read from the bytecode, one for
every instruction that is jumped back to. A recursive call has a longer stack, and is no loop.
"""

from __future__ import annotations

import collections
import dataclasses
import dis
import itertools
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, TypeAlias

from recgraph.coexec.trace import Trip

Stack: TypeAlias = tuple[tuple[CodeType, int], ...]  # code and offset of each call site, the innermost first

_NEVER_GO_ON = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD"}


@dataclasses.dataclass(frozen=True)
class CodeLoop:
    """A loop in a function's bytecode.

    Attributes:
        header: the offset that is jumped back to.
        offsets: its instructions.
    """

    header: int
    offsets: frozenset[int]


_LOOPS: weakref.WeakKeyDictionary[CodeType, tuple[CodeLoop, ...]] = weakref.WeakKeyDictionary()


def code_loops(code: CodeType) -> tuple[CodeLoop, ...]:
    """The loops of a function, outer ones before inner ones.

    The instructions of a loop are those from which the jump back can be reached without passing its target. So what
    leaves the loop by `break`, and what follows it, is no part of it, wherever the compiler put it.
    """
    found = _LOOPS.get(code)
    if found is None:
        found = _LOOPS[code] = _read_loops(code)
    return found


def _read_loops(code: CodeType) -> tuple[CodeLoop, ...]:
    preceding: dict[int, list[int]] = {}
    jumps: list[tuple[int, int]] = []
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(code, show_caches=True):  # a call in progress stands at its last cache
        if before is not None and before.opname not in _NEVER_GO_ON:
            preceding.setdefault(instruction.offset, []).append(before.offset)
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            preceding.setdefault(instruction.argval, []).append(instruction.offset)
            # The loop of `await` and `yield from` is none of the program's.
            if instruction.argval <= instruction.offset and instruction.opname != "JUMP_BACKWARD_NO_INTERRUPT":
                jumps.append((instruction.offset, instruction.argval))
        before = instruction
    loops: dict[int, set[int]] = {}
    for source, target in jumps:
        inside = loops.setdefault(target, {target})
        waiting = [source]
        while waiting:
            offset = waiting.pop()
            if offset not in inside:
                inside.add(offset)
                waiting += preceding.get(offset, [])
    found = [CodeLoop(header, frozenset(inside)) for header, inside in loops.items()]
    return tuple(sorted(found, key=lambda loop: -len(loop.offsets)))


@dataclasses.dataclass(frozen=True)
class _Place:
    """A location.

    Attributes:
        sites: code, by its id, and offset of each call site, the outermost first.
        loops: for each of them the numbers of the loops around it, the outermost first.
    """

    sites: tuple[tuple[int, int], ...]
    loops: tuple[tuple[int, ...], ...]


# The call sites around a loop, by the code's ids, its own code's id, and its first instruction.
_Loop: TypeAlias = tuple[tuple[tuple[int, int], ...], int, int]
# So many locations are known before those of code that is gone are looked for.
_PLACES = 256


class Loops:
    """Numbers the loops of programs, and says which of them operations are in.

    A loop in a function that is called from several places is as many loops.

    What is known of a location is kept for those whose traces went through it, and let go of with the last of them:
    the code alone may stay for ever, as TensorFlow keeps that of functions that run operations below some others.

    Args:
        stack_of: the stack of a location.
        calls_back: functions in which one instruction calls Python again and again, and is no loop for it.
        forget: forgets locations in code that is gone, and gives their numbers.
    """

    def __init__(
        self,
        stack_of: Callable[[int], Stack],
        calls_back: Iterable[CodeType] = (),
        forget: Callable[[], list[int]] = list,
    ) -> None:
        self._stack_of = stack_of
        self._forget = forget
        self._count = 0  # of numbers given
        self._most = _PLACES
        self._calls_back = frozenset(map(id, calls_back))
        self._numbers: dict[_Loop, int] = {}
        self._keys: dict[int, _Loop] = {}
        self._inside: collections.Counter[int] = collections.Counter()  # by loop: the places in it
        self._places: dict[int, _Place] = {}
        self._owners: collections.Counter[int] = collections.Counter()  # by location
        self._seen: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()  # by owner
        self._released: collections.deque[set[int]] = collections.deque()  # of owners that are gone, by any thread

    def trips(self, locations: Iterable[int], owner: Any) -> Iterator[tuple[Trip, ...]]:
        """For each operation of a trace, in order: every loop around it with the trip it is in, the outermost first.

        Args:
            locations: of the operations.
            owner: what compares this trace with others: as long as it lives the numbers of its loops stay theirs.
        """
        while self._released:
            self._release(self._released.popleft())
        if len(self._places) > self._most:
            self._tidy()
        seen = self._seen_by(owner)
        last: _Place | None = None
        trips: tuple[Trip, ...] = ()
        for location in locations:
            place = self._place(location)
            if location not in seen:
                seen.add(location)
                self._owners[location] += 1
            again = None if last is None else self._again(last, place)
            trips = _advanced(trips, [loop for loops in place.loops for loop in loops], again)
            last = place
            yield trips

    def _tidy(self) -> None:
        for location in self._forget():
            self._drop(location)
        self._most = 2 * len(self._places) + _PLACES

    def _seen_by(self, owner: Any) -> set[int]:
        if owner not in self._seen:
            seen = self._seen[owner] = set()
            weakref.finalize(owner, self._released.append, seen).atexit = False
        return self._seen[owner]

    def _release(self, seen: set[int]) -> None:
        """Lets go of what only one that is gone has seen. C++ knows the locations still: steps may be in them."""
        for location in seen:
            self._owners[location] -= 1
            if self._owners[location] <= 0:  # less if it was forgotten with its code
                self._drop(location)

    def _drop(self, location: int) -> None:
        self._owners.pop(location, None)
        place = self._places.pop(location, None)
        for number in () if place is None else itertools.chain(*place.loops):
            self._inside[number] -= 1
            if not self._inside[number]:
                del self._inside[number], self._numbers[self._keys.pop(number)]

    def _number(self, key: _Loop) -> int:
        if key not in self._numbers:
            self._numbers[key], self._keys[self._count] = self._count, key
            self._count += 1
        return self._numbers[key]

    def _place(self, location: int) -> _Place:
        known = self._places.get(location)
        if known is None:
            stack = self._stack_of(location)[::-1]
            sites = tuple((id(code), offset) for code, offset in stack)
            loops = []
            for i, (code, offset) in enumerate(stack):
                around = [loop.header for loop in code_loops(code) if offset in loop.offsets]
                keys = [(sites[:i], id(code), header) for header in around]
                loops.append(tuple(map(self._number, keys)))
            known = self._places[location] = _Place(sites, tuple(loops))
            self._inside.update(itertools.chain(*loops))
        return known

    def _again(self, last: _Place, now: _Place) -> int | None:
        """The loop that began another trip between two operations."""
        depth = 0
        for one, other in zip(last.sites, now.sites, strict=False):
            if one != other:
                break
            depth += 1
        if depth < min(len(last.sites), len(now.sites)) and last.sites[depth][0] == now.sites[depth][0]:
            if now.sites[depth][1] > last.sites[depth][1]:
                return None
            around = [loop for loop in now.loops[depth] if loop in last.loops[depth]]
            if around:
                return around[-1]
        for i in reversed(range(depth)):  # the same call was made again
            if now.sites[i][0] in self._calls_back:
                return None
            if now.loops[i]:
                return now.loops[i][-1]
        return None


def _advanced(before: tuple[Trip, ...], loops: Sequence[int], again: int | None) -> tuple[Trip, ...]:
    """The trips of the next operation: those of the loops that go on, and the first one of the others."""
    trips: list[Trip] = []
    goes_on = True
    for i, loop in enumerate(loops):
        goes_on = goes_on and i < len(before) and before[i][0] == loop
        trips.append((loop, before[i][1] + (loop == again) if goes_on else 0))
        goes_on = goes_on and loop != again
    return tuple(trips)


@dataclasses.dataclass(frozen=True)
class Repeated:
    """One run of a loop.

    Attributes:
        loop: its number.
        trips: what each did: the numbers of operations, and runs of inner loops.
    """

    loop: int
    trips: tuple[tuple[int | Repeated, ...], ...]


Items: TypeAlias = tuple[int | Repeated, ...]


def nested(trips: Sequence[tuple[Trip, ...]], wanted: Container[int]) -> Items:
    """The operations of a trace, by number, with runs of the wanted loops taken together."""
    kept = [tuple(trip for trip in around if trip[0] in wanted) for around in trips]
    return _nested(kept, 0, range(len(kept)))


def _nested(trips: Sequence[tuple[Trip, ...]], depth: int, numbers: Sequence[int]) -> Items:
    items: list[int | Repeated] = []
    for loop, run in _runs(numbers, lambda n: trips[n][depth][0] if len(trips[n]) > depth else None):
        if loop is None:
            items += run
        else:
            each = _runs(run, lambda n: trips[n][depth][1])
            items.append(Repeated(loop, tuple(_nested(trips, depth + 1, trip) for _, trip in each)))
    return tuple(items)


def _runs(numbers: Iterable[int], key: Callable[[int], int | None]) -> list[tuple[int | None, list[int]]]:
    """Neighbours with the same key, taken together. A key that gets smaller is a new run of its loop."""
    runs: list[tuple[int | None, list[int]]] = []
    for number in numbers:
        if runs and runs[-1][0] == key(number):
            runs[-1][1].append(number)
        else:
            runs.append((key(number), [number]))
    return runs


def trip_counts(items: Items) -> Iterator[tuple[int, int]]:
    """Each run of a loop, inner ones too: its number, and how many trips it took."""
    for item in items:
        if isinstance(item, Repeated):
            yield item.loop, len(item.trips)
            for trip in item.trips:
                yield from trip_counts(trip)
