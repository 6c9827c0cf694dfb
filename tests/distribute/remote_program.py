"""A program that calls SubGraphs on two servers, the first of which has not loaded recgraph's operations."""

from __future__ import annotations

import json
import sys
from typing import Any

import tensorflow as tf

import recgraph as rg

HERE, THERE, BARE = "/job:localhost/task:0", "/job:worker/task:1", "/job:worker/task:0"


def define(weight: tf.Variable, engine: str) -> Any:
    """The power of a 1x1 matrix, by recursion."""
    with rg.SubGraph("power", [tf.TensorSpec([], tf.int32)], tf.TensorSpec([1, 1]), engine=engine) as power:
        n = power.input(tf.int32, name="n")
        power.output(tf.cond(n == 0, lambda: tf.ones([1, 1]), lambda: power(n - 1) @ weight))
    return power


def call(device: str, engine: str) -> dict[str, Any]:
    """A call and its gradient on a device."""
    with tf.device(device):
        weight = tf.Variable([[1.5]])
        power = define(weight, engine)
        with tf.GradientTape() as tape:
            result = power(tf.constant(4))
    gradient = tape.gradient(result, weight)  # outside: it goes where the call was
    with tf.device(device):
        rows = power.map(tf.range(3))
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner, tf.device(device):
            result = power(tf.constant(4))
        slope = inner.gradient(result, weight)
    return {
        "second": float(tf.squeeze(outer.gradient(slope, weight))),
        "graph": graph(device, engine),
        "result": float(tf.squeeze(result)),
        "gradient": float(tf.squeeze(gradient)),
        "rows": rows.numpy().ravel().tolist(),
        "on": result.backing_device,
    }


def graph(device: str, engine: str) -> list[Any]:
    """A `tf.function` with the call and its gradient on a device."""
    with tf.device(device):
        weight = tf.Variable([[1.5]])
        power = define(weight, engine)

    @tf.function(autograph=False)
    def step(n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device(device), tf.GradientTape() as tape:
            result = power(n)
        return result, tape.gradient(result, weight)

    result, gradient = step(tf.constant(4))
    return [float(tf.squeeze(result)), float(tf.squeeze(gradient)), result.backing_device]


def inputs(device: str) -> list[float]:
    """Arguments from here, and their gradients."""
    x = tf.constant([2.0, 3.0])
    with rg.SubGraph("squares", [tf.TensorSpec([None])], tf.TensorSpec([])) as squares:
        v = squares.input(tf.float32, [None], name="v")
        squares.output(tf.reduce_sum(v * v))
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.device(device):
            result = squares(x)
    return [float(result), *tape.gradient(result, x).numpy().tolist()]


def refused(device: str, weight_device: str) -> str:
    """What the error says."""
    try:
        with tf.device(weight_device):
            weight = tf.Variable([[1.5]])
        power = define(weight, "parallel")
        with tf.device(device):
            return f"no error, but {power(tf.constant(2)).numpy()}"
    except (rg.errors.RecgraphError, tf.errors.OpError) as error:
        return f"{type(error).__name__}: {error}"


def main(hosts: list[str]) -> None:
    """Everything."""
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": hosts}), job_name="client")
    seen = {
        "parallel": call(THERE, "parallel"),
        "batched": call(THERE, "batched"),
        "inputs": inputs(THERE),
        "bare": refused(BARE, BARE),
        "elsewhere": refused(THERE, "/job:client/task:0"),
        "here": call("/job:client/task:0", "parallel"),
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1:])
