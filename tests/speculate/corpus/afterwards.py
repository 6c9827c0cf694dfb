"""What Python does with numbers and texts from the graph, and what it raises: then nothing has been done."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.speculate.corpus import PROGRAMS, Program
from tests.speculate.corpus.basics import tensor


def _with(name: str, function: Callable[[tf.Tensor], Any]) -> None:
    """Registers a program in which a function of a scalar, -1, 0 or 1, stands between effects of other kinds."""

    def make() -> Any:
        weight, log = tf.Variable(1.0), []

        def step(x: tf.Tensor, s: tf.Tensor) -> Any:
            weight.assign_add(1.0)
            print("before")
            found = function(s)
            log.append(found)
            weight.assign_add(1.0)
            return weight * x

        return step, lambda i: (tensor(i), tf.constant(float((i + 2) % 3) - 1.0)), [weight, log]

    PROGRAMS[name] = Program(name, make, True)


_with("a_text_is_no_integer_afterwards", lambda s: int(f"{float(s)}"[0]))
_with("a_logarithm_afterwards", lambda s: math.log(float(s) + 1.0))
_with("an_exponent_afterwards", lambda s: round(math.exp(float(s) * 800.0), 3))
_with("a_remainder_afterwards", lambda s: (divmod(7, int(s) + 1), 5 % (int(s) + 1)))
_with("a_shift_afterwards", lambda s: 1 << int(s))
_with("a_text_of_many_parts_afterwards", lambda s: "{a:>6.2f} {name}".format(a=float(s), name=int(s)))
_with("a_document_afterwards", lambda s: json.dumps({"loss": float(s), "steps": [int(s), str(float(s)).rjust(6)]}))
_with("arrays_afterwards", lambda s: np.where(s.numpy() > 0.0, np.round(s.numpy() * 1.5, 1), np.exp(float(s))))
_with(
    "tensors_of_numbers_of_tensors",
    lambda s: (
        tf.constant([float(s), int(s)]) * tf.constant(float(s), shape=[2]) + tf.cast(tf.constant(int(s)), "float32")
    ),
)
