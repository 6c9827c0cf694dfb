"""Branches that give different things, said in our words: TensorFlow's are an assertion without a text, or a page."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.core import origin, regions
from recgraph.errors import BranchError


def explain(name: str, error: BaseException, trace: TracebackType | None) -> BranchError | None:
    """The error for SubGraph `name` in place of one that TensorFlow raised for its branches; None for any other."""
    frame = origin.raised_in("cond_v2.py", trace)
    if frame is None or not isinstance(error, AssertionError | TypeError | ValueError):
        return None
    known = frame.f_locals
    graphs = known.get("graphs") or known.get("branch_graphs") or []
    is_cond = known.get("op_type") == frame.f_globals.get("_COND")
    names = ["true_fn", "false_fn"] if is_cond else [f"branch {i}" for i in range(len(graphs))]
    found = [f"{one}: {_outline(graph.structured_outputs)}" for one, graph in zip(names, graphs, strict=False)]
    return BranchError(
        f"SubGraph '{name}': the branches of a {'cond' if is_cond else 'switch_case'} return different structures "
        "or dtypes",
        where=origin.of_traceback(trace) or origin.here(),
        found="; ".join(found) or str(error),
        expected="the same structure and the same dtypes from every branch",
        next_step="return the same structure from every branch; tf.cast makes dtypes equal",
    )


def results(tensor: tf.Tensor) -> Iterator[tf.Tensor]:
    """What may come out as a tensor: where branches give it, the result of each of them, however deep they stand."""
    if not tf_private.is_graph_tensor(tensor):
        yield tensor
        return
    if tensor.op.type == "Identity":
        yield from results(tensor.op.inputs[0])
        return
    region = regions.region_of(tensor.op)
    if region is None or region.kind not in (regions.IF, regions.CASE):
        yield tensor
        return
    for graph in region.graphs:
        yield from results(graph.outputs[tensor.value_index])


class _BranchLeaf:
    def __init__(self, value: Any) -> None:
        shape = getattr(value, "shape", None)
        dims = shape if shape is None or shape.rank is None else list(shape)
        self._text = "None" if value is None else f"{value.dtype.name}{dims}"

    def __repr__(self) -> str:
        return self._text


def _outline(structure: Any) -> str:
    return str(tf.nest.map_structure(_BranchLeaf, structure))
