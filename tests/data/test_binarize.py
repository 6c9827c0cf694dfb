"""The shapes of the binarisers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recgraph.data import SHAPES, balanced, binarize, brackets, linear, moderate, tree_of_spans

SENTENCE = ["a", "b", "c", "d", "e", "f", "g"]


def test_each_shape_of_one_sentence():
    assert str(balanced(SENTENCE[:5])).replace("? ", "") == "((((a) (b)) (c)) ((d) (e)))"
    assert str(linear(SENTENCE[:3])) == "(? (? a) (? (? b) (? c)))"
    assert str(linear(SENTENCE[:3], "left")) == "(? (? (? a) (? b)) (? c))"


@given(st.integers(1, 200), st.sampled_from(sorted(SHAPES)))
def test_any_length_keeps_its_words_and_has_two_n_minus_one_nodes(count, shape):
    tokens = [f"w{number}" for number in range(count)]
    tree = binarize(tokens, shape, rng=count)
    assert list(tree.tokens) == tokens
    assert len(tree) == 2 * count - 1
    assert set(tree.labels) == {-1}
    assert math.ceil(math.log2(count)) <= tree.depth <= count - 1


@given(st.integers(1, 300))
def test_depths_are_least_and_greatest(count):
    assert balanced(["w"] * count).depth == math.ceil(math.log2(count))
    assert linear(["w"] * count).depth == linear(["w"] * count, "left").depth == count - 1


def test_moderate_lies_between_and_is_seeded():
    tokens = ["w"] * 64
    depths = [moderate(tokens, seed).depth for seed in range(200)]
    assert 6 < np.mean(depths) < 25
    assert moderate(tokens, 5) == moderate(tokens, 5)
    rng = np.random.default_rng(0)
    assert moderate(tokens, rng) != moderate(tokens, rng)


def test_moderate_of_100000_words_works():
    assert moderate(["w"] * 100_000).depth < 200


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_an_empty_sentence_is_refused(shape):
    with pytest.raises(ValueError, match="a sentence needs at least one word"):
        binarize([], shape)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="shape must be one of balanced, moderate, linear; found 'flat'"):
        binarize(SENTENCE, "flat")
    with pytest.raises(ValueError, match='branching must be "right" or "left"; found \'up\''):
        linear(SENTENCE, "up")
    with pytest.raises(TypeError, match="a sentence must be a sequence of words; found the string 'a b'"):
        balanced("a b")
    with pytest.raises(ValueError, match="must not be empty or contain blanks or brackets; found '\\('"):
        balanced(["("])


@pytest.mark.parametrize("count", [1, 2, 3, 9, 40])
def test_a_tree_is_made_again_from_the_spans_of_its_gaps(count):
    """What a parser gives is a tree."""
    tree = moderate([f"w{number}" for number in range(count)], 5)
    bounds = brackets(tree) | {(0, count)}
    spans = [min((s for s in bounds if s[0] < gap < s[1]), key=lambda s: s[1] - s[0]) for gap in range(1, count)]
    assert tree_of_spans(tree.tokens, spans) == tree
    assert len(brackets(tree)) == max(count - 2, 0)


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 3)], "3 words need 2 spans, each around its gap"),
        ([(1, 3), (0, 3)], "3 words need 2 spans, each around its gap"),
        ([(0, 2), (1, 3)], r"the spans do not make a tree: \(0, 3\) is not among them"),
    ],
)
def test_spans_that_are_no_tree_are_refused(spans, message):
    """And the message says which is missing."""
    with pytest.raises(ValueError, match=message):
        tree_of_spans(list("abc"), spans)
