"""Whether substitutions are asked for."""

from __future__ import annotations

import os

VARIABLE = "RECGRAPH_OPTIMIZE"


def is_asked_for(given: bool | None) -> bool:
    """Whether to rewrite what says `optimize=given`: RECGRAPH_OPTIMIZE=1 asks for what does not say."""
    return os.environ.get(VARIABLE) == "1" if given is None else given


def is_off() -> bool:
    """Whether nothing is to be rewritten, whoever asks for it."""
    return os.environ.get(VARIABLE) == "0"
