"""The same models without recursion in the graph: `Iterative` and `IterativeTopDown` loop, `unrolled` is Python."""

from recgraph.models.baselines.iterative import Iterative
from recgraph.models.baselines.top_down import IterativeTopDown
from recgraph.models.baselines.unrolled import unrolled

__all__ = ["Iterative", "IterativeTopDown", "unrolled"]
