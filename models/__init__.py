"""Recursive networks: over given trees, and such whose shape is computed.

Over binary trees there are `TreeRNN`, `MVRNN`, `RNTN`, `TreeGRU` and `TreeLSTM`, over trees of any arity `ChildSum` and
`ChildAttention`. `TopDownTreeLSTM` and `DRNN` make trees; `SpanParser`, `MixtureOfExperts` and `HMRNN` compute theirs.
"""

from recgraph.models.child_attention import ChildAttention
from recgraph.models.child_sum import ChildSum
from recgraph.models.common import TreeModel
from recgraph.models.drnn import DRNN
from recgraph.models.hm_rnn import HMRNN
from recgraph.models.hyper import Hyper
from recgraph.models.moe import MixtureOfExperts
from recgraph.models.mv_rnn import MVRNN
from recgraph.models.parser import ParserHyper, SpanParser
from recgraph.models.relatedness import PairModel, RelatednessHyper
from recgraph.models.rntn import RNTN
from recgraph.models.td_tree_lstm import TopDownTreeLSTM
from recgraph.models.tree_gru import TreeGRU
from recgraph.models.tree_lstm import TreeLSTM
from recgraph.models.tree_rnn import TreeRNN

MODELS: dict[str, type[TreeModel]] = {
    "tree_rnn": TreeRNN,
    "mv_rnn": MVRNN,
    "rntn": RNTN,
    "tree_gru": TreeGRU,
    "tree_lstm": TreeLSTM,
}
"""The models for sentiment, by their names in the command."""
PAIR_MODELS: dict[str, type[PairModel]] = {"child_sum": ChildSum, "child_attention": ChildAttention}
"""The models for relatedness, by their names in the command."""
PARSERS: dict[str, type[SpanParser]] = {"parser": SpanParser}
"""The parsers, by their names in the command."""

__all__ = [
    "DRNN",
    "HMRNN",
    "MODELS",
    "MVRNN",
    "PAIR_MODELS",
    "PARSERS",
    "RNTN",
    "ChildAttention",
    "ChildSum",
    "Hyper",
    "MixtureOfExperts",
    "PairModel",
    "ParserHyper",
    "RelatednessHyper",
    "SpanParser",
    "TopDownTreeLSTM",
    "TreeGRU",
    "TreeLSTM",
    "TreeModel",
    "TreeRNN",
]


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
