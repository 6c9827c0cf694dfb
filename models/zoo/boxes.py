"""Boxes on images, for the programs that find objects: `[y0, x0, y1, x1]` in units of the image, each 0 .. 1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Boxes are cut so far inside of the image that rounding does not move the last row of a crop out of it, where all is 0.
INSIDE = 1.0 - 1e-5


class Scenes(NamedTuple):
    """Images with the objects on them.

    Attributes:
      images: float32 `[count, size, size, 3]` about 0.
      boxes: of the objects, float32 `[count, objects, 4]`; zeros after the last.
      classes: of them from 1, int32 `[count, objects]`; 0 after the last.
    """

    images: np.ndarray
    boxes: np.ndarray
    classes: np.ndarray


def scenes(count: int, size: int, classes: int, objects: int, seed: int = 0) -> Scenes:
    """One to `objects` rectangles on each image, in the colour of their class, over noise."""
    random = np.random.default_rng(seed)
    colours = random.uniform(-1.0, 1.0, (classes + 1, 3))
    images = random.normal(0.0, 0.2, (count, size, size, 3))
    boxes = np.zeros((count, objects, 4))
    labels = np.zeros((count, objects), np.int32)
    for i in range(count):
        for j in range(random.integers(1, objects + 1)):
            extent = random.integers(size // 5, size // 2, 2)
            start = random.integers(0, size - extent)
            labels[i, j] = random.integers(1, classes + 1)
            boxes[i, j] = np.concatenate([start, start + extent]) / size
            (top, left), (bottom, right) = start, start + extent
            images[i, top:bottom, left:right] += colours[labels[i, j]]
    return Scenes(images.astype(np.float32), boxes.astype(np.float32), labels)


def anchors(cells: int, sizes: tuple[float, ...]) -> np.ndarray:
    """Squares of some sizes about the middle of each cell; float32 `[cells * cells * len(sizes), 4]`."""
    middle = (np.arange(cells) + 0.5) / cells
    y, x, size = np.meshgrid(middle, middle, np.array(sizes), indexing="ij")
    corners = np.stack([y - size / 2, x - size / 2, y + size / 2, x + size / 2], -1)
    return corners.reshape(-1, 4).astype(np.float32)


def overlaps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The intersection over the union of each pair: float32 `[m, n]` of `[m, 4]` and `[n, 4]`."""
    corner = np.maximum(one[:, None, :2], other[None, :, :2])
    extent = np.maximum(np.minimum(one[:, None, 2:], other[None, :, 2:]) - corner, 0.0)
    common = extent.prod(-1)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], -1) for boxes in (one, other)]
    return common / np.maximum(areas[0][:, None] + areas[1][None, :] - common, 1e-9)


def best(boxes: np.ndarray, scores: np.ndarray, count: int, limit: float = 0.7) -> list[int]:
    """The boxes with the highest scores of which no two overlap by more than a limit: at most so many indices."""
    left, kept = list(np.argsort(-scores, kind="stable")), []
    while left and len(kept) < count:
        kept.append(int(left.pop(0)))
        if left:
            near = overlaps(boxes[kept[-1:]], boxes[left])[0] > limit
            left = [index for index, is_near in zip(left, near, strict=True) if not is_near]
    return kept


def moves(boxes: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """What `moved` has to be given to make boxes into targets, both `[n, 4]`."""
    size, wanted = boxes[:, 2:] - boxes[:, :2], np.maximum(targets[:, 2:] - targets[:, :2], 1e-6)
    middle, aim = boxes[:, :2] + size / 2, targets[:, :2] + wanted / 2
    return np.concatenate([(aim - middle) / size, np.log(wanted / size)], 1).astype(np.float32)


def moved(boxes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Boxes moved by parts of their size, and larger by the exponent of the rest, both `[n, 4]`; cut to the image."""
    size = boxes[:, 2:] - boxes[:, :2]
    middle = np.clip(boxes[:, :2] + size / 2 + offsets[:, :2] * size, 0.0, 1.0)  # so that something is left of it
    half = size * np.exp(np.clip(offsets[:, 2:], -2.0, 2.0)) / 2
    return np.clip(np.concatenate([middle - half, middle + half], 1), 0.0, INSIDE).astype(np.float32)
