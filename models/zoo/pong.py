"""Pong of the Arcade Learning Environment, by the extra `zoo`: the machine's memory as the state."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

STATES, ACTIONS = 128, 6


def is_installed() -> bool:
    """Whether `gymnasium` and `ale-py` are there."""
    return all(importlib.util.find_spec(name) is not None for name in ("gymnasium", "ale_py"))


class Pong:
    """With the interface of `cart_pole.CartPole`; a state is the 128 bytes of memory, in 0 .. 1."""

    def __init__(self) -> None:
        import ale_py
        import gymnasium

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        gymnasium.register_envs(ale_py)
        self.game: Any = gymnasium.make("ALE/Pong-v5", obs_type="ram")

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """A new game: float32 `[128]`."""
        memory, more = self.game.reset(seed=seed)
        return _scaled(memory), more

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One of six moves: state, points made or lost, whether the game is over, whether time is, other things."""
        memory, points, over, late, more = self.game.step(action)
        return _scaled(memory), float(points), over, late, more


def _scaled(memory: np.ndarray) -> np.ndarray:
    return memory.astype(np.float32) / 255.0
