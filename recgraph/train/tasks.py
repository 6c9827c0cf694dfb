"""What can be learned: each task knows its data, its batches, its models and its figures; the training loop is one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from recgraph.data import PairBatch, TreeBatch, load_sick, load_sst, pair_dataset, sick_dir, sst_dir, tree_dataset
from recgraph.models import MODELS, PAIR_MODELS, PARSERS
from recgraph.models.parser import true_spans
from recgraph.train import metrics


class Task(Protocol):
    """What the training loop asks of a task.

    Attributes:
      models: names and classes of the models that can learn it.
      classes: their `Hyper.classes`.
      unit: what an example is called, in the plural.
      hit: name of the figure of training that `hits` adds up to.
      target: name of the figure on dev that early stopping and the choice of the best weights look at.
      signature: the type of a batch of any size: with it a step is traced once.
    """

    models: dict[str, Any]
    classes: int
    unit: str
    hit: str
    target: str
    signature: Any

    @property
    def nothing(self) -> tf.Tensor:
        """The tally of no examples."""

    def folder(self, data: Path | None) -> Path:
        """Where the files are, below a data folder or in `RECGRAPH_DATA`."""

    def load(self, folder: Path | str) -> Any:
        """The examples of `train`, `dev` and `test`."""

    def trees(self, examples: Iterable[Any]) -> Iterable[Any]:
        """All that have words."""

    def dataset(self, examples: Sequence[Any], vocabulary: Any, batch_size: int, **order: Any) -> tf.data.Dataset:
        """Batches; `order` as of `tree_dataset`."""

    def described(self, batch: Any, vocabulary: Any) -> str:
        """The words of a batch, the first of them, for a message."""

    def size(self, batch: Any) -> tf.Tensor:
        """Examples in a batch, int32 scalar."""

    def hits(self, batch: Any, output: tf.Tensor) -> tf.Tensor:
        """Of what a model's `loss` gives beside the loss: a sum and what to divide it by, float32 `[2]`."""

    def tally(self, before: tf.Tensor, batch: Any, output: tf.Tensor) -> tf.Tensor:
        """The tally with a batch, of which `output` is what the model's `predict` gives."""

    def together(self, tallies: Sequence[np.ndarray]) -> np.ndarray:
        """The tally of all parts of a data set, in whichever way it was divided."""

    def figures(self, tally: np.ndarray) -> dict[str, float]:
        """What is told of a data set."""


def _words(ids: tf.Tensor, vocabulary: Any, limit: int = 30) -> str:
    """The words with these ids; inner nodes have none."""
    known = [int(number) for number in ids if int(number) >= 0]
    return " ".join(vocabulary.words[number] for number in known[:limit]) + " ..." * (len(known) > limit)


class Trees:
    """What tasks over a treebank share."""

    unit = "trees"
    signature = TreeBatch(*[tf.TensorSpec([None], tf.int32, name=field) for field in TreeBatch._fields])
    _labels = "fine"

    def folder(self, data: Path | None) -> Path:
        """See `sst_dir`."""
        return sst_dir(data)

    def load(self, folder: Path | str) -> Any:
        """See `load_sst`."""
        return load_sst(folder)

    def trees(self, examples: Iterable[Any]) -> Iterable[Any]:
        """An example is a tree."""
        return examples

    def dataset(self, examples: Sequence[Any], vocabulary: Any, batch_size: int, **order: Any) -> tf.data.Dataset:
        """See `tree_dataset`."""
        return tree_dataset(examples, vocabulary, batch_size, labels=self._labels, **order)

    def described(self, batch: Any, vocabulary: Any) -> str:
        """The first trees' words."""
        return _words(batch.words, vocabulary)

    def together(self, tallies: Sequence[np.ndarray]) -> np.ndarray:
        """Counts add up; they are whole numbers, so without rounding."""
        return np.sum(tallies, 0)

    def size(self, batch: Any) -> tf.Tensor:
        """A tree has one root."""
        return tf.size(batch.roots)


class Sentiment(Trees):
    """Classes at the nodes of binary trees; `labels` as in `tree_dataset`."""

    models: dict[str, Any] = MODELS
    hit = "root"

    def __init__(self, labels: str, classes: int, target: str):
        """Describes the task.

        Args:
          labels: "fine" or "binary".
          classes: number of classes.
          target: the metric by which an epoch is chosen.
        """
        self._labels, self.classes, self.target = labels, classes, target

    @property
    def nothing(self) -> tf.Tensor:
        """As `metrics.count`."""
        return tf.zeros([4, 2])

    def hits(self, batch: Any, output: tf.Tensor) -> tf.Tensor:
        """Labelled roots that are right, and labelled roots."""
        labels = tf.gather(batch.labels, batch.roots)
        right = tf.argmax(output, 1, tf.int32) == labels
        return tf.math.count_nonzero(tf.stack([right, labels >= 0]), 1, dtype=tf.float32)

    def tally(self, before: tf.Tensor, batch: Any, output: tf.Tensor) -> tf.Tensor:
        """Counts add up."""
        return before + metrics.count(batch, output)

    def figures(self, tally: np.ndarray) -> dict[str, float]:
        """Accuracies."""
        return metrics.accuracies(tally)


class Parsing(Trees):
    """Binary trees over sentences; labels do not matter."""

    models: dict[str, Any] = PARSERS
    classes, hit, target = 0, "cuts", "f1"

    @property
    def nothing(self) -> tf.Tensor:
        """Brackets that are right, and all that there are."""
        return tf.zeros([2])

    def hits(self, batch: Any, output: tf.Tensor) -> tf.Tensor:
        """True cuts that would be made, and all true cuts."""
        return tf.reduce_sum(output, 0)

    def tally(self, before: tf.Tensor, batch: Any, output: tf.Tensor) -> tf.Tensor:
        """Counts add up."""
        return before + metrics.count_brackets(output, true_spans(batch))

    def figures(self, tally: np.ndarray) -> dict[str, float]:
        """F1 of the brackets, which is precision and recall too: two trees over a sentence have as many."""
        return {"f1": float(tally[0] / tally[1])} if tally[1] > 0 else {}


class Relatedness:
    """Scores 1 to 5 of pairs of dependency trees: SemEval 2014, task 1."""

    models: dict[str, Any] = PAIR_MODELS
    classes, unit, hit, target = 5, "pairs", "mse", "pearson"
    signature = PairBatch(
        *[tf.TensorSpec([None], tf.int32, name=field) for field in PairBatch._fields[:-1]],
        tf.TensorSpec([None], name="scores"),
    )

    @property
    def nothing(self) -> tf.Tensor:
        """Predicted and true scores, float32 `[n, 2]`: ranks cannot be added up."""
        return tf.zeros([0, 2])

    def folder(self, data: Path | None) -> Path:
        """See `sick_dir`."""
        return sick_dir(data)

    def load(self, folder: Path | str) -> Any:
        """See `load_sick`."""
        return load_sick(folder)

    def trees(self, examples: Iterable[Any]) -> Iterable[Any]:
        """Two for each pair."""
        return (tree for pair in examples for tree in (pair.left, pair.right))

    def dataset(self, examples: Sequence[Any], vocabulary: Any, batch_size: int, **order: Any) -> tf.data.Dataset:
        """See `pair_dataset`."""
        return pair_dataset(examples, vocabulary, batch_size, **order)

    def described(self, batch: Any, vocabulary: Any) -> str:
        """The first pairs' words."""
        return _words(batch.words, vocabulary)

    def size(self, batch: Any) -> tf.Tensor:
        """A pair has one score."""
        return tf.size(batch.scores)

    def hits(self, batch: Any, output: tf.Tensor) -> tf.Tensor:
        """The squared errors, and the number of pairs."""
        squares = tf.math.squared_difference(batch.scores, output)
        return tf.stack([tf.reduce_sum(squares), tf.cast(tf.size(squares), tf.float32)])

    def tally(self, before: tf.Tensor, batch: Any, output: tf.Tensor) -> tf.Tensor:
        """A row for each pair."""
        return tf.concat([before, tf.stack([output, batch.scores], 1)], 0)

    def together(self, tallies: Sequence[np.ndarray]) -> np.ndarray:
        """All rows, sorted, so that what is computed of them does not depend on who had which."""
        rows = np.concatenate(tallies)
        return rows[np.lexsort(rows.T)]

    def figures(self, tally: np.ndarray) -> dict[str, float]:
        """Pearson, Spearman, mean squared error."""
        return metrics.relatedness(tally[:, 0], tally[:, 1])


TASKS: dict[str, Task] = {
    "fine": Sentiment("fine", 5, "root"),
    "binary": Sentiment("binary", 2, "root_binary"),
    "relatedness": Relatedness(),
    "parsing": Parsing(),
}
CLASSIFYING = ("fine", "binary")
"""The tasks whose models say the sentiment of a sentence."""
