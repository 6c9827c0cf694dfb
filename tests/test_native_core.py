"""The C++ that needs no TensorFlow: its gtest suites, plain and under three sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gtest import NoToolchain, Toolchain, find_toolchain, run

REPOSITORY = Path(__file__).parents[1]
CORE = REPOSITORY / "cc" / "core"
MODES = {
    "plain": ["-O2"],
    "thread": ["-O0", "-g", "-fsanitize=thread"],
    "address": ["-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}
# What one thread runs is left out where ThreadSanitizer, which makes it slow, has nothing to see.
FILTERS = {
    "thread": "-Schedule.*:Machine.*:Structure.*:DecodePlan.*:VerifyPlan.*:Expression*.*:RowKernels*.*:RowProgram*.*"
}
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    """The compiler with gtest; the tests are skipped without either."""
    try:
        return find_toolchain(tmp_path_factory.mktemp("gtest"), REPOSITORY)
    except NoToolchain as why:
        pytest.skip(str(why))


def core_sources() -> list[Path]:
    """Everything in cc/core, the code and its tests."""
    return sorted(CORE.glob("*.cc"))


def test_the_core_does_not_include_tensorflow() -> None:
    """Only then can it be tested without a TensorFlow that was built with the sanitizer."""
    files = [*CORE.glob("*.h"), *CORE.glob("*.cc")]
    including = [path.name for path in files if "tensorflow/" in path.read_text(encoding="utf-8")]
    assert including == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", [pytest.param("plain", marks=pytest.mark.long), "thread", "address"])
def test_the_core_passes_its_gtest_suites(mode: str, toolchain: Toolchain, tmp_path: Path) -> None:
    """A wrong count, a data race, a use after free or undefined behaviour in cc/core."""
    program = tmp_path / f"core_{mode}"
    toolchain.build(program, core_sources(), [*MODES[mode], *WARNINGS])
    result = run(
        [str(program), "--gtest_brief=1", f"--gtest_filter={FILTERS.get(mode, '*')}"],
        REPOSITORY,
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
    result = run([str(program)], REPOSITORY)
    assert result.returncode != 0
    assert report in result.stderr
