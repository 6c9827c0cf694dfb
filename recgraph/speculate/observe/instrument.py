"""A function that runs as it did and tells a profile what it sees.

The syntax tree gets a call around each expression of interest and is compiled again under the user's file name and line
numbers, with the function's own globals, closure and defaults: tracebacks and debuggers show the user's program.
"""

from __future__ import annotations

import ast
import functools
import types
import weakref
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.cpython.parsing import copied
from recgraph.speculate.observe import known
from recgraph.speculate.observe.compiling import compiled, hooked, looks_around, with_code
from recgraph.speculate.observe.cutting import Outliner, with_parts
from recgraph.speculate.observe.known import is_a
from recgraph.speculate.observe.profile import Profile
from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.observe.syntax import Syntax, part_of, site_of, syntax_of

EagerTensor = tf_private.EagerTensor
# Names of our own for the parts of an augmented assignment.
_KEPT = ("recgraph_owner", "recgraph_index", "recgraph_value")
# Whose truth may be asked for without running any code of the program's.
_OF_PYTHON = (bool, int, float, str, list, dict, tuple, type(None))


class Observer:
    """What instrumented functions call. One for a profile.

    Attributes:
        parts: calls the rounds of a loop over a dataset, each as a function of its own, by its method `part`; where it
            is None they run as they are.
        rounds: the place of the function and the site of each loop whose rounds were called so.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.parts: Any = None
        self.rounds: set[tuple[Any, int]] = set()
        self._functions: weakref.WeakKeyDictionary[types.CodeType, types.CodeType | None] = weakref.WeakKeyDictionary()

    def see(self, site: Any, value: Any) -> Any:
        """Passes a value on."""
        self.profile.see(site, value)
        return value

    def indexed(self, site: Any, index: Any) -> Any:
        """Passes an index on: which one matters, of a tensor too."""
        is_number = _is_scalar(index) and index.dtype.is_integer and index.shape.rank == 0
        self.profile.see(site, int(index) if is_number else index)
        return index

    def takes_rounds(self, place: Any, site: int, iterable: Any) -> bool:
        """Whether the rounds of a loop are called: it goes through a dataset."""
        if self.parts is None or not tf_private.is_plainly_eager() or not tf_private.goes_through_dataset(iterable):
            return False
        self.rounds.add((place, site))
        return True

    def part(self, may_repeat: bool, function: types.FunctionType, *values: Any) -> Any:
        """Calls a part of a function."""
        return function(*values) if self.parts is None else self.parts.part(may_repeat, function, *values)

    def enter(self, place: Any, arguments: dict[str, Any]) -> None:
        """A function begins."""
        self.profile.enter(place, arguments)

    def leave(self, place: Any) -> None:
        """A function ends."""
        self.profile.leave(place)

    def returned(self, place: Any, value: Any) -> Any:
        """Passes the result of a function on."""
        self.profile.returned(place, value)
        return value

    def decided(self, site: Any, value: Any) -> Any:
        """Passes on a value whose truth decides; it is noted where asking for it has no effects."""
        if _is_scalar(value) or any(type(value) is kind for kind in _OF_PYTHON):
            self.profile.see(site, bool(value))
        return value

    def called(self, callee: Any, place: Any) -> Any:
        """A callee of the program: observed, and what a tensor that it is given decides."""
        known_how = callee in _DECIDING if type(callee) is types.FunctionType else False
        return functools.partial(_DECIDING[callee], self, callee, place) if known_how else self.observed(callee)

    def observed(self, callee: Any) -> Any:
        """A callee that is observed too, where it is a Python function of the user's."""
        if known.is_speculated(callee):
            return self.observed(callee.function)
        if type(callee) is types.MethodType and known.is_speculated(callee.__func__):
            speculated: Any = callee.__func__
            return self.observed(types.MethodType(speculated.function, callee.__self__))
        if type(callee) is types.MethodType and type(callee.__func__) is types.FunctionType:
            inner = self.observed(callee.__func__)
            return types.MethodType(inner, callee.__self__) if inner is not callee.__func__ else callee
        if type(callee) is not types.FunctionType or not known.is_users(callee):
            return callee
        code = self._code(callee)
        return callee if code is None else with_code(callee, code)

    def _code(self, function: types.FunctionType) -> types.CodeType | None:
        code = function.__code__
        if is_observed(code):  # made by an observed function
            return None
        if code not in self._functions:
            try:
                syntax = syntax_of(function)
                self._functions[code] = _instrumented(syntax, code, self)
                self.profile.syntaxes[syntax.key] = syntax
            except Inconvertible:
                self._functions[code] = None
        return self._functions[code]


def why_not_observed(function: types.FunctionType) -> Inconvertible:
    """Why a function runs as it is while others are observed."""
    try:
        syntax = syntax_of(function)
    except Inconvertible as reason:
        return reason
    what = "it looks at its names, or gives what it makes one at a time"
    return Inconvertible(Feature.NAMESPACE, what, syntax.where(syntax.node))


class _Nobody(Observer):
    """In place of an observer that has died."""

    def observed(self, callee: Any) -> Any:
        """The callee itself."""
        return callee


class _Hook:
    """An observer among the constants of code, which does not keep it alive: Python's collector looks past code."""

    _nobody = _Nobody(Profile())

    def __init__(self, observer: Observer) -> None:
        self._observer = weakref.ref(observer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._observer() or self._nobody, name)


def is_observed(code: types.CodeType) -> bool:
    """Whether code tells an observer what it does."""
    return any(type(constant) is _Hook for constant in code.co_consts)


def _is_scalar(value: Any) -> bool:
    """Whether a value is a tensor of one element, whose truth may be asked for."""
    return is_a(value, EagerTensor) and value.shape.num_elements() == 1


def _seen_cond(observer: Observer, callee: Any, place: Any, *arguments: Any, **named: Any) -> Any:
    decides = arguments[0] if arguments else named.get("pred")
    if _is_scalar(decides):
        observer.profile.see((*place[:-1], "truth"), bool(decides))
    return callee(*arguments, **named)


def _seen_case(observer: Observer, callee: Any, place: Any, *arguments: Any, **named: Any) -> Any:
    index, functions = (*arguments, named.get("branch_index"), named.get("branch_fns"))[:2]
    if (
        index is not None
        and is_a(index, EagerTensor)
        and index.shape.num_elements() == 1
        and type(functions) in (list, tuple)
    ):
        for number in range(len(functions)):
            observer.profile.see((*place[:-1], f"case {number}"), bool(index == number))
            if index == number:
                break
    return callee(*arguments, **named)


_DECIDING: dict[Any, Any] = {tf.cond: _seen_cond, tf.switch_case: _seen_case}


def _instrumented(syntax: Syntax, code: types.CodeType, observer: Observer) -> types.CodeType | None:
    """The code that observes; None for generators and coroutines, which are left alone."""
    if code.co_flags & (0x20 | 0x80 | 0x200) or looks_around(code):
        return None
    cutter = Outliner(syntax)
    node = _Observing(syntax, cutter).visit(copied(syntax.node))
    if isinstance(node, ast.FunctionDef):
        if cutter.parts:
            cutter.declare(node)
        _announce(node, syntax)
    hook = _Hook(observer)
    made = with_parts(compiled(node, syntax, code), code, hook, cutter)
    if part_of(code) is not None:
        made = made.replace(co_consts=(*made.co_consts, syntax))
    # Where there is nothing to see, too, it has to be known for what it is.
    return made if is_observed(made) else made.replace(co_consts=(*made.co_consts, hook))


def _announce(node: ast.FunctionDef, syntax: Syntax) -> None:
    """Tells when the function begins, with its arguments, and when it ends."""
    place: Any = syntax.key
    names = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
    arguments = ast.Dict([ast.Constant(name) for name in names], [ast.Name(name, ast.Load()) for name in names])
    enter = ast.Expr(hooked("enter", ast.Constant(place), arguments))
    leave = ast.Expr(hooked("leave", ast.Constant(place)))
    node.body = [ast.copy_location(part, node) for part in (enter, ast.Try(node.body, [], [], [leave]))]


def _as_list(statements: Any) -> list[ast.stmt]:
    return statements if isinstance(statements, list) else [statements]


class _Observing(ast.NodeTransformer):
    """Wraps expressions in calls of the observer. Sites are the numbers that `Syntax` gave to nodes."""

    def __init__(self, syntax: Syntax, cutter: Outliner) -> None:
        self.syntax, self.cutter = syntax, cutter
        self.depth = 0

    def _site(self, node: ast.AST, what: str = "value") -> ast.expr:
        place: Any = site_of(self.syntax, node, what)
        return ast.Constant(place)

    @staticmethod
    def site_number(node: ast.AST) -> int:
        """The number that `Syntax` gave to a node."""
        return getattr(node, "site", -1)

    def _seen(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(hooked("see", self._site(node), node), node)

    def visit_Return(self, node: ast.Return) -> ast.Return:
        """What the function returns, not those inside of it."""
        self.generic_visit(node)
        if node.value is not None and self.depth == 1:
            place: Any = self.syntax.key
            node.value = ast.copy_location(hooked("returned", ast.Constant(place), node.value), node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return self._seen(node) if isinstance(node.ctx, ast.Load) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.slice, ast.Slice | ast.Tuple):
            node.slice = ast.copy_location(hooked("indexed", self._site(node, "index"), node.slice), node.slice)
        return self._seen(node) if isinstance(node.ctx, ast.Load) else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._seen(node) if isinstance(node.ctx, ast.Load) and node.id != "super" else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A callee is observed, and what it returns."""
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "super"):
            node.func = ast.copy_location(hooked("called", node.func, self._site(node, "")), node.func)
        return self._seen(node)

    def _truth(self, test: ast.expr) -> ast.expr:
        """The truth of a test, which is a site beside that of its value."""
        site = self._site(test, "truth")
        truth = ast.IfExp(self.visit(test), ast.Constant(True), ast.Constant(False))  # Python asks each operand once
        return ast.copy_location(hooked("see", site, truth), test)

    def _tested(self, node: Any) -> Any:
        test, node.test = node.test, ast.Constant(True)
        self.generic_visit(node)
        node.test = self._truth(test)
        return node

    visit_If = visit_IfExp = visit_Assert = _tested

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Python asks the operands that decide for their truth; we do, too, where nobody can notice."""
        *deciding, last = node.values
        sites = [self._site(operand, "truth") for operand in deciding]
        values = [
            ast.copy_location(hooked("decided", s, self.visit(v)), v) for s, v in zip(sites, deciding, strict=True)
        ]
        node.values = [*values, self.visit(last)]
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        tests, node.ifs = node.ifs, []
        self.generic_visit(node)
        node.ifs = [self._truth(test) for test in tests]
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        """Patterns are left alone: they are no expressions."""
        node.guard = None if node.guard is None else self._truth(node.guard)
        node.body = [part for statement in node.body for part in _as_list(self.visit(statement))]
        return node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        return self._loop(self._tested(node))

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """A loop; where it turns out to go through a dataset, one that calls its rounds in its place."""
        rounds = None if self.depth != 1 or node.orelse else self.cutter.rounds(node)
        self.generic_visit(node)
        if rounds is None:
            return self._loop(node)
        name = f"recgraph_iterable_{self.site_number(node)}"
        # In a list, out of which the loop takes it: nothing but the loop keeps an iterator alive.
        kept = ast.Assign([ast.Name(name, ast.Store())], ast.List([node.iter], ast.Load()))
        held = ast.copy_location(kept, node)
        for loop in (node, rounds):
            taken = ast.Call(ast.Attribute(ast.Name(name, ast.Load()), "pop", ast.Load()), [], [])
            loop.iter = ast.copy_location(taken, node)
        place: Any = self.syntax.key
        iterable = ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(0), ast.Load())
        test = hooked("takes_rounds", ast.Constant(place), ast.Constant(self.site_number(node)), iterable)
        forget = ast.copy_location(ast.Delete([ast.Name(name, ast.Del())]), node)
        return [held, ast.copy_location(ast.If(test, [rounds], self._loop(node)), node), forget]

    def _loop(self, node: Any) -> list[ast.stmt]:
        """Each round is seen, and the end."""
        begin, end = (
            ast.copy_location(ast.Expr(hooked("see", self._site(node, "round"), ast.Constant(goes_on))), node)
            for goes_on in (True, False)
        )
        node.body.insert(0, begin)
        return [node, end, self._after(node)]

    def _after(self, node: ast.stmt) -> ast.stmt:
        """Checks that what follows a statement was reached."""
        return ast.copy_location(ast.Expr(hooked("see", self._site(node, "after"), ast.Constant(True))), node)

    def _followed(self, node: Any) -> list[ast.stmt]:
        self.generic_visit(node)
        return [node, self._after(node)]

    visit_With = visit_Try = visit_TryStar = _followed

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """`a.b += c` reads `a.b`, too: it becomes `o = a; x = o.b; x += c; o.b = x`, which is what Python does."""
        site = self._site(node.target)
        self.generic_visit(node)
        steps: list[ast.stmt] = []
        target = node.target
        if isinstance(target, ast.Attribute | ast.Subscript):
            target.value = self._kept("owner", target.value, steps)
        if isinstance(target, ast.Subscript):
            place = self._site(target, "index")
            target.slice = self._kept("index", hooked("indexed", place, target.slice), steps)
        current = copied(target)
        current.ctx = ast.Load()
        self._kept("value", hooked("see", site, current), steps)
        name = "recgraph_value"
        steps.append(ast.AugAssign(ast.Name(name, ast.Store()), node.op, node.value))
        steps.append(ast.Assign([target], ast.Name(name, ast.Load())))
        kept = {n.id for step in steps for n in ast.walk(step) if isinstance(n, ast.Name) and n.id in _KEPT}
        steps.append(ast.Delete([ast.Name(name, ast.Del()) for name in sorted(kept)]))
        return [ast.copy_location(step, node) for step in steps]

    def _kept(self, what: str, value: ast.expr, steps: list[ast.stmt]) -> ast.expr:
        """Keeps a value under a name of our own."""
        steps.append(ast.Assign([ast.Name(f"recgraph_{what}", ast.Store())], value))
        return ast.Name(f"recgraph_{what}", ast.Load())

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node
