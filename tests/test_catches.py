"""The machine that finds out which tests catch which bugs: mutants, probes, what is chosen and what is written."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.planted import Bug, catches, measuring, probing
from tests.planted.catches import Catches, Tried
from tests.planted.measuring import Executed, Runner, key_of, place_of, read_executed, remaining_tests
from tests.planted.mutants import PACKAGES, chosen_mutants, mutant_of, named_changes, select
from tests.planted.planting import is_stale

SOURCE = '''"""What it is: 1 + 1."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    SIZE = 1 if 1 < 2 else 3


class Stack:
    def push(self, item: "int | 3", *, twice: bool = False) -> None:
        """Not 1."""
        if item is None or not twice:
            raise ValueError("one of", 7, 1 < 2)
        self.items.append(item)
        log.debug("pushed", 5)

    def __repr__(self) -> str:
        return "é" * 3

    def pop(self) -> int:
        for é in self.items:
            if "é" == é: continue
            self.count += 1
        return swap(é, self.count - 2, back=True)
'''

CHANGES = {
    "Stack.push:constant:0": "False -> True",
    "Stack.push:condition:0": "item is None or not twice -> (not (item is None or not twice))",
    "Stack.push:logic:0": "item is None or not twice -> (item is None and (not twice))",
    "Stack.push:compare:0": "item is None -> (item is not None)",
    "Stack.push:not:0": "not twice -> (twice)",
    "Stack.push:call:0": "self.items.append(item) -> pass",
    "Stack.pop:compare:0": "\"é\" == é -> ('é' != é)",
    "Stack.pop:loop:0": "continue -> break",
    "Stack.pop:augmented:0": "self.count += 1 -> self.count -= 1",
    "Stack.pop:constant:0": "1 -> 2",
    "Stack.pop:return:0": "return swap(é, self.count - 2, back=True) -> return None",
    "Stack.pop:arguments:0": "swap(é, self.count - 2, back=True) -> swap(self.count - 2, é, back=True)",
    "Stack.pop:keyword:0": "swap(é, self.count - 2, back=True) -> swap(é, self.count - 2)",
    "Stack.pop:arithmetic:0": "self.count - 2 -> (self.count + 2)",
    "Stack.pop:constant:1": "2 -> 3",
    "Stack.pop:constant:2": "True -> False",
}


def mutants_of(text: str) -> dict[str, tuple[str, str, str]]:
    """Each mutant's old text, the change in words, and the whole text with it."""
    found = {}
    for name, change in named_changes("a.py", ast.parse(text)).items():
        mutant = mutant_of(name, "a.py", text, change)
        assert text.count(mutant.old) == 1
        words = f"{mutant.before} -> {mutant.after}"
        found[name.removeprefix("a.py:")] = (mutant.old, words, text.replace(mutant.old, mutant.new))
    return found


def test_a_mutant_changes_one_thing_that_a_program_does() -> None:
    """No docstring, annotation, message, text of an object or import that only type checkers see."""
    found = mutants_of(SOURCE)
    assert {name: words for name, (_, words, _) in found.items()} == CHANGES
    for _, _, text in found.values():
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(SOURCE))


def test_a_mutant_keeps_its_name_where_other_functions_are_edited() -> None:
    edited = SOURCE.replace("class Stack", "def before() -> int:\n    return 1 + 2\n\n\nclass Stack")
    assert {*mutants_of(SOURCE)} < {*mutants_of(edited)}
    names = [f"a.py:function{i}:{kind}:0" for i in range(40) for kind in ("call", "logic", "not")]
    taken = select(names, 6)
    assert sorted(name.split(":")[2] for name in taken) == ["call", "call", "logic", "logic", "not", "not"]
    assert len({name.split(":")[1] for name in taken}) == 6
    assert taken == select(reversed(names), 6) != select(names, 6, seed=1)


def test_mutants_are_of_all_packages_and_fit_the_sources() -> None:
    found = chosen_mutants()
    assert {package: len(mutants) for package, mutants in found.items()} == dict.fromkeys(PACKAGES, 12)
    assert [mutant.name for mutants in found.values() for mutant in mutants if is_stale(mutant)] == []


PROBED = '''"""A program."""
import sys


def double(x):
    """Twice x."""
    return 2 * x


if len(sys.argv) > 2:
    double(0)
elif sys.argv[1] == "child":
    y = [double(i)
         for i in range(3)]
else:
    y = None
'''


def place_in(text: str, old: str) -> tuple[int, int]:
    """Where a bug would be that begins with this text."""
    return place_of(Bug("", "", "", old, "", ()), text)


def test_a_probe_belongs_to_the_statement_that_a_bug_changes() -> None:
    tree = ast.parse(PROBED)

    def found(line: int, column: int) -> str:
        statement = probing.statement_at(tree, line, column)
        assert statement is not None
        return ast.unparse(statement).splitlines()[0]

    assert found(*place_in(PROBED, "range(3)")) == "y = [double(i) for i in range(3)]"
    assert found(*place_in(PROBED, '"child"')) == "if sys.argv[1] == 'child':"
    assert found(*place_in(PROBED, "    double(0)\n")) == "double(0)"
    assert found(*place_in(PROBED, "(x):")) == "def double(x):"
    appended = Bug("", "", "", "    y = None\n", "    y = None or 0\n", ())
    assert found(*place_of(appended, PROBED)) == "y = None"


def test_probes_tell_what_a_process_passes(tmp_path: Path) -> None:
    """Once each, with lines as before; that of a function when it is called."""
    program, probes, hits = tmp_path / "program.py", tmp_path / "probes.json", tmp_path / "hits"
    program.write_text(PROBED, encoding="utf-8")
    texts = ["(x):", "double(0)", '"child"', "range(3)", "None", "import sys"]
    places = [(number, *place_in(PROBED, text)) for number, text in enumerate(texts)]
    probes.write_text(json.dumps({str(program): places}), encoding="utf-8")
    start = f"import sys; sys.path[:0] = {[str(tmp_path), str(Path(probing.__file__).parent)]}; import probing\n"
    start += "probing.start(); import program; print(program.double.__doc__, program.double.__code__.co_firstlineno)"
    environment = {**os.environ, probing.PROBES: str(probes), probing.HITS: str(hits)}
    command = [sys.executable, "-c", start, "child"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "Twice x. 5\n"
    assert probing.taken(hits) == {0, 2, 3, 5}
    assert probing.taken(hits) == set()


@pytest.mark.parametrize("text", [PROBED, SOURCE])
def test_probes_at_every_statement_change_nothing_else(text: str) -> None:
    """Without them the tree is what it was."""
    tree = ast.parse(text)
    places = {number: node for number, node in enumerate(ast.walk(tree)) if isinstance(node, ast.stmt) and number > 3}
    probing.insert(tree, places)
    compile(tree, "a.py", "exec")
    lines = [line for line in ast.unparse(tree).splitlines() if "__recgraph_probe__" not in line]
    assert len(ast.unparse(tree).splitlines()) - len(lines) == len(places)
    assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(text))


def tried(*failed: str) -> Tried:
    """A bug that these tests catch."""
    return Tried("", 3, 3, 1.0, failed)


def test_the_chosen_tests_catch_the_most_a_second() -> None:
    """A file that cannot be imported fails in each of its tests; what nothing catches is not asked for."""
    known = Catches(
        {"a.py::slow": 10.0, "a.py::quick": 0.1, "b.py::other": 1.0, "b.py::idle": 0.5},
        {
            "one": tried("a.py::slow", "a.py::quick"),
            "two": tried("a.py::slow", "b.py::other"),
            "three": tried("a.py"),
            "four": tried("a.py::slow"),
            "five": tried(),
        },
    )
    assert catches.chosen(known, share=1) == ["a.py::quick", "b.py::other", "a.py::slow"]
    assert catches.chosen(known, share=0.75) == ["a.py::quick", "b.py::other"]
    assert catches.share_of(known, ["a.py::quick", "b.py::idle"]) == (2, 4)
    assert catches.chosen(Catches()) == []


def test_catches_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Sorted, one line for each entry."""
    known = Catches({"b.py::test": 1.5, "a.py::test": 2.0}, {"one": tried("a.py::test")})
    catches.write(known, tmp_path / "catches.json")
    assert catches.read(tmp_path / "catches.json") == known
    lines = (tmp_path / "catches.json").read_text(encoding="utf-8").splitlines()
    assert lines[5:7] == ['  "a.py::test": 2.0,', '  "b.py::test": 1.5']
    assert catches.read(tmp_path / "none.json") == Catches()


def measured(file: str, shared: list[str], **tests: tuple[float, str, list[str]]) -> str:
    """A line of what was measured."""
    found = {
        f"{file}::{name}": {"seconds": seconds, "outcome": outcome, "bugs": bugs}
        for name, (seconds, outcome, bugs) in tests.items()
    }
    return json.dumps({"file": file, "probed": "0", "shared": shared, "tests": found}) + "\n"


def test_tests_that_come_past_a_bug_are_run_the_quickest_first(tmp_path: Path) -> None:
    """Then those that only import it; not those that fail without it, or were run, or where enough have failed."""
    lines = [
        measured("a.py", [], gone=(1.0, "passed", ["bug"])),
        measured("a.py", [], slow=(2.0, "passed", ["bug"]), quick=(1.0, "passed", ["bug"]), red=(0, "failed", ["bug"])),
        measured("b.py", ["bug"], first=(0.1, "passed", []), second=(0.2, "passed", ["bug"])),
    ]
    (tmp_path / "executed.jsonl").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "probed-0.json").write_text('["bug", "another"]', encoding="utf-8")
    executed: Executed = read_executed(tmp_path)
    assert executed.files == {"a.py", "b.py"}
    assert executed.tests_of("bug") == ["b.py::second", "a.py::quick", "a.py::slow", "b.py::first"]
    assert executed.tests_of("another") == []
    assert executed.probed == {"bug", "another"}
    ran = {"ran": ["b.py::second", "a.py::quick"], "failed": [], "seconds": 3.0}
    assert remaining_tests("bug", executed, ran) == ["a.py::slow", "b.py::first"]
    assert remaining_tests("bug", executed, {**ran, "failed": ["x"] * 10}) == []
    assert remaining_tests("bug", executed, {**ran, "seconds": 480.0}) == []


def test_what_is_known_of_another_text_is_of_another_bug() -> None:
    one = Bug("name", "", "a.py", "old", "new", ())
    assert key_of(one) == key_of(Bug("name", "what", "a.py", "old", "new", ()))
    assert key_of(one) != key_of(Bug("name", "", "a.py", "old", "newer", ()))


PROGRAM = '''"""A program with bugs."""


def double(x):
    return 2 * x


def last(items):
    i = 0
    while i < len(items) - 1:
        i += 1
    return items[i]


def unused():
    return 1
'''

TESTS = '''"""Tests of the program, two of which fail without a bug, or do not run."""
import subprocess, sys, time
from pathlib import Path
import pytest
import sample_program

@pytest.fixture(scope="module")
def four():
    return sample_program.double(2)

def test_slow():
    time.sleep(0.3)
    assert sample_program.double(1) == 2

def test_child():
    code = "import sample_program; print(sample_program.last([1, 2]))"
    place = Path(__file__).parent
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=place).stdout == b"2\\n"

def test_last():
    assert sample_program.last([5, 6]) == 6

def test_zero():
    assert sample_program.double(0) == 0

def test_fails():
    assert sample_program.double(1) == 1

@pytest.mark.skip
def test_skipped():
    sample_program.double(1)
'''

SAMPLES = {
    name: Bug(name, "", "tests/sample_program.py", old, new, ())
    for name, old, new in [
        ("triples", "return 2 * x", "return 3 * x"),
        ("hangs", "i += 1", "i += 0"),
        ("ends the process", "return 2 * x", "import os; os.abort()"),
        ("does not parse", "return 2 * x", "return return"),
        ("harmless", "return items[i]", "return items[-1]"),
        ("unused", "return 1", "return 2"),
    ]
}


@pytest.mark.slow
def test_bugs_are_tried_on_what_comes_past_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in child processes; one that hangs or ends the process is caught, and the other tests run all the same."""
    monkeypatch.setattr(measuring, "all_bugs", lambda: SAMPLES)
    monkeypatch.setattr(measuring, "PATIENCE", 3)
    runner = Runner(tmp_path)
    (runner.copy.root / "tests/sample_program.py").write_text(PROGRAM, encoding="utf-8")
    (runner.copy.root / "tests/test_sample.py").write_text(TESTS, encoding="utf-8")
    assert measuring.measure(runner, ["test_sample.py"], "", time.monotonic() + 300, tmp_path) == []
    executed = read_executed(tmp_path)
    assert {name.partition("::")[2] for name in executed.seconds} == {
        "test_slow",
        "test_child",
        "test_last",
        "test_zero",
    }
    assert executed.tests_of("triples") == ["test_sample.py::test_zero", "test_sample.py::test_slow"]
    assert executed.tests_of("harmless") == ["test_sample.py::test_last", "test_sample.py::test_child"]
    assert executed.tests_of("unused") == []
    found = {name: measuring.try_bug(runner, name, executed, tmp_path) for name in SAMPLES}
    assert {name: [test.partition("::")[2] for test in one["failed"]] for name, one in found.items()} == {
        "triples": ["test_slow"],
        "hangs": ["test_child", "test_last"],
        "ends the process": ["test_slow", "test_zero"],
        "does not parse": [""],
        "harmless": [],
        "unused": [],
    }
    stored = measuring.store(tmp_path, tmp_path / "catches.json")
    assert {name: (one.executed, one.ran) for name, one in stored.bugs.items()} == {
        **dict.fromkeys(SAMPLES, (2, 2)),
        "unused": (0, 0),
    }
    tests = ["test_sample.py::test_last", "test_sample.py::test_zero", "test_sample.py::test_slow"]
    assert catches.chosen(stored) == tests  # the quick ones of two bugs each first
