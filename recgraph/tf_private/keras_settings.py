"""What Keras reads of its own settings while it computes."""

from __future__ import annotations

from typing import Any

import keras

# No public function tells the generator of random numbers that is taken where none is given, nor whether there is one.
from keras.src.backend.common import global_state

_GLOBALS = ("dtype_policy", "distribution", "flash_attention", "global_seed_generator")


def keras_settings() -> tuple[Any, ...]:
    """The settings in this thread, to be compared one by one: data by its value, objects by `is`."""
    config = keras.config
    return (
        *(config.floatx(), config.epsilon(), config.image_data_format()),
        *(global_state.get_global_attribute(name) for name in _GLOBALS),
    )
