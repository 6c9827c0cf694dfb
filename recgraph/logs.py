"""What the rooms tell about their work: `RECGRAPH_LOG=speculate` writes it to standard error, several with commas."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator

# Seconds after which people wonder what happens.
PATIENCE = 5.0


def logger(room: str) -> logging.Logger:
    """The logger of a room, `recgraph.<room>`: silent unless `RECGRAPH_LOG` names it or the program sets a level.

    Args:
        room: a folder of the package.

    Returns:
        Its logger. It tells at level INFO what happened, and at DEBUG every detail.
    """
    made = logging.getLogger(f"recgraph.{room}")
    if room in os.environ.get("RECGRAPH_LOG", "").split(",") and made.level == logging.NOTSET:
        made.setLevel(logging.INFO)
        made.propagate = False
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(f"[{room}] %(message)s"))
        made.addHandler(handler)
    return made


@contextlib.contextmanager
def when_it_takes_long(log: logging.Logger, what: str) -> Iterator[None]:
    """Says what happens, at level WARNING and while it does, if it takes more than `PATIENCE` seconds.

    Args:
        log: the logger of a room.
        what: what happens, as a sentence that goes on with how long it has taken.
    """
    timer = threading.Timer(PATIENCE, log.warning, (f"{what} has taken {PATIENCE:g} s so far",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
