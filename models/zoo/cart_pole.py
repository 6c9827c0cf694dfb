"""A pole on a cart (Barto, Sutton and Anderson, 1983): `gymnasium`'s where it is installed, else one of our own."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
MAX_POSITION, MAX_ANGLE, MAX_STEPS = 2.4, math.radians(12.0), 500


class CartPole:
    """The same interface, as far as it is used, and the same motion as `gymnasium`'s CartPole-v1."""

    def __init__(self) -> None:
        self.state, self.steps = np.zeros(4), 0
        self.random = np.random.default_rng()

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """A new episode: position, velocity, angle and angular velocity, float32 `[4]`, near zero."""
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.state, self.steps = self.random.uniform(-0.05, 0.05, 4), 0
        return self.state.astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Pushes to the left (0) or to the right (1): state, reward, whether it fell, whether time is over."""
        position, velocity, angle, turning = self.state
        force = FORCE if action == 1 else -FORCE
        mass, sine, cosine = CART + POLE, math.sin(angle), math.cos(angle)
        push = (force + POLE * HALF_LENGTH * turning**2 * sine) / mass
        turn = (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4.0 / 3.0 - POLE * cosine**2 / mass))
        speed_up = push - POLE * HALF_LENGTH * turn * cosine / mass
        self.state = self.state + SECONDS * np.array([velocity, speed_up, turning, turn])
        self.steps += 1
        fell = bool(abs(self.state[0]) > MAX_POSITION or abs(self.state[2]) > MAX_ANGLE)
        return self.state.astype(np.float32), 1.0, fell, self.steps >= MAX_STEPS, {}


def environment() -> Any:
    """`gymnasium`'s, by the extra `zoo`, or ours."""
    if importlib.util.find_spec("gymnasium") is None:
        return CartPole()
    return importlib.import_module("gymnasium").make("CartPole-v1")


class Rollout:
    """What a policy did in an environment for some steps, at most to the end of an episode.

    Attributes:
      states: where it acted, float32 `[4]` each.
      actions, rewards: what it did and got there.
      last: the state after that.
      is_over: whether the episode ended there.
    """

    def __init__(self) -> None:
        self.states: list[np.ndarray] = []
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.last, self.is_over = np.zeros(4, np.float32), False


def rollouts(
    policy: Callable[[np.ndarray], int], count: int, length: int, seed: int = 0, world: Any = None
) -> Iterator[Rollout]:
    """Acts in an environment.

    Args:
      policy: an action for a state, float32 `[4]`.
      count: of rollouts.
      length: steps of a rollout at most.
      seed: of the environment.
      world: the environment; left out it is our own, also where another is installed, so that the result is the
        same everywhere.

    Yields:
      Rollouts; one goes on where the one before was cut.
    """
    world = world or CartPole()
    state, _ = world.reset(seed=seed)
    for _ in range(count):
        rollout = Rollout()
        while len(rollout.states) < length and not rollout.is_over:
            action = policy(state)
            rollout.states.append(state)
            state, reward, fell, late, _ = world.step(action)
            rollout.actions.append(action)
            rollout.rewards.append(reward)
            rollout.is_over = fell or late
        rollout.last = state
        yield rollout
        if rollout.is_over:
            state, _ = world.reset()


def random_policy(seed: int = 0, actions: int = 2) -> Callable[[np.ndarray], int]:
    """To the left or to the right, or any of so many actions, whatever the state."""
    random = np.random.default_rng(seed)
    return lambda state: int(random.integers(0, actions))
