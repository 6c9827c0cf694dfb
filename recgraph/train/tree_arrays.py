"""Trees as arrays inside of a graph: checked, made of spans, or balanced."""

from __future__ import annotations

import tensorflow as tf


def post_order(count: tf.Tensor, left: tf.Tensor, right: tf.Tensor, roots: tf.Tensor) -> list[tf.Operation]:
    """Checks that arrays are trees in post-order: for anything else, a recursion over them might not end.

    Nodes are read as a stack machine reads them: a leaf pushes, an inner node takes what its children left there. Then
    the right child is the node before, and the left one has the height that its parent will have, and no other parent.

    Args:
      count: int32 scalar, the number of words.
      left: int32 `[N]`.
      right: int32 `[N]`.
      roots: int32 `[B]`.

    Returns:
      The operations that fail if they are not.
    """
    same = [
        tf.debugging.Assert(tf.equal(tf.size(each), count), [f"`words` and `{name}` have different lengths"])
        for name, each in (("left", left), ("right", right))
    ]
    with tf.control_dependencies(same):
        left, right = tf.identity(left), tf.identity(right)
    place, is_leaf = tf.range(count), left < 0
    first = tf.concat([[-1], roots[:-1]], 0) + 1
    is_split = tf.reduce_all(roots >= first) & tf.equal(tf.concat([[-1], roots], 0)[-1], count - 1)
    ends = tf.debugging.Assert(is_split, ["`roots` do not rise to the last node"])
    with tf.control_dependencies([ends]):
        tree = tf.repeat(tf.range(tf.size(roots)), roots - first + 1)
    height = tf.cumsum(tf.where(is_leaf, 1, -1)) - tree
    is_inside = is_leaf | (left >= tf.gather(first, tree)) & (left < place - 1) & tf.equal(right, place - 1)
    below = tf.boolean_mask(tf.where(is_inside, left, -1), ~is_leaf & is_inside)
    is_fitting = is_leaf | tf.equal(tf.gather(height, tf.where(is_inside & ~is_leaf, left, place)), height)
    parents = tf.math.unsorted_segment_sum(tf.ones_like(below), below, count)
    is_tree = (
        tf.reduce_all(is_inside & is_fitting & (height >= 1) & (parents <= 1))
        & tf.reduce_all(tf.equal(left < 0, right < 0))
        & tf.reduce_all(tf.equal(tf.gather(height, roots), 1))
    )
    return [*same, ends, tf.debugging.Assert(is_tree, ["`left` and `right` are no trees in post-order"])]


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
