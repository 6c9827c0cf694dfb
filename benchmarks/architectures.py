"""The networks of TASO's table, for inference of one example.

NasRNN, BERT, SqueezeNet and ResNeXt-50 are written here, with the sizes of the papers; of the others Keras has the
architecture. Weights are random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


class Network(tf.Module):
    """Weights, and a function of tensors.

    Attributes:
      specs: what it takes.
    """

    specs: tuple[tf.TensorSpec, ...] = (tf.TensorSpec([1, 224, 224, 3]),)

    def __init__(self) -> None:
        super().__init__()
        self._random = np.random.default_rng(0)

    def weight(self, *shape: int) -> tf.Variable:
        """A new one, of numbers with which results are about as large as what they are computed of."""
        values = self._random.normal(0, math.sqrt(2 / math.prod(shape[:-1])), shape)
        return tf.Variable(values.astype(np.float32))

    def run(self, *inputs: tf.Tensor) -> tf.Tensor:
        """The results for one example."""
        raise NotImplementedError


class NasRNN(Network):
    """The recurrent cell that a search has found (Zoph and Le, ICLR 2017), unrolled over time.

    A step has eight sums of two products, one of the input and one of the state. TASO takes five steps and 512 units.
    The weights are those of all steps, as in any recurrent network.
    """

    def __init__(self, hidden: int = 512, length: int = 5) -> None:
        super().__init__()
        self.specs = (tf.TensorSpec([1, length, hidden]), tf.TensorSpec([1, hidden]))
        self.of_input = [self.weight(hidden, hidden) for _ in range(8)]
        self.of_state = [self.weight(hidden, hidden) for _ in range(8)]

    def run(self, *inputs: tf.Tensor) -> tf.Tensor:
        """The state after the last step, from a sequence and the state before."""
        sequence, state = inputs
        for x in tf.unstack(sequence, axis=1):
            state = self._step(x, state)
        return state

    def _step(self, x: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        functions = (tf.nn.relu, tf.sigmoid, tf.tanh, tf.sigmoid, tf.sigmoid, tf.tanh, tf.sigmoid, tf.nn.relu)
        sums = [x @ w + state @ u for w, u in zip(self.of_input, self.of_state, strict=True)]
        a = [function(one) for function, one in zip(functions, sums, strict=True)]
        left = tf.sigmoid(a[1] + a[2]) + tf.tanh(a[4] * a[5])
        right = tf.tanh(a[0] + a[3]) * tf.tanh(a[6] * a[7])
        return tf.tanh(tf.tanh(left) * tf.tanh(right))


class Attention(Network):
    """BERT as TASO measures it: layers of attention with 16 heads, over 64 words with 1024 features."""

    def __init__(self, layers: int = 8, words: int = 64, features: int = 1024, heads: int = 16) -> None:
        super().__init__()
        self.specs = (tf.TensorSpec([words, features]),)
        self.heads = heads
        self.layers = [[self.weight(features, features) for _ in range(4)] for _ in range(layers)]

    def run(self, *inputs: tf.Tensor) -> tf.Tensor:
        """The features of the words after all layers."""
        (x,) = inputs
        for *projections, out in self.layers:
            query, key, value = (self._split(x @ one) for one in projections)
            weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / math.sqrt(query.shape[-1]))
            x = tf.reshape(tf.transpose(weights @ value, [1, 0, 2]), x.shape) @ out
        return x

    def _split(self, x: tf.Tensor) -> tf.Tensor:
        words, features = x.shape
        return tf.transpose(tf.reshape(x, [words, self.heads, features // self.heads]), [1, 0, 2])


class ConvolutionalNetwork(Network):
    """A network of convolutions, which are kept in the order in which they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._weights: list[tf.Variable] = []
        self._next = 0
        self.run(tf.zeros(self.specs[0].shape))

    def convolved(self, x: tf.Tensor, size: int, channels: int, stride: int = 1, groups: int = 1) -> tf.Tensor:
        """A convolution with weights of its own, and a bias."""
        if self._next == len(self._weights):
            self._weights += [self.weight(size, size, x.shape[-1] // groups, channels), tf.Variable(tf.zeros(channels))]
        w, b = self._weights[self._next : self._next + 2]
        self._next += 2
        return tf.nn.bias_add(tf.nn.conv2d(x, w, stride, "SAME"), b)

    def run(self, *inputs: tf.Tensor) -> tf.Tensor:
        """What `layers` makes of an image."""
        self._next = 0
        return self.layers(*inputs)

    def layers(self, x: tf.Tensor) -> tf.Tensor:
        """Of an image, the classes."""
        raise NotImplementedError


class SqueezeNet(ConvolutionalNetwork):
    """Version 1.0 (Iandola et al., 2016): in a fire module, two convolutions of one input."""

    def layers(self, x: tf.Tensor) -> tf.Tensor:
        x = tf.nn.relu(self.convolved(x, 7, 96, stride=2))
        for number, (squeezed, expanded) in enumerate(
            [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
        ):
            if number in (0, 3, 7):
                x = tf.nn.max_pool2d(x, 3, 2, "SAME")
            x = tf.nn.relu(self.convolved(x, 1, squeezed))
            x = tf.concat([tf.nn.relu(self.convolved(x, size, expanded)) for size in (1, 3)], -1)
        return tf.reduce_mean(tf.nn.relu(self.convolved(x, 1, 1000)), [1, 2])


class ResNeXt(ConvolutionalNetwork):
    """ResNeXt-50 with 32 groups of 4 channels (Xie et al., CVPR 2017), its normalisation being part of the weights."""

    def layers(self, x: tf.Tensor) -> tf.Tensor:
        x = tf.nn.max_pool2d(tf.nn.relu(self.convolved(x, 7, 64, stride=2)), 3, 2, "SAME")
        for channels, blocks in ((128, 3), (256, 4), (512, 6), (1024, 3)):
            for block in range(blocks):
                stride = 2 if block == 0 and channels > 128 else 1
                y = tf.nn.relu(self.convolved(x, 1, channels))
                y = tf.nn.relu(self.convolved(y, 3, channels, stride, groups=32))
                y = self.convolved(y, 1, 2 * channels)
                x = tf.nn.relu(y + (x if block else self.convolved(x, 1, 2 * channels, stride)))
        return tf.reduce_mean(x, [1, 2])


class OfKeras(Network):
    """A model of `keras.applications`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        import keras

        self.model = getattr(keras.applications, name)(weights=None)
        self.specs = (tf.TensorSpec([1, *self.model.input_shape[1:]]),)

    def run(self, *inputs: tf.Tensor) -> tf.Tensor:
        """The classes of an image."""
        return self.model(inputs[0], training=False)


ARCHITECTURES: dict[str, Callable[[], Any]] = {
    "nasrnn": NasRNN,
    "bert": Attention,
    "squeezenet": SqueezeNet,
    "resnet50": lambda: OfKeras("ResNet50"),
    "resnext50": ResNeXt,
    "inception_v3": lambda: OfKeras("InceptionV3"),
    "nasnet_a": lambda: OfKeras("NASNetMobile"),
}
