"""L2HMC samples what it should, however its networks bend the steps, and learns to jump further."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.models.zoo.l2hmc import L2HMC, Gaussian, Network, Sampler

# A wide and a narrow axis, as in the paper, but near enough to each other for a few thousand chains to say something.
GAUSSIAN = Gaussian((2.0, 0.5))
CHAINS = 40_000
# How many standard deviations a mean over the chains may be off.
DEVIATIONS = 5.0


def bent(steps: int = 3) -> Sampler:
    """A sampler whose networks are far from leapfrog's and tell times, halves and directions apart."""
    sampler, random = Sampler(GAUSSIAN, steps, step_size=0.3), np.random.default_rng(2)
    for network in (sampler.of_momenta, sampler.of_positions):
        for variable in (*network.outward, *network.offsets, *network.biases):
            variable.assign(random.normal(0.0, 0.3, variable.shape))
    return sampler


def states(count: int, seed: int = 0) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Positions and momenta as they are in the long run, and directions."""
    random = np.random.default_rng(seed)
    positions = random.multivariate_normal(np.zeros(2), GAUSSIAN.covariance, count)
    momenta = random.normal(size=(count, 2))
    forward = tf.constant(random.random((count, 1)) < 0.5)
    return tf.constant(positions, tf.float32), tf.constant(momenta, tf.float32), forward


def off(values: np.ndarray) -> float:
    """By how many standard deviations the mean of values, `[N]`, is from 0."""
    return float(abs(values.mean()) / (values.std() / np.sqrt(len(values))))


def unbalanced(sampler: Sampler, without_volume: bool = False) -> float:
    """How far moves from here to there differ from those from there to here, in standard deviations.

    In balance `E[f(x) g(x')] = E[g(x) f(x')]` for all functions of the positions before and after, which begin as they
    are in the long run.
    """
    before, momenta, forward = states(CHAINS)
    proposed, moved, chances = sampler.transition(before, momenta, forward)
    if without_volume:
        gained = sampler.total_energy(before, momenta) - sampler.total_energy(proposed, moved)
        chances = tf.exp(tf.minimum(gained, 0.0))
    accepted = np.random.default_rng(2).random(CHAINS) < chances.numpy()
    x, y = before.numpy(), np.where(accepted[:, None], proposed, before)
    functions = [
        lambda z: z[:, 0],
        lambda z: z[:, 1],
        lambda z: z[:, 0] ** 2,
        lambda z: z[:, 0] * z[:, 1],
        lambda z: z[:, 1] > 0.5,
    ]
    pairs = [(f, g) for f in functions for g in functions if f is not g]
    kept = [(f, lambda z: np.ones(len(z))) for f in functions]  # so each function's mean stays, too
    return max(off(f(x) * g(y) - g(x) * f(y)) for f, g in pairs + kept)


@pytest.mark.parametrize("forward", [True, False])
def test_the_determinant_is_that_of_the_jacobian(forward: bool) -> None:
    """Which TensorFlow computes number by number."""
    sampler = bent()
    positions, momenta, _ = states(5)
    with tf.GradientTape(persistent=True) as tape:
        state = tf.concat([positions, momenta], 1)
        tape.watch(state)
        moved = sampler.propose(state[:, :2], state[:, 2:], tf.fill([5, 1], forward))
        after = tf.concat(moved[:2], 1)
    jacobian = tape.batch_jacobian(after, state, experimental_use_pfor=False).numpy()
    _, expected = np.linalg.slogdet(jacobian)
    np.testing.assert_allclose(moved[2], expected, rtol=1e-3, atol=1e-4)
    assert np.abs(expected).max() > 0.1


def test_each_direction_undoes_the_other() -> None:
    """And its determinant is the inverse."""
    sampler = bent()
    positions, momenta, forward = states(20)
    *there, volume = sampler.propose(positions, momenta, forward)
    assert float(tf.reduce_max(tf.abs(there[0] - positions))) > 0.5
    *back, inverse = sampler.propose(*there, ~forward)
    np.testing.assert_allclose(back[0], positions, atol=1e-4)
    np.testing.assert_allclose(back[1], momenta, atol=1e-4)
    np.testing.assert_allclose(inverse, -volume, atol=1e-4)


def test_a_sampler_that_has_learned_nothing_takes_leapfrog_steps() -> None:
    """Written out for one chain; small steps are nearly always accepted."""
    sampler = Sampler(GAUSSIAN, 5, step_size=0.1)
    for network in (sampler.of_momenta, sampler.of_positions):
        for variable in network.outward:
            variable.assign(tf.zeros_like(variable))
    positions, momenta, forward = states(50)
    x, v = positions.numpy().astype(np.float64), momenta.numpy().astype(np.float64)
    precision = np.linalg.inv(GAUSSIAN.covariance)
    direction = np.where(forward, 1.0, -1.0)
    for _ in range(5):
        v -= direction * 0.05 * x @ precision
        x += direction * 0.1 * v
        v -= direction * 0.05 * x @ precision
    proposed, moved, chances = sampler.transition(positions, momenta, forward)
    np.testing.assert_allclose(proposed, x, atol=1e-5)
    np.testing.assert_allclose(moved, v, atol=1e-5)
    assert float(tf.reduce_min(chances)) > 0.95


def test_moves_are_in_balance_however_the_steps_are_bent() -> None:
    """So the chains sample the Gaussian."""
    sampler = bent()
    chances = sampler.transition(*states(CHAINS))[2].numpy()
    assert 0.2 < chances.mean() < 0.9
    assert unbalanced(sampler) < DEVIATIONS


def test_moves_without_the_determinant_are_seen_to_be_out_of_balance() -> None:
    """A check that finds nothing would agree with anything."""
    assert unbalanced(bent(), without_volume=True) > 2 * DEVIATIONS


def test_chains_end_as_the_gaussian_wherever_they_begin() -> None:
    """All in one place, far out."""
    sampler, random = bent(), np.random.default_rng(3)
    positions = tf.fill([4000, 2], 4.0)
    step = tf.function(sampler.transition)
    for _ in range(80):
        momenta, forward = random.normal(size=(4000, 2)).astype(np.float32), random.random((4000, 1)) < 0.5
        proposed, _, chances = step(positions, tf.constant(momenta), tf.constant(forward))
        positions = tf.where((random.random(4000) < chances.numpy())[:, None], proposed, positions)
    np.testing.assert_allclose(np.cov(positions.numpy().T), GAUSSIAN.covariance, atol=0.15)
    np.testing.assert_allclose(positions.numpy().mean(0), 0.0, atol=0.1)


def expected_squared_jump(made: L2HMC) -> float:
    """Of chains that are as they are in the long run."""
    random = np.random.default_rng(4)
    positions = random.multivariate_normal(np.zeros(2), made.sampler.energy.covariance, 2000).astype(np.float32)
    momenta, forward = random.normal(size=(2000, 2)).astype(np.float32), random.random((2000, 1)) < 0.5
    proposed, _, chances = made.sampler.transition(tf.constant(positions), tf.constant(momenta), tf.constant(forward))
    return float(tf.reduce_mean(chances * tf.reduce_sum(tf.square(proposed - positions), 1)))


@pytest.mark.slow
@pytest.mark.long
def test_training_makes_chains_jump_further() -> None:
    """The whole step is one graph; the chains go on from step to step."""
    made = L2HMC(steps=5)
    before = expected_squared_jump(made)
    step = rg.function(made.train_step, strict=True)
    positions, chances = tf.random.stateless_normal([200, 2], [0, 1]), []
    for _ in range(1000):
        _, chance, positions = step(positions)
        chances.append(float(chance))
    assert expected_squared_jump(made) > 2.0 * before
    assert 0.2 < np.mean(chances[-100:]) <= 1.0
    assert np.isfinite(positions).all()


def test_a_network_is_small_at_first_and_knows_the_time() -> None:
    """Scales are bounded by weights of their own."""
    weights = Sampler(GAUSSIAN).weights
    network = Network(weights, 2, 6)
    first, second, _ = states(4)
    early, late = (network(first, second, tf.constant([time] * 4)) for time in ([1.0, 0.0], [-1.0, 0.0]))
    assert all(0.0 < float(tf.reduce_max(tf.abs(value))) < 0.1 for value in early)
    assert all(np.abs(one - other).max() > 0.0 for one, other in zip(early, late, strict=True))
    network.offsets[0].assign([100.0, -100.0])
    np.testing.assert_allclose(network(first, second, tf.zeros([4, 2]))[0], [[1.0, -1.0]] * 4, atol=1e-5)
