"""Weights with first values drawn from a seed, and the optimizers that are written with variables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf


class Weights:
    """Makes the variables of a program, and keeps them in order.

    Attributes:
      all: what is trained, float32.
    """

    def __init__(self, seed: int = 0):
        """Begins without weights.

        Args:
          seed: of the initial values.
        """
        self.all: list[tf.Variable] = []
        self._random = np.random.default_rng(seed)

    def uniform(self, shape: Sequence[int], bound: float | None = None) -> tf.Variable:
        """float32 of a shape, uniform within `bound`; by default sqrt(3 / fan in), which keeps a variance."""
        bound = math.sqrt(3.0 / max(1, math.prod(shape[:-1]))) if bound is None else bound
        return self._kept(self._random.uniform(-bound, bound, shape))

    def constant(self, shape: Sequence[int], value: float = 0.0) -> tf.Variable:
        """float32 of a shape, everywhere the same."""
        return self._kept(np.full(shape, value))

    def _kept(self, values: np.ndarray) -> tf.Variable:
        self.all.append(tf.Variable(values.astype(np.float32)))
        return self.all[-1]


def descend(variables: Sequence[tf.Variable], gradients: Sequence[tf.Tensor], rate: float) -> None:
    """A step of gradient descent; of an embedding only the rows that were read."""
    for variable, gradient in zip(variables, gradients, strict=True):
        if isinstance(gradient, tf.IndexedSlices):
            variable.scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
        else:
            variable.assign_sub(rate * gradient)


class Momentum:
    """Gradient descent with momentum: `v = m v + g; w -= r v`."""

    def __init__(self, variables: Sequence[tf.Variable], rate: float, momentum: float = 0.9):
        """Creates the state.

        Args:
          variables: the variables to train.
          rate: the learning rate.
          momentum: of the velocities.
        """
        self.rate, self.momentum = rate, momentum
        self.velocities = [tf.Variable(tf.zeros_like(variable)) for variable in variables]

    def apply(self, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        """One step; a gradient that is None leaves its variable alone."""
        for velocity, gradient, variable in zip(self.velocities, gradients, variables, strict=True):
            if gradient is not None:
                velocity.assign(self.momentum * velocity + gradient)
                variable.assign_sub(self.rate * velocity)


class Adagrad:
    """Adagrad (Duchi et al., 2011): `s += g^2; w -= r g / sqrt(s)`."""

    def __init__(self, variables: Sequence[tf.Variable], rate: float, first: float = 0.1):
        """Creates the state.

        Args:
          variables: the variables to train.
          rate: the learning rate.
          first: initial value of the accumulators.
        """
        self.rate = rate
        self.sums = [tf.Variable(tf.fill(variable.shape, first)) for variable in variables]

    def apply(self, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        """One step; sparse gradients are made dense."""
        for total, gradient, variable in zip(self.sums, gradients, variables, strict=True):
            tf.raw_ops.ResourceApplyAdagradV2(
                var=variable.handle, accum=total.handle, lr=self.rate, epsilon=0.0, grad=tf.convert_to_tensor(gradient)
            )


class Adam:
    """Adam (Kingma and Ba, 2015), with its number of steps in Python."""

    def __init__(self, variables: Sequence[tf.Variable], rate: float, decay: tuple[float, float] = (0.9, 0.999)):
        """Creates the state.

        Args:
          variables: the variables to train.
          rate: the learning rate.
          decay: of the first and the second moment.
        """
        self.rate, self.decay, self.steps = rate, decay, 0
        self.first = [tf.Variable(tf.zeros_like(variable)) for variable in variables]
        self.second = [tf.Variable(tf.zeros_like(variable)) for variable in variables]

    def apply(self, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        """One step."""
        self.steps += 1
        one, two = self.decay
        rate = self.rate * math.sqrt(1.0 - two**self.steps) / (1.0 - one**self.steps)
        for first, second, gradient, variable in zip(self.first, self.second, gradients, variables, strict=True):
            first.assign(one * first + (1.0 - one) * gradient)
            second.assign(two * second + (1.0 - two) * gradient * gradient)
            variable.assign_sub(rate * first / (tf.sqrt(second) + 1e-8))


class AdamInVariables:
    """Adam with all of its state in variables, and one operation a variable."""

    def __init__(self, variables: Sequence[tf.Variable], rate: float, decay: tuple[float, float] = (0.9, 0.999)):
        """Creates the state.

        Args:
          variables: the variables to train.
          rate: the learning rate.
          decay: of the first and the second moment.
        """
        self.rate, self.decay = rate, decay
        self.powers = [tf.Variable(each, dtype=tf.float32) for each in decay]
        self.moments = [[tf.Variable(tf.zeros_like(variable)) for variable in variables] for _ in decay]

    @property
    def variables(self) -> list[tf.Variable]:
        """The powers of `decay`, and the moments."""
        return [*self.powers, *(moment for moments in self.moments for moment in moments)]

    def apply(self, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        """One step."""
        one, two = self.decay
        for first, second, gradient, variable in zip(*self.moments, gradients, variables, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=self.powers[0],
                beta2_power=self.powers[1],
                lr=self.rate,
                beta1=one,
                beta2=two,
                epsilon=1e-8,
                grad=gradient,
            )
        for power, each in zip(self.powers, self.decay, strict=True):
            power.assign(each * power)
