"""What is known about TensorFlow's operations, one row an operation: `table.py` says it, the other rooms ask here.

`facts` has what a row can state, `lookup` finds the row of an operation type, `graphs` looks at an operation of a
graph, with its functions and shapes. An operation that nobody has described is taken for the worst, unless TensorFlow
registers it as a function of its inputs.
"""

from recgraph.ops.facts import Calls, Facts, Fails, Form, Resource, State
from recgraph.ops.graphs import PHILOX, Effects, bodies, called, draws_from_philox, effects, in_order, is_call, may_fail
from recgraph.ops.lookup import described, facts, fails_only_in_shape

__all__ = [
    "PHILOX",
    "Calls",
    "Effects",
    "Facts",
    "Fails",
    "Form",
    "Resource",
    "State",
    "bodies",
    "called",
    "described",
    "draws_from_philox",
    "effects",
    "facts",
    "fails_only_in_shape",
    "in_order",
    "is_call",
    "may_fail",
]
