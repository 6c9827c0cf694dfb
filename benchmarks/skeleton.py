"""What co-execution costs on Python's side: the program with a graph that computes nothing, beside the usual ways.

A step whose graph costs nothing is the ceiling of what co-execution can reach on small operations: what is left is
Python, TensorFlow's Python, and the device's share of each operation, which is measured apart.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import tensorflow as tf

from recgraph.benchmarks import measure, report
from recgraph.coexec import Coexecuted, device
from recgraph.coexec.replay import Replayed

Step = Callable[[], Any]

# Calls before the clock starts: those that are traced, and the first run of the graph.
WARM_UP = 6


def chain(operations: int) -> Step:
    """Small operations one after another: what is around an operation is most of its time."""
    x = tf.ones([4, 4])

    def step() -> tf.Tensor:
        y = x
        for _ in range(operations // 2):
            y = tf.tanh(y) * 1.01
        return y

    return step


def network(units: int) -> Step:
    """Three dense layers with a tape and an update."""
    weights = [tf.Variable(tf.random.stateless_normal([units, units], [1, i]) * 0.05) for i in range(3)]
    biases = [tf.Variable(tf.zeros([units])) for _ in range(3)]
    x = tf.ones([32, units])

    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = x
            for weight, bias in zip(weights, biases, strict=True):
                y = tf.nn.relu(y @ weight + bias)
            loss = tf.reduce_mean(tf.square(y))
        variables = [*weights, *biases]
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.01 * gradient)
        return loss

    return step


PROGRAMS: dict[str, Callable[[], Step]] = {
    "140 small operations": lambda: chain(140),
    "network of 64 units": lambda: network(64),
    "network of 512 units": lambda: network(512),
}


def idle(step: Coexecuted) -> Step:
    """Takes the graph away from a step: Python walks along the plan, and nothing is computed."""
    replayed = Replayed(step)
    replayed.record(0)
    return functools.partial(replayed.replay, 0)


def contenders(make: Callable[[], Step]) -> Iterator[tuple[str, Step]]:
    """The ways to run a program, each with variables of its own, after their first calls."""
    for name in ("eager", "coexec", "idle", "tf_function"):
        step = make()
        if name in ("coexec", "idle"):
            step = Coexecuted(step)
        elif name == "tf_function":
            step = tf.function(step)
        for _ in range(WARM_UP):
            step()
        yield name, idle(step) if name == "idle" else step


def compare(make: Callable[[], Step], rounds: int, steps: int) -> tuple[dict[str, measure.Series], int]:
    """Steps a second in each way, interleaved, and how many operations of a step are in the graph.

    Raises:
      RuntimeError: the program was not co-executed.
    """
    found = dict(contenders(make))
    if not found["coexec"].phases.counts["coexecuted"]:
        raise RuntimeError(f"not co-executed: {found['coexec'].explain()}")

    def timed(step: Step) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            step()
        return steps / (time.perf_counter() - start)

    series = measure.interleave({name: lambda step=step: timed(step) for name, step in found.items()}, rounds)
    return series, len(found["coexec"].phases.graph.nodes)


def device_shares(make: Callable[[], Step], steps: int) -> dict[str, float]:
    """Microseconds that the device takes for an operation: the median of steps with the graph, and with a free one.

    From the call of the device to its return, two readings of the clock included; operations that waited for a value
    are left out.
    """
    shares = {}
    for name, step in contenders(make):
        if name not in ("coexec", "idle"):
            continue
        found = []
        for _ in range(steps):
            device.module().share(True)
            step()
            operations, nanoseconds = device.module().share(False)
            found.append(nanoseconds / 1e3 / operations)
        shares[name] = statistics.median(found)
    return shares


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True, help="After one to warm up.")
@click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Of one measurement.")
@report.out_option
def main(rounds: int, steps: int, out: Path | None) -> None:
    """Measure the ceiling of co-execution: the same step with a graph that costs nothing."""
    results, rows = [], []
    for program, make in PROGRAMS.items():
        series, operations = compare(make, rounds, steps)
        shares = device_shares(make, rounds * steps)
        results.append({"program": program, "operations": operations, "series": series, "device": shares})
        micro = {name: 1e6 / one.median for name, one in series.items()}
        each = (micro["eager"] / operations, micro["idle"] / operations)
        rows.append(
            [program, str(operations)]
            + [f"{micro[name]:,.0f}" for name in ("eager", "coexec", "idle", "tf_function")]
            + [f"{series[name].over(series['eager']):.2f}" for name in ("coexec", "idle")]
            + [f"{each[0]:.1f}", f"{each[1]:.1f}", f"{shares['coexec']:.2f}", f"{shares['idle']:.2f}"]
        )
    heads = ["program", "operations", "eager us", "co-executed us", "free graph us", "tf.function us"]
    heads += ["co-executed over eager", "ceiling over eager", "us an operation, eager", "and with a free graph"]
    heads += ["the device's share", "and with a free graph"]
    report.leave("skeleton", results, report.markdown(heads, rows), out)


if __name__ == "__main__":
    main()
