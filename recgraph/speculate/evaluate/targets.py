"""Assignment and deletion: names, attributes, subscripts, and patterns of them."""

from __future__ import annotations

import ast
from typing import Any

from recgraph.cpython import messages
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.script.stand_ins import MISSING


def assign(ev: Evaluator, target: ast.expr, value: Any) -> None:
    """Assigns to a name, attribute, subscript or a pattern of them."""
    if isinstance(target, ast.Name):
        ev.bind(target.id, value)
    elif isinstance(target, ast.Attribute):
        with ev.at(target):
            ev.put(ev.value(target.value), ev.frame.syntax.private(target.attr), value)
    elif isinstance(target, ast.Subscript):
        container = ev.value(target.value)
        with ev.at(target):
            ev.set_item(container, ev.value(target.slice), value)
    elif isinstance(target, ast.Tuple | ast.List):
        with ev.at(target):
            _unpack(ev, target, ev.members(value))
    else:
        raise ev.refuse(Feature.TARGET, f"assignment to {type(target).__name__}", at=target)


def _unpack(ev: Evaluator, target: ast.Tuple | ast.List, values: list[Any]) -> None:
    stars = [i for i, part in enumerate(target.elts) if isinstance(part, ast.Starred)]
    if not stars:
        if len(values) < len(target.elts):
            raise ev.raised(messages.too_few_values(len(target.elts), len(values)), at=target)
        if len(values) > len(target.elts):
            raise ev.raised(messages.too_many_values(len(target.elts)), at=target)
        for part, value in zip(target.elts, values, strict=True):
            assign(ev, part, value)
        return
    star, after = stars[0], len(target.elts) - stars[0] - 1
    if len(values) < star + after:
        raise ev.raised(messages.too_few_values(star + after, len(values), has_star=True), at=target)
    end = len(values) - after
    for part, value in zip(target.elts[:star], values[:star], strict=True):
        assign(ev, part, value)
    assign(ev, target.elts[star].value, list(values[star:end]))  # type: ignore[attr-defined]
    for part, value in zip(target.elts[star + 1 :], values[end:], strict=True):
        assign(ev, part, value)


def delete(ev: Evaluator, target: ast.expr) -> None:
    """`del` of a name, attribute or subscript."""
    if isinstance(target, ast.Name):
        ev.read_name(target)
        ev.bind(target.id, MISSING)
    elif isinstance(target, ast.Attribute):
        with ev.at(target):
            ev.put(ev.value(target.value), ev.frame.syntax.private(target.attr), MISSING)
    elif isinstance(target, ast.Subscript):
        container = ev.value(target.value)
        with ev.at(target):
            ev.delete_item(container, ev.value(target.slice))
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            delete(ev, part)
