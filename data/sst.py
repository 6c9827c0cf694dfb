"""The Stanford Sentiment Treebank (Socher et al., EMNLP 2013) in PTB form."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from recgraph.data.files import PathLike, data_dir
from recgraph.data.ptb import read_trees
from recgraph.data.trees import Tree

SPLITS = ("train", "dev", "test")
SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")
"""The names of the labels 0 to 4."""


class Treebank(NamedTuple):
    """The three splits of a treebank, each a list of trees with labels 0 (very negative) to 4 (very positive)."""

    train: list[Tree]
    dev: list[Tree]
    test: list[Tree]


def sst_dir(folder: PathLike | None = None) -> Path:
    """The folder with train.txt, dev.txt and test.txt: the data folder, or its folder `sst` or `trees`.

    Args:
        folder: the data folder; `RECGRAPH_DATA` if not given.

    Raises:
        FileNotFoundError: no folder there holds all three files.
    """
    top = data_dir(folder)
    places = [top, top / "sst", top / "trees"]
    for place in places:
        if all((place / f"{split}.txt").is_file() for split in SPLITS):
            return place
    raise FileNotFoundError(
        f"no treebank in {top}: looked for train.txt, dev.txt and test.txt there and in its folders sst and trees; "
        "`recgraph data fetch sst` downloads the Stanford treebank, `recgraph data generate` makes a sample"
    )


def load_sst(folder: PathLike | None = None) -> Treebank:
    """Reads a treebank of three files; see `sst_dir` for where.

    Raises:
        FileNotFoundError: see `sst_dir`.
        TreeFormatError: a malformed line, with file, line and column.
    """
    place = sst_dir(folder)
    return Treebank(*(read_trees(place / f"{split}.txt") for split in SPLITS))
