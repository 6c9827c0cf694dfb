"""Recursive networks: over given trees (`TreeRNN`, `RNTN`, `TreeLSTM`, `ChildSum`), and such whose shape is computed.

The latter are `TopDownTreeLSTM` and `DRNN`, which make trees, `SpanParser`, `MixtureOfExperts` and `HMRNN`.
"""

from recgraph.models.child_sum import ChildSum, RelatednessHyper
from recgraph.models.common import Hyper, TreeModel
from recgraph.models.drnn import DRNN
from recgraph.models.hm_rnn import HMRNN
from recgraph.models.moe import MixtureOfExperts
from recgraph.models.parser import ParserHyper, SpanParser
from recgraph.models.rntn import RNTN
from recgraph.models.td_tree_lstm import TopDownTreeLSTM
from recgraph.models.tree_lstm import TreeLSTM
from recgraph.models.tree_rnn import TreeRNN

MODELS: dict[str, type[TreeModel]] = {"tree_rnn": TreeRNN, "rntn": RNTN, "tree_lstm": TreeLSTM}
PAIR_MODELS: dict[str, type[ChildSum]] = {"child_sum": ChildSum}
PARSERS: dict[str, type[SpanParser]] = {"parser": SpanParser}

__all__ = [
    "DRNN",
    "HMRNN",
    "MODELS",
    "PAIR_MODELS",
    "PARSERS",
    "RNTN",
    "ChildSum",
    "Hyper",
    "MixtureOfExperts",
    "ParserHyper",
    "RelatednessHyper",
    "SpanParser",
    "TopDownTreeLSTM",
    "TreeLSTM",
    "TreeModel",
    "TreeRNN",
]
