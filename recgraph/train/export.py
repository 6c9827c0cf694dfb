"""Saving a trained model as a SavedModel that runs without the model's code: only `recgraph` must be imported.

It has two signatures, both for batches of any size. `trees` takes the flat arrays of `recgraph.data.TreeBatch`, with
words as strings. `sentences` takes plain sentences, tokenizes them as `recgraph predict` does, and builds balanced
trees over them in the graph.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import tensorflow as tf

from recgraph.data import UNKNOWN, TreeBatch, Vocabulary, lookup, spaced
from recgraph.errors import RecgraphError
from recgraph.models import TreeModel

_MARK = "saved_model.pb"  # what makes a folder a SavedModel


class ExportError(RecgraphError):
    """A SavedModel cannot be written."""

    id = "export"


class Served(tf.Module):
    """A model with its vocabulary, from strings to probabilities."""

    def __init__(self, model: TreeModel, vocabulary: Vocabulary):
        """Wraps a trained model.

        Args:
          model: the model.
          vocabulary: the vocabulary that it was trained with.
        """
        super().__init__(name="served")
        self.model = model
        self.table = vocabulary.lookup_table()

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
          `nodes`: float32 `[N, C]`, and `probabilities`, at the roots: float32 `[B, C]`.
        """
        ids = tf.where(left < 0, lookup(self.table, words), -1)
        return self._classify(ids, left, right, roots)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="sentences")], autograph=False)
    def sentences(self, sentences: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies B sentences and every phrase of the balanced trees over them.

        Args:
          sentences: string `[B]`, tokenized as `recgraph.data.spaced` does; one without a token counts as one unknown
            word.

        Returns:
          As `trees`.
        """
        tokens = spaced(sentences)
        words = tf.strings.split(tf.where(tf.equal(tokens, ""), UNKNOWN, tokens), " ")
        place, left, right, roots = balanced_trees(tf.cast(words.row_lengths(), tf.int32))
        ids = tf.concat([lookup(self.table, words.flat_values), [-1]], 0)  # the last row is for inner nodes
        ids = tf.gather(ids, tf.where(place < 0, tf.size(ids) - 1, place))
        return self._classify(ids, left, right, roots)

    def _classify(self, ids: tf.Tensor, left: tf.Tensor, right: tf.Tensor, roots: tf.Tensor) -> dict[str, tf.Tensor]:
        offsets = tf.concat([[0], roots + 1], 0)
        nodes = tf.nn.softmax(self.model.predict(TreeBatch(ids, left, right, -tf.ones_like(ids), offsets, roots)))
        return {"nodes": nodes, "probabilities": tf.gather(nodes, roots)}


def save(model: TreeModel, vocabulary: Vocabulary, folder: Path) -> None:
    """Writes a SavedModel, with `sentences` as the default signature; it replaces one that is there.

    Args:
      model: a trained model.
      vocabulary: the vocabulary that it was trained with.
      folder: the folder of the SavedModel.

    Raises:
      ExportError: it cannot be written (no permission, full disk); the folder is unchanged.
    """
    served = Served(model, vocabulary)
    signatures = {"serving_default": served.sentences, "sentences": served.sentences, "trees": served.trees}
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # In the folder and not beside it: the same file system, and the same permissions.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".writing.") as beside:
            tf.saved_model.save(served, beside, signatures=signatures)
            _move_into(Path(beside), folder)
    except (OSError, tf.errors.OpError) as cause:
        if is_new:
            with contextlib.suppress(OSError):  # it may not have been made
                folder.rmdir()
        raise ExportError(
            "the model cannot be saved here",
            where=str(folder),
            found=getattr(cause, "message", None) or str(cause),
            next_step="give another --out, or fix the problem and try again; the run is unchanged",
        ) from cause


def _move_into(written: Path, folder: Path) -> None:
    """Puts the parts of a SavedModel into their folder; the one that makes it a SavedModel leaves first, comes last."""
    (folder / _MARK).unlink(missing_ok=True)
    for part in sorted(written.iterdir(), key=lambda part: part.name == _MARK):
        if (folder / part.name).is_dir():
            shutil.rmtree(folder / part.name)
        os.replace(part, folder / part.name)


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
