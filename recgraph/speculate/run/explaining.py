"""What `explain()` says of speculation: what was seen, what is assumed, what broke, what to change."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any, Final

from recgraph.explaining import Remark
from recgraph.speculate.observe.profile import VARIES, Profile, Seen, is_plain
from recgraph.speculate.observe.reasons import Inconvertible
from recgraph.speculate.observe.syntax import Syntax, names_of

# Values that nobody asks about: what they are is in the program.
_UNREMARKABLE: Final = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, types.MethodType)
_DATA: Final = (int, float, complex, str, bytes, bool)
_LONGEST = 50  # letters of an expression that are shown


def remark_on_break(assumption: Any, text: str) -> Remark:
    """About an assumption that broke; None where an operation failed."""
    if assumption is None:
        return Remark("broke", "", text, remedy="see what the eager call raises")
    return Remark("broke", assumption.where, assumption.title, remedy=assumption.remedy)


def remark_on_refusal(reason: Inconvertible) -> Remark:
    """About something that is not converted."""
    return Remark("eager", reason.where, reason.why, remedy=reason.feature.remedy)


def remarks_of_profile(profile: Profile) -> Iterator[Remark]:
    """What the profile saw: of each place that says something, in the order of the program."""
    known = profile.sites()
    for site, row in known.items():
        if site[0] == "argument":
            yield Remark("seen", "", f"argument {site[1]}: {described(row[0])}")
    by_place = [site for site in known if site[:3] in profile.syntaxes]
    for site in sorted(by_place, key=lambda site: (str(site[0]), *_line_and_column(profile, site), str(site[4]))):
        syntax = profile.syntaxes[site[:3]]
        node = syntax.nodes[site[3]]
        text = _remark_on(syntax, node, str(site[4]), known[site])
        if text:
            yield Remark("seen", syntax.where(node), text)


def _line_and_column(profile: Profile, site: Any) -> tuple[int, int]:
    node = profile.syntaxes[site[:3]].nodes[site[3]]
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _remark_on(syntax: Syntax, node: ast.AST, what: str, row: list[Seen]) -> str:
    if what == "round":
        return trips(row)
    if what == "truth":
        return f"{_shown(node)} was {_directions(row)}"
    if what != "value" or isinstance(node, ast.Name) and node.id in names_of(syntax.node).bound:
        return ""
    if row[0].types and row[0].types <= set(_UNREMARKABLE):
        return ""
    more = f", {len(row)} times a call" if len(row) > 1 else ""
    return f"{_shown(node)}: {described(row[0])}{more}"


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def described(seen: Seen) -> str:
    """The values of one occurrence in a few words."""
    names = " or ".join(sorted(kind.__name__ for kind in seen.types.copy())) or "nothing"
    if seen.shape is not None:
        what = f"{' or '.join(sorted(seen.dtypes))} tensor" if seen.dtypes else names
        return f"{what} of shape {'?' if seen.shape.rank is None else _shape(seen.shape)}"
    if seen.constant is VARIES:
        is_data = seen.count > 1 and seen.types & set(_DATA)
        return f"{names}, varies" if is_data else names
    if is_plain(seen.constant):
        return f"{names}, always {seen.constant!r}"[:80]
    return f"{names}, always the same"


def _shape(shape: Any) -> str:
    return str(tuple(shape)).replace("None", "?")


def _directions(row: list[Seen]) -> str:
    ways = {seen.constant if seen.constant is VARIES else bool(seen.constant) for seen in row}
    return f"always {next(iter(ways))}" if len(ways) == 1 and VARIES not in ways else "True and False"


def trips(row: list[Seen]) -> str:
    """How many rounds a loop made: each time that it was reached it went on so often, then ended."""
    if any(seen.constant is VARIES for seen in row):
        first = next(i for i, seen in enumerate(row) if seen.constant is VARIES)
        return f"{first} rounds or more" if len(row) > 1 else "rounds vary"
    counts, now = set(), 0
    for seen in row:
        if seen.constant:
            now += 1
        else:
            counts.add(now)
            now = 0
    counts |= {now} if now else set()
    return f"{' or '.join(map(str, sorted(counts)))} rounds"
