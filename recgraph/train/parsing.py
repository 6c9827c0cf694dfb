"""Trees over plain text: a trained parser makes them, a trained classifier labels their nodes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import tensorflow as tf

from recgraph.data import (
    NO_LABEL,
    REVIEW_LABELS,
    DataFormatError,
    Tree,
    balanced,
    encode,
    read_imdb,
    sentences,
    tokenize,
    tree_of_spans,
)
from recgraph.data.files import atomic_file, require_utf8, unpacked_lines
from recgraph.train import confidence
from recgraph.train.checkpoints import Checkpoints
from recgraph.train.confidence import Confidence
from recgraph.train.predictor import Predictor
from recgraph.train.run import PARSER, Run, load_classifier, load_parser
from recgraph.train.settings import Settings, load_settings
from recgraph.train.steps import batch_signature

BATCH = 25
PATIENCE = 2  # epochs of a parser beside a classifier

Sentence = tuple[list[str], int]  # tokens, and a label for the root


@dataclasses.dataclass(frozen=True)
class Request:
    """What to parse, and how.

    Attributes:
      lines: of text, each of any number of sentences; read with `errors="surrogateescape"`.
      parser: the folder of a run that parses.
      model: the folder of a run that classifies, or None.
      reviews: a split of the movie reviews that takes the place of the lines, or None.
      data: the data folder of the reviews.
      limit: of the lines or reviews, or None.
      max_words: of a sentence; longer ones are passed over. None for any.
      source: where the lines come from, for errors.
      refuse: is given what is wrong with a line, which is then passed over; None to raise it.
    """

    lines: Iterable[str]
    parser: Path
    model: Path | None = None
    reviews: str | None = None
    data: Path | None = None
    limit: int | None = None
    max_words: int | None = None
    source: str = "<stdin>"
    refuse: Callable[[DataFormatError], None] | None = None

    def sentences(self) -> Iterator[Sentence]:
        """All sentences, in order."""
        if self.reviews is None:
            texts: Iterator[tuple[str, int]] = ((text, NO_LABEL) for text in self._texts())
        else:
            texts = ((review.text, REVIEW_LABELS[review.label]) for review in read_imdb(self.data, self.reviews))
        for text, label in itertools.islice(texts, self.limit):
            for sentence in sentences(text):
                tokens = tokenize(sentence)
                if 0 < len(tokens) <= (self.max_words or len(tokens)):
                    yield tokens, label

    def _texts(self) -> Iterator[str]:
        """The lines that are text."""
        for number, line in enumerate(unpacked_lines(self.lines), 1):
            try:
                yield require_utf8(line, self.source, number).strip("\r\n")
            except DataFormatError as error:
                if self.refuse is None:
                    raise
                self.refuse(error)


class Parser:
    """Parses sentences with a trained run."""

    def __init__(self, run: Run):
        """Prepares a run.

        Args:
          run: from `run.load_parser`.
        """
        self._run = run
        self._spans = tf.function(run.model.predict, input_signature=[batch_signature()], autograph=False)

    def __call__(self, sentences: Iterable[Sentence]) -> Iterator[Tree]:
        """Parses sentences.

        Args:
          sentences: any number of them.

        Yields:
          A tree for each sentence, with a label only at the root, if any.
        """
        waiting = iter(sentences)
        while some := list(itertools.islice(waiting, BATCH)):
            batch = encode([balanced(tokens) for tokens, _ in some], self._run.vocabulary)
            for (tokens, label), spans in zip(some, self._spans(batch).numpy(), strict=True):
                tree = tree_of_spans(tokens, spans[: len(tokens) - 1].tolist())
                yield tree.with_labels((*tree.labels[:-1], label))


@dataclasses.dataclass(frozen=True)
class Brought:
    """What a classifier brings, or is given, to be asked about plain sentences.

    Attributes:
      parser: a run that parses, or None.
      confidence: how sure the classifier may be of the trees that it makes, and of others.
    """

    parser: Run | None
    confidence: Confidence

    def predictor(self, run: Run) -> Predictor:
        """A predictor of the classifier."""
        return Predictor(run, Parser(self.parser) if self.parser else None, self.confidence)


def brought(run: Run, parser: Path | None = None) -> Brought:
    """The parser of a classifier, and its confidence, which is measured if it was not yet.

    Args:
      run: the classifier.
      parser: the folder of a run that parses; by default the one in the folder of the classifier, if it is there.

    Raises:
      RunError: the run has not learned to parse.
    """
    own = run.folder / PARSER
    if parser is not None:
        found, name = load_parser(parser), str(parser.resolve())
    elif own.is_dir() and Checkpoints(tf.train.Checkpoint(), own / "best", keep=1).epochs():
        found, name = load_parser(own), PARSER
    else:
        return Brought(None, confidence.of(run, None))
    return Brought(found, confidence.of(run, Parser(found), name))


def settings_beside(run: Run, epochs: int) -> Settings:
    """The settings of the parser that is trained beside a classifier: of the one that is there, or as is usual."""
    folder, asked = run.folder / PARSER, run.settings
    if (folder / "settings.json").exists():
        return dataclasses.replace(load_settings(folder), epochs=epochs)
    return Settings(
        "parser",
        asked.data,
        task="parsing",
        epochs=epochs,
        patience=PATIENCE,
        seed=asked.seed,
        vectors=asked.vectors,
        deterministic=asked.deterministic,
    )


def parse(request: Request, out: Path | None) -> int:
    """Writes the trees to a file, whole or not at all, or to standard output; how many there were.

    Raises:
      RunError: a run that has not learned what is asked of it.
    """
    trees = labelled(request)
    if out is None:
        return sum(1 for _ in map(click.echo, map(str, trees)))
    with atomic_file(out) as file:
        return sum(1 for _ in map(file.write, (f"{tree}\n".encode() for tree in trees)))


def labelled(request: Request) -> Iterator[Tree]:
    """The trees of a request, with the labels that its model gives, if it has one."""
    trees: Any = Parser(load_parser(request.parser))(request.sentences())
    if request.model is None:
        return iter(trees)
    predictions = Predictor(load_classifier(request.model))(trees, BATCH)
    return (prediction.tree.with_labels(prediction.classes.tolist()) for prediction in predictions)
