"""The parts of functions that cannot be converted whole: which there are, and what became of each."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from typing import Any

from recgraph import native
from recgraph.cpython import messages
from recgraph.speculate.observe.compiling import with_code
from recgraph.speculate.observe.cutting import cut
from recgraph.speculate.observe.frames import FOLDER
from recgraph.speculate.observe.syntax import part_of, syntax_of


class PartCalls:
    """The parts of one function that were called so far, each with what became of it.

    Args:
        make: what becomes of a part, of its code and of whether it may run several times in a call.
    """

    def __init__(self, make: Callable[[types.CodeType, bool], Any]) -> None:
        self._make = make
        self._found: dict[Any, Any] = {}
        self._by_code: dict[int, tuple[types.CodeType, Any]] = {}  # which keeps the code, so that its id stays its own

    def all(self) -> list[Any]:
        """What became of them."""
        return list(self._found.values())

    def part(self, may_repeat: bool, function: types.FunctionType, *values: Any) -> Any:
        """Calls a part: code that is taken apart does, in place of its statements."""
        code = function.__code__
        if id(code) not in self._by_code:
            self._by_code[id(code)] = code, self._of(code, may_repeat)
        found = self._by_code[id(code)][1]
        plain = native.frames().PLAIN
        try:
            result = plain if found.is_left else found(function, values)
            return function(*values) if result is plain else result
        except NameError as error:
            raised = _as_of_function(error, code)
        raise raised

    def _of(self, code: types.CodeType, may_repeat: bool) -> Any:
        """The rounds of a loop are the same part where they are observed and where the function is taken apart.

        Parts that only differ in constants or in the names of what they call have equal bytecode. The sites of all that
        is in them tell them apart: a statement by which a part ends may have been written anew, without one.
        """
        syntax = part_of(code)
        assert syntax is not None
        sites = tuple(getattr(node, "site", -1) for statement in syntax.body for node in ast.walk(statement))
        key = syntax.key, sites, code.co_code, code.co_varnames, code.co_freevars
        return self._found.setdefault(key, self._make(code, may_repeat))


class OutlinedFunction:
    """A function that is taken apart.

    Args:
        code: of the function in which its parts are called.
        parts: what they became.
    """

    def __init__(self, code: types.CodeType, parts: PartCalls) -> None:
        self._code, self.parts = code, parts

    def run(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """Calls the function, or another one of its code."""
        if type(function) is types.MethodType:
            function, arguments = function.__func__, (function.__self__, *arguments)
        try:
            return with_code(function, self._code)(*arguments, **named)
        except BaseException as error:
            _leave_out_ours(error)
            raise


def outline(function: Any, left: frozenset[int], parts: PartCalls) -> OutlinedFunction | None:
    """A function without the statements of some sites in parts; None where nothing is left to be a part.

    Args:
        function: of Python's, or a method.
        left: the sites.
        parts: takes the calls of its parts.
    """
    inner = getattr(function, "__func__", function)
    if not left:
        return None
    made = cut(syntax_of(inner), inner.__code__, left, parts)
    if made is None:
        return None
    return OutlinedFunction(made, parts)


def _as_of_function(error: NameError, code: types.CodeType) -> NameError:
    """A name of the function around that has no value is free in the part, and local in the function."""
    syntax = part_of(code)
    if type(error) is not NameError or syntax is None or error.name not in syntax.shared & set(code.co_freevars):
        return error
    if error.args != messages.unbound_free(error.name).args:
        return error
    made = messages.unbound_local(error.name).with_traceback(error.__traceback__)
    made.__context__ = error.__context__
    return made


def _leave_out_ours(error: BaseException) -> None:
    """The traceback shows the program's frames."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        if place.tb_next.tb_frame.f_code.co_filename.startswith(FOLDER):
            place.tb_next = place.tb_next.tb_next
        else:
            place = place.tb_next
