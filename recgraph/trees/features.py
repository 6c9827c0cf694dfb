"""How the values of a feature become arrays: numbers, vectors, categories with a vocabulary, texts of several words."""

from __future__ import annotations

import collections
import dataclasses
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from recgraph.errors import TreeError
from recgraph.trees.forest import FeatureColumn

UNKNOWN, MISSING = 0, 1
"""The ids in a `Category` of a value that was not seen, and of no value."""
_LARGEST = np.finfo(np.float32).max


@dataclasses.dataclass(frozen=True)
class Values:
    """The values of a feature at all nodes of a forest.

    Attributes:
        name: of the feature.
        column: the values that there are.
        count: the number of nodes.
        places: gives where a node is, for messages.
    """

    name: str
    column: FeatureColumn
    count: int
    places: Callable[[int], str]

    def wrong(self, position: int, message: str, **more: str | None) -> TreeError:
        """The error that a value is not what it should be; `position` is of the column."""
        value = self.column.values[position]
        return TreeError(
            f"feature {self.name!r}: {message}",
            where=self.places(self.column.nodes[position]),
            found=f"{type(value).__name__}: {repr(value)[:80]}",
            **more,
        )

    def need_all(self, what: str, missing: str) -> None:
        """Checks that every node has a value.

        Raises:
            TreeError: one has none.
        """
        if len(self.column.nodes) == self.count:
            return
        node = next(n for n, other in enumerate([*self.column.nodes, self.count]) if n != other)
        raise TreeError(
            f"feature {self.name!r}: a node has none",
            where=self.places(node),
            found=f"{len(self.column.nodes)} of {self.count} nodes have it",
            expected=f"{what} at every node",
            next_step=missing,
        )


class FeatureKind(Protocol):
    """How the values of a feature become an array."""

    def adapt(self, values: Values) -> None:
        """Takes from data what is not given: a size, a vocabulary."""

    def encode(self, values: Values) -> Any:
        """The array for all nodes `[N, ...]`; for several values at a node, these and their row splits."""

    def decode(self, array: np.ndarray) -> Any:
        """The value that an entry of the array stands for, `None` for no value."""


@dataclasses.dataclass
class Number:
    """A feature that is a number: float32 `[N, 1]`, or, where nodes may have none, `[N, 2]` with 1.0 for one that has.

    Attributes:
        optional: whether nodes may have none. None, the default, takes it from the data.

    Raises:
        TreeError: at encoding; a value is no finite number, or is not there and not optional.
    """

    optional: bool | None = None
    kind: ClassVar[str] = "number"

    def adapt(self, values: Values) -> None:
        """See `FeatureKind`."""
        numbers_of(values)
        if self.optional is None:
            self.optional = len(values.column.nodes) < values.count

    @property
    def size(self) -> int:
        """The size of the array's last dimension."""
        return 2 if self.optional else 1

    def encode(self, values: Values) -> np.ndarray:
        """See `FeatureKind`."""
        found = numbers_of(values)
        if not self.optional:
            values.need_all("a number", "Number(optional=True) allows for nodes without")
        array = np.zeros((values.count, self.size), np.float32)
        array[values.column.nodes, 0] = found
        if self.optional:
            array[values.column.nodes, 1] = 1.0
        return array

    def decode(self, array: np.ndarray) -> Any:
        """See `FeatureKind`."""
        return None if self.optional and not array[1] else float(array[0])


def numbers_of(values: Values) -> np.ndarray:
    """The values as float64.

    Raises:
        TreeError: one is none, or not finite.
    """
    if not {type(value) for value in values.column.values} <= {int, float, bool}:
        for position, value in enumerate(values.column.values):
            if not isinstance(value, numbers.Real | np.bool_):
                raise values.wrong(position, "a value is no number", expected="a number", next_step=_of_other(value))
    try:
        found = np.array(values.column.values, np.float64)
    except OverflowError:
        found = np.array([_as_float(value) for value in values.column.values])
    _check_finite(values, np.abs(found) <= _LARGEST)
    return found


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _of_other(value: Any) -> str | None:
    if isinstance(value, str):
        return "Category() is for texts; leave out or convert what is no number"
    return None


def _check_finite(values: Values, is_finite: Any) -> None:
    if not is_finite.all():
        raise values.wrong(
            int(np.argmin(is_finite)),
            "a value is not finite in float32",
            next_step="leave it out, or use its logarithm",
        )


@dataclasses.dataclass
class Vector:
    """A feature that is a list or array of numbers, always as many.

    It becomes float32 `[N, size]`, or, where nodes may have none, `[N, size + 1]` with 1.0 at the end for one that has.

    Attributes:
        length: how many numbers; taken from the data by default.
        optional: as of `Number`.

    Raises:
        TreeError: at encoding; a value has another length, or is not there and not optional.
    """

    length: int | None = None
    optional: bool | None = None
    kind: ClassVar[str] = "vector"

    def adapt(self, values: Values) -> None:
        """See `FeatureKind`."""
        if self.length is None:
            if not values.column.values:
                raise TreeError(f"feature {values.name!r}: no node has a vector", next_step="give Vector(length=...)")
            self.length = len(_as_vector(values, 0))
        if self.optional is None:
            self.optional = len(values.column.nodes) < values.count

    @property
    def size(self) -> int:
        """The size of the array's last dimension."""
        return (self.length or 0) + bool(self.optional)

    def encode(self, values: Values) -> np.ndarray:
        """See `FeatureKind`."""
        if not self.optional:
            values.need_all("a vector", "Vector(optional=True) allows for nodes without")
        array = np.zeros((values.count, self.size))
        for position, node in enumerate(values.column.nodes):
            vector = _as_vector(values, position)
            if len(vector) != self.length:
                raise values.wrong(position, "a vector has another length", expected=f"{self.length} numbers")
            array[node, : self.length] = vector
        _check_finite(values, (np.abs(array[values.column.nodes]) <= _LARGEST).all(1))
        if self.optional:
            array[values.column.nodes, -1] = 1.0
        return array.astype(np.float32)

    def decode(self, array: np.ndarray) -> Any:
        """See `FeatureKind`."""
        return None if self.optional and not array[-1] else array[: self.length].tolist()


def _as_vector(values: Values, position: int) -> np.ndarray:
    value = values.column.values[position]
    try:
        vector = np.asarray(value, np.float64)
    except (OverflowError, TypeError, ValueError):
        vector = np.zeros(())
    if vector.ndim != 1 or isinstance(value, str):
        raise values.wrong(position, "a value is no vector", expected="a list or array of numbers")
    return vector


@dataclasses.dataclass
class Category:
    """A feature that is one of a set of texts, whole numbers or truth values: int32 `[N]`, for an embedding.

    Id 0 is every value that is not in the vocabulary, id 1 is no value, and the values follow from 2 on, the most
    frequent first. As a label, ids begin with 0, -1 is no label, and a value that is not in the vocabulary is an error.

    Attributes:
        words: the values; taken from the data by default.
        min_count: values that the data has less often are left out.

    Raises:
        TreeError: at encoding; a value is no text, whole number or truth value.
    """

    words: Sequence[Any] | None = None
    min_count: int = 1
    kind: ClassVar[str] = "category"

    def adapt(self, values: Values) -> None:
        """See `FeatureKind`."""
        if self.words is None:
            counts = collections.Counter(map(_named, _checked(values)))
            kept = [name for name, count in counts.items() if count >= self.min_count]
            self.words = [word for _, word in sorted(kept, key=lambda name: (-counts[name], name[0], name[1]))]

    @property
    def size(self) -> int:
        """How many ids there are: the rows of an embedding."""
        return 2 + len(self.words or ())

    def encode(self, values: Values) -> np.ndarray:
        """See `FeatureKind`."""
        array = np.full(values.count, MISSING, np.int32)
        array[values.column.nodes] = self._ids(_checked(values), 2, UNKNOWN)
        return array

    def encode_labels(self, values: Values) -> np.ndarray:
        """The labels of all nodes, int32 `[N]`.

        Raises:
            TreeError: one is not in the vocabulary.
        """
        array = np.full(values.count, -1, np.int32)
        found = self._ids(_checked(values), 0, -1)
        if len(found) and found.min() < 0:
            raise values.wrong(
                int(np.argmin(found)),
                "a label was not seen when the encoder was adapted",
                expected=", ".join(map(repr, (self.words or ())[:10])),
                next_step="adapt the encoder to data with all labels, or give Category(words=[...])",
            )
        array[values.column.nodes] = found
        return array

    def unknown(self, values: Values) -> collections.Counter[Any]:
        """The values that are not in the vocabulary, and how often each is there."""
        known = set(map(_named, self.words or ()))
        return collections.Counter(value for value in values.column.values if _named(value) not in known)

    def decode(self, array: np.ndarray) -> Any:
        """See `FeatureKind`; the text `<unknown>` for a value that was not in the vocabulary."""
        number = int(array)
        return None if number == MISSING else "<unknown>" if number == UNKNOWN else (self.words or ())[number - 2]

    def _ids(self, found: list[Any], first: int, other: int) -> np.ndarray:
        ids = {_named(word): number for number, word in enumerate(self.words or (), first)}
        return np.fromiter((ids.get(_named(value), other) for value in found), np.int32, len(found))


def _named(value: Any) -> tuple[str, Any]:
    """A value apart from those of other types that are equal, such as 1 and True."""
    return type(value).__name__, value


def _checked(values: Values) -> list[Any]:
    if not {type(value) for value in values.column.values} <= {str, int, bool}:
        for position, value in enumerate(values.column.values):
            if not isinstance(value, str | int | bool):
                raise values.wrong(
                    position,
                    "a value is no category",
                    expected="a text, whole number or truth value",
                    next_step="Number() is for numbers, Vector() for lists of them",
                )
    return values.column.values


@dataclasses.dataclass
class Words:
    """A feature that is a text of several words, each with an id as in `Category`: int32, ragged `[N, words]`.

    Attributes:
        words: the vocabulary; taken from the data by default.
        min_count: words that the data has less often are left out.
        split: what makes words of a text; `str.split` by default. It is not saved.
    """

    words: Sequence[str] | None = None
    min_count: int = 1
    split: Callable[[str], Sequence[str]] = dataclasses.field(default=str.split, repr=False)
    kind: ClassVar[str] = "words"

    def adapt(self, values: Values) -> None:
        """See `FeatureKind`."""
        flat, _ = self._split(values)
        inner = Category(self.words, self.min_count)
        inner.adapt(flat)
        self.words = inner.words

    @property
    def size(self) -> int:
        """How many ids there are: the rows of an embedding."""
        return 2 + len(self.words or ())

    def encode(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """See `FeatureKind`."""
        flat, splits = self._split(values)
        return Category(self.words).encode(flat), splits

    def unknown(self, values: Values) -> collections.Counter[Any]:
        """The words that are not in the vocabulary, and how often each is there."""
        return Category(self.words).unknown(self._split(values)[0])

    def decode(self, array: np.ndarray) -> Any:
        """See `FeatureKind`: the words."""
        return [Category(self.words).decode(each) for each in array]

    def _split(self, values: Values) -> tuple[Values, np.ndarray]:
        """The words of all nodes, and where those of each are."""
        found: list[str] = []
        owners: list[int] = []
        lengths = np.zeros(values.count + 1, np.int64)
        for position, (node, text) in enumerate(zip(values.column.nodes, values.column.values, strict=True)):
            if not isinstance(text, str):
                raise values.wrong(position, "a value is no text", expected="a text")
            words = self.split(text)
            lengths[node + 1] = len(words)
            found += words
            owners += [node] * len(words)
        flat = Values(
            values.name,
            FeatureColumn(list(range(len(found))), found),
            len(found),
            lambda word: values.places(owners[word]),
        )
        return flat, np.cumsum(lengths)


KINDS: dict[str, type[Any]] = {each.kind: each for each in (Number, Vector, Category, Words)}


def guessed(values: Values) -> FeatureKind:
    """What a feature of these values is: a number, a category, or a vector.

    Raises:
        TreeError: its values are of several kinds.
    """
    first: dict[type[Any], int] = {}
    for position, value in enumerate(values.column.values):
        kind = _kind_of(value)
        if kind is None:
            raise values.wrong(
                position,
                "a value is no number, text or vector",
                next_step="name the features that are to be read: features=[...]",
            )
        first.setdefault(kind, position)
        if len(first) > 1:
            other = next(iter(first.values()))
            raise values.wrong(
                position,
                "its values are of several kinds",
                expected=f"a {next(iter(first)).__name__.lower()}, as at {values.places(values.column.nodes[other])}",
                next_step="read them under different names, by functions: features={'name': lambda item: ...}",
            )
    kind = next(iter(first), Category)
    made: FeatureKind = kind()
    return made


def _kind_of(value: Any) -> type[Any] | None:
    if isinstance(value, str):
        return Category
    if isinstance(value, numbers.Real | np.bool_):
        return Number
    if isinstance(value, list | tuple | np.ndarray) and all(isinstance(each, numbers.Real) for each in value):
        return Vector
    return None
