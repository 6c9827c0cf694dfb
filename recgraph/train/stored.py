"""Dataclasses in JSON files of a run: written whole or not at all, and checked key by key when they are read."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
import typing
from pathlib import Path
from typing import Any

from recgraph.data.files import DataFormatError, atomic_file, decode_line
from recgraph.errors import RecgraphError


class RunError(RecgraphError):
    """The folder of a run cannot be used as asked."""

    id = "run"


def write(values: Any, path: Path) -> None:
    """Writes a dataclass, one field a line."""
    with atomic_file(path) as file:
        file.write(json.dumps(dataclasses.asdict(values), indent=2).encode() + b"\n")


def read(kind: Any, path: Path, what: str, choices: dict[str, Any] | None = None) -> Any:
    """Reads what `write` wrote; keys that are missing have their defaults.

    Args:
      kind: the dataclass; its fields are numbers from 0, strings, booleans, None, or dicts.
      path: the file.
      what: is in it, for messages.
      choices: key -> the values that it may have, where these are few.

    Raises:
      FileNotFoundError: there is no such file.
      RunError: it cannot be read, is no JSON, or a key is unknown, missing, or has a value that it cannot have; says
        the line.
    """
    lines = _lines(path, what)
    values = _parsed("\n".join(lines), path, what)
    hints = typing.get_type_hints(kind)
    for key, value in values.items():
        expected = _expected(hints.get(key), (choices or {}).get(key), value) if key in hints else "no such key"
        if expected is not None:
            line = next(
                (i for i, text in enumerate(lines, 1) if re.match(rf"\W*{re.escape(json.dumps(key))}", text)), 1
            )
            raise _error(what, path, line, f"{key!r} is {json.dumps(value)[:60]}", expected)
    for field in dataclasses.fields(kind):
        default = (field.default, field.default_factory)
        if field.name not in values and all(given is dataclasses.MISSING for given in default):
            raise _error(what, path, 1, f"no {field.name!r}", "a value for it")
    return kind(**values)


def _lines(path: Path, what: str) -> list[str]:
    try:
        raw = path.read_bytes().split(b"\n")
        return [decode_line(line, path, number, DataFormatError) for number, line in enumerate(raw, 1)]
    except FileNotFoundError:
        raise
    except OSError as cause:
        raise _error(what, path, None, str(cause), None) from cause
    except DataFormatError as cause:
        raise _error(what, path, cause.line, cause.found, cause.expected) from cause


def _parsed(text: str, path: Path, what: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as cause:
        raise _error(what, path, cause.lineno, f"{cause.msg} (column {cause.colno})", "JSON") from cause
    except (ValueError, RecursionError) as cause:  # a number of thousands of digits, lists in lists without end
        raise _error(what, path, 1, str(cause), "JSON") from cause
    if not isinstance(values, dict):
        raise _error(what, path, 1, f"{type(values).__name__} {text[:40]!r}", "a JSON object")
    return values


def _expected(hint: Any, choices: Any, value: Any) -> str | None:
    """What a field of this type should be, or None if the value is such."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and type(None) in kinds:
        return None
    kind = typing.get_origin(kinds[0]) or kinds[0]
    if choices is not None:
        return None if isinstance(value, str) and value in choices else f"one of {', '.join(choices)}"
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    if kind is int:
        return None if type(value) is int and value >= 0 else "a whole number from 0"
    if kind is float:
        is_number = type(value) in (int, float) and value >= 0 and math.isfinite(value)
        return None if is_number else "a finite number from 0"
    return None if isinstance(value, kind) else {str: "a string", dict: "a JSON object"}[kind]


def _error(what: str, path: Path, line: int | None, found: str, expected: str | None) -> RunError:
    return RunError(
        f"the {what} of this run cannot be read",
        where=str(path) if line is None else f"{path}:{line}",
        found=found,
        expected=expected,
        next_step="restore the file, or train again with --fresh",
    )
