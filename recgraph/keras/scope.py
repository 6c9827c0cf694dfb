"""What Keras does with losses, random numbers and variables while a body is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

# Name of the variable of a `keras.random.SeedGenerator`.
_STATE = "seed_generator_state"


class BodyScope(keras.StatelessScope):
    """Collects losses; random numbers come of seeds that are given, and all other variables are as ever.

    A SeedGenerator counts in a variable. If a body did that, its invocations would have to run one after another.

    Args:
        seeds: gives the seed of the n-th draw of the generator with this state, an int64 `[2]`; None to let the
            generator count.

    Attributes:
        losses: what layers have added.
        draws: how often each generator was asked, by the id of its state.
    """

    def __init__(self, seeds: Callable[[keras.Variable, int], tf.Tensor | None]) -> None:
        super().__init__(collect_losses=True, initialize_variables=False)
        self.draws: dict[int, int] = {}
        self._seeds = seeds

    def get_current_value(self, variable: keras.Variable) -> tf.Tensor | None:
        """What reading a variable gives; None for its value."""
        if variable.name != _STATE:
            return None
        return self._seeds(variable, self.draws.get(id(variable), 0))

    def add_update(self, update: tuple[keras.Variable, tf.Tensor]) -> None:
        """A variable is assigned to."""
        variable, value = update
        if self.get_current_value(variable) is None:
            variable._direct_assign(value)  # what `assign` does outside of a scope
        else:
            self.draws[id(variable)] = self.draws.get(id(variable), 0) + 1


def seed_states(layer: keras.layers.Layer) -> list[keras.Variable]:
    """The states of all generators of a layer and those in it."""
    return [variable for variable in layer.variables if variable.name == _STATE]
