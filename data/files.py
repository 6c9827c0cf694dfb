"""Files: where the data lies, atomic writing, line reading, and the error that points at a place in a file."""

from __future__ import annotations

import contextlib
import lzma
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

PathLike = str | os.PathLike[str]

DATA_VARIABLE = "RECGRAPH_DATA"
"""The environment variable that names the data folder, where none is given."""

# What Python makes of a byte that is not UTF-8, where it is told to let it pass (`errors="surrogateescape"`).
_ESCAPED = re.compile("[\ud800-\udfff]")


class DataFormatError(ValueError):
    """A line of a data file is malformed.

    Attributes:
        file: name of the file, as given.
        line: line number, from 1.
        column: character in the line, from 1.
        expected: what was expected there.
        found: what was found there.
    """

    def __init__(self, file: PathLike, line: int, column: int, expected: str, found: str):
        super().__init__(f"{os.fspath(file)}:{line}:{column}: expected {expected}, found {found}")
        self.file = os.fspath(file)
        self.line = line
        self.column = column
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[type, tuple[str, int, int, str, str]]:
        return type(self), (self.file, self.line, self.column, self.expected, self.found)


def data_dir(path: PathLike | None = None) -> Path:
    """Returns the folder of the data sets.

    Args:
        path: the folder; by default the environment variable `RECGRAPH_DATA`.

    Raises:
        FileNotFoundError: no folder was given, or it does not exist.
    """
    name = os.fspath(path) if path is not None else os.environ.get(DATA_VARIABLE, "")
    if not name:
        raise FileNotFoundError(
            f"no data folder given: pass one, or set {DATA_VARIABLE} to it (export {DATA_VARIABLE}=/path/to/data); "
            "`recgraph data fetch sst` fills an empty one"
        )
    folder = Path(name).expanduser()
    if not folder.is_dir():
        origin = "given" if path is not None else f"named by {DATA_VARIABLE}"
        raise FileNotFoundError(f"the data folder {folder} ({origin}) does not exist or is not a folder")
    return folder


@contextlib.contextmanager
def atomic_file(path: PathLike) -> Iterator[IO[bytes]]:
    """Opens a file for writing that takes the place of `path` at the end, or leaves no trace if the body fails.

    Raises:
        OSError: the file cannot be written, a disk is full; it names `path`.
    """
    target = Path(path)
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


def _umask() -> int:
    # The mask can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def open_bytes(path: PathLike) -> Iterator[IO[bytes]]:
    """Opens a plain or `.xz` file for reading bytes."""
    name = os.fspath(path)
    stream: IO[bytes] = lzma.open(name, "rb") if name.endswith(".xz") else open(name, "rb")  # noqa: SIM115
    with stream:
        yield stream


def read_lines(path: PathLike, error: type[DataFormatError] = DataFormatError) -> Iterator[tuple[int, str]]:
    """Yields (line number, text without its line end) of a UTF-8 file, plain or `.xz`.

    Lines end at `\\n` only: the texts contain U+0085 and U+00A0, at which `str.splitlines` would cut.

    Raises:
        DataFormatError: (or the given subclass) bad UTF-8, with line and column; a damaged `.xz` file.
    """
    number = 0
    try:
        with open_bytes(path) as stream:
            for number, raw in enumerate(stream, 1):
                yield number, decode_line(raw, path, number, error)
    except (lzma.LZMAError, EOFError) as cause:
        raise error(path, number + 1, 1, "xz data", f"a damaged or cut-off file ({cause})") from cause


def decode_line(raw: bytes, file: PathLike, number: int, error: type[DataFormatError]) -> str:
    """Decodes one line and strips its line end (and, on line 1, a byte order mark)."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if number == 1:
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as cause:
        column = len(raw[: cause.start].decode("utf-8")) + 1
        raise error(file, number, column, "UTF-8 text", f"the byte 0x{raw[cause.start]:02x}") from cause


def require_utf8(text: str, file: PathLike, number: int, error: type[DataFormatError] = DataFormatError) -> str:
    """A line of text that was read with `errors="surrogateescape"`, or an argument of a command.

    Args:
        text: the line.
        file: where it comes from, for the error.
        number: of the line, for the error.
        error: the class of the error.

    Returns:
        The text, without a byte order mark in line 1.

    Raises:
        DataFormatError: (or the given subclass) it held a byte that is not UTF-8; with line and column.
    """
    if escaped := _ESCAPED.search(text):
        found = f"the byte 0x{ord(escaped.group()) & 0xFF:02x}"
        raise error(file, number, escaped.start() + 1, "UTF-8 text", found)
    return text.removeprefix("\ufeff") if number == 1 else text
