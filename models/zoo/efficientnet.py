"""EfficientNet (Tan and Le, 2019): inverted bottlenecks that weigh their channels, and some left out in training."""

from __future__ import annotations

import tensorflow as tf

from recgraph.models.zoo import generated
from recgraph.models.zoo.layers import ConvolutionBlock
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer


class Depthwise(tf.keras.layers.DepthwiseConv2D):
    """A convolution of each channel by itself, called as `Conv2D` is."""

    def __init__(self, filters: int, size: int, stride: int, **options: object):
        """Args: channels, which stay as many; width of the kernel, stride, and options of the layer."""
        super().__init__(size, stride, **options)
        self.filters = filters


class Weighing(tf.keras.layers.Layer):
    """Multiplies each channel by what the means of all say (Hu et al., 2018)."""

    def __init__(self, width: int, narrow: int):
        """Args: channels, and how many numbers are made of their means."""
        super().__init__()
        self.inner = tf.keras.layers.Dense(narrow, activation="swish")
        self.outer = tf.keras.layers.Dense(width, activation="sigmoid")

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, width]`, and so is the result."""
        means = tf.reduce_mean(images, [1, 2], keepdims=True)
        return images * self.outer(self.inner(means))


class Bottleneck(tf.keras.layers.Layer):
    """Wide inside; where input and output fit it is added to its input, and in training sometimes left out."""

    def __init__(self, inputs: int, outputs: int, stride: int, left_out: float):
        """Args: channels before and after, stride, and how often it is left out."""
        super().__init__()
        wide = 4 * inputs
        self.widen = ConvolutionBlock(wide, 1, activation="swish")
        self.filter = ConvolutionBlock(wide, 3, stride, "swish", Depthwise)
        self.weigh = Weighing(wide, max(1, inputs // 4))
        self.narrow = ConvolutionBlock(outputs, 1, activation=None)
        self.drop = tf.keras.layers.Dropout(left_out, noise_shape=(None, 1, 1, 1))
        self.is_added = inputs == outputs and stride == 1

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, inputs]` to `[B, h / stride, w / stride, outputs]`."""
        state = self.narrow(self.weigh(self.filter(self.widen(images))))
        return images + self.drop(state) if self.is_added else state


class Network(tf.keras.Model):
    """A stem, stages of bottlenecks of which each halves the map, and a dense layer."""

    def __init__(self, width: int, blocks: tuple[int, ...], classes: int, left_out: float):
        """Args: channels of the stem, bottlenecks a stage, the number of classes, how often the last is left out."""
        super().__init__()
        self.stem = ConvolutionBlock(width, stride=2, activation="swish")
        self.bottlenecks, channels, total = [], width, sum(blocks)
        for i, count in enumerate(blocks):
            for j in range(count):
                rate = left_out * len(self.bottlenecks) / total
                self.bottlenecks.append(Bottleneck(channels, width * (i + 1), 2 if j == 0 else 1, rate))
                channels = width * (i + 1)
        self.drop = tf.keras.layers.Dropout(0.2)
        self.classify = tf.keras.layers.Dense(classes)

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Scores, float32 `[B, classes]`, of images, float32 `[B, h, w, 3]`."""
        state = self.stem(images)
        for bottleneck in self.bottlenecks:
            state = bottleneck(state)
        return self.classify(self.drop(tf.reduce_mean(state, [1, 2])))


class EfficientNet(Trainer):
    """The network with its training: smoothed labels, RMSProp, a rate that falls, and a running mean of the weights.

    Attributes:
      averages: of the weights, in their order.
    """

    def __init__(
        self,
        size: int = 32,
        width: int = 16,
        blocks: tuple[int, ...] = (2, 2, 3),
        classes: int = 100,
        rate: float = 2e-3,
    ):
        """Args: height and width of an image, sizes, and the learning rate at the beginning."""
        tf.keras.utils.set_random_seed(0)
        self.network = Network(width, blocks, classes, 0.2)
        self.network(tf.zeros([1, size, size, 3]))
        schedule = tf.keras.optimizers.schedules.ExponentialDecay(rate, 200, 0.97)
        super().__init__((self.network, tf.keras.optimizers.RMSprop(schedule, 0.9, momentum=0.9, epsilon=1e-3)))
        self.loss = tf.keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
        self.classes = classes
        self.averages = [tf.Variable(weight.value, trainable=False) for weight in self.network.trainable_variables]

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*super().variables, *self.averages]

    def train_step(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """One step.

        Args:
          images: float32 `[B, size, size, 3]`.
          labels: int32 `[B]`.

        Returns:
          The mean loss before it, float32 scalar.
        """
        with tf.GradientTape() as tape:
            loss = self.loss(tf.one_hot(labels, self.classes), self.network(images, training=True))
        self.learn(tape, loss)
        for average, weight in zip(self.averages, self.network.trainable_variables, strict=True):
            average.assign_sub(0.01 * (average - weight.value))
        return loss


def _make(small: bool) -> EfficientNet:
    return EfficientNet(16, 4, (1, 2), 5) if small else EfficientNet()


def _steps(batch_size: int, small: bool) -> list[Step]:
    size, classes = (16, 5) if small else (32, 100)
    return generated.batches(generated.images(15 * batch_size // 2, size, 3, classes), batch_size)


EFFICIENTNET = Program("EfficientNet", _make, _steps, 12, 4, "images", lambda step: len(step[0]), "ImageNet")
