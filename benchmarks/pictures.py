"""Pictures of figures: bars by group, and curves with what lies around them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Style:
    """How one of several is drawn, the same in all pictures; a mark is what others are compared with: a line across the
    bars in place of a bar, a dashed curve."""

    label: str
    color: str
    mark: bool = False


@dataclasses.dataclass(frozen=True)
class Bars:
    """A panel of bars.

    Attributes:
      title: above it.
      groups: what is below the groups of bars.
      values: by name, one value for each group.
    """

    title: str
    groups: Sequence[str]
    values: Mapping[str, Sequence[float]]


@dataclasses.dataclass(frozen=True)
class Curve:
    """Points from left to right, with the least and the most around each where they are known."""

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclasses.dataclass(frozen=True)
class Curves:
    """A panel of curves, by name."""

    title: str
    curves: Mapping[str, Curve]


def bars(rows: Sequence[Sequence[Bars]], styles: Mapping[str, Style], x: str, y: str, log: bool = False) -> Figure:
    """Panels of bars in a grid, from zero upwards or, on a logarithmic scale, from a power of ten."""
    figure, grid = _grid(len(rows), len(rows[0]))
    for panels, line in zip(rows, grid, strict=True):
        for panel, axes in zip(panels, line, strict=True):
            _draw_bars(axes, panel, styles)
            axes.set(title=panel.title, xlabel=x, ylabel=y)
            if log:
                least = min(min(values) for values in panel.values.values())
                axes.set_yscale("log")
                axes.set_ylim(bottom=10 ** np.floor(np.log10(least)))
            axes.grid(axis="y", which="both", alpha=0.25)
    return _with_legend(figure, grid)


def _draw_bars(axes: Axes, panel: Bars, styles: Mapping[str, Style]) -> None:
    places = np.arange(len(panel.groups))
    solid = [name for name in panel.values if not styles[name].mark]
    width = 0.85 / max(len(solid), 1)
    for number, name in enumerate(solid):
        at = places + (number - (len(solid) - 1) / 2) * width
        axes.bar(at, panel.values[name], width, label=styles[name].label, color=styles[name].color, zorder=2)
    for name in panel.values:
        if styles[name].mark:
            ends = places - 0.45, places + 0.45
            axes.hlines(panel.values[name], *ends, label=styles[name].label, color=styles[name].color, zorder=3)
    axes.set_xticks(places, panel.groups)


def curves(
    rows: Sequence[Sequence[Curves]],
    styles: Mapping[str, Style],
    x: str,
    y: str,
    log: bool = False,
    bottom: float | None = 0.0,
) -> Figure:
    """Panels of curves in a grid, the values on a logarithmic scale, or from `bottom` upwards if that is a number."""
    figure, grid = _grid(len(rows), len(rows[0]))
    for panels, line in zip(rows, grid, strict=True):
        for panel, axes in zip(panels, line, strict=True):
            for name, curve in panel.curves.items():
                _draw_curve(axes, curve, styles[name])
            axes.set(title=panel.title, xlabel=x, ylabel=y)
            axes.grid(which="both" if log else "major", alpha=0.25)
            if log:
                axes.set_yscale("log")
            elif bottom is not None:
                axes.set_ylim(bottom=bottom)
    return _with_legend(figure, grid)


def _draw_curve(axes: Axes, curve: Curve, style: Style) -> None:
    axes.plot(
        curve.x,
        curve.y,
        linestyle="--" if style.mark else "-",
        marker="" if style.mark else ".",
        label=style.label,
        color=style.color,
    )
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.x, curve.low, curve.high, color=style.color, alpha=0.15, linewidth=0)


def _grid(rows: int, columns: int) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(6.5 * columns, 3.4 * rows + 0.6), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _with_legend(figure: Figure, grid: np.ndarray) -> Figure:
    """One legend for all panels, below them."""
    known = {
        label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=min(len(known), 4), frameon=False)
    return figure
