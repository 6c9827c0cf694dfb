"""Saving a trained model as a SavedModel that runs without the model's code: only `recgraph` must be imported.

It has two signatures, both for batches of any size. `trees` takes the flat arrays of `recgraph.data.TreeBatch`, with
words as strings. `sentences` takes plain sentences, tokenizes them as `recgraph predict` does, and makes trees over
them in the graph, by the parser that the model brings, or balanced ones where it brings none. The probabilities are
those of `recgraph predict`, too.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import files
from recgraph.contest import Contest
from recgraph.data import UNKNOWN, TreeBatch, Vocabulary, balanced, encode, lookup, spaced
from recgraph.errors import RecgraphError
from recgraph.models import TreeModel
from recgraph.train.parsing import Brought


class ExportError(RecgraphError):
    """A SavedModel cannot be written."""

    id = "export"


class Served(tf.Module):
    """A model with its vocabulary, from strings to probabilities."""

    def __init__(
        self, model: TreeModel, vocabulary: Vocabulary, rewritten: Collection[str] = (), brought: Brought | None = None
    ):
        """Wraps a trained model.

        Args:
          model: the model.
          vocabulary: the vocabulary that it was trained with.
          rewritten: the functions whose SubGraphs are rewritten by substitutions.
          brought: the parser of sentences, and how sure the model may be; by default none, and as sure as it is.
        """
        super().__init__(name="served")
        self.model = model
        self._rewritten = frozenset(rewritten)
        self.table = vocabulary.lookup_table()
        self._confidence = None if brought is None else brought.confidence
        parser = None if brought is None else brought.parser
        self.parser = None if parser is None else parser.model
        self.parser_table = None if parser is None else parser.vocabulary.lookup_table()

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
        """
        ids = tf.where(left < 0, lookup(self.table, words), -1)
        return self._classify("trees", "given", ids, left, right, roots)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentences")], autograph=False)
    def sentences(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies B sentences and every phrase of the trees over them.

        Args:
          sentences: string `[B]`, tokenized as `recgraph.data.spaced` does; one without a token counts as one unknown
            word.

        Returns:
          As `trees`.
        """
        tokens = spaced(sentences)
        words = tf.strings.split(tf.where(tf.equal(tokens, ""), UNKNOWN, tokens), " ")
        lengths = tf.cast(words.row_lengths(), tf.int32)
        origin = "balanced" if self.parser is None else "parser"
        trees = balanced_trees(lengths) if self.parser is None else trees_of_spans(lengths, self._spans(words))
        place, left, right, roots = trees
        ids = tf.concat([lookup(self.table, words.flat_values), [-1]], 0)  # the last row is for inner nodes
        ids = tf.gather(ids, tf.where(place < 0, tf.size(ids) - 1, place))
        return self._classify("sentences", origin, ids, left, right, roots)

    def _spans(self, words: tf.RaggedTensor) -> tf.Tensor:
        """What the parser makes of sentences: it reads the leaves of a batch alone."""
        ids = lookup(self.parser_table, words.flat_values)
        offsets = tf.cast(words.row_splits, tf.int32)
        none = -tf.ones_like(ids)
        assert self.parser is not None  # whoever asks has looked
        return self.parser.predict(TreeBatch(ids, none, none, none, offsets, offsets[1:] - 1))

    def _classify(
        self, name: str, origin: str, ids: tf.Tensor, left: tf.Tensor, right: tf.Tensor, roots: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        offsets = tf.concat([[0], roots + 1], 0)
        sizes = offsets[1:] - offsets[:-1]
        before = tf.concat([[0], tf.cumsum(tf.cast((left < 0) & (ids == 0), tf.int32))], 0)
        unknown = tf.gather(before, offsets[1:]) - tf.gather(before, offsets[:-1])
        asked = self.model.optimize
        self.model.optimize = name in self._rewritten
        try:
            logits = self.model.predict(TreeBatch(ids, left, right, -tf.ones_like(ids), offsets, roots))
        finally:
            self.model.optimize = asked
        if self._confidence is not None:
            shares = tf.cast(unknown, tf.float32) / tf.cast((sizes + 1) // 2, tf.float32)
            temperatures = self._confidence.temperature_in_graph(origin, shares)
            logits /= tf.repeat(temperatures, sizes)[:, tf.newaxis]
        nodes = tf.nn.softmax(logits)
        return {"nodes": nodes, "probabilities": tf.gather(nodes, roots), "unknown": unknown}


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
        contest = Contest(tuple(forms))
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
) -> None:
    """Writes a SavedModel, with `sentences` as the default signature; it replaces one that is there.

    Args:
      model: a trained model.
      vocabulary: the vocabulary that it was trained with.
      folder: the folder of the SavedModel.
      rewritten: the signatures whose SubGraphs are rewritten by substitutions, as `choose` gives them.
      brought: as of `Served`.

    Raises:
      ExportError: it cannot be written (no permission, full disk); the folder is unchanged.
    """
    served = Served(model, vocabulary, rewritten, brought)
    signatures = {"serving_default": served.sentences, "sentences": served.sentences, "trees": served.trees}
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


def trees_of_spans(lengths: tf.Tensor, spans: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The trees of `recgraph.data.tree_of_spans` over sentences, made inside the graph, all nodes at once.

    In post-order a leaf comes after all words before it and after all inner nodes that end before it; a node over words
    begin .. end-1 is node `2 (end - begin) - 2` from its first leaf.

    Args:
      lengths: int32 `[B]`, the number of words of each sentence, at least 1.
      spans: int32 `[B, T, 2]`, for each gap of a sentence between words the span that is cut there.

    Returns:
      As `balanced_trees`.
    """
    ends = tf.cumsum(lengths)
    begins = ends - lengths
    gaps = tf.where(tf.sequence_mask(lengths - 1, tf.shape(spans)[1]))
    sentence, gap = tf.unstack(tf.cast(gaps, tf.int32), axis=1)
    begin, end = tf.unstack(tf.gather_nd(spans, gaps) + tf.gather(begins, sentence)[:, tf.newaxis], axis=1)
    cut = tf.gather(begins, sentence) + gap + 1
    words = tf.reduce_sum(lengths)
    ended = tf.math.unsorted_segment_sum(tf.ones_like(end), end - 1, words)
    leaves = tf.range(words) + tf.cumsum(ended, exclusive=True)
    first = tf.gather(leaves, begin)
    own = first + 2 * (end - begin) - 2
    children = tf.stack([-tf.ones_like(own), first + 2 * (cut - begin) - 2, own - 1], 1)
    words_alone = tf.stack([tf.range(words), -tf.ones_like(leaves), -tf.ones_like(leaves)], 1)
    table = tf.fill([2 * words - tf.size(lengths), 3], -1)
    rows = tf.concat([words_alone, children], 0)
    table = tf.tensor_scatter_nd_update(table, tf.concat([leaves, own], 0)[:, tf.newaxis], rows)
    place, left, right = tf.unstack(table, axis=1)
    return place, left, right, 2 * ends - tf.range(1, tf.size(lengths) + 1) - 1


def balanced_trees(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The trees of `recgraph.data.balanced` over sentences, made inside the graph, all sentences level by level.

    A node over words begin .. end-1 whose subtree starts at node `base` is node `base + 2 (end - begin) - 2`.

    Args:
      lengths: int32 `[B]`, the number of words of each sentence, at least 1.

    Returns:
      The place of the word among all words, -1 at inner nodes; left and right children, -1 at leaves: int32 `[N]`; and
      the roots, int32 `[B]`.
    """
    ends = tf.cumsum(lengths)
    begins = ends - lengths
    roots = 2 * ends - tf.range(1, tf.size(lengths) + 1) - 1
    spans = tf.stack([begins, ends, roots - 2 * lengths + 2], 1)
    table = tf.fill([2 * tf.reduce_sum(lengths) - tf.size(lengths), 3], -1)
    _, table = tf.while_loop(
        lambda spans, _: tf.size(spans) > 0,
        _level,
        (spans, table),
        shape_invariants=(tf.TensorShape([None, 3]), tf.TensorShape([None, 3])),
    )
    place, left, right = tf.unstack(table, axis=1)
    return place, left, right, roots


def _level(spans: tf.Tensor, table: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Enters the nodes of one level, `[K, 3]` of begin, end and base, and returns the spans of their children."""
    begin, end, base = tf.unstack(spans, axis=1)
    middle = (begin + end + 1) // 2
    own = base + 2 * (end - begin) - 2
    inner = end - begin > 1
    rows = tf.stack(
        [
            tf.where(inner, -1, begin),
            tf.where(inner, base + 2 * (middle - begin) - 2, -1),
            tf.where(inner, own - 1, -1),
        ],
        1,
    )
    table = tf.tensor_scatter_nd_update(table, own[:, tf.newaxis], rows)
    lefts = tf.stack([begin, middle, base], 1)
    rights = tf.stack([middle, end, base + 2 * (middle - begin) - 1], 1)
    return tf.boolean_mask(tf.concat([lefts, rights], 0), tf.concat([inner, inner], 0)), table
