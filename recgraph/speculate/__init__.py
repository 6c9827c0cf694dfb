"""Speculation: imperative programs as graphs, under assumptions that are checked."""

from recgraph.speculate.function import Speculated
from recgraph.speculate.optimizations import Optimizations
from recgraph.speculate.reasons import Inconvertible
from recgraph.speculate.unmodified import Speculation, speculation

__all__ = ["Inconvertible", "Optimizations", "Speculated", "Speculation", "speculation"]
