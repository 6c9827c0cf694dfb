"""What runs eagerly, as TensorFlow's own calls from Python see it: for tests that count operations.

Here and not among the tests: of what is theirs a converter would take the functions for the program's own.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

# Nothing public tells of each operation that Python runs, in order and before it runs.
from tensorflow.python import pywrap_tfe


@contextlib.contextmanager
def eager_operations(before: Callable[[int], Any] = lambda _: None) -> Iterator[list[str]]:
    """The operations that run eagerly in this thread, by type, in order; a call of a graph is one with its name.

    Python's collector waits meanwhile: it may find a queue or a writer that somebody else has left in a cycle, and
    these run an operation as they die.

    Args:
        before: called before each, with how many there have been.
    """
    seen: list[str] = []
    thread = threading.get_ident()

    def noting(execute: Callable[..., Any], place: int) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            is_seen = threading.get_ident() == thread
            if is_seen:
                before(len(seen))
            result = execute(*arguments)
            if is_seen:
                seen.append(str(arguments[place]))
            return result

        return call

    # By name, with the place of the operation's type among the arguments.
    ways = {"TFE_Py_FastPathExecute": 1, "TFE_Py_Execute": 2, "TFE_Py_ExecuteCancelable": 2}
    originals = {name: getattr(pywrap_tfe, name) for name in ways}
    collects = gc.isenabled()
    gc.disable()
    for name, place in ways.items():
        setattr(pywrap_tfe, name, noting(originals[name], place))
    try:
        yield seen
    finally:
        for name, original in originals.items():
            setattr(pywrap_tfe, name, original)
        if collects:
            gc.enable()
