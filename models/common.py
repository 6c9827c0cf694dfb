"""What the models share: the word embedding, the output projection, the loss at every labelled node, and L2.

Shape letters: `N` nodes of a batch, `B` trees, `C` classes, `E` embedding size, `H` hidden size. The state of a node is
a tuple of float32 `[1, size]` rows, the hidden row first: a row feeds one MatMul as it is.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.models import losses, recursion
from recgraph.models.hyper import Hyper, State


class Network(tf.Module):
    """Weights with seeded first values, and the SubGraphs that use them. `hyper` has `l2` and the optimizer's rates.

    Attributes:
      engine, gradient, optimize: of the SubGraphs that are made from now on.
    """

    def __init__(self, hyper: Any, seed: int = 0):
        """Sets up the source of initial weights.

        Args:
          hyper: hyper-parameters, with `l2`, `learning_rate` and `embedding_rate`.
          seed: of the initial weights.
        """
        super().__init__(name=type(self).__name__.lower())
        self.hyper = hyper
        self.engine, self.gradient = "auto", "cache"
        self.optimize: bool | None = None
        self._random = np.random.default_rng(seed)

    def subgraph(self, purpose: str, inputs: Any, outputs: Any) -> Any:
        """A SubGraph with the model's engine and way to the gradient."""
        return rg.SubGraph(
            f"{self.name}_{purpose}",
            inputs=inputs,
            outputs=outputs,
            engine=self.engine,
            gradient=self.gradient,
            optimize=self.optimize,
        )

    def _matrix(self, name: str, rows: int, columns: int, bound: float | None = None) -> tf.Variable:
        """A weight matrix, uniform within `bound`, by default 1/sqrt(rows)."""
        bound = 1.0 / math.sqrt(rows) if bound is None else bound
        return self._variable(name, self._random.uniform(-bound, bound, (rows, columns)).astype(np.float32))

    def _zeros(self, name: str, size: int) -> tf.Variable:
        return self._variable(name, np.zeros([size], np.float32))

    def _variable(self, name: str, first: np.ndarray) -> tf.Variable:
        """A weight, on the host, where SubGraphs run; beside a GPU TensorFlow would make it there."""
        with tf.device("CPU:0"):
            return tf.Variable(first, name=name)


class WordNetwork(Network):
    """A network that reads words: it has an embedding, which L2 and Adagrad leave alone."""

    def __init__(self, vocabulary_size: int, hyper: Any, vectors: np.ndarray | None = None, seed: int = 0):
        """See `TreeModel`."""
        super().__init__(hyper, seed)
        self.embedding = self._variable("embedding", self._first_vectors(vocabulary_size, vectors))

    def embed(self, words: tf.Tensor) -> tf.Tensor:
        """Word vectors, float32 `[n, E]`, of words int32 `[n]`. Read from the variable, so the gradient is sparse."""
        return tf.gather(self.embedding, words)

    @property
    def weights(self) -> tuple[tf.Variable, ...]:
        """All variables but the embedding."""
        return tuple(v for v in self.trainable_variables if v is not self.embedding)

    def rate(self, weight: tf.Variable) -> float:
        """Adagrad's learning rate for one of `weights`."""
        return self.hyper.learning_rate

    def _first_vectors(self, rows: int, vectors: np.ndarray | None) -> np.ndarray:
        shape = (rows, self.hyper.embedding)
        if vectors is None:
            scale = self.hyper.embedding_scale
            return self._random.uniform(-scale, scale, shape).astype(np.float32)
        if vectors.shape != shape:
            raise ValueError(
                f"vectors: expected shape {shape} (vocabulary, embedding), found {vectors.shape}. "
                f"Set Hyper.embedding to {vectors.shape[-1]}, or look the vectors up for this vocabulary."
            )
        return np.asarray(vectors, np.float32)


class TreeModel(WordNetwork):
    """A network over binary trees, defined by its state at leaves and at inner nodes.

    A subclass provides `defaults`, `state_sizes`, `leaf` and `compose`; `recursion.py` has the recursion itself.
    """

    defaults: ClassVar[Hyper]

    def __init__(
        self,
        vocabulary_size: int,
        hyper: Hyper | None = None,
        vectors: np.ndarray | None = None,
        seed: int = 0,
    ):
        """Creates the weights.

        Args:
          vocabulary_size: rows of the embedding.
          hyper: hyper-parameters; by default the class's `defaults`.
          vectors: initial word vectors, float32 `[vocabulary_size, E]`; random by default.
          seed: of the initial weights.

        Raises:
          ValueError: `vectors` has another shape.
        """
        super().__init__(vocabulary_size, hyper or self.defaults, vectors, seed)
        self.output_kernel = self._matrix("output_kernel", self.hyper.hidden, self.hyper.classes)
        self.output_bias = self._zeros("output_bias", self.hyper.classes)

    def leaf(self, vector: tf.Tensor) -> State:
        """Computes the state of a leaf.

        Args:
          vector: the word's vector, float32 `[1, E]`.

        Returns:
          The rows of the state, float32 `[1, size]` for each of `state_sizes`.
        """
        raise NotImplementedError

    def compose(self, left: State, right: State) -> State:
        """Computes the state of an inner node.

        Args:
          left: state of the left child, float32 `[1, size]` for each of `state_sizes`.
          right: state of the right child, likewise.

        Returns:
          The state, likewise.
        """
        raise NotImplementedError

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The sizes of the rows that make up a state, the hidden row first."""
        return (self.hyper.hidden,)

    def logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """Class scores, float32 `[n, C]`, of hidden rows, float32 `[n, H]`."""
        return tf.nn.bias_add(tf.matmul(hidden, self.output_kernel), self.output_bias)

    def loss(self, batch: Any, dropout_seed: tf.Tensor | losses.Draws | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the cross-entropy at every labelled node of a batch.

        Args:
          batch: a `recgraph.data.TreeBatch` of B trees.
          dropout_seed: int32 `[2]`, or `Draws`; seeds dropout, and None disables it.

        Returns:
          The sum over all nodes, a float32 scalar, and the class scores at the roots, float32 `[B, C]`.
        """
        return recursion.loss(self, batch, dropout_seed)

    def predict(self, batch: Any) -> tf.Tensor:
        """Computes the class scores of every node.

        Args:
          batch: a `recgraph.data.TreeBatch` of N nodes.

        Returns:
          float32 `[N, C]`, in the order of the batch.
        """
        return recursion.predict(self, batch)
