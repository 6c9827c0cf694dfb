"""Variables as text: what is printed or formatted after the graph shows the value that a variable had in its place."""

from __future__ import annotations

from typing import Any, Final

import keras
import tensorflow as tf

TO_TEXT: Final = (str, repr, format, ascii, print)
VARIABLES: Final = (tf.Variable, keras.Variable)


class Shown:
    """A variable with a value of its own."""

    def __init__(self, variable: Any, value: tf.Tensor) -> None:
        self._shown, self._value = variable, value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)

    def read_value(self) -> tf.Tensor:
        """The value."""
        return self._value

    def __repr__(self) -> str:
        to_text: Any = type(self._shown).__repr__
        return str(to_text(self))


class Showing:
    """A variable whose text is asked for, while a call is converted: the script makes a `Shown` of it."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.value = tf.convert_to_tensor(variable)


def snapshot(value: Any) -> Any:
    """A value with all variables in it as they are now."""
    if isinstance(value, VARIABLES):
        return Showing(value)
    if type(value) in (list, tuple):
        return type(value)(map(snapshot, value))
    return {key: snapshot(v) for key, v in value.items()} if type(value) is dict else value


def holds_variable(value: Any) -> bool:
    """Whether a value is a variable or has one in it."""
    if type(value) in (list, tuple, dict):
        return any(map(holds_variable, value.values() if isinstance(value, dict) else value))
    return isinstance(value, VARIABLES)
