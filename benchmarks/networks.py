"""TASO's table: networks for inference of one example, by TensorFlow alone, by XLA, and with substitutions."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.benchmarks import measure, report
from recgraph.benchmarks.architectures import ARCHITECTURES
from recgraph.benchmarks.options import Several
from recgraph.optimize.bridge.measuring import seconds_of

# How much faster than the graph that is given, on a GPU, and seconds of search, by backtracking (Jia et al., SOSP 2019)
# and by equality saturation (Yang et al., MLSys 2021, who measured both).
PUBLISHED = {
    "nasrnn": ((1.454, 177.0), (1.689, 0.5)),
    "bert": ((1.085, None), (1.092, None)),
    "squeezenet": ((1.067, None), (1.245, None)),
    "inception_v3": ((1.063, None), (1.100, None)),
    "nasnet_a": ((1.019, 1226.0), (1.073, 10.6)),
}
# Saturation needs a library that is optional.
SEARCHES = ("backtracking", *(["saturation"] if importlib.util.find_spec("egglog") else []))
Call = Callable[[], tf.Tensor]


def contenders(name: str, seconds: float) -> tuple[dict[str, Call], dict[str, dict[str, Any]]]:
    """A call of each way to run a network, and what each search did.

    Raises:
      AssertionError: two ways compute different results.
    """
    network = ARCHITECTURES[name]()
    random = np.random.default_rng(0)
    inputs = [tf.constant(random.normal(size=spec.shape).astype(np.float32)) for spec in network.specs]

    def compiled(jit: bool) -> Any:
        return tf.function(network.run, autograph=False, jit_compile=jit).get_concrete_function(*network.specs)

    plain = compiled(False)
    found, searches = {"tensorflow": plain, "xla": compiled(True)}, {}
    for way in SEARCHES:
        start = time.perf_counter()
        found[way] = rg.optimize(plain, *inputs, seconds=seconds, gradients=False, search=way)
        lines = found[way].explain().splitlines()[1:]
        searches[way] = {
            "seconds": time.perf_counter() - start, "is_rewritten": found[way].is_rewritten, "lines": lines,
        }  # fmt: skip
    expected = plain(*inputs).numpy()
    largest = np.abs(expected).max()
    for way, one in found.items():
        np.testing.assert_allclose(one(*inputs), expected, atol=2e-3 * largest, err_msg=f"{name}, {way}")
    calls = {way: lambda one=one: one(*inputs).numpy() for way, one in found.items()}
    return calls, searches


def pace(call: Call, seconds: float) -> Callable[[], float]:
    """Measures calls a second for about some time, by the median of its calls, each as `seconds_of` has it."""
    count = max(3, int(seconds * measure.speed(1.0, call)))

    def run() -> float:
        return 1 / float(np.median([seconds_of(call) for _ in range(count)]))

    return run


@click.command("networks")
@click.option("--networks", type=Several(ARCHITECTURES), default=",".join(ARCHITECTURES), show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=9, show_default=True, help="After one to warm up.")
@click.option("--seconds", type=float, default=0.3, show_default=True, help="Of one measurement, about.")
@click.option("--search", "patience", type=float, default=30.0, show_default=True, help="Seconds for each search.")
@report.out_option
def main(out: Path | None, networks: list[str], rounds: int, seconds: float, patience: float) -> None:
    """Measure networks for inference of one example: TensorFlow, XLA, and TensorFlow with substitutions."""
    results: list[dict[str, Any]] = []
    for name in networks:
        calls, searches = contenders(name, patience)
        series = measure.interleave({way: pace(call, seconds) for way, call in calls.items()}, rounds)
        results.append({"network": name, "series": series, "searches": searches})
        click.echo(table(results[-1:]))
        report.save("networks", results, out)
    report.leave("networks", results, table(results), out)


def table(results: list[dict[str, Any]]) -> str:
    """Milliseconds of TensorFlow, and what others are times as fast, with half the spread of their rounds."""
    header = ["network", "TensorFlow, ms", "XLA", *SEARCHES, *(f"search, s ({way})" for way in SEARCHES)]
    rows = []
    for result in results:
        series = result["series"]
        plain = series["tensorflow"]
        cells = [f"{1e3 / plain.median:.2f} ±{plain.spread / 2:.0%}"]
        for way in ("xla", *SEARCHES):
            is_same = way in SEARCHES and not result["searches"][way]["is_rewritten"]
            cells.append("left as it is" if is_same else f"{series[way].over(plain):.2f} ±{series[way].spread / 2:.0%}")
        cells += [f"{result['searches'][way]['seconds']:.1f}" for way in SEARCHES]
        published = PUBLISHED.get(result["network"], ((None, None), (None, None)))
        rows.append([result["network"], *cells, *(f"{ratio:.2f}" if ratio else "" for ratio, _ in published)])
    return report.markdown([*header, "TASO, GPU", "Tensat, GPU"], rows)
