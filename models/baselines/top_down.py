"""The iterative way to make trees: `tf.while_loop` takes node after node from a stack, in place of recursion."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph.models.common import State
from recgraph.models.td_tree_lstm import LEFT, NEXT, RIGHT, Draw, TopDownTreeLSTM

Pending = tuple[tf.Tensor, ...]  # TensorLists: what is known of a node before it is made


class IterativeTopDown:
    """Shares the weights of a `TopDownTreeLSTM` and makes the same trees.

    A node that is still to be made waits on the stack with its state, head, side, level and seed. Nodes come out in the
    order in which they were made, each with its head and its side of it; `in_order` puts the words in theirs.
    """

    def __init__(self, model: TopDownTreeLSTM, parallel_iterations: int = 32):
        """Args: the model whose weights to use, and how many trees may be made at once."""
        self.model = model
        self.parallel_iterations = parallel_iterations

    def generate(self, words: tf.Tensor, seeds: tf.Tensor | None = None, most_levels: int = 12) -> tf.RaggedTensor:
        """Arguments as of `TopDownTreeLSTM.generate`.

        Returns:
          int32 `[B, (n), 3]`: word, number of the head in the tree, -1 at the root, and 0 for left of it or 1.
        """
        trees = tf.size(words)
        draw = Draw(seeds is not None)
        seeds = tf.zeros([trees, 2], tf.int32) if seeds is None else seeds
        made = tf.TensorArray(tf.int32, trees, infer_shape=False, element_shape=[None, 3])
        sizes = tf.TensorArray(tf.int32, trees, element_shape=[])

        def one_tree(tree: tf.Tensor, made: tf.TensorArray, sizes: tf.TensorArray) -> tuple[Any, ...]:
            nodes = self._tree(words[tree], seeds[tree], draw, most_levels)
            return tree + 1, made.write(tree, nodes), sizes.write(tree, tf.shape(nodes)[0])

        _, made, sizes = tf.while_loop(
            lambda tree, *_: tree < trees,
            one_tree,
            (0, made, sizes),
            parallel_iterations=self.parallel_iterations,
            maximum_iterations=trees,
        )
        return tf.RaggedTensor.from_row_lengths(tf.reshape(made.concat(), [-1, 3]), sizes.stack())

    def _tree(self, root: tf.Tensor, seed: tf.Tensor, draw: Draw, most_levels: int) -> tf.Tensor:
        """Nodes int32 `[n, 3]` of one tree."""
        hidden = self.model.hyper.hidden
        shapes = [([6], tf.int32), ([1, hidden], tf.float32), ([1, hidden], tf.float32)]
        empty = tuple(
            tf.raw_ops.EmptyTensorList(element_shape=tf.constant(shape), max_num_elements=-1, element_dtype=dtype)
            for shape, dtype in shapes
        )
        # Of a waiting node: head, side, level, seed, and whether the chain of its fellows may go on.
        first = tf.concat([[-1, RIGHT, 0], seed, [0]], 0)
        pending = _push(empty, first, self.model.root_state())
        made = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[3])

        def one_node(count: tf.Tensor, pending: Pending, made: tf.TensorArray) -> tuple[Any, ...]:
            (known, *state), pending = _pop(pending, shapes)
            word = tf.cond(
                count == 0,
                lambda: root[tf.newaxis],
                lambda: draw.word(self.model.word_logits(tuple(state)), known[3:5]),
            )
            made = made.write(count, tf.stack([word[0], known[0], known[1]]))
            return count + 1, self._follow(count, word, known, tuple(state), pending, draw, most_levels), made

        _, _, made = tf.while_loop(
            lambda count, pending, made: tf.raw_ops.TensorListLength(input_handle=pending[0]) > 0,
            one_node,
            (0, pending, made),
        )
        return made.stack()

    def _follow(
        self, node: tf.Tensor, word: tf.Tensor, known: tf.Tensor, state: State, pending: Pending, draw: Draw, most: int
    ) -> Pending:
        """The stack with the nodes that follow a node: a dependent to either side, the next fellow."""
        head, side, level, _, _, in_chain = tf.unstack(known, num=6)
        seed = known[3:5]
        vector = self.model.embed(word)
        logits = self.model.edge_logits(vector, state)

        def follow(pending: Pending, edge: int, way: int, above: tf.Tensor, possible: Any = True) -> Pending:
            waiting = tf.concat([[above, way, level + 1], draw.below(edge, seed), [1]], 0)
            return tf.cond(
                possible & draw.edge(logits[edge], edge, seed) & (level < most),
                lambda: _push(pending, waiting, self.model.cell(edge, vector, state)),
                lambda: pending,
            )

        for way in (LEFT, RIGHT):
            pending = follow(pending, way, way, node)
            pending = follow(pending, NEXT[way], way, head, (side == way) & (in_chain > 0))
        return pending


def in_order(nodes: Any) -> tuple[list[int], list[int]]:
    """Words from left to right and the places of their heads, of one tree as `IterativeTopDown` makes it, `[n, 3]`."""
    sides: list[tuple[list[int], list[int]]] = [([], []) for _ in nodes]
    for number, (_, head, side) in enumerate(nodes):
        if head >= 0:
            sides[head][side].append(number)
    order: list[int] = []
    todo = [(0, False)]
    while todo:
        number, ready = todo.pop()
        if ready:
            order.append(number)
            continue
        left, right = sides[number]
        # The nearest dependents are the first of their lists; the stack gives back the last.
        todo += [(child, False) for child in reversed(right)] + [(number, True)] + [(child, False) for child in left]
    place = {number: position for position, number in enumerate(order)} | {-1: -1}
    return [int(nodes[n][0]) for n in order], [place[int(nodes[n][1])] for n in order]


def _push(pending: Pending, known: tf.Tensor, state: State) -> Pending:
    pairs = zip(pending, (known, *state), strict=True)
    return tuple(tf.raw_ops.TensorListPushBack(input_handle=stack, tensor=value) for stack, value in pairs)


def _pop(pending: Pending, shapes: list[tuple[list[int], tf.DType]]) -> tuple[list[tf.Tensor], Pending]:
    values, rest = [], []
    for stack, (shape, dtype) in zip(pending, shapes, strict=True):
        popped = tf.raw_ops.TensorListPopBack(input_handle=stack, element_shape=tf.constant(shape), element_dtype=dtype)
        values.append(tf.ensure_shape(popped.tensor, shape))
        rest.append(popped.output_handle)
    return values, tuple(rest)
