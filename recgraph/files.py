"""Files that are written as a whole or not at all: beside the old one, which is replaced at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Opens a file for writing that takes the place of `path` at the end, or leaves no trace if the body fails.

    A link stays one, to the new file. What is no file, such as a pipe or `/dev/stdout`, is written as it is.

    Raises:
        OSError: the file cannot be written, a disk is full; it names `path`.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        with open(path, "wb") as stream:
            yield stream
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and error.filename is None:  # a write knows its number alone
            error.filename = os.fspath(path)
        raise


@contextlib.contextmanager
def filling(folder: str | os.PathLike[str], last: str) -> Iterator[Path]:
    """Gives a folder to write to, the content of which goes to `folder` at the end, or nowhere if the body fails.

    What is in `folder` under the same names is replaced; the rest stays.

    Args:
        folder: it is made if it is not there.
        last: the file without which the others are nothing. It leaves first and comes last, so that a reader never
            finds it beside what belongs to another one.

    Raises:
        OSError: the folder cannot be written.
    """
    target = Path(folder)
    is_new = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        # In the folder and not beside it: the same file system, and the same permissions.
        with tempfile.TemporaryDirectory(dir=target, prefix=".writing.") as beside:
            yield Path(beside)
            _move(Path(beside), target, last)
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):  # it may not have been made
                target.rmdir()
        raise


def _move(written: Path, folder: Path, last: str) -> None:
    (folder / last).unlink(missing_ok=True)
    for part in sorted(written.iterdir(), key=lambda part: part.name == last):
        if (folder / part.name).is_dir():
            shutil.rmtree(folder / part.name)
        os.replace(part, folder / part.name)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text as UTF-8, as a whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(path) as stream:
        stream.write(text.encode())


def _umask() -> int:
    # The mask can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
