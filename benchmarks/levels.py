"""Levels in TensorFlow's own operations beside the batched engine: a TreeLSTM over random binary trees."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from recgraph.benchmarks import measure, report
from recgraph.benchmarks.options import COUNTS, Several

VOCABULARY, CLASSES = 20_000, 5
CONTENDERS = ("batched", "levels", "xla")


class Network:
    """A TreeLSTM with a loss at every node; the trees of a batch are in a variable."""

    def __init__(self, embedding: int, hidden: int) -> None:
        import tensorflow as tf

        rng = np.random.default_rng(0)
        shapes = {
            "words": (VOCABULARY, embedding),
            "leaf": (embedding, 3 * hidden),
            "leaf_bias": (3 * hidden,),
            "inner": (2 * hidden, 5 * hidden),
            "inner_bias": (5 * hidden,),
            "classes": (hidden, CLASSES),
            "classes_bias": (CLASSES,),
        }
        self.hidden = hidden
        self.weights = {
            name: tf.Variable(rng.uniform(-0.1, 0.1, shape), dtype=tf.float32) for name, shape in shapes.items()
        }
        self.table = tf.Variable(np.zeros([1, 4], np.int32), shape=[None, 4], trainable=False)

    def subgraph(self, engine: str) -> Any:
        """From the number of a node to its state and the loss of its subtree."""
        import tensorflow as tf

        import recgraph as rg

        state, w = tf.TensorSpec([1, self.hidden]), self.weights
        with rg.SubGraph("tree", tf.TensorSpec([], tf.int32), (state, state, tf.TensorSpec([1])), engine) as tree:
            word, left, right, label = tf.unstack(tf.gather(self.table, tree.declared_arguments()), num=4)

            def leaf() -> Any:
                vector = tf.gather(w["words"], word[None])
                i, o, u = tf.split(vector @ w["leaf"] + w["leaf_bias"], 3, 1)
                memory = tf.sigmoid(i) * tf.tanh(u)
                return tf.sigmoid(o) * tf.tanh(memory), memory, tf.zeros([1])

            def inner() -> Any:
                (h, c, loss), (g, d, more) = tree(left), tree(right)
                gates = tf.concat([h, g], 1) @ w["inner"] + w["inner_bias"]
                i, o, u, f, k = tf.split(gates, 5, 1)
                memory = tf.sigmoid(i) * tf.tanh(u) + tf.sigmoid(f) * c + tf.sigmoid(k) * d
                return tf.sigmoid(o) * tf.tanh(memory), memory, loss + more

            hidden, memory, below = tf.cond(word >= 0, leaf, inner)
            logits = hidden @ w["classes"] + w["classes_bias"]
            own = tf.nn.sparse_softmax_cross_entropy_with_logits(label[None], logits)
            tree.output((hidden, memory, below + own))
        return tree

    def steps(self, contender: str, width: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """A training step without its optimizer, and the loss alone."""
        import tensorflow as tf

        import recgraph as rg

        tree = self.subgraph("levels" if contender == "levels" else "batched")
        levels = rg.levels.Levels(tree, width=width) if contender == "xla" else None
        variables = list(self.weights.values())

        def loss(*given: Any) -> Any:
            return tf.reduce_sum((levels or tree.map)(*given)[2])

        def train(*given: Any) -> Any:
            with tf.GradientTape() as tape:
                value = loss(*given)
            return [value, *tape.gradient(value, variables)]

        functions = [tf.function(f, jit_compile=levels is not None) for f in (train, loss)]
        if levels is None:
            return functions[0], functions[1]
        return tuple(lambda roots, f=f: f(levels.plan(roots), roots) for f in functions)  # type: ignore[return-value]


def forest(rng: np.random.Generator, count: int, leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """Random binary trees of up to so many leaves: word, children and label of each node, and the roots."""
    rows: list[list[int]] = []

    def grow(size: int) -> int:
        below, word = (-1, -1), int(rng.integers(VOCABULARY))
        if size > 1:
            left = int(rng.integers(1, size))
            below, word = (grow(left), grow(size - left)), -1
        rows.append([word, *below, int(rng.integers(CLASSES))])
        return len(rows) - 1

    roots = [grow(int(rng.integers(1, leaves + 1))) for _ in range(count)]
    return np.array(rows, np.int32), np.array(roots, np.int32)


def measured(network: Network, functions: dict[str, Any], batch: int, batches: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of the processor a batch, and those of the clock."""
    import tensorflow as tf

    rng = np.random.default_rng(batch)
    data = [forest(rng, batch, 38) for _ in range(batches)]
    wall: dict[str, list[float]] = {name: [] for name in functions}

    def run(name: str) -> float:
        begin, start = time.process_time(), time.perf_counter()
        for rows, roots in data:
            network.table.assign(rows)
            functions[name](tf.constant(roots))
        wall[name].append((time.perf_counter() - start) / batches * 1e3)
        return batches / (time.process_time() - begin)

    series = measure.interleave({name: lambda name=name: run(name) for name in functions}, rounds)
    return {
        name: {"cpu_ms": 1e3 / one.median, "spread": one.spread, "ms": float(np.median(wall[name][1:]))}
        | {"ratio": series["batched"].over(one) if "batched" in series else None}
        for name, one in series.items()
    }


def table(results: list[dict[str, Any]]) -> str:
    """Milliseconds of the processor a batch, and how many times those of the batched engine."""
    names = list(results[0]["contenders"])
    rows = []
    for result in results:
        found = result["contenders"]
        figures = [f"{found[n]['cpu_ms']:.1f} ±{found[n]['spread'] / 2:.0%} ({found[n]['ms']:.1f})" for n in names]
        ratios = [f"{found[n]['ratio']:.2f}" if found[n]["ratio"] else "" for n in names[1:]]
        rows.append([f"{result['what']}, batch {result['batch']}", *figures, *ratios])
    return report.markdown(["processor ms a batch (clock)", *names, *(f"{n} / {names[0]}" for n in names[1:])], rows)


@click.command("levels")
@click.option("--contenders", type=Several(CONTENDERS), default="batched,levels", show_default=True)
@click.option("--batches", type=COUNTS, default="1,25,256", show_default=True, help="Sizes of batches.")
@click.option("--count", type=click.IntRange(1), default=6, show_default=True, help="Batches a round.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--hidden", type=click.IntRange(1), default=150, show_default=True)
@click.option("--embedding", type=click.IntRange(1), default=300, show_default=True)
@click.option("--width", type=click.IntRange(1), default=64, show_default=True, help="Rows of a step of `xla`.")
@report.out_option
def main(
    contenders: list[str],
    batches: list[int],
    count: int,
    rounds: int,
    hidden: int,
    embedding: int,
    width: int,
    out: Path | None,
) -> None:
    """Measure levels in TensorFlow's own operations beside the batched engine."""
    results = []
    for batch in batches:
        network = Network(embedding, hidden)
        steps = {name: network.steps(name, width) for name in contenders}
        for place, what in enumerate(("training", "inference")):
            functions = {name: of_one[place] for name, of_one in steps.items()}
            found = measured(network, functions, batch, count, rounds)
            results.append({"what": what, "batch": batch, "contenders": found})
            report.save("levels", results, out)
    report.leave("levels", results, table(results), out)
