"""The three models in DyNet, written for its automatic batching: expressions for each node, one loss for a minibatch.

Of several ways to write a cell the fastest was taken: a matrix for each child in place of a concatenation of both, and
RNTN's quadratic form as two products, with the affine map inside of the first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dynet_config
import numpy as np

dynet_config.set(autobatch=1, mem=2048)

import dynet as dy  # noqa: E402 - it reads its configuration when it is imported

State = tuple[dy.Expression, ...]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a weight of the TensorFlow model, which multiplies rows from the right, is kept: its parts, and back."""

    take_apart: Callable[[np.ndarray], list[np.ndarray]]
    put_together: Callable[[list[np.ndarray]], np.ndarray]


AS_IT_IS = Layout(lambda weight: [weight], lambda parts: parts[0])
TRANSPOSED = Layout(lambda weight: [weight.T], lambda parts: parts[0].T)
BY_CHILD = Layout(
    lambda weight: [half.T for half in np.split(weight, 2)],
    lambda parts: np.concatenate([part.T for part in parts]),
)
# The vector of a matrix `[H, 2H]` with the weights of the affine map.
FLAT = Layout(lambda weight: [weight.reshape(-1)], lambda parts: parts[0].reshape(-1, math.isqrt(len(parts[0]) // 2)))


def _first_factor(weight: np.ndarray) -> list[np.ndarray]:
    """`[2H * 2H, H]`, by pairs of units, as the matrix `[2H * H, 2H]` that gives `FLAT`'s weights from the children."""
    hidden = weight.shape[1]
    return [weight.reshape(2 * hidden, 2 * hidden, hidden).transpose(1, 2, 0).reshape(-1, 2 * hidden)]


def _from_first_factor(parts: list[np.ndarray]) -> np.ndarray:
    width = parts[0].shape[1]
    return parts[0].reshape(width, width // 2, width).transpose(2, 0, 1).reshape(width * width, width // 2)


PAIRS = Layout(_first_factor, _from_first_factor)


class Cell:
    """What a model does at a node. Its parameters are found under the names of the TensorFlow model's weights."""

    layouts: Mapping[str, Layout]

    def __init__(self, parameters: Mapping[str, list[Any]]):
        """Takes over the parameters, the parts of each weight."""
        self.p = parameters

    def leaf(self, vector: dy.Expression) -> State:
        """The state of a leaf: the word's own vector, squashed."""
        return (dy.tanh(vector),)

    def compose(self, left: State, right: State) -> State:
        """The state of an inner node."""
        raise NotImplementedError


class TreeLSTM(Cell):
    """As `recgraph.models.TreeLSTM`."""

    layouts = {"leaf_kernel": TRANSPOSED, "leaf_bias": AS_IT_IS, "inner_kernel": BY_CHILD, "inner_bias": AS_IT_IS}

    def leaf(self, vector: dy.Expression) -> State:
        gates = dy.affine_transform([*self.p["leaf_bias"], *self.p["leaf_kernel"], vector])
        entry, exit_, update = _split(gates, 3)
        return _out(exit_, dy.cmult(dy.logistic(entry), dy.tanh(update)))

    def compose(self, left: State, right: State) -> State:
        for_left, for_right = self.p["inner_kernel"]
        gates = dy.affine_transform([*self.p["inner_bias"], for_left, left[0], for_right, right[0]])
        entry, exit_, keep_left, keep_right, update = _split(gates, 5)
        kept = dy.cmult(dy.logistic(keep_left), left[1]) + dy.cmult(dy.logistic(keep_right), right[1])
        return _out(exit_, dy.cmult(dy.logistic(entry), dy.tanh(update)) + kept)


def _split(gates: dy.Expression, count: int) -> list[dy.Expression]:
    size = gates.dim()[0][0] // count
    return [dy.pick_range(gates, i * size, (i + 1) * size) for i in range(count)]


def _out(gate: dy.Expression, memory: dy.Expression) -> State:
    return dy.cmult(dy.logistic(gate), dy.tanh(memory)), memory


class TreeRNN(Cell):
    """As `recgraph.models.TreeRNN`."""

    layouts = {"kernel": BY_CHILD, "bias": AS_IT_IS}

    def compose(self, left: State, right: State) -> State:
        for_left, for_right = self.p["kernel"]
        return (dy.tanh(dy.affine_transform([*self.p["bias"], for_left, left[0], for_right, right[0]])),)


class RNTN(Cell):
    """As `recgraph.models.RNTN`."""

    layouts = {"kernel": FLAT, "bias": AS_IT_IS, "tensor": PAIRS}

    def compose(self, left: State, right: State) -> State:
        children = dy.concatenate([left[0], right[0]])
        flat = dy.affine_transform([*self.p["kernel"], *self.p["tensor"], children])
        size = children.dim()[0][0]
        return (dy.tanh(dy.reshape(flat, (size // 2, size)) * children + self.p["bias"][0]),)


CELLS: dict[str, type[Cell]] = {"tree_lstm": TreeLSTM, "tree_rnn": TreeRNN, "rntn": RNTN}
OUTPUT = {"output_kernel": TRANSPOSED, "output_bias": AS_IT_IS}
SLOW = ("tensor",)  # as `RNTN.rate`


@dataclasses.dataclass(frozen=True)
class Trees:
    """A minibatch as Python numbers, children before their parents."""

    nodes: Sequence[tuple[int, int, int]]  # word, left, right
    labelled: Sequence[int]
    labels: Sequence[int]  # of `labelled`
    count: int  # of trees


class Peer:
    """See `worker.py`."""

    def __init__(self, options: dict[str, Any], weights: dict[str, np.ndarray]):
        """Takes over the weights, `{attribute of the TensorFlow model: value}`."""
        rate, embedding_rate, self._l2 = options["rates"]
        cell = CELLS[options["model"]]
        self._layouts = {**OUTPUT, **cell.layouts}
        self._collections = usual, slow, words = [dy.ParameterCollection() for _ in range(3)]  # nobody else keeps them
        self._p: dict[str, list[Any]] = {}
        for name, layout in self._layouts.items():
            collection = slow if name in SLOW else usual
            parts = layout.take_apart(weights[name])
            self._p[name] = [collection.parameters_from_numpy(np.ascontiguousarray(part)) for part in parts]
        self._embedding = words.lookup_parameters_from_numpy(weights["embedding"])
        self._cell = cell(self._p)
        epsilon = 1e-20  # below the root here
        self._trainers = [
            dy.AdagradTrainer(usual, rate, epsilon),
            dy.AdagradTrainer(slow, 0.1 * rate, epsilon),
            dy.SimpleSGDTrainer(words, embedding_rate),
        ]
        for trainer in self._trainers:
            trainer.set_clip_threshold(-1)
        self._forgetters = [dy.SimpleSGDTrainer(collection, 0.0) for collection in self._collections]

    def prepare(self, batch: Any) -> Trees:
        """See `worker.py`."""
        nodes = zip(batch.words.tolist(), batch.left.tolist(), batch.right.tolist(), strict=True)
        labelled = np.flatnonzero(batch.labels >= 0)
        return Trees(list(nodes), labelled.tolist(), batch.labels[labelled].tolist(), len(batch.roots))

    def first(self, trees: Trees) -> dict[str, np.ndarray]:
        """See `worker.py`."""
        dy.renew_cg()
        loss = self._loss(trees)
        result = {"loss": np.float32(loss.value())}
        loss.backward()
        for name, layout in self._layouts.items():
            result[name] = layout.put_together([part.grad_as_array() for part in self._p[name]])
        result["embedding"] = self._embedding.grad_as_array()
        for trainer in self._forgetters:
            trainer.update()  # gradients are added up until an update
        return result

    def train(self, trees: Trees) -> float:
        """See `worker.py`."""
        dy.renew_cg()
        loss = self._loss(trees)
        squares = dy.esum([dy.squared_norm(part) for parts in self._p.values() for part in parts])
        objective = loss * (1 / trees.count) + squares * (self._l2 / 2)
        objective.forward()
        value = loss.scalar_value()
        objective.backward()
        for trainer in self._trainers:
            trainer.update()
        return value

    def classify(self, trees: Trees) -> np.ndarray:
        """See `worker.py`."""
        dy.renew_cg()
        return self._logits(self._hidden(trees)).npvalue().argmax(0)

    def _hidden(self, trees: Trees) -> list[dy.Expression]:
        states: list[State] = []
        for word, left, right in trees.nodes:
            state = (
                self._cell.leaf(self._embedding[word]) if left < 0 else self._cell.compose(states[left], states[right])
            )
            states.append(state)
        return [state[0] for state in states]

    def _logits(self, hidden: list[dy.Expression]) -> dy.Expression:
        """Class scores of all of them, one batch."""
        return dy.affine_transform(
            [*self._p["output_bias"], *self._p["output_kernel"], dy.concatenate_to_batch(hidden)]
        )

    def _loss(self, trees: Trees) -> dy.Expression:
        hidden = self._hidden(trees)
        logits = self._logits([hidden[node] for node in trees.labelled])
        return dy.sum_batches(dy.pickneglogsoftmax_batch(logits, list(trees.labels)))
