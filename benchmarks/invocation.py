"""What an invocation costs: the Fibonacci recursion, which does nothing else, with every scheduling policy."""

from __future__ import annotations

import functools
import json
import statistics
from pathlib import Path

import click

from recgraph.benchmarks import measure, report
from recgraph.benchmarks.options import COUNTS, Several


def calls(n: int) -> int:
    """How many invocations `fib(n)` makes, itself included."""
    before, now = 1, 1
    for _ in range(n - 1):
        before, now = now, before + now + 1
    return now


def fibonacci(n: int, rounds: int, policies: list[str], threads: int) -> dict[str, list[float]]:
    """Runs `fib(n)` so many times with each policy, interleaved: microseconds an invocation, round by round.

    Raises:
      RuntimeError: the library counted another number of invocations than `fib` makes.
    """
    import tensorflow as tf

    import recgraph as rg
    from recgraph.testing import counters, policy

    tf.config.threading.set_inter_op_parallelism_threads(threads)
    scalar = tf.TensorSpec([], tf.int32)
    with rg.SubGraph("fib", inputs=scalar, outputs=scalar, engine="parallel") as fib:
        k = fib.input(tf.int32)
        fib.output(tf.cond(k < 2, lambda: k, lambda: fib(k - 1) + fib(k - 2)))
    run = tf.function(lambda k: fib(k), input_signature=[scalar])
    expected = calls(n)

    def under(name: str) -> float:
        with policy(name):
            return measure.speed(expected, lambda: run(n).numpy())

    before = counters().invocations
    series = measure.interleave({name: functools.partial(under, name) for name in policies}, rounds)
    counted = (counters().invocations - before) / ((rounds + 1) * len(policies))
    if counted != expected:
        raise RuntimeError(f"fib({n}) makes {expected} invocations, and {counted} were counted")
    return {name: [1e6 / value for value in one.speeds] for name, one in series.items()}


@click.command()
@click.option("-n", default=22, show_default=True, help="Which Fibonacci number.")
@click.option("--rounds", default=9, show_default=True)
@click.option("--threads", type=COUNTS, default="1,2", show_default=True, help="Inter-op threads.")
@click.option("--policies", type=Several(str), default="fifo,depth_first", show_default=True)
@report.out_option
@click.option("--one", hidden=True, type=int, help="Measure in this process, with so many threads.")
def main(n: int, rounds: int, threads: list[int], policies: list[str], out: Path | None, one: int | None) -> None:
    """Measure the policies interleaved, each number of threads in a process of its own."""
    if one is not None:
        click.echo(json.dumps(fibonacci(n, rounds, policies, one)))
        return
    results = []
    for count in threads:
        options = ["-n", str(n), "--rounds", str(rounds), "--policies", ",".join(policies), "--one", str(count)]
        for policy, times in measure.in_child("recgraph.benchmarks.invocation", options).items():
            results.append({"policy": policy, "threads": count, "calls": calls(n), "microseconds": times})
    rows = [
        [r["policy"], str(r["threads"]), f"{statistics.median(r['microseconds']):.2f}", f"{min(r['microseconds']):.2f}"]
        for r in results
    ]
    report.leave("invocation", results, report.markdown(["policy", "threads", "median, us", "best, us"], rows), out)


if __name__ == "__main__":
    main()
