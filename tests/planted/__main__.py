"""The command `python -m tests.planted`: plants bugs in a copy of the sources and says which of them are caught.

With `measure`, `try`, `missed` or `choose` it is one of `tests/planted/commands.py`.
"""

from __future__ import annotations

import argparse
import queue
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.gtest import NoToolchain
from tests.planted import ROOMS, Bug, bugs_of, commands
from tests.planted.planting import BROKEN, CAUGHT, Copy, Verdict, is_among


def chosen(arguments: argparse.Namespace) -> list[tuple[str, Bug]]:
    """The bugs that the command is for, each with its room."""
    rooms = [arguments.room] if arguments.room else ROOMS
    bugs = [(room, bug) for room in rooms for bug in bugs_of(room)]
    bugs = [(room, bug) for room, bug in bugs if arguments.bug in (None, bug.name)]
    bugs = [(room, bug) for room, bug in bugs if arguments.native or not bug.needs_library]
    if arguments.sample is None:
        return bugs
    return random.Random(arguments.seed).sample(bugs, min(arguments.sample, len(bugs)))


def judged(copy: Copy, bug: Bug, failing: list[str]) -> Verdict:
    """What becomes of a bug; also where its tests fail without it, or nothing can be compiled here."""
    if wrong := [test for test in bug.tests if is_among(test, failing)]:
        return Verdict(BROKEN, f"fails without the bug: {', '.join(wrong)}")
    try:
        return copy.try_bug(bug)
    except NoToolchain as why:
        return Verdict(BROKEN, str(why))


def main() -> int:
    """Tries the bugs, 1 where one is not caught; or runs one of the other commands."""
    if sys.argv[1:2] and sys.argv[1] in commands.COMMANDS:
        return commands.run(sys.argv[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("--room", choices=ROOMS)
    parser.add_argument("--bug", help="only the one of this name")
    parser.add_argument("--sample", type=int, help="so many of them, at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--native", action="store_true", help="also those for which the op library is compiled again")
    parser.add_argument("--jobs", type=int, default=1, help="so many at once, each in a copy of its own")
    arguments = parser.parse_args()
    bugs = chosen(arguments)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for i in range(arguments.jobs):
            copies.put(Copy(Path(folder, str(i))))
        first = copies.get()
        failing = first.failing_without(bug for _, bug in bugs)
        copies.put(first)

        def tried(one: tuple[str, Bug]) -> bool:
            copy = copies.get()
            try:
                verdict = judged(copy, one[1], failing)
            finally:
                copies.put(copy)
            print(f"{verdict.kind:20}  {one[0]:9}  {one[1].name:40}  {verdict.detail}", flush=True)
            return verdict.kind == CAUGHT

        caught = sum(pool.map(tried, bugs))
    print(f"{caught} of {len(bugs)} are caught")
    return 0 if caught == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
