"""What the batched engine itself costs: microseconds per invocation of recursions that compute next to nothing.

`--rows` roots a thread are mapped over, so that so many rows are ready at every level; all of them go down `--levels`:

- `chain`: `f(n) = f(n - 1) if n > 0 else n`. An invocation is one row of `n > 0`, the choice of the branch, one row
  of `n - 1`, and a call whose result is handed up as it is.
- `pair`: `f(n) = f(n - 1) + f(0) if n > 0 else n`, a linear tree. Two calls and one row of an addition more for every
  inner invocation; half of all invocations are leaves.
- `gradient`: `f(n, x) = -f(n - 1, x) if n > 0 else x` and its gradient: frames are kept, and every invocation has a
  second one that computes its gradient. Both are counted.

The time is that of a whole call from a `tf.function`, by the wall clock: starting the roots and stacking their results
is in it, and so are the blocks themselves, whose kernels compare, subtract and add a thousand numbers each. With N
threads the rows are N times as many and every thread works on its own, so that the cost by the wall clock is divided
by up to N; the cost with one thread is that of an invocation. The library's own count of invocations must be the
number that the recursion makes.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import measure, report
from recgraph.benchmarks.options import COUNTS

# By case: how many invocations a root makes that goes down so many levels.
INVOCATIONS: dict[str, Callable[[int], int]] = {
    "chain": lambda levels: levels + 1,
    "pair": lambda levels: 2 * levels + 1,
    "gradient": lambda levels: 2 * (levels + 1),
}


def program(case: str) -> Callable[[Any], Any]:
    """The case as a function of the levels that each root goes down, int32 `[rows]`."""
    import tensorflow as tf

    import recgraph as rg

    integer, real = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)
    if case == "gradient":
        with rg.SubGraph("f", inputs=(integer, real), outputs=real, engine="batched") as f:
            n, x = f.input(tf.int32), f.input(tf.float32)
            f.output(tf.cond(n > 0, lambda: -f(n - 1, x), lambda: x))

        def differentiated(levels: Any) -> Any:
            x = tf.ones(tf.shape(levels))
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f.map(levels, x)
            return tape.gradient(y, x)

        return differentiated
    with rg.SubGraph("f", inputs=integer, outputs=integer, engine="batched") as f:
        n = f.input(tf.int32)
        below = {"chain": lambda: f(n - 1), "pair": lambda: f(n - 1) + f(0)}[case]
        f.output(tf.cond(n > 0, below, lambda: n))
    return f.map


def costs(rows: int, levels: int, rounds: int, threads: int) -> dict[str, list[float]]:
    """Runs every case so many times, interleaved: microseconds per invocation, round by round.

    Raises:
      RuntimeError: the library counted another number of invocations than the recursions make.
    """
    import tensorflow as tf

    from recgraph.testing import counters

    tf.config.threading.set_inter_op_parallelism_threads(threads)
    roots = tf.fill([rows * threads], levels)
    signature = [tf.TensorSpec([None], tf.int32)]

    def speed(run: Callable[[Any], Any], expected: int) -> float:
        before = counters().invocations
        result = measure.speed(expected, lambda: run(roots).numpy())
        counted = counters().invocations - before
        if counted != expected:
            raise RuntimeError(f"{expected} invocations were to be made, and {counted} were counted")
        return result

    work = {}
    for case, count in INVOCATIONS.items():
        run = tf.function(program(case), input_signature=signature)
        work[case] = partial(speed, run, count(levels) * rows * threads)
    series = measure.interleave(work, rounds)
    return {case: [1e6 / value for value in one.speeds] for case, one in series.items()}


@click.command()
@click.option("--rows", type=click.IntRange(1), default=1000, show_default=True, help="Ready at once, of every thread.")
@click.option("--levels", type=click.IntRange(1), default=100, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=9, show_default=True)
@click.option("--threads", type=COUNTS, default="1,2", show_default=True, help="Inter-op threads.")
@report.out_option
@click.option("--one", hidden=True, type=int, help="Measure in this process, with so many threads.")
def main(rows: int, levels: int, rounds: int, threads: list[int], out: Path | None, one: int | None) -> None:
    """Measure all cases interleaved, each number of threads in a process of its own."""
    if one is not None:
        click.echo(json.dumps(costs(rows, levels, rounds, one)))
        return
    results = []
    for count in threads:
        options = ["--rows", str(rows), "--levels", str(levels), "--rounds", str(rounds), "--one", str(count)]
        for case, times in measure.in_child("recgraph.benchmarks.machinery", options).items():
            made = INVOCATIONS[case](levels) * rows * count
            results.append({"case": case, "threads": count, "invocations": made, "microseconds": times})
    header = ["case", "threads", "invocations", "median, us", "best, us"]
    report.leave("machinery", results, report.markdown(header, [_row(result) for result in results]), out)


def _row(result: dict[str, Any]) -> list[str]:
    times = result["microseconds"]
    figures = [f"{result['invocations']:,}", f"{statistics.median(times):.3f}", f"{min(times):.3f}"]
    return [result["case"], str(result["threads"]), *figures]


if __name__ == "__main__":
    main()
