"""What the interpreter does not promise, asked here alone: classes, references, instructions, its own callables."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import dis
import functools
import gc
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, Final

# Signals without the enumerations of `signal`, whose conversion is Python that a signal may come into.
signals: Final = _signal

# The code of every function that `functools.singledispatch` gives.
DISPATCHING: Final[CodeType] = getattr(functools.singledispatch(len), "__code__")  # noqa: B009
# The class of what `functools.cache` and `functools.lru_cache` give.
CACHED: Final[type] = functools._lru_cache_wrapper

# Py_TPFLAGS_HEAPTYPE and Py_TPFLAGS_IMMUTABLETYPE: since 3.12 classes of C modules are on the heap, too.
_IS_ON_THE_HEAP: Final = 1 << 9
_IS_IMMUTABLE: Final = 1 << 8


def is_written_in_python(kind: type) -> bool:
    """Whether a class was made by a `class` statement, or as one is."""
    return kind.__flags__ & (_IS_ON_THE_HEAP | _IS_IMMUTABLE) == _IS_ON_THE_HEAP


# How many references there are to an object; `OF_A_LOCAL` to one that a name of the caller's alone has. This is the
# interpreter's function itself: a call in Python adds references, and more of them while calls go through a hook.
references: Final = sys.getrefcount


def _of_a_local() -> int:
    value: list[Any] = []
    return references(value)


# The question has some of them, more or fewer in each version: CPython 3.14 borrows what a name has.
OF_A_LOCAL: Final = _of_a_local()


def position(frame: FrameType) -> tuple[int | None, int | None, int | None, int | None]:
    """Line, last line, column and last column of the instruction that a frame is at."""
    return list(frame.f_code.co_positions())[frame.f_lasti // 2]  # an offset in bytes, two for each of these


def imported_names(code: CodeType) -> Iterator[str]:
    """The modules that code imports when it runs."""
    return (one.argval for one in dis.get_instructions(code) if one.opname == "IMPORT_NAME")


def dict_of(view: Any) -> Any:
    """The dict that a view of its keys, values or items shows; Python's own `mapping` is a proxy of it."""
    (shown,) = gc.get_referents(view)
    return shown
