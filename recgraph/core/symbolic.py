"""Python that asks a tensor of a body for its value, said in our words: TensorFlow's are about eager mode."""

from __future__ import annotations

import linecache
import re
from types import TracebackType
from typing import Any, Final

from recgraph.core import origin
from recgraph.errors import RecgraphError, SymbolicError

_CONVERTED: Final = "in a function under @rg.subgraph, Python's `if`, `for` and `while` work on tensors"
# What is in TensorFlow's, NumPy's and Python's messages: what the body does, and what to do instead.
_MISTAKES: Final = {
    r"as a Python `bool`": (
        "asks Python whether a tensor is true, by `if`, `while`, `and`, `or` or `not`",
        f"write tf.cond, tf.while_loop or tf.logical_and; {_CONVERTED}",
    ),
    r"[Ii]terating over a symbolic": (
        "goes through a tensor in Python",
        f"write tf.unstack where its size is known, else tf.map_fn or tf.while_loop; {_CONVERTED}",
    ),
    r"'SymbolicTensor' object cannot be interpreted as an integer": (
        "gives a tensor to something that counts in Python, such as `range`",
        f"write tf.range and tf.while_loop; {_CONVERTED}",
    ),
    r"has no attribute 'numpy'|numpy\(\) is only available|to a numpy array|__array__": (
        "asks a tensor for its value",
        "use TensorFlow's operations in place of NumPy's; tf.print shows values when the graph runs",
    ),
    r"^len is not": (
        "asks Python for the length of a tensor",
        "write tf.shape(tensor)[0], or tensor.shape[0] where its size is known",
    ),
    r"not '?SymbolicTensor|'SymbolicTensor' object cannot be|symbolic `?tf\.Tensor": (
        "gives a tensor to something that needs its value",
        "use TensorFlow's operations: tf.cast for `int` and `float`, tf.gather for an index",
    ),
}


def explain(
    whose: str, error: BaseException, trace: TracebackType | None, converted: Any = None
) -> SymbolicError | None:
    """The error in place of one that a tensor without a value raised; None for any other.

    Args:
        whose: the body's, to begin the sentence: `SubGraph 'total'`.
        error: what was raised in the body.
        trace: of the error.
        converted: a function that AutoGraph has made, which knows the lines that it was made from.
    """
    if isinstance(error, RecgraphError) or not isinstance(error, AttributeError | TypeError | NotImplementedError):
        return None
    text = str(error)
    if "symbolic" not in text.lower() or (isinstance(error, AttributeError) and "'numpy'" not in text):
        return None
    found = next((told for pattern, told in _MISTAKES.items() if re.search(pattern, text)), None)
    if found is None:
        return None
    (what, instead), place = found, origin.of_traceback(trace, converted) or origin.here()
    return SymbolicError(
        f"{whose} {what}; a body is defined once for all values, so its tensors have none yet",
        where=place,
        found=_line_at(place),
        next_step=instead,
    )


def _line_at(place: str) -> str:
    """The text of `file:line`, as far as it can be read."""
    file, _, line = place.rpartition(":")
    return linecache.getline(file, int(line)).strip() if line.isdigit() else ""
