"""Steps that do not convert whole, of many small operations, eagerly and by `rg.function` without a mode.

Each is a training step as people write it: functions of the user's for the gradients and for the update, and between
them what no converter takes.

- `generator`: the parts of a batch come from a generator that makes arrays of them.
- `raising`: an update that is not finite raises an exception, by NumPy, which the step handles.
- `library`: NumPy fits a line to the last losses in the middle of the step, and the rate follows from it.
- `inline`: as `library`, but the tape stands in the step itself, and the loss alone is a function.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks import report

LAYERS, WIDTH, BATCH = 12, 16, 8


class Network:
    """Gated layers, and gradient descent with momentum, in plain TensorFlow."""

    def __init__(self) -> None:
        seeds = [[1, i] for i in range(LAYERS)]
        self.kernels = [tf.Variable(tf.random.stateless_normal([WIDTH, WIDTH], seed) * 0.2) for seed in seeds]
        self.biases = [tf.Variable(tf.zeros([WIDTH])) for _ in seeds]
        self.velocities = [tf.Variable(tf.zeros_like(variable)) for variable in self.variables]
        self.losses: list[float] = []

    @property
    def variables(self) -> list[Any]:
        """What is trained."""
        return [*self.kernels, *self.biases]

    def loss(self, x: Any) -> Any:
        """How far the layers are from giving nothing: a scalar, for float32 `[batch, width]`."""
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            gate = tf.sigmoid(x @ kernel + bias)
            x = gate * tf.tanh(x @ kernel) + (1.0 - gate) * x
        return tf.reduce_mean(x * x) + 1e-4 * tf.add_n([tf.reduce_sum(kernel * kernel) for kernel in self.kernels])

    def gradients(self, x: Any) -> tuple[Any, list[Any]]:
        """The loss, and its gradients by the variables."""
        with tf.GradientTape() as tape:
            loss = self.loss(x)
        return loss, tape.gradient(loss, self.variables)

    def update(self, gradients: list[Any], rate: Any) -> None:
        """A step against the gradients."""
        for variable, velocity, gradient in zip(self.variables, self.velocities, gradients, strict=True):
            velocity.assign(0.9 * velocity + gradient)
            variable.assign_sub(rate * velocity)


def _parts(batch: Any) -> Iterator[Any]:
    for part in (batch, batch[::-1]):
        yield part.copy()


def _generator(network: Network, batch: Any) -> float:
    total = 0.0
    for part in _parts(batch):
        loss, gradients = network.gradients(tf.constant(part))
        network.update(gradients, tf.constant(0.01))
        total += float(loss)
    return total


def _raising(network: Network, batch: Any) -> float:
    loss, gradients = network.gradients(tf.constant(batch))
    try:
        with np.errstate(all="raise"):
            rate = float(np.exp(-loss.numpy().astype(np.float64)))
    except FloatingPointError:
        return float("inf")
    network.update(gradients, tf.constant(0.01 * rate))
    return float(loss)


def _slope(losses: list[float]) -> float:
    return float(np.polyfit(np.arange(len(losses)), losses, 1)[0]) if len(losses) > 1 else 0.0


def _library(network: Network, batch: Any) -> float:
    loss, gradients = network.gradients(tf.constant(batch))
    network.losses = [*network.losses[-15:], float(loss)]
    network.update(gradients, tf.constant(0.01 if _slope(network.losses) < 0.0 else 0.005))
    return float(loss)


def _inline(network: Network, batch: Any) -> float:
    with tf.GradientTape() as tape:
        loss = network.loss(tf.constant(batch))
    gradients = tape.gradient(loss, network.variables)
    network.losses = [*network.losses[-15:], float(loss)]
    network.update(gradients, tf.constant(0.01 if _slope(network.losses) < 0.0 else 0.005))
    return float(loss)


PROGRAMS: dict[str, Callable[[Network, Any], float]] = {
    "generator": _generator,
    "raising": _raising,
    "library": _library,
    "inline": _inline,
}


def measured(name: str, steps: int, warm_up: int) -> dict[str, Any]:
    """Takes steps of a program in turns, eagerly and by `rg.function`: seconds of each, and what was decided.

    Raises:
      RuntimeError: the results differ.
    """
    called = rg.function(PROGRAMS[name])
    contenders = {"eager": (PROGRAMS[name], Network()), "auto": (called, Network())}
    seconds: dict[str, list[float]] = {label: [] for label in contenders}
    for i in range(warm_up + steps):
        batch = np.random.default_rng(i).normal(size=(BATCH, WIDTH)).astype(np.float32)
        results = {}
        for label, (step, network) in contenders.items():
            started = time.perf_counter()
            results[label] = step(network, batch)
            if i >= warm_up:
                seconds[label].append(time.perf_counter() - started)
        if not np.isclose(results["eager"], results["auto"], rtol=1e-3):
            raise RuntimeError(f"step {i} of {name} gives {results}")
    decision = called.apart.decision if called.apart is not None else None
    return {"program": name, "decision": str(decision or called.given_up or "one graph"), **seconds}


@click.command()
@click.option("--steps", type=click.IntRange(1), default=50, show_default=True, help="Measured, of each.")
@click.option("--warm-up", type=click.IntRange(1), default=80, show_default=True, help="Steps before that.")
@click.option("--program", "programs", type=click.Choice(list(PROGRAMS)), multiple=True, help="Only this; repeatable.")
@report.out_option
def main(steps: int, warm_up: int, programs: tuple[str, ...], out: Path | None) -> None:
    """Measure programs that do not convert whole, step by step in turns."""
    results = [measured(name, steps, warm_up) for name in programs or PROGRAMS]
    header = ["program", "eager, ms", "rg.function, ms", "times as fast", "how it runs"]
    report.leave("auto", results, report.markdown(header, [_row(result) for result in results]), out)


def _row(result: dict[str, Any]) -> list[str]:
    eager, auto = (statistics.median(result[label]) for label in ("eager", "auto"))
    ratio = statistics.median(e / a for e, a in zip(result["eager"], result["auto"], strict=True))
    return [result["program"], f"{eager * 1e3:.2f}", f"{auto * 1e3:.2f}", f"{ratio:.1f}", result["decision"]]
