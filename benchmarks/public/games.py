"""Two of Gym's games, and what games share. Loaded as an installed library, which Gym is: see `stand_ins.py`."""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np


class Space:
    def __init__(self, shape: tuple[int, ...], bound: float, n: int = 0) -> None:
        self.shape, self.n = shape, n
        self.high, self.low = np.full(shape, bound, np.float32), np.full(shape, -bound, np.float32)
        self.dtype = np.dtype(np.float32 if not n else np.int64)

    def sample(self) -> Any:
        return np.random.randint(self.n) if self.n else np.random.uniform(self.low, self.high).astype(np.float32)

    def seed(self, *_: Any) -> None:
        pass


class Game:
    """What Gym's games share. Before version 0.26 `reset` gives an observation and `step` four things."""

    limit = 200
    reward_range = (-math.inf, math.inf)
    is_new = False

    def __init__(self) -> None:
        self.unwrapped, self.spec = self, types.SimpleNamespace(max_episode_steps=self.limit, id="game")
        self._max_episode_steps = self.limit
        self._numbers, self._taken = np.random.default_rng(0), 0
        self.state = np.zeros(4)

    def seed(self, seed: int | None = None) -> None:
        self._numbers = np.random.default_rng(seed)

    def close(self) -> None:
        pass

    def render(self, *_: Any, **named: Any) -> Any:
        return np.zeros((8, 8, 3), np.uint8)

    def reset(self, seed: int | None = None, **_: Any) -> Any:
        if seed is not None:
            self.seed(seed)
        self._taken = 0
        self._begin()
        return (self._seen(), {}) if self.is_new else self._seen()

    def step(self, action: Any) -> Any:
        self._taken += 1
        reward, is_over = self._move(action)
        is_late = self._taken >= self.limit
        if self.is_new:
            return self._seen(), reward, is_over, is_late, {}
        return self._seen(), reward, is_over or is_late, {}

    def _begin(self) -> None:
        raise NotImplementedError

    def _move(self, action: Any) -> tuple[float, bool]:
        raise NotImplementedError

    def _seen(self) -> Any:
        return self.state.astype(np.float32)


class Pole(Game):
    """A pole on a cart (Barto, Sutton and Anderson, 1983)."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space, self.action_space = Space((4,), 4.8), Space((), 1.0, 2)

    def _begin(self) -> None:
        self.state = self._numbers.uniform(-0.05, 0.05, 4)

    def _move(self, action: Any) -> tuple[float, bool]:
        x, v, angle, spin = self.state
        force = 10.0 if int(action) == 1 else -10.0
        part = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        turn = (9.8 * math.sin(angle) - math.cos(angle) * part) / (0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1))
        push = part - 0.05 * turn * math.cos(angle) / 1.1
        self.state = np.array([x + 0.02 * v, v + 0.02 * push, angle + 0.02 * spin, spin + 0.02 * turn])
        return 1.0, bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095)


class Swing(Game):
    """A pendulum that is to be held upright by a motor."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space, self.action_space = Space((3,), 8.0), Space((1,), 2.0)

    def _begin(self) -> None:
        self.state = np.array([self._numbers.uniform(-math.pi, math.pi), self._numbers.uniform(-1, 1)])

    def _move(self, action: Any) -> tuple[float, bool]:
        angle, speed = self.state
        torque = float(np.clip(np.ravel(action)[0], -2.0, 2.0))
        off = (angle + math.pi) % (2 * math.pi) - math.pi
        speed = float(np.clip(speed + 0.05 * (15.0 * math.sin(angle) + 3.0 * torque), -8.0, 8.0))
        self.state = np.array([angle + 0.05 * speed, speed])
        return -(off**2 + 0.1 * speed**2 + 0.001 * torque**2), False

    def _seen(self) -> Any:
        return np.array([math.cos(self.state[0]), math.sin(self.state[0]), self.state[1]], np.float32)


def make(game: str, is_new: bool, **_: Any) -> Game:
    """The game that stands in for one of Gym's, as Gym's new versions play it or as its old ones do."""
    kind = Swing if "Pendulum" in game or "Continuous" in game else Pole
    return type(kind.__name__, (kind,), {"is_new": is_new, "limit": 500 if game.endswith("Pole-v1") else 200})()
