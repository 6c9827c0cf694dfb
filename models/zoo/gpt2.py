"""GPT-2 (Radford et al., 2019): a language model over sentences as long as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from recgraph.models.zoo import generated, real
from recgraph.models.zoo.layers import Attention, TransformerBlock, later
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer

# Fills up the shorter sentences of a batch.
PADDING = 0


class Network(tf.keras.Model):
    """Embeddings of words and places, and blocks that look back; words are predicted by their own embeddings."""

    def __init__(self, vocabulary: int, max_length: int, width: int, heads: int, blocks: int, dropout: float):
        """Args: sizes, and the rate of dropout."""
        super().__init__()
        self.words = tf.keras.layers.Embedding(vocabulary, width)
        self.places = tf.keras.layers.Embedding(max_length, width)
        self.dropout = tf.keras.layers.Dropout(dropout)
        self.blocks = [
            TransformerBlock(Attention(width, heads), width, dropout, norm_first=True) for _ in range(blocks)
        ]
        self.norm = tf.keras.layers.LayerNormalization(epsilon=1e-5)

    def call(self, words: tf.Tensor) -> tf.Tensor:
        """Scores of the word after each, float32 `[B, T, vocabulary]`, of words, int32 `[B, T]`."""
        length = tf.shape(words)[1]
        rows = self.dropout(self.words(words) + self.places(tf.range(length)))
        hidden = later(length)
        for block in self.blocks:
            rows = block(rows, hidden)
        return tf.einsum("btw,vw->btv", self.norm(rows), self.words.embeddings)


class GPT2(Trainer):
    """The network with its training."""

    def __init__(
        self,
        vocabulary: int = 5000,
        max_length: int = 64,
        width: int = 128,
        heads: int = 4,
        blocks: int = 2,
        dropout: float = 0.1,
        rate: float = 1e-3,
    ):
        """Args: sizes, the rate of dropout, and Adam's learning rate."""
        tf.keras.utils.set_random_seed(0)
        self.network = Network(vocabulary, max_length, width, heads, blocks, dropout)
        self.network(tf.zeros([1, max_length], tf.int32))
        super().__init__((self.network, tf.keras.optimizers.Adam(rate)))

    def train_step(self, words: tf.Tensor) -> tf.Tensor:
        """One step.

        Args:
          words: sentences, filled up with `PADDING`, int32 `[B, T]`; T is another one in each batch.

        Returns:
          The mean loss of a word before it, float32 scalar.
        """
        inputs, targets = words[:, :-1], words[:, 1:]
        with tf.GradientTape() as tape:
            scores = self.network(inputs, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=scores)
            counted = tf.cast(targets != PADDING, tf.float32)
            loss = tf.reduce_sum(losses * counted) / tf.reduce_sum(counted)
        self.learn(tape, loss, max_norm=1.0)
        return loss


def _make(small: bool) -> GPT2:
    return GPT2(50, 16, 16, 2, 2) if small else GPT2()


def sentences(count: int, longest: int, vocabulary: int, seed: int = 0) -> list[np.ndarray]:
    """Pieces of a generated text, of 4 to `longest` words without `PADDING`; int32."""
    random = np.random.default_rng(seed)
    lengths = random.integers(4, longest + 1, count)
    words = generated.text(int(lengths.sum()), vocabulary - 1) + 1
    return np.split(words, np.cumsum(lengths)[:-1])


def _batches(found: list[np.ndarray], batch_size: int) -> list[Step]:
    made = []
    for start in range(0, len(found), batch_size):
        batch = found[start : start + batch_size]
        rows = np.full((len(batch), max(map(len, batch))), PADDING, np.int32)
        for row, words in zip(rows, batch, strict=True):
            row[: len(words)] = words
        made.append((tf.constant(rows),))
    return made


def _steps(batch_size: int, small: bool) -> list[Step]:
    longest, vocabulary = (16, 50) if small else (64, 5000)
    return _batches(sentences(10 * batch_size, longest, vocabulary), batch_size)


def _real(folder: Path, batch_size: int) -> list[Step]:
    return _batches(real.sentences(folder, 10 * batch_size, 64, 5000), batch_size)


GPT2_TEXT = Program("GPT2", _make, _steps, 6, 3, "sentences", lambda step: len(step[0]), "WikiText", _real)
