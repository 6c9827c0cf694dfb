"""Which values of the forward run a gradient computes again, in place of reading them from its frame."""

from __future__ import annotations

import tensorflow as tf

from recgraph import ops
from recgraph.core import regions
from recgraph.core.environment import EnvironmentMap

# What is cheaper to make again than to keep, where nothing has to be kept for it.
_CHEAP = frozenset({"Const", "Identity", "Shape", "ShapeN", "Size", "Rank", "VariableShape"})

# Only places of what is there anyway: what they are made of is kept instead, which is often kept by others, too.
_PLACES = frozenset({"ConcatV2", "ExpandDims", "Pack", "Reshape", "Squeeze"})

# What is never made again, but kept, besides what is read of variables and tables, which may be written meanwhile.
# Where nobody writes a variable, its value is a slot of the environment, and no item of the frame.
_KEPT = frozenset({"Recgraph>Invoke", "Placeholder"})


def does_the_same_again(op: tf.Operation) -> bool:
    """Whether a body that holds `op` may be run a second time: no random numbers from a state, no side effects."""
    if regions.region_of(op) is not None or op.type == "Recgraph>Invoke":
        return True
    return ops.facts(op.type).does_the_same_again


def is_remade(op: tf.Operation, environment: EnvironmentMap, recompute: bool) -> bool:
    """Whether a gradient makes the results of `op` again.

    Args:
        op: of a forward graph.
        environment: which tensors need not be kept, since they can be read at any time.
        recompute: everything but what calls, branches and loops gave.
    """
    if op.control_inputs and ops.facts(op.type).only_reads:
        return False  # it may have waited for a write
    if recompute:
        reads = ops.facts(op.type).state is ops.State.READS
        kept = op.type in _KEPT or reads or regions.region_of(op) is not None
        return not kept and _stands_alone(op) and does_the_same_again(op)
    if op.control_inputs:
        return False
    if op.type in _PLACES:
        places = [s for s in op.inputs if s.dtype.is_integer] if op.type != "Pack" else []
        return all(is_remade(s.op, environment, recompute) for s in places)
    if op.type not in _CHEAP:
        return False
    known = (environment.outer(s) is not None or s.op.type == "ReadVariableOp" for s in op.inputs)
    return all(there or is_remade(s.op, environment, recompute) for there, s in zip(known, op.inputs, strict=True))


def _stands_alone(op: tf.Operation) -> bool:
    """Whether an operation refers to no function, which the graph of the gradient would not know."""
    attributes = op.node_def.attr.values()
    return not any(value.HasField("func") or value.list.func for value in attributes)
