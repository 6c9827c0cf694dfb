"""Which files belong to Python or to installed libraries, and which to a program."""

from __future__ import annotations

import functools
import sysconfig
from typing import Final

_LIBRARIES: Final = tuple(
    path for key in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_paths().get(key))
)


@functools.cache
def is_installed(filename: str) -> bool:
    """Whether a file belongs to Python or to an installed library: there may be more places for these than ours."""
    return filename.startswith(_LIBRARIES) or bool({"site-packages", "dist-packages"} & set(filename.split("/")))
