"""What a second thread gives on one tree: a balanced TreeLSTM, batch 1, with one inter-op thread and with two."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import click

from recgraph.benchmarks import report


@click.command()
@click.option("--leaves", default=256, show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Of both, interleaved, each in a process of its own.")
@report.out_option
def main(leaves: int, rounds: int, out: Path | None) -> None:
    """Measure inference on one balanced tree with one and two inter-op threads."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for threads, taken in seconds.items():
            taken.append(_in_process(threads, leaves))
    medians = {threads: statistics.median(taken) for threads, taken in seconds.items()}
    ratios = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    rows = [[str(threads), f"{1e3 * median:.2f}"] for threads, median in medians.items()]
    ratio = f"Two threads are {statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})"
    report.leave("threads", seconds, f"{report.markdown(['threads', 'median, ms'], rows)}\n\n{ratio}", out)


def _in_process(threads: int, leaves: int) -> float:
    command = [sys.executable, "-c", f"from recgraph.benchmarks.threads import child; child({threads}, {leaves})"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def child(threads: int, leaves: int) -> None:
    """Prints the median time of 30 runs, in seconds."""
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(threads)
    from recgraph.data import Vocabulary, balanced, encode
    from recgraph.models import MODELS
    from recgraph.train.steps import batch_signature

    tree = balanced(["word"] * leaves)
    vocabulary = Vocabulary.build([tree])
    batch = type(batch_signature())(*map(tf.constant, encode([tree], vocabulary)))
    model = MODELS["tree_lstm"](len(vocabulary))
    predict = tf.function(model.predict, input_signature=[batch_signature()])
    predict(batch)
    taken = []
    for _ in range(30):
        start = time.perf_counter()
        predict(batch)
        taken.append(time.perf_counter() - start)
    print(statistics.median(taken))


if __name__ == "__main__":
    main()
