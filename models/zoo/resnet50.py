"""ResNet50 (He et al., 2016), of bottlenecks with shortcuts; sizes by arguments."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph.models.imperative.weights import Momentum
from recgraph.models.zoo import generated
from recgraph.models.zoo.convolutions import Classifier, Convolution
from recgraph.models.zoo.program import Program, Step


class Bottleneck:
    """Three convolutions, and their input added to what they give."""

    def __init__(self, owner: Any, inputs: int, width: int, stride: int):
        """Args: the network, the channels of its input, those of its middle, and the stride of its middle."""
        self.layers = [
            Convolution(owner, (inputs, width), 1),
            Convolution(owner, (width, width), 3, stride),
            Convolution(owner, (width, 4 * width), 1, activation=None),
        ]
        # At first a block gives its input (Goyal et al., 2017): otherwise fifty layers make chaos of rounding.
        scale = self.layers[-1].normalisation.scale
        scale.assign(tf.zeros_like(scale))
        self.shortcut = None
        if stride != 1 or inputs != 4 * width:
            self.shortcut = Convolution(owner, (inputs, 4 * width), 1, stride, activation=None)

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, inputs]` to `[B, h / stride, w / stride, 4 width]`."""
        state = images
        for layer in self.layers:
            state = layer(state)
        if self.shortcut is not None:
            images = self.shortcut(images)
        return tf.nn.relu(state + images)


class ResNet50(Classifier):
    """A stem, four stages of bottlenecks, and a dense layer."""

    def __init__(self, width: int = 64, blocks: tuple[int, ...] = (3, 4, 6, 3), classes: int = 1000, rate: float = 0.1):
        """Args: channels of the stem, bottlenecks of each stage, the number of classes, and the learning rate."""
        self.width, self.blocks, self.classes = width, blocks, classes
        super().__init__(lambda variables: Momentum(variables, rate))

    def build(self) -> None:
        """Each stage but the first halves height and width, and doubles the channels."""
        self.stem = Convolution(self, (3, self.width), 7, 2)
        self.stages: list[list[Bottleneck]] = []
        channels = self.width
        for i, count in enumerate(self.blocks):
            width, stage = self.width * 2**i, []
            for j in range(count):
                stage.append(Bottleneck(self, channels, width, 2 if i > 0 and j == 0 else 1))
                channels = 4 * width
            self.stages.append(stage)
        self.kernel = self.weights.uniform([channels, self.classes])
        self.bias = self.weights.constant([self.classes])

    def scores(self, images: tf.Tensor) -> list[tf.Tensor]:
        """See `Classifier`."""
        state = tf.nn.max_pool2d(self.stem(images), 3, 2, "SAME")
        for stage in self.stages:
            for block in stage:
                state = block(state)
        return [tf.matmul(tf.reduce_mean(state, [1, 2]), self.kernel) + self.bias]


def _make(small: bool) -> ResNet50:
    return ResNet50(4, (2, 1), 5, 0.02) if small else ResNet50(16, classes=100)


def _steps(batch_size: int, small: bool) -> list[Step]:
    size, classes = (16, 5) if small else (32, 100)
    return generated.batches(generated.images(5 * batch_size // 2, size, 3, classes), batch_size)


RESNET50 = Program("ResNet50", _make, _steps, 64, 4, "images", lambda step: len(step[0]), "ImageNet")
