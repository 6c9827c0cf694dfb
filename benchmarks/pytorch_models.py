"""The three models in PyTorch: node by node, a recursive Python function with one fused product a node, and folded by
height, as people batch by hand.

Weights come from a `recgraph.models.TreeModel`, so that both must compute the same loss. Trees are the flat arrays of a
`recgraph.data.TreeBatch`, turned into Python lists before the clock starts.
"""

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
    """A minibatch for PyTorch: Python numbers to recurse on, tensors for what is looked up once a batch."""

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
    """The PyTorch form of a `TreeBatch` of numpy arrays or eager tensors."""
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


class Model(torch.nn.Module):
    """What the three share: the embedding with sparse gradients, the recursion, and the loss at every node."""

    def __init__(self, weights: Mapping[str, np.ndarray], folded: bool = False):
        """Takes over `weights`, from the attribute names of the TensorFlow model to their values."""
        super().__init__()
        self.folded = folded
        for name, value in weights.items():
            setattr(self, name, torch.nn.Parameter(torch.from_numpy(np.array(value))))

    def leaf(self, vector: Tensor) -> State:
        """The state of a leaf, from its word's vector `[1, E]`."""
        raise NotImplementedError

    def compose(self, left: State, right: State) -> State:
        """The state of an inner node."""
        raise NotImplementedError

    def folded_hidden(self, trees: Trees) -> Tensor:
        """As `hidden`, every height of all trees at once."""
        vectors = functional.embedding(trees.words[trees.leaves], self.embedding, sparse=True)
        states = self.leaf(vectors)
        for left, right in trees.levels:
            made = self.compose(tuple(part[left] for part in states), tuple(part[right] for part in states))
            states = tuple(torch.cat(parts) for parts in zip(states, made, strict=True))
        return states[0][trees.order]

    def hidden(self, trees: Trees) -> Tensor:
        """Hidden rows of all nodes, `[N, H]`. Rows of all words are looked up at once: one sparse gradient a batch."""
        if self.folded:
            return self.folded_hidden(trees)
        vectors = functional.embedding(trees.words, self.embedding, sparse=True).split(1)
        rows: list[Tensor] = []

        def visit(node: int) -> State:
            if trees.is_leaf[node]:
                state = self.leaf(vectors[node])
            else:
                state = self.compose(visit(trees.left[node]), visit(trees.right[node]))
            rows.append(state[0])
            return state

        for root in trees.roots:
            visit(root)
        return torch.cat(rows)

    def logits(self, trees: Trees) -> Tensor:
        """Class scores of all nodes, `[N, C]`."""
        return torch.addmm(self.output_bias, self.hidden(trees), self.output_kernel)

    def loss(self, trees: Trees) -> Tensor:
        """The sum of the cross-entropies of all labelled nodes."""
        return functional.cross_entropy(self.logits(trees), trees.labels, ignore_index=-1, reduction="sum")


class TreeLSTM(Model):
    """As `recgraph.models.TreeLSTM`."""

    def leaf(self, vector: Tensor) -> State:
        gates = torch.addmm(self.leaf_bias, vector, self.leaf_kernel)
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


class TreeRNN(Model):
    """As `recgraph.models.TreeRNN`."""

    def leaf(self, vector: Tensor) -> State:
        return (torch.tanh(vector),)

    def compose(self, left: State, right: State) -> State:
        return (torch.tanh(torch.addmm(self.bias, torch.cat((left[0], right[0]), 1), self.kernel)),)


class RNTN(Model):
    """As `recgraph.models.RNTN`."""

    def leaf(self, vector: Tensor) -> State:
        return (torch.tanh(vector),)

    def compose(self, left: State, right: State) -> State:
        children = torch.cat((left[0], right[0]), 1)
        if len(children) == 1:
            pairs = (children.T * children).reshape(1, -1)
        else:
            pairs = (children.unsqueeze(2) * children.unsqueeze(1)).flatten(1)
        return (torch.tanh(torch.addmm(torch.addmm(self.bias, children, self.kernel), pairs, self.tensor)),)


MODELS: dict[str, type[Model]] = {"tree_lstm": TreeLSTM, "tree_rnn": TreeRNN, "rntn": RNTN}


def build(name: str, weights: Mapping[str, np.ndarray], folded: bool = False) -> Model:
    """The named model with these weights, `{attribute of the TensorFlow model: value}`; node by node or folded."""
    return MODELS[name](weights, folded)


def trainer(model: Model, learning_rate: float, embedding_rate: float, l2: float) -> Callable[[Trees], float]:
    """A training step as `recgraph train` does it: Adagrad for the weights, sparse descent for the embedding."""
    weights = {name: value for name, value in model.named_parameters() if name != "embedding"}
    slow = [weights.pop(name) for name in ("tensor",) if name in weights]  # as `RNTN.rate`
    groups = [{"params": list(weights.values())}, {"params": slow, "lr": 0.1 * learning_rate}]
    adagrad = torch.optim.Adagrad(groups, learning_rate, weight_decay=l2, foreach=True)
    descent = torch.optim.SGD([model.embedding], embedding_rate)

    def step(trees: Trees) -> float:
        adagrad.zero_grad()
        descent.zero_grad()
        loss = model.loss(trees)
        (loss / max(len(trees.roots), 1)).backward()
        adagrad.step()
        descent.step()
        return float(loss.detach())

    return step
