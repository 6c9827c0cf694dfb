"""BERT (Devlin et al., 2019): the encoder that programs put their heads on."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from recgraph.models.zoo.layers import Attention, TransformerBlock

# Two words of every vocabulary that no text has.
START, SEPARATOR = 0, 1
SPECIAL = 2


@dataclasses.dataclass(frozen=True)
class Size:
    """Of the encoder, and of its input."""

    vocabulary: int
    length: int
    width: int
    heads: int
    blocks: int
    dropout: float = 0.1


class Bert(tf.keras.Model):
    """Embeddings of words, of their places and of the parts that they are in; then blocks."""

    def __init__(self, size: Size, outputs: int, by_row: bool):
        """Args: sizes, the number of scores, and whether each row has them or the first one for all."""
        super().__init__()
        self.by_row = by_row
        self.words = tf.keras.layers.Embedding(size.vocabulary, size.width)
        self.parts = tf.keras.layers.Embedding(2, size.width)
        self.places = tf.keras.layers.Embedding(size.length, size.width)
        self.norm = tf.keras.layers.LayerNormalization(epsilon=1e-6)
        self.dropout = tf.keras.layers.Dropout(size.dropout)
        self.blocks = [
            TransformerBlock(Attention(size.width, size.heads), size.width, size.dropout) for _ in range(size.blocks)
        ]
        self.head = tf.keras.layers.Dense(outputs)

    def call(self, words: tf.Tensor, parts: tf.Tensor) -> tf.Tensor:
        """Scores, float32 `[B, T, outputs]`, or `[B, outputs]` if not by row, of words and parts, int32 `[B, T]`."""
        rows = self.words(words) + self.parts(parts) + self.places(tf.range(tf.shape(words)[1]))
        rows = self.dropout(self.norm(rows))
        for block in self.blocks:
            rows = block(rows, tf.zeros([]))
        return self.head(rows if self.by_row else rows[:, 0])


def make(size: Size, outputs: int, by_row: bool) -> Bert:
    """A built encoder with the same weights each time."""
    tf.keras.utils.set_random_seed(0)
    network = Bert(size, outputs, by_row)
    network(tf.zeros([1, size.length], tf.int32), tf.zeros([1, size.length], tf.int32))
    return network
