"""Where in the user's program an operation or a call was written."""

from __future__ import annotations

import ast
import linecache
import os
import sys
import traceback
from types import FrameType, TracebackType

import tensorflow as tf

from recgraph import tf_private

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OURS = tuple(os.path.join(_HERE, name) + os.sep for name in ("core", "native"))
_FOREIGN = tuple(os.path.join("site-packages", name) + os.sep for name in ("tensorflow", "keras", "recgraph"))
_OUR_FILES = tuple(os.path.join(_HERE, name) for name in ("tf_private.py", "testing.py", "errors.py"))


def _is_users(filename: str) -> bool:
    if filename.startswith(_OURS) or filename in _OUR_FILES:
        return False
    if filename.startswith("<") or "__autograph_generated_file" in filename:
        return filename.startswith("<stdin") or filename.startswith("<string") or filename.startswith("<ipython")
    return not any(part in filename for part in _FOREIGN) and "contextlib.py" not in filename


def user_frame() -> FrameType | None:
    """The innermost frame of the user's code on this thread's stack; None where AutoGraph has rewritten it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        if "__autograph_generated_file" in frame.f_code.co_filename:
            return None
        frame = frame.f_back
    return frame


def here() -> str:
    """The user's `file:line` that is being executed, or `""`."""
    for entry in reversed(tf_private.extract_stack()):  # knows the lines that AutoGraph's code was made from
        if _is_users(entry.filename):
            return f"{entry.filename}:{entry.lineno}"
    return ""


def of_operation(op: tf.Operation) -> str:
    """The user's `file:line` that made `op`, or `""`."""
    for entry in reversed(op.traceback):
        if _is_users(entry.filename):
            return f"{entry.filename}:{entry.lineno}"
    return ""


def of_traceback(trace: TracebackType | None) -> str:
    """The user's `file:line` that an exception passed through last, or `""`."""
    for entry in reversed(traceback.extract_tb(trace)):
        if _is_users(entry.filename):
            return f"{entry.filename}:{entry.lineno}"
    return ""


def raised_by(file: str, trace: TracebackType | None) -> bool:
    """Whether an exception was raised in, or below, a file of TensorFlow."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.endswith(file)


def call_label() -> str:
    """A label for the call that is being executed: the first name in its arguments.

    `tree_lstm(left[node])` is labelled `left`. Empty where the source cannot be read.
    """
    frame = user_frame()
    if frame is None:
        return ""
    call = _call_expression(frame)
    if call is None or not call.args:
        return ""
    names = [node for node in ast.walk(call.args[0]) if isinstance(node, ast.Name | ast.Attribute)]
    if not names:
        return ""
    first = min(names, key=lambda node: (node.lineno, node.col_offset, -(node.end_col_offset or 0)))
    return first.attr if isinstance(first, ast.Attribute) else first.id


def _call_expression(frame: FrameType) -> ast.Call | None:
    """The call that `frame` is in the middle of, from the position of its current instruction."""
    positions = list(frame.f_code.co_positions())
    line, end_line, column, end_column = positions[frame.f_lasti // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    source = [linecache.getline(frame.f_code.co_filename, i) for i in range(line, end_line + 1)]
    if not all(source):
        return None
    encoded = [text.encode() for text in source]
    encoded[-1] = encoded[-1][:end_column]
    encoded[0] = encoded[0][column:]
    try:
        tree = ast.parse(b"(" + b"".join(encoded) + b")", mode="eval")
    except SyntaxError:
        return None
    return tree.body if isinstance(tree.body, ast.Call) else None
