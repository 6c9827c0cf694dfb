"""The three models in DGL: a minibatch is one graph, and messages go from children to parents, height by height."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

os.environ["DGLBACKEND"] = "pytorch"

import dgl
import pytorch_models
import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Trees:
    """A minibatch with the order of its nodes, both made before the clock starts."""

    graph: dgl.DGLGraph  # an edge from every child to its parent, the left one first
    heights: Sequence[Tensor]  # nodes by height, from the lowest inner ones
    leaves: Tensor
    words: Tensor  # of the leaves
    labels: Tensor  # int64 [N], -1 where there is none
    roots: Sequence[int]


def by_messages(cell: pytorch_models.Cell, trees: Trees) -> Tensor:
    """Hidden rows of all nodes, `[N, H]`."""
    graph = trees.graph.local_var()
    states = cell.leaf(cell.look_up(trees.words))
    names = [f"state_{i}" for i in range(len(states))]
    for name, rows in zip(names, states, strict=True):
        everywhere = torch.zeros(graph.num_nodes(), rows.shape[1])
        graph.ndata[name] = everywhere.index_copy(0, trees.leaves, rows)

    def message(edges: Any) -> dict[str, Tensor]:
        return {name: edges.src[name] for name in names}

    def compose(nodes: Any) -> dict[str, Tensor]:
        left, right = (tuple(nodes.mailbox[name][:, side] for name in names) for side in (0, 1))
        return dict(zip(names, cell.compose(left, right), strict=True))

    graph.prop_nodes(trees.heights, message, compose)
    return graph.ndata[names[0]]


class Peer(pytorch_models.Peer):
    """See `worker.py`."""

    def prepare(self, batch: Any) -> Trees:
        """See `worker.py`."""
        inner, leaves = np.flatnonzero(batch.left >= 0), np.flatnonzero(batch.left < 0)
        children = np.stack([batch.left[inner], batch.right[inner]], 1).reshape(-1).astype(np.int64)
        parents = np.repeat(inner, 2)
        graph = dgl.graph((torch.from_numpy(children), torch.from_numpy(parents)), num_nodes=len(batch.words))
        _, *heights = dgl.topological_nodes_generator(graph)
        words, labels = (torch.from_numpy(array.astype(np.int64)) for array in (batch.words[leaves], batch.labels))
        return Trees(graph, heights, torch.from_numpy(leaves), words, labels, batch.roots.tolist())

    def _hidden(self, trees: Trees) -> Tensor:
        return by_messages(self.cell, trees)
