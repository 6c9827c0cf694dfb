"""The shape of the source tree: which room may import which."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]

# A room is a folder or a module of the package `recgraph`; `recgraph` alone is its __init__.
# Each may import itself and what is listed. A room that is missing here fails the test: add it.
FOUNDATION = {
    "racing",
    "cpython",
    "defects",
    "devices",
    "errors",
    "files",
    "logs",
    "explaining",
    "sharing",
    "tf_private",
}
CORE = {*FOUNDATION, "native", "ops", "core"}
FEATURES = {"batch", "levels", "speculate", "coexec"}
PUBLIC = {*CORE, *FEATURES, "auto", "distribute", "draw", "keras", "testing", "trees", "function", "recgraph"}
MAY_IMPORT: dict[str, set[str]] = {
    "racing": set(),
    "cpython": set(),
    "devices": set(),
    "errors": {"cpython"},
    "files": set(),
    "logs": set(),
    "defects": {"logs"},
    "sharing": {"errors"},
    "explaining": {"cpython"},
    "tf_private": {"cpython", "errors"},
    "native": FOUNDATION,
    "ops": {"errors", "tf_private"},
    "core": CORE,
    # The features never import one another.
    "batch": CORE,
    "levels": CORE | {"batch"},
    "speculate": CORE,
    "coexec": CORE,
    "draw": CORE | {"auto", "coexec", "function", "speculate"},
    "testing": CORE,
    "optimize": CORE,  # all but `bridge`: errors and files alone, see below
    "auto": CORE | FEATURES,
    "function": CORE | FEATURES | {"auto"},
    "keras": CORE | {"function"},
    "recgraph": PUBLIC | {"optimize"},
    "distribute": {"errors", "logs", "native", "sharing", "tf_private"},
    "trees": {"errors", "files"},
    "data": {"errors", "files"},
    "models": PUBLIC | {"data"},
    "train": PUBLIC | {"data", "models"},
    "serve": {"errors", "native"},
    "benchmarks": PUBLIC | {"data", "models", "optimize", "serve", "train"},
    "__main__": set(),
    "cli": PUBLIC | {"data", "models", "train", "benchmarks", "optimize", "serve"},
}

# The floors of a room, the lowest first: files import from their own floor and from those below.
FLOORS = {"speculate": ("observe", "script", "machine", "passes", "values", "evaluate", "library", "run")}


def python_files(*folders: str) -> Iterator[Path]:
    """The project's Python files, relative to the repository."""
    for folder in folders:
        yield from (path.relative_to(REPOSITORY) for path in sorted((REPOSITORY / folder).rglob("*.py")))


PACKAGE = list(python_files("recgraph", "models", "data", "benchmarks"))
EVERYTHING = [
    *PACKAGE,
    *python_files("tests", "examples", "tools"),
    *map(Path, ("recgraph_command.py", "recgraph_doctor.py", "recgraph_launch.py", "setup.py")),
]
NATIVE = sorted(p.relative_to(REPOSITORY) for p in (REPOSITORY / "cc").rglob("*") if p.suffix in {".cc", ".h"})


def parse(path: Path) -> ast.Module:
    """The syntax tree of a file of the repository."""
    return ast.parse((REPOSITORY / path).read_text(encoding="utf-8"), filename=str(path))


def module_name(path: Path) -> str:
    """The name under which an installed file is imported: `models/rntn.py` is `recgraph.models.rntn`."""
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == "recgraph" else ("recgraph", *parts)
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    """The room of a module of ours."""
    return (module.split(".") + ["recgraph"])[1]


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a file imports, at the top or inside a function."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import of ours; `from recgraph import SubGraph` is of the public names."""
    for line, name in imported_modules(path):
        if name.split(".")[0] != "recgraph":
            continue
        room = room_of(name)
        yield line, room if room in MAY_IMPORT else "recgraph"


def wrong_imports(path: Path) -> list[str]:
    """The imports of a file that run against the table."""
    room = room_of(module_name(path))
    allowed = MAY_IMPORT.get(room, set()) | {room}
    return [f"{path}:{line}: {room} imports {other}" for line, other in imported_rooms(path) if other not in allowed]


def test_the_table_has_the_rooms_that_there_are() -> None:
    """A new room has to say what it stands on; an entry for a room that is gone would check nothing."""
    assert {room_of(module_name(path)) for path in PACKAGE} == set(MAY_IMPORT)


def test_the_table_itself_has_no_cycle() -> None:
    """Otherwise the test below would allow imports both ways."""
    order: list[str] = []
    waiting = {room: allowed - {room} for room, allowed in MAY_IMPORT.items()}
    while ready := [room for room, allowed in waiting.items() if allowed <= set(order)]:
        order += ready
        waiting = {room: allowed for room, allowed in waiting.items() if room not in ready}
    assert waiting == {}


@pytest.mark.parametrize("path", PACKAGE, ids=str)
def test_imports_run_one_way(path: Path) -> None:
    """A room that imports what stands on it cannot be read, tested or loaded alone."""
    assert wrong_imports(path) == []


@pytest.mark.parametrize("path", [p for p in PACKAGE if p.is_relative_to("recgraph/optimize")], ids=str)
def test_what_is_proven_and_searched_needs_no_tensorflow(path: Path) -> None:
    """Substitutions are about terms; TensorFlow's graphs are the bridge's business."""
    if path.is_relative_to("recgraph/optimize/bridge"):
        return
    names = [name for _, name in imported_modules(path)]
    assert not [name for name in names if name.split(".")[0] == "tensorflow" or ".bridge" in name]
    assert {room for _, room in imported_rooms(path)} <= {"cpython", "errors", "files", "optimize"}


def wrong_floors(path: Path) -> list[str]:
    """The imports of a file from a floor above its own."""
    found = []
    room, *inner = module_name(path).split(".")[1:]
    floors = FLOORS.get(room, ())
    if inner and inner[0] in floors:
        for line, name in imported_modules(path):
            parts = name.split(".")
            is_above = parts[:2] == ["recgraph", room] and parts[2] in floors[floors.index(inner[0]) + 1 :]
            found += [f"{path}:{line}: {inner[0]} imports {parts[2]}"] if is_above else []
    return found


@pytest.mark.parametrize("path", [path for path in PACKAGE if room_of(module_name(path)) in FLOORS], ids=str)
def test_imports_go_down_the_floors(path: Path) -> None:
    """Who reads from the bottom meets nothing that was not there before."""
    assert wrong_floors(path) == []


def import_circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The modules that import one another, each circle sorted."""
    waiting = {module: {other for other in others if other in imports} - {module} for module, others in imports.items()}
    while free := {module for module, others in waiting.items() if not others}:
        waiting = {module: others - free for module, others in waiting.items() if module not in free}
    circles = []
    for module in sorted(waiting):
        reached, queue = set(), [module]
        while queue:
            new = waiting[queue.pop()] - reached
            reached |= new
            queue += new
        circle = sorted(other for other in reached if module in _reached(waiting, other))
        if circle and circle not in circles:
            circles.append(circle)
    return circles


def _reached(imports: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    queue = [start]
    while queue:
        new = imports[queue.pop()] - found
        found |= new
        queue += new
    return found


def test_no_modules_import_one_another() -> None:
    """One of a circle cannot be read, tested or changed without the others. Imports inside of functions count, too."""
    modules = {module_name(path): path for path in PACKAGE}
    imports = {}
    for module, path in modules.items():
        names = [name for _, name in imported_modules(path)]
        imports[module] = {name if name in modules else name.rpartition(".")[0] for name in names}
    assert import_circles(imports) == []


def class_names(path: Path) -> list[str]:
    """The classes that a file defines at its top."""
    return [node.name for node in parse(path).body if isinstance(node, ast.ClassDef)]


def test_no_two_classes_have_one_name() -> None:
    """One word for each concept: who reads a name in one room must not have to ask which one it is."""
    found: dict[str, list[str]] = {}
    for path in PACKAGE:
        for name in class_names(path) if path.parts[0] == "recgraph" else ():
            found.setdefault(name, []).append(str(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("path", EVERYTHING, ids=str)
def test_only_one_room_imports_tensorflows_private_modules(path: Path) -> None:
    """They change without notice; with a new TensorFlow one room has to be looked at."""
    if path.parent != Path("recgraph/tf_private"):
        private = [f"{path}:{line}: {name}" for line, name in imported_modules(path) if is_private(name)]
        assert private == []


def is_private(module: str) -> bool:
    """Whether a module is one that TensorFlow does not export."""
    return module.startswith("tensorflow.python")


# What an interpreter does not promise, and where each may be asked: see the next version of CPython in CONTRIBUTING.md.
OF_CPYTHON = {"_signal", "dis", "opcode", "getrefcount", "__flags__", "_lru_cache_wrapper"}
ROOMS_OF_CPYTHON = (Path("recgraph/cpython"), Path("recgraph/coexec/loops.py"))


@pytest.mark.parametrize("path", [path for path in PACKAGE if path.parts[0] == "recgraph"], ids=str)
def test_facts_of_cpython_are_in_their_rooms(path: Path) -> None:
    """With a new version these are looked at; nothing says that others have to be."""
    if any(path.is_relative_to(room) for room in ROOMS_OF_CPYTHON):
        return
    asked = {node.attr for node in ast.walk(parse(path)) if isinstance(node, ast.Attribute)}
    imported = {name.split(".")[0] for _, name in imported_modules(path)}
    assert OF_CPYTHON & (asked | imported) == set()


def tabled(readme: Path) -> list[str]:
    """The files that are listed in the tables of a room's README."""
    rows = [line.split("|")[1] for line in readme.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+\.py)`", row)]


@pytest.mark.parametrize("room", ["auto", "coexec", "core"])
def test_a_rooms_readme_lists_its_files(room: str) -> None:
    """Who is new in a room begins there."""
    folder = REPOSITORY / "recgraph" / room
    assert sorted(tabled(folder / "README.md")) == sorted(
        path.name for path in folder.glob("*.py") if path.name != "__init__.py"
    )


@pytest.mark.parametrize("path", EVERYTHING, ids=str)
def test_every_module_says_what_it_is(path: Path) -> None:
    """The first thing a reader sees."""
    assert ast.get_docstring(parse(path))


@pytest.mark.parametrize("path", NATIVE, ids=str)
def test_every_native_file_says_what_it_is(path: Path) -> None:
    """The first thing a reader sees."""
    assert (REPOSITORY / path).read_text(encoding="utf-8").startswith("// ")


# What may be imported inside of a function: libraries that not everybody has, or that take long, and what needs them.
LATE = {"egglog", "matplotlib", "rich", "tensorflow", "recgraph.draw.picture", "recgraph.optimize.prover"}


def late_imports(path: Path) -> list[str]:
    """The imports inside of functions that have no such reason."""
    tree = parse(path)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {
        one.lineno
        for function in functions
        for one in ast.walk(function)
        if isinstance(one, ast.Import | ast.ImportFrom)
    }
    return [
        f"{path}:{line}: {name}"
        for line, name in imported_modules(path)
        if line in late and not any(name == one or name.startswith(f"{one}.") for one in LATE)
    ]


@pytest.mark.parametrize("path", [path for path in PACKAGE if path.parts[0] == "recgraph"], ids=str)
def test_imports_stand_at_the_top(path: Path) -> None:
    """There a reader looks for them, and what cannot be imported is known at once."""
    assert late_imports(path) == []


def test_the_build_and_the_installation_ask_for_the_same_tensorflow() -> None:
    """A library built for one minor version does not load into another."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [name for name in project["build-system"]["requires"] if name.startswith("tensorflow")]
    assert wanted == project["project"]["optional-dependencies"]["tensorflow"]
    assert not any(name.startswith("tensorflow") for name in project["project"]["dependencies"])  # see there
    assert f'"{wanted[0]}"' in (REPOSITORY / "setup.py").read_text(encoding="utf-8")


CONFLICT = re.compile(rb"^(?:<{7}|>{7}|\|{7})(?: |\r?$)|^={7}\r?$", re.MULTILINE)


def test_no_tracked_file_has_the_marks_of_a_conflict() -> None:
    """What a merge leaves for people to decide."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    paths = [REPOSITORY / name.decode() for name in listed.split(b"\0") if name]
    texts = {path: path.read_bytes() for path in paths if path.is_file()}  # one may be deleted and not yet committed
    assert len(texts) > 100
    assert [path for path, text in texts.items() if b"\0" not in text and CONFLICT.search(text)] == []


def test_the_checkers_above_catch_what_they_look_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that finds nothing would agree with anything."""
    monkeypatch.setitem(globals(), "REPOSITORY", tmp_path)
    path = Path("recgraph/core/sample.py")
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(
        "from .. import batch\nfrom tensorflow.python import ops\n"
        "def late():\n    from recgraph.models.rntn import RNTN\n",
        encoding="utf-8",
    )
    assert wrong_imports(path) == [
        "recgraph/core/sample.py:1: core imports batch",
        "recgraph/core/sample.py:4: core imports models",
    ]
    assert [name for _, name in imported_modules(path) if is_private(name)] == ["tensorflow.python.ops"]
    assert late_imports(path) == ["recgraph/core/sample.py:4: recgraph.models.rntn.RNTN"]
    low = Path("recgraph/speculate/script/sample.py")
    (tmp_path / low).parent.mkdir(parents=True)
    (tmp_path / low).write_text("from recgraph.speculate.values import arrays\n", encoding="utf-8")
    assert import_circles({"a": {"b"}, "b": {"c"}, "c": {"b", "a"}, "d": {"a"}, "e": {"f"}, "f": {"e"}}) == [
        ["a", "b", "c"],
        ["e", "f"],
    ]
    assert import_circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert wrong_floors(low) == ["recgraph/speculate/script/sample.py:1: script imports values"]
    sides = [b"<" * 7 + b" HEAD", b"ours", b"=" * 7, b"theirs", b">" * 7 + b" 0123abc (a topic)"]
    assert len(CONFLICT.findall(b"\n".join(sides))) == len(CONFLICT.findall(b"\r\n".join(sides))) == 3
    assert not CONFLICT.search(b"Heading\n" + b"=" * 8 + b"\n<<<<<<<<\n  " + b"=" * 7 + b"\n")


# Calls of `id` in the converter. An address is given out again where nobody holds the object, so tables by it are to
# become one that holds what it knows (`recgraph/speculate/script`): this number only falls.
CALLS_OF_ID = 289


def test_no_more_tables_by_address() -> None:
    """The number is lowered with each table that goes."""
    found = 0
    for path in (REPOSITORY / "recgraph" / "speculate").rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        found += sum(isinstance(call.func, ast.Name) and call.func.id == "id" for call in calls)
    assert found == CALLS_OF_ID
