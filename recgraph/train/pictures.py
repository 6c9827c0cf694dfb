"""Pictures of trees: every node with its predicted sentiment as colour, and its true one as ring."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from recgraph.data import SENTIMENTS, Tree
from recgraph.data.files import atomic_file
from recgraph.draw import draw


def draw_tree(tree: Tree, predicted: Sequence[int], path: Path, classes: int = 5, title: str = "") -> None:
    """Draws a tree into a PNG, PDF or SVG, whole or not at all.

    Args:
      tree: the tree; its labels, where it has some, are the true ones and on the five-point scale.
      predicted: the class of every node.
      path: the file; its ending gives the format.
      classes: of `predicted`: 5, or 2 for negative and positive.
      title: above the picture.
    """
    on_five = [predicted_class if classes == 5 else 4 * predicted_class for predicted_class in predicted]
    true = tree.labels if max(tree.labels) >= 0 else None
    drawn = io.BytesIO()
    draw(tree, on_five, true, names=SENTIMENTS, title=title).savefig(drawn, format=path.suffix[1:] or "png")
    with atomic_file(path) as file:
        file.write(drawn.getvalue())
