"""The syntax tree of a function, found from its code object."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from recgraph.cpython import sources
from recgraph.cpython.parsing import copied
from recgraph.speculate.observe.reasons import Feature, Inconvertible

FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda


class Syntax:
    """A function's syntax tree. Its nodes are numbered: a number is a *site* of the program.

    Attributes:
        node: the function's definition.
        filename: the user's file.
        mangled: the class around it, whose private names it uses, or "".
        key: what tells its sites from those of other functions.
        shared: of a part, the names of the function around it, whose own they are.
    """

    shared: frozenset[str] = frozenset()

    def __init__(self, node: FunctionNode, text: sources.Text, mangled: str) -> None:
        # A tree of its own: a function inside of another has other numbers in the other's tree.
        self.node, self.filename, self.mangled = copied(node), text.filename, mangled
        self.key = (text.name, node.lineno, node.col_offset)
        for number, part in enumerate(ast.walk(self.node)):
            part.site = number  # type: ignore[attr-defined]

    @classmethod
    def within(cls, outer: Syntax, node: FunctionNode) -> Syntax:
        """A function inside of another, whose sites are its own."""
        made = cls.__new__(cls)
        made.node, made.filename, made.mangled, made.key = node, outer.filename, outer.mangled, outer.key
        return made

    @classmethod
    def of_part(cls, outer: Syntax, node: FunctionNode) -> Syntax:
        """A part of a function that became a function inside of it: its sites are those of the other."""
        made = cls.within(outer, node)
        made.nodes, made.name = outer.nodes, outer.name
        made.shared = outer.shared | names_of(outer.node).bound
        return made

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """Its nodes by number."""
        return list(ast.walk(self.node))

    @functools.cached_property
    def name(self) -> str:
        """The function's name; lambdas have none of their own."""
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "<lambda>"

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements; a lambda returns its expression."""
        if isinstance(self.node, ast.FunctionDef):
            return self.node.body
        return [ast.copy_location(ast.Return(self.node.body), self.node.body)]

    def private(self, name: str) -> str:
        """The name that a private name of a class stands for."""
        if not self.mangled or not name.startswith("__") or name.endswith("__"):
            return name
        return f"_{self.mangled.lstrip('_')}{name}"

    def where(self, node: ast.AST) -> str:
        """The user's line of a node."""
        return f"{self.filename}:{getattr(node, 'lineno', self.node.lineno)}"


def site_of(syntax: Syntax, node: ast.AST, what: str = "value") -> tuple[object, ...]:
    """The place in the profile for the values of a node, or for its truth."""
    return (*syntax.key, getattr(node, "site", -1), what)


def syntax_of(function: Callable[..., object]) -> Syntax:
    """The syntax tree of a Python function.

    Raises:
        Inconvertible: there is no source, or several functions in it that cannot be told apart.
    """
    code = function.__code__
    if (part := part_of(code)) is not None:
        return part
    if len(_syntaxes) > _MOST:
        _syntaxes.clear()
    known = _syntaxes.setdefault(code, {})  # code objects of two files are equal where their functions are
    if code.co_filename not in known:
        known[code.co_filename] = _found(function)
    return known[code.co_filename]


# By code, for as long as that lives; TensorFlow keeps some of it.
_MOST: Final = 256
_syntaxes: weakref.WeakKeyDictionary[types.CodeType, dict[str, Syntax]] = weakref.WeakKeyDictionary()


def part_of(code: types.CodeType) -> Syntax | None:
    """The syntax tree of a part of a function, or of one that was taken apart: no text has it, so its code holds it."""
    return next((constant for constant in code.co_consts if type(constant) is Syntax), None)


def _found(function: Any) -> Syntax:
    code = function.__code__
    where = f"{code.co_filename}:{code.co_firstlineno}"
    try:
        text = sources.text_of(code, function.__globals__)
    except LookupError as reason:
        raise Inconvertible(Feature.NO_SOURCE, str(reason.args[0]), where) from None
    found = [(node, name) for node, name in _functions(text) if _begins(node) == code.co_firstlineno]
    found = [(node, name) for node, name in found if _name(node) == code.co_name]
    if len(found) > 1:
        found = [(node, name) for node, name in found if _place(node) == _code_place(code)]
    if len(found) != 1:
        raise Inconvertible(Feature.NO_SOURCE, f"the source of {code.co_name} was not found", where)
    return Syntax(found[0][0], text, found[0][1])


@functools.lru_cache(64)
def _functions(text: sources.Text) -> list[tuple[FunctionNode, str]]:
    """All functions of a text, with the class around each."""
    return list(_inside(text.tree, ""))


def _inside(node: ast.AST, around: str) -> Iterator[tuple[FunctionNode, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child, around
        yield from _inside(child, child.name if isinstance(child, ast.ClassDef) else around)


def _begins(node: FunctionNode) -> int:
    decorators = getattr(node, "decorator_list", None)
    return decorators[0].lineno if decorators else node.lineno


def _name(node: FunctionNode) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else "<lambda>"


def _place(node: FunctionNode) -> tuple[int, int]:
    """Where its first statement or its expression begins."""
    first = node.body[0] if isinstance(node.body, list) else node.body
    return first.lineno, first.col_offset


def _code_place(code: types.CodeType) -> tuple[int, int]:
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    return min(places) if places else (0, 0)


# What has names of its own.
SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclasses.dataclass
class Names:
    """The names of a function: those it binds, and those it declares `global` or `nonlocal`."""

    bound: set[str] = dataclasses.field(default_factory=set)
    globals: set[str] = dataclasses.field(default_factory=set)
    nonlocals: set[str] = dataclasses.field(default_factory=set)


def names_of(node: FunctionNode) -> Names:
    """The names of a function, nested functions left out."""
    names = names_of_block(node.body if isinstance(node.body, list) else [node.body])
    names.bound |= parameters_of(node)
    names.bound -= names.globals | names.nonlocals
    return names


def parameters_of(node: FunctionNode) -> set[str]:
    """The names of a function's parameters."""
    return {argument.arg for argument in _arguments(node.args)}


def names_of_block(parts: Sequence[ast.AST]) -> Names:
    """The names of a part of a function: those that it binds itself, declared or not."""
    names = Names()
    for part in parts:
        _collect(part, names, False)
    return names


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    yield from (argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None)


def _collect(node: ast.AST, names: Names, in_comprehension: bool) -> None:
    if isinstance(node, ast.Global):
        names.globals.update(node.names)
    elif isinstance(node, ast.Nonlocal):
        names.nonlocals.update(node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and not in_comprehension:
        names.bound.add(node.id)
    elif isinstance(node, ast.NamedExpr):
        names.bound.add(node.target.id)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        names.bound.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        names.bound.add(node.rest)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        names.bound.add(node.name)
    elif isinstance(node, ast.alias):
        names.bound.add(node.asname or node.name.partition(".")[0])
    if isinstance(node, SCOPES):
        return
    for child in ast.iter_child_nodes(node):
        # A comprehension's target is its own; a walrus in it is the function's.
        _collect(child, names, in_comprehension or isinstance(node, _COMPREHENSIONS))


@dataclasses.dataclass(eq=False)
class Frame:
    """A function that is being converted.

    Attributes:
        syntax: of the function.
        names: that it binds.
        locals: their values.
        function: the function object, for its globals and closure; of a function made during the call that of the
            function around it.
        outer: the frame around it, of a function made during the call or of a comprehension.
        rests: what comes after the statement that is being converted, in each block around it.
        taker: of a generator, what is done with what it yields.
        scopes: where in `rests` each scope begins that a branch may be a part of (`branches.py`).
    """

    syntax: Syntax
    names: Names
    function: Any
    locals: dict[str, Any] = dataclasses.field(default_factory=dict)
    outer: Frame | None = None
    rests: list[list[ast.stmt]] = dataclasses.field(default_factory=list)
    scopes: list[int] = dataclasses.field(default_factory=lambda: [0])
    taker: Any = None

    @contextlib.contextmanager
    def at(self, depth: int) -> Iterator[None]:
        """While the rest of a block runs, only what comes after that block is left."""
        rests, self.rests = self.rests, self.rests[:depth]
        try:
            yield
        finally:
            self.rests = rests


def signature_of(function: Any) -> inspect.Signature:
    """What a function itself takes, whatever it says about what it wraps."""
    if not isinstance(function, types.FunctionType):
        return inspect.signature(function)
    plain = types.FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)
    plain.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(plain)


def names_of_parameters(function: Any) -> list[str]:
    """The names of a function's parameters, in the order of its signature."""
    code = function.__code__
    names = list(code.co_varnames)
    positional, named = code.co_argcount, code.co_kwonlyargcount
    stars = names[positional + named :]
    star = [stars.pop(0)] if code.co_flags & inspect.CO_VARARGS else []
    last = stars[:1] if code.co_flags & inspect.CO_VARKEYWORDS else []
    return [*names[:positional], *star, *names[positional : positional + named], *last]


def arguments_of(function: Any, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call a function with, so that its parameters have these values."""
    code = function.__code__
    positional, named = code.co_argcount, code.co_kwonlyargcount
    star = bool(code.co_flags & inspect.CO_VARARGS)
    arguments = (*values[:positional], *(values[positional] if star else ()))
    names = names_of_parameters(function)[positional + star :][:named]
    keywords = dict(zip(names, values[positional + star :], strict=False))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        keywords.update(values[positional + star + named])
    return arguments, keywords


def binder(function: Any) -> Callable[..., tuple[Any, ...]]:
    """A function with the same parameters that gives their values in order."""
    parameters = signature_of(function).parameters.values()
    scope: dict[str, Any] = {}
    parts, names, stars = [], [], False
    for i, parameter in enumerate(parameters):
        text = parameter.name
        names.append(text)
        if parameter.kind is parameter.VAR_POSITIONAL:
            text, stars = f"*{text}", True
        elif parameter.kind is parameter.VAR_KEYWORD:
            text = f"**{text}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not stars:
            parts.append("*")
            stars = True
        if parameter.default is not parameter.empty:
            scope[f"d{i}"] = parameter.default
            text += f"=d{i}"
        parts.append(text)
        following = list(parameters)[i + 1 : i + 2]
        if parameter.kind is parameter.POSITIONAL_ONLY and (not following or following[0].kind is not parameter.kind):
            parts.append("/")
    exec(f"def bind({', '.join(parts)}): return ({''.join(name + ', ' for name in names)})", scope)
    bind: Callable[..., tuple[Any, ...]] = scope["bind"]
    return bind
