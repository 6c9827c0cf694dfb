"""The generated treebank: composition solves it, counting words does not."""

import itertools
import re

import numpy as np
import pytest

from recgraph.data import Vocabulary, evaluate, generate_treebank, load_sst, parse_tree, read_trees, write_treebank
from recgraph.data.generate import GRAMMAR, LEXICON

BY_HAND = [
    "(1 (2 not) (4 brilliant))",
    "(3 (2 not) (1 dull))",
    "(4 (2 truly) (3 good))",
    "(1 (2 not) (4 (2 very) (3 good)))",
    "(1 (2 rather) (0 awful))",
    "(1 (3 good) (1 (2 but) (1 dull)))",
    "(3 (1 dull) (3 (2 ,) (3 (2 but) (3 good))))",
    "(1 (1 (1 (2 although) (1 dull)) (2 ,)) (2 (2 quiet) (2 film)))",
    "(4 (1 (1 (2 although) (1 dull)) (2 ,)) (4 superb))",
    "(4 (4 superb) (1 (2 though) (1 dull)))",
    "(2 (3 good) (1 (2 and) (1 dull)))",
    "(4 (4 superb) (3 (2 and) (3 good)))",
    "(1 (2 (2 its) (2 film)) (1 (2 lacks) (4 (2 a) (4 (4 superb) (2 plot)))))",
    "(0 (4 (2 the) (4 (4 superb) (2 cast))) (0 (2 is) (0 awful)))",
    "(3 (2 (2 a) (2 film)) (3 (2 that) (3 (2 is) (3 (2 not) (1 dull)))))",
    "(1 (2 (2 a) (2 film)) (1 (2 which) (1 (2 lacks) (3 (2 a) (3 (3 good) (2 plot))))))",
    "(3 (1 (2 a) (1 (1 slow) (2 film))) (3 (2 without) (1 (2 a) (1 (1 dull) (2 plot)))))",
    "(1 (2 (2 a) (2 film)) (1 (2 with) (1 (2 a) (1 (1 dull) (2 plot)))))",
    "(1 (2 not) (3 (2 a) (3 (3 good) (2 film))))",
    "(3 (2 hardly) (1 (2 (2 a) (2 film)) (1 (2 that) (1 (2 is) (1 dull)))))",
]


def by_recursion(text: str) -> tuple[int, str]:
    """A second reading of the semantics, written as one recursive function over the printed tree."""
    if text.count("(") == 1:
        word = text[3:-1]
        return next((meaning.value, meaning.kind) for meaning, words in LEXICON.values() if word in words)
    depth, cut = 0, 0
    for place, letter in enumerate(text[3:], 3):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            cut = place + 1
            break
    (left, how), (right, how_right) = by_recursion(text[3:cut]), by_recursion(text[cut + 1 : -1])
    if how in ("negate", "intensify", "weaken"):
        sign = int(np.sign(right))
        return {"negate": -sign, "intensify": 2 * sign, "weaken": sign}[how], "plain"
    if how in ("contrast", "concede", "add"):
        return right, {"contrast": "contrasted", "concede": "conceded", "add": "added"}[how]
    if how == "comma":
        return right, how_right
    if how == "conceded" and how_right == "comma":
        return left, how
    if how_right == "added":
        return int(np.clip(left + right, -2, 2)), "plain"
    main, other = (left, right) if how_right == "conceded" else (right, left)
    return main or other, "plain"


@pytest.mark.parametrize("text", BY_HAND)
def test_labels_follow_from_composition_as_worked_out_by_hand(text):
    tree = parse_tree(text)
    assert str(tree.with_labels(evaluate(tree))) == text


def test_a_compositional_reading_is_exact_at_every_node():
    for tree in generate_treebank(500, seed=11):
        assert evaluate(tree) == tree.labels
        assert by_recursion(str(tree))[0] + 2 == tree.label


def count_words(trees, vocabulary) -> np.ndarray:
    counts = np.zeros((len(trees), len(vocabulary) + 1))
    counts[:, -1] = 1
    for row, tree in enumerate(trees):
        np.add.at(counts[row], vocabulary.ids(tree.tokens), 1)
    return counts


def logistic_regression(inputs: np.ndarray, targets: np.ndarray, steps: int = 800) -> np.ndarray:
    """Softmax regression by gradient descent with momentum; float [features, 5]."""
    weights = momentum = np.zeros((inputs.shape[1], 5))
    for _ in range(steps):
        scores = inputs @ weights
        scores = np.exp(scores - scores.max(1, keepdims=True))
        slope = inputs.T @ (scores / scores.sum(1, keepdims=True) - np.eye(5)[targets]) / len(targets)
        momentum = 0.9 * momentum + slope
        weights = weights - 0.05 * momentum
    return weights


def test_a_bag_of_words_does_not_solve_it():
    trees = generate_treebank(4000, seed=2)
    vocabulary = Vocabulary.build(trees)
    inputs, targets = count_words(trees, vocabulary), np.array([tree.label for tree in trees])
    weights = logistic_regression(inputs[:3200], targets[:3200])
    hits = (inputs @ weights).argmax(1) == targets
    assert 0.35 < hits[:3200].mean() < 0.65  # it does learn, but cannot even fit what it has seen
    assert 0.30 < hits[3200:].mean() < 0.60


def test_every_sentiment_is_common_and_trees_have_the_size_of_sentences():
    trees = generate_treebank(2000, seed=4)
    shares = np.bincount([tree.label for tree in trees], minlength=5) / len(trees)
    assert shares.min() > 0.04
    assert shares.max() < 0.40
    lengths = [len(tree.tokens) for tree in trees]
    assert 9 < np.mean(lengths) < 20
    assert max(lengths) <= 50


def test_sentences_are_phrases_too_with_the_articles_that_the_next_words_want():
    trees = generate_treebank(2000, seed=6)
    sentences = [" ".join(tree.tokens) for tree in trees]
    verbs = "|".join(word for symbol in ("copula", "verb", "lacks") for word in LEXICON[symbol][1])
    phrases = [text for text in sentences if not re.search(rf"(?<! that)(?<! which) ({verbs}) ", text)]
    assert 0.15 < len(phrases) / len(trees) < 0.35
    for start in ("an? ", "the ", "(not|never|hardly) an? ", f"({'|'.join(LEXICON['very'][1])}) "):
        assert any(re.match(start, text) for text in phrases), start
    for inside in (" (that|which) ", " with ", " without "):
        assert any(re.search(inside, text) for text in phrases), inside
    words = [pair for tree in trees for pair in itertools.pairwise(tree.tokens)]
    assert {article for article, _ in words} >= {"a", "an"}
    assert all(word[0] not in "aeiou" for article, word in words if article == "a")
    assert all(word[0] in "aeiou" for article, word in words if article == "an")


def test_the_same_seed_makes_the_same_trees_and_no_tree_comes_twice():
    trees = generate_treebank(300, seed=1)
    assert trees == generate_treebank(300, seed=1)
    assert trees != generate_treebank(300, seed=2)
    assert len({tree.tokens for tree in trees}) == 300
    assert generate_treebank(0) == []


def test_written_files_are_a_treebank_without_leaks(tmp_path):
    write_treebank(tmp_path / "sample", (50, 20, 30), seed=9)
    bank = load_sst(tmp_path / "sample")
    assert [len(split) for split in bank] == [50, 20, 30]
    assert bank.train == read_trees(tmp_path / "sample" / "train.txt")
    assert len({tree.tokens for split in bank for tree in split}) == 100
    assert sorted(path.name for path in (tmp_path / "sample").iterdir()) == ["dev.txt", "test.txt", "train.txt"]


def test_the_grammar_is_whole():
    for symbol, rules in GRAMMAR.items():
        assert sum(weight for weight, _ in rules) == pytest.approx(1), symbol
        for _, parts in rules:
            assert 1 <= len(parts) <= 2
            assert all(part in GRAMMAR or part in LEXICON for part in parts), symbol
    assert not set(GRAMMAR) & set(LEXICON)


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="count must be at least 0; found -1"):
        generate_treebank(-1)
    with pytest.raises(ValueError, match="the word 'xyz' is not in the lexicon"):
        evaluate(parse_tree("(2 xyz)"))
    with pytest.raises(ValueError, match="no rule joins a negate phrase with a negate phrase"):
        evaluate(parse_tree("(2 (2 not) (2 never))"))
