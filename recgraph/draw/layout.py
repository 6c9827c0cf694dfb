"""Where the boxes of a layered graph go: sources above what uses them, few crossings, short edges.

The usual way (Sugiyama, Tagawa, Toda 1981): layers by longest path, a dummy box on every layer that an edge
passes, orders by the middle of the neighbours, then places as close to the neighbours as widths allow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

SWEEPS = 12


@dataclasses.dataclass
class Box:
    """Something to place.

    Attributes:
        width: in inches. height: the same.
        x: of its middle, set by `place`. y: of its top, downwards.
        layer: set by `place`.
    """

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    layer: int = 0


@dataclasses.dataclass(frozen=True)
class Placed:
    """The result: size of the whole, and for each edge the points that it passes, in order."""

    width: float
    height: float
    routes: list[list[tuple[float, float]]]


def place(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], gap: float = 0.16, rise: float = 0.28) -> Placed:
    """Sets `x` and `y` of the boxes, in inches from the upper left corner.

    Args:
        boxes: in an order in which sources come before what uses them.
        edges: pairs of indices into `boxes`, source first.
        gap: least space between neighbours. rise: between layers.
    """
    _set_layers(boxes, edges)
    everything = list(boxes)
    links: list[tuple[int, int]] = []
    chains = [_chain(everything, links, source, target) for source, target in edges]
    layers: list[list[int]] = [[] for _ in range(1 + max((box.layer for box in boxes), default=0))]
    for i, box in enumerate(everything):
        layers[box.layer].append(i)
    above, below = _neighbours(len(everything), links)
    _order(layers, above, below)
    _set_x(everything, layers, above, below, gap)
    height = _set_y(everything, layers, rise)
    routes = [_route(everything, chain) for chain in chains]
    return Placed(max((box.x + box.width / 2 for box in everything), default=0.0), height, routes)


def _set_layers(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> None:
    """The longest way from a source; then sources move down to just above the first that uses them."""
    incoming: dict[int, list[int]] = {}
    outgoing: dict[int, list[int]] = {}
    for source, target in edges:
        incoming.setdefault(target, []).append(source)
        outgoing.setdefault(source, []).append(target)
    for i, box in enumerate(boxes):
        box.layer = 1 + max((boxes[source].layer for source in incoming.get(i, ())), default=-1)
    for i, box in enumerate(boxes):
        if i not in incoming and i in outgoing:
            box.layer = min(boxes[target].layer for target in outgoing[i]) - 1


def _chain(everything: list[Box], links: list[tuple[int, int]], source: int, target: int) -> list[int]:
    """The boxes that an edge passes, with a dummy for every layer between."""
    chain = [source]
    for layer in range(everything[source].layer + 1, everything[target].layer):
        everything.append(Box(0.0, 0.0, layer=layer))
        chain.append(len(everything) - 1)
    chain.append(target)
    links += zip(chain, chain[1:], strict=False)
    return chain


def _neighbours(count: int, links: list[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for source, target in links:
        above[target].append(source)
        below[source].append(target)
    return above, below


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Sorts each layer by the mean position of the neighbours, down and up in turns; keeps the best."""
    position = {i: float(k) for layer in layers for k, i in enumerate(layer)}
    best = [list(layer) for layer in layers]
    fewest = _crossings(layers, below, position)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            neighbours = above if down else below
            wanted = {i: _mean([position[j] for j in neighbours[i]], position[i]) for i in layer}
            layer.sort(key=lambda i: wanted[i])
            position.update({i: float(k) for k, i in enumerate(layer)})
        count = _crossings(layers, below, position)
        if count < fewest:
            fewest, best = count, [list(layer) for layer in layers]
    layers[:] = best


def _crossings(layers: list[list[int]], below: list[list[int]], position: dict[int, float]) -> int:
    total = 0
    for layer in layers:
        ends = [[position[j] for j in below[i]] for i in layer]
        for k, left in enumerate(ends):
            total += sum(a > b for right in ends[k + 1 :] for a in left for b in right)
    return total


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _set_x(
    boxes: list[Box], layers: list[list[int]], above: list[list[int]], below: list[list[int]], gap: float
) -> None:
    """From the left; then every layer as near as it can to its neighbours, down and up in turns."""
    for layer in layers:
        _fit(boxes, layer, [0.0] * len(layer), gap)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            neighbours = above if down else below
            wanted = [_mean([boxes[j].x for j in neighbours[i]], boxes[i].x) for i in layer]
            _fit(boxes, layer, wanted, gap)
    left = min((box.x - box.width / 2 for box in boxes), default=0.0)
    for box in boxes:
        box.x -= left


def _fit(boxes: list[Box], layer: list[int], wanted: list[float], gap: float) -> None:
    """The places nearest to `wanted` (least squares) that keep order and distances: pooling of neighbours."""
    offsets = [0.0]
    for a, b in zip(layer, layer[1:], strict=False):
        offsets.append(offsets[-1] + (boxes[a].width + boxes[b].width) / 2 + gap)
    pools: list[tuple[float, int]] = []  # (mean, members), means ascending
    for want, offset in zip(wanted, offsets, strict=True):
        mean, members = want - offset, 1
        while pools and pools[-1][0] >= mean:
            other, count = pools.pop()
            mean = (mean * members + other * count) / (members + count)
            members += count
        pools.append((mean, members))
    means = [mean for mean, members in pools for _ in range(members)]
    for i, mean, offset in zip(layer, means, offsets, strict=True):
        boxes[i].x = mean + offset


def _set_y(boxes: list[Box], layers: list[list[int]], rise: float) -> float:
    top = 0.0
    for layer in layers:
        height = max((boxes[i].height for i in layer), default=0.0)
        for i in layer:
            dummy = boxes[i].width == 0.0
            boxes[i].y = top if dummy else top + (height - boxes[i].height) / 2
            if dummy:
                boxes[i].height = height
        top += height + rise
    return max(top - rise, 0.0)


def _route(boxes: list[Box], chain: list[int]) -> list[tuple[float, float]]:
    """From the bottom of the first box, straight past every layer between, to the top of the last."""
    first, last = boxes[chain[0]], boxes[chain[-1]]
    points = [(first.x, first.y + first.height)]
    for i in chain[1:-1]:
        points += [(boxes[i].x, boxes[i].y), (boxes[i].x, boxes[i].y + boxes[i].height)]
    return [*points, (last.x, last.y)]
