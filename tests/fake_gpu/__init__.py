"""A GPU for tests on machines without one: TensorFlow's placement and copies, memory of its own, the CPU's kernels.

`python -m pytest -p tests.fake_gpu.plugin ...` runs tests beside it; see `device.cc` for what it shows and what not.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Final

import tensorflow as tf

SOURCE: Final = Path(__file__).with_name("device.cc")
LIBRARIES: Final = Path(__file__).parents[2] / "build" / "fake_gpu"
FLAGS: Final = ("-std=c++20", "-w", "-O1", "-fPIC", "-shared", "-DNDEBUG")


def compiler() -> str:
    """The command of the C++ compiler."""
    return os.environ.get("CXX", "g++")


def library() -> Path:
    """The device as a library, compiled for this TensorFlow if it is not there yet; half a minute."""
    made = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    path = LIBRARIES / f"{tf.__version__}-{made}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}")
        given = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("--std")]
        linked = [*tf.sysconfig.get_link_flags(), "-l:libtensorflow_cc.so.2"]
        command = [compiler(), *FLAGS, *given, str(SOURCE), "-o", str(beside), *linked]
        subprocess.run(command, check=True, capture_output=True, text=True)
        beside.replace(path)
    return path


def load() -> None:
    """Adds the device to this process, which must not have looked at its devices yet."""
    tf.load_library(str(library()))
    assert tf.config.list_logical_devices("GPU"), "TensorFlow has looked at its devices before"
