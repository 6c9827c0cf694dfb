"""Recursive networks for sentiment treebanks: `TreeRNN`, `RNTN` and the constituency `TreeLSTM`."""

from recgraph.models.common import Hyper, TreeModel
from recgraph.models.rntn import RNTN
from recgraph.models.tree_lstm import TreeLSTM
from recgraph.models.tree_rnn import TreeRNN

MODELS: dict[str, type[TreeModel]] = {"tree_rnn": TreeRNN, "rntn": RNTN, "tree_lstm": TreeLSTM}

__all__ = ["MODELS", "Hyper", "RNTN", "TreeLSTM", "TreeModel", "TreeRNN"]
