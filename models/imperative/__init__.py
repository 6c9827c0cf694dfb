"""Recursive networks as plain Python: `Node` objects and functions that call themselves, run eagerly or converted.

`rg.function(model.train_step)` makes SubGraphs of the recursion; `recgraph.models` has the same networks written as
SubGraphs by hand.
"""

from recgraph.models.imperative.network import TreeNetwork
from recgraph.models.imperative.node import Node, generate_nodes, node_of
from recgraph.models.imperative.rntn import RNTN
from recgraph.models.imperative.tree_lstm import TreeLSTM
from recgraph.models.imperative.tree_rnn import TreeRNN

NETWORKS: dict[str, type[TreeNetwork]] = {"tree_rnn": TreeRNN, "rntn": RNTN, "tree_lstm": TreeLSTM}

__all__ = ["NETWORKS", "RNTN", "Node", "TreeLSTM", "TreeNetwork", "TreeRNN", "generate_nodes", "node_of"]
