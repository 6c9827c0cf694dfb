"""Dynamic programming as the textbook's recursion: equal calls are computed once.

So a recursion over the cells of a table costs what the table has of cells. Gradients come with it: those of a soft
minimum over alignments are the expected alignment, and those of the inside algorithm the outside probabilities.

Run it: `python examples/dynamic_programming.py`
"""

from __future__ import annotations

from collections.abc import Callable

import recgraph as rg

import tensorflow as tf

FLOATS, WORDS, TABLE = tf.TensorSpec([None]), tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, None])
NEVER = -1e9  # the logarithm of a probability of (almost) zero


@rg.subgraph(outputs=tf.TensorSpec([], tf.int64))
def fibonacci(n: tf.Tensor) -> tf.Tensor:
    """The n-th Fibonacci number, by n calls and not by as many as the number is large."""
    if n < 2:
        return tf.cast(n, tf.int64)
    return fibonacci(n - 1) + fibonacci(n - 2)


@tf.function(input_signature=[WORDS, WORDS])
def edit_distance(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """How many insertions, deletions and replacements make `b` of `a` (Levenshtein, 1966)."""

    @rg.subgraph(outputs=tf.TensorSpec([], tf.int32))
    def distance(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        if (i == 0) | (j == 0):
            return i + j
        replaced = distance(i - 1, j - 1) + tf.cast(tf.gather(a, i - 1) != tf.gather(b, j - 1), tf.int32)
        return tf.minimum(replaced, tf.minimum(distance(i - 1, j), distance(i, j - 1)) + 1)

    return distance(tf.size(a), tf.size(b))


@tf.function(input_signature=[WORDS, WORDS])
def common_subsequence(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """The length of the longest sequence that both contain in this order."""

    @rg.subgraph(outputs=tf.TensorSpec([], tf.int32))
    def longest(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        if (i == 0) | (j == 0):
            return 0
        if tf.gather(a, i - 1) == tf.gather(b, j - 1):
            return longest(i - 1, j - 1) + 1
        return tf.maximum(longest(i - 1, j), longest(i, j - 1))

    return longest(tf.size(a), tf.size(b))


@tf.function(input_signature=[TABLE, tf.TensorSpec([]), tf.TensorSpec([])])
def affine_alignment(scores: tf.Tensor, opening: tf.Tensor, extending: tf.Tensor) -> tf.Tensor:
    """The best global alignment where a gap costs more at its beginning (Needleman and Wunsch, 1970; Gotoh, 1982).

    Args:
        scores: `[rows, columns]`, of aligning each element with each.
    """
    rows, columns = tf.shape(scores)[0], tf.shape(scores)[1]
    flat = tf.reshape(scores, [-1])

    @rg.subgraph(outputs=tf.TensorSpec([3]))
    def best(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:  # that ends in a pair, in a gap of the one, of the other
        if (i == 0) & (j == 0):
            return tf.constant([0.0, NEVER, NEVER])
        if i == 0:
            return tf.stack([NEVER, NEVER, -opening - extending * tf.cast(j - 1, tf.float32)])
        if j == 0:
            return tf.stack([NEVER, -opening - extending * tf.cast(i - 1, tf.float32), NEVER])
        pair, down, right = best(i - 1, j - 1), best(i - 1, j), best(i, j - 1)
        return tf.stack([
            tf.reduce_max(pair) + tf.gather(flat, (i - 1) * columns + j - 1),
            tf.maximum(tf.maximum(down[0], down[2]) - opening, down[1] - extending),
            tf.maximum(tf.maximum(right[0], right[1]) - opening, right[2] - extending),
        ])  # fmt: skip

    return tf.reduce_max(best(rows, columns))


@tf.function(input_signature=[TABLE, tf.TensorSpec([])])
def soft_dtw(costs: tf.Tensor, smoothing: tf.Tensor) -> tf.Tensor:
    """The soft minimum over all ways to warp one series onto another (Cuturi and Blondel, ICML 2017)."""
    rows, columns = tf.shape(costs)[0], tf.shape(costs)[1]
    flat = tf.reshape(costs, [-1])

    @rg.subgraph(outputs=tf.TensorSpec([]))
    def cheapest(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        if (i == 0) & (j == 0):
            return 0.0
        if (i == 0) | (j == 0):
            return -NEVER
        before = tf.stack([cheapest(i - 1, j - 1), cheapest(i - 1, j), cheapest(i, j - 1)])
        return tf.gather(flat, (i - 1) * columns + j - 1) - smoothing * tf.reduce_logsumexp(-before / smoothing)

    return cheapest(rows, columns)


@tf.function(input_signature=[TABLE, WORDS])
def ctc_loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Minus the logarithm of the probability of all ways to spell `labels` in the frames (Graves et al., ICML 2006).

    Args:
        logits: `[frames, symbols]`; symbol 0 is the blank.
        labels: one at least, none of them 0.
    """
    frames, symbols, length = tf.shape(logits)[0], tf.shape(logits)[1], 2 * tf.size(labels) + 1
    flat = tf.reshape(tf.nn.log_softmax(logits), [-1])
    spelled = tf.reshape(tf.stack([tf.zeros_like(labels), labels], 1), [-1])
    spelled = tf.concat([spelled, [0]], 0)
    may_skip = tf.concat([[False, False], (spelled[2:] != spelled[:-2]) & (spelled[2:] != 0)], 0)

    @rg.subgraph(outputs=tf.TensorSpec([]))
    def forward(t: tf.Tensor, s: tf.Tensor) -> tf.Tensor:
        if (s < 0) | ((t == 0) & (s > 1)):
            return NEVER
        now = tf.gather(flat, t * symbols + tf.gather(spelled, s))
        if t == 0:
            return now
        if tf.gather(may_skip, s):
            before = tf.stack([forward(t - 1, s), forward(t - 1, s - 1), forward(t - 1, s - 2)])
        else:
            before = tf.stack([forward(t - 1, s), forward(t - 1, s - 1), NEVER])
        return now + tf.reduce_logsumexp(before)

    return -tf.reduce_logsumexp(tf.stack([forward(frames - 1, length - 1), forward(frames - 1, length - 2)]))


@tf.function(input_signature=[TABLE, TABLE, WORDS])
def hidden_markov(transitions: tf.Tensor, emissions: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The logarithms of the probability of what is seen, and of the likeliest path to it (Viterbi, 1967).

    Args:
        transitions: `[states, states]`, logarithms; from the first state.
        emissions: `[symbols, states]`, logarithms.
    """

    @rg.subgraph(outputs=(tf.TensorSpec([None]), tf.TensorSpec([None])))
    def after(t: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        now = tf.gather(emissions, tf.gather(seen, t))
        if t == 0:
            return transitions[0] + now, transitions[0] + now
        all_paths, best_path = after(t - 1)
        return (
            tf.reduce_logsumexp(all_paths[:, None] + transitions, 0) + now,
            tf.reduce_max(best_path[:, None] + transitions, 0) + now,
        )

    all_paths, best_path = after(tf.size(seen) - 1)
    return tf.reduce_logsumexp(all_paths), tf.reduce_max(best_path)


def inside(symbols: int) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """The inside algorithm for grammars of so many symbols (Baker, 1979), a function of rules and words.

    Rules are `[symbols, symbols, symbols]`, logarithms of what each symbol (first) becomes; words `[words, symbols]`.
    The gradient by `words` gives how probable each symbol is above each word.
    """
    chart = tf.TensorSpec([symbols])

    @tf.function(input_signature=[tf.TensorSpec([symbols] * 3), tf.TensorSpec([None, symbols])])
    def probability(rules: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        @rg.subgraph(outputs=chart)
        def span(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
            if j == i + 1:
                return tf.gather(words, i)
            return splits(i, j, i + 1)

        @rg.subgraph(outputs=chart)
        def splits(i: tf.Tensor, j: tf.Tensor, k: tf.Tensor) -> tf.Tensor:  # all from k on
            if k == j:
                return tf.fill([symbols], NEVER)
            pairs = span(i, k)[:, None] + span(k, j)[None, :]
            here = tf.reduce_logsumexp(rules + pairs, [1, 2])
            return tf.reduce_logsumexp(tf.stack([here, splits(i, j, k + 1)]), 0)

        return span(0, tf.shape(words)[0])[0]

    return probability


@tf.function(input_signature=[WORDS])
def matrix_chain(sizes: tf.Tensor) -> tf.Tensor:
    """The fewest multiplications for a product of matrices, `sizes[i]` by `sizes[i + 1]` each."""

    @rg.subgraph(outputs=tf.TensorSpec([], tf.int32))
    def cheapest(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        if j == i + 1:
            return 0
        return splits(i, j, i + 1)

    @rg.subgraph(outputs=tf.TensorSpec([], tf.int32))
    def splits(i: tf.Tensor, j: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
        if k == j:
            return tf.int32.max
        product = tf.gather(sizes, i) * tf.gather(sizes, k) * tf.gather(sizes, j)
        return tf.minimum(cheapest(i, k) + cheapest(k, j) + product, splits(i, j, k + 1))

    return cheapest(0, tf.size(sizes) - 1)


@tf.function(input_signature=[WORDS, WORDS, tf.TensorSpec([], tf.int32)])
def knapsack(weights: tf.Tensor, values: tf.Tensor, capacity: tf.Tensor) -> tf.Tensor:
    """The greatest value of things that do not weigh more than `capacity`."""

    @rg.subgraph(outputs=tf.TensorSpec([], tf.int32))
    def best(i: tf.Tensor, left: tf.Tensor) -> tf.Tensor:  # of the first i things
        if i == 0:
            return 0
        weight = tf.gather(weights, i - 1)
        if weight > left:
            return best(i - 1, left)
        return tf.maximum(best(i - 1, left), best(i - 1, left - weight) + tf.gather(values, i - 1))

    return best(tf.size(weights), capacity)


@tf.function(input_signature=[FLOATS])
def search_tree(frequencies: tf.Tensor) -> tf.Tensor:
    """The comparisons that a search takes in the best binary search tree, times the frequencies (Knuth, 1971)."""
    before = tf.concat([[0.0], tf.cumsum(frequencies)], 0)

    @rg.subgraph(outputs=tf.TensorSpec([]))
    def cheapest(i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
        if i == j:
            return 0.0
        return roots(i, j, i) + tf.gather(before, j) - tf.gather(before, i)

    @rg.subgraph(outputs=tf.TensorSpec([]))
    def roots(i: tf.Tensor, j: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
        if k == j:
            return -NEVER
        return tf.minimum(cheapest(i, k) + cheapest(k + 1, j), roots(i, j, k + 1))

    return cheapest(0, tf.size(frequencies))


def main() -> None:
    """Prints an answer of each."""
    letters = lambda text: tf.constant([ord(letter) for letter in text])  # noqa: E731
    print("the 90th Fibonacci number:", int(fibonacci(90)))
    print("from kitten to sitting:", int(edit_distance(letters("kitten"), letters("sitting"))), "edits")
    print("common to both:", int(common_subsequence(letters("kitten"), letters("sitting"))), "letters")
    print("multiplications:", int(matrix_chain(tf.constant([30, 35, 15, 5, 10, 20, 25]))))
    print("in the knapsack:", int(knapsack(tf.constant([1, 3, 4, 5]), tf.constant([1, 4, 5, 7]), 7)))
    print(f"comparisons: {search_tree(tf.constant([0.34, 0.08, 0.5, 0.08])):.2f}")
    with tf.GradientTape() as tape:
        costs = tf.abs(tf.constant([0.0, 1.0, 2.0])[:, None] - tf.constant([0.0, 0.0, 1.0, 2.0]))
        tape.watch(costs)
        warped = soft_dtw(costs, 0.1)
    print(f"soft warping costs {warped:.3f}, and the expected alignment is")
    print(tf.strings.as_string(tape.gradient(warped, costs), precision=2).numpy().astype(str))


if __name__ == "__main__":
    main()
