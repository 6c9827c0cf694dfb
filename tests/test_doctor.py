"""`recgraph doctor` and `--version`: what they say of an installation that is right, and of ones that are not."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from click.testing import CliRunner

import recgraph_doctor as doctor
from recgraph_command import main

REPOSITORY = Path(__file__).parents[1]


def test_an_installation_that_is_right() -> None:
    done = CliRunner().invoke(main, ["doctor", "--json"])
    findings = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    assert done.exit_code == 0, done.output
    assert [finding["what"] for finding in findings] == list(doctor.CHECKS)
    assert all(finding["is_good"] for finding in findings)
    assert tf.__version__ in done.output


def test_it_shows_no_information_of_tensorflow() -> None:
    """What it writes while it is imported is left out, as by `import recgraph`; errors are shown."""
    command = [sys.executable, "-m", "recgraph_command", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "TensorFlow   ok" in done.stdout
    assert [line for line in done.stderr.splitlines() if line.startswith(("I0", "WARNING: All log"))] == []


def test_the_version_names_everything() -> None:
    output = CliRunner().invoke(main, ["--version"]).output
    for part in (importlib.metadata.version("recgraph"), platform.python_version(), tf.__version__, "keras", "numpy"):
        assert part in output


def test_what_is_wrong_is_told_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is looked at all the same."""
    monkeypatch.setattr(doctor, "version_of", lambda name: "2.21.0" if name in doctor.TENSORFLOWS[:3] else None)
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 1
    assert "TensorFlow   WRONG RuntimeError: several TensorFlows overwrite each other's files" in done.output
    assert "recursion    ok" in done.output
    monkeypatch.setattr(doctor, "version_of", lambda name: None)
    assert "no TensorFlow" in doctor.versions()


@pytest.mark.parametrize(("wanted", "is_good"), [(">=3.11,<3.12", False), (">=3.13", True), (">=3.14", False)])
def test_another_python(monkeypatch: pytest.MonkeyPatch, wanted: str, is_good: bool) -> None:
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: {"Requires-Python": wanted})
    monkeypatch.setattr(doctor.sys, "version_info", (3, 13, 1, "final", 0))
    finding = next(doctor.examine())
    assert finding.is_good == is_good
    assert is_good or f"recgraph needs Python {wanted}" in finding.found


def test_libraries_that_are_broken_or_wrong(tmp_path: Path) -> None:
    """A copy without its libraries: the package cannot even be imported, and the command says why."""
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(REPOSITORY / "recgraph", copy / "recgraph", ignore=ignored)
    for name in ("recgraph_command.py", "recgraph_doctor.py", "recgraph_launch.py"):
        shutil.copy(REPOSITORY / name, copy)
    for name in ("models", "data", "benchmarks"):
        (copy / "recgraph" / name).symlink_to(REPOSITORY / name)
    program = f"import sys; sys.path.insert(0, {str(copy)!r}); from recgraph_command import main; main(['doctor'])"
    done: Any = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "TensorFlow   ok" in done.stdout
    assert "op library   WRONG NativeLibraryError" in done.stdout
    assert "Traceback" not in done.stderr
