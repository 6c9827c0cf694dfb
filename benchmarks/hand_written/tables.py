"""Dynamic programs as people write them in TensorFlow: by diagonals, or cell by cell."""

from __future__ import annotations

import tensorflow as tf

FAR = 1e9


@tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([])])
def soft_dtw_by_diagonals(costs: tf.Tensor, smoothing: tf.Tensor) -> tf.Tensor:
    """The soft minimum over all ways to warp `[rows, columns]`: a diagonal is a vector over rows."""
    rows, columns = tf.shape(costs)[0], tf.shape(costs)[1]
    row = tf.range(rows + 1)

    def step(diagonal: tf.Tensor, before: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        column = diagonal - row
        is_cell = (row >= 1) & (column >= 1) & (column <= columns)
        places = tf.stack([tf.clip_by_value(row - 1, 0, rows - 1), tf.clip_by_value(column - 1, 0, columns - 1)], 1)
        above = lambda cells: tf.concat([[FAR], cells[:-1]], 0)  # noqa: E731
        around = tf.stack([above(before), above(last), last])
        cells = tf.gather_nd(costs, places) - smoothing * tf.reduce_logsumexp(-around / smoothing, 0)
        return diagonal + 1, last, tf.where(is_cell, cells, FAR)

    first = (tf.constant(2), tf.where(row == 0, 0.0, FAR), tf.fill([rows + 1], FAR))
    *_, last = tf.while_loop(lambda diagonal, *_: diagonal <= rows + columns, step, first)
    return last[rows]


@tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([])])
def soft_dtw_by_cells(costs: tf.Tensor, smoothing: tf.Tensor) -> tf.Tensor:
    """Returns the same soft minimum, one cell after another: what a loop of Python becomes in a `tf.function`."""
    rows, columns = tf.shape(costs)[0], tf.shape(costs)[1]
    width = columns + 1
    cells = tf.TensorArray(tf.float32, (rows + 1) * width, clear_after_read=False)
    for cell in tf.range((rows + 1) * width):
        i, j = cell // width, cell % width
        value = FAR
        if i == 0 and j == 0:
            value = 0.0
        elif i > 0 and j > 0:
            around = tf.stack([cells.read(cell - width - 1), cells.read(cell - width), cells.read(cell - 1)])
            value = costs[i - 1, j - 1] - smoothing * tf.reduce_logsumexp(-around / smoothing)
        cells = cells.write(cell, value)
    return cells.read((rows + 1) * width - 1)


@tf.function(input_signature=[tf.TensorSpec([None], tf.int32)] * 2)
def edit_distance_by_diagonals(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """How many edits make one sequence of the other."""
    rows, columns = tf.size(a), tf.size(b)
    row = tf.range(rows + 1)

    def step(diagonal: tf.Tensor, before: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        column = diagonal - row
        letters = tf.gather(a, tf.clip_by_value(row - 1, 0, rows - 1))
        others = tf.gather(b, tf.clip_by_value(column - 1, 0, columns - 1))
        above = lambda cells: tf.concat([[diagonal], cells[:-1]], 0)  # noqa: E731
        cells = tf.minimum(above(before) + tf.cast(letters != others, tf.int32), tf.minimum(above(last), last) + 1)
        return diagonal + 1, last, tf.where((row == 0) | (column <= 0), diagonal, cells)

    first = (tf.constant(2), tf.zeros([rows + 1], tf.int32), tf.ones([rows + 1], tf.int32))
    *_, last = tf.while_loop(lambda diagonal, *_: diagonal <= rows + columns, step, first)
    return last[rows]
