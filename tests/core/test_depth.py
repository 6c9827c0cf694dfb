"""Depth costs heap and never stack: long chains in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CHAIN = """
import json, sys
import tensorflow as tf
threads, depth, gradient = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if threads:
    tf.config.threading.set_inter_op_parallelism_threads(threads)
import recgraph as rg
from recgraph import testing

inputs = (tf.TensorSpec([], tf.int32), tf.TensorSpec([]))
with rg.SubGraph("chain", inputs=inputs, outputs=tf.TensorSpec([]), gradient=gradient) as chain:
    n, x = chain.declared_arguments()
    chain.output(tf.cond(n > 0, lambda: 0.5 * chain(n - 1, x) + x, lambda: x))

x = tf.constant(1.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = chain(depth, x)
kept = testing.counters()
gradient = tape.gradient(y, x) if depth < 200_000 else x
del tape
with tf.GradientTape() as tape:  # dropped without asking for the gradient: frames are released all at once
    tape.watch(x)
    chain(depth, x)
del tape
left = testing.counters()
print(json.dumps({
    "value": float(y), "gradient": float(gradient), "kept": kept.live_frames, "peak": left.peak_invocations,
    "left": [left.live_frames, left.live_bytes, left.live_invocations],
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "depth", "gradient"), [(1, 100_000, "cache"), (0, 100_000, "cache"), (0, 20_000, "recompute")]
)
def test_a_long_chain_forward_and_backward(threads: int, depth: int, gradient: str) -> None:
    """With one inter-op thread and with the default; neither stack overflow nor anything left."""
    arguments = [sys.executable, "-c", CHAIN, str(threads), str(depth), gradient]
    done = subprocess.run(arguments, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    result = json.loads(done.stdout.decode().splitlines()[-1])
    assert result["value"] == pytest.approx(2.0)
    assert result["gradient"] == pytest.approx(2.0)
    assert result["kept"] >= depth
    assert result["peak"] >= depth
    assert result["left"] == [0, 0, 0]
