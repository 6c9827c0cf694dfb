"""L2HMC (Levy, Hoffman and Sohl-Dickstein, 2018): Hamiltonian Monte Carlo whose leapfrog steps two networks bend.

A chain goes from a position to another by leapfrog steps, each of which rescales and shifts what it updates, by as much
as networks say. The steps can be inverted and the determinants of their Jacobians are known, so a chain that accepts
its proposals by Metropolis and Hastings samples the given distribution whatever the networks are. They are trained to
jump far. Symbols in comments are the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from recgraph.models.imperative.weights import AdamInVariables, Weights
from recgraph.models.zoo.program import Program, Step

Energy = Callable[[tf.Tensor], tf.Tensor]
# Keeps the loss of a proposal finite that goes nowhere or is never accepted.
TINY = 1e-4


class Gaussian:
    """A normal distribution about 0, with the covariance `R diag(variances) R'` for a rotation by 45 degrees."""

    def __init__(self, variances: tuple[float, float] = (100.0, 0.1)):
        """Args: the variances along the two axes; those of the paper make it narrow and slanted."""
        turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / math.sqrt(2.0)
        self.covariance = turn @ np.diag(variances) @ turn.T
        self.precision = tf.constant(np.linalg.inv(self.covariance), tf.float32)

    def __call__(self, positions: tf.Tensor) -> tf.Tensor:
        """The energy, minus the logarithm of the density but for a constant: float32 `[N]` of `[N, 2]`."""
        return 0.5 * tf.reduce_sum(positions * tf.matmul(positions, self.precision), 1)


class Network:
    """How an update rescales (S), shifts (T), and changes what it adds (Q), of what it leaves alone."""

    def __init__(self, weights: Weights, size: int, hidden: int):
        """Args: what makes the weights, numbers of a position, and of a hidden layer."""
        self.inward = [weights.uniform([numbers, hidden]) for numbers in (size, size, 2)]
        self.across = weights.uniform([hidden, hidden])
        self.biases = [weights.constant([hidden]) for _ in range(2)]
        # Small at first, so that training begins with leapfrog steps as they are.
        self.outward = [weights.uniform([hidden, size], 0.01) for _ in range(3)]
        self.offsets = [weights.constant([size]) for _ in range(3)]
        self.bounds = [weights.constant([size], 1.0) for _ in range(2)]

    def __call__(self, first: tf.Tensor, second: tf.Tensor, time: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """S, T and Q, float32 `[N, size]`, of two inputs of that shape and the time, `[N, 2]`."""
        inputs = zip((first, second, time), self.inward, strict=True)
        state = tf.nn.relu(tf.add_n([tf.matmul(value, kernel) for value, kernel in inputs]) + self.biases[0])
        state = tf.nn.relu(tf.matmul(state, self.across) + self.biases[1])
        outputs = zip(self.outward, self.offsets, strict=True)
        scale, shift, change = (tf.matmul(state, kernel) + offset for kernel, offset in outputs)
        return self.bounds[0] * tf.tanh(scale), shift, self.bounds[1] * tf.tanh(change)


class Sampler:
    """The chain's steps, and how likely a chain accepts what they propose."""

    def __init__(self, energy: Energy, steps: int = 10, step_size: float = 0.1, hidden: int = 10, size: int = 2):
        """Args: of the distribution; leapfrog steps, their first size, numbers of a hidden layer and of a position."""
        self.energy, self.steps, self.hidden = energy, steps, hidden
        self.weights = Weights()
        self.of_momenta, self.of_positions = (Network(self.weights, size, hidden) for _ in range(2))
        self.log_step_size = self.weights.constant([], math.log(step_size))
        angles = 2.0 * math.pi * np.arange(steps) / steps
        self.times = tf.constant(np.stack([np.cos(angles), np.sin(angles)], 1), tf.float32)
        random = np.random.default_rng(0)
        masks = [random.permutation(size) < size // 2 for _ in range(steps)]
        self.masks = tf.constant(np.array(masks), tf.float32)  # which half of a position moves first

    def slope(self, positions: tf.Tensor) -> tf.Tensor:
        """The gradient of the energy, float32 `[N, size]`."""
        with tf.GradientTape() as tape:
            tape.watch(positions)
            energy = self.energy(positions)
        return tape.gradient(energy, positions)

    def propose(
        self, positions: tf.Tensor, momenta: tf.Tensor, forward: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """All leapfrog steps (the operator L), of each chain in its direction; each direction is the other's inverse.

        Args:
          positions, momenta: float32 `[N, size]`.
          forward: each chain's direction, bool `[N, 1]`.

        Returns:
          Positions, momenta, and the logarithm of the Jacobian's determinant, float32 `[N]`.
        """
        volume, slope = tf.zeros_like(positions[:, 0]), self.slope(positions)
        for i in range(self.steps):
            number = tf.where(forward[:, 0], i, self.steps - 1 - i)
            time, mask = tf.gather(self.times, number), tf.gather(self.masks, number)
            first = tf.where(forward, mask, 1.0 - mask)
            momenta, before = self.push(positions, momenta, slope, time, forward)
            positions, one = self.move(positions, momenta, first, time, forward)
            positions, other = self.move(positions, momenta, 1.0 - first, time, forward)
            slope = self.slope(positions)
            momenta, after = self.push(positions, momenta, slope, time, forward)
            volume += before + one + other + after
        return positions, momenta, volume

    def push(
        self, positions: tf.Tensor, momenta: tf.Tensor, slope: tf.Tensor, time: tf.Tensor, forward: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Half a step of the momenta: them, and the logarithm of the determinant."""
        step = tf.exp(self.log_step_size)
        scale, shift, change = self.of_momenta(positions, slope, time)
        return updated(momenta, 0.5 * step * scale, -0.5 * step * (slope * tf.exp(step * change) + shift), forward)

    def move(
        self, positions: tf.Tensor, momenta: tf.Tensor, moving: tf.Tensor, time: tf.Tensor, forward: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """A step of the positions where `moving` is 1, given the rest: them, and the logarithm of the determinant."""
        step = tf.exp(self.log_step_size)
        scale, shift, change = self.of_positions((1.0 - moving) * positions, momenta, time)
        added = step * (momenta * tf.exp(step * change) + shift)
        return updated(positions, moving * step * scale, moving * added, forward)

    def transition(
        self, positions: tf.Tensor, momenta: tf.Tensor, forward: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """What `propose` gives, with the chance, float32 `[N]`, that it is accepted in place of the determinant."""
        proposed, moved, volume = self.propose(positions, momenta, forward)
        gained = self.total_energy(positions, momenta) - self.total_energy(proposed, moved) + volume
        return proposed, moved, tf.exp(tf.minimum(gained, 0.0))

    def total_energy(self, positions: tf.Tensor, momenta: tf.Tensor) -> tf.Tensor:
        """Potential and kinetic, float32 `[N]`."""
        return self.energy(positions) + 0.5 * tf.reduce_sum(tf.square(momenta), 1)

    def losses(
        self, positions: tf.Tensor, momenta: tf.Tensor, forward: tf.Tensor, scale: float
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """What training makes small.

        Args:
          positions, momenta, forward: see `propose`.
          scale: a squared length (lambda squared): how much jumps count that are shorter.

        Returns:
          Losses, the expected squared jump against its inverse, float32 `[N]`; what is proposed; and the chances.
        """
        proposed, _, chances = self.transition(positions, momenta, forward)
        jumps = chances * tf.reduce_sum(tf.square(proposed - positions), 1) + TINY
        return scale / jumps - jumps / scale, proposed, chances


def updated(state: tf.Tensor, scale: tf.Tensor, added: tf.Tensor, forward: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`state exp(scale) + added` or, backwards, its inverse; and the logarithm of the determinant, float32 `[N]`."""
    there, back = state * tf.exp(scale) + added, (state - added) * tf.exp(-scale)
    return tf.where(forward, there, back), tf.reduce_sum(tf.where(forward, scale, -scale), 1)


class L2HMC:
    """A sampler with its training, which also keeps chains that have just begun going (the paper's burn-in term)."""

    def __init__(self, steps: int = 10, hidden: int = 10, rate: float = 1e-3, scale: float = 0.1):
        """Args: of the sampler, Adam's learning rate, and the squared length of the loss."""
        self.sampler, self.scale = Sampler(Gaussian(), steps, hidden=hidden), scale
        self.random = tf.random.Generator.from_seed(0)
        self.optimizer = AdamInVariables(self.sampler.weights.all, rate)

    @property
    def variables(self) -> list[tf.Variable]:
        """All that a step changes."""
        return [*self.sampler.weights.all, *self.optimizer.variables, self.random.state]

    def train_step(self, positions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """One step of the chains and of the optimizer.

        Args:
          positions: where the chains are, float32 `[N, 2]`.

        Returns:
          The loss before it and the mean chance that a chain accepts, float32 scalars, and where the chains go.
        """
        count, size = positions.shape
        normal, uniform = self.random.normal([3 * count, size]), self.random.uniform([3 * count, 1])
        starts, momenta = tf.concat([positions, normal[:count]], 0), normal[count:]
        with tf.GradientTape() as tape:
            losses, proposed, chances = self.sampler.losses(starts, momenta, uniform[count:] < 0.5, self.scale)
            loss = tf.reduce_sum(losses) / count
        gradients = tape.gradient(loss, self.sampler.weights.all)
        self.optimizer.apply(gradients, self.sampler.weights.all)
        accepted = uniform[:count] < chances[:count, None]
        return loss, tf.reduce_mean(chances[:count]), tf.where(accepted, proposed[:count], positions)


def _make(small: bool) -> L2HMC:
    return L2HMC(2, 4) if small else L2HMC()


def _steps(batch_size: int, small: bool) -> list[Step]:
    random = np.random.default_rng(0)
    sizes = [batch_size, batch_size, max(1, batch_size // 2)] if small else [batch_size]
    return [(tf.constant(random.normal(size=[size, 2]), tf.float32),) for size in sizes]


L2HMC_GAUSSIAN = Program("L2HMC", _make, _steps, 200, 6, "samples", lambda step: len(step[0]), "slanted Gaussian")
