"""A function taken apart: what cannot be converted stays where it is, and what lies between becomes functions inside.

    def train(data, steps):             def train(data, steps):
        for x in data:                      for x in data:
            total = total + f(x)                def part(x):
        return total                                nonlocal total
                                                    total = total + f(x)
                                                hook.part(True, part, x)
                                            return total

A part shares the names of the function around it: names that it only reads are its arguments, if they have a value for
certain; names that only it uses are its own; all others are those of the function. So it may end at any statement, by
an exception too, as the function itself would.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Iterable, Iterator
from typing import Any, Final

from recgraph.cpython.parsing import copied
from recgraph.speculate.observe.bindings import Bindings, captured, may_catch, mentioned, stored
from recgraph.speculate.observe.compiling import compiled, hooked, looks_around, named_as, with_hook
from recgraph.speculate.observe.syntax import Syntax, names_of, names_of_block, parameters_of

# The names that parts, and how they ended, have in the function.
_PART, _WAY = "recgraph_part", "recgraph_way"
# How a part ends the block that it is in; the function goes on after it otherwise.
_GOES_ON, _RETURNS, _BREAKS, _CONTINUES = range(4)
_SUSPENDED: Final = 0x20 | 0x80 | 0x200
_DEFINING: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
# What belongs to the very function that it stands in.
_BOUND: Final = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
_LOOPS: Final = (ast.For, ast.While)
_WORK: Final = (ast.Call, ast.BinOp, ast.AugAssign)


def may_be_cut(code: types.CodeType) -> bool:
    """Whether a function may be taken apart: it runs to its end when it is called, and does not look at its names."""
    return not (code.co_flags & _SUSPENDED or looks_around(code))


class Outliner:
    """Takes one function apart.

    Args:
        syntax: of the function.

    Attributes:
        parts: the syntax trees of the parts so far, by name.
    """

    def __init__(self, syntax: Syntax) -> None:
        self.syntax, self.names = syntax, names_of(syntax.node)
        self.parts: dict[str, Syntax] = {}
        self._all = mentioned([syntax.node])
        self._flow = Bindings()
        self._flow.block(syntax.body, frozenset(parameters_of(syntax.node)))
        self._unsure = self._flow.exposed & self.names.bound
        self._lost = frozenset(_lost(syntax.node))  # names that may have lost their value again
        self._rebound = {v for n in ast.walk(syntax.node) if isinstance(n, ast.Nonlocal) for v in n.names}
        self._shared: set[str] = set()

    def without(self, left: frozenset[int]) -> ast.FunctionDef:
        """The function in which everything but the statements of some sites, and what is around them, is in parts."""
        node = copy.copy(self.syntax.node)
        assert isinstance(node, ast.FunctionDef)
        node.args, node.body = copied(node.args), self._block(node.body, left, False)
        self.declare(node)
        return node

    def declare(self, node: ast.FunctionDef) -> None:
        """Puts into a function that parts share its names what this takes."""
        declared: list[ast.stmt] = []
        if self.names.globals:
            declared.append(ast.Global(sorted(self.names.globals)))
        if self.names.nonlocals:
            declared.append(ast.Nonlocal(sorted(self.names.nonlocals)))
        if shared := sorted(self._shared):  # a name that only parts set is still one of the function's
            targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in shared]
            declared.append(ast.If(ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], []))
        body = [part for statement in node.body for part in _as_list(_Undeclared().visit(statement))]
        node.body = [ast.copy_location(part, node) for part in declared] + (body or [ast.Pass()])

    def rounds(self, loop: ast.For) -> ast.For | None:
        """A loop whose body is a part; None if it may not be one."""
        runs = list(self._runs(loop.body, frozenset()))
        if len(runs) != 1 or not runs[0][0] or not any(isinstance(n, ast.Call) for s in loop.body for n in ast.walk(s)):
            return None
        body = self._part(loop.body, True, stored(loop.target))
        return ast.copy_location(ast.For(copied(loop.target), loop.iter, body, []), loop)

    def _block(self, statements: list[ast.stmt], left: frozenset[int], in_loop: bool) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for moves, run in self._runs(statements, left):
            if moves and any(isinstance(n, _WORK) for s in run for n in ast.walk(s)):
                made += self._part(run, in_loop)
            elif moves:
                made += copied(run)
            else:
                made += [self._left(statement, left, in_loop) for statement in run]
        return made

    def _left(self, statement: ast.stmt, left: frozenset[int], in_loop: bool) -> ast.stmt:
        """A statement that stays: what can be moved of the blocks in it becomes parts."""
        made: Any = copy.copy(statement)
        around = in_loop or isinstance(statement, _LOOPS)
        for name, value in ast.iter_fields(statement):
            is_nested = isinstance(statement, (*_DEFINING, ast.Expr))
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt) and not is_nested:
                setattr(made, name, self._block(value, left, around if name == "body" else in_loop))
            elif name in ("handlers", "cases"):
                setattr(made, name, [self._left(one, left, in_loop) for one in value])
            else:
                setattr(made, name, copied(value))
        return made

    def _runs(self, statements: list[ast.stmt], left: frozenset[int]) -> Iterator[tuple[bool, list[ast.stmt]]]:
        """Statements one after the other that move, or stay."""
        staying = {id(s) for s in statements if self._stays(s, left)}
        while True:
            runs: list[tuple[bool, list[ast.stmt]]] = []
            for statement in statements:
                moves = id(statement) not in staying
                if not runs or runs[-1][0] != moves:
                    runs.append((moves, []))
                runs[-1][1].append(statement)
            leaving = {id(s) for moves, run in runs if moves for s in run if self._defines_for_others(s, run)}
            if not leaving:
                return iter(runs)
            staying |= leaving

    def _stays(self, statement: ast.stmt, left: frozenset[int]) -> bool:
        """Whether a statement is no part of a part: a name without a value is another error there, if it is caught."""
        if not _moves(statement) or any(getattr(n, "site", 0) in left for n in ast.walk(statement)):
            return True
        return bool(self._unsure & mentioned([statement]).keys()) and may_catch(statement)

    def _defines_for_others(self, statement: ast.stmt, run: list[ast.stmt]) -> bool:
        """Whether a statement makes a function that is used elsewhere: it may not be a result of a part."""
        if not isinstance(statement, _DEFINING):
            return False
        inside = mentioned(run)
        return any(inside[name] != self._all[name] for name in names_of_block([statement]).bound)

    def _part(self, run: list[ast.stmt], in_loop: bool, more: frozenset[str] = frozenset()) -> list[ast.stmt]:
        """Statements as a function, and its call."""
        name, first = f"{_PART}_{len(self.parts)}", run[0]
        inside, bound = mentioned(run), names_of_block(run).bound & self.names.bound
        flow = Bindings()
        flow.block(run, more)
        # A function that outlives a round sees what the next one sets.
        kept = flow.exposed | captured(run) if in_loop else frozenset()
        own = {v for v in bound if inside[v] == self._all[v] and v not in kept}
        self._shared |= bound - own - parameters_of(self.syntax.node)
        certain = (self._flow.before.get(getattr(first, "site", -1), frozenset()) | more) - self._lost
        held = (captured(run) - parameters_of(self.syntax.node)) | self._rebound  # functions inside see and set them
        arguments = sorted(v for v in (self.names.bound & certain) - bound - held if v in inside)
        ways = {_RETURNS, _BREAKS, _CONTINUES} & set(_ways(run))
        node = self._function(name, run, arguments, sorted(bound - own), ways)
        self.parts[name] = Syntax.of_part(self.syntax, node)
        given = [ast.Name(v, ast.Load()) for v in (name, *arguments)]
        call = hooked("part", ast.Constant(in_loop), *given)
        made = [node, *(_following(call, ways) if ways else [ast.Expr(call)])]
        return [ast.fix_missing_locations(ast.copy_location(part, first)) for part in made]

    def _function(
        self, name: str, run: list[ast.stmt], arguments: list[str], shared: list[str], ways: set[int]
    ) -> ast.FunctionDef:
        leaving = _Leaving(_RETURNS in ways)
        body = [part for s in copied(run) for part in _as_list(leaving.visit(_Undeclared().visit(s)))]
        if ways:
            body.append(leaving.end(_GOES_ON))
        inside = mentioned(run)
        outer = sorted(v for v in self.names.globals if v in inside)
        nonlocals = sorted({*shared, *(v for v in self.names.nonlocals if v in inside)})
        declared: list[ast.stmt] = [ast.Global(outer)] if outer else []
        declared += [ast.Nonlocal(nonlocals)] if nonlocals else []
        parameters = ast.arguments([], [ast.arg(v) for v in arguments], None, [], [], None, [])
        node = ast.FunctionDef(name, parameters, [*declared, *body], [])
        return ast.fix_missing_locations(ast.copy_location(node, run[0]))


def cut(syntax: Syntax, code: types.CodeType, left: frozenset[int], hook: Any) -> types.CodeType | None:
    """The code of a function that is taken apart; None where that leaves no part.

    Args:
        syntax: of the function.
        code: its code.
        left: the sites of statements that stay.
        hook: whose method `part(may_repeat, function, *arguments)` calls a part, which may run several times in a call.
    """
    if not may_be_cut(code) or not isinstance(syntax.node, ast.FunctionDef):
        return None
    cutter = Outliner(syntax)
    node = cutter.without(left)
    if not cutter.parts:
        return None
    made = with_parts(compiled(node, syntax, code), code, hook, cutter)
    return made.replace(co_consts=(*made.co_consts, syntax))


def with_parts(code: types.CodeType, original: types.CodeType, hook: Any, cutter: Outliner) -> types.CodeType:
    """The code with the hook; the code of the parts in it says whose they are."""

    def named(inner: types.CodeType) -> types.CodeType:
        syntax = cutter.parts.get(inner.co_name)
        if syntax is None:
            return inner
        return named_as(inner.replace(co_consts=(*inner.co_consts, syntax)), original)

    return with_hook(code, hook, named)


def _as_list(statements: Any) -> list[ast.stmt]:
    return statements if isinstance(statements, list) else [statements]


def _moves(statement: ast.stmt) -> bool:
    """Whether a statement does in a function inside what it does where it is."""
    if isinstance(statement, ast.ClassDef | ast.AsyncFunctionDef | ast.Import | ast.ImportFrom):
        return False
    parts = list(_outside_of_functions(statement))
    if any(isinstance(p, _BOUND) for p in parts):
        return False
    return not any(isinstance(p, ast.Name) and p.id in ("super", "__class__") for p in ast.walk(statement))


def _outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _outside_of_functions(child)


def _lost(node: ast.AST) -> Iterator[str]:
    """Names that are deleted, by the end of an `except` too."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Del):
            yield part.id
        elif isinstance(part, ast.ExceptHandler) and part.name:
            yield part.name


class _Undeclared(ast.NodeTransformer):
    """Leaves out `global` and `nonlocal`, which stand at the beginning, and annotations of names."""

    def _nothing(self, node: ast.stmt) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    visit_Global = visit_Nonlocal = _nothing

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        made: Any = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
        made.site = getattr(node, "site", -1)
        return ast.copy_location(made, node)

    def _as_it_is(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = _as_it_is


class _Leaving(ast.NodeTransformer):
    """What leaves a part gives how: a number, or a pair of it and the result where one is returned."""

    def __init__(self, with_results: bool) -> None:
        self._with_results, self._depth = with_results, 0

    def end(self, way: int, value: ast.expr | None = None) -> ast.Return:
        """The statement that leaves."""
        number = ast.Constant(way)
        return ast.Return(
            ast.Tuple([number, value or ast.Constant(None)], ast.Load()) if self._with_results else number
        )

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.copy_location(self.end(_RETURNS, node.value), node)

    def visit_Break(self, node: ast.Break) -> ast.stmt:
        return node if self._depth else ast.copy_location(self.end(_BREAKS), node)

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return node if self._depth else ast.copy_location(self.end(_CONTINUES), node)

    def _loop(self, node: Any) -> Any:
        self._depth += 1
        node.body = [part for s in node.body for part in _as_list(self.visit(s))]
        self._depth -= 1
        node.orelse = [part for s in node.orelse for part in _as_list(self.visit(s))]
        return node

    visit_For = visit_While = _loop

    def _as_it_is(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = _as_it_is


def _ways(statements: Iterable[ast.stmt]) -> Iterator[int]:
    """How statements leave the block that they are in."""
    for statement in statements:
        yield from _ways_of(statement, False)


def _ways_of(node: ast.AST, in_loop: bool) -> Iterator[int]:
    if isinstance(node, ast.Return):
        yield _RETURNS
    elif isinstance(node, ast.Break | ast.Continue) and not in_loop:
        yield _BREAKS if isinstance(node, ast.Break) else _CONTINUES
    elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        for name, value in ast.iter_fields(node):
            inner = in_loop or (isinstance(node, _LOOPS) and name == "body")
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _ways_of(child, inner)


def _following(call: ast.expr, ways: set[int]) -> list[ast.stmt]:
    """The call of a part, and what follows from how it ended."""
    has_results = _RETURNS in ways
    ends: dict[int, ast.stmt] = {
        _RETURNS: ast.Return(_item(1)),
        _BREAKS: ast.Break(),
        _CONTINUES: ast.Continue(),
    }
    way = _item(0) if has_results else ast.Name(_WAY, ast.Load())
    tests = [
        ast.If(ast.Compare(way, [ast.Eq()], [ast.Constant(number)]), [ends[number]], []) for number in sorted(ways)
    ]
    return [ast.Assign([ast.Name(_WAY, ast.Store())], call), *tests]


def _item(index: int) -> ast.expr:
    return ast.Subscript(ast.Name(_WAY, ast.Load()), ast.Constant(index), ast.Load())
