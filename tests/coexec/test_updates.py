"""Updates of variables by TensorFlow's kernels for optimizers are part of a step's graph, and give eager's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.coexec.steps import STEPS, compared, matrix

# How many variables each has, and its scalars.
DENSE = {
    "ResourceApplyAdaMax": (3, {"beta1_power": 0.9, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3}),
    "ResourceApplyAdadelta": (3, {"lr": 0.1, "rho": 0.9, "epsilon": 1e-3}),
    "ResourceApplyFtrlV2": (3, {"lr": 0.1, "l1": 0.01, "l2": 0.01, "l2_shrinkage": 0.01, "lr_power": -0.5}),
    "ResourceApplyAdagrad": (2, {"lr": 0.1}),
}
NAMES = {
    "ResourceApplyAdaMax": ("var", "m", "v"),
    "ResourceApplyAdadelta": ("var", "accum", "accum_update"),
    "ResourceApplyFtrlV2": ("var", "accum", "linear"),
    "ResourceApplyAdagrad": ("var", "accum"),
}


@pytest.mark.parametrize("name", sorted(DENSE))
def test_an_update_is_co_executed(name: str) -> None:
    """Also where Python reads the variable after it."""
    count, scalars = DENSE[name]

    def make() -> tuple[Callable[..., Any], Any]:
        variables = [tf.Variable(tf.ones([4, 3])) for _ in range(count)]
        handles = {key: variable.handle for key, variable in zip(NAMES[name], variables, strict=True)}

        def step(x: tf.Tensor) -> float:
            gradient = tf.tanh(x * variables[0])
            getattr(tf.raw_ops, name)(**handles, **scalars, grad=gradient)
            return float(tf.reduce_sum(variables[0]))

        return step, variables

    assert compared(make, matrix).phases.counts["coexecuted"] >= STEPS - 5


def test_an_update_that_refuses_its_rate_fails_as_eagerly() -> None:
    """Whether it may fail depends on values: the variables are left as they are."""

    def make() -> tuple[Callable[..., Any], Any]:
        variables = [tf.Variable(tf.ones([4, 3])) for _ in range(2)]

        def step(x: tf.Tensor) -> tf.Tensor:
            rate = x[0, 0] + 0.5
            tf.raw_ops.ResourceApplyProximalAdagrad(
                var=variables[0].handle, accum=variables[1].handle, lr=rate, l1=0.0, l2=0.0, grad=x
            )
            return tf.reduce_sum(variables[0])

        return step, variables

    compared(make, matrix)
