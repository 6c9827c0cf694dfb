"""`Vocabulary`: words to ids and back; id 0 is every word that was never seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from recgraph.data.files import DataFormatError, PathLike, atomic_file, read_lines
from recgraph.data.trees import Tree

if TYPE_CHECKING:
    import tensorflow as tf

UNKNOWN = "<unk>"
"""The word with the id 0, which stands for all that are in no vocabulary."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """An ordered set of words; the id of a word is its position.

    A word that is missing is looked up in lower case; if that is missing too, its id is 0.

    Attributes:
        words: all words in the order of their ids; the first is `<unk>`.

    Raises:
        ValueError: the first word is not `<unk>`, or a word occurs twice.

    Examples:
        >>> from recgraph.data import Vocabulary
        >>> vocabulary = Vocabulary(("<unk>", "film", "US"))
        >>> [vocabulary.id(word) for word in ("film", "Film", "US", "us")]
        [1, 1, 2, 0]
    """

    words: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.words or self.words[0] != UNKNOWN:
            raise ValueError(f"the first word of a vocabulary must be {UNKNOWN!r}; found {self.words[:1]!r}")
        ids = {word: number for number, word in enumerate(self.words)}
        if len(ids) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ValueError(f"the words of a vocabulary must be distinct; {twice!r} occurs twice")
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def build(cls, trees: Iterable[Tree], min_count: int = 1, lowercase: bool = False) -> Vocabulary:
        """Collects the words of trees, most frequent first (ties in alphabetical order).

        Args:
            trees: the trees.
            min_count: rarer words are left out.
            lowercase: whether to count words in lower case.
        """
        counts = Counter(word for tree in trees for word in tree.words if word)
        if lowercase:
            lower: Counter[str] = Counter()
            for word, count in counts.items():
                lower[word.lower()] += count
            counts = lower
        kept = [word for word, count in counts.items() if count >= min_count and word != UNKNOWN]
        return cls((UNKNOWN, *sorted(kept, key=lambda word: (-counts[word], word))))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.id(word) != 0

    def __str__(self) -> str:
        return f"Vocabulary of {len(self.words)} words: {' '.join(self.words[1:6])} ..."

    def id(self, word: str) -> int:
        """The id of a word, of its lower case, or 0."""
        found = self._ids.get(word)
        return found if found is not None else self._ids.get(word.lower(), 0)

    def ids(self, words: Iterable[str]) -> np.ndarray:
        """The ids of many words, int32 [number of words]."""
        return np.fromiter((self.id(word) for word in words), np.int32)

    def save(self, path: PathLike) -> None:
        """Writes one word per line, so a word's id is its line number minus one; compressed if named so. Atomic.

        Raises:
            ValueError: a word is empty or has a line end in it, so that `load` would read other words.
            OSError: the file cannot be written.
        """
        for number, word in enumerate(self.words):
            if not word or "\n" in word or word.endswith("\r"):
                raise ValueError(f"{path}: the word {word!r} (id {number}) cannot be stored as one line")
        with atomic_file(path) as stream:
            stream.write("".join(f"{word}\n" for word in self.words).encode())

    @classmethod
    def load(cls, path: PathLike) -> Vocabulary:
        """Reads what `save` wrote.

        Raises:
            DataFormatError: an empty line, a word twice, another first word than `<unk>`, bad UTF-8.
        """
        words: dict[str, int] = {}
        for number, word in read_lines(path):
            if not words and word != UNKNOWN:
                raise DataFormatError(path, number, 1, f"{UNKNOWN!r} as first word of a vocabulary", repr(word))
            if not word or word in words:
                found = f"{word!r}, which is also in line {words[word]}" if word else "an empty line"
                raise DataFormatError(path, number, 1, "a word not seen before", found)
            words[word] = number
        if not words:
            raise DataFormatError(path, 1, 1, f"{UNKNOWN!r} as first word of a vocabulary", "an empty file")
        return cls(tuple(words))

    def lookup_table(self) -> tf.lookup.StaticHashTable:
        """A table string -> int32 with default -1, for use inside a graph; `lookup` adds the two fallbacks."""
        import tensorflow as tf

        pairs = tf.lookup.KeyValueTensorInitializer(
            tf.constant(self.words, tf.string), tf.range(len(self.words), dtype=tf.int32)
        )
        return tf.lookup.StaticHashTable(pairs, default_value=-1)


def lookup(table: tf.lookup.StaticHashTable, words: tf.Tensor) -> tf.Tensor:
    """Looks up ids of words inside a graph, by the rule of `Vocabulary.id`.

    Args:
        table: from `Vocabulary.lookup_table`.
        words: string tensor of any shape, UTF-8.

    Returns:
        int32 tensor of the same shape; 0 for unknown words.
    """
    import tensorflow as tf

    exact = table.lookup(words)
    lower = tf.maximum(table.lookup(tf.strings.lower(words, encoding="utf-8")), 0)
    return tf.where(exact >= 0, exact, lower)
