"""Recursive networks: `TreeRNN`, `RNTN` and `TreeLSTM` for sentiment treebanks, `ChildSum` for related sentences."""

from recgraph.models.child_sum import ChildSum, RelatednessHyper
from recgraph.models.common import Hyper, TreeModel
from recgraph.models.rntn import RNTN
from recgraph.models.td_tree_lstm import TopDownTreeLSTM
from recgraph.models.tree_lstm import TreeLSTM
from recgraph.models.tree_rnn import TreeRNN

MODELS: dict[str, type[TreeModel]] = {"tree_rnn": TreeRNN, "rntn": RNTN, "tree_lstm": TreeLSTM}
PAIR_MODELS: dict[str, type[ChildSum]] = {"child_sum": ChildSum}

__all__ = [
    "MODELS",
    "PAIR_MODELS",
    "RNTN",
    "ChildSum",
    "Hyper",
    "RelatednessHyper",
    "TopDownTreeLSTM",
    "TreeLSTM",
    "TreeModel",
    "TreeRNN",
]
