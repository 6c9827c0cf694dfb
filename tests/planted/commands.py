"""The commands `python -m tests.planted measure`, `try`, `missed` and `choose`: which tests catch which bugs.

`measure` runs files of tests and notes which bugs each test comes past; `try` plants each bug and runs these tests;
`missed` lists the bugs that none of them catches; `choose` prints the tests that catch most a second.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.planted import catches
from tests.planted.measuring import (
    FOLDER,
    Runner,
    all_bugs,
    find_test_files,
    measure,
    package_of,
    read_executed,
    read_tried,
    remaining_tests,
    store,
    try_bug,
)

COMMANDS = ("measure", "try", "missed", "choose")


def run(arguments: Sequence[str]) -> int:
    """Runs one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        command = commands.add_parser(name)
        if name in ("measure", "try"):
            command.add_argument("--minutes", type=float, default=60, help="how long it may take; it can go on later")
        if name in ("try", "missed"):
            command.add_argument("--only", help="only bugs of this package")
    commands.choices["measure"].add_argument("places", nargs="*", help="files or folders below tests; by default all")
    commands.choices["measure"].add_argument("--marks", default="not long", help="pytest's -m")
    commands.choices["measure"].add_argument("--at-once", type=int, default=1, help="so many files in one process")
    commands.choices["measure"].add_argument("--again", action="store_true", help="also what was measured before")
    commands.choices["try"].add_argument("--bug", help="only the one of this name")
    commands.choices["choose"].add_argument(
        "--share", type=float, default=catches.SHARE, help="of what is caught at all"
    )
    parsed = parser.parse_args(arguments)
    return {"measure": _measure, "try": _try, "missed": _missed, "choose": _choose}[parsed.command](parsed)


def _measure(parsed: argparse.Namespace) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * parsed.minutes
    known = set() if parsed.again else read_executed().files
    files = [file for file in find_test_files(parsed.places) if file not in known]
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        groups = [files[i : i + parsed.at_once] for i in range(0, len(files), parsed.at_once)]
        while groups and time.monotonic() < until:
            group = groups.pop(0)
            left = measure(runner, group, parsed.marks, until)
            print(f"measured: {' '.join(file for file in group if file not in left)}", flush=True)
            print(f"left: {' '.join(left)}" if left else "", flush=True)
            if left and time.monotonic() < until:
                print(runner.output.read_text(encoding="utf-8", errors="replace")[-2000:], flush=True)
            if len(left) > 1:  # one of them ends the process: the others alone
                groups += [[file] for file in left]
    store()
    print(f"{len(list(itertools.chain(*groups)))} files are left")
    return 0


def _try(parsed: argparse.Namespace) -> int:
    until = time.monotonic() + 60 * parsed.minutes
    executed, tried, bugs = read_executed(), read_tried(), all_bugs()
    names = [name for name in bugs if parsed.bug in (None, name) and parsed.only in (None, package_of(bugs[name]))]
    left = {name: remaining_tests(name, executed, tried.get(name, {})) for name in names}
    waiting = sorted(filter(left.get, left), key=lambda name: sum(executed.seconds[test] for test in left[name]))
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        while waiting and time.monotonic() < until:
            name = waiting.pop(0)
            one = try_bug(runner, name, executed)
            failed = f"{len(one['failed'])} of {len(one['ran'])} fail"
            print(f"{failed:16}  {one['seconds']:6.1f} s  {name}", flush=True)
            store()
    print(f"{len(waiting)} bugs are left")
    return 0


def _missed(parsed: argparse.Namespace) -> int:
    found, bugs, executed = catches.read().bugs, all_bugs(), read_executed()
    names = [name for name in bugs if parsed.only in (None, package_of(bugs[name]))]
    kinds: dict[str, list[str]] = {"caught": [], "not caught": [], "passed by no test": [], "not tried": []}
    for name in names:
        if name in found and found[name].executed:
            kinds["caught" if found[name].failed else "not caught"].append(name)
        else:
            is_known = name in found or name in executed.probed and not executed.tests_of(name)
            kinds["passed by no test" if is_known else "not tried"].append(name)
    for kind in ("not caught", "passed by no test"):
        for name in kinds[kind]:
            ran = f" in {found[name].ran} of {found[name].executed} tests" if name in found else ""
            print(f"{kind}{ran}: {name}\n    {bugs[name].what}")
    of = f"of {len(find_test_files([]))} files of tests {len(executed.files)} were measured"
    print(", ".join(f"{len(kinds[kind])} {kind}" for kind in kinds), of, sep="; ")
    return 0


def _choose(parsed: argparse.Namespace) -> int:
    found = catches.read()
    tests = catches.chosen(found, parsed.share)
    print(*tests, sep="\n")
    caught, of = catches.share_of(found, tests)
    seconds = sum(found.tests.get(test, 0) for test in tests)
    print(f"# {len(tests)} tests of {seconds:.0f} seconds catch {caught} of the {of} bugs that are caught at all")
    return 0
