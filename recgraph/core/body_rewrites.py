"""What is run in place of a SubGraph's bodies as they were written: the same, rewritten to cost less.

The rewriting is another room's: it registers itself, as engines do. It makes definitions like those that the user
wrote, so that linking, gradients and both engines know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from recgraph import tf_private
from recgraph.core.definition import Definition

# Gives the definition to run in place of one, and what was done, as lines; the same one where nothing was to be done.
Preparer: TypeAlias = Callable[[Definition], tuple[Definition, list[str]]]
_preparers: list[Preparer] = []


def register(preparer: Preparer) -> None:
    """Makes a way of rewriting bodies known."""
    _preparers.append(preparer)


def prepared(root: Definition) -> Definition:
    """The definition that is run where `root` is called from outside; made at the first call."""
    with root.lock:
        if root.prepared is None:
            root.prepared = root
            if root.optimize is not False:
                with tf_private.without_recording():
                    for preparer in _preparers:  # each goes on with what the one before has made
                        root.prepared, lines = preparer(root.prepared)
                        root.rewritings = [*root.rewritings, *lines]
        found: Definition = root.prepared
        return found
