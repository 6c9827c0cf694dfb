"""Ctrl-C in the middle of a converted call: it waits until the call is complete.

A graph that has not come to an end is cancelled, and nothing was done then (`tf_private/cancelling.py`). Behind it the
interrupt would come when the variables are written already, and the attributes and lists that the call also writes are
not yet: so there it waits.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

from recgraph import tf_private

_INTERRUPT: Final = int(signal.SIGINT)
_RAISES: Final = signal.default_int_handler


class _Wait(tf_private.Handler):
    """Takes note of the first Ctrl-C, which cancels a graph that is running."""

    def __init__(self) -> None:
        self.has_come = False

    def __call__(self, number: int, frame: Any) -> None:
        if self.has_come:
            _RAISES(number, frame)
        self.has_come = True


def whole(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The call, which Python's own Ctrl-C finds done as a whole or not at all. A second Ctrl-C does not wait."""

    def uninterrupted(parameters: Any) -> Any:
        # Only the main thread is interrupted; a program that handles the signal itself knows what it does.
        if threading.get_ident() != threading.main_thread().ident or _signal.getsignal(_INTERRUPT) is not _RAISES:
            return call(parameters)
        wait = _Wait()
        _signal.signal(_INTERRUPT, wait)
        try:
            result = call(parameters)
        finally:
            _signal.signal(_INTERRUPT, _RAISES)
        if wait.has_come:
            raise KeyboardInterrupt
        return result

    return uninterrupted
