"""Pictures of trees: every node with its predicted sentiment as colour, and its true one as ring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recgraph.data import SENTIMENTS, Tree
from recgraph.draw import draw


def draw_tree(tree: Tree, predicted: Sequence[int], path: Path, classes: int = 5, title: str = "") -> None:
    """Draws a tree into a PNG, PDF or SVG.

    Args:
      tree: the tree; its labels, where it has some, are the true ones and on the five-point scale.
      predicted: the class of every node.
      path: the file; its ending gives the format.
      classes: of `predicted`: 5, or 2 for negative and positive.
      title: above the picture.
    """
    on_five = [predicted_class if classes == 5 else 4 * predicted_class for predicted_class in predicted]
    true = tree.labels if max(tree.labels) >= 0 else None
    draw(tree, on_five, true, names=SENTIMENTS, title=title).savefig(path)
