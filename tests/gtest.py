"""How programs of the gtest suites in cc/core are compiled and run."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

GOOGLETEST = Path("/usr/src/googletest/googletest")  # Debian's sources of libgtest-dev


class NoToolchain(Exception):
    """There is no compiler or no gtest here."""


class DoesNotCompile(Exception):
    """What the compiler said."""


@dataclass(frozen=True)
class Toolchain:
    """How a gtest program is compiled here.

    Attributes:
        compiler: its command.
        gtest: sources or libraries, and their flags.
        root: what the paths of includes are relative to.
    """

    compiler: str
    gtest: tuple[str, ...]
    root: Path

    def build(self, target: Path, sources: list[Path], flags: list[str]) -> None:
        """Compiles and links `sources` into `target`."""
        self.compile(target, sources, flags)
        self.link(target, sources, flags)

    def compile(self, target: Path, sources: list[Path], flags: list[str]) -> None:
        """Makes the objects of `sources` beside `target`."""
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            done = pool.map(
                lambda s: self._run(target, flags, "-c", str(s), "-o", str(_object(target, s))),
                sources,
            )
            list(done)

    def link(self, target: Path, sources: list[Path], flags: list[str]) -> None:
        """Makes the program of the objects of `sources`."""
        objects = [str(_object(target, source)) for source in sources]
        self._run(target, flags, *objects, *self.gtest, "-pthread", "-o", str(target))

    def _run(self, target: Path, flags: list[str], *arguments: str) -> None:
        result = run([self.compiler, "-std=c++17", *flags, f"-I{self.root}", *arguments], self.root)
        if result.returncode != 0:
            raise DoesNotCompile(f"{target.name} does not compile:\n{result.stderr}")


def _object(target: Path, source: Path) -> Path:
    return target.with_name(f"{target.name}.{source.stem}.o")


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, with its output as text."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=280,
        cwd=folder,
        env={**os.environ, **environment},
        check=False,
    )


def find_toolchain(folder: Path, root: Path) -> Toolchain:
    """The compiler with gtest from its library or its sources, tried out in `folder`.

    Raises:
        NoToolchain: there is none.
    """
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise NoToolchain(f"no C++ compiler: {compiler} is not on PATH")
    probe = folder / "probe.cc"
    probe.write_text("#include <gtest/gtest.h>\nTEST(Probe, Runs) {}\n", encoding="utf-8")
    from_library = ("-lgtest_main", "-lgtest")
    compiled = run([compiler, "-std=c++17", str(probe), *from_library, "-pthread", "-o", f"{probe}.out"], root)
    if compiled.returncode == 0:
        return Toolchain(compiler, from_library, root)
    if GOOGLETEST.is_dir():
        sources = [str(GOOGLETEST / "src" / name) for name in ("gtest-all.cc", "gtest_main.cc")]
        include = [f"-isystem{GOOGLETEST / 'include'}", f"-I{GOOGLETEST}"]
        return Toolchain(compiler, (*include, *sources), root)
    raise NoToolchain("gtest is not installed (Debian: apt-get install libgtest-dev)")
