"""A binary bracketing parser, top-down as that of Stern, Andreas and Klein, "A Minimal Span-Based Neural Constituency
Parser" (ACL 2017), without labels and trained on the likelihood of the true cuts: any sentence gets a tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph.data import whole
from recgraph.models import losses
from recgraph.models.common import WordNetwork
from recgraph.models.hyper import Hyper

Fences = tuple[tf.Tensor, tf.Tensor]
# How to cut a span, given its node in the given tree, sentence and ends: the place of the cut, and the parts' nodes.
Chooser = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class ParserHyper(Hyper):
    """As `Hyper`; `hidden` is the size of each direction's LSTM, `dropout` the share of words read as unknown.

    Attributes:
      span: size of the hidden layer that scores a span.
    """

    span: int = 150


class SpanParser(WordNetwork):
    """An LSTM from each side reads the sentence; a span is what changes in both between its ends, and has a score.

    From the whole sentence down, a span is cut where the scores of the two parts are largest together; then both parts
    are cut, at the same time. Words i to j-1 are the span (i, j). A sentence of n words has n - 1 gaps between words,
    and each is the cut of one span: a tree is a list of spans, one for each gap.

    The hidden layer is a tanh. Adagrad moves every bias by the whole learning rate in its first step, and rectifiers
    under small word vectors are dead after that.
    """

    # A span's two parts add up to almost the same wherever it is cut, while words are short: nothing could be learned.
    defaults: ClassVar[ParserHyper] = ParserHyper(embedding=100, hidden=100, dropout=0.05, embedding_scale=1.0)

    def __init__(
        self,
        vocabulary_size: int,
        hyper: ParserHyper | None = None,
        vectors: np.ndarray | None = None,
        seed: int = 0,
    ):
        """See `TreeModel`. `Hyper.classes` has no meaning here."""
        super().__init__(vocabulary_size, hyper or self.defaults, vectors, seed)
        embedding, hidden, span = self.hyper.embedding, self.hyper.hidden, self.hyper.span
        for side in ("forward", "backward"):
            setattr(self, f"{side}_kernel", self._matrix(f"{side}_kernel", embedding, 4 * hidden))
            setattr(self, f"{side}_recurrent", self._matrix(f"{side}_recurrent", hidden, 4 * hidden))
            setattr(self, f"{side}_bias", self._zeros(f"{side}_bias", 4 * hidden))
        self.span_kernel = self._matrix("span_kernel", 2 * hidden, span)
        self.span_bias = self._zeros("span_bias", span)
        self.score_kernel = self._matrix("score_kernel", span, 1)

    def loss(self, batch: Any, dropout_seed: tf.Tensor | losses.Draws | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Minus the log-probability of the cuts of given trees, each against the other cuts of its span.

        Args:
          batch: a `recgraph.data.TreeBatch`; its labels are not used.
          dropout_seed: int32 `[2]`, or `Draws`; draws the words that are read as unknown; none where left out.

        Returns:
          The sum over the nodes, float32 scalar; and for each tree how many cuts are where they would be made, and how
          many there are, float32 `[B, 2]`.
        """
        batch = whole(batch)
        words = sentences(batch)
        fences = self.fences(words if dropout_seed is None else self._drop(words, dropout_seed), words)
        number = tf.TensorSpec([], tf.int32)
        with self.subgraph("loss", (number,) * 4, tf.TensorSpec([3])) as tree:
            sentence, node, start, end = (tree.input(tf.int32) for _ in range(4))

            def inner() -> tf.Tensor:
                scores = self.cut_scores(fences, sentence, start, end)[tf.newaxis]
                cut, left, right = true_cut(batch, node, end)
                target = (cut - start - 1)[tf.newaxis]
                own = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=scores)
                hit = tf.cast(tf.argmax(scores, 1, tf.int32) == target, tf.float32)
                below = tree(sentence, left, start, cut) + tree(sentence, right, cut, end)
                return below + tf.stack([own[0], hit[0], 1.0])

            tree.output(tf.cond(end - start > 1, inner, lambda: tf.zeros([3])))
        results = tree.map(*_whole(batch, words))
        return tf.reduce_sum(results[:, 0]), tf.stop_gradient(results[:, 1:])

    def predict(self, batch: Any) -> tf.Tensor:
        """The spans of the trees that the parser makes, int32 `[B, T, 2]`: those of a sentence's gaps, then zeros.

        All spans of all sentences that lie at the same depth are cut together.
        """
        batch = whole(batch)
        words, splits = flat_sentences(batch)
        lengths = splits[1:] - splits[:-1]
        sentence = tf.repeat(tf.range(tf.size(lengths)), lengths + 1)  # of each fence
        first = splits[:-1] + tf.range(tf.size(lengths))
        last = first + lengths
        scores = self._scores(self._read(words, sentence, first, last))

        begin = tf.gather(first, sentence)
        spans = _cut_down(scores, first, last, begin) - begin[:, tf.newaxis]
        padded = tf.RaggedTensor.from_row_splits(spans, tf.concat([first, [tf.size(sentence)]], 0)).to_tensor()
        return tf.pad(padded[:, 1:], [[0, 0], [0, 1], [0, 0]])

    def _read(self, words: tf.Tensor, sentence: tf.Tensor, first: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
        """The rows of `fences` without any between sentences, float32 `[W + B, S]`; no word is read twice.

        Args:
          words: int32 `[W]`, of all sentences.
          sentence: int32 `[W + B]`, of each fence.
          first: int32 `[B]`, the fence before each sentence.
          last: int32 `[B]`, the fence behind it.
        """
        fence = tf.range(tf.size(sentence))
        behind = tf.where(tf.equal(fence, tf.gather(last, sentence)), -1, fence - sentence)  # a word
        before = tf.where(tf.equal(fence, tf.gather(first, sentence)), -1, fence - sentence - 1)
        # The word that is read before each: at the fence before it, or at the one behind it.
        ahead = self._reading("forward", words, tf.boolean_mask(before, behind >= 0))
        back = self._reading("backward", words, tf.boolean_mask(behind, before >= 0))
        number, row = tf.TensorSpec([], tf.int32), tf.TensorSpec([1, self.hyper.span])
        with self.subgraph("fence", (number, number), row) as fences:
            both = [reading(fences.input(tf.int32))[0] for reading in (ahead, back)]
            fences.output(tf.matmul(tf.concat(both, 1), self.span_kernel))
        return fences.map(before, behind)[:, 0]

    def _reading(self, side: str, words: tf.Tensor, before: tf.Tensor) -> Any:
        """A SubGraph: the state of an LSTM when it has read a word and all before it; nothing, where the word is -1.

        Args:
          side: of the LSTM.
          words: int32 `[W]`.
          before: int32 `[W]`, the word that it reads before each, or -1.
        """
        number, row = tf.TensorSpec([], tf.int32), tf.TensorSpec([1, self.hyper.hidden])
        with self.subgraph(f"{side}_word", number, tf.TensorSpec([1, 4 * self.hyper.hidden])) as entry:
            vector = self.embed(entry.input(tf.int32)[tf.newaxis])
            entry.output(tf.matmul(vector, getattr(self, f"{side}_kernel")) + getattr(self, f"{side}_bias"))
        with self.subgraph(side, number, (row, row)) as reading:
            word = reading.input(tf.int32)

            def read() -> tuple[tf.Tensor, tf.Tensor]:
                return self._cell(side, reading(tf.gather(before, word)), entry(tf.gather(words, word)))

            reading.output(tf.cond(word < 0, lambda: (tf.zeros([1, self.hyper.hidden]),) * 2, read))
        return reading

    def _scores(self, fences: tf.Tensor) -> Any:
        """A SubGraph: what both parts of a span score together, of the fences at its start, at a cut and at its end."""
        number, score = tf.TensorSpec([], tf.int32), tf.TensorSpec([])
        with self.subgraph("cut", (number,) * 3, score) as cut_score:
            start, cut, end = (tf.gather(fences, cut_score.input(tf.int32))[tf.newaxis] for _ in range(3))
            hidden = tf.tanh(cut - start + self.span_bias) + tf.tanh(end - cut + self.span_bias)
            cut_score.output(tf.matmul(hidden, self.score_kernel)[0, 0])
        return cut_score

    def fences(self, read: tf.Tensor, words: tf.Tensor) -> Fences:
        """A row for each place between words, before the first and after the last, float32 `[B * (T + 1), S]`; T + 1.

        The difference of two rows is the hidden layer of the span between them, but for its bias.

        Args:
          read: int32 `[B, T]`, the words as the LSTMs are to see them.
          words: int32 `[B, T]`, -1 after the last word of a sentence.
        """
        inside = words >= 0
        lengths = tf.math.count_nonzero(inside, 1, dtype=tf.int32)
        vectors = self.embed(tf.maximum(tf.reshape(read, [-1]), 0))
        vectors = tf.reshape(vectors, [tf.shape(words)[0], -1, self.hyper.embedding])
        ahead = self._sweep("forward", vectors)
        back = tf.reverse_sequence(
            self._sweep("backward", tf.reverse_sequence(vectors, lengths, seq_axis=1)), lengths, seq_axis=1
        )
        back *= tf.cast(inside, tf.float32)[:, :, tf.newaxis]
        both = tf.concat([tf.pad(ahead, [[0, 0], [1, 0], [0, 0]]), tf.pad(back, [[0, 0], [0, 1], [0, 0]])], 2)
        return tf.matmul(tf.reshape(both, [-1, 2 * self.hyper.hidden]), self.span_kernel), tf.shape(both)[1]

    def _sweep(self, side: str, vectors: tf.Tensor) -> tf.Tensor:
        """Hidden rows `[B, T, H]` of an LSTM over vectors `[B, T, E]`."""
        hidden = self.hyper.hidden
        entries = tf.einsum("bte,eg->tbg", vectors, getattr(self, f"{side}_kernel")) + getattr(self, f"{side}_bias")

        def step(state: tuple[tf.Tensor, tf.Tensor], entry: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return self._cell(side, state, entry)

        nothing = tf.zeros([tf.shape(vectors)[0], hidden])
        rows, _ = tf.scan(step, entries, (nothing, nothing))
        return tf.transpose(rows, [1, 0, 2])

    def _cell(self, side: str, state: tuple[tf.Tensor, tf.Tensor], entry: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The state of an LSTM after one more word, which enters its gates with `entry`, float32 `[n, 4 H]`."""
        hidden = self.hyper.hidden
        gates = entry + tf.matmul(state[0], getattr(self, f"{side}_recurrent"))
        sigmoids, update = tf.split(gates, [3 * hidden, hidden], 1)
        enter, exit_, keep = tf.split(tf.sigmoid(sigmoids), 3, 1)
        memory = enter * tf.tanh(update) + keep * state[1]
        return exit_ * tf.tanh(memory), memory

    def cut_scores(self, fences: Fences, sentence: tf.Tensor, start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
        """For each place inside a span, the scores of the two parts together, float32 `[end - start - 1]`."""
        table, width = fences
        rows = tf.gather(table, sentence * width + tf.range(start, end + 1))  # of the flat table: a sparse gradient
        left = tf.tanh(rows[1:-1] - rows[:1] + self.span_bias)
        right = tf.tanh(rows[-1:] - rows[1:-1] + self.span_bias)
        return tf.matmul(left + right, self.score_kernel)[:, 0]

    def _drop(self, words: tf.Tensor, seed: tf.Tensor | losses.Draws) -> tf.Tensor:
        """Some of the words as the unknown one, of which training would see none otherwise."""
        return tf.where(losses.word_draws(words, seed) < self.hyper.dropout, 0, words)


def sentences(batch: Any) -> tf.Tensor:
    """The words of each tree of a `TreeBatch` from left to right, int32 `[B, T]`, and -1 after the last of them.

    T is one more than the longest has words, so that there is a column where there is no sentence.
    """
    ragged = tf.RaggedTensor.from_row_splits(*flat_sentences(batch))
    return tf.pad(ragged.to_tensor(-1), [[0, 0], [0, 1]], constant_values=-1)


def flat_sentences(batch: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The words of all trees of a `TreeBatch`, int32 `[W]`, and where each tree's begin and end, int32 `[B + 1]`."""
    leaf = batch.words >= 0
    before = tf.concat([[0], tf.cumsum(tf.cast(leaf, tf.int32))], 0)
    return tf.boolean_mask(batch.words, leaf), tf.gather(before, batch.offsets)


def _longer(start: tf.Tensor, end: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Those of spans that have more than one word."""
    is_longer = end - start > 1
    return tf.boolean_mask(start, is_longer), tf.boolean_mask(end, is_longer)


def _cut_down(scores: Any, start: tf.Tensor, end: tf.Tensor, begin: tf.Tensor) -> tf.Tensor:
    """The span that is cut at each fence, int32 `[F, 2]`, from whole sentences down.

    Args:
      scores: of a cut, from `SpanParser`.
      start, end: int32 `[B]`, the outer fences of sentences.
      begin: int32 `[F]`, twice the span of a fence where none is cut.
    """

    def level(start: tf.Tensor, end: tf.Tensor, spans: tf.Tensor) -> tuple[tf.Tensor, ...]:
        cut = _best_cuts(scores, start, end)
        spans = tf.tensor_scatter_nd_update(spans, cut[:, tf.newaxis], tf.stack([start, end], 1))
        return *_longer(tf.concat([start, cut], 0), tf.concat([cut, end], 0)), spans

    some, pairs = tf.TensorShape([None]), tf.TensorShape([None, 2])
    *_, spans = tf.while_loop(
        lambda start, *_: tf.size(start) > 0,
        level,
        (*_longer(start, end), tf.repeat(begin[:, tf.newaxis], 2, 1)),
        shape_invariants=(some, some, pairs),
    )
    return spans


def _best_cuts(scores: Any, start: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
    """For each span the first place inside of it where the scores of both parts are largest together."""
    count = end - start - 1
    span = tf.repeat(tf.range(tf.size(start)), count)
    start, end = tf.gather(start, span), tf.gather(end, span)
    cut = start + 1 + tf.range(tf.size(span)) - tf.gather(tf.cumsum(count, exclusive=True), span)
    found = scores.map(start, cut, end)
    is_best = tf.equal(found, tf.gather(tf.math.segment_max(found, span), span))
    return tf.math.segment_min(tf.where(is_best, cut, end - 1), span)


def true_cut(batch: Any, node: tf.Tensor, end: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Where a node's span is cut, and its children: in post-order, the right one's nodes come after the left one."""
    left = batch.left[node]
    return end - (node - left) // 2, left, node - 1


def _whole(batch: Any, words: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Sentence, root, start and end of all trees."""
    lengths = tf.math.count_nonzero(words >= 0, 1, dtype=tf.int32)
    return tf.range(tf.size(lengths)), batch.roots, tf.zeros_like(lengths), lengths


def true_spans(batch: Any) -> tf.Tensor:
    """As `SpanParser.predict`, of the batch's own trees."""

    def cut(node: tf.Tensor, sentence: tf.Tensor, start: tf.Tensor, end: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return true_cut(batch, node, end)

    return _spans(rg.SubGraph, batch, sentences(batch), cut)


def _spans(subgraph: Callable[..., Any], batch: Any, words: tf.Tensor, choose: Chooser) -> tf.Tensor:
    number, spans = tf.TensorSpec([], tf.int32), tf.TensorSpec([None, 2], tf.int32)
    with subgraph("spans", (number,) * 4, spans) as tree:
        sentence, node, start, end = (tree.input(tf.int32) for _ in range(4))

        def inner() -> tf.Tensor:
            cut, left, right = choose(node, sentence, start, end)
            own = tf.stack([start, end])[tf.newaxis]
            return tf.concat([tree(sentence, left, start, cut), own, tree(sentence, right, cut, end)], 0)

        tree.output(tf.cond(end - start > 1, inner, lambda: tf.zeros([0, 2], tf.int32)))
    width = tf.shape(words)[1]
    with subgraph("filled_up", (number,) * 4, spans) as filled:
        found = tree(*(filled.input(tf.int32) for _ in range(4)))
        filled.output(tf.pad(found, [[0, width - tf.shape(found)[0]], [0, 0]]))
    return filled.map(*_whole(batch, words))
