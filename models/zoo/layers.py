"""Keras layers that several programs are built of: a normalised convolution, attention, a block of a transformer."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# What hides a position from attention: added to its score.
HIDDEN = -1e9


class ConvolutionBlock(tf.keras.layers.Layer):
    """A convolution, batch normalisation and, if there is one, an activation."""

    def __init__(self, filters: int, size: int = 3, stride: int = 1, activation: str | None = "relu", kind: Any = None):
        """Args: channels of the output, width of the kernel, stride, activation, and the layer if not `Conv2D`."""
        super().__init__()
        made = tf.keras.layers.Conv2D if kind is None else kind
        self.convolution = made(filters, size, stride, padding="same", use_bias=False)
        self.normalisation = tf.keras.layers.BatchNormalization(momentum=0.9)
        self.activation = tf.keras.layers.Activation(activation)

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, c]` to `[B, h / stride, w / stride, filters]`, or times stride where it is transposed."""
        return self.activation(self.normalisation(self.convolution(images)))


class Attention(tf.keras.layers.Layer):
    """Self-attention with several heads (Vaswani et al., 2017)."""

    def __init__(self, width: int, heads: int):
        """Args: the size of a row, and the number of heads that divides it."""
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.inward = tf.keras.layers.Dense(3 * width)
        self.outward = tf.keras.layers.Dense(width)

    def scores(self, queries: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """How much each row looks at each: float32 `[B, heads, T, T]` of `[B, heads, T, size]`."""
        return tf.matmul(queries, keys, transpose_b=True) / tf.sqrt(float(self.size))

    def call(self, rows: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
        """Rows, float32 `[B, T, width]`, mixed.

        Args:
          rows: float32 `[B, T, width]`.
          hidden: 1 where a row may not look, else 0, float32, broadcast to `[B, heads, T, T]`.
        """
        batch, length = tf.shape(rows)[0], tf.shape(rows)[1]
        parts = tf.reshape(self.inward(rows), [batch, length, 3, self.heads, self.size])
        queries, keys, values = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
        weights = tf.nn.softmax(self.scores(queries, keys) + hidden * HIDDEN)
        mixed = tf.transpose(tf.matmul(weights, values), [0, 2, 1, 3])
        return self.outward(tf.reshape(mixed, [batch, length, self.heads * self.size]))


class TransformerBlock(tf.keras.layers.Layer):
    """Attention and two dense layers, each added to its input and normalised: after (BERT) or before (GPT-2)."""

    def __init__(self, attention: Attention, width: int, dropout: float = 0.0, norm_first: bool = False):
        """Args: the attention, the size of a row, the rate of dropout, and whether rows are normalised before."""
        super().__init__()
        self.attention, self.norm_first = attention, norm_first
        self.inner = tf.keras.layers.Dense(4 * width, activation="gelu")
        self.outer = tf.keras.layers.Dense(width)
        self.norms = [tf.keras.layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        self.dropout = tf.keras.layers.Dropout(dropout)

    def call(self, rows: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
        """float32 `[B, T, width]` to the same; for `hidden` see `Attention`."""
        first, second = self.norms
        if self.norm_first:
            rows = rows + self.dropout(self.attention(first(rows), hidden))
            return rows + self.dropout(self.outer(self.inner(second(rows))))
        rows = first(rows + self.dropout(self.attention(rows, hidden)))
        return second(rows + self.dropout(self.outer(self.inner(rows))))


def later(length: tf.Tensor) -> tf.Tensor:
    """What a row of a text may not look at: those after it; float32 `[length, length]`."""
    return 1.0 - tf.linalg.band_part(tf.ones([length, length]), -1, 0)
