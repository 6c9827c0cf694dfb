"""Trees of tables in which each row names its parent: columns, CSV files, CoNLL-U."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recgraph.errors import TreeError
from recgraph.trees.forest import ABSENT, Forest, put
from recgraph.trees.walking import Reading, read

_NOT_A_NUMBER = ("nan", "none", "null", "n/a", "<na>")


def forest_of_heads(
    objects: Sequence[Any],
    heads: Sequence[int],
    values: Sequence[Mapping[str, Any]],
    place: Callable[[int], str],
    write: Callable[[Any, str, Any], None] = put,
) -> Forest:
    """The forest of rows each of which has the number of its parent's row, -1 for a root.

    Trees are in the order of their roots, and children in that of the rows.

    Raises:
        TreeError: rows go round in a circle.
    """
    above = np.array(heads, np.int64)
    order = np.argsort(above, kind="stable")
    starts = np.searchsorted(above[order], np.arange(len(heads) + 1)).tolist()
    rows = order.tolist()
    roots = rows[: starts[0]]
    source = Reading(
        lambda row: [(child, child) for child in rows[starts[row] : starts[row + 1]]],
        lambda row, step: values[row],
        place=lambda tree, path, row: place(row),
        put=write,
        given_out=lambda row: objects[row],
    )
    forest = read(roots, source)
    if len(forest.objects) < len(heads):
        raise _circle(heads, set(read(roots, source._replace(given_out=None)).objects), place)
    return forest


def _circle(heads: Sequence[int], reached: set[int], place: Callable[[int], str]) -> TreeError:
    row = next(row for row in range(len(heads)) if row not in reached)
    seen: dict[int, None] = {}
    while row not in seen:
        seen[row] = None
        row = heads[row]
    circle = list(seen)[list(seen).index(row) :]
    shown = [*circle[:5], *([] if len(circle) <= 5 else [circle[-1]])]
    return TreeError(
        "rows are the parents of each other, in a circle",
        where=place(row),
        found=f"{len(circle)} rows: " + ", below ".join(map(place, shown)) + f", below {place(row)}",
        expected="that the way up ends at a root",
        next_step="leave the parent of one of them empty",
    )


def from_parents(
    parents: Iterable[Any],
    ids: Iterable[Any] | None = None,
    trees: Iterable[Any] | None = None,
    features: Mapping[str, Iterable[Any]] | None = None,
) -> Forest:
    """Reads columns with an entry for each node, one of which names the parent.

    Args:
        parents: the id of each node's parent, None for a root.
        ids: the ids of the nodes; by default the numbers 0, 1, 2, ...
        trees: what says of which tree a node is; then ids are of one tree. Without it, all nodes are of one tree.
        features: columns by the name of the feature.

    Returns:
        The forest; the objects are dicts with the features, the `id` and the `parent` of each node.

    Raises:
        TreeError: columns have different lengths, a parent is no node, an id is there twice, a tree has no root or
            several, nodes go round in a circle.

    Examples:
        >>> from_parents([None, 0, 0], features={"word": ["saw", "I", "him"]}).values("word")
        ['saw', 'I', 'him']
    """
    columns = {str(name): list(column) for name, column in (features or {}).items()}
    given = list(parents)
    names = list(range(len(given))) if ids is None else list(ids)
    which = [0] * len(given) if trees is None else list(trees)
    for what, column in {"ids": names, "trees": which, **columns}.items():
        if len(column) != len(given):
            raise TreeError(
                f"the column {what!r} has another length than the parents",
                found=str(len(column)),
                expected=str(len(given)),
            )
    rows = [
        _Row(f"row {number}", which[number], names[number], given[number], {n: c[number] for n, c in columns.items()})
        for number in range(len(given))
    ]
    is_one = trees is None
    return _forest(rows, [{**row.values, "id": row.id, "parent": row.parent} for row in rows], is_one)


def from_csv(
    source: str | os.PathLike[str] | io.TextIOBase,
    id: str = "id",
    parent: str = "parent",
    tree: str | None = None,
    **options: Any,
) -> Forest:
    """Reads a CSV file with a line for each node, which has its id and that of its parent; a root has no parent.

    What looks like a number is one, but for ids. An empty field is a feature that the node does not have.

    Args:
        source: a path, or an open file.
        id: the name of the column with the ids.
        parent: the name of the column with the parents' ids.
        tree: the name of the column that says of which tree a line is, where there are several; ids are of one tree.
        **options: of `csv.DictReader`, such as `delimiter`.

    Returns:
        The forest; the objects are dicts with the fields of each line as the file has them.

    Raises:
        TreeError: see `from_parents`; or a column is not there. It names the line.
        OSError: the file cannot be read.
    """
    if isinstance(source, io.TextIOBase):
        return _csv_forest(source, getattr(source, "name", "the file"), id, parent, tree, options)
    with open(source, encoding="utf-8-sig", newline="") as stream:
        return _csv_forest(stream, os.fspath(source), id, parent, tree, options)


def _csv_forest(
    stream: Iterable[str], name: str, id: str, parent: str, tree: str | None, options: Mapping[str, Any]
) -> Forest:
    reader = csv.DictReader(stream, **options)
    wanted = [id, parent, *([] if tree is None else [tree])]
    fields = reader.fieldnames or []
    for column in wanted:
        if column not in fields:
            raise TreeError(
                f"there is no column {column!r}",
                where=f"{name}:1",
                found=", ".join(fields) or "an empty file",
                next_step="say which columns have the ids and parents: id=..., parent=...",
            )
    rows, objects = [], []
    for fields_of_line in reader:
        place = f"{name}:{reader.line_num}"
        if None in fields_of_line or None in fields_of_line.values():
            raise TreeError("a line has another number of fields than the first line", where=place)
        values = {name: _value(text) for name, text in fields_of_line.items() if name not in wanted}
        which = 0 if tree is None else fields_of_line[tree]
        rows.append(_Row(place, which, fields_of_line[id], fields_of_line[parent] or ABSENT, values))
        objects.append(fields_of_line)
    return _forest(rows, objects, tree is None)


def _value(text: str) -> Any:
    """A field as a number if it is one; what is none is no number either where Python would take it for one."""
    if not text:
        return ABSENT
    for kind in (int, float):
        try:
            return kind(text) if "_" not in text else text
        except ValueError:
            pass
    return text


class _Row:
    """A row of a table: where it is, its tree, id and parent, and its features."""

    __slots__ = ("id", "parent", "place", "tree", "values")

    def __init__(self, place: str, tree: Any, id: Any, parent: Any, values: Mapping[str, Any]) -> None:
        self.place, self.tree, self.id, self.parent, self.values = place, tree, id, parent, values


def _forest(rows: Sequence[_Row], objects: Sequence[Any], is_one: bool) -> Forest:
    """The forest of rows with ids."""
    known: dict[Any, int] = {}
    for number, row in enumerate(rows):
        if _is_nan(row.id) or row.id is ABSENT or row.id == "":
            raise TreeError("a node has no id", where=row.place, found=repr(row.id))
        earlier = known.setdefault((row.tree, row.id), number)
        if earlier != number:
            raise TreeError(
                f"the id {row.id!r} is there twice",
                where=row.place,
                found=f"the same id at {rows[earlier].place}",
                next_step="ids are of one node; if these are several trees, say which column tells them apart: tree="
                if is_one
                else "ids are of one node of a tree",
            )
    heads = [_head(row, known) for row in rows]
    _check_roots(rows, heads, is_one)
    return forest_of_heads(objects, heads, [row.values for row in rows], lambda number: _named(rows[number]))


def _named(row: _Row) -> str:
    return f"{row.place} (id {row.id!r})"


def _head(row: _Row, known: Mapping[Any, int]) -> int:
    """The number of a row's parent, -1 for a root."""
    if row.parent is ABSENT:
        return -1
    found = None if _is_nan(row.parent) else known.get((row.tree, row.parent))
    if found is not None:
        return found
    raise TreeError(
        f"the parent {row.parent!r} is no node",
        where=_named(row),
        expected="the id of a node of the same tree, or nothing at a root",
        next_step=_advice(row, known),
    )


def _advice(row: _Row, known: Mapping[Any, int]) -> str | None:
    text = str(row.parent).strip()
    if text.lower() in _NOT_A_NUMBER:
        return "a missing parent is an empty field, or None: in pandas, .astype(object).where(parents.notna(), None)"
    if text.endswith(".0") and any(str(name) == text[:-2] for tree, name in known if tree == row.tree):
        return "pandas makes floats of a column with missing numbers: .astype('Int64') keeps them whole"
    if any(str(name).strip() == text for tree, name in known if tree == row.tree):
        return "ids and parents are to be of one type, without blanks around them"
    return None


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _check_roots(rows: Sequence[_Row], heads: Sequence[int], is_one: bool) -> None:
    """Each tree has one root."""
    roots: dict[Any, int] = {}
    for number, (row, head) in enumerate(zip(rows, heads, strict=True)):
        if head < 0:
            earlier = roots.setdefault(row.tree, number)
            if earlier != number:
                raise TreeError(
                    "a tree has two roots",
                    where=_named(row),
                    found=f"no parent here and at {_named(rows[earlier])}",
                    next_step="if these are several trees, give the column that tells them apart: tree="
                    if is_one
                    else "give one of them a parent",
                )


# CoNLL-U.

_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_OF_WORDS = {"word": "form", "lemma": "lemma", "upos": "upos", "xpos": "xpos", "feats": "feats", "deprel": "deprel"}


def from_conllu(source: Any) -> Forest:
    """Reads dependency trees of sentences in CoNLL-U, each of which is a tree.

    A node has the features `word`, `lemma`, `upos`, `xpos`, `feats` and `deprel`, those that are not `_`, and
    `position`, the number of the word. The objects are dicts with the ten fields as texts. Lines for words that were
    put together (`1-2`) and for words that are left out (`1.1`) are no nodes.

    Args:
        source: a path of a file, a text, or sentences of the library `conllu`.

    Raises:
        TreeError: a line has not ten fields, a head is no word of the sentence, a sentence has no root or several,
            words depend on each other in a circle. It names the line.

    Examples:
        >>> lines = ["1\\tI\\t_\\t_\\t_\\t_\\t2\\tnsubj\\t_\\t_", "2\\tsaw\\t_\\t_\\t_\\t_\\t0\\troot\\t_\\t_"]
        >>> from_conllu("\\n".join(lines)).values("word")
        ['saw', 'I']
    """
    if isinstance(source, os.PathLike):
        words = list(_words(Path(source).read_text(encoding="utf-8-sig"), f"{os.fspath(source)}:"))
    elif isinstance(source, str):
        words = list(_words(source, "line "))
    else:
        words = list(_words_of_library(source))
    rows = [_word_row(word) for word in words]
    _check_has_root(rows)
    return _forest(rows, [word[2] for word in words], is_one=False)


def _words(text: str, start: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Place, number of the sentence, and fields of each word."""
    sentence = 0
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip():
            sentence += 1
        elif not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != len(_FIELDS):
                raise TreeError(
                    "a line of CoNLL-U has ten fields, with a tabulator between them",
                    where=f"{start}{number}",
                    found=f"{len(fields)}: {line[:60]!r}",
                )
            if fields[0].isdigit():
                yield f"{start}{number}", sentence, dict(zip(_FIELDS, fields, strict=True))


def _words_of_library(sentences: Iterable[Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for sentence, tokens in enumerate(sentences):
        for number, token in enumerate(tokens):
            if isinstance(token["id"], int):
                yield f"sentences[{sentence}][{number}]", sentence, token


def _word_row(word: tuple[str, int, Mapping[str, Any]]) -> _Row:
    place, sentence, fields = word
    try:
        head = int(fields["head"])
    except (TypeError, ValueError):
        raise TreeError(
            "the head of a word is a number, 0 at the root", where=place, found=repr(fields["head"])
        ) from None
    values = {name: fields[field] for name, field in _OF_WORDS.items() if fields.get(field) not in (None, "_")}
    if isinstance(values.get("feats"), Mapping):  # as the library has them
        values["feats"] = "|".join(f"{name}={value}" for name, value in values["feats"].items())
    if fields["form"] == "_":
        values["word"] = "_"
    number = int(fields["id"])
    return _Row(place, sentence, number, head or ABSENT, values | {"position": number})


def _check_has_root(rows: Sequence[_Row]) -> None:
    with_root = {row.tree for row in rows if row.parent is ABSENT}
    for row in rows:
        if row.tree not in with_root and row.parent == row.id:
            raise TreeError("a word is its own head", where=_named(row), next_step="the head of the root is 0")
