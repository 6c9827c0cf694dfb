"""Accuracy over the time of training (thesis, figure 5.9): both engines and the loop from the same first weights, over
the same sentences in the same order, each for the same time.

Of movie reviews an instance of training is a sentence with the label of its review, and a review's label is the vote
of its sentences. The contenders take turns, so that a busy minute hits all of them; the time of evaluating is nobody's.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import tensorflow as tf

from recgraph.benchmarks import contest, pictures, report
from recgraph.benchmarks.options import Several
from recgraph.benchmarks.trees import model_name
from recgraph.data import (
    REVIEW_LABELS,
    Tree,
    TreeBatch,
    Vocabulary,
    encode,
    load_sst,
    read_imdb,
    sentences,
    tokenize,
    tree_dataset,
)
from recgraph.models import MODELS, TreeModel
from recgraph.train.metrics import NEUTRAL
from recgraph.train.parsing import Parser
from recgraph.train.run import load_parser
from recgraph.train.steps import Steps, batch_signature
from recgraph.train.tasks import TASKS

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
CLASSES = 2
LEARNERS = ("batched", "parallel", "iterative")
CHUNK = 10  # steps that are one call from Python


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What is learned, and what accuracy is measured on.

    Attributes:
      train: trees; a label of the root, at least.
      validation: trees.
      owner: of each tree of `validation`, the number of the instance that it votes for.
      labels: of the instances, 0 or 1.
      unit: what an instance is called.
    """

    train: Sequence[Tree]
    validation: Sequence[Tree]
    owner: np.ndarray
    labels: np.ndarray
    unit: str


def treebank(folder: Path | None) -> Corpus:
    """Sentences of a treebank, positive or negative at the root; every one stands for itself."""
    bank = load_sst(folder)
    validation = [tree for tree in bank.dev if tree.label != NEUTRAL]
    labels = np.array([tree.label > NEUTRAL for tree in validation], int)
    return Corpus(bank.train, validation, np.arange(len(validation)), labels, "sentences")


def reviews(folder: Path | None, parser: Path, count: int, seed: int = 0) -> Corpus:
    """So many reviews of `train` to learn from and of `test` to validate on, drawn at random and parsed."""
    parse = Parser(load_parser(parser))
    found = []
    for split in ("train", "test"):
        every = list(read_imdb(folder, split))
        chosen = random.Random(seed).sample(every, min(count, len(every)))
        labels = np.array([REVIEW_LABELS[review.label] > NEUTRAL for review in chosen], int)
        owned = [
            (number, (tokens, REVIEW_LABELS[review.label]))
            for number, review in enumerate(chosen)
            for tokens in map(tokenize, sentences(review.text))
            if tokens
        ]
        found.append((list(parse(sentence for _, sentence in owned)), np.array([n for n, _ in owned]), labels))
    (train, _, _), (validation, owner, labels) = found
    return Corpus(train, validation, owner, labels, "reviews")


class Learner:
    """One contender: a model in training, and the time that it has had."""

    def __init__(self, name: str, model: str, corpus: Corpus, vocabulary: Vocabulary, size: int):
        """Args: the contender, one of TensorFlow's; the model; and what it learns, in batches of `size`."""
        kind = MODELS[model]
        self.model: TreeModel = kind(len(vocabulary), dataclasses.replace(kind.defaults, classes=CLASSES), seed=0)
        implementation = "iterative" if name == "iterative" else "recursive"
        self.model.engine = "auto" if name == "iterative" else name
        self._steps = Steps(self.model, implementation, task=TASKS["binary"])
        dataset = tree_dataset(corpus.train, vocabulary, size, labels="binary", shuffle_seed=0, epochs=1_000_000)
        self._batches = iter(dataset)
        self.seconds = 0.0
        self.examples = 0

    def warm_up(self) -> None:
        """Builds the graph, which is nobody's time, and takes back what the step has changed."""
        state = [*self.model.variables, *self._steps.optimizer.accumulators, self._steps.step]
        before = [variable.numpy() for variable in state]
        self._steps.train(self._batches, 1)
        for variable, value in zip(state, before, strict=True):
            variable.assign(value)

    def train_until(self, seconds: float) -> None:
        """Trains until it has had so many seconds, or a little more."""
        while self.seconds < seconds:
            start = time.perf_counter()
            sums = self._steps.train(self._batches, CHUNK)
            self.seconds += time.perf_counter() - start
            self.examples += int(sums[3])


class Judge:
    """Measures accuracy, by the votes of trees for their instances."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, size: int = 100):
        """Args: what to validate on, in batches of `size`."""
        self._corpus = corpus
        starts = range(0, len(corpus.validation), size)
        self._batches = [encode(corpus.validation[start : start + size], vocabulary) for start in starts]

    def accuracy_of(self, model: TreeModel) -> Iterator[float]:
        """The accuracy of a model now, and of what it has become whenever asked again."""
        signature = [batch_signature()]

        @tf.function(input_signature=signature, autograph=False)
        def roots(batch: TreeBatch) -> tf.Tensor:
            return tf.nn.softmax(tf.gather(model.predict(batch), batch.roots))

        while True:
            yield self.accuracy(np.concatenate([roots(batch).numpy() for batch in self._batches]))

    def accuracy(self, probabilities: np.ndarray) -> float:
        """Of the classes of all trees, `[trees, classes]`: the share of instances whose label most of their trees have.

        Where as many are for either, the one of which they are surer has it.
        """
        votes = np.zeros((len(self._corpus.labels), CLASSES))
        one_each = np.eye(CLASSES)[probabilities.argmax(1)]
        np.add.at(votes, self._corpus.owner, one_each + 1e-6 * probabilities)
        return float(np.mean(votes.argmax(1) == self._corpus.labels))


@click.command()
@click.option("--data", type=FOLDER, envvar="RECGRAPH_DATA", help="Folder of the treebank, or of the reviews.")
@click.option("--reviews", "count", type=click.IntRange(1), help="Learn so many movie reviews, not a treebank.")
@click.option("--parser", type=FOLDER, help="A run of `train --model parser --task parsing`, for the reviews.")
@click.option("--models", type=Several(MODELS), default="tree_rnn,rntn,tree_lstm", show_default=True)
@click.option("--contenders", "names", type=Several(LEARNERS), default=",".join(LEARNERS), show_default=True)
@click.option(
    "--minutes", type=float, default=5.0, show_default=True, help="Of training, for each model and contender."
)
@click.option("--points", type=click.IntRange(1), default=25, show_default=True, help="How often accuracy is measured.")
@click.option("--batch-size", type=click.IntRange(1), default=25, show_default=True)
@report.out_option
def main(data: Path | None, count: int | None, parser: Path | None, out: Path | None, **options: Any) -> None:
    """Measure the accuracy of models over the time of their training."""
    if count is not None and parser is None:
        raise click.UsageError("--reviews needs --parser, a trained parser")
    corpus = treebank(data) if count is None or parser is None else reviews(data, parser, count)
    vocabulary = Vocabulary.build(corpus.train, lowercase=True)
    results: list[dict[str, Any]] = []
    for model in options["models"]:
        results.append({"model": model, "unit": corpus.unit, "curves": _race(model, corpus, vocabulary, options)})
        report.save("convergence", results, out)
    report.leave("convergence", results, table(results), out, {"": lambda: picture(results)})


def _race(model: str, corpus: Corpus, vocabulary: Vocabulary, options: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds, examples seen and accuracy of each contender at every point, and before the first step."""
    judge = Judge(corpus, vocabulary)
    learners, accuracies = {}, {}
    for name in options["names"]:
        learner = Learner(name, model, corpus, vocabulary, options["batch_size"])
        learner.warm_up()
        learners[name], accuracies[name] = learner, judge.accuracy_of(learner.model)
    curves: dict[str, Any] = {name: {"seconds": [], "examples": [], "accuracy": []} for name in learners}
    for point in range(options["points"] + 1):
        for name, learner in learners.items():
            learner.train_until(60 * options["minutes"] * point / options["points"])
            curve = curves[name]
            curve["seconds"].append(learner.seconds)
            curve["examples"].append(learner.examples)
            curve["accuracy"].append(next(accuracies[name]))
        reached = ", ".join(f"{name} {curve['accuracy'][-1]:.1%}" for name, curve in curves.items())
        click.echo(f"{model_name(model)}, point {point}: {reached}")
    return curves


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The best accuracy of each, and the time to the best that all have reached, also as a multiple of the first's."""
    styles = contest.styles()
    rows = []
    for result in results:
        curves = result["curves"]
        common = min(max(curve["accuracy"]) for curve in curves.values())
        reached = {
            name: curve["seconds"][int(np.argmax(np.array(curve["accuracy"]) >= common))]
            for name, curve in curves.items()
        }
        first = next(iter(reached.values()))
        for name, curve in curves.items():
            ratio = f"{reached[name] / first:.2f}" if first > 0 else ""
            speed = curve["examples"][-1] / curve["seconds"][-1]
            figures = [f"{max(curve['accuracy']):.1%}", f"{common:.1%}", f"{reached[name]:.0f}", ratio, f"{speed:,.0f}"]
            rows.append([f"{model_name(result['model'])}, {styles[name].label}", *figures])
    unit = f"best accuracy, {results[0]['unit']}"
    return report.markdown(["", unit, "accuracy of all", "seconds to it", "of the first's", "sentences a second"], rows)


def picture(results: Sequence[Mapping[str, Any]]) -> Any:
    """A panel for each model."""
    panels = []
    for result in results:
        curves = {
            name: pictures.Curve(curve["seconds"], [100 * a for a in curve["accuracy"]])
            for name, curve in result["curves"].items()
        }
        panels.append(pictures.Curves(model_name(result["model"]), curves))
    y = f"accuracy on {results[0]['unit']} of validation, %"
    return pictures.curves([panels], contest.styles(), "seconds of training", y, bottom=None)
