"""The engines that a program can be run by: "parallel" is part of the core, others register themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

ENGINES = ("auto", "parallel", "batched")


class Plan(Protocol):
    """What another engine makes of a program."""

    functions: list[Any]

    def carrier(self) -> Any:
        """A FunctionDef that carries the plan to the kernels."""

    def __str__(self) -> str:
        """The plan, readable."""


_compilers: dict[str, Callable[[Any, list[str]], Plan]] = {}


def register(engine: str, compiler: Callable[[Any, list[str]], Plan]) -> None:
    """Makes an engine known: `compiler(library, roots)` makes its plan, or raises `Unbatchable`."""
    _compilers[engine] = compiler


def compile_batched(library: Any, roots: list[str]) -> Plan | None:
    """The plan of the batched engine; None where that engine is not there.

    Raises:
        Unbatchable: the program holds what it cannot run.
    """
    compiler = _compilers.get("batched")
    return None if compiler is None else compiler(library, roots)
