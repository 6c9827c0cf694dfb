"""Which way a function runs, decided from measurement: as a graph, its callees as graphs, co-executed, or eagerly."""

from recgraph.auto.function import Automatic

__all__ = ["Automatic"]
