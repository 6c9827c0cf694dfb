"""What TensorFlow's profiler shows of a batched call."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

import recgraph as rg


def test_the_profiler_shows_blocks_and_their_rows(tmp_path: Path) -> None:
    """The part of a call that a thread has, each run of a block, and the product of a weight's gradient."""
    weight = tf.Variable(tf.eye(3))
    with rg.SubGraph("power", outputs=tf.TensorSpec([1, 3]), engine="batched") as power:
        n, x = power.input(tf.int32), power.input(shape=[1, 3])
        power.output(tf.cond(n > 0, lambda: tf.matmul(power(n - 1, x), weight), lambda: x))
    tf.profiler.experimental.start(str(tmp_path))
    with tf.GradientTape() as tape:
        y = power.map(tf.constant([3, 3]), tf.ones([2, 1, 3]))
    tape.gradient(y, weight)
    tf.profiler.experimental.stop()
    (path,) = tmp_path.rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    shown: dict[str, set[int]] = {}
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            name = plane.event_metadata[event.metadata_id].name
            numbers = {stat.int64_value or stat.uint64_value for stat in event.stats}
            shown.setdefault(name, set()).update(numbers)
    assert {f"recgraph: {name}" for name in ("power.rec", "power.grad", "outer products")} <= set(shown)
    rows = [numbers for name, numbers in shown.items() if name.startswith("recgraph: ") and ".block" in name]
    assert rows
    assert all(2 in numbers for numbers in rows)
