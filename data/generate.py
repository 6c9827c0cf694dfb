"""A generated sentiment treebank: sentences from a probabilistic grammar, labels from composition.

Negation turns a value over, intensifiers and weakeners scale it, "but" and "although" decide which of two clauses
counts, verbs such as "lacks" turn their object over. A sentence may be a phrase alone, as in reviews: "a film that is
not dull", "not a good plot", "very funny". The same words in another order give another label, so counting words does
not solve it, while the rules of `compose` do, exactly.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recgraph.data.files import PathLike, atomic_file
from recgraph.data.trees import NO_CHILD, Tree, TreeBuilder

MAX_TOKENS = 50


class Meaning(NamedTuple):
    """What a phrase means: a value -2..2 and how it acts on its sister ("plain" phrases do not act)."""

    value: int
    kind: str = "plain"


# The lexicon: terminal -> (meaning, words). The value is the sentiment of the word alone.
LEXICON: dict[str, tuple[Meaning, tuple[str, ...]]] = {
    "great": (Meaning(2), ("brilliant", "superb", "dazzling", "unforgettable", "magnificent", "exquisite")),
    "good": (Meaning(1), ("good", "charming", "funny", "clever", "moving", "engaging", "fresh", "likeable")),
    "plain": (Meaning(0), ("long", "short", "recent", "familiar", "quiet", "modern")),
    "bad": (Meaning(-1), ("bad", "dull", "slow", "clumsy", "predictable", "shallow", "bland", "noisy")),
    "awful": (Meaning(-2), ("awful", "dreadful", "unbearable", "atrocious", "abysmal", "insulting")),
    "noun": (
        Meaning(0),
        (
            "film",
            "plot",
            "cast",
            "script",
            "score",
            "director",
            "ending",
            "story",
            "camera",
            "dialogue",
            "comedy",
            "drama",
        ),
    ),
    "determiner": (Meaning(0), ("the", "this", "its", "that")),
    "article": (Meaning(0), ("a", "an")),  # whichever the next word wants
    "relative": (Meaning(0), ("that", "which")),
    "with": (Meaning(0), ("with",)),
    "copula": (Meaning(0), ("is", "seems", "feels", "remains")),
    "verb": (Meaning(0), ("has", "offers", "delivers", "contains")),
    "not": (Meaning(0, "negate"), ("not", "never", "hardly")),
    "lacks": (Meaning(0, "negate"), ("lacks", "avoids", "misses")),
    "without": (Meaning(0, "negate"), ("without",)),
    "very": (Meaning(0, "intensify"), ("very", "truly", "utterly", "remarkably")),
    "fairly": (Meaning(0, "weaken"), ("fairly", "somewhat", "rather")),
    "but": (Meaning(0, "contrast"), ("but", "yet")),
    "although": (Meaning(0, "concede"), ("although", "though", "while")),
    "and": (Meaning(0, "add"), ("and",)),
    "comma": (Meaning(0, "comma"), (",",)),
    "stop": (Meaning(0), (".",)),
}

# The grammar: symbol -> (weight, one or two symbols). Every two-symbol rule makes a node.
GRAMMAR: dict[str, tuple[tuple[float, tuple[str, ...]], ...]] = {
    "sentence": ((0.8, ("text", "stop")), (0.2, ("text",))),
    "text": ((0.75, ("body",)), (0.2, ("phrase",)), (0.05, ("not", "praise"))),
    "phrase": ((0.8, ("thing",)), (0.2, ("quality",))),
    "thing": ((0.4, ("noun_phrase",)), (0.6, ("modified",))),
    "praise": ((0.4, ("indefinite",)), (0.6, ("indefinite_modified",))),
    "indefinite": ((0.3, ("article", "noun")), (0.7, ("article", "described"))),
    "indefinite_modified": ((1.0, ("indefinite", "modifier")),),
    "modified": ((1.0, ("noun_phrase", "modifier")),),
    "modifier": ((0.7, ("relative", "verb_phrase")), (0.15, ("with", "object")), (0.15, ("without", "object"))),
    "body": (
        (0.30, ("clause",)),
        (0.28, ("clause", "but_clause")),
        (0.14, ("concession", "clause")),
        (0.14, ("clause", "although_clause")),
        (0.14, ("clause", "and_clause")),
    ),
    "but_clause": ((0.6, ("comma", "but_rest")), (0.4, ("but_rest",))),
    "but_rest": ((1.0, ("but", "tail")),),
    "although_clause": ((1.0, ("although", "tail")),),
    "concession": ((1.0, ("although_clause", "comma")),),
    "and_clause": ((1.0, ("and", "tail")),),
    "tail": ((0.8, ("clause",)), (0.2, ("body",))),
    "clause": ((0.9, ("noun_phrase", "verb_phrase")), (0.1, ("modified", "verb_phrase"))),
    "noun_phrase": ((0.65, ("specifier", "noun")), (0.35, ("specifier", "described"))),
    "specifier": ((0.7, ("determiner",)), (0.3, ("article",))),
    "described": ((0.8, ("adjective", "noun")), (0.2, ("graded", "noun"))),
    "verb_phrase": ((0.6, ("copula", "quality")), (0.2, ("verb", "object")), (0.2, ("lacks", "object"))),
    "object": ((1.0, ("specifier", "described")),),
    "quality": (
        (0.26, ("adjective",)),
        (0.28, ("graded",)),
        (0.34, ("not", "scope")),
        (0.12, ("scope", "and_quality")),
    ),
    "graded": ((0.6, ("very", "adjective")), (0.4, ("fairly", "adjective"))),
    "scope": ((0.5, ("adjective",)), (0.5, ("graded",))),
    "and_quality": ((1.0, ("and", "quality")),),
    "adjective": tuple((weight, (name,)) for weight, name in zip(
        (0.18, 0.27, 0.1, 0.27, 0.18), ("great", "good", "plain", "bad", "awful"), strict=True)),
}  # fmt: skip

_WORDS = {word: meaning for meaning, words in LEXICON.values() for word in words}


def compose(left: Meaning, right: Meaning) -> Meaning:
    """The meaning of a phrase from those of its two parts; this function *is* the semantics of the treebank.

    Raises:
        ValueError: two parts that the grammar never joins.
    """
    rule = _RULES.get((left.kind, right.kind))
    if rule is None:
        raise ValueError(f"no rule joins a {left.kind} phrase with a {right.kind} phrase")
    kind, value = rule
    return Meaning(value(left.value, right.value), kind)


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


# (kind of left, kind of right) -> (kind of the phrase, its value from the two values).
_RULES = {
    ("plain", "plain"): ("plain", lambda left, right: right or left),  # what is said of a thing, else the thing
    ("negate", "plain"): ("plain", lambda left, right: -_sign(right)),  # "not brilliant" is bad, not awful
    ("intensify", "plain"): ("plain", lambda left, right: 2 * _sign(right)),
    ("weaken", "plain"): ("plain", lambda left, right: _sign(right)),
    ("contrast", "plain"): ("contrasted", lambda left, right: right),
    ("comma", "contrasted"): ("contrasted", lambda left, right: right),
    ("plain", "contrasted"): ("plain", lambda left, right: right or left),
    ("concede", "plain"): ("conceded", lambda left, right: right),
    ("conceded", "comma"): ("conceded", lambda left, right: left),
    ("conceded", "plain"): ("plain", lambda left, right: right or left),
    ("plain", "conceded"): ("plain", lambda left, right: left or right),
    ("add", "plain"): ("added", lambda left, right: right),
    ("plain", "added"): ("plain", lambda left, right: max(-2, min(2, left + right))),
}


def evaluate(tree: Tree) -> tuple[int, ...]:
    """Computes the labels of all nodes with `compose`, from the words and the shape alone.

    Args:
        tree: over words of the generated treebank.

    Returns:
        N labels 0..4.

    Raises:
        ValueError: a word is not in the lexicon, or the grammar never joins two parts.
    """
    meanings: list[Meaning] = []
    for word, left, right in zip(tree.words, tree.left, tree.right, strict=True):
        if left != NO_CHILD:
            meanings.append(compose(meanings[left], meanings[right]))
        elif word in _WORDS:
            meanings.append(_WORDS[word])
        else:
            raise ValueError(f"the word {word!r} is not in the lexicon of the generated treebank")
    return tuple(meaning.value + 2 for meaning in meanings)


def generate_treebank(count: int, seed: int = 0) -> list[Tree]:
    """Draws distinct trees of at most 50 words, with a label at every node.

    Args:
        count: number of trees.
        seed: equal seeds give equal trees.

    Raises:
        ValueError: `count` is negative.

    Examples:
        >>> trees = generate_treebank(3, seed=1)
        >>> len(trees), len(trees[0].labels) == len(trees[0].words)
        (3, True)
    """
    if count < 0:
        raise ValueError(f"count must be at least 0; found {count}")
    rng = np.random.default_rng(seed)
    trees: dict[Tree, None] = {}
    while len(trees) < count:
        tree = _draw(rng)
        if tree is not None:
            trees[tree.with_labels(evaluate(tree))] = None
    return list(trees)


def _draw(rng: np.random.Generator) -> Tree | None:
    """One unlabelled tree, or None if it grew too long."""
    builder = TreeBuilder()
    done: list[int] = []
    todo = ["sentence"]  # symbols still to expand; "" joins the last two finished subtrees
    while todo:
        symbol = todo.pop()
        if symbol == "":
            right, left = done.pop(), done.pop()
            done.append(builder.node(left, right))
        elif symbol in LEXICON:
            words = LEXICON[symbol][1]
            done.append(_add_leaf(builder, words[int(rng.random() * len(words))]))
        else:
            parts = _choose(symbol, rng)
            todo += [*([""] if len(parts) == 2 else []), *reversed(parts)]
        if len(builder.words) > 2 * MAX_TOKENS - 1:
            return None
    return builder.build()


def _add_leaf(builder: TreeBuilder, word: str) -> int:
    """Adds a word; an article before it becomes "an" before a vowel, else "a"."""
    if builder.words and builder.words[-1] in LEXICON["article"][1]:
        builder.words[-1] = "an" if word[0] in "aeiou" else "a"
    return builder.leaf(word)


def _choose(symbol: str, rng: np.random.Generator) -> tuple[str, ...]:
    left = rng.random()
    for weight, parts in GRAMMAR[symbol]:
        left -= weight
        if left < 0:
            return parts
    return GRAMMAR[symbol][-1][1]


def write_treebank(folder: PathLike, sizes: tuple[int, int, int] = (3000, 400, 800), seed: int = 0) -> None:
    """Writes train.txt, dev.txt and test.txt; no sentence occurs twice in any of them.

    Args:
        folder: created if missing. Either all files are written, or none.
        sizes: number of trees in train, dev and test.
        seed: equal seeds give equal files.
    """
    trees = generate_treebank(sum(sizes), seed)
    first = 0
    with contextlib.ExitStack() as stack:
        for name, size in zip(("train", "dev", "test"), sizes, strict=True):
            file = stack.enter_context(atomic_file(Path(folder) / f"{name}.txt"))
            file.writelines(f"{tree}\n".encode() for tree in trees[first : first + size])
            file.flush()
            first += size
