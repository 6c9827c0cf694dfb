"""JSON of any depth: Python's own parser, and one without recursion for texts that are too deep for it."""

from __future__ import annotations

import json
import re
from typing import Any

from recgraph.errors import TreeError

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def parsed(text: str | bytes, place: str) -> Any:
    """The value of a JSON text.

    Raises:
        TreeError: it is none; it names the line and column in `place`.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        try:
            return json.loads(text)
        except RecursionError:
            return _deep(text)
    except UnicodeDecodeError as error:
        raise TreeError("a text is not in UTF-8", where=place, found=str(error)) from None
    except json.JSONDecodeError as error:
        raise TreeError(
            "a text is not JSON",
            where=f"{place}, line {error.lineno}, column {error.colno}",
            found=error.msg,
            next_step="a file with one tree in each line is named .jsonl" if error.msg == "Extra data" else None,
        ) from None


def _deep(text: str) -> Any:
    """The value of a text, with a stack in place of recursion."""
    top: list[Any] = []
    stack: list[Any] = [top]  # the containers that are open
    names: list[str | None] = [None]  # of each, the entry that comes next
    at = _after(text, 0)
    while True:
        at, opened = _value(text, at, stack, names)
        while not opened:
            at = _after(text, at)
            if len(stack) == 1:
                if at < len(text):
                    raise json.JSONDecodeError("Extra data", text, at)
                return top[0]
            at, is_over = _following(text, at, stack[-1])
            if not is_over:
                break
            stack.pop()
            names.pop()
        if isinstance(stack[-1], dict):
            names[-1], at = _name(text, at)


def _value(text: str, at: int, stack: list[Any], names: list[Any]) -> tuple[int, bool]:
    """Reads a value into the open container; where it stands after it, and whether that is in a new container."""
    start = text[at : at + 1]
    if start in ("[", "{") and start:
        made: Any = [] if start == "[" else {}
        at = _after(text, at + 1)
        is_empty = text[at : at + 1] == ("]" if start == "[" else "}")
        value: Any = made
    else:
        value, at = _DECODER.raw_decode(text, at)
        made, is_empty = None, True
    if isinstance(stack[-1], dict):
        stack[-1][names[-1]] = value
    else:
        stack[-1].append(value)
    if made is None:
        return at, False
    if is_empty:
        return at + 1, False
    stack.append(made)
    names.append(None)
    return at, True


def _following(text: str, at: int, container: Any) -> tuple[int, bool]:
    """What comes after a value in a container: the place after it, and whether the container is over."""
    end, mark = "}" if isinstance(container, dict) else "]", text[at : at + 1]
    if mark not in (",", end) or not mark:
        raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    return _after(text, at + 1), mark == end


def _name(text: str, at: int) -> tuple[str, int]:
    """The name of an entry, and where its value begins."""
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
    name, at = _DECODER.raw_decode(text, at)
    at = _after(text, at)
    if text[at : at + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return name, _after(text, at + 1)


def _after(text: str, at: int) -> int:
    """The place after blanks."""
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()
