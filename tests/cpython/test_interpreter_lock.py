"""What native modules do with Python's lock, shown by a module without TensorFlow, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.gtest import NoToolchain, find_toolchain

REPOSITORY = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("lock_module.cc")


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module is, compiled."""
    folder = tmp_path_factory.mktemp("lock")
    try:
        toolchain = find_toolchain(folder, REPOSITORY)
    except NoToolchain as why:
        pytest.skip(str(why))
    target = folder / f"lock_module{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    included = [f"-I{REPOSITORY}", "-isystem", sysconfig.get_path("include")]
    command = [toolchain.compiler, *flags, *included, str(SOURCE), "-o", str(target), "-pthread"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    return folder


def run(folder: Path, program: str) -> list[str]:
    """The lines that a program prints, which has to end well."""
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=variables, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


WHO_HAS = """
import threading
import lock_module
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

def everywhere():
    found = [lock_module.who_has()]
    thread = threading.Thread(target=lambda: found.append(lock_module.who_has()))
    thread.start()
    thread.join()
    return found

print(everywhere())
interpreters.destroy(interpreters.create())
print(everywhere())
"""


def test_who_has_the_lock_after_a_sub_interpreter(folder: Path) -> None:
    """CPython's own question is answered "this thread" by then, whoever asks."""
    assert run(folder, WHO_HAS) == ["[(1, 0, 0), (1, 0, 0)]"] * 2


AT_THE_END = """
import os, threading, time
import lock_module

class Last:
    def __init__(self, write=os.write, sleep=time.sleep):
        self.write, self.sleep = write, sleep

    def __del__(self):
        for _ in range(60):
            self.sleep(0.01)
        self.write(1, b"the end\\n")

threading.Thread(target=lock_module.sleep, args=(300,), daemon=True).start()
lock_module.sleep_elsewhere(300)
time.sleep(0.05)
last = Last()
"""


def test_threads_that_ask_for_the_lock_when_python_has_ended(folder: Path) -> None:
    """They stay where they are; that they were ended, with destructors under way, ended the process."""
    assert run(folder, AT_THE_END) == ["the end"]


EXCEPTIONS = """
import lock_module
for kind in (None, 0):
    try:
        lock_module.throw(kind)
    except (MemoryError, RuntimeError) as error:
        print(type(error).__name__, error)
"""


def test_exceptions_become_those_of_python(folder: Path) -> None:
    """Also where they are thrown without the lock, which is there again when Python goes on."""
    assert run(folder, EXCEPTIONS) == [
        "MemoryError ",
        "RuntimeError recgraph failed inside of its native code: of a vector",
    ]
