"""The image of the Dockerfile: built where Docker is to be had, else by the same steps in environments of their own."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[1]
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").split()
PLACES = ("source", "tools", "wheels", "opt/recgraph", "work")  # the folders of the image that steps name
COMMANDS = ("sh", "rm", "ls", "cat", "env", "uname")  # what a system has that has no compiler
PROGRAM = """
import recgraph as rg
import tensorflow as tf

with rg.SubGraph("factorial", outputs=tf.TensorSpec([]), engine="batched") as factorial:
    n = factorial.input(tf.float32)
    factorial.output(tf.cond(n < 1.0, lambda: 1.0, lambda: n * factorial(n - 1.0)))
print(float(factorial(tf.constant(5.0))), rg.__file__)
"""


class Step(NamedTuple):
    """An instruction of a Dockerfile, and what follows it."""

    kind: str
    text: str


def stages() -> list[list[Step]]:
    """The steps of each stage, the `FROM` first."""
    found: list[list[Step]] = []
    for line in DOCKERFILE.splitlines():
        kind, _, text = line.partition(" ")
        if kind == "FROM":
            found.append([])
        if found and kind.isupper():
            found[-1].append(Step(kind, text))
    return found


def files() -> Iterator[str]:
    """What a clone has: the files that are in Git or could be."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    yield from (name for name in done.stdout.splitlines() if (REPOSITORY / name).is_file())


def is_ignored(name: str) -> bool:
    """Whether Docker's rules leave a file out: they begin at the top, but for those with `**`."""
    parts = name.split("/")
    paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    anywhere = [pattern.removeprefix("**/") for pattern in IGNORED if pattern.startswith("**/")]
    return any(fnmatch.fnmatch(path, pattern) for path in paths for pattern in IGNORED) or any(
        fnmatch.fnmatch(part, pattern) for part in parts for pattern in anywhere
    )


def test_what_it_copies_and_installs_is_what_the_project_has() -> None:
    """Docker's rules leave out nothing of a clone, and the versions are supported ones."""
    assert [name for name in files() if is_ignored(name)] == []
    assert is_ignored("build/native/a.o")
    assert is_ignored("tests/__pycache__/a.pyc")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (python,) = re.findall(r"^ARG DEBIAN=python:3\.(\d+)-slim", DOCKERFILE, re.MULTILINE)
    assert project["requires-python"] == ">=3.11,<3.14"
    assert 11 <= int(python) <= 13
    assert set(re.findall(r"tensorflow-cpu==(\d\.\d+)\.\*", DOCKERFILE)) == {"2.21"}


def test_the_image_has_no_compiler_and_is_no_root() -> None:
    """What is compiled in the first stage comes to the second one as a wheel."""
    first, second = stages()
    assert any("g++" in step.text for step in first)
    assert not any("g++" in step.text or "apt-get" in step.text for step in second)
    assert Step("USER", "user") in second
    assert Step("COPY", "--from=wheel /wheels /wheels") in second
    assert second.index(Step("USER", "user")) < second.index(Step("RUN", "recgraph doctor"))


def docker() -> str | None:
    """Docker's command, if it answers."""
    command = shutil.which("docker")
    answers = command and subprocess.run([command, "info"], capture_output=True, check=False).returncode == 0
    return command if answers else None


def commands_alone(folder: Path) -> str:
    """A PATH of a few commands of the system, in a new folder."""
    folder.mkdir()
    for name in COMMANDS:
        (folder / name).symlink_to(str(shutil.which(name)))
    return str(folder)


def steps_here(folder: Path) -> str:
    """Runs what both stages run, with the image's folders below `folder`; gives what the program prints.

    The system's packages and users stay as they are, and the second stage finds no compiler.
    """
    moved = re.compile(rf"(?<![\w.])/({'|'.join(PLACES)})\b")
    python = str(Path(sys.base_prefix, "bin/python3"))
    first, second = stages()
    paths = (f"{Path(python).parent}:{os.environ['PATH']}", commands_alone(folder / "commands"))
    for stage, path in zip((first, second), paths, strict=True):
        where, inside = folder, {"PATH": path, "HOME": str(folder), "RECGRAPH_JOBS": "1"}
        for step in stage:
            text = moved.sub(lambda found: str(folder / found[1]), step.text)
            if step.kind == "WORKDIR":
                (where := Path(text)).mkdir(parents=True, exist_ok=True)
            elif step.kind == "ENV":
                inside["PATH"] = text.removeprefix("PATH=").replace("$PATH", inside["PATH"])
            elif step == Step("COPY", ". ."):
                for name in files():
                    (where / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(REPOSITORY / name, where / name)
            elif step.kind == "RUN" and not text.startswith(("apt-get", "useradd")):
                text = re.sub(r"^python ", f"{python} ", text)
                subprocess.run(["/bin/sh", "-c", text], cwd=where, env=inside, check=True)
    assert shutil.which("g++", path=inside["PATH"]) is None
    command = [str(folder / "opt/recgraph/bin/python"), "-c", PROGRAM]
    return subprocess.run(command, cwd=where, env=inside, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.long
def test_the_image_is_built_and_computes(tmp_path: Path) -> None:
    """From a clone, with nothing but what its steps install."""
    if command := docker():
        subprocess.run([command, "build", "--tag", "recgraph-test", "."], cwd=REPOSITORY, check=True)
        run = [command, "run", "--rm", "recgraph-test", "python", "-c", PROGRAM]
        printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    else:
        printed = steps_here(tmp_path)
    result, place = printed.split()
    assert result == "120.0"
    assert "/opt/recgraph/" in place
