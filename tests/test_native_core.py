"""The C++ that needs no TensorFlow: its gtest suites, plain and under three sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
CORE = REPOSITORY / "cc" / "core"
GOOGLETEST = Path("/usr/src/googletest/googletest")  # Debian's sources of libgtest-dev
MODES = {
    "plain": ["-O2"],
    "thread": ["-O0", "-g", "-fsanitize=thread"],  # not optimised: compiling takes longer than running
    "address": ["-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


@dataclass(frozen=True)
class Toolchain:
    """How a gtest program is compiled here."""

    compiler: str
    gtest: tuple[str, ...]  # sources or libraries, and their flags

    def build(self, target: Path, sources: list[Path], flags: list[str]) -> None:
        """Compiles and links `sources` into `target`, or fails with what the compiler said."""
        command = [self.compiler, "-std=c++17", *flags, f"-I{REPOSITORY}"]
        objects = [target.with_name(f"{target.name}.{source.stem}.o") for source in sources]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            results = list(
                pool.map(lambda source, made: run([*command, "-c", str(source), "-o", str(made)]), sources, objects)
            )
        results.append(run([*command, *map(str, objects), *self.gtest, "-pthread", "-o", str(target)]))
        for result in results:
            if result.returncode != 0:
                pytest.fail(f"{target.name} does not compile:\n{result.stderr}", pytrace=False)


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, with its output as text."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=280,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    """The compiler with gtest from its library or its sources; the tests are skipped without either."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        pytest.skip(f"no C++ compiler: {compiler} is not on PATH")
    probe = tmp_path_factory.mktemp("gtest") / "probe.cc"
    probe.write_text("#include <gtest/gtest.h>\nTEST(Probe, Runs) {}\n", encoding="utf-8")
    from_library = ("-lgtest_main", "-lgtest")
    compiled = run([compiler, "-std=c++17", str(probe), *from_library, "-pthread", "-o", f"{probe}.out"])
    if compiled.returncode == 0:
        return Toolchain(compiler, from_library)
    if GOOGLETEST.is_dir():
        sources = [str(GOOGLETEST / "src" / name) for name in ("gtest-all.cc", "gtest_main.cc")]
        include = [f"-isystem{GOOGLETEST / 'include'}", f"-I{GOOGLETEST}"]
        return Toolchain(compiler, (*include, *sources))
    pytest.skip("gtest is not installed (Debian: apt-get install libgtest-dev)")


def core_sources() -> list[Path]:
    """Everything in cc/core, the code and its tests."""
    return sorted(CORE.glob("*.cc"))


def test_the_core_does_not_include_tensorflow() -> None:
    """Only then can it be tested without a TensorFlow that was built with the sanitizer."""
    files = [*CORE.glob("*.h"), *CORE.glob("*.cc")]
    including = [path.name for path in files if "tensorflow/" in path.read_text(encoding="utf-8")]
    assert including == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_core_passes_its_gtest_suites(mode: str, toolchain: Toolchain, tmp_path: Path) -> None:
    """A wrong count, a data race, a use after free or undefined behaviour in cc/core."""
    program = tmp_path / f"core_{mode}"
    toolchain.build(program, core_sources(), [*MODES[mode], *WARNINGS])
    result = run(
        [str(program), "--gtest_brief=1"],
        TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1",
        ASAN_OPTIONS="detect_leaks=1",
        UBSAN_OPTIONS="print_stacktrace=1",
    )
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "body", "report"),
    [
        (
            "thread",
            "int n = 0; auto add = [&n] { for (int i = 0; i < 10000; ++i) ++n; };"
            " std::thread a(add), b(add); a.join(); b.join();",
            "data race",
        ),
        ("address", "int* p = new int(1); delete p; EXPECT_EQ(*p, 1);", "heap-use-after-free"),
        ("address", "int n = 2147483647; volatile int m = n + 1; (void)m;", "signed integer overflow"),
    ],
)
def test_a_sanitizer_catches_a_planted_bug(
    mode: str, body: str, report: str, toolchain: Toolchain, tmp_path: Path
) -> None:
    """Otherwise silence from a sanitizer would prove nothing."""
    source = tmp_path / "planted_test.cc"
    source.write_text(
        f"#include <gtest/gtest.h>\n#include <thread>\nTEST(Planted, Bug) {{ {body} }}\n",
        encoding="utf-8",
    )
    program = tmp_path / "planted"
    toolchain.build(program, [source], [flag for flag in MODES[mode] if flag != "-O1"])
    result = run([str(program)])
    assert result.returncode != 0
    assert report in result.stderr
