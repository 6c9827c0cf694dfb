"""Loads TensorFlow and the op library when it is imported: the package does that first, to say what is missing.

Afterwards a SavedModel with SubGraphs loads in a process that has done no more than `import recgraph`.
"""

from __future__ import annotations

import itertools
import sys

from recgraph import native
from recgraph.errors import NativeLibraryError


def _is_run_as_a_program() -> bool:
    """Whether `python -m recgraph` imports the package, and no program that could handle an exception."""
    return sys.argv[:1] == ["-m"] and ("-m", "recgraph") in itertools.pairwise(sys.orig_argv)


try:
    native.ops()
except NativeLibraryError as error:
    if _is_run_as_a_program():
        raise SystemExit(f"Error: {error}") from None
    raise
