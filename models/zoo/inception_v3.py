"""Inception-v3 (Szegedy et al., 2016): blocks of parallel branches, and in training a second head."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph.models.imperative.weights import Momentum
from recgraph.models.zoo import generated
from recgraph.models.zoo.convolutions import Classifier, Convolution
from recgraph.models.zoo.program import Program, Step

# A branch is a list of layers: kernel, channels, stride. "average" and "largest" are poolings with a stride.
# Channels are the paper's; `width` scales them.
Branch = list[Any]
STEM: Branch = [(3, 32, 2), (3, 32, 1), (3, 64, 1), ("largest", 2), (1, 80, 1), (3, 192, 1), ("largest", 2)]


def at_35(pooled: int) -> list[Branch]:
    """Figure 5 of the paper: five by five as two of three by three."""
    return [
        [(1, 64, 1)],
        [(1, 48, 1), (5, 64, 1)],
        [(1, 64, 1), (3, 96, 1), (3, 96, 1)],
        [("average", 1), (1, pooled, 1)],
    ]


def at_17(middle: int) -> list[Branch]:
    """Figure 6: seven by seven as one by seven and seven by one."""
    wide, high = (1, 7), (7, 1)
    return [
        [(1, 192, 1)],
        [(1, middle, 1), (wide, middle, 1), (high, 192, 1)],
        [(1, middle, 1), (high, middle, 1), (wide, middle, 1), (high, middle, 1), (wide, 192, 1)],
        [("average", 1), (1, 192, 1)],
    ]


def at_8() -> list[Branch]:
    """Figure 7: the last layer of two branches is two side by side."""
    sides: Branch = [[((1, 3), 384, 1)], [((3, 1), 384, 1)]]
    return [
        [(1, 320, 1)],
        [(1, 384, 1), sides],
        [(1, 448, 1), (3, 384, 1), sides],
        [("average", 1), (1, 192, 1)],
    ]


TO_17: list[Branch] = [[(3, 384, 2)], [(1, 64, 1), (3, 96, 1), (3, 96, 2)], [("largest", 2)]]
TO_8: list[Branch] = [
    [(1, 192, 1), (3, 320, 2)],
    [(1, 192, 1), ((1, 7), 192, 1), ((7, 1), 192, 1), (3, 192, 2)],
    [("largest", 2)],
]
BLOCKS = [at_35(32), at_35(64), at_35(64), TO_17, at_17(128), at_17(160), at_17(160), at_17(192), TO_8, at_8(), at_8()]
SHORT = [at_35(32), TO_17, at_17(128), TO_8, at_8()]


class Pooling:
    """Three by three: the average or the largest."""

    def __init__(self, kind: str, stride: int):
        """Args: "average" or "largest", and the stride."""
        self.kind, self.stride = kind, stride

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, c]` to `[B, h / stride, w / stride, c]`."""
        if self.kind == "average":
            return tf.nn.avg_pool2d(images, 3, self.stride, "SAME")
        return tf.nn.max_pool2d(images, 3, self.stride, "SAME")


class Chain:
    """Layers one after the other."""

    def __init__(self, owner: Any, inputs: int, layers: Branch):
        """Args: the network, the channels of the input, and what the layers are."""
        self.layers: list[Any] = []
        self.outputs = inputs
        for layer in layers:
            if isinstance(layer, list):
                self.layers.append(Block(owner, self.outputs, layer))
                self.outputs = self.layers[-1].outputs
            elif isinstance(layer[0], str):
                self.layers.append(Pooling(*layer))
            else:
                size, channels, stride = layer
                channels = owner.scaled(channels)
                self.layers.append(Convolution(owner, (self.outputs, channels), size, stride))
                self.outputs = channels

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, inputs]` to `[B, h', w', outputs]`."""
        for layer in self.layers:
            images = layer(images)
        return images


class Block:
    """Branches side by side, their channels one after the other."""

    def __init__(self, owner: Any, inputs: int, branches: list[Branch]):
        """Args: the network, the channels of the input, and the branches."""
        self.branches = [Chain(owner, inputs, branch) for branch in branches]
        self.outputs = sum(branch.outputs for branch in self.branches)

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """float32 `[B, h, w, inputs]` to `[B, h', w', outputs]`."""
        return tf.concat([branch(images) for branch in self.branches], 3)


class InceptionV3(Classifier):
    """A stem, blocks, and a dense layer; in training another one before the last reduction, with a loss of its own."""

    def __init__(
        self, width: float = 1.0, blocks: list[list[Branch]] = BLOCKS, classes: int = 1000, rate: float = 0.045
    ):
        """Args: what the paper's channels are scaled by, the blocks, the number of classes, and the learning rate."""
        self.width, self.kinds, self.classes = width, blocks, classes
        super().__init__(lambda variables: Momentum(variables, rate))

    def scaled(self, channels: int) -> int:
        """So many channels of this network."""
        return max(1, int(channels * self.width))

    def build(self) -> None:
        """The layers, from the tables above."""
        self.stem = Chain(self, 3, STEM)
        self.blocks: list[Block] = []
        channels = self.stem.outputs
        for kind in self.kinds:
            if kind is TO_8:
                self.second = self.head(channels)
            self.blocks.append(Block(self, channels, kind))
            channels = self.blocks[-1].outputs
        self.main = self.head(channels)

    def head(self, channels: int) -> tuple[tf.Variable, tf.Variable]:
        """Kernel and bias of a dense layer."""
        return self.weights.uniform([channels, self.classes]), self.weights.constant([self.classes])

    def scores(self, images: tf.Tensor) -> list[tf.Tensor]:
        """See `Classifier`."""
        state = self.stem(images)
        others = []
        for block, kind in zip(self.blocks, self.kinds, strict=True):
            if kind is TO_8 and self.training:
                others.append(score(state, self.second))
            state = block(state)
        return [score(state, self.main), *others]


def score(images: tf.Tensor, head: tuple[tf.Variable, tf.Variable]) -> tf.Tensor:
    """float32 `[B, classes]` of the mean over each image, float32 `[B, h, w, c]`."""
    kernel, bias = head
    return tf.matmul(tf.reduce_mean(images, [1, 2]), kernel) + bias


def _make(small: bool) -> InceptionV3:
    return InceptionV3(1 / 16, SHORT, 5, 0.001) if small else InceptionV3(0.25, classes=100)


def _steps(batch_size: int, small: bool) -> list[Step]:
    size, classes = (48, 5) if small else (64, 100)
    return generated.batches(generated.images(5 * batch_size // 2, size, 3, classes), batch_size)


INCEPTION_V3 = Program("Inception-v3", _make, _steps, 64, 4, "images", lambda step: len(step[0]), "ImageNet")
