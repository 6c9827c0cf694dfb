"""What `explain()` gives, in one form for every way to run a function: text, and a page with the program's lines."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import html
import linecache
from collections.abc import Iterator
from typing import Any

from recgraph.cpython.sources import told

_STYLE = (
    "body { font-family: sans-serif; margin: 2em; } table { border-collapse: collapse; } "
    "td, th { border-bottom: 1px solid #ddd; padding: 2px 8px; text-align: left; vertical-align: top; } "
    "pre { margin: 0; } .broke, .eager { color: #b00020; } .seen { color: #555; }"
)


@dataclasses.dataclass(frozen=True)
class Remark:
    """Something about a line of the program.

    Attributes:
        kind: a word for what it is: "seen", "assumed", "broke", "fetch" and so on.
        where: `file:line`, or "".
        text: the remark.
        count: how often.
        remedy: what to change.
    """

    kind: str
    where: str
    text: str
    count: int = 0
    remedy: str = ""


class Explanation(str):
    """The text, which also has an HTML form: `explain().html()`, and what a notebook shows.

    Attributes:
        about: the function and its calls.
        heads: what holds for all of it, and each graph.
        remarks: by line.
    """

    about: str
    heads: list[str]
    remarks: list[Remark]

    @classmethod
    def of(cls, title: str, heads: list[str], graphs: list[list[str]], remarks: list[Remark]) -> Explanation:
        """Of one function, with the lines about each graph."""
        lines = [title, *heads, *(line for g in graphs for line in g), *map(_as_text, _ordered(remarks))]
        made = cls(told("\n".join(lines)))
        made.about, made.heads, made.remarks = title, [*heads, *(lines[0] for lines in graphs)], remarks
        return made

    def html(self) -> str:
        """A part of a page: the program's lines, beside each what was seen, assumed and broke there."""
        by_line: dict[tuple[str, int], list[Remark]] = collections.defaultdict(list)
        for remark in self.remarks:
            by_line[_place(remark.where)].append(remark)
        lines = "\n".join(_row(file, line, remarks) for (file, line), remarks in sorted(by_line.items()))
        items = "".join(f"<li>{html.escape(told(text))}</li>" for text in self.heads)
        return (
            f'<section class="recgraph-explain">\n<h3>{html.escape(self.about)}</h3>\n<ul>{items}</ul>\n'
            f"<table><tr><th>line</th><th>program</th><th>remarks</th></tr>\n{lines}\n</table>\n</section>\n"
        )

    _repr_html_ = html

    def page(self, title: str) -> str:
        """A whole page with that part, for a browser."""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
            f"<h1>{html.escape(title)}</h1>\n{self.html()}</body>\n</html>\n"
        )


def joined(parts: list[Explanation], otherwise: str) -> Explanation:
    """Several functions' explanations as one."""
    made = Explanation("\n".join(parts) if parts else otherwise)
    made.about, made.heads, made.remarks = otherwise, [], []
    page = "".join(part.html() for part in parts)
    if parts:
        made.html = made._repr_html_ = lambda: page  # type: ignore[method-assign]
    return made


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things, such as "1 loop" or "2 loops"; `many` is the plural where it has no plain -s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def _as_text(remark: Remark) -> str:
    times = f" {counted(remark.count, 'time')}" if remark.count else ""
    where = f" ({remark.where})" if remark.where else ""
    advice = f"; to do: {remark.remedy}" if remark.remedy else ""
    return f"  {remark.kind}{times}: {remark.text}{where}{advice}"


def _ordered(remarks: list[Remark]) -> list[Remark]:
    """What the text says: what was seen comes first, and what is assumed is told with the graphs."""
    return sorted((r for r in remarks if r.kind != "assumed"), key=lambda r: r.kind != "seen")


def _place(where: str) -> tuple[str, int]:
    file, _, line = where.rpartition(":")
    return (file, int(line)) if line.isdigit() else ("", 0)


def _row(file: str, line: int, remarks: list[Remark]) -> str:
    source = linecache.getline(file, line).rstrip() if file else ""
    place = told(f"{file}:{line}")
    beside = "<br>".join(
        f'<span class="{remark.kind}">{html.escape(_as_text(dataclasses.replace(remark, where="")).strip())}</span>'
        for remark in remarks
    )
    number = (line or "") if place == f"{file}:{line}" else place
    return f"<tr><td>{number}</td><td><pre>{html.escape(source)}</pre></td><td>{beside}</td></tr>"


_noting: list[list[Any]] = []


def note(thing: Any) -> None:
    """Something was made for the user that has an `explain()`."""
    for things in _noting:
        things.append(thing)


@contextlib.contextmanager
def noted() -> Iterator[list[Any]]:
    """What is made in the block that has an `explain()`, in order; the list grows, and keeps it alive."""
    things: list[Any] = []
    _noting.append(things)
    try:
        yield things
    finally:
        _noting.remove(things)
