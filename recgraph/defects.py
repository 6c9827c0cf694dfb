"""What happens when our own code fails while it looks at a program: the program goes on, and the failure is told.

A defect of ours must not become the user's, so the function in question runs eagerly. It must not be hidden either: a
warning says so, `RECGRAPH_LOG=defects` shows the traceback, and `explain()` has it. With `RECGRAPH_DEFECTS=raise`, as
in our tests, it is raised.
"""

from __future__ import annotations

import os
import traceback

from recgraph import logs

_LOG = logs.logger("defects")

fatal = os.environ.get("RECGRAPH_DEFECTS", "") == "raise"


def contain(doing: str, error: Exception, instead: str = "without a graph here") -> str:
    """Tells of an unexpected exception that is about to be dropped.

    Args:
        doing: what failed, as "the conversion of step".
        error: the exception that is being handled.
        instead: how the program goes on.

    Returns:
        A sentence for `explain()`.

    Raises:
        Exception: `error`, if defects are fatal.
    """
    if fatal:
        raise error
    text = f"{doing} failed: {described(error)}"
    _LOG.warning("%s; this is a defect of recgraph, and the program goes on %s", text, instead)
    _LOG.info("the traceback:", exc_info=error)
    return text


def described(error: BaseException) -> str:
    """A sentence about an exception that is none of ours: its kind and text, or where it comes from if it has none."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    if text:
        return f"{kind}: {text}"[:300]
    places = traceback.extract_tb(error.__traceback__)
    return f"{kind} without a text" + (f", raised by {places[-1].name} ({_short(places[-1])})" if places else "")


def _short(place: traceback.FrameSummary) -> str:
    """The last parts of a file's path, and the line."""
    return f"{'/'.join(place.filename.split('/')[-2:])}:{place.lineno}"
