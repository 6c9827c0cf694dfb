"""Batches for several replicas: trees as rows, which can be split, and a check that finds batches that were cut.

A strategy of `tf.distribute`, Keras' `fit` included, splits each array of a batch by itself, at the same share of its
length: the flat arrays of `TreeBatch` are cut in the middle of a tree, and what is left may look like trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from recgraph.data.completion import TopDownBatch
from recgraph.data.pairs import PairBatch
from recgraph.data.pipeline import TreeBatch
from recgraph.data.trees import NO_CHILD

if TYPE_CHECKING:
    import tensorflow as tf

Batch = TypeVar("Batch", TreeBatch, PairBatch, TopDownBatch)

_CUT = (
    "a batch was cut in the middle of a tree: its arrays do not fit together. A distribution strategy, Keras' fit "
    "included, splits each array by itself. Give it a row for each tree, `dataset.map(TreeRows.of)`, and take "
    "`TreeRows.batch` of what a replica gets; or whole batches, by strategy.distribute_datasets_from_function"
)


class TreeRows(NamedTuple):
    """B trees as the rows of arrays of M columns, the largest tree's nodes: some of the rows are some of the trees.

    Attributes:
        words: int32 [B, M]; vocabulary id at a leaf, -1 at an inner node, 0 after the last node of a tree.
        left: int32 [B, M]; number in the tree of the left child, -1 at a leaf.
        right: int32 [B, M]; number in the tree of the right child, -1 at a leaf.
        labels: int32 [B, M]; class of the node, -1 where it has none.
        sizes: int32 [B]; how many nodes a tree has.

    Examples:
        >>> from recgraph.data import TreeRows, Vocabulary, generate_treebank, tree_dataset
        >>> trees = generate_treebank(8, seed=1)
        >>> rows = tree_dataset(trees, Vocabulary.build(trees), batch_size=4).map(TreeRows.of)
        >>> [int(TreeRows(*batch).batch().roots.shape[0]) for batch in rows]
        [4, 4]
    """

    words: Any
    left: Any
    right: Any
    labels: Any
    sizes: Any

    @staticmethod
    def of(batch: TreeBatch) -> TreeRows:
        """The trees of a batch."""
        import tensorflow as tf

        sizes = batch.offsets[1:] - batch.offsets[:-1]
        first = tf.repeat(batch.offsets[:-1], sizes)
        left, right = (tf.where(child == NO_CHILD, child, child - first) for child in (batch.left, batch.right))
        ragged = (
            tf.RaggedTensor.from_row_splits(column, batch.offsets)
            for column in (batch.words, left, right, batch.labels)
        )
        return TreeRows(*(column.to_tensor() for column in ragged), sizes)

    def batch(self) -> TreeBatch:
        """The trees as flat arrays."""
        import tensorflow as tf

        offsets = tf.concat([[0], tf.cumsum(self.sizes)], 0)
        first = tf.repeat(offsets[:-1], self.sizes)
        mask = tf.sequence_mask(self.sizes, tf.shape(self.words)[1])
        words, left, right, labels = (tf.boolean_mask(column, mask) for column in self[:4])
        left, right = (tf.where(child == NO_CHILD, child, child + first) for child in (left, right))
        return TreeBatch(words, left, right, labels, offsets, offsets[1:] - 1)


# What a walk of the trees begins with: it waits for the check.
_BEGIN = {TreeBatch: ("offsets", "roots"), PairBatch: ("offsets", "left", "right"), TopDownBatch: ("roots",)}


def whole(batch: Batch) -> Batch:
    """The batch, all of whose trees are in it.

    Raises:
        tf.errors.InvalidArgumentError: it was cut in the middle of a tree, as far as numbers tell: of all parts of a
            batch one at least is found.
    """
    import tensorflow as tf

    checked = tf.debugging.Assert(_fits(batch), [_CUT])
    if tf.executing_eagerly():
        return batch
    with tf.control_dependencies([checked]):
        return batch._replace(**{name: tf.identity(getattr(batch, name)) for name in _BEGIN[type(batch)]})


def _fits(batch: Any) -> tf.Tensor:
    """Few operations, as every step asks: offsets that begin with 0 are those of the first part."""
    import tensorflow as tf

    nodes = tf.size(batch.words)
    if isinstance(batch, TopDownBatch):
        return tf.reduce_all([tf.reduce_all(batch[i] < nodes) for i in range(1, len(batch))])
    begins = batch.offsets[0] == 0
    if isinstance(batch, PairBatch):
        ends = batch.offsets[-1] == tf.size(batch.children)
        return begins & ends & (tf.size(batch.offsets) == nodes + 1)
    return begins & (batch.offsets[-1] == nodes)
