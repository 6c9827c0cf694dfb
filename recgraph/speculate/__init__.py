"""Speculation: imperative programs as graphs, under assumptions that are checked."""

from recgraph.speculate.machine.evaluator import Optimizations
from recgraph.speculate.observe.reasons import Inconvertible
from recgraph.speculate.run.function import Speculated
from recgraph.speculate.run.undecorated import Speculation, speculation

__all__ = ["Inconvertible", "Optimizations", "Speculated", "Speculation", "speculation"]


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
