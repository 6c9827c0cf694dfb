"""The iterative way to make and to walk trees: `tf.while_loop` takes node after node from a stack."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from recgraph.models.hyper import State
from recgraph.models.td_tree_lstm import LEFT, NEXT, RIGHT, Draw, TopDownTreeLSTM

Pending = tuple[tf.Tensor, ...]  # TensorLists: what is known of a node before it is made


NO_SIDE = -1  # of a root


class IterativeTopDown:
    """Shares the weights of a `TopDownTreeLSTM`, makes the same trees, and has the same losses.

    A node that is still to be made waits on the stack with its state, head, side, level and seed. Nodes come out in the
    order in which they were made, each with its head and its side of it; `in_order` puts the words in theirs.

    Where the tree is given, the loops compute states only; scores and losses follow, of all nodes at once.
    """

    def __init__(self, model: TopDownTreeLSTM, parallel_iterations: int = 32):
        """Wraps a model.

        Args:
          model: the model whose weights are used.
          parallel_iterations: how many trees may be generated at once.
        """
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

    def loss(self, batch: Any, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """As `TopDownTreeLSTM.loss`."""
        losses = self._losses(batch)
        return tf.reduce_sum(losses), -tf.stop_gradient(losses[:, 0])

    def predict(self, batch: Any) -> tf.Tensor:
        """As `TopDownTreeLSTM.predict`."""
        return -self._losses(batch)[:, 0]

    def _losses(self, batch: Any) -> tf.Tensor:
        """Losses of the words and of the edges of each tree, float32 `[B, 2]`."""
        model, trees = self.model, tf.size(batch.roots)
        vectors = model.embed(batch.words)
        separate = tf.TensorArray(tf.float32, tf.size(batch.words), element_shape=[1, model.hyper.embedding])
        separate = separate.unstack(vectors[:, tf.newaxis])
        known = tf.TensorArray(tf.int32, trees, infer_shape=False, element_shape=[None, 2])
        hidden = tf.TensorArray(tf.float32, trees, infer_shape=False, element_shape=[None, 1, model.hyper.hidden])
        sizes = tf.TensorArray(tf.int32, trees, element_shape=[])

        def one_tree(tree: tf.Tensor, *arrays: tf.TensorArray) -> tuple[Any, ...]:
            walked = self._walk(batch, separate, batch.roots[tree])
            values = (*walked, tf.shape(walked[0])[0])
            return tree + 1, *(array.write(tree, value) for array, value in zip(arrays, values, strict=True))

        _, known, hidden, sizes = tf.while_loop(
            lambda tree, *_: tree < trees,
            one_tree,
            (0, known, hidden, sizes),
            parallel_iterations=self.parallel_iterations,
            maximum_iterations=trees,
        )
        nodes, sides = tf.unstack(known.concat(), num=2, axis=1)
        rows = tf.reshape(hidden.concat(), [-1, model.hyper.hidden])
        losses = _node_losses(model, batch, tf.gather(vectors, nodes), rows, nodes, sides)
        return tf.math.segment_sum(losses, tf.repeat(tf.range(trees), sizes.stack()))

    def _walk(self, batch: Any, vectors: tf.TensorArray, root: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Of the nodes of a given tree, as they come: number and side, int32 `[n, 2]`, and hidden row, `[n, 1, H]`."""
        hidden = self.model.hyper.hidden
        shapes = [([2], tf.int32), ([1, hidden], tf.float32), ([1, hidden], tf.float32)]
        pending = _push(_empty(shapes), tf.stack([root, NO_SIDE]), self.model.root_state())

        def one_node(pending: Pending, *walked: tf.Tensor) -> tuple[Any, ...]:
            (known, *state), pending = _pop(pending, shapes)
            node, side = tf.unstack(known, num=2)
            vector = vectors.read(node)

            def follow(pending: Pending, edge: int, way: int, to: tf.Tensor, possible: Any = True) -> Pending:
                return tf.cond(
                    possible & (to >= 0),
                    lambda: _push(pending, tf.stack([to, way]), self.model.cell(edge, vector, tuple(state))),
                    lambda: pending,
                )

            for way, ends in ((LEFT, batch.left), (RIGHT, batch.right)):
                pending = follow(pending, way, way, ends[node])
                pending = follow(pending, NEXT[way], way, batch.next[node], side == way)
            return pending, *_push(walked, known, state[:1])

        _, *walked = tf.while_loop(
            lambda pending, *_: tf.raw_ops.TensorListLength(input_handle=pending[0]) > 0,
            one_node,
            (pending, *_empty(shapes[:2])),
        )
        known, rows = (_stacked(stack, *shape) for stack, shape in zip(walked, shapes[:2], strict=True))
        return known, rows

    def _tree(self, root: tf.Tensor, seed: tf.Tensor, draw: Draw, most_levels: int) -> tf.Tensor:
        """Nodes int32 `[n, 3]` of one tree."""
        hidden = self.model.hyper.hidden
        shapes = [([6], tf.int32), ([1, hidden], tf.float32), ([1, hidden], tf.float32)]
        # Of a waiting node: head, side, level, seed, and whether the chain of its fellows may go on.
        first = tf.concat([[-1, RIGHT, 0], seed, [0]], 0)
        pending = _push(_empty(shapes), first, self.model.root_state())
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


def _node_losses(
    model: TopDownTreeLSTM, batch: Any, vectors: tf.Tensor, rows: tf.Tensor, nodes: tf.Tensor, sides: tf.Tensor
) -> tf.Tensor:
    """Losses of the word and of the edges of nodes, float32 `[n, 2]`, given their vectors, hidden rows and sides."""
    word_logits = tf.matmul(rows, model.word_kernel) + model.word_bias
    edge_logits = tf.matmul(tf.concat([vectors, rows], 1), model.edge_kernel) + model.edge_bias
    left, right, following = (tf.gather(ends, nodes) >= 0 for ends in (batch.left, batch.right, batch.next))
    there = tf.cast(tf.stack([left, right, following, following], 1), tf.float32)
    everywhere = tf.ones_like(left)
    asked = tf.cast(tf.stack([everywhere, everywhere, sides == LEFT, sides == RIGHT], 1), tf.float32)
    edges = asked * tf.nn.sigmoid_cross_entropy_with_logits(labels=there, logits=edge_logits)
    words = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.gather(batch.words, nodes), logits=word_logits)
    return tf.stack([words, tf.reduce_sum(edges, 1)], 1)


def _empty(shapes: list[tuple[list[int], tf.DType]]) -> Pending:
    return tuple(
        tf.raw_ops.EmptyTensorList(element_shape=tf.constant(shape), max_num_elements=-1, element_dtype=dtype)
        for shape, dtype in shapes
    )


def _stacked(values: tf.Tensor, shape: list[int], dtype: tf.DType) -> tf.Tensor:
    """All values of a TensorList, `[n, *shape]`."""
    return tf.raw_ops.TensorListStack(input_handle=values, element_shape=tf.constant(shape), element_dtype=dtype)


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
