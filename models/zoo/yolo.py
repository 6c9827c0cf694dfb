"""YOLOv3 (Redmon and Farhadi, 2018): boxes, of all sizes at once, from maps of two scales."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from recgraph.models.zoo import boxes, generated
from recgraph.models.zoo.layers import ConvolutionBlock
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer

# What is told of each step.
PARTS = ("boxes", "objects", "classes")


class Residual(tf.keras.layers.Layer):
    """A narrow and a wide convolution, added to their input."""

    def __init__(self, width: int):
        """Args: channels."""
        super().__init__()
        self.narrow = ConvolutionBlock(width // 2, 1, activation="leaky_relu")
        self.wide = ConvolutionBlock(width, activation="leaky_relu")

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, width]`, and so is the result."""
        return images + self.wide(self.narrow(images))


class Network(tf.keras.Model):
    """A small Darknet, and a map of boxes from its last two stages, the coarse one made larger for the fine one."""

    def __init__(self, width: int, residuals: int, outputs: int):
        """Args: channels of the first stage, residual blocks a stage, and numbers a box."""
        super().__init__()
        self.stages = [
            tf.keras.Sequential(
                [
                    ConvolutionBlock(width * 2**i, stride=2, activation="leaky_relu"),
                    *(Residual(width * 2**i) for _ in range(residuals)),
                ]
            )
            for i in range(4)
        ]
        self.up = ConvolutionBlock(4 * width, 1, activation="leaky_relu")
        self.enlarge = tf.keras.layers.UpSampling2D(2)
        self.join = ConvolutionBlock(4 * width, activation="leaky_relu")
        self.heads = [tf.keras.layers.Conv2D(outputs, 1) for _ in range(2)]

    def call(self, images: tf.Tensor) -> list[tf.Tensor]:
        """The fine and the coarse map, float32 `[B, size / 8, size / 8, outputs]` and half of it each way."""
        state, maps = images, []
        for stage in self.stages:
            state = stage(state)
            maps.append(state)
        fine = self.join(tf.concat([maps[-2], self.enlarge(self.up(maps[-1]))], 3))
        return [head(found) for head, found in zip(self.heads, (fine, maps[-1]), strict=True)]


def extents(found: tf.Tensor) -> tf.Tensor:
    """Areas of boxes, float32 `[..., 4]`; what is the wrong way round has none."""
    sides = tf.maximum(found[..., 2:] - found[..., :2], 0.0)
    return sides[..., 0] * sides[..., 1]


def generous(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """The generalised intersection over union (Rezatofighi et al., 2019) of pairs of boxes, float32 `[..., 4]`."""
    inner = tf.concat([tf.maximum(one[..., :2], other[..., :2]), tf.minimum(one[..., 2:], other[..., 2:])], -1)
    outer = tf.concat([tf.minimum(one[..., :2], other[..., :2]), tf.maximum(one[..., 2:], other[..., 2:])], -1)
    common, around = extents(inner), extents(outer)
    union = extents(one) + extents(other) - common
    return common / (union + 1e-6) - (around - union) / (around + 1e-6)


class YOLO(Trainer):
    """The network with its training.

    Attributes:
      step: how many there have been, int64 variable, as the program's schedule wants it.
      means: of the parts of the loss so far, by name.
    """

    def __init__(
        self,
        size: int = 64,
        width: int = 16,
        residuals: int = 1,
        classes: int = 5,
        warm_up: int = 20,
        total: int = 1000,
        rate: float = 1e-3,
    ):
        """Args: height and width of an image, sizes, the number of classes, and the schedule of the learning rate."""
        tf.keras.utils.set_random_seed(0)
        self.classes = classes
        self.network = Network(width, residuals, 5 + classes)
        self.network(tf.zeros([1, size, size, 3]))
        super().__init__((self.network, tf.keras.optimizers.Adam(rate)))
        self.step = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.warm_up, self.total, self.rate = warm_up, total, rate
        self.means = {part: tf.keras.metrics.Mean(name=part) for part in PARTS}

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*super().variables, self.step, *(v for mean in self.means.values() for v in mean.variables)]

    def schedule(self) -> None:
        """The learning rate of the next step: it rises, then falls as a cosine does."""
        self.step.assign_add(1)
        done = tf.cast(self.step, tf.float32)
        if done < self.warm_up:
            rate = done / self.warm_up * self.rate
        else:
            part = (done - self.warm_up) / (self.total - self.warm_up)
            rate = 0.5 * self.rate * (1.0 + tf.cos(part * math.pi))
        self.pairs[0][1].learning_rate.assign(rate)

    def losses(self, found: tf.Tensor, right: tf.Tensor) -> list[tf.Tensor]:
        """The parts of the loss of a map, float32 scalars, by a map of what is right, see `train_step`."""
        cells = tf.shape(found)[1]
        steps = (tf.cast(tf.range(cells), tf.float32) + 0.5) / tf.cast(cells, tf.float32)
        middle = tf.stack(tf.meshgrid(steps, steps, indexing="ij"), -1) + 0.1 * tf.tanh(found[..., :2])
        half = 0.25 * tf.exp(tf.clip_by_value(found[..., 2:4], -2.0, 1.0))
        predicted = tf.concat([middle - half, middle + half], -1)
        is_object = right[..., 4] > 0.5
        targets = tf.boolean_mask(right, is_object)
        count = tf.maximum(tf.cast(tf.shape(targets)[0], tf.float32), 1.0)
        agreement = generous(tf.boolean_mask(predicted, is_object), targets[:, :4])
        certain = tf.nn.sigmoid_cross_entropy_with_logits(labels=right[..., 4], logits=found[..., 4])
        classes = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=targets[:, 5:], logits=tf.boolean_mask(found[..., 5:], is_object)
        )
        return [tf.reduce_sum(1.0 - agreement) / count, tf.reduce_mean(certain), tf.reduce_sum(classes) / count]

    def train_step(self, images: tf.Tensor, fine: tf.Tensor, coarse: tf.Tensor) -> tf.Tensor:
        """One step.

        Args:
          images: float32 `[B, size, size, 3]`.
          fine: for each cell a box, 1 if there is an object, and a 1 for its class, float32
            `[B, size / 8, size / 8, 5 + classes]`.
          coarse: the same for cells twice as large.

        Returns:
          The loss before it, float32 scalar.
        """
        self.schedule()
        with tf.GradientTape() as tape:
            maps = self.network(images, training=True)
            found = [self.losses(one, right) for one, right in zip(maps, (fine, coarse), strict=True)]
            parts = [sum(one) for one in zip(*found, strict=True)]
            loss = sum(parts)
        self.learn(tape, loss)
        for part, value in zip(PARTS, parts, strict=True):
            self.means[part].update_state(value)
        return loss


def targets(found: boxes.Scenes, cells: int, classes: int) -> np.ndarray:
    """For each cell the object whose middle is in it; see `YOLO.train_step`."""
    made = np.zeros((len(found.images), cells, cells, 5 + classes), np.float32)
    for image, objects, labels in zip(made, found.boxes, found.classes, strict=True):
        for box, label in zip(objects[labels > 0], labels[labels > 0], strict=True):
            row, column = ((box[:2] + box[2:]) / 2 * cells).astype(int)
            image[row, column] = [*box, 1.0, *np.eye(classes)[label - 1]]
    return made


def _make(small: bool) -> YOLO:
    return YOLO(32, 4, 1, 3, 4, 40) if small else YOLO()


def _steps(batch_size: int, small: bool) -> list[Step]:
    size, classes = (32, 3) if small else (64, 5)
    found = boxes.scenes(8 * batch_size, size, classes, 3)
    maps = [targets(found, cells, classes) for cells in (size // 8, size // 16)]
    return generated.batches((found.images, *maps), batch_size)


YOLO_V3 = Program("YOLOv3", _make, _steps, 6, 2, "images", lambda step: len(step[0]), "COCO")
