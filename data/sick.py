"""SICK (Marelli et al., LREC 2014): pairs of sentences with a relatedness score, and their dependency parses.

The layout is that of Tai, Socher and Manning (2015): folders train, dev and test, in each the files below with one line
a pair. `a.parents` has for each word of `a.toks` the number of its head, from 1, and 0 at the root. The parses come
with the data (Stanford dependencies); nothing here parses.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from recgraph.data.dependency import DependencyTree, fault
from recgraph.data.files import DataFormatError, PathLike, data_dir, read_lines

SPLITS = ("train", "dev", "test")
FILES = ("a.toks", "a.parents", "b.toks", "b.parents", "sim.txt")
LOWEST, HIGHEST = 1, 5  # of the scores


class PairFormatError(DataFormatError):
    """A line of a SICK file is malformed; see `DataFormatError` for the attributes."""


class Pair(NamedTuple):
    """Two sentences and how related they are, from 1 (not at all) to 5."""

    left: DependencyTree
    right: DependencyTree
    score: float


class Pairs(NamedTuple):
    """The three splits."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def sick_dir(folder: PathLike | None = None) -> Path:
    """The folder that has train, dev and test with all files: the data folder, or its folder `sick`.

    Args:
        folder: the data folder; `RECGRAPH_DATA` if not given.

    Raises:
        FileNotFoundError: neither has them.
    """
    top = data_dir(folder)
    for place in (top, top / "sick"):
        if all((place / split / name).is_file() for split in SPLITS for name in FILES):
            return place
    raise FileNotFoundError(
        f"no SICK in {top}: {', '.join(FILES)} are looked for in train, dev and test, there and in its folder sick. "
        "The original SICK files hold no parses; the layout is that of Tai et al.'s TreeLSTM code"
    )


def load_sick(folder: PathLike | None = None) -> Pairs:
    """Reads the pairs of all splits; see `sick_dir` for where.

    Raises:
        FileNotFoundError: see `sick_dir`.
        PairFormatError: a malformed line, or files of different lengths; with file, line and column.
    """
    place = sick_dir(folder)
    return Pairs(*(read_pairs(place / split) for split in SPLITS))


def read_pairs(folder: PathLike) -> list[Pair]:
    """Reads the pairs of one split, in the order of its files.

    Raises:
        PairFormatError: as `load_sick`.
    """
    left, right, scores = _trees(Path(folder), "a"), _trees(Path(folder), "b"), _scores(Path(folder) / "sim.txt")
    _require_equal(Path(folder) / "b.toks", len(right), len(left))
    _require_equal(Path(folder) / "sim.txt", len(scores), len(left))
    return [Pair(*pair) for pair in zip(left, right, scores, strict=True)]


def _trees(folder: Path, side: str) -> list[DependencyTree]:
    tokens_file, heads_file = folder / f"{side}.toks", folder / f"{side}.parents"
    sentences = [_words(tokens_file, number, text) for number, text in read_lines(tokens_file, PairFormatError)]
    heads = list(read_lines(heads_file, PairFormatError))
    _require_equal(heads_file, len(heads), len(sentences))
    return [
        DependencyTree(words, _heads(heads_file, number, text, len(words)))
        for words, (number, text) in zip(sentences, heads, strict=True)
    ]


def _require_equal(path: Path, found: int, expected: int) -> None:
    if found != expected:
        raise PairFormatError(path, min(found, expected) + 1, 1, f"{expected} lines, as in a.toks", f"{found} lines")


def _words(path: Path, number: int, text: str) -> tuple[str, ...]:
    words = tuple(text.split(" "))
    column = 1
    for word in words:
        if not word:
            raise PairFormatError(path, number, column, "words with one space between", "none" if text else "no words")
        column += len(word) + 1
    return words


def _heads(path: Path, number: int, text: str, count: int) -> tuple[int, ...]:
    """The heads of a line, from 0, -1 at the root."""
    fields = text.split(" ")
    columns = [1]
    for field in fields:
        columns.append(columns[-1] + len(field) + 1)
    for field, column in zip(fields, columns, strict=False):
        if not (field.isascii() and field.isdigit()):
            raise PairFormatError(path, number, column, "the number of a word, or 0", repr(field))
    if len(fields) != count:
        place = min(columns[min(len(fields), count)], len(text) + 1)
        raise PairFormatError(path, number, place, f"a head for each of {count} words", f"{len(fields)} heads")
    heads = tuple(int(field) - 1 for field in fields)
    problem = fault(heads)
    if problem is not None:
        raise PairFormatError(path, number, columns[problem[0]], "heads that make a tree", problem[1])
    return heads


def _scores(path: Path) -> list[float]:
    scores = []
    for number, text in read_lines(path, PairFormatError):
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not LOWEST <= score <= HIGHEST:
            raise PairFormatError(path, number, 1, f"a score from {LOWEST} to {HIGHEST}", repr(text))
        scores.append(score)
    return scores
