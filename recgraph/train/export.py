"""Saving a trained model as a SavedModel that runs without the model's code: only `recgraph` must be imported.

Its signatures take batches of any size. `trees` takes the flat arrays of `recgraph.data.TreeBatch`, with words as
strings. `sentences` takes plain sentences, tokenizes them as `recgraph predict` does, and makes trees over them in the
graph, by the parser that the model brings, or balanced ones where it brings none. The default signature does the same
and leaves out the nodes, so that all results have a row for each sentence. The probabilities are those of `recgraph
predict`, too. All batch requests that come at the same time, if they are asked to.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph import files
from recgraph.data import UNKNOWN, TreeBatch, Vocabulary, balanced, encode, lookup, spaced
from recgraph.errors import RecgraphError
from recgraph.models import TreeModel
from recgraph.models.common import Network
from recgraph.racing import AdaptiveBenchmark
from recgraph.train.batching import Batching, Rows
from recgraph.train.parsing import Brought
from recgraph.train.tree_arrays import balanced_trees, post_order, trees_of_spans


class ExportError(RecgraphError):
    """A SavedModel cannot be written."""

    id = "export"


# As many words, or nodes, as a sentence is taken to have where a batch is of words.
_WORDS = 32


class Served(tf.Module):
    """A model with its vocabulary, from strings to probabilities."""

    def __init__(
        self,
        model: TreeModel,
        vocabulary: Vocabulary,
        rewritten: Collection[str] = (),
        brought: Brought | None = None,
        batching: Batching | None = None,
    ):
        """Wraps a trained model.

        Args:
          model: the model.
          vocabulary: the vocabulary that it was trained with.
          rewritten: the functions whose SubGraphs are rewritten by substitutions.
          brought: the parser of sentences, and how sure the model may be; by default none, and as sure as it is.
          batching: how requests that come at the same time are batched; by default they are not. With it, the batched
            engine runs all of them: its results for a tree are the same to the last bit whatever else is in a batch.
        """
        super().__init__(name="served")
        self.model = model
        self._rewritten = frozenset(rewritten)
        self.table = vocabulary.lookup_table()
        self._confidence = None if brought is None else brought.confidence
        parser = None if brought is None else brought.parser
        self.parser = None if parser is None else parser.model
        self.parser_table = None if parser is None else parser.vocabulary.lookup_table()
        self._batching = batching

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="words"),
            tf.TensorSpec([None], tf.int32, name="left"),
            tf.TensorSpec([None], tf.int32, name="right"),
            tf.TensorSpec([None], tf.int32, name="roots"),
        ],
        autograph=False,
    )
    def trees(self, words: tf.Tensor, left: tf.Tensor, right: tf.Tensor, roots: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies every node of B trees.

        Args:
          words: string `[N]`, the word at a leaf, anything at an inner node.
          left: int32 `[N]`, the left child, -1 at a leaf. Nodes are in post-order, tree after tree.
          right: int32 `[N]`, the right child, -1 at a leaf.
          roots: int32 `[B]`, the last node of every tree.

        Returns:
          `nodes`: float32 `[N, C]`; `probabilities`, at the roots: float32 `[B, C]`; and how many of the words of each
          tree are `unknown` to the model, int32 `[B]`.

        Raises:
          tf.errors.InvalidArgumentError: the arrays are no trees in post-order.
        """
        with tf.control_dependencies(post_order(tf.size(words), left, right, roots)):
            is_last = tf.scatter_nd(roots[:, tf.newaxis], tf.ones_like(roots), tf.shape(words)) > 0
        distance = tf.where(left < 0, 0, tf.range(tf.size(left)) - left)
        nodes, unknown = self._joined(self._trees, words, distance, is_last, rows=_WORDS)
        return {"nodes": nodes, "probabilities": tf.gather(nodes, roots), "unknown": tf.gather(unknown, roots)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentences")], autograph=False)
    def sentences(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies B sentences and every phrase of the trees over them.

        Args:
          sentences: string `[B]`, tokenized as `recgraph.data.spaced` does; one without a token counts as one unknown
            word.

        Returns:
          As `trees`.
        """
        words, is_last = _words(sentences)
        rows, unknown = self._joined(self._sentences, words, is_last, rows=_WORDS)
        # A word has two rows, and a tree of n words 2 n - 1 nodes.
        is_node = tf.reshape(tf.stack([tf.ones_like(is_last), ~is_last], 1), [-1])
        nodes = tf.boolean_mask(tf.reshape(rows, [2 * tf.size(words), -1]), is_node)
        return {"nodes": nodes, **_of_sentences(rows, unknown, is_last)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentences")], autograph=False)
    def classes(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        """As `sentences`, without the phrases: a row for each sentence, as a request in rows expects."""
        probabilities, unknown = self._joined(self._classes, sentences)
        return {"probabilities": probabilities, "unknown": unknown}

    @tf.function(input_signature=[], autograph=False)
    def for_servers(self) -> dict[str, tf.Tensor]:
        """What `recgraph serve` asks of a SavedModel.

        Returns:
          `rows/SIGNATURE`: how many rows of requests a server may join to one call, and how many such calls run at the
          same time; of no signature whose requests are not batched, or whose results have other rows than arguments.
          `example/SIGNATURE/ARGUMENT`: a small request.
        """
        sentence = tf.constant([f"{UNKNOWN} {UNKNOWN}"])
        tree = {"words": [UNKNOWN, UNKNOWN, ""], "left": [-1, -1, 0], "right": [-1, -1, 1], "roots": [2]}
        examples = {f"trees/{name}": tf.constant(value) for name, value in tree.items()}
        examples |= {f"{signature}/sentences": sentence for signature in ("serving_default", "sentences")}
        joined = () if self._batching is None else (self._batching.size, self._batching.threads)
        rows = {"rows/serving_default": tf.constant(joined)} if joined else {}
        return {f"example/{name}": value for name, value in examples.items()} | rows

    def _joined(self, function: Callable[..., Rows], *arguments: tf.Tensor, rows: int = 1) -> Rows:
        """The results of a function of so many rows a sentence, with those of other requests if these are batched."""
        traced = tf.function(function, autograph=False)
        return traced(*arguments) if self._batching is None else self._batching(traced, rows)(*arguments)

    def _classes(self, sentences: tf.Tensor) -> Rows:
        """The probabilities of sentences, `[B, C]`, and how many of their words are unknown, int32 `[B]`."""
        words, is_last = _words(sentences)
        rows, counted = self._sentences(words, is_last)
        results = _of_sentences(rows, counted, is_last)
        return results["probabilities"], results["unknown"]

    def _trees(self, words: tf.Tensor, distance: tf.Tensor, is_last: tf.Tensor) -> Rows:
        """The probabilities at nodes, `[N, C]`, and at the last node of a tree how many of its words are unknown.

        Args:
          words: string `[N]`.
          distance: int32 `[N]`, how far before a node its left child is, 0 at a leaf.
          is_last: bool `[N]`, whether a node is the last of its tree.
        """
        place, is_leaf = tf.range(tf.size(distance)), tf.equal(distance, 0)
        ids = tf.where(is_leaf, lookup(self.table, words), -1)
        left, right = (tf.where(is_leaf, -1, place - before) for before in (distance, tf.ones_like(distance)))
        roots = tf.cast(tf.where(is_last)[:, 0], tf.int32)
        nodes, unknown = self._classify("trees", "given", ids, left, right, roots)
        return nodes, tf.scatter_nd(roots[:, tf.newaxis], unknown, tf.shape(words))

    def _sentences(self, words: tf.Tensor, is_last: tf.Tensor) -> Rows:
        """The probabilities at nodes, `[W, 2, C]`, and at the last word of a sentence how many of it are unknown.

        Args:
          words: string `[W]`.
          is_last: bool `[W]`, whether a word is the last of its sentence.
        """
        ends = tf.cast(tf.where(is_last)[:, 0], tf.int32) + 1
        lengths = ends - tf.concat([[0], ends[:-1]], 0)
        origin = "balanced" if self.parser is None else "parser"
        trees = balanced_trees(lengths) if self.parser is None else trees_of_spans(lengths, self._spans(words, ends))
        place, left, right, roots = trees
        ids = tf.concat([lookup(self.table, words), [-1]], 0)  # the last row is for inner nodes
        ids = tf.gather(ids, tf.where(place < 0, tf.size(ids) - 1, place))
        nodes, unknown = self._classify("sentences", origin, ids, left, right, roots)
        rows = tf.range(tf.size(ids)) + tf.repeat(tf.range(tf.size(ends)), 2 * lengths - 1)
        filled = tf.scatter_nd(rows[:, tf.newaxis], nodes, [2 * tf.size(words), nodes.shape[1]])
        unknown = tf.scatter_nd(ends[:, tf.newaxis] - 1, unknown, tf.shape(words))
        return tf.reshape(filled, [-1, 2, nodes.shape[1]]), unknown

    def _spans(self, words: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """What the parser makes of sentences: it reads the leaves of a batch alone."""
        ids = lookup(self.parser_table, words)
        none = -tf.ones_like(ids)
        assert self.parser is not None  # whoever asks has looked
        with self._engine(self.parser):
            return self.parser.predict(TreeBatch(ids, none, none, none, tf.concat([[0], ends], 0), ends - 1))

    def _engine(self, model: Network) -> contextlib.AbstractContextManager[None]:
        """Where requests are batched, sets the engine whose results do not depend on the batch."""
        return _attributes(model) if self._batching is None else _attributes(model, engine="batched")

    def _classify(
        self, name: str, origin: str, ids: tf.Tensor, left: tf.Tensor, right: tf.Tensor, roots: tf.Tensor
    ) -> Rows:
        """The probabilities at nodes, float32 `[N, C]`, and how many words of each tree are unknown, int32 `[B]`."""
        offsets = tf.concat([[0], roots + 1], 0)
        sizes = offsets[1:] - offsets[:-1]
        before = tf.concat([[0], tf.cumsum(tf.cast((left < 0) & (ids == 0), tf.int32))], 0)
        unknown = tf.gather(before, offsets[1:]) - tf.gather(before, offsets[:-1])
        with self._engine(self.model), _attributes(self.model, optimize=name in self._rewritten):
            logits = self.model.predict(TreeBatch(ids, left, right, -tf.ones_like(ids), offsets, roots))
        heat = tf.zeros(tf.shape(roots))
        if self._confidence is not None:
            shares = tf.cast(unknown, tf.float32) / tf.cast((sizes + 1) // 2, tf.float32)
            heat = self._confidence.log_temperature_in_graph(origin, shares)
        return _probabilities(logits, tf.repeat(heat, sizes)), unknown


def _words(sentences: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """All words of sentences, string `[W]`, and whether each is the last of its sentence."""
    tokens = spaced(sentences)
    words = tf.strings.split(tf.where(tf.equal(tokens, ""), UNKNOWN, tokens), " ")
    ends = tf.cast(words.row_splits[1:, tf.newaxis], tf.int32)
    count = tf.size(words.flat_values)
    return words.flat_values, tf.scatter_nd(ends - 1, tf.ones_like(ends[:, 0]), count[tf.newaxis]) > 0


def _of_sentences(rows: tf.Tensor, unknown: tf.Tensor, is_last: tf.Tensor) -> dict[str, tf.Tensor]:
    """What `_sentences` gives for sentences as a whole: a root is in the first row of the last word."""
    return {
        "probabilities": tf.boolean_mask(rows[:, 0], is_last),
        "unknown": tf.boolean_mask(unknown, is_last),
    }


def _probabilities(logits: tf.Tensor, heat: tf.Tensor) -> tf.Tensor:
    """The probabilities of rows of scores, divided by temperatures of which these are the logarithms.

    The functions of TensorFlow's kernels round the last numbers of a tensor otherwise than those before; rows of the
    batched engine are the same wherever they are.
    """
    row, number = tf.TensorSpec([logits.shape[1]]), tf.TensorSpec([])
    with rg.SubGraph("probabilities", (row, number), row, "batched", optimize=False) as of_row:
        of_row.output(tf.nn.softmax(of_row.input(row) / tf.exp(of_row.input(number))))
    return of_row.map(logits, heat)


@contextlib.contextmanager
def _attributes(one: object, **values: object) -> Iterator[None]:
    """Gives an object other attributes for as long as the body runs."""
    before = {name: getattr(one, name) for name in values}
    try:
        vars(one).update(values)
        yield
    finally:
        vars(one).update(before)


# Of the sentences that signatures are timed with: how many, and how many words they have.
_SENTENCES, _LENGTHS = 25, (5, 35)
# Calls of each form before time is taken.
_FIRST = 3


def choose(
    model: TreeModel, vocabulary: Vocabulary, brought: Brought | None = None
) -> tuple[frozenset[str], list[str]]:
    """Measures where substitutions in the SubGraphs of a model pay, in turns, with random sentences.

    Args:
      model: a trained model.
      vocabulary: the vocabulary that it was trained with.
      brought: as of `Served`.

    Returns:
      The signatures that are faster with them, and what was measured, as lines.
    """
    found, lines = set[str](), []
    for name, arguments in _examples(vocabulary).items():
        served = {form: Served(model, vocabulary, names, brought) for form, names in _FORMS.items()}
        forms = {form: getattr(one, name) for form, one in served.items()}
        for _ in range(_FIRST):
            for call in forms.values():
                call(*arguments)
        contest = AdaptiveBenchmark(tuple(forms))
        while not contest.winner:
            start = time.perf_counter()
            tf.nest.map_structure(lambda tensor: tensor.numpy(), forms[contest.way](*arguments))
            contest.add(time.perf_counter() - start)
        found |= {name} if contest.winner == "rewritten" else set()
        before, after = (contest.cost(form) * 1e3 for form in forms)
        what = "used" if name in found else "left as it was"
        lines.append(
            f"{name}: substitutions in SubGraphs: {before:.2f} -> {after:.2f} ms a call of {_SENTENCES}: {what}"
        )
    return frozenset(found), lines


_FORMS: dict[str, tuple[str, ...]] = {"as they are": (), "rewritten": ("sentences", "trees")}


def _examples(vocabulary: Vocabulary) -> dict[str, tuple[Any, ...]]:
    """Arguments of the signatures."""
    random = np.random.default_rng(0)
    sentences = [random.choice(vocabulary.words, random.integers(*_LENGTHS)).tolist() for _ in range(_SENTENCES)]
    trees = [balanced(sentence) for sentence in sentences]
    batch = encode(trees, vocabulary)
    words = np.array(vocabulary.words, object)[np.maximum(batch.words, 0)]
    numbers = tuple(tf.constant(np.asarray(one), tf.int32) for one in (batch.left, batch.right, batch.roots))
    return {"sentences": (tf.constant([" ".join(s) for s in sentences]),), "trees": (tf.constant(words), *numbers)}


def save(
    model: TreeModel,
    vocabulary: Vocabulary,
    folder: Path,
    rewritten: Collection[str] = (),
    brought: Brought | None = None,
    batching: Batching | None = None,
) -> None:
    """Writes a SavedModel, with `classes` as the default signature; it replaces one that is there.

    Args:
      model: a trained model.
      vocabulary: the vocabulary that it was trained with.
      folder: the folder of the SavedModel.
      rewritten: the signatures whose SubGraphs are rewritten by substitutions, as `choose` gives them.
      brought: as of `Served`.
      batching: as of `Served`.

    Raises:
      ExportError: it cannot be written (no permission, full disk); the folder is unchanged.
    """
    served = Served(model, vocabulary, rewritten, brought, batching)
    signatures = {"serving_default": served.classes, "sentences": served.sentences, "trees": served.trees}
    try:
        with files.filling(folder, tf.saved_model.SAVED_MODEL_FILENAME_PB) as beside:
            tf.saved_model.save(served, str(beside), signatures=signatures)
    except (OSError, tf.errors.OpError) as cause:
        raise ExportError(
            "the model cannot be saved here",
            where=str(folder),
            found=getattr(cause, "message", None) or str(cause),
            next_step="give another --out, or fix the problem and try again; the run is unchanged",
        ) from cause
