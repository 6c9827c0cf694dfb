"""What Keras reads of its own settings while it computes."""

from __future__ import annotations

from typing import Any

import keras

# No public function tells the generator of random numbers that is taken where none is given, nor whether there is one.
from keras.src.backend.common import global_state
from keras.src.backend.common.stateless_scope import in_stateless_scope as _in_stateless_scope

_GLOBALS = ("dtype_policy", "distribution", "flash_attention", "global_seed_generator")


def keras_settings() -> tuple[Any, ...]:
    """The settings in this thread, to be compared one by one: data by its value, objects by `is`."""
    config = keras.config
    return (
        *(config.floatx(), config.epsilon(), config.image_data_format()),
        *(global_state.get_global_attribute(name) for name in _GLOBALS),
    )


def in_stateless_scope() -> bool:
    """Whether a `keras.StatelessScope` stands in for the values of variables in this thread."""
    return bool(_in_stateless_scope())


def is_training(layer: keras.layers.Layer) -> bool | None:
    """Whether the layers that are called by this one are training; None if nobody has said so."""
    context = global_state.get_global_attribute("current_call_ctx")
    training: bool | None = None if context is None else context.training
    return training
