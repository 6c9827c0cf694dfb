"""Pre-trained word vectors in text form, `word v1 v2 ...`, as an embedding matrix for a `Vocabulary`."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

import numpy as np

from recgraph.data.files import DataFormatError, PathLike, decode_line, read_raw_lines
from recgraph.data.vocabulary import Vocabulary

_SHOWN = 40  # characters of what is no number, in a message


class VectorFormatError(DataFormatError):
    """A line of a vector file is malformed; see `DataFormatError` for the attributes."""


class Embeddings(NamedTuple):
    """An embedding matrix and how much of it came from the file.

    Attributes:
        matrix: float32 [words in the vocabulary, dimension].
        found: bool [words in the vocabulary]; True where the file has the word or its lower case.
    """

    matrix: np.ndarray
    found: np.ndarray

    @property
    def coverage(self) -> float:
        """Share of the vocabulary, `<unk>` not counted, that has a vector."""
        return float(self.found[1:].mean()) if len(self.found) > 1 else 0.0

    def __str__(self) -> str:
        count, dimension = self.matrix.shape
        return f"{self.found.sum()} of {count - 1} words ({self.coverage:.1%}) have a vector of {dimension} numbers"


def load_embeddings(vocabulary: Vocabulary, path: PathLike, *, seed: int = 0, scale: float = 0.05) -> Embeddings:
    """Reads the vectors of a vocabulary's words from a text file, plain or compressed (`.xz`, `.gz`, `.bz2`).

    A word gets the vector of its own spelling, or else of its lower case. Words without a vector are drawn uniformly
    from [-scale, scale).

    Args:
        vocabulary: the words.
        path: a file of lines `word v1 v2 ... vD`.
        seed: of the random vectors.
        scale: bound of the random vectors.

    Returns:
        An `Embeddings` with a float32 matrix `[len(vocabulary), D]`.

    Raises:
        VectorFormatError: the file is no table of vectors, whether its words are wanted or not: a line has fewer values
            than the first, does not begin and end with a number, or is not UTF-8; a value of a wanted word is not a
            finite number; there is no line; with file, line and column.
    """
    wanted = {form for word in vocabulary.words[1:] for form in (word, word.lower())}
    vectors = dict(read_vectors(path, wanted))
    dimension = _dimension(path)
    matrix = np.random.default_rng(seed).uniform(-scale, scale, (len(vocabulary), dimension)).astype(np.float32)
    found = np.zeros(len(vocabulary), bool)
    for number, word in enumerate(vocabulary.words[1:], 1):
        vector = vectors.get(word, vectors.get(word.lower()))
        if vector is not None:
            matrix[number], found[number] = vector, True
    return Embeddings(matrix, found)


def read_vectors(path: PathLike, wanted: Container[str] | None = None) -> Iterator[tuple[str, np.ndarray]]:
    """Yields (word, float32 [dimension]) for each line, or for each wanted word.

    A first line of two numbers (count and dimension, as word2vec writes) is passed over. Words may hold spaces: the
    values are counted from the right.

    Args:
        path: of the file, plain or compressed (`.xz`, `.gz`, `.bz2`).
        wanted: the words whose vectors to read; all by default.

    Raises:
        VectorFormatError: see `load_embeddings`.
    """
    dimension = 0
    for number, line in _data_lines(path):
        dimension = dimension or line.count(b" ")
        if line.count(b" ") < dimension or not dimension:
            expected = f"a word and {dimension or 'at least 1'} values"
            raise VectorFormatError(path, number, len(line) + 1, expected, f"{line.count(b' ')} values")
        raw, *values = line.rsplit(b" ", dimension)
        word = decode_line(raw, path, number, VectorFormatError)
        if wanted is None or word in wanted:
            yield word, _parse_values(values, path, number, len(word) + 2)
        elif not (_is_finite(values[0]) and _is_finite(values[-1])):
            # Enough to tell that a line holds no vector; reading all numbers of millions of lines takes minutes.
            _parse_values(values, path, number, len(word) + 2)


def _data_lines(path: PathLike) -> Iterator[tuple[int, bytes]]:
    """Yields the numbered lines that hold a vector, without line end.

    Raises:
        VectorFormatError: no such line, or a damaged compressed file.
    """
    number = count = 0
    for number, line in read_raw_lines(path, VectorFormatError):
        line = line.rstrip(b" \r\n")
        if number > 1 or not _is_header(line):
            count += 1
            yield number, line
    if not count:
        raise VectorFormatError(path, number + 1, 1, "a word and its values", "the end of the file")


def _is_header(line: bytes) -> bool:
    fields = line.split(b" ")
    return len(fields) == 2 and all(field.isdigit() for field in fields)


def _dimension(path: PathLike) -> int:
    return next(line.count(b" ") for _, line in _data_lines(path))


def _parse_values(values: list[bytes], path: PathLike, number: int, column: int) -> np.ndarray:
    try:
        vector = np.array(values, np.float32)
        if np.isfinite(vector).all():
            return vector
    except ValueError:
        pass
    for value in values:
        if not _is_finite(value):
            found = repr(value.decode("utf-8", "replace")[:_SHOWN]) if value else "two spaces in a row"
            raise VectorFormatError(path, number, column, "a finite number", found)
        column += len(value) + 1
    raise VectorFormatError(path, number, column, "finite 32-bit numbers", "a number out of range")


def _is_finite(value: bytes) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except ValueError:
        return False
