"""Classifying trees and sentences with a trained run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from recgraph.data import NO_LABEL, SENTIMENTS, DataFormatError, Tree, balanced, encode, parse_tree, tokenize
from recgraph.data.files import require_utf8, unpacked_lines
from recgraph.train.confidence import Confidence, Parse
from recgraph.train.run import Run
from recgraph.train.steps import batch_signature, network

BINARY_SENTIMENTS = ("negative", "positive")
SHOWN = 5  # unknown words in a line


class Sentence(NamedTuple):
    """A plain sentence, of which a tree is still to be made."""

    tokens: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What a model predicts for one tree of N nodes.

    Attributes:
      tree: the tree; its labels are the true ones, if known.
      probabilities: float32 `[N, C]`, for every node in post-order, the root last.
      origin: of the tree, one of `confidence.ORIGINS`.
      unknown: the words that the model does not know.
    """

    tree: Tree
    probabilities: np.ndarray
    origin: str = "given"
    unknown: tuple[str, ...] = ()

    @property
    def classes(self) -> np.ndarray:
        """The likeliest class of every node, int64 `[N]`."""
        return self.probabilities.argmax(1)

    @property
    def sentiment(self) -> str:
        """The likeliest class of the root, in words."""
        names = SENTIMENTS if self.probabilities.shape[1] == len(SENTIMENTS) else BINARY_SENTIMENTS
        return names[int(self.classes[-1])]

    @property
    def remark(self) -> str:
        """How many words the model does not know, and which; "" if it knows all."""
        if not self.unknown:
            return ""
        more = ", ..." if len(self.unknown) > SHOWN else ""
        words = len(self.tree.tokens)
        return f"[{len(self.unknown)} of {words} words unknown: {', '.join(self.unknown[:SHOWN])}{more}]"

    def as_json(self, nodes: bool) -> dict[str, Any]:
        """For a JSON line; with `nodes`, the classes of all nodes too."""
        record = {
            "sentence": " ".join(self.tree.tokens),
            "sentiment": self.sentiment,
            "probabilities": [round(float(p), 6) for p in self.probabilities[-1]],
            "tree_from": self.origin,
            "unknown_words": list(self.unknown),
        }
        return {**record, "tree": str(self.tree.with_labels(self.classes.tolist()))} if nodes else record


class Predictor:
    """Classifies trees, and sentences of which it has trees made, with a trained run."""

    def __init__(self, run: Run, parse: Parse | None = None, confidence: Confidence | None = None):
        """Prepares a run.

        Args:
          run: from `run.load`.
          parse: makes trees of sentences; without it they are balanced.
          confidence: how sure the run may be; without it as sure as its network is.
        """
        self._run, self._parse, self._confidence = run, parse, confidence
        predict = network(run.model, run.settings.implementation).predict

        def probabilities(batch: Any, temperatures: tf.Tensor) -> tf.Tensor:
            of_nodes = tf.repeat(temperatures, batch.offsets[1:] - batch.offsets[:-1])
            return tf.nn.softmax(predict(batch) / of_nodes[:, tf.newaxis])

        signature = [batch_signature(), tf.TensorSpec([None])]
        self._probabilities = tf.function(probabilities, input_signature=signature, autograph=False)

    def __call__(self, inputs: Iterable[Tree | Sentence], batch_size: int = 25) -> Iterator[Prediction]:
        """Classifies trees and sentences, a batch at a time."""
        waiting: list[Tree | Sentence] = []
        for one in inputs:
            waiting.append(one)
            if len(waiting) == batch_size:
                yield from self._batch(waiting)
                waiting = []
        if waiting:
            yield from self._batch(waiting)

    def _batch(self, inputs: list[Tree | Sentence]) -> Iterator[Prediction]:
        trees, origins = self._trees(inputs)
        unknown = [tuple(word for word in tree.tokens if word not in self._run.vocabulary) for tree in trees]
        batch = encode(trees, self._run.vocabulary)
        temperatures = np.ones(len(trees), np.float32)
        if self._confidence is not None:
            for i, (tree, origin) in enumerate(zip(trees, origins, strict=True)):
                temperatures[i] = self._confidence.temperature(origin, len(unknown[i]) / len(tree.tokens))
        probabilities = self._probabilities(batch, temperatures).numpy()
        rows = np.split(probabilities, batch.offsets[1:-1])
        yield from map(Prediction, trees, rows, origins, unknown)

    def _trees(self, inputs: list[Tree | Sentence]) -> tuple[list[Tree], list[str]]:
        """The trees, and where each is from."""
        sentences = [(list(one.tokens), NO_LABEL) for one in inputs if isinstance(one, Sentence)]
        made = self._parse(sentences) if self._parse else (balanced(tokens) for tokens, _ in sentences)
        how = "parser" if self._parse else "balanced"
        found = [(next(made), how) if isinstance(one, Sentence) else (one, "given") for one in inputs]
        return [tree for tree, _ in found], [origin for _, origin in found]


def read_inputs(
    lines: Iterable[str], source: str, refuse: Callable[[DataFormatError], None] | None = None
) -> Iterator[Tree | Sentence]:
    """What stands in lines that are trees in PTB form or plain sentences.

    Args:
      lines: read with `errors="surrogateescape"`, so that a line that is not UTF-8 can be told apart; of a file whose
        name says that it is compressed, they are unpacked.
      source: where they come from, for errors.
      refuse: is given what is wrong with a line, which is then passed over, as are empty lines; where left out, that
        is raised.

    Raises:
      DataFormatError: a line that begins with a bracket and is not a tree, has no word, or is not UTF-8.
    """
    for number, line in enumerate(unpacked_lines(lines), 1):
        if refuse is not None and not line.removeprefix("\ufeff").strip():
            continue
        try:
            found = _read_input(line, source, number)
        except DataFormatError as error:
            if refuse is None:
                raise
            refuse(error)
        else:
            yield found


def _read_input(line: str, source: str, number: int) -> Tree | Sentence:
    text = require_utf8(line, source, number).strip("\r\n ")
    if text.startswith("("):
        return parse_tree(text, file=source, line=number)
    tokens = tokenize(text)
    if not tokens:
        raise DataFormatError(source, number, 1, "a tree or a sentence", "an empty line")
    return Sentence(tuple(tokens))
