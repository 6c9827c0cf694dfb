"""What the machinery costs beyond arithmetic: calls from outside, invocations, runs of blocks."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from recgraph.benchmarks import measure, report

ENGINES = ("parallel", "batched")
TENSORFLOW = "TensorFlow"
ROOTS = 8  # of a `map`


def calls(rounds: int, count: int) -> list[dict[str, Any]]:
    """Microseconds of a call of `x + 1`, beside TensorFlow's own function in the same place."""
    import tensorflow as tf

    import recgraph as rg

    one, several = tf.constant(1.0), tf.ones([ROOTS])
    add = tf.function(lambda x: x + 1.0, experimental_attributes={"_noinline": True})
    contenders: dict[str, tuple[Any, tf.Tensor]] = {TENSORFLOW: (add, one)}
    for engine in ENGINES:
        with rg.SubGraph("plus", outputs=tf.TensorSpec([]), engine=engine) as plus:
            plus.output(plus.input() + 1.0)
        contenders |= {engine: (plus, one), f"{engine}, map of 1": (plus.map, several[:1])}
        contenders[f"{engine}, map of {ROOTS}"] = plus.map, several
    results = []
    for place, of_one in (("eager", _eager), ("in a graph", _in_graph)):
        for gradient in (False, True):
            runs = {name: of_one(_gradient_of(f) if gradient else f, x, count) for name, (f, x) in contenders.items()}
            times = {name: _microseconds(series) for name, series in measure.interleave(runs, rounds).items()}
            theirs = times.pop(TENSORFLOW)
            common = {"place": place, "gradient": gradient, "tensorflow_us": theirs}
            results += [{"call": name, "us": us, **common} for name, us in times.items()]
    return results


def _eager(function: Any, x: Any, count: int) -> Callable[[], float]:
    return lambda: measure.speed(count, lambda: [function(x) for _ in range(count)])


def _in_graph(function: Any, x: Any, count: int) -> Callable[[], float]:
    """All calls in one graph, so that the call of the graph hardly counts."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def loop(x: tf.Tensor) -> tf.Tensor:
        step = lambda i, y: (i + 1, tf.ensure_shape(function(y), x.shape))  # noqa: E731
        return tf.while_loop(lambda i, _: i < count, step, (0, x), parallel_iterations=1)[1]

    return lambda: measure.speed(count, lambda: loop(x))


def _gradient_of(call: Any) -> Any:
    import tensorflow as tf

    def gradient(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call(x)
        return tape.gradient(y, x)

    return gradient


def _microseconds(series: measure.Series) -> list[float]:
    return [1e6 / speed for speed in series.speeds]


def invocations(rounds: int, depth: int, trees: int, n: int) -> list[dict[str, Any]]:
    """Processor time an invocation: sums of leaves of given balanced trees, and the tree of Fibonacci's calls."""
    import tensorflow as tf

    import recgraph as rg
    from recgraph.testing import counters

    leaves = 2**depth
    nodes = tf.range(2 * leaves)  # node i > 0 has the children 2 i and 2 i + 1, those from `leaves` on are leaves
    left = tf.where(nodes < leaves, 2 * nodes, -1)
    values, roots = tf.ones([2 * leaves]), tf.ones([trees], tf.int32)
    integer = tf.TensorSpec([], tf.int32)
    runs: dict[str, Any] = {}
    for engine in ENGINES:
        with rg.SubGraph("total", inputs=integer, outputs=tf.TensorSpec([]), engine=engine) as total:
            i = total.input(tf.int32)
            total.output(tf.cond(left[i] < 0, lambda: values[i], lambda: total(left[i]) + total(left[i] + 1)))  # noqa: B023
        with rg.SubGraph("fib", inputs=(integer, integer), outputs=integer, engine=engine) as fib:
            k, at = fib.input(tf.int32), fib.input(tf.int32)  # where it is in the tree of calls: no two are equal
            fib.output(tf.cond(k < 2, lambda: k, lambda: fib(k - 1, 2 * at) + fib(k - 2, 2 * at + 1)))  # noqa: B023
        trained = _gradient_of(lambda _, total=total: total.map(roots))
        runs[f"sum of leaves, {engine}"] = tf.function(lambda total=total: total.map(roots))
        runs[f"sum of leaves with gradient, {engine}"] = tf.function(functools.partial(trained, values))
        runs[f"Fibonacci, {engine}"] = tf.function(lambda fib=fib: fib(tf.constant(n), 1))

    def speed(run: Any) -> float:
        before, start = counters().invocations, time.process_time()
        run()
        return (counters().invocations - before) / (time.process_time() - start)

    series = measure.interleave({name: functools.partial(speed, run) for name, run in runs.items()}, rounds)
    return [{"invocation": name, "us": _microseconds(one)} for name, one in series.items()]


def blocks(rounds: int, depth: int = 100, width: int = 64, most: int = 256) -> dict[str, Any]:
    """Microseconds of a run of a block, `0.5 x + 1` for a row of `width` numbers, that do not grow with its rows."""
    import tensorflow as tf

    import recgraph as rg
    from recgraph import native

    with rg.SubGraph("halve", outputs=tf.TensorSpec([width]), engine="batched") as halve:
        n, x = halve.input(tf.int32), halve.input(tf.float32, [width])
        halve.output(tf.cond(n > 0, lambda: halve(n - 1, 0.5 * x + 1.0), lambda: x))
    key = halve.program(gradient=False).key

    def run(rows: int) -> Any:
        """Rows and microseconds of a run in the mean."""
        before = native.ops().recgraph_block_counts(key).counts.numpy().sum(0)
        halve.map(tf.fill([rows], depth), tf.ones([rows, width]))
        counts = native.ops().recgraph_block_counts(key).counts.numpy().sum(0) - before
        return counts[1:] / (counts[0], 1e3 * counts[0])

    halve.map(tf.fill([1], depth), tf.ones([1, width]))  # now there is a program that counts
    fixed = []
    for _ in range(rounds):
        (few, short), (many, long) = run(1), run(most)
        fixed.append(short - few * (long - short) / (many - few))
    return {"us": fixed}


@click.command()
@click.option("--rounds", default=25, show_default=True)
@click.option("--calls", "count", default=128, show_default=True, help="Calls in a measurement.")
@click.option("--depth", default=7, show_default=True, help="Of the trees.")
@click.option("--trees", default=16, show_default=True)
@click.option("-n", default=16, show_default=True, help="Which Fibonacci number.")
@report.out_option
def main(rounds: int, count: int, depth: int, trees: int, n: int, out: Path | None) -> None:
    """Measure calls of a trivial SubGraph, the processor time of invocations, and runs of blocks."""
    results = {
        "calls": calls(rounds, count),
        "invocations": invocations(rounds, depth, trees, n),
        "blocks": blocks(rounds),
    }
    rows = [_row(_of_call(r), r["us"], r["tensorflow_us"]) for r in results["calls"]]
    rows += [_row(f"invocation: {r['invocation']}", r["us"]) for r in results["invocations"]]
    rows.append(_row("run of a block, beyond its rows", results["blocks"]["us"]))
    header = ["what", "us", "±", "best, us", "TensorFlow's, us", "beyond, us", "beyond, best, us"]
    report.leave("machinery", results, report.markdown(header, rows), out)


def _of_call(result: dict[str, Any]) -> str:
    return f"call {result['place']}{' with gradient' if result['gradient'] else ''}: {result['call']}"


def _row(what: str, times: list[float], others: list[float] | None = None) -> list[str]:
    middle, half = statistics.median(times), (max(times) - min(times)) / 2
    row = [what, f"{middle:.2f}", f"{half:.2f}", f"{min(times):.2f}"]
    if others is None:
        return [*row, "", "", ""]
    beyond = statistics.median(mine - theirs for mine, theirs in zip(times, others, strict=True))
    return [*row, f"{statistics.median(others):.2f}", f"{beyond:.2f}", f"{min(times) - min(others):.2f}"]


if __name__ == "__main__":
    main()
