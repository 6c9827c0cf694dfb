"""Batches of trees as flat arrays, `TreeBatch`, and the `tf.data` pipeline that makes them.

The trees are encoded once into flat arrays with row splits; a batch is then a gather of ranges inside the `tf.data`
graph, so no Python runs while a model trains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recgraph.data.trees import NO_CHILD, NO_LABEL, Tree
from recgraph.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    import tensorflow as tf

NO_WORD = -1
NEUTRAL = 2

# Fine-grained label (or -1) + 1 -> label of the task; -1 means that the node has no loss.
_TASKS = {"fine": np.array([-1, 0, 1, 2, 3, 4], np.int32), "binary": np.array([-1, 0, 0, -1, 1, 1], np.int32)}


class TreeBatch(NamedTuple):
    """B trees of N nodes together, each in post-order, one after the other; numpy arrays or tensors.

    Attributes:
        words: int32 [N]; vocabulary id at a leaf, -1 at an inner node.
        left: int32 [N]; index in the batch of the left child, -1 at a leaf.
        right: int32 [N]; index in the batch of the right child, -1 at a leaf.
        labels: int32 [N]; class of the node, -1 where it has none.
        offsets: int32 [B + 1]; tree b holds the nodes offsets[b] .. offsets[b + 1] - 1.
        roots: int32 [B]; root of each tree, offsets[1:] - 1.
    """

    words: Any
    left: Any
    right: Any
    labels: Any
    offsets: Any
    roots: Any


class Share(NamedTuple):
    """Which parts of each batch to make, where several workers divide it. Parts are as even as whole examples allow.

    The examples of a batch are dealt out by their cost, the number of their nodes, longest first: each goes to the part
    that has least so far. Trees differ in size by an order of magnitude, so equal numbers of trees are not equal work.

    Attributes:
        parts: into how many a batch is divided; some may get no example.
        first: the first part to make.
        count: how many to make; they follow each other in the dataset, part after part, then batch after batch.
    """

    parts: int
    first: int
    count: int


class Part(NamedTuple):
    """Where the examples of a part stand in the whole batch; tensors.

    Attributes:
        trees: int32 [b]; their numbers in the batch of B.
        nodes: int32 [n]; the numbers of their nodes in the batch of N.
        all_trees: int32 scalar B.
        all_nodes: int32 scalar N.
        longest: int32 scalar; the largest number of nodes of a tree in the batch.
    """

    trees: Any
    nodes: Any
    all_trees: Any
    all_nodes: Any
    longest: Any


class _Flat(NamedTuple):
    """All trees of a data set.

    In post-order the right child is the node just before its parent, so one number per node gives both children and
    does not change when the tree moves: the distance back to the left child, 0 at a leaf.
    """

    words: np.ndarray  # int32 [N], -1 at an inner node
    back: np.ndarray  # int32 [N]
    labels: np.ndarray  # int32 [N]
    splits: np.ndarray  # int64 [B + 1]


def encode(trees: Sequence[Tree], vocabulary: Vocabulary, *, labels: str = "fine") -> TreeBatch:
    """Makes one batch of all trees, as NumPy arrays; without trees it is empty.

    Args:
        trees: the trees.
        vocabulary: maps their words to ids.
        labels: "fine" or "binary", see `tree_dataset`.

    Returns:
        A `TreeBatch` of int32 arrays.

    Raises:
        ValueError: `labels` is unknown, or a tree has a label outside 0..4.
    """
    flat = _flatten(trees, vocabulary, labels)
    nodes = np.arange(len(flat.words), dtype=np.int32)
    inner = flat.back > 0
    offsets = flat.splits.astype(np.int32)
    left = np.where(inner, nodes - flat.back, np.int32(NO_CHILD))
    right = np.where(inner, nodes - 1, np.int32(NO_CHILD))
    return TreeBatch(flat.words, left, right, flat.labels, offsets, offsets[1:] - 1)


def tree_dataset(
    trees: Sequence[Tree],
    vocabulary: Vocabulary,
    batch_size: int,
    *,
    labels: str = "fine",
    drop_neutral: bool | None = None,
    shuffle_seed: int | None = None,
    first_epoch: int = 0,
    epochs: int = 1,
    share: Share | None = None,
) -> tf.data.Dataset:
    """Makes a dataset of `TreeBatch`, of known cardinality; the last batch of an epoch may be smaller.

    The order of epoch e depends only on `shuffle_seed` and e, so a run that was stopped after epoch e continues exactly
    as it would have with `first_epoch=e + 1`.

    Args:
        trees: the trees.
        vocabulary: maps their words to ids.
        batch_size: trees per batch.
        labels: "fine" keeps the labels 0..4; "binary" maps 0 and 1 to 0, 3 and 4 to 1, and removes 2 (-1).
        drop_neutral: whether to leave out trees whose root has label 2; by default only for "binary".
        shuffle_seed: seed of the order; None keeps the given order.
        first_epoch: number of the first epoch.
        epochs: number of epochs.
        share: the parts of each batch to make; elements are then pairs of a `TreeBatch` and a `Part`.

    Raises:
        ValueError: `batch_size` is below 1, an epoch is negative, or `labels` is unknown.
    """
    if drop_neutral if drop_neutral is not None else labels == "binary":
        trees = [tree for tree in trees if tree.label != NEUTRAL]
    flat = _flatten(trees, vocabulary, labels)
    order = Order(len(trees), batch_size, shuffle_seed, first_epoch, epochs)
    return batches(order, _batch_maker(flat), np.diff(flat.splits).astype(np.int32), share)


def _flatten(trees: Sequence[Tree], vocabulary: Vocabulary, task: str) -> _Flat:
    if task not in _TASKS:
        raise ValueError(f"labels must be one of {', '.join(_TASKS)}; found {task!r}")
    splits = np.zeros(len(trees) + 1, np.int64)
    np.cumsum([len(tree) for tree in trees], out=splits[1:])
    if splits[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"a data set holds at most 2**31 - 1 nodes; found {splits[-1]}")
    words = np.fromiter((vocabulary.id(word) if word else NO_WORD for tree in trees for word in tree.words), np.int32)
    back = np.fromiter(
        (0 if left == NO_CHILD else node - left for tree in trees for node, left in enumerate(tree.left)), np.int32
    )
    labels = np.fromiter((label for tree in trees for label in tree.labels), np.int32)
    return _Flat(words, back, _task_labels(labels, task), splits)


def _task_labels(labels: np.ndarray, task: str) -> np.ndarray:
    bad = (labels < NO_LABEL) | (labels > 4)
    if bad.any():
        raise ValueError(f"sentiment labels must be 0..4, or -1 for none; found {labels[bad][0]}")
    return _TASKS[task][labels + 1]


def _batch_maker(flat: _Flat) -> Callable[[tf.Tensor], TreeBatch]:
    import tensorflow as tf

    columns = tf.constant(np.stack([flat.words, flat.back, flat.labels], axis=1))
    splits = tf.constant(flat.splits)
    return lambda rows: _gather(columns, splits, rows)


class Order(NamedTuple):
    """The order in which examples come; see `tree_dataset`.

    Attributes:
        count: how many examples.
        batch_size: examples in a batch.
        seed: of the order; None keeps it.
        first_epoch: number of the first epoch.
        epochs: how many epochs.
    """

    count: int
    batch_size: int
    seed: int | None = None
    first_epoch: int = 0
    epochs: int = 1


def batches(
    order: Order, make: Callable[[tf.Tensor], Any], costs: np.ndarray | None = None, share: Share | None = None
) -> tf.data.Dataset:
    """Batches of examples 0 .. count-1, in an order that depends on seed and epoch alone.

    Args:
        order: see there.
        make: makes a batch of the numbers of its examples, int32 [B]; called while the dataset is traced.
        costs: int32 [count]; numbers of nodes, for `share`.
        share: as in `tree_dataset`.

    Raises:
        ValueError: a batch size below 1, an epoch below 0.
    """
    import tensorflow as tf

    if order.batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; found {order.batch_size}")
    if order.first_epoch < 0 or order.epochs < 0:
        raise ValueError(f"first_epoch and epochs must be at least 0; found {order.first_epoch} and {order.epochs}")
    steps = -(-order.count // order.batch_size)

    def epoch_batches(epoch: tf.Tensor) -> tf.data.Dataset:
        rows = tf.range(order.count) if order.seed is None else _order(order.count, order.seed, epoch)
        if share is not None:
            return _shared(rows, order.batch_size, make, costs, share)

        def batch(step: tf.Tensor) -> Any:
            first = tf.cast(step, tf.int32) * order.batch_size
            return make(rows[first : first + order.batch_size])

        return tf.data.Dataset.range(steps).map(batch)

    dataset = tf.data.Dataset.range(order.first_epoch, order.first_epoch + order.epochs).flat_map(epoch_batches)
    elements = steps * order.epochs * (1 if share is None else share.count)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(elements)).prefetch(2)
    # The gathers are tiny: tuning and sharding them took as much processor time again as they do.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.max_intra_op_parallelism = 1
    return dataset.with_options(options)


def _shared(
    rows: tf.Tensor, batch_size: int, make: Callable[[tf.Tensor], Any], costs: np.ndarray | None, share: Share
) -> tf.data.Dataset:
    """The parts of an epoch's batches: pairs of what `make` makes, and a `Part`."""
    import tensorflow as tf

    steps = -(-int(rows.shape[0]) // batch_size)
    table = tf.reshape(tf.pad(rows, [[0, steps * batch_size - rows.shape[0]]], constant_values=-1), [steps, batch_size])
    sizes = tf.where(table < 0, 0, tf.gather(tf.constant(costs), tf.maximum(table, 0)))
    dealt = deal(sizes, share.parts)

    def part(element: tf.Tensor) -> tuple[Any, Part]:
        step, number = element // share.count, tf.cast(element % share.count, tf.int32) + share.first
        is_there = table[step] >= 0
        trees = tf.cast(tf.where(is_there & (dealt[step] == number))[:, 0], tf.int32)
        lengths = sizes[step]
        starts = tf.cumsum(lengths, exclusive=True)
        nodes = tf.ragged.range(tf.gather(starts, trees), tf.gather(starts + lengths, trees)).flat_values
        totals = (tf.math.count_nonzero(is_there, dtype=tf.int32), tf.reduce_sum(lengths), tf.reduce_max(lengths))
        return make(tf.gather(table[step], trees)), Part(trees, nodes, *totals)

    return tf.data.Dataset.range(steps * share.count).map(part)


def deal(costs: tf.Tensor, parts: int) -> tf.Tensor:
    """Deals examples out to parts, longest first, each to the part that has least so far.

    This is at most a third above the best division (Graham, 1969); of the batches of a treebank it is mostly within one
    node of it. Vectorised over the batches, so that an epoch costs one loop over the places of a batch.

    Args:
        costs: int32 [S, B]; of the examples of S batches.
        parts: their number P.

    Returns:
        The part of each example, int32 [S, B].
    """
    import tensorflow as tf

    steps, size = costs.shape
    by_cost = tf.argsort(costs, axis=1, direction="DESCENDING", stable=True)
    descending = tf.gather(costs, by_cost, batch_dims=1)

    def give(place: tf.Tensor, loads: tf.Tensor, chosen: tf.TensorArray) -> Any:
        least = tf.argmin(loads, axis=1, output_type=tf.int32)
        loads += tf.one_hot(least, parts, dtype=tf.int32) * descending[:, place][:, tf.newaxis]
        return place + 1, loads, chosen.write(place, least)

    start = (0, tf.zeros([steps, parts], tf.int32), tf.TensorArray(tf.int32, size, element_shape=[steps]))
    _, _, chosen = tf.while_loop(lambda place, *_: place < size, give, start)
    places = tf.argsort(by_cost, axis=1)  # of each example in the order of costs
    return tf.gather(tf.transpose(chosen.stack()), places, batch_dims=1)


def _order(count: int, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """The order of the trees in one epoch, int32 [count]: drawn numbers, sorted; named generator, so it is portable."""
    import tensorflow as tf

    drawn = tf.random.stateless_uniform(
        [count], tf.stack([tf.constant(seed, tf.int64), epoch]), None, None, tf.int32, alg="philox"
    )
    return tf.argsort(drawn, stable=True)


def _gather(columns: tf.Tensor, splits: tf.Tensor, rows: tf.Tensor) -> TreeBatch:
    """The batch of some trees: int32 [all nodes, 3], int64 [all trees + 1] and int32 [B] -> `TreeBatch`."""
    import tensorflow as tf

    starts, ends = tf.gather(splits, rows), tf.gather(splits, rows + 1)
    offsets = tf.concat([[0], tf.cumsum(tf.cast(ends - starts, tf.int32))], axis=0)
    places = tf.ragged.range(starts, ends).flat_values
    words, back, labels = tf.unstack(tf.gather(columns, places), axis=1)
    nodes = tf.range(tf.size(words))
    left = tf.where(back > 0, nodes - back, NO_CHILD)
    right = tf.where(back > 0, nodes - 1, NO_CHILD)
    return TreeBatch(words, left, right, labels, offsets, offsets[1:] - 1)
