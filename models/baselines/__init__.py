"""The same models without recursion in the graph: `Iterative` (one loop over nodes) and `unrolled` (plain Python)."""

from recgraph.models.baselines.iterative import Iterative
from recgraph.models.baselines.unrolled import unrolled

__all__ = ["Iterative", "unrolled"]
