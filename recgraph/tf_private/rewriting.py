"""Which parts of TensorFlow's graph optimizer run, so that a graph computes what its operations do one by one."""

from __future__ import annotations

from typing import Any

# The parts that rewrite values, by name, with the setting that turns each on or off, in TensorFlow's own order. The
# setting of the first also needs that of "arithmetic".
_PARTS = {
    "common_subgraph_elimination": "common_subgraph_elimination",
    "constfold": "constant_folding",
    "shape": "shape_optimization",
    "arithmetic": "arithmetic_optimization",
    "RecgraphDependencyOptimizer": None,
    "remap": "remapping",
    "loop": "loop_optimization",
}


def keep_values(rewrites: Any) -> None:
    """Changes a `RewriterConfig` so that no rewrite changes more than rounding.

    The parts that rewrite values run between two of ours: the first hides the operations that they would change by
    more, the second reveals these again (`cc/kernels/opaque_operations.cc`; docs/graph_optimizer.md has the stages). A
    part that is turned off stays so.

    They run without TensorFlow's optimization of dependencies, which is wrong in two ways, but with a part of it. It
    drops the edge from a read of a variable to the next write where another way leads from one to the other; if that
    way is by a shape alone, it is folded away afterwards, and the write may come first. And of `(0 + x) + x` in a
    branch it makes a result without a value. What is safe of it, and lets operations be fused, is done by
    `cc/kernels/dependency_optimizer.cc`.
    """
    off = rewrites.OFF
    parts = [name for name, setting in _PARTS.items() if setting is None or getattr(rewrites, setting) != off]
    for setting in filter(None, _PARTS.values()):
        setattr(rewrites, setting, off)
    rewrites.dependency_optimization = off
    for name in ["RecgraphHideOperations", *parts, "RecgraphRevealOperations"]:
        rewrites.custom_optimizers.add().name = name
