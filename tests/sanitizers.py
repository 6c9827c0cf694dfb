"""How a library of ours is compiled with a sanitizer and used; TensorFlow itself is not compiled with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[1]
# Where TensorFlow copies and destroys a closure of ours, makes and destroys a kernel, lets go of a tensor, also of one
# that holds a frame, and reads a frame that zeros are made of: how it counts who uses them cannot be seen.
SUPPRESSED: Final = (
    "race:_Base_manager<recgraph::Channels",
    "race_top:_M_get_pointer",
    "race:tensorflow::CreateOpKernel",
    "race:tensorflow::AsyncOpKernel::~AsyncOpKernel",
    "race:recgraph::CallOp::~CallOp",
    "race:tensorflow::TensorBuffer::~TensorBuffer",
    "race:DeallocateRaw",
    "race:RunVariantDtor",
    "race:UnaryVariantUnaryOpRegistration<recgraph::FrameValue>",
)


class Sanitizer(NamedTuple):
    """How a library is compiled with one, and run.

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
        "-DRECGRAPH_THREAD_SANITIZER -U__SANITIZE_THREAD__ -DRECGRAPH_NO_POOL",
        ("libtsan.so",),
        "TSAN_OPTIONS",
        "ignore_noninstrumented_modules=1 exitcode=0",
    ),
    "address": Sanitizer(
        "-fno-omit-frame-pointer -U__SANITIZE_ADDRESS__ -DRECGRAPH_NO_POOL",
        ("libasan.so", "libstdc++.so"),  # the second has what the first looks for: how exceptions are thrown
        "ASAN_OPTIONS",
        "detect_leaks=0",  # what Python and TensorFlow still have at the end is not lost
    ),
}
BUILD: Final = """
import runpy, shutil, subprocess, sys
library = sys.argv[1]
sys.argv = ["setup.py", "--version"]
setup = runpy.run_path("setup.py")
file = setup["NinjaFile"](setup["installed_tensorflow"]())
(target,) = [path for path in file.targets() if path.name.split(".")[0] == library]
subprocess.run([sys.executable, "-m", "ninja", "-f", str(file.path), str(target)], check=True)
shutil.copy(target, setup["NATIVE"] / target.relative_to(setup["OBJECTS"]))
"""
DEVICE, OPERATIONS = "_coexec", "_librecgraph"


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


def sanitized(name: str, library: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """A copy of the repository in `folder` whose `library` is compiled so, and the environment to run it in.

    Reports are files `report.*` in `folder`.
    """
    copy = folder / "recgraph"
    shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(".*", "build", "demo", "__pycache__"))
    sanitizer, flag = SANITIZERS[name], f"-fsanitize={name}"
    flags = f"-O1 -g {flag} {sanitizer.flags}"
    run([sys.executable, "-c", BUILD, library], copy, CXXFLAGS=flags, LDFLAGS=flag, RECGRAPH_WERROR="0")
    options = f"{sanitizer.options} log_path={folder / 'report'}"
    if name == "thread":
        suppressed = folder / "suppressed"
        suppressed.write_text("\n".join(SUPPRESSED), encoding="utf-8")
        options += f" suppressions={suppressed}"
    preloaded = " ".join(map(found, sanitizer.libraries))
    return copy, {"LD_PRELOAD": preloaded, sanitizer.variable: options}
