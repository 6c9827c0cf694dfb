"""Lets an editable install win over folders of the same name; setup.py installs a copy, which a .pth file starts.

A folder `recgraph` without `__init__.py`, such as a clone of the repository, is a namespace package of that name for a
program that is started beside it. An installed package wins over it, as it is on Python's path. An editable install is
on none: its finder is asked after Python's own, which has found the folder by then, and the program gets a module
without anything in it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

PACKAGE: Final = "recgraph"


class RealPackages:
    """A finder before Python's own: what that takes for a namespace package is looked for by the finders after it."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The package, where one is found that has contents; a package on Python's path goes first, as ever."""
        if name != PACKAGE or PathFinder not in sys.meta_path:
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.origin is not None:
            return found
        for finder in sys.meta_path[sys.meta_path.index(PathFinder) + 1 :]:
            other = finder.find_spec(name, path, target)
            if other is not None and other.origin is not None:
                return other
        return None


def install() -> None:
    """Puts the finder first, once."""
    if RealPackages not in sys.meta_path:
        sys.meta_path.insert(0, RealPackages)
