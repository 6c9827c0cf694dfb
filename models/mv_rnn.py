"""The matrix-vector network of Socher, Huval, Manning and Ng, "Semantic Compositionality through Recursive
Matrix-Vector Spaces" (EMNLP 2012): a phrase has a vector, what it means, and a matrix, what it does to others."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import tensorflow as tf

from recgraph.models.common import TreeModel
from recgraph.models.hyper import Hyper, State


class MVRNN(TreeModel):
    """`h = tanh([h_left M_right, h_right M_left] W + b)` and `M = [M_left, M_right] V`.

    Rows are vectors, so matrices are the transposes of the paper's. A word's matrix is the identity plus a diagonal and
    a product of `[H, R]` and `[R, H]`; a row of the embedding holds the word's vector, the diagonal and both factors.
    """

    defaults: ClassVar[Hyper] = Hyper(embedding=8 * 25, hidden=25, learning_rate=0.02, embedding_rate=1.0)

    def __init__(
        self,
        vocabulary_size: int,
        hyper: Hyper | None = None,
        vectors: np.ndarray | None = None,
        seed: int = 0,
    ):
        """See `TreeModel`. `embedding` is `(2 + 2 R) hidden`; the paper's R is 3.

        Raises:
          ValueError: it is not.
        """
        super().__init__(vocabulary_size, hyper, vectors, seed)
        embedding, hidden = self.hyper.embedding, self.hyper.hidden
        self.rank, rest = divmod(embedding - 2 * hidden, 2 * hidden)
        if self.rank < 0 or rest != 0:
            raise ValueError(
                f"embedding must be an even multiple of hidden in this model, found {embedding} and {hidden}. "
                "A word has a vector, a diagonal, and as many numbers for each factor of its matrix."
            )
        self.kernel = self._matrix("kernel", 2 * hidden, hidden)
        self.bias = self._zeros("bias", hidden)
        # A phrase does, to begin with, what its words do on average: products of many matrices neither vanish nor grow.
        self.matrix_kernel = self._matrix("matrix_kernel", 2 * hidden, hidden, bound=0.1 / hidden)
        self.matrix_kernel.assign_add(tf.tile(0.5 * tf.eye(hidden), [2, 1]))

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The vector, and the matrix as one row."""
        return (self.hyper.hidden, self.hyper.hidden**2)

    def leaf(self, vector: tf.Tensor) -> State:
        """The word's vector, and its matrix put together."""
        hidden, rank = self.hyper.hidden, self.rank
        own, diagonal, tall, wide = tf.split(vector, [hidden, hidden, hidden * rank, hidden * rank], 1)
        product = tf.matmul(tf.reshape(tall, [hidden, rank]), tf.reshape(wide, [rank, hidden]))
        return own, self._row(tf.linalg.diag(1.0 + diagonal[0]) + product)

    def compose(self, left: State, right: State) -> State:
        """Each child's matrix changes the other's vector; an affine map of both, and a linear one of the matrices."""
        left_matrix, right_matrix = (tf.reshape(child[1], [self.hyper.hidden] * 2) for child in (left, right))
        changed = tf.concat([tf.matmul(left[0], right_matrix), tf.matmul(right[0], left_matrix)], 1)
        vector = tf.tanh(tf.nn.bias_add(tf.matmul(changed, self.kernel), self.bias))
        return vector, self._row(tf.matmul(tf.concat([left_matrix, right_matrix], 1), self.matrix_kernel))

    def _row(self, matrix: tf.Tensor) -> tf.Tensor:
        return tf.reshape(matrix, [1, self.hyper.hidden**2])
