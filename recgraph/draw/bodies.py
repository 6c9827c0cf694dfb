"""The picture of a scene, the body of a SubGraph for instance: in layers, branches and loops as boxes in boxes."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from recgraph.draw import scene as scenes
from recgraph.draw.layout import Box, Placed, place
from recgraph.draw.scene import Scene, SceneNode

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches, and points for text.
TEXT, SMALL = 9.0, 7.5
BOLD = 1.2  # how much wider bold text is, at most
LINE = 0.17
PAD = 0.09
MARGIN = 0.14
HEADER = 0.26

_STYLES: dict[str, dict[str, Any]] = {
    scenes.INPUT: {"facecolor": "#d5ecd4", "edgecolor": "#3c7d3a"},
    scenes.PASSED: {"facecolor": "#f0f8ef", "edgecolor": "#7fae7d"},
    scenes.CAPTURE: {"facecolor": "#ececec", "edgecolor": "#8c8c8c", "linestyle": (0, (3, 2))},
    scenes.CONSTANT: {"facecolor": "#ffffff", "edgecolor": "#b5b5b5"},
    scenes.OPERATION: {"facecolor": "#ffffff", "edgecolor": "#555555"},
    scenes.INVOKE: {"facecolor": "#ffd27a", "edgecolor": "#a35a00", "linewidth": 1.6},
    scenes.OUTPUT: {"facecolor": "#cfe0f3", "edgecolor": "#2f5f95"},
    scenes.REGION: {"facecolor": "#f4f6fa", "edgecolor": "#7f8aa3"},
}
_PART_STYLE: dict[str, Any] = {"facecolor": "#fbfcfe", "edgecolor": "#b9c1d3", "linestyle": (0, (4, 2))}


def figure(scene: Scene, title: str) -> Figure:
    """The picture of a scene, as large as it needs to be."""
    from recgraph.draw.picture import Picture

    picture = _lay_out(scene)
    top = 0.4 if title else 0.0
    width = max(picture.width, _text_width(title, TEXT + 1)) + 2 * MARGIN
    height = picture.height + top + 2 * MARGIN
    result = Picture(figsize=(width, height), dpi=120)
    axes = result.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    axes.text(width / 2, MARGIN + 0.1, title, ha="center", va="center", fontsize=TEXT + 1)
    _draw(axes, picture, (width - picture.width) / 2, MARGIN + top)
    return result


@dataclasses.dataclass(frozen=True)
class _Picture:
    """A scene with places: of its boxes, of its edges, and inside of its regions."""

    scene: Scene
    boxes: list[Box]
    placed: Placed
    parts: dict[int, list[_Picture]]

    @property
    def width(self) -> float:
        return self.placed.width

    @property
    def height(self) -> float:
        return self.placed.height


def _lay_out(scene: Scene) -> _Picture:
    parts = {i: [_lay_out(inner) for _, inner in node.parts] for i, node in enumerate(scene.nodes) if node.parts}
    boxes = [_region_box(node, parts[i]) if i in parts else _plain_box(node) for i, node in enumerate(scene.nodes)]
    return _Picture(scene, boxes, place(boxes, scene.edges), parts)


def _plain_box(node: SceneNode) -> Box:
    width = max(_text_width(node.label, TEXT), _text_width(node.detail, SMALL))
    return Box(width + 2 * PAD + 0.06, (LINE if not node.detail else 1.9 * LINE) + PAD)


def _part_width(name: str, part: _Picture) -> float:
    return max(part.width, _text_width(name, TEXT)) + 2 * MARGIN


def _region_box(node: SceneNode, parts: list[_Picture]) -> Box:
    height = max(part.height for part in parts) + HEADER + 2 * MARGIN
    header = BOLD * _text_width(node.label, TEXT) + 2 * PAD
    return Box(max(_parts_width(node, parts) + 2 * MARGIN, header), height + HEADER + MARGIN)


def _parts_width(node: SceneNode, parts: list[_Picture]) -> float:
    """Of all parts of a region, with what is between them."""
    widths = [_part_width(name, part) for (name, _), part in zip(node.parts, parts, strict=True)]
    return sum(widths) + MARGIN * (len(parts) - 1)


@functools.lru_cache(maxsize=4096)
def _text_width(text: str, size: float) -> float:
    """In inches."""
    from matplotlib.textpath import TextPath

    return (
        float(TextPath((0, 0), text.replace("$", r"\$"), size=size).get_extents().width) / 72 if text.strip() else 0.0
    )


# Drawing, at an offset in inches.


def _draw(axes: Axes, picture: _Picture, x: float, y: float) -> None:
    for i, (node, box) in enumerate(zip(picture.scene.nodes, picture.boxes, strict=True)):
        left, top = x + box.x - box.width / 2, y + box.y
        if i in picture.parts:
            _draw_region(axes, node, box, picture.parts[i], left, top)
        else:
            _draw_plain(axes, node, box, left, top)
    for route in picture.placed.routes:
        _draw_edge(axes, [(x + a, y + b) for a, b in route])


def _draw_plain(axes: Axes, node: SceneNode, box: Box, left: float, top: float) -> None:
    pill = node.kind in (scenes.INPUT, scenes.PASSED, scenes.CAPTURE, scenes.OUTPUT, scenes.CONSTANT)
    _draw_box(axes, left, top, box.width, box.height, 0.12 if pill else 0.03, _STYLES[node.kind])
    middle = left + box.width / 2
    bold = "bold" if node.kind == scenes.INVOKE else "normal"
    height = top + box.height * (0.5 if not node.detail else 0.32)
    label = node.label.replace("$", r"\$")
    axes.text(middle, height, label, ha="center", va="center_baseline", fontsize=TEXT, weight=bold, zorder=5)
    if node.detail:
        detail = node.detail.replace("$", r"\$")
        axes.text(middle, top + box.height * 0.74, detail, ha="center", va="center_baseline", fontsize=SMALL, zorder=5)


def _draw_region(axes: Axes, node: SceneNode, box: Box, parts: list[_Picture], left: float, top: float) -> None:
    _draw_box(axes, left, top, box.width, box.height, 0.06, _STYLES[node.kind])
    axes.text(
        left + box.width / 2, top + HEADER / 2, node.label, ha="center", va="center", fontsize=TEXT, weight="bold"
    )
    x = left + (box.width - _parts_width(node, parts)) / 2
    y, height = top + HEADER, box.height - HEADER - MARGIN
    for (name, _), part in zip(node.parts, parts, strict=True):
        width = _part_width(name, part)
        _draw_box(axes, x, y, width, height, 0.04, _PART_STYLE)
        axes.text(x + 0.08, y + HEADER / 2, name, ha="left", va="center", fontsize=SMALL, style="italic")
        _draw(axes, part, x + (width - part.width) / 2, y + HEADER + MARGIN / 2)
        x += width + MARGIN


def _draw_box(
    axes: Axes, left: float, top: float, width: float, height: float, round_: float, style: dict[str, Any]
) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = f"round,pad=0,rounding_size={min(round_, height / 2)}"
    axes.add_patch(FancyBboxPatch((left, top), width, height, shape, **{"linewidth": 1.0, "zorder": 3, **style}))


def _draw_edge(axes: Axes, points: list[tuple[float, float]]) -> None:
    """A curve that leaves and enters every layer upright."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    vertices, codes = [points[0]], [Path.MOVETO]
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
        half = (y0 + y1) / 2
        vertices += [(x0, half), (x1, half), (x1, y1)]
        codes += [Path.CURVE4] * 3
    arrow = FancyArrowPatch(
        path=Path(vertices, codes), arrowstyle="-|>", mutation_scale=7, linewidth=0.9, color="#666666", zorder=4
    )
    axes.add_patch(arrow)
