"""TreeLSTM over plain Python objects: `recgraph.models.imperative.TreeLSTM`."""

from __future__ import annotations

from recgraph.models.imperative import TreeLSTM
from recgraph.models.zoo import trees
from recgraph.models.zoo.program import Program


def _make(small: bool) -> TreeLSTM:
    return TreeLSTM(20, 5, 6, 5) if small else TreeLSTM(2000, 300, 150, 5)


TREE_LSTM = Program("TreeLSTM", _make, trees.steps, 25, 2, "sentences", trees.sentences, "SST", trees.real_steps)
