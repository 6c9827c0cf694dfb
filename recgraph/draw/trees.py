"""The picture of a tree: leaves side by side, a parent above the middle of its children, values as colours."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR_MAP = "RdBu"  # both ends differ for readers who do not see red and green apart
NO_VALUE_COLOUR = "#8a8a8a"
PLAIN_COLOUR = "#dfe6ee"
OUTLINE = "#333333"
SIGNS = {2: ("−", "+"), 3: ("−", "0", "+"), 5: ("−−", "−", "0", "+", "++")}  # elsewhere the number of the class


class TreeLike(Protocol):
    """What `recgraph.data.Tree` has: flat sequences in post-order."""

    words: Sequence[Any]
    left: Sequence[int]
    right: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Arrays:
    """A binary tree of N nodes in post-order, the root last.

    Attributes:
        words: the text at each leaf, "" at inner nodes.
        left: index of the left child, -1 at a leaf.
        right: index of the right child, -1 at a leaf.
    """

    words: tuple[str, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]


def as_arrays(tree: Any) -> Arrays:
    """A tree, however it was given.

    Raises:
        TypeError: it is not a tree.
        ValueError: a child does not come before its parent, or the lengths differ.
    """
    if all(hasattr(tree, name) for name in ("words", "left", "right")):
        parts = tree.words, tree.left, tree.right
    elif isinstance(tree, tuple | list) and len(tree) == 3:
        parts = tuple(tree)
    else:
        raise TypeError(f"draw: expected a SubGraph, a Tree or arrays (word, left, right); found {tree!r}")
    word, left, right = (np.asarray(part).tolist() for part in parts)
    if not len(word) == len(left) == len(right) or not word:
        raise ValueError(f"draw: word, left and right need one entry per node; found {list(map(len, parts))}")
    for node, children in enumerate(zip(left, right, strict=True)):
        if not (max(children) < 0 or 0 <= min(children) <= max(children) < node):
            raise ValueError(
                f"draw: node {node} has children {children}; in post-order both come before it, or both are -1"
            )
    texts = ("" if child >= 0 else _text(entry) for entry, child in zip(word, left, strict=True))
    return Arrays(tuple(texts), tuple(left), tuple(right))


def _text(word: Any) -> str:
    """A word as matplotlib shows it as it is: a dollar sign would begin a formula."""
    text = word.decode(errors="replace") if isinstance(word, bytes) else str(word)
    return text.replace("$", r"\$")


@dataclasses.dataclass(frozen=True)
class Colours:
    """The values of the nodes, and how they become colours.

    Attributes:
        inner: float [N], from 0 to 1, NaN for a node without a value; None where there are no values.
        outer: the same for the rings.
        marks: the text inside of each node.
        legend: for classes: a label and a place on the scale for each.
        limits: for numbers: what 0 and 1 stand for.
    """

    inner: np.ndarray | None
    outer: np.ndarray | None
    marks: tuple[str, ...] | None
    legend: tuple[tuple[str, float], ...] = ()
    limits: tuple[float, float] | None = None

    @classmethod
    def of(cls, values: Any, true: Any, count: int, classes: int, names: Sequence[str] | None) -> Colours:
        """Checks the values and puts them on a scale.

        Raises:
            ValueError: not one value per node, a class out of range, not as many names as classes.
        """
        given = [np.asarray(v) for v in (values, true) if v is not None]
        for array in given:
            if array.shape != (count,):
                raise ValueError(f"draw: a tree of {count} nodes needs {count} values; found shape {array.shape}")
        if not given:
            return cls(None, None, None)
        if all(np.issubdtype(array.dtype, np.integer) for array in given):
            return cls._of_classes(values, true, classes, names)
        return cls._of_numbers(values, true)

    @classmethod
    def _of_classes(cls, values: Any, true: Any, classes: int, names: Sequence[str] | None) -> Colours:
        names = [str(i) for i in range(classes)] if names is None else names
        if len(names) != classes:
            raise ValueError(f"draw: {classes} classes need {classes} names; found {len(names)}")
        inner, outer = (_scaled(v, 0, classes - 1) for v in (values, true))
        signs = (*SIGNS.get(classes, tuple(map(str, range(classes)))), "")  # -1, no class, is the last
        marks = None if values is None else tuple(signs[v] for v in np.asarray(values))
        legend = tuple((name, i / max(classes - 1, 1)) for i, name in enumerate(names))
        return cls(inner, outer, marks, legend)

    @classmethod
    def _of_numbers(cls, values: Any, true: Any) -> Colours:
        finite = np.concatenate([np.asarray(v, float) for v in (values, true) if v is not None])
        finite = finite[np.isfinite(finite)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        if low < 0 < high:  # opposite signs: zero is the neutral middle
            low, high = -max(-low, high), max(-low, high)
        inner, outer = (_scaled(v, low, high, numbers=True) for v in (values, true))
        return cls(inner, outer, None, limits=(low, high))


def _scaled(values: Any, low: float, high: float, numbers: bool = False) -> np.ndarray | None:
    """Values from `low` to `high` as 0 to 1; NaN for the class -1 and for numbers that are not finite."""
    if values is None:
        return None
    array = np.asarray(values, float)
    missing = ~np.isfinite(array) if numbers else array == -1
    if not numbers and ((array < -1) | (array > high)).any():
        raise ValueError(f"draw: classes run from 0 to {high:.0f}, -1 for none; found {sorted(set(array.tolist()))}")
    return np.where(missing, np.nan, (array - low) / max(high - low, 1e-30))


def figure(tree: Arrays, colours: Colours, title: str) -> Figure:
    """The picture."""
    from recgraph.draw.picture import Picture

    places = layout(tree)
    leaves = 1 + places[:, 0].max()
    width = min(max(5.0, 0.62 * leaves), 60.0)
    height = min(max(2.5, 0.5 * places[-1, 1] + 1.7), 30.0)
    result = Picture(figsize=(width, height), dpi=120, layout="constrained")
    axes = result.subplots()
    _draw_edges(axes, tree, places)
    _draw_nodes(axes, places, colours)
    _draw_words(axes, tree, places)
    axes.set(xlim=(-0.7, leaves - 0.3), ylim=(-1.2, places[-1, 1] + 0.6))
    axes.axis("off")
    axes.set_title(title, fontsize=10)
    _draw_legend(result, axes, colours)
    _widen(result, axes)
    return result


def _widen(result: Figure, axes: Axes) -> None:
    """Makes room for a legend and a title that are wider than the tree."""
    result.draw_without_rendering()
    texts = [axes.title, *result.legends]
    needed = max(text.get_window_extent().width for text in texts) / result.dpi + 0.3
    width, height = result.get_size_inches()
    result.set_size_inches(max(width, needed), height)


def layout(tree: Arrays) -> np.ndarray:
    """Where the nodes go, float64 `[N, 2]`: leaves side by side at height 0, parents above all that is below."""
    places = np.zeros([len(tree.words), 2])
    leaves = 0
    for node, (left, right) in enumerate(zip(tree.left, tree.right, strict=True)):
        if left < 0:
            places[node] = leaves, 0
            leaves += 1
        else:
            places[node, 0] = (places[left, 0] + places[right, 0]) / 2
            places[node, 1] = 1 + max(places[left, 1], places[right, 1])
    return places


def _draw_edges(axes: Axes, tree: Arrays, places: np.ndarray) -> None:
    from matplotlib.collections import LineCollection

    pairs = zip(tree.left, tree.right, strict=True)
    lines = [(places[node], places[child]) for node, pair in enumerate(pairs) for child in pair if child >= 0]
    axes.add_collection(LineCollection(lines, colors="#9a9a9a", linewidths=1, zorder=1))


def _paint(scaled: np.ndarray) -> np.ndarray:
    """Colours, float [N, 4]; the ends of the map are left out, black text cannot be read on them."""
    import matplotlib

    painted = matplotlib.colormaps[COLOUR_MAP](0.1 + 0.8 * np.nan_to_num(scaled, nan=0.5))
    painted[np.isnan(scaled)] = matplotlib.colors.to_rgba(NO_VALUE_COLOUR)
    return np.asarray(painted)


def _draw_nodes(axes: Axes, places: np.ndarray, colours: Colours) -> None:
    style: dict[str, Any] = {"edgecolors": OUTLINE, "linewidths": 0.6}
    x, y = places[:, 0], places[:, 1]
    if colours.outer is not None:
        axes.scatter(x, y, s=420, c=_paint(colours.outer), zorder=2, **style)
    inner = PLAIN_COLOUR if colours.inner is None else _paint(colours.inner)
    size = 90 if colours.inner is None and colours.outer is None else 170
    axes.scatter(x, y, s=size, c=inner, zorder=3, **style)
    if colours.marks is not None and colours.inner is not None:
        for i, mark in enumerate(colours.marks):
            dark = abs(colours.inner[i] - 0.5) > 0.35
            axes.annotate(
                mark,
                (x[i], y[i]),
                ha="center",
                va="center_baseline",
                fontsize=7.5,
                color="white" if dark else "black",
                zorder=4,
            )


def _draw_words(axes: Axes, tree: Arrays, places: np.ndarray) -> None:
    longest = max(len(word) for word in tree.words)
    turned: dict[str, Any] = (
        {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if longest > 7 else {"ha": "center"}
    )
    for place, word in zip(places, tree.words, strict=True):
        if word:
            axes.annotate(word, place, (0, -13), textcoords="offset points", va="top", fontsize=8.5, **turned)


def _draw_legend(result: Figure, axes: Axes, colours: Colours) -> None:
    if colours.limits is not None:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap, Normalize

        shades = ListedColormap(_paint(np.linspace(0, 1, 256)))
        result.colorbar(ScalarMappable(Normalize(*colours.limits), shades), ax=axes, shrink=0.6, pad=0.01)
        return
    if not colours.legend:
        return
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 9, "markeredgecolor": OUTLINE}
    marks = [
        Line2D([], [], color=tuple(_paint(np.array([place]))[0]), label=label, **style)
        for label, place in colours.legend
    ]
    both = colours.inner is not None and colours.outer is not None
    what = "inside: predicted, ring: true (grey: none)" if both else None
    result.legend(
        handles=marks,
        ncols=len(marks),
        loc="outside lower center",
        frameon=False,
        fontsize=8,
        title=what,
        title_fontsize=8,
    )
