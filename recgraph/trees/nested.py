"""Trees of Python's own values: nested lists and dicts, JSON, and objects of the user's classes."""

from __future__ import annotations

import functools
import numbers
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from recgraph.errors import TreeError
from recgraph.trees.forest import ABSENT, Forest, shown
from recgraph.trees.json_text import parsed
from recgraph.trees.walking import Reading, Step, read

# Where children are: the name of one entry with a list of them, names of entries with one each, or a function.
Children: TypeAlias = str | tuple[str, ...] | Callable[[Any], Iterable[Any]]
# What the features are: names of entries, or functions by the name of the feature; None for all other entries.
Features: TypeAlias = Sequence[str] | Mapping[str, Callable[[Any], Any]] | None


def from_nested(trees: Iterable[Any], children: Children | None = None, features: Features = None) -> Forest:
    """Reads nested lists and dicts, or objects of any class.

    Without `children`, every value is a node, whatever it is: lists and dicts have what is in them as children, and a
    node has the features `kind` ("list", "dict", "number", "text" or "none"), `number`, `text`, and `key`, the name of
    the entry that it is in a dict. An array of NumPy is a leaf with the feature `vector`.

    With `children`, every node is a dict or an object, and its other entries or attributes are its features. A child
    that is neither, such as a word or a number, is a leaf with the feature `value`.

    A list, dict or object that is at several places of a tree is one node; numbers, texts and tuples never are.

    Args:
        trees: the trees, each by its root.
        children: the name of the entry with the list of children; a tuple of names of entries with one child or None,
            such as `("left", "right")`, then batches have their positions under these names; or a function that gives
            the children of an object.
        features: the names of those entries that are features, or functions that compute them from an object; all other
            entries and attributes by default.

    Raises:
        TreeError: a node is below itself, or what should be a list of children is none.

    Examples:
        >>> forest = from_nested([{"op": "+", "of": [{"value": 1}, {"value": 2}]}], children="of")
        >>> forest
        <Forest of 1 trees, 3 nodes: op, value>
        >>> forest.values("value")
        [None, 1, 2]
    """
    return read(_several(trees, "trees"), _source(children, features))


def from_json(
    source: str | bytes | os.PathLike[str] | Iterable[str | bytes],
    children: Children | None = None,
    features: Features = None,
) -> Forest:
    """Reads trees from JSON, as `from_nested` does with what it says; no nesting is too deep.

    Args:
        source: a path of a file, or texts, each with one tree. A file `.jsonl` has a tree in each line that is not
            blank; any other file, and a single text, has one tree, or several as the entries of an array.
        children: see `from_nested`. An array at the top is one tree where there is none.
        features: see `from_nested`.

    Raises:
        TreeError: a text is no JSON, or see `from_nested`.
        OSError: the file cannot be read.

    Examples:
        >>> from_json('[{"word": "good"}, {"of": [{"word": "not"}, {"word": "bad"}]}]', children="of")
        <Forest of 2 trees, 4 nodes: word>
    """
    places, texts = _texts(source)
    trees = [parsed(text, place) for place, text in zip(places, texts, strict=True)]
    is_single = isinstance(source, str | bytes | os.PathLike) and len(trees) == 1
    if is_single and isinstance(trees[0], list) and children is not None:
        trees, start = trees[0], places[0]
        places = [f"{start}[{number}]" for number in range(len(trees))]
    how = _source(children, features)
    return read(trees, how._replace(place=lambda tree, path, item: shown(path, places[tree])))


def _texts(source: Any) -> tuple[list[str], list[str | bytes]]:
    """Texts with one tree each, and where they are from."""
    if isinstance(source, os.PathLike):
        path = Path(source)
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix != ".jsonl":
            return [str(path)], [text]
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        return [f"{path}:{number}" for number, _ in lines], [line for _, line in lines]
    if isinstance(source, str | bytes):
        return ["text"], [source]
    texts = list(source)
    return [f"texts[{number}]" for number in range(len(texts))], texts


def _source(children: Children | None, features: Features) -> Reading:
    if children is None:
        if features is not None:
            raise TreeError(
                "features are given, and not where the children are: then every value is a node by itself",
                next_step="say where the children of a node are, for instance children='children'",
            )
        return Reading(_parts, _facts, identity_of)
    if isinstance(children, str):
        below: Any = functools.partial(_listed, children)
        left_out: tuple[str, ...] = (children,)
    elif isinstance(children, tuple):
        below, left_out = functools.partial(_each, children), children
    else:
        below, left_out = functools.partial(_called, children), ()
    roles = children if isinstance(children, tuple) else ()
    return Reading(
        below, functools.partial(_entries, _getters(features), frozenset(left_out)), identity_of, roles=roles
    )


def _several(trees: Any, what: str) -> Any:
    """The same; one tree in place of several is told."""
    if isinstance(trees, str | bytes | Mapping) or not isinstance(trees, Iterable):
        raise TreeError(
            f"{what} are given one by one, in a list",
            found=f"a {type(trees).__name__}",
            next_step="put it in a list: [tree]",
        )
    return trees


# What the values of JSON are, looked up before anything is asked of a value.
_KINDS = {list: "list", tuple: "list", dict: "dict", str: "text", int: "number", float: "number", bool: "number"}
_KINDS[type(None)] = "none"
_UNSHARED = (str, bytes, numbers.Number, tuple, frozenset, np.generic)


def identity_of(item: Any) -> Hashable | None:
    """What makes two places one node; values that Python itself shares as it likes are none."""
    kind = _KINDS.get(type(item))
    if kind is None:
        return None if isinstance(item, _UNSHARED) else id(item)
    return id(item) if kind == "dict" or type(item) is list else None


def _kind(item: Any) -> str:
    """What a value is, where every value is a node.

    Raises:
        TreeError: it is none of what JSON has.
    """
    found = _KINDS.get(type(item))
    if found is not None:
        return found
    classes = {str: "text", numbers.Real: "number", Mapping: "dict", list: "list", tuple: "list", np.ndarray: "vector"}
    for each, kind in classes.items():
        if isinstance(item, each):
            return kind
    raise TreeError(
        f"a {type(item).__name__} is no list, dict, number, text or array",
        found=repr(item)[:80],
        next_step="say where its children are, for instance children='children' or a function",
    )


def _parts(item: Any) -> Sequence[Step]:
    kind = _kind(item)
    if kind == "dict":
        return list(item.items())
    return list(enumerate(item)) if kind == "list" else ()


def _facts(item: Any, step: Any) -> Mapping[str, Any]:
    kind = _kind(item)
    found = {"kind": kind}
    if kind in ("text", "number", "vector"):
        found[kind] = item
    if isinstance(step, str):
        found["key"] = step
    return found


# Where nodes are dicts or objects.


def _is_node(item: Any) -> bool:
    return not (item is None or isinstance(item, str | bytes | numbers.Number | list | tuple | np.ndarray | np.generic))


def _get(item: Any, name: str) -> Any:
    if isinstance(item, Mapping):
        return item.get(name, ABSENT)
    return getattr(item, name, ABSENT) if _is_node(item) else ABSENT


def _listed(name: str, item: Any) -> Sequence[Step]:
    below = _get(item, name)
    if below is ABSENT:
        return ()
    if isinstance(below, str | bytes | Mapping) or not isinstance(below, Iterable):
        raise TreeError(
            f"{name!r} of a node is no list of children",
            found=f"{type(below).__name__}: {repr(below)[:80]}",
            expected="a list, or nothing",
            next_step=f"for entries with one child each give their names as a tuple: children=({name!r},)",
        )
    return [((name, number), child) for number, child in enumerate(below)]


def _each(names: tuple[str, ...], item: Any) -> Sequence[Step]:
    found = []
    for name in names:
        child = _get(item, name)
        if isinstance(child, list):
            raise TreeError(
                f"{name!r} of a node is a list, and is to be one child",
                found=f"a list of {len(child)}",
                next_step=f"for any number of children give the one name: children={name!r}",
            )
        if child is not ABSENT:
            found.append((name, child))
    return found


def _called(function: Callable[[Any], Iterable[Any]], item: Any) -> Sequence[Step]:
    return list(enumerate(function(item) or ()))


def _getters(features: Features) -> Mapping[str, Callable[[Any], Any]] | None:
    if features is None or isinstance(features, Mapping):
        return features
    names = [features] if isinstance(features, str) else features
    return {name: functools.partial(_get, name=name) for name in names}


def _entries(
    getters: Mapping[str, Callable[[Any], Any]] | None, left_out: frozenset[str], item: Any, step: Any
) -> Mapping[str, Any]:
    if getters is not None:
        return {name: get(item) for name, get in getters.items()}
    if not _is_node(item):
        return {"value": item}
    entries = item if isinstance(item, Mapping) else _attributes(item)
    return {name: value for name, value in entries.items() if name not in left_out}


def _attributes(item: Any) -> Mapping[str, Any]:
    """The public attributes of an object, those in `__slots__`, too."""
    found = {}
    for each in type(item).__mro__:
        names = vars(each).get("__slots__", ())
        found.update({name: getattr(item, name, ABSENT) for name in ([names] if isinstance(names, str) else names)})
    found.update(getattr(item, "__dict__", {}))
    return {name: value for name, value in found.items() if not name.startswith("_")}
