"""How sure a classifier may be: temperatures, fitted on dev, for trees and words unlike those that it was trained on.

A network says "100 %" of whatever it is shown. With the logits divided by a temperature its probabilities become what
held-out examples bear out (Guo et al., "On Calibration of Modern Neural Networks", ICML 2017), and its choice stays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.data import UNKNOWN, Tree, balanced, encode
from recgraph.train import stored
from recgraph.train.run import CONFIDENCE, Run
from recgraph.train.steps import batch_signature, network
from recgraph.train.stored import RunError
from recgraph.train.tasks import TASKS

ORIGINS = ("given", "parser", "balanced")
"""Where a tree comes from: it was given, a parser made it, or it is balanced for lack of better."""
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of unknown words, for which there are temperatures; between them is what lies between them."""
EXAMPLES = 400
BATCH = 50
HIGHEST = 1000.0  # then all classes are as likely
_GRID = np.exp(np.linspace(0, np.log(HIGHEST), 80))

Parse = Callable[[Iterable[tuple[list[str], int]]], Iterator[Tree]]


@dataclasses.dataclass(frozen=True)
class Confidence:
    """What was measured on dev.

    Attributes:
      epoch: of the weights; None if nothing was measured.
      parser: the folder of the parser, as it was given; "" for none.
      temperatures: for each origin of trees, of `SHARES` of unknown words.
      accuracies: for each origin, the share of the roots that are right, all words as they are.
    """

    epoch: int | None
    parser: str
    temperatures: dict[str, list[float]]
    accuracies: dict[str, float]

    def temperature(self, origin: str, shares: Any) -> np.ndarray:
        """What to divide logits by.

        Args:
          origin: of the trees.
          shares: of unknown words in them, `[B]`.
        """
        return np.exp(np.interp(shares, SHARES, np.log(self.temperatures[origin])))

    def temperature_in_graph(self, origin: str, shares: tf.Tensor) -> tf.Tensor:
        """Returns the same inside a graph, float32 `[B]`."""
        return tf.exp(self.log_temperature_in_graph(origin, shares))

    def log_temperature_in_graph(self, origin: str, shares: tf.Tensor) -> tf.Tensor:
        """Its logarithm, float32 `[B]`: by operations that are rounded alike wherever a number is in a tensor."""
        logs = tf.constant(np.log(self.temperatures[origin]), tf.float32)
        place = shares * (len(SHARES) - 1)
        low = tf.minimum(tf.cast(place, tf.int32), len(SHARES) - 2)
        first, second = tf.gather(logs, low), tf.gather(logs, low + 1)
        return first + (second - first) * (place - tf.cast(low, tf.float32))


def unmeasured() -> Confidence:
    """Where no dev examples are there: sure of what it was trained on, and of nothing else."""
    known = [min(HIGHEST, 1 / max(1 - share, 1 / HIGHEST)) for share in SHARES]
    return Confidence(None, "", {"given": known, "parser": known, "balanced": [HIGHEST] * len(SHARES)}, {})


def of(run: Run, parse: Parse | None, parser: str = "") -> Confidence:
    """What was measured of a run, or is now: it is stored beside the weights, if they can be written to.

    Args:
      run: a trained classifier.
      parse: makes trees of sentences, or None.
      parser: the name of what makes them.
    """
    epoch = next(reversed(run.best().epochs()), 0)
    path = run.folder / CONFIDENCE
    found = _read(path)
    if found is not None and (found.epoch, found.parser) == (epoch, parser):
        return found
    try:
        examples = _examples(run)
    except (OSError, ValueError):  # the data is elsewhere now
        return unmeasured()
    if not examples:
        return unmeasured()
    measured = dataclasses.replace(measure(run, parse, examples), epoch=epoch, parser=parser)
    try:
        stored.write(measured, path)
    except OSError:
        return measured  # a folder that is only read
    return measured


def _read(path: Path) -> Confidence | None:
    """What is stored; None for nothing, or nothing of use: it is measured again then."""
    try:
        found: Confidence = stored.read(Confidence, path, "confidence")
    except (FileNotFoundError, RunError):
        return None
    try:
        tables = np.array([found.temperatures[origin] for origin in ORIGINS], np.float64)
        is_whole = tables.shape == (len(ORIGINS), len(SHARES)) and np.isfinite(tables).all() and tables.min() >= 1
        return found if is_whole and all(isinstance(one, float) for one in found.accuracies.values()) else None
    except (KeyError, TypeError, ValueError):
        return None


def _examples(run: Run) -> list[Tree]:
    """Trees of dev with a labelled root, the first of them."""
    dev = TASKS[run.settings.task].load(run.settings.data).dev
    labels = encode(dev, run.vocabulary, labels=run.settings.task)
    is_labelled = labels.labels[labels.roots] >= 0
    return [tree for tree, has in zip(dev, is_labelled, strict=True) if has][:EXAMPLES]


def measure(run: Run, parse: Parse | None, examples: Sequence[Tree]) -> Confidence:
    """Fits temperatures to examples of which a share of the words is hidden, with trees of each origin.

    Args:
      run: a trained classifier.
      parse: makes trees of sentences; without it, its temperatures are those of balanced trees.
      examples: trees with labelled roots.
    """
    predict = network(run.model, run.settings.implementation).predict
    logits_of = tf.function(
        lambda batch: tf.gather(predict(batch), batch.roots), input_signature=[batch_signature()], autograph=False
    )
    labels = encode(examples, run.vocabulary, labels=run.settings.task)
    targets = labels.labels[labels.roots]
    tables: dict[str, list[float]] = {origin: [] for origin in ORIGINS}
    accuracies: dict[str, float] = {}
    for share in SHARES:
        hidden = _hidden(examples, share)
        for origin, trees in _of_each_origin(hidden, parse):
            batches = [encode(trees[i : i + BATCH], run.vocabulary) for i in range(0, len(trees), BATCH)]
            logits = np.concatenate([logits_of(batch).numpy() for batch in batches])
            tables[origin].append(fitted(logits, targets))
            accuracies.setdefault(origin, float((logits.argmax(1) == targets).mean()))
    tables["given"][0] = 1.0  # what training has made of them
    tables["parser"] = tables["parser"] or tables["balanced"]
    return Confidence(
        None, "", {origin: np.maximum.accumulate(table).tolist() for origin, table in tables.items()}, accuracies
    )


def _of_each_origin(trees: list[Tree], parse: Parse | None) -> Iterator[tuple[str, list[Tree]]]:
    yield "given", trees
    if parse is not None:
        yield "parser", list(parse((list(tree.tokens), tree.label) for tree in trees))
    yield "balanced", [balanced(tree.tokens) for tree in trees]


def _hidden(trees: Sequence[Tree], share: float) -> list[Tree]:
    """The trees with about so many of the words as unknown ones; always the same."""
    random = np.random.default_rng(0)
    return [
        Tree(
            tuple(UNKNOWN if word and random.random() < share else word for word in tree.words),
            *(tree.left, tree.right, tree.labels),
        )
        for tree in trees
    ]


def fitted(logits: np.ndarray, targets: np.ndarray) -> float:
    """The temperature from 1 with which the targets are likeliest.

    Of n examples that are all right one cannot conclude that the next is for certain: one more is taken to be of any
    class.

    Args:
      logits: float32 `[n, C]`.
      targets: int32 `[n]`.
    """
    count, classes = logits.shape
    aimed = np.full((count, classes), 1 / (classes * (count + 1)))
    aimed[np.arange(count), targets] += count / (count + 1)
    losses = []
    for temperature in _GRID:
        scaled = logits / temperature
        scaled = scaled - scaled.max(1, keepdims=True)
        losses.append(-(aimed * (scaled - np.log(np.exp(scaled).sum(1, keepdims=True)))).sum())
    return float(_GRID[int(np.argmin(losses))])
