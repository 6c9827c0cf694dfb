"""Where in the user's program an operation or a call was written."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
import traceback
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.cpython import facts, sources
from recgraph.cpython.parsing import parse

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OURS = tuple(os.path.join(_HERE, name) + os.sep for name in ("core", "keras", "native", "tf_private"))
_FOREIGN = tuple(os.path.join("site-packages", name) + os.sep for name in ("tensorflow", "keras", "recgraph"))
_OUR_FILES = tuple(os.path.join(_HERE, name) for name in ("testing.py", "errors.py"))


_REWRITTEN = "__autograph_generated_file"  # in the name of the file that AutoGraph writes its code to
_OF_AUTOGRAPH = "ag__"  # the name of its helpers in that code


@functools.lru_cache(maxsize=4096)  # stacks of operations have the same few functions in them
def _is_users(filename: str, function: str) -> bool:
    if filename.startswith(_OURS) or filename in _OUR_FILES:
        return False
    if filename.startswith("<string"):
        return not function.startswith("recgraph_")  # the wrappers of our ops, which TensorFlow generates
    if filename.startswith("<") or _REWRITTEN in filename:
        return filename.startswith(("<stdin", "<ipython"))
    return not any(part in filename for part in _FOREIGN) and "contextlib.py" not in filename


def user_frame() -> FrameType | None:
    """The innermost frame of the user's code on this thread's stack, as written or as AutoGraph has rewritten it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if _REWRITTEN in code.co_filename or _is_users(code.co_filename, code.co_name):
            return frame
        frame = frame.f_back
    return None


def _place(filename: str, line: int | None, function: str) -> str:
    """The `file:line` of an entry of a stack if it is the user's, or `""`."""
    filename = sources.original(filename)
    return f"{filename}:{line}" if _is_users(filename, function) else ""


def here() -> str:
    """The user's `file:line` that is being executed, or `""`."""
    stack = reversed(tf_private.extract_stack())  # knows the lines that AutoGraph's code was made from
    return next(filter(None, (_place(entry.filename, entry.lineno, entry.name) for entry in stack)), "")


def of_operation(op: tf.Operation) -> str:
    """The user's `file:line` that made `op`, or `""`. A graph that is a copy knows the places of its `origins`."""
    copied: str | None = getattr(op.graph, "origins", {}).get(op.name)
    if copied is not None:
        return copied
    stack = reversed(op.traceback or ())  # an operation of a loaded function has none
    return next(filter(None, (_place(entry.filename, entry.lineno, entry.name) for entry in stack)), "")


def of_traceback(trace: TracebackType | None, converted: Any = None) -> str:
    """The user's `file:line` that an exception passed through last, or `""`.

    Args:
        trace: of the exception.
        converted: a function that AutoGraph has made, which knows the lines that it was made from.
    """
    lines = {(key.filename, key.lineno): found.loc for key, found in getattr(converted, "ag_source_map", {}).items()}
    for entry in reversed(traceback.extract_tb(trace)):
        written = _written(lines, entry.filename, entry.lineno) or entry
        if place := _place(written.filename, written.lineno, entry.name):
            return place
    return ""


def _written(lines: dict[tuple[str, int], Any], filename: str, line: int | None) -> Any:
    """What was written for a line that AutoGraph has made; `raise` and the like, which it adds, are of the line above.

    None for a line of another file.
    """
    before = [key for key in lines if key[0] == filename and key[1] <= (line or 0)]
    return lines[max(before)] if before else None


def raised_in(file: str, trace: TracebackType | None) -> FrameType | None:
    """The frame that raised an exception, if it is of a file of TensorFlow's."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame if trace is not None and trace.tb_frame.f_code.co_filename.endswith(file) else None


def call_label() -> str:
    """A label for the call that is being executed: the first name in its arguments.

    `tree_lstm(left[node])` is labelled `left`, also where AutoGraph has rewritten it. Empty where the source cannot
    be read.
    """
    frame = user_frame()
    call = None if frame is None else _call_expression(frame)
    arguments = [] if call is None else _arguments(call)
    names = [] if not arguments else list(_names(arguments[0]))
    if not names:
        return ""
    first = min(names, key=lambda node: (node.lineno, node.col_offset, -(node.end_col_offset or 0)))
    return first.attr if isinstance(first, ast.Attribute) else first.id


def _arguments(call: ast.Call) -> list[ast.expr]:
    """The positional arguments as the user wrote them; AutoGraph makes `f(x)` `ag__.converted_call(f, (x,), ...)`."""
    if not _is_autographs(call.func):
        return call.args
    packed = call.args[1] if len(call.args) > 1 else None
    while isinstance(packed, ast.BinOp):  # f(x, *more): (x,) + tuple(more)
        packed = packed.left
    if isinstance(packed, ast.Call):  # f(*more): tuple(more)
        return packed.args
    return packed.elts if isinstance(packed, ast.Tuple) else []


def _names(expression: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    """The names in it that are the user's: AutoGraph reads `x` by `ag__.ld(x)`."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Name | ast.Attribute) and not _is_autographs(node):
            yield node


def _is_autographs(node: ast.AST) -> bool:
    """Whether a node is AutoGraph's module of helpers, or one of them."""
    base = node.value if isinstance(node, ast.Attribute) else node
    return isinstance(base, ast.Name) and base.id == _OF_AUTOGRAPH


def _call_expression(frame: FrameType) -> ast.Call | None:
    """The call that `frame` is in the middle of, from the position of its current instruction."""
    line, end_line, column, end_column = facts.position(frame)
    if line is None or end_line is None or column is None or end_column is None:
        return None
    source = [linecache.getline(frame.f_code.co_filename, i, frame.f_globals) for i in range(line, end_line + 1)]
    if not all(source):
        return None
    encoded = [text.encode() for text in source]
    encoded[-1] = encoded[-1][:end_column]
    encoded[0] = encoded[0][column:]
    try:
        tree = parse(b"(" + b"".join(encoded) + b")", mode="eval")
    except (SyntaxError, SystemError):
        return None
    return tree.body if isinstance(tree.body, ast.Call) else None
