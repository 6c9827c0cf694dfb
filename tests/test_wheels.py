"""`make wheels` finds the Pythons that a wheel can be made for, and tries what it has made without a compiler."""

from __future__ import annotations

import importlib
import os
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool, as a module."""
    monkeypatch.syspath_prepend(REPOSITORY / "tools")
    return importlib.import_module("wheels")


def add_python(path: Path, status: int) -> str:
    """A command that ends with a status, as a Python with headers (0) or without does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_pythons_are_found(wheels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PATH or of pyenv, its newest; without headers, or as a shim that leads nowhere, they are no good."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}/bin")
    add_python(tmp_path / "bin/python3.11", 1)
    add_python(tmp_path / "bin/python3.12", 0)
    add_python(tmp_path / "bin/python3.13", 127)
    add_python(tmp_path / ".pyenv/versions/3.12.1/bin/python3.12", 0)
    add_python(tmp_path / ".pyenv/versions/3.13.9/bin/python3.13", 0)
    newest = add_python(tmp_path / ".pyenv/versions/3.13.10/bin/python3.13", 0)
    assert wheels.found_pythons() == ["python3.12", newest]


def test_no_python_is_told(wheels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"there is no Python 3\.11 or 3\.12 or 3\.13 with headers"):
        wheels.main([])


def test_all_supported_versions_are_looked_for(wheels: Any) -> None:
    """Those of the metadata, and the TensorFlows of setup.py."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11,<3.14"
    assert wheels.MINORS == ("3.11", "3.12", "3.13")
    assert wheels.tensorflows() == ("2.20", "2.21")


def test_a_wheel_is_tried_without_a_compiler(wheels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment and a folder of its own, with commands that no compiler is among."""
    told: list[tuple[list[str], Any]] = []

    def note(command: list[str], **options: Any) -> None:
        path = options["env"]["PATH"]
        told.append(([*map(str, command)], [shutil.which(each, path=path) for each in ("g++", "cc", "sh")]))

    monkeypatch.setattr(wheels.subprocess, "run", note)
    monkeypatch.setattr(wheels.Path, "symlink_to", lambda link, target: link.write_bytes(b"") or link.chmod(0o755))
    wheels.try_wheel(Path("recgraph-0.1.0-cp312-cp312-linux.whl"), "python3.12", "2.20")
    venv, pip, doctor, example = (command for command, _ in told)
    assert venv[:3] == ["python3.12", "-m", "venv"]
    assert pip[1:6] == ["-m", "pip", "install", "--quiet", "--only-binary"]
    assert "tensorflow-cpu==2.20.*" in pip
    assert doctor[-1] == "doctor"
    assert "own_trees" in example[-1]
    assert all(found[:2] == [None, None] and found[2] for _, found in told[1:])


def test_the_example_that_is_tried_is_there(wheels: Any) -> None:
    """With the arguments and results that the program asks for."""
    text = (REPOSITORY / "examples/own_trees.py").read_text(encoding="utf-8")
    assert "def main(records: int = 2000, epochs: int = 30)" in text
    assert '"error"' in text
    compile(wheels.PROGRAM, "program", "exec")
