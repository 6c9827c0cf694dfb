"""The Python function that a call becomes: check the assumptions, run the graph, then do to Python what the call does.

It is a program of nodes that grows while the graph is built, and is written and compiled once::

    def call(parameters):
        (v0, v1) = parameters
        if type(v0) is not k0: return broken(0)
        v2 = v0.state
        ...
        t = graph(v1, v2)
        v0.state = t[1]
        return t[0]

What comes before the graph reads only, so a broken assumption leaves no trace; what comes after it cannot fail, but for
what is checked while the graph can still be undone.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from recgraph.cpython.parsing import parse
from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.script.assumptions import Assumption
from recgraph.speculate.script.call_locals import CallLocalObjects
from recgraph.speculate.script.draws import Draws, Rehearsal
from recgraph.speculate.script.symbolic import SymbolicValue, stands_in

_INDENT = "    "
# An expression of names, numbers and items, as most are: parsing it would take much longer.
_OF_NAMES, _NAME = re.compile(r"[\w\[\]]+"), re.compile(r"\b[^\W\d]\w*")


class Node:
    """A statement of the function."""

    @property
    def lines(self) -> list[str]:
        """Its source."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Condition:
    """What is checked before the graph.

    Attributes:
        code: an expression.
        told: the name that stands for an object which is told by its address, if it is about one.
    """

    code: str
    told: str = ""


@dataclasses.dataclass(frozen=True)
class Guard(Node):
    """Goes on only where a condition holds; `number` is the assumption that it does."""

    condition: Condition
    number: int

    @property
    def lines(self) -> list[str]:
        return [f"if not ({self.condition.code}): return broken({self.number})"]


@dataclasses.dataclass(frozen=True)
class Let(Node):
    """Gives names to what an expression gives.

    Attributes:
        target: one name, or several in parentheses.
        expression: what is read, or called.
        broken: for each exception that it may raise, the number of the assumption that it does not.
    """

    target: str
    expression: str
    broken: tuple[tuple[str, int], ...] = ()

    @property
    def lines(self) -> list[str]:
        code = f"{self.target} = {self.expression}"
        if not self.broken:
            return [code]
        return [f"try: {code}", *(f"except {kind}: return broken({number})" for kind, number in self.broken)]

    @property
    def names(self) -> set[str]:
        """Those in the expression."""
        if _OF_NAMES.fullmatch(self.expression):
            return set(_NAME.findall(self.expression))
        return {node.id for node in ast.walk(parse(self.expression, mode="eval")) if isinstance(node, ast.Name)}


@dataclasses.dataclass(frozen=True)
class Raising(Let):
    """Gives a name to the exception that a call raises, of the kind that it has always raised."""

    kind: str = ""
    number: int = 0

    @property
    def lines(self) -> list[str]:
        return [
            f"try: {self.target} = {self.expression}",
            f"except Exception as error: {self.target} = error.with_traceback(None)",
            f"if type({self.target}) is not {self.kind}: return broken({self.number})",
        ]


class Draw(Let):
    """Gives a name to what is drawn from a generator of Python's or NumPy's."""


@dataclasses.dataclass(frozen=True)
class RunGraph(Node):
    """Runs the graph, and then the checks: what may fail after it, while it can still be undone."""

    feeds: Sequence[str]
    checks: Sequence[Node]

    @property
    def lines(self) -> list[str]:
        feeds = "".join(f"{feed}, " for feed in self.feeds)
        failing = "except Exception as error: return failed(error)"
        if not self.checks:
            return [f"try: t = graph(({feeds}))", failing]
        names = "".join(f"{check.target}, " for check in self.checks if isinstance(check, Let))
        body = [_INDENT + line for line in [*_lines(self.checks), f"return ({names})"]]
        return ["def check(t):", *body, f"try: t, ({names}) = graph(({feeds}), check)", failing]


@dataclasses.dataclass(frozen=True)
class Write(Node):
    """Gives a place of the program's another value."""

    target: str
    value: str

    @property
    def lines(self) -> list[str]:
        return [f"{self.target} = {self.value}"]


@dataclasses.dataclass(frozen=True)
class Delete(Node):
    """Deletes what is in a place, if something is."""

    target: str

    @property
    def lines(self) -> list[str]:
        return [f"try: del {self.target}", "except (AttributeError, LookupError, NameError): pass"]


@dataclasses.dataclass(frozen=True)
class Perform(Node):
    """Calls something for what it does."""

    code: str

    @property
    def lines(self) -> list[str]:
        return [self.code]


def _lines(nodes: Iterable[Node]) -> list[str]:
    return [line for node in nodes for line in node.lines]


class Script:
    """The statements of the function, and the objects that they name.

    Attributes:
        rehearsal: draws what the call that is converted will draw from Python's and NumPy's generators.
        newborn: what each call makes in its graph, and drops with it.
    """

    def __init__(self, parameters: int) -> None:
        self.parameters = [f"p{i}" for i in range(parameters)]
        self.before: list[Node] = []
        self.after: list[Node] = []
        self.checks: list[Node] = []
        self.feeds: list[str] = []
        self.result = "None"
        self.assumptions: list[Assumption] = []
        self.scope: dict[str, Any] = {}
        self.watched: list[Any] = []
        self.rehearsal = Rehearsal()
        self.newborn = CallLocalObjects()
        self._constants: dict[int, str] = {}
        self._told: dict[int, str] = {}
        self._assumed: set[str] = set()
        self._read: dict[str, str] = {}
        self._count = 0

    def constant(self, value: Any) -> str:
        """The name of an object that stays the same; held alive by the function."""
        if isinstance(value, SymbolicValue):
            raise Inconvertible(Feature.TEXT, f"a {type(value).__name__.lower()} has no place in the script")
        if (where := self.newborn.kept_by(value)) is not None:
            raise Inconvertible(Feature.NEW_VARIABLE, "a variable that is made here is kept after the call", where)
        if id(value) not in self._constants:
            name = f"k{len(self._constants)}"
            self._constants[id(value)] = name
            self.scope[name] = value
        return self._constants[id(value)]

    def found(self, value: Any) -> str:
        """The name of an object that was told by its address, or else that by which the function holds it alive."""
        return self._told.get(id(value)) or self.constant(value)

    def is_told(self, value: Any) -> bool:
        """Whether an object was told by its address."""
        return id(value) in self._told

    def is_same(self, name: str, value: Any) -> Condition:
        """The condition that a name stands for this very object, which the script does not keep alive.

        An address stands for it: when the object dies, so does the script, before another can have that address.
        """
        try:
            self.watched.append(weakref.ref(value))
        except TypeError:
            return Condition(f"{name} is {self.constant(value)}")
        self._told[id(value)] = name
        return Condition(f"id({name}) == {id(value)}", told=name)

    def is_equal(self, name: str, value: Any) -> str:
        """The condition that a name stands for equal plain data of the same type."""
        if value is None or isinstance(value, bool):
            return f"{name} is {value!r}"
        if type(value) in (int, str, bytes):
            return f"type({name}) is {type(value).__name__} and {name} == {value!r}"
        return f"same({name}, {self.constant(value)})"

    def is_eager(self, name: str, dtype: int) -> str:
        """The condition that a name stands for an eager tensor of a dtype."""
        return f"type({name}) is EagerTensor and {name}._datatype_enum() == {dtype}"

    def has_shape(self, name: str, shape: tuple[int | None, ...]) -> str:
        """The condition that an eager tensor has a shape. In line where it is short: a call takes longer."""
        if None in shape:
            return f"fits({name}._shape_tuple(), {shape})"
        return f"{name}._shape_tuple() == {shape}"

    def name(self) -> str:
        """A new name."""
        self._count += 1
        return f"v{self._count}"

    def assume(self, condition: str | Condition, assumption: Assumption) -> None:
        """Goes on only where a condition holds."""
        condition = condition if isinstance(condition, Condition) else Condition(condition)
        if condition.code not in self._assumed:
            self._assumed.add(condition.code)
            self.before.append(Guard(condition, self.number(assumption)))

    def number(self, assumption: Assumption) -> int:
        """The number of an assumption, by which the one that broke is told."""
        self.assumptions.append(assumption)
        return len(self.assumptions) - 1

    def read(self, expression: str, assumption: Assumption | None = None) -> str:
        """The name of a value that is read before the graph runs, once. It may fail only with an assumption."""
        if expression not in self._read:
            self._read[expression] = self.name()
            self.compute(self._read[expression], expression, assumption)
        return self._read[expression]

    def compute(self, name: str, expression: str, assumption: Assumption | None = None) -> None:
        """Gives a name to what is called before the graph runs. It may fail only with an assumption."""
        broken = () if assumption is None else (("Exception", self.number(assumption)),)
        self.before.append(Let(name, expression, broken))

    def draw(self, name: str, expression: str, assumption: Assumption) -> None:
        """Gives a name to what is drawn by `draws`, which is put back where the call is not made."""
        self.before.append(Draw(name, expression, (("Exception", self.number(assumption)),)))

    def feed(self, name: str) -> int:
        """Gives a value to the graph; the number of its input."""
        self.feeds.append(name)
        return len(self.feeds) - 1

    def mark(self) -> Any:
        """What has been read and assumed so far, for `reset`."""
        lengths = len(self.before), len(self.feeds), len(self.assumptions)
        copies = dict(self._read), set(self._assumed), dict(self._told)
        return *lengths, *copies, self.rehearsal.mark()

    def reset(self, mark: Any) -> None:
        """Takes back what was read and assumed since."""
        before, feeds, assumptions = mark[:3]
        self._read, self._assumed, self._told = dict(mark[3]), set(mark[4]), dict(mark[5])
        self.rehearsal.reset(mark[6])
        del self.before[before:], self.feeds[feeds:], self.assumptions[assumptions:]

    def effect(self, node: Node) -> None:
        """Something to do after the graph, in order."""
        self.after.append(node)

    def at_once(self, node: Node) -> None:
        """Something to do after the graph, before all else."""
        self.after.insert(0, node)

    @contextlib.contextmanager
    def checking(self) -> Iterator[None]:
        """While what is done after the graph may fail: then the graph is undone."""
        after, self.after = self.after, self.checks
        try:
            yield
        finally:
            self.after = after

    @property
    def has_draws(self) -> bool:
        """Whether a call draws numbers."""
        return any(isinstance(node, Draw) for node in self.before)

    @property
    def text(self) -> str:
        """The source."""
        names = "".join(f"{name}, " for name in self.parameters)
        body = [f"({names}) = parameters"] if names else []
        until_run = _lines([*self.before, RunGraph(self.feeds, self.checks)])
        if self.has_draws:
            until_run = ["with Draws() as draws:", *(_INDENT + line for line in [*until_run, "draws.keep()"])]
        body += [*until_run, *_lines(self.after), f"return {self.result}"]
        return "\n".join(["def call(parameters):", *(_INDENT + line for line in body)]) + "\n"

    def owner(self) -> int | None:
        """The first parameter through which objects were found that must be these very ones; None if there is none."""
        roots: dict[str, set[str]] = {name: {name} for name in self.parameters}
        owners: set[str] = set()
        for node in self.before:
            if isinstance(node, Let):
                roots[node.target] = set().union(*(roots.get(name, set()) for name in node.names))
            elif isinstance(node, Guard):
                owners |= roots.get(node.condition.told, set())
        return min((self.parameters.index(name) for name in owners), default=None)

    def compile(self, scope: dict[str, Any]) -> Callable[[Sequence[Any]], Any]:
        """The function. `scope` has `graph`, `broken` and `failed`."""
        names = {"Draws": Draws, **self.scope, **scope}
        if any(map(stands_in, self.scope.values())):
            raise Inconvertible(Feature.TEXT, "what the conversion made of a value would reach the program")
        try:
            exec(compile(self.text, "<recgraph: speculated call>", "exec"), names)
        except SyntaxError as error:
            raise Inconvertible(Feature.SCRIPT, f"the call's script does not compile: {error}") from error
        made: Callable[[Sequence[Any]], Any] = names["call"]
        return made
