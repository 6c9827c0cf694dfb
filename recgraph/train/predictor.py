"""Classifying trees and sentences with a trained run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.data import SENTIMENTS, DataFormatError, Tree, balanced, encode, parse_tree, tokenize
from recgraph.data.files import require_utf8
from recgraph.train.run import Run
from recgraph.train.steps import batch_signature, network

BINARY_SENTIMENTS = ("negative", "positive")


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What a model predicts for one tree of N nodes.

    Attributes:
      tree: the tree; its labels are the true ones, if known.
      probabilities: float32 `[N, C]`, for every node in post-order, the root last.
    """

    tree: Tree
    probabilities: np.ndarray

    @property
    def classes(self) -> np.ndarray:
        """The likeliest class of every node, int64 `[N]`."""
        return self.probabilities.argmax(1)

    @property
    def sentiment(self) -> str:
        """The likeliest class of the root, in words."""
        names = SENTIMENTS if self.probabilities.shape[1] == len(SENTIMENTS) else BINARY_SENTIMENTS
        return names[int(self.classes[-1])]

    def as_json(self, nodes: bool) -> dict[str, Any]:
        """For a JSON line; with `nodes`, the classes of all nodes too."""
        record = {
            "sentence": " ".join(self.tree.tokens),
            "sentiment": self.sentiment,
            "probabilities": [round(float(p), 6) for p in self.probabilities[-1]],
        }
        return {**record, "tree": str(self.tree.with_labels(self.classes.tolist()))} if nodes else record


class Predictor:
    """Classifies trees with a trained run."""

    def __init__(self, run: Run):
        """Prepares a run.

        Args:
          run: from `run.load`.
        """
        self._run = run
        predict = network(run.model, run.settings.implementation).predict
        self._probabilities = tf.function(
            lambda batch: tf.nn.softmax(predict(batch)), input_signature=[batch_signature()], autograph=False
        )

    def __call__(self, trees: Iterable[Tree], batch_size: int = 25) -> Iterator[Prediction]:
        """Classifies trees, a batch at a time."""
        waiting: list[Tree] = []
        for tree in trees:
            waiting.append(tree)
            if len(waiting) == batch_size:
                yield from self._batch(waiting)
                waiting = []
        if waiting:
            yield from self._batch(waiting)

    def _batch(self, trees: list[Tree]) -> Iterator[Prediction]:
        batch = encode(trees, self._run.vocabulary)
        probabilities = self._probabilities(batch).numpy()
        for tree, rows in zip(trees, np.split(probabilities, batch.offsets[1:-1]), strict=True):
            yield Prediction(tree, rows)


def read_inputs(
    lines: Iterable[str], source: str, refuse: Callable[[DataFormatError], None] | None = None
) -> Iterator[Tree]:
    """Trees from lines that are trees in PTB form or plain sentences; a sentence gets a balanced tree.

    Args:
      lines: read with `errors="surrogateescape"`, so that a line that is not UTF-8 can be told apart.
      source: where they come from, for errors.
      refuse: is given what is wrong with a line, which is then passed over; where left out, that is raised.

    Raises:
      DataFormatError: a line that begins with a bracket and is not a tree, has no word, or is not UTF-8.
    """
    for number, line in enumerate(lines, 1):
        try:
            tree = _read_input(line, source, number)
        except DataFormatError as error:
            if refuse is None:
                raise
            refuse(error)
        else:
            yield tree


def _read_input(line: str, source: str, number: int) -> Tree:
    text = require_utf8(line, source, number).strip("\r\n ")
    if text.startswith("("):
        return parse_tree(text, file=source, line=number)
    tokens = tokenize(text)
    if not tokens:
        raise DataFormatError(source, number, 1, "a tree or a sentence", "an empty line")
    return balanced(tokens)
