"""Imports TensorFlow without the lines of information that its libraries write while they are loaded."""

from __future__ import annotations

import faulthandler
import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

# They are written before anything can set a log level: as libraries are loaded. Information has a second line.
_INFORMATION: Final = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|I0000 .*|.*: I (external/)?(local_)?(org_)?tensorflow/.*|To enable the following instructions: .*"
)


def import_quietly(name: str) -> ModuleType:
    """Imports a module; of what libraries write to standard error meanwhile, all but information is shown afterwards.

    A user who sets TF_CPP_MIN_LOG_LEVEL=0 sees everything. So does one with a fault handler, which would write where
    nobody looks.
    """
    if name in sys.modules or os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
        return importlib.import_module(name)
    if faulthandler.is_enabled() or not _has_standard_error():
        return importlib.import_module(name)
    with _without_information():
        return importlib.import_module(name)


def _has_standard_error() -> bool:
    try:
        os.fstat(2)
    except OSError:
        return False
    return sys.stderr is not None


@contextmanager
def _without_information() -> Iterator[None]:
    """Keeps what is written to file 2 and shows it at the end; a crash says where it happened all the same."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as written, open(stderr, "wb") as shown:
        faulthandler.enable(shown)
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            faulthandler.disable()
            written.seek(0)
            shown.writelines(line for line in written if not _INFORMATION.fullmatch(line.rstrip(b"\r\n")))
