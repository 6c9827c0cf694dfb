"""What type checkers see of decorated functions: their own parameters and results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import recgraph as rg

@rg.function
def double(x: int, *, times: float = 2.0) -> str: ...

@rg.function(mode="coexec", strict=True)
def half(x: int) -> bytes: ...

class Model:
    @rg.function
    def step(self, x: int) -> str: ...

@rg.subgraph
def size(node: int) -> float: ...

@rg.subgraph(name="depth")
def depth(node: int) -> float: ...

reveal_type(double(1, times=3.0))
reveal_type(half(1))
reveal_type(Model().step(1))
reveal_type(size(1))
reveal_type(depth(1))
reveal_type(double.explain())
for item in rg.steps([b"a", b"b"]):
    reveal_type(item)
double("a")
double(1, 2)
half()
Model().step("a")
size()
depth("a")
"""
REVEALED = ["str", "bytes", "str", "float", "float", "Any", "bytes"]
ERRORS = ["arg-type", "call-arg", "call-arg", "arg-type", "call-arg", "arg-type"]


def test_decorated_functions_keep_their_signatures(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("# mypy: disable-error-code=empty-body\n" + PROGRAM, encoding="utf-8")
    repository = Path(__file__).parents[1]
    options = ["--config-file", str(repository / "pyproject.toml"), "--follow-imports", "silent", "--no-pretty"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if "program.py:" in line]
    shown = [line.split('"')[1].removeprefix("builtins.") for line in lines if "Revealed type" in line]
    assert shown == REVEALED, done.stdout
    errors = [line for line in lines if ": error: " in line]
    assert [line.rsplit("[", 1)[1].rstrip("]") for line in errors] == ERRORS, done.stdout
