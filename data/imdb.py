"""The Large Movie Review Dataset (Maas et al., ACL 2011): reviews, sentences, and tokens spelt as in the treebank."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recgraph.data.binarize import binarize
from recgraph.data.files import COMPRESSIONS, DataFormatError, PathLike, data_dir, decode_line, read_lines
from recgraph.data.tokenizing import tokenize_all
from recgraph.data.trees import NO_LABEL, Tree

SPLITS = ("train", "test", "unsup")

_RATINGS = {"neg": range(1, 5), "pos": range(7, 11), "unsup": range(0, 1)}
REVIEW_LABELS = {"neg": 0, "pos": 4, "unsup": NO_LABEL}
"""The label of the root of a review's trees, by the folder that the review is from."""
_FILE_NAME = re.compile(r"(\d+)_(\d+)\.txt", re.ASCII)
_BREAK = re.compile(r"(?:<br\s*/?>\s*)+", re.IGNORECASE)
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_TITLES = ("mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "gen", "lt", "sgt", "capt", "col")
_ABBREVIATIONS = (*_TITLES, "vs", "etc", "e.g", "i.e", "u.s", "u.k", "vol", "approx", "dept", "est")


class ReviewFormatError(DataFormatError):
    """A review file or line is malformed; see `DataFormatError` for the attributes."""


class Review(NamedTuple):
    """One review.

    Attributes:
        label: "neg", "pos" or "unsup".
        id: number within its split and label.
        rating: stars, 1..4 for neg, 7..10 for pos, 0 for unsup.
        text: the text as written, with `<br />` in it.
    """

    label: str
    id: int
    rating: int
    text: str


def read_imdb(folder: PathLike | None = None, split: str = "train") -> Iterator[Review]:
    """Yields the reviews of a split, neg before pos, ordered by id.

    Two forms are read: the original folder `aclImdb` (train/neg/0_3.txt and so on), and one file per split,
    `train.tsv`, plain or compressed (`.xz`, `.gz`, `.bz2`), with lines `label <TAB> id <TAB> rating <TAB> text`. Either
    may be in the data folder, in its folder `imdb`, or be the data folder itself.

    Args:
        folder: the data folder; by default `RECGRAPH_DATA`.
        split: "train", "test" or "unsup".

    Raises:
        ValueError: the split is unknown.
        FileNotFoundError: neither form is there.
        ReviewFormatError: a line or file name is malformed, a rating contradicts its label, or text is not UTF-8.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}; found {split!r}")
    top = data_dir(folder)
    for place in (top, top / "imdb", top / "aclImdb", top / "imdb" / "aclImdb"):
        for name in (f"{split}.tsv{ending}" for ending in ("", *COMPRESSIONS)):
            if (place / name).is_file():
                return _read_tsv(place / name)
        if (place / ("train" if split == "unsup" else split) / ("unsup" if split == "unsup" else "neg")).is_dir():
            return _read_folder(place, split)
    raise FileNotFoundError(
        f"no {split} reviews in {top}: looked for the folder aclImdb and the file {split}.tsv, plain or compressed, "
        "there and in its folder imdb; `recgraph data fetch imdb` downloads the original"
    )


def _read_tsv(path: Path) -> Iterator[Review]:
    for number, line in read_lines(path, ReviewFormatError):
        fields = line.split("\t")
        if len(fields) != 4:
            found = f"{len(fields)} fields" if line else "an empty line"
            raise ReviewFormatError(path, number, 1, "label, id, rating and text, separated by tabs", found)
        yield _review(fields[0], fields[1], fields[2], fields[3], path, number)


def _read_folder(place: Path, split: str) -> Iterator[Review]:
    for label in ("unsup",) if split == "unsup" else ("neg", "pos"):
        folder = place / ("train" if split == "unsup" else split) / label
        named = []
        for path in folder.iterdir():
            match = _FILE_NAME.fullmatch(path.name)
            if match is None:
                raise ReviewFormatError(path, 1, 1, "a file named <id>_<rating>.txt", repr(path.name))
            named.append((int(match[1]), match[2], path))
        for number, rating, path in sorted(named):
            text = decode_line(path.read_bytes(), path, 1, ReviewFormatError)
            yield _review(label, str(number), rating, text, path, 1)


def _review(label: str, number: str, rating: str, text: str, file: Path, line: int) -> Review:
    if label not in _RATINGS:
        raise ReviewFormatError(file, line, 1, "the label neg, pos or unsup", repr(label))
    if not (number.isascii() and number.isdigit()):
        raise ReviewFormatError(file, line, len(label) + 2, "a whole number as id", repr(number))
    allowed = _RATINGS[label]
    if not (rating.isascii() and rating.isdigit()) or int(rating) not in allowed:
        expected = f"a rating {allowed[0]}..{allowed[-1]} for {label}"
        raise ReviewFormatError(file, line, len(label) + len(number) + 3, expected, repr(rating))
    return Review(label, int(number), int(rating), text)


def sentences(text: str) -> list[str]:
    """Splits a text into sentences, at `<br />` and at sentence ends (Punkt, with a few abbreviations of our own)."""
    split = _sentence_splitter()
    return [sentence for part in _BREAK.split(text) for sentence in split(part.strip()) if sentence]


@functools.cache
def _sentence_splitter() -> Callable[[str], list[str]]:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types = set(_ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters).tokenize


def escape(word: str) -> str:
    """The spelling of a word in the treebank: brackets by name, `\\/` and `\\*`, and no blanks."""
    word = re.sub(r"[()\[\]{}]", lambda match: _BRACKETS[match.group()], word)
    return re.sub(r"(?<!\\)[/*]", lambda match: "\\" + match.group(), re.sub(r"[ \t\r\n]+", "_", word))


def review_trees(
    reviews: Iterable[Review], shape: str = "balanced", *, seed: int = 0, max_tokens: int | None = None
) -> Iterator[Tree]:
    """Yields one tree per sentence; its root is labelled 0 for neg and 4 for pos, other nodes have no label.

    Args:
        reviews: the reviews.
        shape: "balanced", "moderate" or "linear", see `binarize`.
        seed: of the moderate shape.
        max_tokens: longer sentences are skipped.
    """
    rng = np.random.default_rng(seed)
    for review in reviews:
        for tokens in tokenize_all(sentences(review.text)):
            if tokens and (max_tokens is None or len(tokens) <= max_tokens):
                tree = binarize(tokens, shape, rng)
                yield tree.with_labels(tree.labels[:-1] + (REVIEW_LABELS[review.label],))
