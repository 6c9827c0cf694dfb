"""The tokenization in the graph is NLTK's, sentence by sentence, spelt as the treebank spells."""

from __future__ import annotations

import itertools
import random

import pytest
import tensorflow as tf
from nltk.tokenize.treebank import TreebankWordTokenizer

from recgraph.data import escape, tokenize, tokenize_all
from recgraph.data.tokenizing import spaced

REFERENCE = TreebankWordTokenizer()
# Pieces of which sentences are made: all that rules look at, and letters, digits and blanks beyond ASCII.
PIECES = [
    *("film", "A", "x", "3", "1,000", "3.5", "can", "cannot", "Cannot", "CANNOT", "gonna", "gotta", "gimme", "lemme"),
    *("wanna", "d'ye", "more'n", "'tis", "'Twas", "'t", "is", "it's", "dogs'", "I'm", "he'd", "we'll", "WE'LL"),
    *("they're", "you've", "don't", "DON'T", "n't", "'s", "'S", "rock'n'roll", "U.S.", "etc.", "Mr.", "...", "..", "."),
    *(",", ":", ";", "!", "?", "@", "#", "$", "%", "&", "--", "-", "---", '"', "'", "''", "``", "`", "(", ")"),
    *("[", "]", "{", "}", "<", ">", "/", "*", "\\", "\\/", "//", "**", "_", "<unk>", "-LRB-", "http://a.b/c*d", "a/b"),
    *("é", "naïve", "à", "ß", "ſ", "K", "Straße", "日本", "語。", "٣", "½", "Ⅷ", "—", "…", "“", "”", "’", "🙂"),
    "e\u0301",
    *("\t", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff", "\x00"),
]  # fmt: skip


def reference(sentence: str) -> list[str]:
    return [escape(token) for token in REFERENCE.tokenize(" ".join(sentence.split()))]


def check(sentences: list[str]) -> None:
    for sentence, tokens in zip(sentences, tokenize_all(sentences), strict=True):
        assert tokens == reference(sentence), repr(sentence)


def test_pairs_and_triples_of_pieces() -> None:
    """Glued together and apart: what a rule consumes may be another's."""
    pairs = [gap.join(pair) for pair in itertools.product(PIECES, repeat=2) for gap in ("", " ")]
    check(pairs)
    check([f"{pair} x" for pair in pairs[::3]])


def test_random_sentences() -> None:
    rng = random.Random(0)
    sentences = []
    for _ in range(8000):
        parts = [rng.choice(PIECES) + rng.choice(("", "", " ", "  ")) for _ in range(rng.randrange(12))]
        sentences.append("".join(parts))
    check(sentences)


@pytest.mark.parametrize("repeated", ["cannot ", "cannot", "gonna,", "'tis ", "/", "*", "wanna ", "''", "'", '"'])
def test_matches_that_touch(repeated: str) -> None:
    check([repeated * count for count in range(6)])


def test_an_empty_sentence_and_no_sentence() -> None:
    assert tokenize("") == tokenize(" \t\u3000") == []
    assert tokenize_all([]) == []


def test_in_a_graph_of_any_shape() -> None:
    sentences = tf.constant([["A warm, funny, engaging film."], ["Terrible."]])
    in_graph = tf.function(spaced, input_signature=[tf.TensorSpec(None, tf.string)])
    assert in_graph(sentences).numpy().tolist() == [[b"A warm , funny , engaging film ."], [b"Terrible ."]]


def test_bytes_that_are_no_text() -> None:
    assert spaced(tf.constant([b"a\xff b"])).numpy()[0].decode() == "a\ufffd b"


def test_the_pieces_reach_every_rule() -> None:
    """A rule that no piece matches would not be tested."""
    text = " ".join(PIECES)
    for rules in (REFERENCE.STARTING_QUOTES[1:], REFERENCE.PUNCTUATION, REFERENCE.ENDING_QUOTES):
        assert all(pattern.search(text) or pattern.pattern.endswith("$") for pattern, _ in rules)
    assert all(pattern.search(text) for pattern in (*REFERENCE.CONTRACTIONS2, *REFERENCE.CONTRACTIONS3))
