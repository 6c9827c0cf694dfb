"""Files: where the data lies, compression, atomic writing, line reading, the error that points at a place in a file."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from recgraph.files import replacing

PathLike = str | os.PathLike[str]

DATA_VARIABLE = "RECGRAPH_DATA"
"""The environment variable that names the data folder, where none is given."""

# The ending of a name -> a stream that packs what is written to another, or unpacks what is read from it.
_PACKED: dict[str, Callable[[IO[bytes], str], Any]] = {
    ".xz": lambda stream, mode: lzma.LZMAFile(stream, cast(Any, mode)),  # noqa: SIM115
    # Without a name and a time inside: equal contents give equal files.
    ".gz": lambda stream, mode: gzip.GzipFile("", cast(Any, mode), fileobj=stream, mtime=0),
    ".bz2": lambda stream, mode: bz2.BZ2File(stream, cast(Any, mode)),
}
COMPRESSIONS = tuple(_PACKED)
"""The endings of names whose files are compressed, by every reader and every writer."""

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

    What is written is compressed where the name ends in `.xz`, `.gz` or `.bz2`, as `open_bytes` reads it.

    Raises:
        OSError: the file cannot be written, a disk is full; it names `path`.
    """
    with replacing(path) as stream, _packing(stream, Path(path).suffix, "wb") as packed:
        yield packed


def _packing(stream: IO[bytes], ending: str, mode: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    """The stream itself, or one that packs or unpacks."""
    pack = _PACKED.get(ending)
    return contextlib.nullcontext(stream) if pack is None else pack(stream, mode)


@contextlib.contextmanager
def open_bytes(path: PathLike) -> Iterator[IO[bytes]]:
    """Opens a plain or compressed file (`.xz`, `.gz`, `.bz2`) for reading bytes."""
    with open(path, "rb") as stream, _packing(stream, Path(path).suffix, "rb") as unpacked:
        yield unpacked


def read_raw_lines(path: PathLike, error: type[DataFormatError] = DataFormatError) -> Iterator[tuple[int, bytes]]:
    """Yields (line number, bytes with the line end) of a plain or compressed file.

    Raises:
        DataFormatError: (or the given subclass) the name says that the file is compressed, and it is damaged or is not.
    """
    number = 0
    try:
        with open_bytes(path) as stream:
            for number, raw in enumerate(stream, 1):
                yield number, raw
    except (lzma.LZMAError, zlib.error, EOFError, OSError) as cause:
        if isinstance(cause, OSError) and cause.errno is not None:  # the machine's, and not the contents'
            raise
        expected = f"{Path(path).suffix[1:]} data"
        raise error(path, number + 1, 1, expected, f"a damaged or cut-off file ({cause})") from cause


def read_lines(path: PathLike, error: type[DataFormatError] = DataFormatError) -> Iterator[tuple[int, str]]:
    """Yields (line number, text without its line end) of a UTF-8 file, plain or compressed (`.xz`, `.gz`, `.bz2`).

    Lines end at `\\n` only: the texts contain U+0085 and U+00A0, at which `str.splitlines` would cut.

    Raises:
        DataFormatError: (or the given subclass) bad UTF-8, with line and column; a damaged compressed file.
    """
    for number, raw in read_raw_lines(path, error):
        yield number, decode_line(raw, path, number, error)


def unpacked_lines(stream: Iterable[str]) -> Iterator[str]:
    """The lines of a text file that was opened with `errors="surrogateescape"`; unpacked, if its name says so.

    Args:
        stream: an open file; any other lines are passed on.

    Raises:
        DataFormatError: a damaged compressed file.
    """
    name = getattr(stream, "name", None)
    if not isinstance(name, str) or Path(name).suffix not in COMPRESSIONS:
        yield from stream
        return
    for _, raw in read_raw_lines(name):
        yield raw.decode("utf-8", "surrogateescape")


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
