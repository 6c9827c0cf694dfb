"""Tensors made of Python's numbers, text by patterns, and logs."""

from __future__ import annotations

import io
import json
import logging
import math
import re
import statistics
import types
from typing import Any

import absl.logging
import numpy as np
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor, with_tensor


@program
def a_constant_of_a_number_that_varies() -> Any:
    def step(x: tf.Tensor, k: int, rate: float) -> Any:
        return x * tf.constant(rate), tf.constant(k), tf.constant(k, tf.float64), tf.constant(rate, shape=[2, 2])

    return step, lambda i: (tensor(i), 3 * i, 0.1 * i), None


@program
def a_constant_of_a_list_that_varies() -> Any:
    def step(x: tf.Tensor, k: int, rate: float, name: str) -> Any:
        return tf.constant([[k, rate], [2, 1.5]]), tf.constant([k, 1]), tf.constant([name, "b"]), x

    return step, lambda i: (tensor(i), 3 * i, 0.1 * i, f"n{i}"), None


@program
def a_constant_of_a_number_beyond_32_bits() -> Any:
    def step(x: tf.Tensor, k: int) -> Any:
        return tf.constant(k), x

    return step, lambda i: (tensor(i), i if i % 5 else 2**31 + i), None


@program
def a_constant_of_an_array_that_varies() -> Any:
    def step(x: tf.Tensor, values: np.ndarray) -> Any:
        return tf.constant(values), tf.constant(values, tf.float32), tf.convert_to_tensor(values), x

    return step, lambda i: (tensor(i), np.arange(3) * 0.5 * i), None


@program
def a_conversion_of_a_number_that_varies() -> Any:
    def step(x: tf.Tensor, k: int, rate: float) -> Any:
        return (
            tf.convert_to_tensor(k),
            tf.convert_to_tensor(rate, tf.float64),
            tf.convert_to_tensor([rate, 1.0]) * x[0, 0],
        )

    return step, lambda i: (tensor(i), 3 * i, 0.1 * i), None


@program(eager="a float is no integer", feature="RAISES", line="return tf.constant(rate, tf.int32)")
def a_float_as_an_integer() -> Any:
    def step(x: tf.Tensor, rate: float) -> Any:
        try:
            return tf.constant(rate, tf.int32)
        except TypeError as error:
            return type(error).__name__

    return step, lambda i: (tensor(i), 0.1 * i), None


@program
def a_switch_by_a_constant() -> Any:
    def step(x: tf.Tensor, k: int) -> tf.Tensor:
        return tf.switch_case(tf.constant(k), [lambda: x + 1.0, lambda: x * 2.0, lambda: -x])

    return step, lambda i: (tensor(i), i % 3), None


@program
def it_returns_only_later() -> Any:
    """Calls that raise tell nothing of what the others do."""

    def step(x: tf.Tensor, k: int) -> tf.Tensor:
        return tf.switch_case(k if k < 5 else tf.constant(k % 3), [lambda: x + 1.0, lambda: x * 2.0, lambda: -x])

    return step, lambda i: (tensor(i), i), None


@program
def patterns() -> Any:
    pattern = re.compile(r"(\w+)a(\w*)")

    def step(x: tf.Tensor, text: str) -> Any:
        found = pattern.match(text)
        length = len(found.group(1)) if found else 7
        return x * length, re.sub("a", "bb", text), re.split(",", text), bool(re.search("n+", text))

    return step, lambda i: (tensor(i), ["banana,b", "xyz", "la"][i % 3]), None


@program
def records_as_json() -> Any:
    lines: list[str] = []

    def step(x: tf.Tensor) -> float:
        loss = round(float(tf.reduce_mean(x)), 3)
        lines.append(json.dumps({"loss": loss, "shape": list(x.shape)}))
        return statistics.fmean([1.0, 2.0, loss])

    return step, with_tensor, lines


@program
def logs() -> Any:
    """With the line and the function that they come from."""
    text, seen = io.StringIO(), types.SimpleNamespace(text="")
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(funcName)s %(lineno)d %(message)s"))
    log = logging.Logger("logs", logging.INFO)
    log.addHandler(handler)

    def step(x: tf.Tensor) -> tf.Tensor:
        total = tf.reduce_sum(x)
        log.info("total %.2f of %s", float(total), x.shape)
        log.debug("not seen %s", total)
        log.log(logging.ERROR, f"{total.numpy():.3f}")
        return total

    def arguments(i: int) -> Any:
        seen.text = text.getvalue()
        return with_tensor(i)

    return step, arguments, seen


@program
def logs_of_a_library() -> Any:
    """Of Abseil, whose logger is TensorFlow's."""
    text, seen = io.StringIO(), types.SimpleNamespace(text="")
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(funcName)s %(lineno)d %(message)s"))
    absl.logging.get_absl_logger().addHandler(handler)
    logging.basicConfig()

    def step(x: tf.Tensor) -> tf.Tensor:
        total = tf.reduce_sum(x)
        absl.logging.error("total %.2f of %s", float(total), x.shape)
        absl.logging.debug("not seen %s", total)
        return total

    def arguments(i: int) -> Any:
        seen.text = text.getvalue()
        return with_tensor(i)

    return step, arguments, seen


@program(eager="the program itself handles its logs", feature="LOGGING", line='log.info("%d", len(kept))')
def logs_that_the_program_handles() -> Any:
    kept: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record.getMessage())

    log = logging.Logger("kept", logging.INFO)
    log.addHandler(Keeping())

    def step(x: tf.Tensor) -> tf.Tensor:
        log.info("%d", len(kept))
        return x * len(kept)

    return step, with_tensor, kept


@program
def the_sign_of_a_complex_zero() -> Any:
    kept = types.SimpleNamespace(z=complex(-1.0, 0.0))

    def step(x: tf.Tensor) -> Any:
        return x * 2.0, math.copysign(1.0, kept.z.imag)

    def arguments(i: int) -> tuple[tf.Tensor]:
        kept.z = complex(-1.0, -0.0 if i >= 6 else 0.0)
        return with_tensor(i)

    return step, arguments, None


@program
def named_defaults_that_are_written() -> Any:
    def step(x: tf.Tensor, *, factor: float = 2.0) -> Any:
        return x * factor

    def arguments(i: int) -> tuple[tf.Tensor]:
        if i == 6:
            step.__kwdefaults__["factor"] = 3.0
        if i == 9:
            step.__kwdefaults__ = {"factor": 4.0}
        return with_tensor(i)

    return step, arguments, None
