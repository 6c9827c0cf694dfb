"""What the rooms tell about their work: `RECGRAPH_LOG=speculate` writes it to standard error, several with commas."""

from __future__ import annotations

import logging
import os


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
