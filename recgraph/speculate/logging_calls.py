"""The `logging` module: what a call logs is kept and logged after the graph, as from its own line."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from recgraph.speculate import calls, known, showing
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.evaluator import Evaluator
from recgraph.speculate.special import SPECIAL, Arguments, Special

_LEVELS: Final = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error", "critical")}


def is_plain(logger: logging.Logger) -> bool:
    """Whether nothing of the user's sees what is logged, which might look at what the program does afterwards."""
    parts = [part for one in _handling(logger) for part in (one, *one.filters)]
    return bool(parts) and not any(known.is_users_type(type(part)) for part in [*parts, *logger.filters, logger])


def _handling(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def _log(
    logger: logging.Logger, level: int, place: tuple[str, int, str], message: Any, arguments: tuple[Any, ...]
) -> None:
    if logger.isEnabledFor(level):
        file, line, function = place
        logger.handle(logger.makeRecord(logger.name, level, file, line, message, arguments, None, function))


def _kept(ev: Evaluator, logger: logging.Logger, level: Any, arguments: Arguments, named: dict[str, Any]) -> None:
    """Keeps one message."""
    if named or not arguments:
        raise ev.refuse("logging", "a message with exc_info, stack_info, stacklevel or extra")
    if not is_plain(logger):
        raise ev.refuse("logging", f"who handles what {logger.name} logs may be the program")
    ev.need_sequence("logging")
    ev.heap.given(logger, ev.where())
    name = ev.script.constant(logger)
    ev.script.assume(f"{ev.script.constant(is_plain)}({name})", assumption("decision", "handlers", ev.where()))
    held = [showing.shown(ev, a) for a in arguments]
    syntax = ev.frame.syntax
    place = (syntax.filename, getattr(ev.here, "lineno", 0), syntax.name)
    given = [logger, ev.concrete(level), place, held[0], tuple(held[1:])]
    effect = calls.LateCall(ev.script.name(), ev.script.constant(_log), given, {})
    ev.effects.append(effect)


def _of_level(level: int) -> Special:
    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> None:
        _kept(ev, arguments[0], level, arguments[1:], named)

    return convert


def _of_root(level: int) -> Special:
    def convert(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> None:
        _kept(ev, logging.getLogger(), level, arguments, named)

    return convert


def _of_any_level(ev: Evaluator, arguments: Arguments, named: dict[str, Any]) -> None:
    _kept(ev, arguments[0], arguments[1], arguments[2:], named)


SPECIAL.update({getattr(logging.Logger, name): _of_level(level) for name, level in _LEVELS.items()})
SPECIAL.update({getattr(logging, name): _of_root(level) for name, level in _LEVELS.items()})
SPECIAL[logging.Logger.log] = _of_any_level
