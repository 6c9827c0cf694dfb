"""The three models in PyTorch: node by node, a recursive Python function with one fused product a node, and folded by
height, as people batch by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

State = tuple[Tensor, ...]


@dataclasses.dataclass(frozen=True)
class Trees:
    """A minibatch: Python numbers to recurse on, tensors for what is looked up once a batch."""

    words: Tensor  # int64 [N], 0 at inner nodes
    is_leaf: Sequence[bool]
    left: Sequence[int]
    right: Sequence[int]
    roots: Sequence[int]
    labels: Tensor  # int64 [N], -1 where there is none
    leaves: Tensor  # int64, node numbers
    levels: Sequence[tuple[Tensor, Tensor]]  # by height from 1: where the children are in the order of computation
    order: Tensor  # int64 [N], where each node is in that order


def from_batch(batch: Any) -> Trees:
    """The PyTorch form of a `TreeBatch` of numpy arrays."""
    words, left, right, labels, roots = (
        np.asarray(array, np.int64) for array in (batch.words, batch.left, batch.right, batch.labels, batch.roots)
    )
    leaves, levels, order = fold(words, left, right)
    return Trees(
        torch.from_numpy(np.maximum(words, 0)),
        (words >= 0).tolist(),
        left.tolist(),
        right.tolist(),
        roots.tolist(),
        torch.from_numpy(labels),
        leaves,
        levels,
        order,
    )


def fold(words: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor]:
    """Leaves, levels and order of `Trees`; children come before their parents."""
    heights = np.zeros(len(words), np.int64)
    for node in np.flatnonzero(words < 0):
        heights[node] = 1 + max(heights[left[node]], heights[right[node]])
    groups = [np.flatnonzero(heights == height) for height in range(heights.max(initial=0) + 1)]
    order = np.empty(len(words), np.int64)
    order[np.concatenate(groups)] = np.arange(len(words))
    levels = [(torch.from_numpy(order[left[group]]), torch.from_numpy(order[right[group]])) for group in groups[1:]]
    return torch.from_numpy(groups[0]), levels, torch.from_numpy(order)


class Cell(torch.nn.Module):
    """What a model does at a node, and its weights."""

    def __init__(self, weights: Mapping[str, np.ndarray]):
        """Takes over `weights`, from the attribute names of the TensorFlow model to their values."""
        super().__init__()
        for name, value in weights.items():
            setattr(self, name, torch.nn.Parameter(torch.from_numpy(np.array(value))))

    def look_up(self, words: Tensor) -> Tensor:
        """The vectors `[n, E]` of words; their gradient is sparse."""
        return functional.embedding(words, self.embedding, sparse=True)

    def leaf(self, vectors: Tensor) -> State:
        """The states of leaves, from their words' vectors: the vector itself, squashed."""
        return (torch.tanh(vectors),)

    def compose(self, left: State, right: State) -> State:
        """The states of inner nodes."""
        raise NotImplementedError


class TreeLSTM(Cell):
    """As `recgraph.models.TreeLSTM`."""

    def leaf(self, vectors: Tensor) -> State:
        gates = torch.addmm(self.leaf_bias, vectors, self.leaf_kernel)
        size = gates.shape[1] // 3
        sigmoids, update = gates.split([2 * size, size], 1)
        entry, exit_ = torch.sigmoid(sigmoids).chunk(2, 1)
        memory = entry * torch.tanh(update)
        return exit_ * torch.tanh(memory), memory

    def compose(self, left: State, right: State) -> State:
        gates = torch.addmm(self.inner_bias, torch.cat((left[0], right[0]), 1), self.inner_kernel)
        size = gates.shape[1] // 5
        sigmoids, update = gates.split([4 * size, size], 1)
        entry, exit_, keep_left, keep_right = torch.sigmoid(sigmoids).chunk(4, 1)
        memory = torch.addcmul(torch.addcmul(entry * torch.tanh(update), keep_left, left[1]), keep_right, right[1])
        return exit_ * torch.tanh(memory), memory


class TreeRNN(Cell):
    """As `recgraph.models.TreeRNN`."""

    def compose(self, left: State, right: State) -> State:
        return (torch.tanh(torch.addmm(self.bias, torch.cat((left[0], right[0]), 1), self.kernel)),)


class RNTN(Cell):
    """As `recgraph.models.RNTN`."""

    def compose(self, left: State, right: State) -> State:
        children = torch.cat((left[0], right[0]), 1)
        if len(children) == 1:
            pairs = (children.T * children).reshape(1, -1)
        else:
            pairs = (children.unsqueeze(2) * children.unsqueeze(1)).flatten(1)
        return (torch.tanh(torch.addmm(torch.addmm(self.bias, children, self.kernel), pairs, self.tensor)),)


CELLS: dict[str, type[Cell]] = {"tree_lstm": TreeLSTM, "tree_rnn": TreeRNN, "rntn": RNTN}
SLOW = ("tensor",)  # as `RNTN.rate`


def node_by_node(cell: Cell, trees: Trees) -> Tensor:
    """Hidden rows of all nodes, `[N, H]`. Rows of all words are looked up at once: one sparse gradient a batch."""
    vectors = cell.look_up(trees.words).split(1)
    rows: list[Tensor] = []

    def visit(node: int) -> State:
        if trees.is_leaf[node]:
            state = cell.leaf(vectors[node])
        else:
            state = cell.compose(visit(trees.left[node]), visit(trees.right[node]))
        rows.append(state[0])
        return state

    for root in trees.roots:
        visit(root)
    return torch.cat(rows)


def folded(cell: Cell, trees: Trees) -> Tensor:
    """As `node_by_node`, every height of all trees at once."""
    states = cell.leaf(cell.look_up(trees.words[trees.leaves]))
    for left, right in trees.levels:
        made = cell.compose(tuple(part[left] for part in states), tuple(part[right] for part in states))
        states = tuple(torch.cat(parts) for parts in zip(states, made, strict=True))
    return states[0][trees.order]


WAYS: dict[str, Callable[[Cell, Any], Tensor]] = {"node_by_node": node_by_node, "folded": folded}


class Peer:
    """See `worker.py`."""

    def __init__(self, options: dict[str, Any], weights: dict[str, np.ndarray]):
        """Takes over the weights, `{attribute of the TensorFlow model: value}`."""
        self.use_threads(1)
        self.cell = CELLS[options["model"]](weights)
        self._way = options["way"]
        rate, embedding_rate, l2 = options["rates"]
        named = dict(self.cell.named_parameters())
        slow = [named.pop(name) for name in SLOW if name in named]
        words = [named.pop("embedding")]
        groups = [{"params": list(named.values())}, {"params": slow, "lr": 0.1 * rate}]
        adagrad = torch.optim.Adagrad(groups, rate, weight_decay=l2, foreach=True)
        self._optimizers = [adagrad, torch.optim.SGD(words, embedding_rate)]

    def use_threads(self, count: int) -> None:
        """See `worker.py`."""
        torch.set_num_threads(count)

    def prepare(self, batch: Any) -> Any:
        """See `worker.py`."""
        return from_batch(batch)

    def first(self, trees: Any) -> dict[str, np.ndarray]:
        """See `worker.py`."""
        self._forget()
        loss = self._loss(trees)
        loss.backward()
        gradients = {name: weight.grad.to_dense().numpy() for name, weight in self.cell.named_parameters()}
        return {"loss": loss.detach().numpy(), **gradients}

    def train(self, trees: Any) -> float:
        """See `worker.py`: Adagrad for the weights, sparse descent for the embedding."""
        self._forget()
        loss = self._loss(trees)
        (loss / len(trees.roots)).backward()
        for optimizer in self._optimizers:
            optimizer.step()
        return float(loss.detach())

    def classify(self, trees: Any) -> Tensor:
        """See `worker.py`: without recording anything for a gradient."""
        with torch.inference_mode():
            return self._logits(trees).argmax(1)

    def _forget(self) -> None:
        for optimizer in self._optimizers:
            optimizer.zero_grad()

    def _hidden(self, trees: Any) -> Tensor:
        return WAYS[self._way](self.cell, trees)

    def _logits(self, trees: Any) -> Tensor:
        """Class scores of all nodes, `[N, C]`."""
        return torch.addmm(self.cell.output_bias, self._hidden(trees), self.cell.output_kernel)

    def _loss(self, trees: Any) -> Tensor:
        """The sum of the cross-entropies of all labelled nodes."""
        return functional.cross_entropy(self._logits(trees), trees.labels, ignore_index=-1, reduction="sum")
