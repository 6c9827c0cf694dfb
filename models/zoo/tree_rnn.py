"""TreeRNN over plain Python objects: `recgraph.models.imperative.TreeRNN`."""

from __future__ import annotations

from recgraph.models.imperative import TreeRNN
from recgraph.models.zoo import trees
from recgraph.models.zoo.program import Program


def _make(small: bool) -> TreeRNN:
    return TreeRNN(20, 6, 6, 5) if small else TreeRNN(2000, 30, 30, 5)


TREE_RNN = Program("TreeRNN", _make, trees.steps, 25, 2, "sentences", trees.sentences, "SST", trees.real_steps)
