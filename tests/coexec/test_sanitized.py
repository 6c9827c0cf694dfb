"""The device under ThreadSanitizer and AddressSanitizer: with `RECGRAPH_TEST_SANITIZERS=1`, as it takes some minutes.

TensorFlow itself is not compiled with them, so its threads are told apart by `cc/core/stretch.h`.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

REPOSITORY: Final = Path(__file__).parents[2]
# Where TensorFlow copies and destroys a closure of ours, makes and destroys a kernel, and lets go of a tensor: how it
# counts who uses them cannot be seen.
SUPPRESSED: Final = (
    "race:_Base_manager<recgraph::Channels",
    "race_top:_M_get_pointer",
    "race:tensorflow::CreateOpKernel",
    "race:tensorflow::AsyncOpKernel::~AsyncOpKernel",
    "race:tensorflow::TensorBuffer::~TensorBuffer",
)


class Sanitizer(NamedTuple):
    """How the device is compiled with one, and run.

    Attributes:
        flags: of the compiler. TensorFlow's headers would describe other classes than its libraries have if they knew.
        libraries: which have to be there before Python is.
        variable: of the environment, for the options.
        options: how it reports.
    """

    flags: str
    libraries: tuple[str, ...]
    variable: str
    options: str


SANITIZERS: Final = {
    "thread": Sanitizer(
        "-DRECGRAPH_THREAD_SANITIZER -U__SANITIZE_THREAD__",
        ("libtsan.so",),
        "TSAN_OPTIONS",
        "ignore_noninstrumented_modules=1 exitcode=0",
    ),
    "address": Sanitizer(
        "-fno-omit-frame-pointer -U__SANITIZE_ADDRESS__",
        ("libasan.so", "libstdc++.so"),  # the second has what the first looks for: how exceptions are thrown
        "ASAN_OPTIONS",
        "detect_leaks=0",  # what Python and TensorFlow still have at the end is not lost
    ),
}
LIBRARY: Final = "build/native/_coexec.so"
BUILD: Final = f"""
import runpy, subprocess, sys
sys.argv = ["setup.py", "--version"]
setup = runpy.run_path("setup.py")
setup["write_ninja"](setup["installed_tensorflow"](), setup["sources_of"]("core", "ops", "kernels"))
subprocess.run([sys.executable, "-m", "ninja", "-f", "build/native/build.ninja", {LIBRARY!r}], check=True)
"""
TESTS: Final = (
    "test_threads.py",
    "test_bystanders.py",
    "test_execution.py",
    "test_steps.py",
    "test_run_ahead_errors.py",
    "test_mid_step.py",
)


def run(command: list[str], folder: Path, **environment: str) -> str:
    """What a program prints, which has to end well, in a copy of the repository."""
    variables = {**os.environ, "PYTHONPATH": str(folder), **environment}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def found(library: str) -> str:
    """Where the compiler has a library."""
    command = [os.environ.get("CXX", "g++"), f"-print-file-name={library}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if os.environ.get("RECGRAPH_TEST_SANITIZERS"):

    @pytest.mark.slow
    @pytest.mark.parametrize("name", SANITIZERS)
    def test_steps_under_a_sanitizer(name: str, tmp_path: Path) -> None:
        """Nothing is reported, and the tests pass."""
        faulthandler.cancel_dump_traceback_later()
        copy = tmp_path / "recgraph"
        shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(".*", "build", "demo", "__pycache__"))
        sanitizer, flag = SANITIZERS[name], f"-fsanitize={name}"
        flags = f"-O1 -g {flag} {sanitizer.flags}"
        run([sys.executable, "-c", BUILD], copy, CXXFLAGS=flags, LDFLAGS=flag, RECGRAPH_WERROR="0")
        shutil.copy(copy / LIBRARY, copy / "recgraph/native")
        suppressed, reports = tmp_path / "suppressed", tmp_path / "report"
        suppressed.write_text("\n".join(SUPPRESSED), encoding="utf-8")
        options = f"{sanitizer.options} log_path={reports}"
        options += f" suppressions={suppressed}" if name == "thread" else ""
        tests = [f"tests/coexec/{name}" for name in TESTS]
        command = ["setarch", "-R", sys.executable, "-m", "pytest", "-q", "-o", "faulthandler_timeout=0", *tests]
        preloaded = " ".join(map(found, sanitizer.libraries))
        assert "passed" in run(command, copy, LD_PRELOAD=preloaded, **{sanitizer.variable: options})
        assert [path.read_text(encoding="utf-8") for path in tmp_path.glob("report.*")] == []
