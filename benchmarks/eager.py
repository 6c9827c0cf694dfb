"""The programs of the TensorFlow Eager paper in its three ways, and by `rg.function`: figures 3 and 4 of the paper.

Eagerly; staged, by `tf.function`; and as a graph of TensorFlow 1 in a session. The paper trains ResNet-50 on a GPU,
with images of ImageNet, and L2HMC on a processor. Its figures are charts; what it says of them is in `PAPER`.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import tensorflow as tf
from matplotlib.figure import Figure

import recgraph as rg
from recgraph.benchmarks import measure, pictures, report
from recgraph.benchmarks.hand_written.sessions import SESSIONS
from recgraph.benchmarks.options import COUNTS, Several
from recgraph.benchmarks.pictures import Curve, Curves, Style
from recgraph.benchmarks.programs import MAX_WARM_UP, Contender, fault
from recgraph.models.zoo import EAGER, Program, generated
from recgraph.models.zoo.resnet50 import ResNet50

WAYS: dict[str, Callable[[str, Any], Any]] = {
    "eager": lambda name, made: made.train_step,
    "staged": lambda name, made: tf.function(made.train_step),
    "graph": lambda name, made: SESSIONS[name](made),
    "rg_function": lambda name, made: rg.function(made.train_step, mode="speculate", strict=True),
}
STYLES = {
    "eager": Style("eager", "black"),
    "staged": Style("tf.function", "tab:orange"),
    "graph": Style("session", "tab:gray"),
    "rg_function": Style("rg.function", "tab:red"),
}
# Of ImageNet, and batches of images that are like its own in form.
CLASSES, BATCHES = 1000, 2
PAPER = """\
Figures 3 and 4 of the paper are charts, of a Xeon W-2135 (12 cores, 3.7 GHz) with a GTX 1080. The text says of them:
staging ResNet-50 on the GPU gives significant speed-ups at small batch sizes, which vanish as they grow; staging L2HMC
on the processor gives at least an order of magnitude and recovers the full performance of a graph. Table 1, ResNet-50
on a TPU at batches of 1, 2, 4, 8, 16 and 32: staged, 20.5, 21.4, 19.5, 19.7, 11.9 and 8.0 times the images a second of
eager execution."""


def program_of(name: str, batch_size: int, image_size: int, small: bool) -> Program:
    """A program at the sizes of the paper: ResNet-50 with all its channels, for images of so many pixels a side.

    Its learning rate is 0.1 for 256 images and in proportion for fewer (Goyal et al., 2017): at 0.1 two images make
    chaos of rounding.
    """
    program = EAGER[name]
    if name != "resnet50" or small:
        return program

    def make(small: bool) -> ResNet50:
        return ResNet50(classes=CLASSES, rate=0.1 * batch_size / 256)

    def steps(batch_size: int, small: bool) -> list[Any]:
        return generated.batches(generated.images(BATCHES * batch_size, image_size, 3, CLASSES), batch_size)

    return dataclasses.replace(program, make=make, steps=steps)


def going_on(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step of a sampler whose chains go on from where the step before has left them; gives loss and acceptance."""
    kept: list[Any] = []

    def taken(positions: Any) -> Any:
        loss, chance, *kept[:] = step(*(kept or [positions]))
        return loss, chance

    return taken


def step_of(way: str, name: str, made: Any) -> Callable[..., Any]:
    """The step of a program, made for one of `WAYS`."""
    step = WAYS[way](name, made)
    return going_on(step) if name == "l2hmc" else step


def compare(name: str, batch_size: int, image_size: int, small: bool, warm_up: int, rounds: int) -> dict[str, Any]:
    """Measures a program at one size in each of the ways that have the losses of eager execution.

    Args:
      name: in `EAGER`.
      batch_size: images, or samples, a step.
      image_size: pixels a side.
      small: whether networks and images have the sizes of tests.
      warm_up: steps before the clock starts, whose losses are compared.
      rounds: how many measurements count, of each way in turn.
    """
    program = program_of(name, batch_size, image_size, small)
    epoch = [step for step in program.steps(batch_size, small) if program.work(step) == batch_size]
    contenders = {way: Contender(program, functools.partial(step_of, way, name), epoch, small) for way in WAYS}
    raised = {way: one.warm_up(warm_up, MAX_WARM_UP) for way, one in contenders.items()}
    faults = {way: fault(one, contenders["eager"], raised[way], False) for way, one in contenders.items()}
    right = {way: one for way, one in contenders.items() if not faults[way]}
    result = {
        "program": name,
        "batch_size": batch_size,
        "unit": program.unit,
        "series": measure.interleave(right, rounds),
        "faults": {way: text for way, text in faults.items() if text},
    }
    gc.collect()  # graphs refer to themselves
    return result


def table(results: Sequence[dict[str, Any]]) -> str:
    """Examples a second, and how many times as many as eagerly."""
    staged = [way for way in WAYS if way != "eager"]
    rows = []
    for result in results:
        series = result["series"]
        speeds = [f"{s.median:,.1f} ±{s.spread / 2:.0%}" if (s := series.get(way)) else "wrong" for way in WAYS]
        ratios = [f"{series[way].over(series['eager']):.2f}" if way in series else "" for way in staged]
        rows.append([f"{EAGER[result['program']].name}, {result['batch_size']}, {result['unit']}", *speeds, *ratios])
    labels = [style.label for style in STYLES.values()]
    header = ["program, batch, a second", *labels, *(f"{STYLES[way].label} / eager" for way in staged)]
    return report.markdown(header, rows)


def notes(results: Sequence[dict[str, Any]]) -> str:
    """What is wrong, a line each."""
    return "\n".join(
        f"- {EAGER[result['program']].name}, {result['batch_size']}, {STYLES[way].label}: {text}"
        for result in results
        for way, text in result["faults"].items()
    )


def picture(results: Sequence[dict[str, Any]]) -> Figure:
    """A panel for each program: examples a second by batch size, as in the paper's figures."""
    panels = []
    for name in dict.fromkeys(result["program"] for result in results):
        chosen = [result for result in results if result["program"] == name]
        curves = {}
        for way in WAYS:
            there = [(result["batch_size"], result["series"][way]) for result in chosen if way in result["series"]]
            if there:
                sizes, series = zip(*there, strict=True)
                low, high = ([end(one.speeds) for one in series] for end in (min, max))
                curves[way] = Curve(sizes, [one.median for one in series], low, high)
        panels.append(Curves(EAGER[name].name, curves))
    return pictures.curves([panels], STYLES, "batch size", "examples a second", log=True)


@click.command()
@click.option("--programs", type=Several(EAGER), default=",".join(EAGER), show_default=True, help="Names.")
@click.option("--batch-sizes", type=COUNTS, default="1,2,4,8,16", show_default=True, help="Images a step.")
@click.option("--samples", type=COUNTS, default="10,25,50,100,200", show_default=True, help="Chains of L2HMC.")
@click.option("--image-size", type=click.IntRange(8), default=64, show_default=True, help="Pixels a side.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--warm-up", default=6, show_default=True, help="Steps before the clock starts.")
@click.option("--small", is_flag=True, help="Networks and images of the sizes of the tests.")
@report.out_option
def main(
    programs: list[str],
    batch_sizes: list[int],
    samples: list[int],
    image_size: int,
    rounds: int,
    warm_up: int,
    small: bool,
    out: Path | None,
) -> None:
    """Measure ResNet-50 and L2HMC in each of the ways, interleaved, at each batch size."""
    results: list[dict[str, Any]] = []
    for name in programs:
        for size in samples if name == "l2hmc" else batch_sizes:
            results.append(compare(name, size, image_size, small, warm_up, rounds))
            click.echo(table(results[-1:]).splitlines()[-1])
            report.save("eager", results, out)
    text = "\n\n".join(part for part in (table(results), PAPER, notes(results)) if part)
    report.leave("eager", results, text, out, {"": lambda: picture(results)})
