"""Faster R-CNN (Ren et al., 2015): boxes are proposed, chosen from by NumPy in mid-step, and classified."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from recgraph.models.zoo import boxes, generated
from recgraph.models.zoo.layers import ConvolutionBlock
from recgraph.models.zoo.program import Program, Step
from recgraph.models.zoo.trainer import Trainer

# Boxes that overlap an object by more are examples of it, and by less than the second of nothing.
MATCH, NO_MATCH = 0.5, 0.3
SIZES = (0.25, 0.45)
CROP = 4


class Proposer(tf.keras.Model):
    """The first stage: a map of the image, and for each anchor whether there is something near it, and where."""

    def __init__(self, width: int):
        """Args: channels of the map."""
        super().__init__()
        self.map = tf.keras.Sequential([ConvolutionBlock(width * 2**i // 4, stride=2) for i in range(3)])
        self.look = tf.keras.layers.Conv2D(width, 3, padding="same", activation="relu")
        self.propose = tf.keras.layers.Conv2D(5 * len(SIZES), 1)

    def call(self, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The map and proposals of images.

        Args:
          images: float32 `[B, size, size, 3]`.

        Returns:
          float32 `[B, size / 8, size / 8, width]`, and a score and four moves for each anchor, `[B, anchors, 5]`.
        """
        features = self.map(images)
        found = self.propose(self.look(features))
        return features, tf.reshape(found, [tf.shape(found)[0], -1, 5])


class Classifier(tf.keras.Model):
    """The second stage: what is in a region of a map, and where."""

    def __init__(self, width: int, classes: int):
        """Args: channels of the map, and the number of classes with 0, which is nothing."""
        super().__init__()
        self.classes = classes
        self.hidden = tf.keras.layers.Dense(2 * width, activation="relu")
        self.head = tf.keras.layers.Dense(5 * classes)

    def call(self, features: tf.Tensor, regions: tf.Tensor, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores, float32 `[R, classes]`, and moves for each class, `[R, classes, 4]`.

        Args:
          features: float32 `[B, h, w, width]`.
          regions: boxes, float32 `[R, 4]`.
          images: the number of the image that each is on, int32 `[R]`.
        """
        crops = tf.image.crop_and_resize(features, regions, images, [CROP, CROP])
        found = self.head(self.hidden(tf.reshape(crops, [tf.shape(crops)[0], CROP * CROP * crops.shape[3]])))
        return found[:, : self.classes], tf.reshape(found[:, self.classes :], [-1, self.classes, 4])


class Network(tf.keras.Model):
    """Both stages, which are called one by one."""

    def __init__(self, size: int, width: int, classes: int):
        """Args: height and width of an image, channels of the map, and the number of classes with 0."""
        super().__init__()
        self.proposer, self.classifier = Proposer(width), Classifier(width, classes)
        features, _ = self.proposer(tf.zeros([1, size, size, 3]))
        self.classifier(features, tf.zeros([1, 4]), tf.zeros([1], tf.int32))


class Targets(NamedTuple):
    """What is right for some boxes: a class, or -1 where it does not matter, int32 `[n]`; moves, float32 `[n, 4]`."""

    classes: np.ndarray
    moves: np.ndarray


def targets(found: np.ndarray, objects: np.ndarray, classes: np.ndarray) -> Targets:
    """Of boxes, `[n, 4]`, on an image with objects, `[m, 4]`, of classes, `[m]`."""
    pairs = boxes.overlaps(found, objects)
    nearest, overlap = pairs.argmax(1), pairs.max(1)
    right = np.where(overlap > MATCH, classes[nearest], np.where(overlap < NO_MATCH, 0, -1))
    right[pairs.argmax(0)] = classes  # every object has a box
    return Targets(right.astype(np.int32), boxes.moves(found, objects[nearest]))


def smooth(errors: tf.Tensor) -> tf.Tensor:
    """Squares of small errors and sizes of large ones, summed over the last axis."""
    size = tf.abs(errors)
    return tf.reduce_sum(tf.where(size < 1.0, 0.5 * errors * errors, size - 0.5), -1)


class FasterRCNN(Trainer):
    """The network with its training.

    Attributes:
      kept: how many proposals each step went on with.
    """

    def __init__(self, size: int = 64, width: int = 64, classes: int = 5, proposals: int = 32):
        """Args: height and width of an image, channels, the number of classes, and proposals an image."""
        tf.keras.utils.set_random_seed(0)
        self.network = Network(size, width, classes + 1)
        super().__init__((self.network, tf.keras.optimizers.Adam(1e-3)))
        self.anchors = boxes.anchors(size // 8, SIZES)
        self.proposals = proposals
        self.kept: list[int] = []

    def chosen(self, found: np.ndarray) -> np.ndarray:
        """The best proposals of an image, float32 `[n, 4]`, of what the first stage said of it, `[anchors, 5]`."""
        candidates = boxes.moved(self.anchors, found[:, 1:])
        return candidates[boxes.best(candidates, found[:, 0], self.proposals)]

    def first_loss(self, found: tf.Tensor, objects: np.ndarray, classes: np.ndarray) -> tf.Tensor:
        """Of the proposals, float32 `[B, anchors, 5]`: whether there is something, and where."""
        right = [targets(self.anchors, o[c > 0], c[c > 0]) for o, c in zip(objects, classes, strict=True)]
        labels = np.stack([one.classes for one in right])
        losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.constant(labels > 0, tf.float32), found[:, :, 0])
        distances = smooth(found[:, :, 1:] - np.stack([one.moves for one in right]))
        return mean(losses, labels >= 0) + mean(distances, labels > 0)

    def second_loss(
        self, features: tf.Tensor, proposals: list[np.ndarray], objects: np.ndarray, classes: np.ndarray
    ) -> tf.Tensor:
        """Of the classes of proposals, and of where their objects are."""
        right = [targets(found, o[c > 0], c[c > 0]) for found, o, c in zip(proposals, objects, classes, strict=True)]
        images = np.repeat(np.arange(len(proposals), dtype=np.int32), [len(found) for found in proposals])
        scores, moves = self.network.classifier(features, np.concatenate(proposals), images)
        labels = np.concatenate([one.classes for one in right])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(np.maximum(labels, 0), scores)
        own = tf.gather(moves, np.maximum(labels, 0), batch_dims=1)
        distances = smooth(own - np.concatenate([one.moves for one in right]))
        return mean(losses, labels >= 0) + mean(distances, labels > 0)

    def train_step(self, images: tf.Tensor, objects: tf.Tensor, classes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """One step of both stages.

        Args:
          images: float32 `[B, size, size, 3]`.
          objects: boxes, float32 `[B, M, 4]`.
          classes: of them from 1, int32 `[B, M]`; 0 is no object.

        Returns:
          The losses of the stages before it, float32 scalars.
        """
        right = objects.numpy(), classes.numpy()
        with tf.GradientTape() as tape:
            features, found = self.network.proposer(images, training=True)
            proposals = [self.chosen(one) for one in found.numpy()]
            self.kept.append(sum(map(len, proposals)))
            first = self.first_loss(found, *right)
            second = self.second_loss(features, proposals, *right)
            loss = first + second
        self.learn(tape, loss, max_norm=10.0)
        return first, second


def mean(values: tf.Tensor, counted: np.ndarray) -> tf.Tensor:
    """Over the entries that count, float32 scalar; 0 if none does."""
    return tf.reduce_sum(values * counted.astype(np.float32)) / max(1.0, float(counted.sum()))


def _make(small: bool) -> FasterRCNN:
    return FasterRCNN(32, 16, 3, 6) if small else FasterRCNN()


def _steps(batch_size: int, small: bool) -> list[Step]:
    size, classes = (32, 3) if small else (64, 5)
    return generated.batches(boxes.scenes(8 * batch_size, size, classes, 3), batch_size)


FASTER_RCNN = Program("FasterRCNN", _make, _steps, 8, 2, "images", lambda step: len(step[0]), "PASCAL VOC")
