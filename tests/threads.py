"""Work in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def at_once(*works: Callable[[], Any]) -> None:
    """Runs each in a thread of its own; an error in one is an error here."""
    errors: list[BaseException] = []

    def run(work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
