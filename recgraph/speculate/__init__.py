"""Speculation: imperative programs as graphs, under assumptions that are checked."""

from recgraph.speculate.function import Speculated

__all__ = ["Speculated"]
