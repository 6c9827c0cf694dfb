"""The top-down TreeLSTM of Zhang, Lu and Lapata, "Top-down Tree Long Short-Term Memory Networks" (NAACL 2016), without
its left-dependent extension: a model that makes dependency trees (Jeong's thesis, section 5.6.4)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from recgraph.data import whole
from recgraph.models.common import WordNetwork
from recgraph.models.hyper import Hyper, State
from recgraph.models.texts import to_numbers, to_text

# The four LSTMs: from a head to its first dependent, and from a dependent to the next on the same side.
LEFT, RIGHT, NEXT_LEFT, NEXT_RIGHT = range(4)
NEXT = {LEFT: NEXT_LEFT, RIGHT: NEXT_RIGHT}
EDGES = ("left", "right", "next_left", "next_right")


class TopDownTreeLSTM(WordNetwork):
    """A node's state says its word, and word and state say which nodes follow: a dependent to either side, a sibling.

    Training walks a given tree. `generate` makes one: whether there is a node is decided by what was computed so far,
    so neither shape nor size is known before it runs.
    """

    defaults: ClassVar[Hyper] = Hyper(embedding=150, hidden=300, batch_size=64)

    def __init__(
        self,
        vocabulary_size: int,
        hyper: Hyper | None = None,
        vectors: np.ndarray | None = None,
        seed: int = 0,
    ):
        """See `TreeModel`. `Hyper.classes` has no meaning here: the classes are the words."""
        super().__init__(vocabulary_size, hyper or self.defaults, vectors, seed)
        embedding, hidden = self.hyper.embedding, self.hyper.hidden
        self.start = self._zeros("start", embedding)  # the vector of the word above the root
        self.kernels = [self._matrix(f"{edge}_kernel", embedding + hidden, 4 * hidden) for edge in EDGES]
        self.biases = [self._zeros(f"{edge}_bias", 4 * hidden) for edge in EDGES]
        self.word_kernel = self._matrix("word_kernel", hidden, vocabulary_size)
        self.word_bias = self._zeros("word_bias", vocabulary_size)
        self.edge_kernel = self._matrix("edge_kernel", embedding + hidden, len(EDGES))
        self.edge_bias = self._zeros("edge_bias", len(EDGES))

    def cell(self, edge: int, vector: tf.Tensor, state: State) -> State:
        """The state at the end of an edge, given the word, `[1, E]`, and the state, two `[1, H]`, at its beginning."""
        hidden = self.hyper.hidden
        gates = tf.nn.bias_add(tf.matmul(tf.concat([vector, state[0]], 1), self.kernels[edge]), self.biases[edge])
        sigmoids, update = tf.split(gates, [3 * hidden, hidden], 1)
        entry, exit_, keep = tf.split(tf.sigmoid(sigmoids), 3, 1)
        memory = entry * tf.tanh(update) + keep * state[1]
        return exit_ * tf.tanh(memory), memory

    def root_state(self) -> State:
        """The state of a root: it is the first to the right of a word that is not there."""
        nothing = tf.zeros([1, self.hyper.hidden])
        return self.cell(RIGHT, self.start[tf.newaxis], (nothing, nothing))

    def word_logits(self, state: State) -> tf.Tensor:
        """Scores of all words, float32 `[1, V]`."""
        return tf.nn.bias_add(tf.matmul(state[0], self.word_kernel), self.word_bias)

    def edge_logits(self, vector: tf.Tensor, state: State) -> tf.Tensor:
        """For each kind of edge, how sure it is that one begins here, float32 `[4]`."""
        row = tf.matmul(tf.concat([vector, state[0]], 1), self.edge_kernel)
        return tf.nn.bias_add(row, self.edge_bias)[0]

    def loss(self, batch: Any, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Minus the log-probability of words and edges.

        Args:
          batch: a `recgraph.data.TopDownBatch`.
          dropout_seed: not used.

        Returns:
          The sum over the nodes, float32 scalar, and the log-probabilities of the trees' words, float32 `[B]`.
        """
        losses = self._walk(batch)
        return tf.reduce_sum(losses), -tf.stop_gradient(losses[:, 0])

    def predict(self, batch: Any) -> tf.Tensor:
        """The log-probability of the words of each tree, given its shape, float32 `[B]`: what completion compares."""
        return -self._walk(batch)[:, 0]

    def choose(self, batch: Any, candidates: int) -> tf.Tensor:
        """Which of so many trees in a row has the likeliest words, int32 `[B / candidates]`: sentence completion."""
        return tf.argmax(tf.reshape(self.predict(batch), [-1, candidates]), 1, tf.int32)

    def _walk(self, batch: Any) -> tf.Tensor:
        """Losses of the words and of the edges of each tree, float32 `[B, 2]`.

        Dependents to the left and to the right are two SubGraphs that call each other and themselves.
        """
        batch = whole(batch)
        row = tf.TensorSpec([1, self.hyper.hidden])
        inputs = (tf.TensorSpec([], tf.int32), row, row)
        chains = {side: self.subgraph(f"{EDGES[side]}_losses", inputs, tf.TensorSpec([2])) for side in NEXT}

        def losses(node: tf.Tensor, state: State, edges: list[tuple[int, int, tf.Tensor]]) -> tf.Tensor:
            word = tf.gather(batch.words, node)[None]
            vector = self.embed(word)
            logits = self.edge_logits(vector, state)

            def follow(edge: int, side: int, to: tf.Tensor) -> tf.Tensor:
                there = tf.cast(to >= 0, tf.float32)
                decision = tf.nn.sigmoid_cross_entropy_with_logits(labels=there, logits=logits[edge])
                below = tf.cond(
                    to >= 0, lambda: chains[side](to, *self.cell(edge, vector, state)), lambda: tf.zeros([2])
                )
                return below + tf.stack([0.0, decision])

            own = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=word, logits=self.word_logits(state))
            return tf.add_n(
                [tf.pad(own, [[0, 1]]), *(follow(edge, side, tf.gather(ends, node)) for edge, side, ends in edges)]
            )

        down = [(LEFT, LEFT, batch.left), (RIGHT, RIGHT, batch.right)]
        for side, chain in chains.items():
            with chain:
                node, state = chain.input(tf.int32), (chain.input(shape=row.shape), chain.input(shape=row.shape))
                chain.output(losses(node, state, [*down, (NEXT[side], side, batch.next)]))
        with self.subgraph("losses", tf.TensorSpec([], tf.int32), tf.TensorSpec([2])) as tree:
            tree.output(losses(tree.input(tf.int32), self.root_state(), down))
        return tree.map(batch.roots)

    def generate(
        self, words: tf.Tensor, seeds: tf.Tensor | None = None, most_levels: int = 12
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Makes a tree below each root word.

        Args:
          words: int32 `[B]`, the words of the roots.
          seeds: int32 `[B, 2]`; words and edges are drawn. The likeliest are taken where left out.
          most_levels: a node so many edges below the root has no further ones.

        Returns:
          Words, int32 `[B, (n)]`, from left to right, and the place of each word's head, -1 at the root.
        """
        row, seed_spec = tf.TensorSpec([1, self.hyper.hidden]), tf.TensorSpec([2], tf.int32)
        inputs = (tf.TensorSpec([], tf.int32), seed_spec, row, row)
        phrase = tf.TensorSpec([2, None], tf.int32)  # words, and their heads in the phrase
        chains = {side: self.subgraph(f"{EDGES[side]}_words", inputs, phrase) for side in NEXT}
        draw = Draw(seeds is not None)

        def grow(word: tf.Tensor, level: tf.Tensor, seed: tf.Tensor, state: State, edges: Any) -> list[tf.Tensor]:
            vector = self.embed(word)
            logits = self.edge_logits(vector, state)

            def follow(edge: int, side: int) -> tf.Tensor:
                return tf.cond(
                    draw.edge(logits[edge], edge, seed) & (level < most_levels),
                    lambda: chains[side](level + 1, draw.below(edge, seed), *self.cell(edge, vector, state)),
                    lambda: tf.zeros([2, 0], tf.int32),
                )

            return [follow(edge, side) for edge, side in edges]

        down = [(LEFT, LEFT), (RIGHT, RIGHT)]
        for side, chain in chains.items():
            with chain:
                level, seed = chain.input(tf.int32), chain.input(tf.int32, [2])
                state = chain.input(shape=row.shape), chain.input(shape=row.shape)
                word = draw.word(self.word_logits(state), seed)
                left, right, further = grow(word, level, seed, state, [*down, (NEXT[side], side)])
                own = _attach(left, word, right)
                chain.output(_join([further, own] if side == LEFT else [own, further]))
        with self.subgraph("words", (tf.TensorSpec([], tf.int32), seed_spec), tf.TensorSpec([2], tf.string)) as tree:
            word, seed = tree.input(tf.int32)[None], tree.input(tf.int32, [2])
            left, right = grow(word, tf.constant(0), seed, self.root_state(), down)
            tree.output(to_text(_attach(left, word, right)))
        seeds = tf.zeros([tf.size(words), 2], tf.int32) if seeds is None else seeds
        texts = tree.map(words, seeds)
        return to_numbers(texts[:, 0]), to_numbers(texts[:, 1])


class Draw:
    """Decides by computed values: draws, or takes what is likeliest. A node has a seed, which every edge changes."""

    def __init__(self, at_random: bool):
        """Chooses how to decide.

        Args:
          at_random: whether to draw; otherwise the likeliest choice is taken.
        """
        self._at_random = at_random

    def word(self, logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """A word, int32 `[1]`, of scores float32 `[1, V]`."""
        if not self._at_random:
            return tf.argmax(logits, 1, tf.int32)
        return tf.random.stateless_categorical(logits, 1, self.below(len(EDGES), seed), tf.int32)[0]

    def edge(self, logit: tf.Tensor, edge: int, seed: tf.Tensor) -> tf.Tensor:
        """Whether there is an edge, bool scalar."""
        if not self._at_random:
            return logit > 0
        return tf.random.stateless_uniform([], self.below(len(EDGES) + 1 + edge, seed)) < tf.sigmoid(logit)

    def below(self, number: int, seed: tf.Tensor) -> tf.Tensor:
        """The seed for something at a node, int32 `[2]`."""
        return tf.random.fold_in(seed, number) if self._at_random else seed


def _join(phrases: list[tf.Tensor]) -> tf.Tensor:
    """Phrases int32 `[2, n]` side by side: heads are places, so they move; -1 stays."""
    moved, start = [], tf.constant(0)
    for phrase in phrases:
        words, heads = tf.unstack(phrase, num=2)
        moved.append(tf.stack([words, tf.where(heads < 0, heads, heads + start)]))
        start += tf.size(words)
    return tf.concat(moved, 1)


def _attach(left: tf.Tensor, word: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """The phrase of a word, int32 `[1]`, and of its dependents; their heads without head depend on it."""
    words, heads = tf.unstack(_join([left, tf.stack([word, [-1]]), right]), num=2)
    place = tf.shape(left)[1]
    return tf.stack([words, tf.where((heads < 0) & (tf.range(tf.size(words)) != place), place, heads)])
