"""The kinds of assumption: how each is checked, what it lets the generator do, how it is relaxed when it breaks."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from recgraph.speculate.script.script import Assumption


@dataclasses.dataclass(frozen=True)
class Kind:
    """A row of the table.

    Attributes:
        check: where and how it is checked.
        use: what the generator does with it.
        relax: what happens to the profile when it breaks, and so to the next graph.
        in_graph: whether an operation of the graph checks it.
    """

    check: str
    use: str
    relax: str
    in_graph: bool = False


# The end of a site that stands for all members that are taken at a line: only conversions see their values.
NOTED: Final = "all"
KINDS: Final[dict[str, Kind]] = {
    "type": Kind("type(x) is T, before the graph", "chooses rules and methods", "another graph for the other type"),
    "identity": Kind("x is y, before the graph", "inlines functions, captures variables", "another graph"),
    "alias": Kind("x is y, before the graph", "two names of one object share their writes", "another graph"),
    "distinct": Kind("x is not y, before the graph", "a write to one is not seen in the other", "another graph"),
    "value": Kind("equal plain data, before the graph", "folds constants", "the value becomes an input"),
    "constant": Kind("equal plain data, before the graph", "folds constants", "another graph"),
    "presence": Kind("the read succeeds, before the graph", "reads it", "another graph"),
    "length": Kind("len(x) == n, before the graph", "unrolls loops over it", "another graph"),
    "keys": Kind("the keys in order, before the graph", "unrolls loops over it", "another graph"),
    "tensor": Kind(
        "dtype and shape, before the graph",
        "shapes the graph",
        "another graph; from the third shape on, it loses the dimensions that differ",
    ),
    "decision": Kind("a Python condition, before the graph", "follows one branch", "another graph"),
    "branch": Kind("an assertion", "follows one branch, unrolls a loop", "a cond or a while", in_graph=True),
    "path": Kind("an assertion", "follows one branch, where two do not fit together", "another graph", in_graph=True),
    "cost": Kind(
        "a Python condition, before the graph",
        "computes before the graph what the graph decides about, goes through objects",
        "none: that call runs eagerly",
    ),
    "range": Kind("an assertion", "does Python's integers with 64 bits", "none: that call runs eagerly", in_graph=True),
    "raises": Kind("an assertion", "leaves out what raises", "none: the eager run raises", in_graph=True),
}


def assumption(kind: str, what: str, where: str = "", site: tuple[Any, int] | None = None) -> Assumption:
    """One of `KINDS` about something in the program."""
    if kind not in KINDS:
        raise KeyError(kind)
    return Assumption(kind, what, where, site)


def is_of_noted(broken: Assumption | None) -> bool:
    """Whether an assumption is about what only conversions see."""
    site = None if broken is None or broken.site is None else broken.site[0]
    return isinstance(site, tuple) and site[-1] == NOTED
