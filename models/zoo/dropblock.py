"""DropBlock (Ghiasi et al., 2018): blocks of a map are dropped, more of them the longer the training."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.layers import ConvolutionBlock
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer


class DropBlock(tf.keras.layers.Layer):
    """Drops squares of a map.

    Attributes:
      keep: how much is kept; whoever trains lowers it.
    """

    def __init__(self, block: int, random: tf.random.Generator):
        """Args: height and width of a square, and where the squares come from."""
        super().__init__()
        self.block, self.random = block, random
        self.keep = 1.0

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """float32 `[B, h, w, c]`, and so is the result, which keeps the mean size of its numbers."""
        if not training or self.keep >= 1.0:
            return images
        height, width = images.shape[1:3]
        valid = (height - self.block + 1) * (width - self.block + 1)
        seeds = (1.0 - self.keep) * height * width / self.block**2 / valid
        drawn = tf.cast(self.random.uniform(tf.shape(images)) < seeds, tf.float32)
        kept = 1.0 - tf.nn.max_pool2d(drawn, self.block, 1, "SAME")
        return images * kept * tf.cast(tf.size(kept), tf.float32) / tf.maximum(tf.reduce_sum(kept), 1.0)


class Network(tf.keras.Model):
    """Residual stages, with a DropBlock after each of the last two."""

    def __init__(self, width: int, stages: int, classes: int, random: tf.random.Generator):
        """Args: channels of the first stage, how many stages, the number of classes, and where squares come from."""
        super().__init__()
        self.stem = ConvolutionBlock(width)
        self.stages = [
            (ConvolutionBlock(width * 2**i, stride=2), ConvolutionBlock(width * 2**i, activation=None))
            for i in range(stages)
        ]
        self.drops = [DropBlock(3, random) for _ in range(2)]
        self.classify = tf.keras.layers.Dense(classes)

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Scores, float32 `[B, classes]`, of images, float32 `[B, h, w, 3]`."""
        state = self.stem(images)
        for i, (halve, convolve) in enumerate(self.stages):
            state = halve(state)
            state = tf.nn.relu(state + convolve(state))
            if i >= len(self.stages) - len(self.drops):
                state = self.drops[i - len(self.stages)](state)
        return self.classify(tf.reduce_mean(state, [1, 2]))


class DropBlockTraining(Trainer):
    """The network with its schedule.

    Attributes:
      steps: how many there have been.
    """

    def __init__(
        self, size: int = 32, width: int = 32, stages: int = 3, classes: int = 100, keep: float = 0.8, until: int = 500
    ):
        """Args: height and width of an image, sizes, how much is kept at the end, and the step when it ends."""
        tf.keras.utils.set_random_seed(0)
        self.random = tf.random.Generator.from_seed(0)
        self.network = Network(width, stages, classes, self.random)
        self.network(tf.zeros([1, size, size, 3]))
        super().__init__((self.network, tf.keras.optimizers.SGD(0.05, momentum=0.9)))
        self.keep, self.until, self.steps = keep, until, 0

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*super().variables, self.random.state]

    def schedule(self) -> None:
        """Lowers what is kept, from all to `keep`, at the same pace."""
        self.steps += 1
        done = min(1.0, self.steps / self.until)
        for drop in self.network.drops:
            drop.keep = 1.0 - done * (1.0 - self.keep)

    def train_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """One step with momentum.

        Args:
          images: float32 `[B, size, size, 3]`.
          labels: int32 `[B]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        self.schedule()
        with tf.GradientTape() as tape:
            scores = self.network(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
            loss = tf.reduce_mean(losses)
        self.learn(tape, loss)
        return loss


def _make(small: bool) -> DropBlockTraining:
    return DropBlockTraining(16, 4, 2, 5, 0.5, 10) if small else DropBlockTraining()


def _steps(batch_size: int, small: bool) -> list[Step]:
    size, classes = (16, 5) if small else (32, 100)
    return generated.batches(generated.images(15 * batch_size // 2, size, 3, classes), batch_size)


DROPBLOCK = Program("DropBlock", _make, _steps, 64, 4, "images", lambda step: len(step[0]), "ImageNet")
