"""Keras models under `fit`: eagerly, by Keras's own graph, and with steps that `rg.keras.compile` converts.

The clock runs from the beginning of an epoch to its end, so batches, metrics and callbacks are in it, and what `fit`
does once is not. All start with the same weights and see the same batches; whose histories are not those of eager
execution is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import keras
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

import recgraph as rg
from recgraph.auto.ways import WHAT
from recgraph.benchmarks import measure, pictures, report
from recgraph.benchmarks.options import Several
from recgraph.models.zoo.fitted import FITTED

LABELS = {"converted": "rg.keras.compile", "plain": "fit", "eager": "run_eagerly"}
COLOURS = {"converted": "tab:blue", "plain": "tab:orange", "eager": "black"}
STYLES = {kind: pictures.Style(LABELS[kind], COLOURS[kind], kind == "eager") for kind in LABELS}
# Histories that differ by more than this from eager ones are wrong; numbers with few digits are rounded otherwise.
TOLERANCE = 2e-3
TOLERANCES = {"mixed_bfloat16": 0.05, "mixed_float16": 0.02}
# So often an epoch has the data of the program.
REPEATS = 8
# Seconds for which a measurement goes on, epoch after epoch.
MIN_ROUND = 1.0


def longer(data: Any) -> Any:
    """The same data so often that an epoch has some dozens of steps; anything else as it is."""
    if isinstance(data, tf.data.Dataset):
        return data.repeat(REPEATS)
    if all(isinstance(part, np.ndarray) for part in keras.tree.flatten(data)):
        return keras.tree.map_structure(lambda part: np.concatenate([part] * REPEATS), data)
    return data


class Clock(keras.callbacks.Callback):
    """Seconds and steps of the epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.steps = 0.0, 0
        self._started, self._last = 0.0, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """The epoch begins."""
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """So many steps are done."""
        self._last = batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The epoch is over."""
        self.seconds += time.perf_counter() - self._started
        self.steps += self._last


class Fitting:
    """A program made anew, whose model is fitted in one of the ways.

    Attributes:
      history: of the epochs before the clock starts.
      steps: what `rg.keras.compile` gives; None in the other ways.
    """

    def __init__(self, kind: str, name: str, size: int):
        """Args: the way, the program's name, and its size."""
        keras.utils.set_random_seed(1)
        self._made = FITTED[name](size, run_eagerly=kind == "eager")
        self.steps = rg.keras.compile(self._made.model) if kind == "converted" else None
        left_out = ("validation_data", "validation_split")
        self._arguments = {name: longer(value) for name, value in self._made.arguments.items() if name not in left_out}
        self.history: dict[str, list[float]] = {}

    def fit(self, epochs: int, *callbacks: keras.callbacks.Callback) -> dict[str, list[float]]:
        """Goes on for some epochs; the history of these."""
        arguments = {**self._arguments, "epochs": epochs, "verbose": 0, "callbacks": list(callbacks)}
        history: dict[str, list[float]] = self._made.model.fit(**arguments).history
        return history

    def warm_up(self, epochs: int) -> str:
        """Fits until graphs are made; what was raised if something was. Each way shuffles and drops out alike."""
        keras.utils.set_random_seed(1)
        try:
            self.history = self.fit(epochs)
        except Exception as error:  # a graph of Keras's own may raise anything
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0].split('. ')[0]}"
        return ""

    def __call__(self) -> float:
        """Steps a second, over epochs that take at least `MIN_ROUND`."""
        clock = Clock()
        while clock.seconds < MIN_ROUND:
            self.fit(1, clock)
        return clock.steps / clock.seconds


def fault(history: dict[str, list[float]], expected: dict[str, list[float]], tolerance: float) -> str:
    """What is wrong with a history; "" if it is the one expected."""
    for name, values in expected.items():
        if name not in history:
            return f"its history has no {name}"
        if not np.allclose(history[name], values, rtol=tolerance, atol=tolerance / 10):
            return f"its history of {name} is another: {history[name][-1]:.5g}, not {values[-1]:.5g}, in the last epoch"
    return ""


def compare(name: str, size: int, warm_up: int, rounds: int) -> dict[str, Any]:
    """Measures a program in each of the ways that give the history of eager execution.

    Args:
      name: in `FITTED`.
      size: multiplies widths and batches.
      warm_up: epochs before the clock starts, whose histories are compared.
      rounds: how many measurements count, of each way in turn.
    """
    ways = {kind: Fitting(kind, name, size) for kind in LABELS}
    faults = {kind: one.warm_up(warm_up) for kind, one in ways.items()}
    expected, tolerance = ways["eager"].history, TOLERANCES.get(name, TOLERANCE)
    faults = {kind: text or fault(ways[kind].history, expected, tolerance) for kind, text in faults.items()}
    series = measure.interleave({kind: one for kind, one in ways.items() if not faults[kind]}, rounds)
    train = ways["converted"].steps.train
    return {
        "program": name,
        "size": size,
        "series": series,
        "faults": {kind: text for kind, text in faults.items() if text},
        "calls": dict(train.calls),
        "way": train.way,
        "eager_because": train.given_up,
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """Milliseconds a step, and how many times as fast converted steps are."""
    rows = []
    for result in results:
        series = result["series"]
        cells = [
            f"{1e3 / series[kind].median:.2f} ±{series[kind].spread / 2:.0%}" if kind in series else "wrong"
            for kind in LABELS
        ]
        ours = series.get("converted")
        ratios = [f"{ours.over(series[kind]):.2f}" if ours and kind in series else "" for kind in ("eager", "plain")]
        rows.append([title(result), *cells, *ratios])
    header = ["model", *(f"{LABELS[kind]}, ms a step" for kind in LABELS)]
    return report.markdown([*header, *(f"times as fast as {LABELS[kind]}" for kind in ("eager", "plain"))], rows)


def notes(results: Sequence[dict[str, Any]]) -> str:
    """What is wrong, and what runs otherwise than as a graph, a line each."""
    lines = []
    for result in results:
        lines += [f"- {title(result)}, {LABELS[kind]}: {text}" for kind, text in result["faults"].items()]
        if result["way"] not in ("graph", None):
            because = f", because {result['eager_because']}" if result["eager_because"] else ""
            lines.append(f"- {title(result)}: steps run {WHAT[result['way']]}{because}")
    return "\n".join(lines)


def title(result: dict[str, Any]) -> str:
    """A program, and its size if it is not that of tests."""
    return result["program"].replace("_", " ") + (f" ×{result['size']}" if result["size"] > 1 else "")


def picture(results: Sequence[dict[str, Any]]) -> Figure:
    """Bars for each program: speeds over that of eager execution."""
    right = [result for result in results if "eager" in result["series"]]
    values = {
        kind: [r["series"][kind].over(r["series"]["eager"]) if kind in r["series"] else 0.0 for r in right]
        for kind in LABELS
    }
    groups = [title(result).replace(" ", "\n") for result in right]
    figure = pictures.bars([[pictures.Bars("", groups, values)]], STYLES, "model", "speed over eager execution")
    figure.set_size_inches(max(6.5, 0.9 * len(groups)), figure.get_size_inches()[1])
    return figure


@click.command()
@click.option("--programs", type=Several(FITTED), default=",".join(FITTED), show_default=True, help="Names.")
@click.option("--sizes", type=Several(click.IntRange(1)), default="1,4", show_default=True, help="Of widths, batches.")
@click.option("--warm-up", default=2, show_default=True, help="Epochs before the clock starts.")
@click.option("--rounds", default=11, show_default=True)
@report.out_option
def main(programs: list[str], sizes: list[int], warm_up: int, rounds: int, out: Path | None) -> None:
    """Measure a step of Keras's `fit`, in each of three ways, interleaved."""
    results: list[dict[str, Any]] = []
    for size in sizes:
        for name in programs:
            results.append(compare(name, size, warm_up, rounds))
            click.echo(table(results[-1:]).splitlines()[-1])
            report.save("keras", results, out)
    text = "\n\n".join(part for part in (table(results), notes(results)) if part)
    report.leave("keras", results, text, out, {"": lambda: picture(results)})
