"""Ctrl-C in the middle of a converted call: it waits until the call is complete.

A graph cannot be interrupted, so the interrupt would come right behind it: when the variables are written already, and
the attributes and lists that the call also writes are not yet.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

_INTERRUPT: Final = int(signal.SIGINT)
_RAISES: Final = signal.default_int_handler


def whole(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The call, which Python's own Ctrl-C finds done as a whole or not at all. A second Ctrl-C does not wait."""

    def uninterrupted(parameters: Any) -> Any:
        # Only the main thread is interrupted; a program that handles the signal itself knows what it does.
        if threading.get_ident() != threading.main_thread().ident or _signal.getsignal(_INTERRUPT) is not _RAISES:
            return call(parameters)
        waiting: list[int] = []

        def wait(number: int, frame: Any) -> None:
            if waiting:
                _RAISES(number, frame)
            waiting.append(number)

        _signal.signal(_INTERRUPT, wait)
        try:
            result = call(parameters)
        finally:
            _signal.signal(_INTERRUPT, _RAISES)
        if waiting:
            raise KeyboardInterrupt
        return result

    return uninterrupted
