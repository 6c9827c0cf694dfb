"""What TreeRNN and TreeLSTM take in a step: lists of trees."""

from __future__ import annotations

from typing import Any

from recgraph.models.imperative import generate_nodes
from recgraph.models.zoo.program import Step


def steps(batch_size: int, small: bool) -> list[Step]:
    """Lists of trees, as long as the sentences of the treebank; more lists than one could have a graph for each."""
    words, vocabulary, halves = (4, 20, 7) if small else (19, 2000, 41)
    trees = generate_nodes(halves * batch_size // 2, words, vocabulary, 5)
    return [(trees[start : start + batch_size],) for start in range(0, len(trees), batch_size)]


def sentences(step: Any) -> int:
    """How many sentences are in the arguments of a step."""
    return len(step[0])
