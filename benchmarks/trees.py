"""The trees that benchmarks run on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from recgraph.data import Tree, Vocabulary, read_trees, sst_dir
from recgraph.models import MODELS


def trees_option() -> Callable[..., Any]:
    """The option `--trees`."""
    text = "What `recgraph data parse` wrote, or train.txt of a treebank; left out, that in the folder RECGRAPH_DATA."
    return click.option("--trees", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=text)


def read(path: Path | None, count: int | None = None) -> tuple[list[Tree], Vocabulary]:
    """The first trees of a file, and the vocabulary of their words."""
    trees = read_trees(path or sst_dir() / "train.txt")[:count]
    return trees, Vocabulary.build(trees, lowercase=True)


def model_name(model: str) -> str:
    """As it is written."""
    return MODELS[model].__name__
