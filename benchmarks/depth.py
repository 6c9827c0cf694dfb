"""How deep a recursion goes and what a level costs in time and memory: a chain that is not a tail call."""

from __future__ import annotations

import dataclasses
import json
import resource
import time
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import measure, report
from recgraph.benchmarks.options import COUNTS


def resident() -> int:
    """Bytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def peak() -> int:
    """The most bytes of memory that this process ever held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def chain(depth: int, backward: bool) -> dict[str, Any]:
    """`f(n, x) = n > 0 ? 0.5 f(n - 1, x) + x : x`, forward or forward and backward, and whether it was right."""
    import tensorflow as tf

    import recgraph as rg
    from recgraph.testing import counters

    inputs = (tf.TensorSpec([], tf.int32), tf.TensorSpec([]))
    with rg.SubGraph("chain", inputs=inputs, outputs=tf.TensorSpec([]), max_depth=depth + 2) as f:
        n, x = f.input(tf.int32), f.input(tf.float32)
        f.output(tf.cond(n > 0, lambda: 0.5 * f(n - 1, x) + x, lambda: x))

    @tf.function(input_signature=inputs)
    def run(n: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(n, x)
        return y, (tape.gradient(y, x) if backward else x)

    run(10, 1.0)
    counters(reset_peak=True)
    before, start = resident(), time.perf_counter()
    value, gradient = (float(t) for t in run(depth, 1.0))
    seconds = time.perf_counter() - start
    right = abs(value - 2) < 1e-4 and abs(gradient - (2 if backward else 1)) < 1e-4
    return {
        "depth": depth,
        "backward": backward,
        "right": right,
        "microseconds_a_level": 1e6 * seconds / depth,
        "bytes_a_level": (peak() - before) / depth,
        "counters": dataclasses.asdict(counters()),
    }


@click.command()
@click.option("--forward", type=COUNTS, default="1000,100000,1000000", show_default=True)
@click.option("--backward", type=COUNTS, default="1000,100000", show_default=True)
@report.out_option
@click.option("--one", nargs=2, type=int, hidden=True, help="Depth, and 1 for backward: measure in this process.")
def main(forward: list[int], backward: list[int], out: Path | None, one: tuple[int, int] | None) -> None:
    """Measure each depth in a process of its own, so that its peak of memory is its own."""
    if one is not None:
        click.echo(json.dumps(chain(one[0], bool(one[1]))))
        return
    jobs = [(depth, 0) for depth in forward] + [(depth, 1) for depth in backward]
    results = [measure.in_child("recgraph.benchmarks.depth", ["--one", str(depth), str(back)]) for depth, back in jobs]
    header = ["chain", "live at once", "us a level", "bytes a level", "right"]
    report.leave("depth", results, report.markdown(header, [_row(r) for r in results]), out)


def _row(result: dict[str, Any]) -> list[str]:
    name = f"{result['depth']:,} {'forward and backward' if result['backward'] else 'forward'}"
    right = "yes" if result["right"] else "NO"
    live = f"{result['counters']['peak_invocations']:,}"
    return [name, live, f"{result['microseconds_a_level']:.1f}", f"{result['bytes_a_level']:,.0f}", right]


if __name__ == "__main__":
    main()
