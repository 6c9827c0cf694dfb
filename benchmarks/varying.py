"""GPT2 on sentences of any length: what a graph for each shape costs that a step brings for the first time.

The thesis (section 4.5.2) measures `tf.function` without an input signature so; here with one, too. No step is left
out: tracing and making graphs is what it is about.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.benchmarks import report
from recgraph.benchmarks.coexec_ways import LABELS, Taking
from recgraph.models.zoo.gpt2 import GPT2_TEXT, PADDING, sentences
from recgraph.models.zoo.program import Step

WAYS = ("eager", "coexecuted", "tf_function", "signature")
# The part of the steps, at the end, that is shown alone.
LAST = 4


def batches(small: bool, seed: int = 0) -> Iterator[Step]:
    """Endlessly batches of sentences, each cut to a length of its own, which is drawn."""
    longest, vocabulary = (16, 50) if small else (64, 5000)
    size = GPT2_TEXT.small_batch if small else GPT2_TEXT.batch_size
    random = np.random.default_rng(seed)
    for number in itertools.count(1):
        rows = np.full((size, int(random.integers(4, longest + 1))), PADDING, np.int32)
        for row, words in zip(rows, sentences(size, longest, vocabulary, number), strict=True):
            row[: len(words)] = words[: len(row)]
        yield (tf.constant(rows),)


def compare(small: bool, steps: int) -> dict[str, Any]:
    """Takes the same steps in each of the ways, one of each in turn.

    Args:
      small: whether the sizes are those of tests.
      steps: how many, of the first.

    Returns:
      The seconds of each step by way; how many `lengths` there were; how many graphs `tf.function` made.
    """
    taken = list(itertools.islice(batches(small), steps))
    Taking("eager", "gpt2", taken, small).warm_up(2)  # what TensorFlow does once is in nobody's first steps
    contenders = {kind: Taking(kind, "gpt2", taken, small) for kind in WAYS}
    for arguments in taken:
        for one in contenders.values():
            with one.context():
                one.take(arguments)
    for kind, one in contenders.items():
        if not np.allclose(one.losses, contenders["eager"].losses, 1e-3, 1e-3):
            raise RuntimeError(f"{LABELS[kind]} gives other losses")
    return {
        "small": small,
        "seconds": {kind: one.seconds for kind, one in contenders.items()},
        "lengths": len({words.shape[1] for (words,) in taken}),
        "graphs": contenders["tf_function"].step.experimental_get_tracing_count(),
    }


def table(results: list[dict[str, Any]]) -> str:
    """The speeds over that of eager execution, of all steps and of the last; "" if there are none."""
    rows = []
    for result in results:
        seconds = {kind: np.array(times) for kind, times in result["seconds"].items()}
        count = len(seconds["eager"])
        name = f"{GPT2_TEXT.name}{' (small)' if result['small'] else ''}"
        for what, part in (
            (f"{count} steps", slice(None)),
            (f"the last {count // LAST}", slice(-(count // LAST), None)),
        ):
            eager = seconds["eager"][part].sum()
            ratios = [f"{eager / seconds[kind][part].sum():.2f}" for kind in WAYS[1:]]
            graphs = f"{result['lengths']}, {result['graphs']}"
            rows.append([f"{name}, {what}", f"{1e3 * eager / len(seconds['eager'][part]):.1f}", *ratios, graphs])
    header = ["a length drawn for each step", "eager, ms a step", *(LABELS[kind] for kind in WAYS[1:])]
    return report.markdown([*header, "lengths, graphs of tf.function"], rows) if rows else ""
