"""What a model is made with, and what its cells give: names that all models and their parts share."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

# The state of a node: rows `[1, size]`, the hidden row first.
State = tuple[tf.Tensor, ...]


@dataclasses.dataclass(frozen=True)
class Hyper:
    """Hyper-parameters of a model and of its training.

    Attributes:
      embedding: size of a word vector.
      hidden: size of a node's hidden row.
      classes: 5 for fine-grained sentiment, 2 for binary.
      dropout: probability that a hidden unit is dropped before the output, in training.
      l2: coefficient of half the squared norm of all weights but the embedding.
      batch_size: trees a step.
      learning_rate: Adagrad's, for all weights but the embedding; a model may have smaller ones, see `rate`.
      embedding_rate: plain gradient descent's, for the rows of the embedding that a step uses.
      embedding_scale: new word vectors are uniform in [-scale, scale].
    """

    embedding: int
    hidden: int
    classes: int = 5
    dropout: float = 0.0
    l2: float = 1e-4
    batch_size: int = 25
    learning_rate: float = 0.05
    embedding_rate: float = 0.1
    embedding_scale: float = 0.05
