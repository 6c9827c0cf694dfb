"""`BUILD` compiles the same sources with the same flags as `setup.py`."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]
TENSORFLOW_COPTS = ["-D_GLIBCXX_USE_CXX11_ABI=1", "--std=c++17"]
LIBRARIES = ["_coexec.so", "_frames.so", "_librecgraph.so", "_objects.so", "_ports.so", "_snapshots.so"]


@dataclass
class Library:
    """What one shared library is made of."""

    sources: dict[str, frozenset[str]] = field(default_factory=dict)  # source -> flags that it is compiled with
    link: frozenset[str] = frozenset()


class Bazel:
    """Just enough of Bazel to read our `BUILD`, whose syntax is also Python's."""

    def __init__(self) -> None:
        self.rules: dict[str, dict[str, Any]] = {}

    def rule(self, **attributes: Any) -> None:
        """Notes a target."""
        self.rules[attributes["name"]] = attributes

    @staticmethod
    def glob(patterns: list[str], exclude: tuple[str, ...] = ()) -> list[str]:
        """The files of the repository that match."""
        found = {str(path.relative_to(REPOSITORY)) for pattern in patterns for path in REPOSITORY.glob(pattern)}
        left_out = {str(path.relative_to(REPOSITORY)) for pattern in exclude for path in REPOSITORY.glob(pattern)}
        return sorted(found - left_out)

    def read(self, text: str) -> None:
        """Executes a BUILD file."""
        rules = dict.fromkeys(("cc_binary", "cc_library", "cc_test"), self.rule)
        names = {"glob": self.glob, "load": lambda *_: None, "TENSORFLOW_COPTS": TENSORFLOW_COPTS, **rules}
        exec(compile(text, "BUILD", "exec"), names)

    def library(self, name: str) -> Library:
        """A target with the targets of ours that it is linked with."""
        found = Library(link=frozenset(self.rules[name].get("linkopts", ())))
        waiting = [name]
        while waiting:
            rule = self.rules[waiting.pop()]
            flags = frozenset(rule.get("copts", ()))
            found.sources |= dict.fromkeys(rule.get("srcs", ()), flags)
            waiting += [label[1:] for label in rule.get("deps", ()) if label.startswith(":")]
        return found


def from_bazel() -> dict[str, Library]:
    """The libraries of `BUILD`."""
    bazel = Bazel()
    bazel.read((REPOSITORY / "BUILD").read_text(encoding="utf-8"))
    return {name: bazel.library(name) for name in bazel.rules if name.endswith(".so")}


@pytest.fixture
def ninja(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The build file that `setup.py` writes."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.delenv("RECGRAPH_WERROR", raising=False)
    monkeypatch.delenv("CXXFLAGS", raising=False)
    monkeypatch.delenv("LDFLAGS", raising=False)
    setup = _setup_py(monkeypatch)
    monkeypatch.setattr(setup, "OBJECTS", tmp_path)
    monkeypatch.setattr(setup, "SUFFIX", ".cpython-311-x86_64-linux-gnu.so")
    monkeypatch.setattr(setup, "python_headers", lambda: Path("/python"))
    tensorflow = setup.TensorFlow("2.21.0", (*TENSORFLOW_COPTS, "-DNDEBUG"), Path("/tensorflow"))
    return re.sub(r" *\$\n *", " ", setup.NinjaFile(tensorflow).path.read_text(encoding="utf-8"))


def test_libraries_for_older_systems_have_what_those_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A wheel that one file was compiled for this system in would not load on the older ones."""
    monkeypatch.setenv("RECGRAPH_PORTABLE", "1")
    libraries = from_ninja(request.getfixturevalue("ninja"))
    assert sorted(libraries) == LIBRARIES
    for name, library in libraries.items():
        assert "cc/portable/portable.cc" in library.sources, name
        assert all("cc/portable/portable.h" in flags for flags in library.sources.values()), name


def _setup_py(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    spec = importlib.util.spec_from_file_location("setup_py", REPOSITORY / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "setup_py", module)
    spec.loader.exec_module(module)
    return module


def from_ninja(text: str) -> dict[str, Library]:
    """The libraries of a build file of ninja."""
    variables = dict(re.findall(r"^(\w+) = (.*)$", text, re.MULTILINE))
    commands = dict(re.findall(r"^rule (\w+)\n  command = (.*)$", text, re.MULTILINE))

    def flags_of(rule: str, about: str) -> frozenset[str]:
        used = re.findall(r"\$(\w*flags|link\w*)", commands[rule])
        return frozenset(
            flag for name in used if ("flags" in name) == (about == "compile") for flag in _flags(variables[name])
        )

    made: dict[str, Library] = {}
    compiled: dict[str, dict[str, frozenset[str]]] = {}
    for target, rule, inputs in re.findall(r"^build (\S+): (\w+) ([^|\n]*)", text, re.MULTILINE):
        names = inputs.split()
        if target.endswith(".o"):
            compiled[target] = dict.fromkeys(names, flags_of(rule, "compile"))
        if not target.endswith(".so"):
            continue
        sources: dict[str, frozenset[str]] = {}
        for name in names:
            sources |= compiled.get(name) or {name: flags_of(rule, "compile")}
        made[f"{Path(target).name.split('.')[0]}.so"] = Library(sources, flags_of(rule, "link"))
    return made


def _flags(text: str) -> Iterator[str]:
    """Without where headers are, and what Bazel itself adds for a shared library."""
    text = re.sub(r"-isystem \S+", "", text)
    yield from (flag for flag in text.split() if flag not in {"-I.", "-fPIC"} and not flag.startswith(("-L", "-l")))


def as_in_ninja(link: frozenset[str]) -> frozenset[str]:
    """Flags for the linker, with files where Bazel has labels."""
    return frozenset(re.sub(r"\$\(location (.*)\)", r"\1", flag) for flag in link)


def test_the_same_libraries_from_the_same_sources_with_the_same_flags(ninja: str) -> None:
    """Nodes of TensorFlow's graphs have other members without -DNDEBUG, for instance."""
    expected, found = from_ninja(ninja), from_bazel()
    assert sorted(expected) == sorted(found) == LIBRARIES
    for name in LIBRARIES:
        assert found[name].sources == expected[name].sources, name
        assert as_in_ninja(found[name].link) == expected[name].link, name


def test_every_header_that_a_library_may_include_is_declared() -> None:
    """Bazel compiles in a sandbox that has nothing else."""
    bazel = Bazel()
    bazel.read((REPOSITORY / "BUILD").read_text(encoding="utf-8"))
    declared = {header for rule in bazel.rules.values() for header in rule.get("hdrs", ())}
    assert declared == {str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "cc").rglob("*.h")}


def test_the_same_tensorflow_is_asked_for() -> None:
    """By setup.py, the metadata and the repository rule, which takes the newest."""
    text = (REPOSITORY / "setup.py").read_text(encoding="utf-8")
    (minors,) = re.findall(r"^TENSORFLOWS = \((.*)\)", text, re.MULTILINE)
    oldest, *_, newest = re.findall(r'"([0-9.]+)"', minors)
    assert f'_MINOR = "{newest}."' in (REPOSITORY / "tensorflow.bzl").read_text(encoding="utf-8")
    major, minor = newest.split(".")
    wanted = f"tensorflow>={oldest},<{major}.{int(minor) + 1}"
    assert f'TENSORFLOW_RANGE = "{wanted}"' in text
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert wanted in project["build-system"]["requires"]


@pytest.mark.parametrize(
    ("old", "new"),
    [('["-DNDEBUG"]', "[]"), ('"frames",', ""), ('"cc/ops/*.cc",', ""), ('        "-Wl,-z,defs",\n', "")],
)
def test_a_difference_is_seen(ninja: str, old: str, new: str) -> None:
    """A comparison that agrees with anything would be none."""
    text = (REPOSITORY / "BUILD").read_text(encoding="utf-8")
    assert old in text
    bazel = Bazel()
    bazel.read(text.replace(old, new))
    found = {name: bazel.library(name) for name in bazel.rules if name.endswith(".so")}
    expected = from_ninja(ninja)
    seen = {name: (library.sources, as_in_ninja(library.link)) for name, library in found.items()}
    assert seen != {name: (library.sources, library.link) for name, library in expected.items()}
