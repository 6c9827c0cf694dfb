"""Sentences as tokens spelt as in the Stanford treebank, by TensorFlow's string operations.

One tokenization for everything: training data, `recgraph predict` and the graph of an exported model. The rules are
those of the Penn Treebank's script, in the order of NLTK's `TreebankWordTokenizer`. TensorFlow's regular expressions
(RE2) have no lookaround, so a rule that needs what stands beside a match consumes it, and is applied twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

# What Python takes for white space, for a digit, and for a part of a word.
_BLANK, _DIGIT, _WORD = r"\s\x0b\x1c-\x1f\x{85}\p{Z}", r"\p{Nd}", r"\p{L}\p{N}_"
_BEFORE, _AFTER = rf"(^|[^{_WORD}])", rf"($|[^{_WORD}])"

# Pattern, replacement; white space has become single blanks before.
_QUOTES_AND_PUNCTUATION = (
    (r'^"', "``"),
    (r"(``)", r" \1 "),
    (r"([ (\[{<])(\"|'{2})", r"\1 `` "),
    (rf"([:,])([^{_DIGIT}])", r" \1 \2"),
    (r"([:,])$", r" \1 "),
    (r"\.\.\.", " ... "),
    (r"[;@#$%&]", r" \0 "),
    (r"([^.])(\.)([\])}>\"']*) *$", r"\1 \2\3 "),
    (r"[?!]", r" \0 "),
    (r"([^'])' ", r"\1 ' "),
    (r"[\]\[(){}<>]", r" \0 "),
    (r"--", " -- "),
)
_ENDINGS = (
    (r"''", " '' "),
    (r'"', " '' "),
    # The last character of the first class is none: of s and S alone RE2 makes all that is an s in any case.
    (r"([^' ])('[sS\x{10FFFF}]|'[mM]|'[dD]|') ", r"\1 \2 "),
    (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
)
_CONTRACTIONS = tuple(
    (f"(?i){_BEFORE}({first})({second}){after}", r"\1 \2 \3 \4")
    for first, second, after in (
        *((*pair, _AFTER) for pair in (("can", "not"), ("d", "'ye"), ("gim", "me"), ("gon", "na"), ("got", "ta"))),
        *((*pair, _AFTER) for pair in (("lem", "me"), ("more", "'n"))),
        ("wan", "na", "( )"),
    )
)
_OLD_CONTRACTIONS = tuple((f"(?i) ('t)({verb}){_AFTER}", r" \1 \2 \3") for verb in ("is", "was"))
# The treebank's names of brackets.
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


def spaced(sentences: tf.Tensor) -> tf.Tensor:
    """Sentences with one blank between their tokens.

    Args:
        sentences: string tensor of any shape, UTF-8; what is not is replaced by U+FFFD.

    Returns:
        A string tensor of the same shape: tokens by Treebank rules (`did n't`, quotes as two back-quotes and two
        apostrophes), brackets as -LRB- and so on, `/` and `*` with a backslash; "" for a sentence without a token.
    """
    import tensorflow as tf

    text = tf.strings.unicode_transcode(sentences, "UTF-8", "UTF-8", errors="replace", replace_control_characters=False)
    text = tf.strings.strip(tf.strings.regex_replace(text, f"[{_BLANK}]+", " "))
    text = _replace(text, _QUOTES_AND_PUNCTUATION)
    text = _replace(tf.strings.join([" ", text, " "]), _ENDINGS)
    for rule in _CONTRACTIONS:
        text = _replace(text, (rule, rule))
    # Two blanks: one may be consumed behind a match, and the next one begins with the other.
    text = _replace(text, ((" ", "  "), *_OLD_CONTRACTIONS))
    text = _replace(text, [(rf"\{bracket}", name) for bracket, name in _BRACKETS.items()])
    escaped = (r"(^|[^\\])([/*])", r"\1\\\2")
    text = _replace(text, (escaped, escaped))
    return tf.strings.strip(tf.strings.regex_replace(text, " +", " "))


def _replace(text: tf.Tensor, rules: Iterable[tuple[str, str]]) -> tf.Tensor:
    import tensorflow as tf

    for pattern, replacement in rules:
        text = tf.strings.regex_replace(text, pattern, replacement)
    return text


def tokenize_all(sentences: list[str]) -> list[list[str]]:
    """The tokens of sentences, as `spaced` gives them; a sentence may have none."""
    import tensorflow as tf

    if not sentences:
        return []
    with tf.init_scope():
        return [text.decode().split(" ") if text else [] for text in spaced(tf.constant(sentences)).numpy()]


def tokenize(sentence: str) -> list[str]:
    """The tokens of one sentence: Treebank rules, spelt as in the Stanford treebank. May be empty.

    Examples:
        >>> from recgraph.data import tokenize
        >>> tokenize("It didn't work (at all).")
        ['It', 'did', "n't", 'work', '-LRB-', 'at', 'all', '-RRB-', '.']
    """
    return tokenize_all([sentence])[0]
