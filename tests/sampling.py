"""How much of what is unbounded a run of the tests takes: options of pytest, read while modules of tests are imported.

`pytest --help` lists them under "samples".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import pytest
from hypothesis import Phase

One = TypeVar("One")

# Each is a number; a test has its own for where none is given.
COUNTS: Final = {
    "programs": "random programs, bodies, graphs and expressions for each test; 2000 take hours",
    "points": "places at which each larger program is broken",
    "steps": "steps of one program",
    "repeats": "invocations that share state, and functions and cells that are made and dropped",
    "mutants": "damaged models; 20,000 take about 20 minutes",
    "planted": "planted bugs",
    "faults": "faults of workers, each in a training of its own",
    "soak-minutes": "minutes of the soak test",
}

_given: dict[str, float] = {}
_seed: int | None = None
_parts, _of = frozenset({0}), 1
# Whether all ways of everything are tried.
ALL = False
# What hypothesis does with large programs: one that fails is printed as it is, as making it smaller takes minutes.
PHASES = (Phase.generate,)
# Whether libraries are compiled with sanitizers, too.
SANITIZERS = False


def add_options(parser: pytest.Parser) -> None:
    """Declares what can be asked for."""
    group = parser.getgroup("samples", "samples of what is unbounded")
    for name, text in COUNTS.items():
        group.addoption(f"--{name}", type=float, metavar="N", help=f"number of {text}")
    group.addoption("--random-seed", type=int, metavar="N", help="seed of what is random, where it is not a test's own")
    group.addoption("--part", default="1/1", metavar="1,3/3", help="the first and the third of each three programs")
    group.addoption("--all", action="store_true", help="all cases of everything, and tests that take minutes")
    group.addoption("--shrink", action="store_true", help="random programs that fail are made smaller; takes minutes")
    group.addoption("--sanitizers", action="store_true", help="libraries compiled with sanitizers, too; 4 minutes each")


def configure(config: pytest.Config) -> None:
    """Takes what was asked for; before any module of tests is imported."""
    global _seed, _parts, _of, ALL, SANITIZERS, PHASES
    for name in COUNTS:
        given = config.getoption(name.replace("-", "_"))
        if given is not None:
            _given[name] = given
    _seed, ALL, SANITIZERS = (config.getoption(name) for name in ("random_seed", "all", "sanitizers"))
    PHASES = (Phase.generate, Phase.shrink) if config.getoption("shrink") else PHASES
    parts, of = config.getoption("part").split("/")
    _of = int(of)
    _parts = frozenset(int(part) % _of for part in parts.split(","))


def count(name: str, usual: float) -> int:
    """The number that was asked for, or the usual one."""
    return int(minutes(name, usual))


def minutes(name: str, usual: float) -> float:
    """The duration that was asked for, or the usual one."""
    if name not in COUNTS:
        raise KeyError(name)
    return _given.get(name, usual)


def seed(usual: int) -> int:
    """The seed that was asked for, or the usual one."""
    return usual if _seed is None else _seed


def is_seeded() -> bool:
    """Whether a seed was asked for: then what is random is another sample than in every run."""
    return _seed is not None


def share(things: Iterable[One]) -> list[One]:
    """Those that this run takes."""
    return [thing for number, thing in enumerate(things, 1) if number % _of in _parts]
