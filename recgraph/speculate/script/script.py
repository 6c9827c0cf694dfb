"""The Python function that a call becomes: check the assumptions, run the graph, then do to Python what the call does.

It is written line by line while the graph is built, and compiled once::

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

import contextlib
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from recgraph.speculate.observe.reasons import Feature, Inconvertible
from recgraph.speculate.script.assumptions import Assumption
from recgraph.speculate.script.stand_ins import StandIn, stands_in

_INDENT = "    "


class Script:
    """The lines of the function, and the objects that they name."""

    def __init__(self, parameters: int) -> None:
        self.parameters = [f"p{i}" for i in range(parameters)]
        self.before: list[str] = []
        self.after: list[str] = []
        self.checks: list[str] = []
        self.feeds: list[str] = []
        self.result = "None"
        self.assumptions: list[Assumption] = []
        self.scope: dict[str, Any] = {}
        self.watched: list[Any] = []
        self._constants: dict[int, str] = {}
        self._assumed: set[str] = set()
        self._read: dict[str, str] = {}
        self._count = 0

    def constant(self, value: Any) -> str:
        """The name of an object that stays the same; held alive by the function."""
        if isinstance(value, StandIn):
            raise Inconvertible(Feature.TEXT, f"a {type(value).__name__.lower()} has no place in the script")
        if id(value) not in self._constants:
            name = f"k{len(self._constants)}"
            self._constants[id(value)] = name
            self.scope[name] = value
        return self._constants[id(value)]

    def is_same(self, name: str, value: Any) -> str:
        """The condition that a name stands for this very object, which the script does not keep alive.

        An address stands for it: when the object dies, so does the script, before another can have that address.
        """
        try:
            self.watched.append(weakref.ref(value))
        except TypeError:
            return f"{name} is {self.constant(value)}"
        return f"id({name}) == {id(value)}"

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

    def assume(self, condition: str, assumption: Assumption) -> None:
        """Goes on only where a condition holds."""
        if condition not in self._assumed:
            self._assumed.add(condition)
            self.before.append(f"if not ({condition}): return broken({self.number(assumption)})")

    def number(self, assumption: Assumption) -> int:
        """The number of an assumption, by which the one that broke is told."""
        self.assumptions.append(assumption)
        return len(self.assumptions) - 1

    def read(self, expression: str, assumption: Assumption | None = None) -> str:
        """The name of a value that is read before the graph runs, once. It may fail only with an assumption."""
        if expression not in self._read:
            name = self.name()
            if assumption is None:
                self.before.append(f"{name} = {expression}")
            else:
                number = self.number(assumption)
                self.before += [f"try: {name} = {expression}", f"except Exception: return broken({number})"]
            self._read[expression] = name
        return self._read[expression]

    def feed(self, name: str) -> int:
        """Gives a value to the graph; the number of its input."""
        self.feeds.append(name)
        return len(self.feeds) - 1

    def mark(self) -> Any:
        """What has been read and assumed so far, for `reset`."""
        return len(self.before), len(self.feeds), len(self.assumptions), dict(self._read), set(self._assumed)

    def reset(self, mark: Any) -> None:
        """Takes back what was read and assumed since."""
        before, feeds, assumptions = mark[:3]
        self._read, self._assumed = dict(mark[3]), set(mark[4])
        del self.before[before:], self.feeds[feeds:], self.assumptions[assumptions:]

    def effect(self, line: str) -> None:
        """Something to do after the graph, in order."""
        self.after.append(line)

    @contextlib.contextmanager
    def checking(self) -> Iterator[None]:
        """While what is done after the graph may fail: then the graph is undone."""
        after, self.after = self.after, self.checks
        try:
            yield
        finally:
            self.after = after

    def _running(self) -> list[str]:
        """Runs the graph, and then what may fail."""
        feeds = "".join(f"{feed}, " for feed in self.feeds)
        failing = "except Exception as error: return failed(error)"
        if not self.checks:
            return [f"try: t = graph(({feeds}))", failing]
        names = "".join(f"{found[1]}, " for line in self.checks if (found := re.match(r"(v\d+) = ", line)))
        body = [_INDENT + line for line in [*self.checks, f"return ({names})"]]
        return ["def check(t):", *body, f"try: t, ({names}) = graph(({feeds}), check)", failing]

    @property
    def text(self) -> str:
        """The source."""
        names = "".join(f"{name}, " for name in self.parameters)
        body = [f"({names}) = parameters"] if names else []
        body += self.before
        body += self._running()
        body += [*self.after, f"return {self.result}"]
        return "\n".join(["def call(parameters):", *(_INDENT + line for line in body)]) + "\n"

    def owner(self) -> int | None:
        """The first parameter through which objects were found that must be these very ones; None if there is none."""
        roots: dict[str, set[str]] = {name: {name} for name in self.parameters}
        owners: set[str] = set()
        for line in self.before:
            read = re.match(r"(?:try: )?(v\d+) = (.*)", line)
            if read:
                roots[read[1]] = set().union(*(roots.get(name, set()) for name in re.findall(r"\b[pv]\d+\b", read[2])))
            for name in re.findall(r"\bid\((\w+)\) == \d", line):
                owners |= roots.get(name, set())
        return min((int(name[1:]) for name in owners), default=None)

    def compile(self, scope: dict[str, Any]) -> Callable[[Sequence[Any]], Any]:
        """The function. `scope` has `graph`, `broken` and `failed`."""
        names = {**self.scope, **scope}
        if any(map(stands_in, self.scope.values())):
            raise Inconvertible(Feature.TEXT, "what the conversion made of a value would reach the program")
        try:
            exec(compile(self.text, "<recgraph: speculated call>", "exec"), names)
        except SyntaxError as error:
            raise Inconvertible(Feature.SCRIPT, f"the call's script does not compile: {error}") from error
        made: Callable[[Sequence[Any]], Any] = names["call"]
        return made
