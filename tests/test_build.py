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


@pytest.fixture(params=[False, True], ids=["for changes", "once"])
def ninja(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The build file that `setup.py` writes for an editable install, and for others."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.delenv("RECGRAPH_WERROR", raising=False)
    monkeypatch.delenv("CXXFLAGS", raising=False)
    monkeypatch.delenv("LDFLAGS", raising=False)
    setup = _setup_py(monkeypatch)
    monkeypatch.setattr(setup, "OBJECTS", tmp_path)
    monkeypatch.setattr(setup, "SUFFIX", ".cpython-311-x86_64-linux-gnu.so")
    monkeypatch.setattr(setup, "python_headers", lambda: Path("/python"))
    tensorflow = setup.TensorFlow("2.21.0", (*TENSORFLOW_COPTS, "-DNDEBUG"), Path("/tensorflow"))
    path = setup.NinjaFile(tensorflow, is_once=request.param).path
    return re.sub(r" *\$\n *", " ", path.read_text(encoding="utf-8"))


def units_of(text: str) -> list[int]:
    """How many files each compiler gets, where it gets several."""
    return [len(files.split()) for files in re.findall(r"^build \S+\.unit\.o: \w+ ([^|\n]*)", text, re.MULTILINE)]


@pytest.mark.parametrize("ninja", [True], indirect=True)
def test_what_is_compiled_once_is_compiled_in_large_units(ninja: str) -> None:
    """TensorFlow's headers are read once for each, and nothing is parsed beforehand."""
    assert ".gch" not in ninja
    assert "-include cc/" not in ninja
    assert min(units_of(ninja)) > 5
    alone = re.findall(r"^build \S+: compile (\S+)$", ninja, re.MULTILINE)
    assert alone == [f"cc/core/row_kernels{processor}.cc" for processor in ("", "_avx2", "_avx512")]


@pytest.mark.parametrize("ninja", [False], indirect=True)
def test_what_is_compiled_for_changes_is_compiled_in_small_units(ninja: str) -> None:
    """A change costs a few files, and no header of TensorFlow's."""
    assert ninja.count(".gch: ") == 2
    assert max(units_of(ninja)) == 5


def test_sources_are_shared_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in one unit, and no unit takes much longer than another."""
    monkeypatch.chdir(REPOSITORY)
    setup = _setup_py(monkeypatch)
    sources = setup.sources_of("ops", "kernels")
    units = setup.shared_out(sources, 3)
    assert sorted(source for unit in units for source in unit) == sources
    sizes = [sum(Path(source).stat().st_size for source in unit) for unit in units]
    assert max(sizes) < 1.2 * min(sizes)


def test_object_files_go_away_unless_there_is_a_place_for_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of an install that is compiled once; for changes they are what makes the next one fast."""
    monkeypatch.delenv("RECGRAPH_OBJECTS", raising=False)
    monkeypatch.chdir(REPOSITORY)
    setup = _setup_py(monkeypatch)
    monkeypatch.setattr(setup, "OBJECTS", tmp_path / "build/native")
    with setup.BuildLibraries._objects(is_once=True) as folder:
        assert folder.is_dir()
        assert folder.parent == tmp_path / "build"
    assert not folder.exists()
    with setup.BuildLibraries._objects(is_once=False) as folder:
        assert folder == tmp_path / "build/native"
    monkeypatch.setenv("RECGRAPH_OBJECTS", str(tmp_path))
    with setup.BuildLibraries._objects(is_once=True) as folder:
        assert folder == tmp_path / "build/native"


def test_the_build_says_at_the_start_what_it_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the terminal, which pip shows nothing of a build on."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("RECGRAPH_JOBS", "1")
    monkeypatch.setenv("RECGRAPH_PROGRESS", str(tmp_path / "told"))
    setup = _setup_py(monkeypatch)
    with setup.progress() as told:
        setup.announce(setup.TensorFlow("2.21.0", (), Path("/tensorflow")), True, told)
    seconds = setup.SECONDS[True]
    assert (tmp_path / "told").read_text(encoding="utf-8") == (
        f"compiling recgraph's libraries for TensorFlow 2.21.0: about {seconds} seconds of processor time "
        f"({seconds / 60:.0f} minutes with 1 at once), 1.8 GB of memory for each compiler\n"
    )


@pytest.fixture
def portable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As wheels are built."""
    monkeypatch.setenv("RECGRAPH_PORTABLE", "1")


def test_libraries_for_older_systems_have_what_those_lack(portable: None, ninja: str) -> None:
    """A wheel that one file was compiled for this system in would not load on the older ones."""
    libraries = from_ninja(ninja)
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


def formats_of_python(text: str) -> list[str]:
    """The formats in C++ by which Python's functions make values of ours, or ours of Python's."""
    return re.findall(r'Py(?:_BuildValue|Arg_\w+|Err_Format)\([^"]*"([^"]*)"', text)


def test_no_format_depends_on_a_macro() -> None:
    """Lengths as `y#` need PY_SSIZE_T_CLEAN before the first Python.h of a unit, and a unit has several files.

    Those of `cc/interpreter` are compiled one by one, and define it.
    """
    texts = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "cc/python").glob("*.cc")]
    found = [each for text in texts for each in formats_of_python(text)]
    assert len(found) > 5
    assert [each for each in found if "#" in each] == []
    assert formats_of_python('return Py_BuildValue("(sy#N)", 1);') == ["(sy#N)"]


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


@pytest.mark.parametrize("name", ["", "no folder/told"])
def test_a_place_that_cannot_be_written_does_not_end_the_build(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is to say is in pip's own log then."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("RECGRAPH_PROGRESS", name)
    with _setup_py(monkeypatch).progress() as told:
        assert told is sys.stdout


@pytest.mark.parametrize("ninja", [True], indirect=True)
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
