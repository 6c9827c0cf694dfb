"""Music Transformer (Huang et al., 2019): attention by distance, in objects that remember what they saw last."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.layers import Attention, TransformerBlock, later
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer


class RelativeAttention(Attention):
    """Adds to each score a product of the query with a vector for the distance.

    Attributes:
      length: of the last text.
    """

    def __init__(self, width: int, heads: int, max_length: int):
        """Args: sizes, and the length of the longest text."""
        super().__init__(width, heads)
        self.max_length, self.length = max_length, 0
        self.distances = self.add_weight(shape=(max_length, self.size), initializer="uniform", name="distances")

    def scores(self, queries: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """See `Attention`."""
        self.length = int(keys.shape[2])
        near = self.distances[max(0, self.max_length - self.length) :]
        by_distance = self.skewed(tf.einsum("bhts,rs->bhtr", queries, near))
        products = tf.matmul(queries, keys, transpose_b=True) + by_distance
        return products / tf.sqrt(float(self.size))

    def skewed(self, products: tf.Tensor) -> tf.Tensor:
        """Row t moved to the left by T - 1 - t, so that a column is a place; float32 `[B, heads, T, T]`."""
        padded = tf.pad(products, [[0, 0], [0, 0], [0, 0], [1, 0]])
        turned = tf.reshape(padded, [-1, self.heads, self.length + 1, self.length])
        return turned[:, :, 1:, :]


class Network(tf.keras.Model):
    """Embeddings of events, and blocks."""

    def __init__(self, events: int, max_length: int, width: int, heads: int, blocks: int):
        """Args: how many kinds of event, and sizes."""
        super().__init__()
        self.events = tf.keras.layers.Embedding(events, width)
        self.blocks = [TransformerBlock(RelativeAttention(width, heads, max_length), width, 0.1) for _ in range(blocks)]
        self.head = tf.keras.layers.Dense(events)

    def call(self, events: tf.Tensor) -> tf.Tensor:
        """Scores of the event after each, float32 `[B, T, events]`, of events, int32 `[B, T]`."""
        rows = self.events(events) * tf.sqrt(float(self.events.output_dim))
        hidden = later(tf.shape(events)[1])
        for block in self.blocks:
            rows = block(rows, hidden)
        return self.head(rows)


class MusicTransformer(Trainer):
    """The network with its training.

    Attributes:
      steps: how many there have been.
      last_loss: of the last step, float32 scalar; None before the first.
      accuracies: of each step.
      patience: how many steps in a row have not been better than the best.
    """

    def __init__(
        self,
        events: int = 388,
        max_length: int = 64,
        width: int = 128,
        heads: int = 4,
        blocks: int = 3,
        warm_up: int = 400,
    ):
        """Args: how many kinds of event, sizes, and the steps until the learning rate is highest."""
        tf.keras.utils.set_random_seed(0)
        self.network = Network(events, max_length, width, heads, blocks)
        self.network(tf.zeros([1, max_length], tf.int32))
        super().__init__((self.network, tf.keras.optimizers.Adam(0.0)))
        self.width, self.warm_up, self.steps, self.patience = width, warm_up, 0, 0
        self.last_loss: tf.Tensor | None = None
        self.accuracies: list[float] = []

    def rate(self) -> float:
        """The learning rate of this step: it rises, then falls with the root of the number of steps."""
        return 0.1 * self.width**-0.5 * min(self.steps**-0.5, self.steps * self.warm_up**-1.5)

    def train_step(self, events: tf.Tensor, following: tf.Tensor) -> tf.Tensor:
        """One step.

        Args:
          events: int32 `[B, T]`.
          following: those after them, int32 `[B, T]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        self.steps += 1
        with tf.GradientTape() as tape:
            scores = self.network(events, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=following, logits=scores)
            loss = tf.reduce_mean(losses)
        right = np.equal(tf.argmax(scores, 2).numpy(), following.numpy())
        self.patience = 0 if right.mean() > max(self.accuracies, default=0.0) else self.patience + 1
        self.accuracies.append(float(right.mean()))
        self.last_loss = loss
        self.pairs[0][1].learning_rate = self.rate()
        self.learn(tape, loss)
        return loss


def _make(small: bool) -> MusicTransformer:
    return MusicTransformer(20, 12, 16, 2, 2, 8) if small else MusicTransformer()


def _steps(batch_size: int, small: bool) -> list[Step]:
    length, events = (12, 20) if small else (64, 388)
    return generated.sequences(generated.text(10 * batch_size * length + 1, events), batch_size, length)


MUSIC_TRANSFORMER = Program(
    "MusicTransformer", _make, _steps, 8, 3, "events", lambda step: int(tf.size(step[0])), "MAESTRO"
)
