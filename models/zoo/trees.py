"""What TreeRNN and TreeLSTM take in a step: lists of trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recgraph.models.imperative import Node, generate_nodes
from recgraph.models.zoo import real
from recgraph.models.zoo.program import Step


def steps(batch_size: int, small: bool) -> list[Step]:
    """Lists of trees, as long as the sentences of the treebank; more lists than one could have a graph for each."""
    words, vocabulary, halves = (4, 20, 7) if small else (19, 2000, 41)
    return _batches(generate_nodes(halves * batch_size // 2, words, vocabulary, 5), batch_size)


def real_steps(folder: Path, batch_size: int) -> list[Step]:
    """The same of trees of the treebank, with its 2,000 most frequent words."""
    return _batches(real.trees(folder, 41 * batch_size // 2, 2000), batch_size)


def _batches(trees: list[Node], batch_size: int) -> list[Step]:
    return [(trees[start : start + batch_size],) for start in range(0, len(trees), batch_size)]


def sentences(step: Any) -> int:
    """How many sentences are in the arguments of a step."""
    return len(step[0])
