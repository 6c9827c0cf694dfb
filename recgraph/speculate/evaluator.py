"""Runs a function on values that are known, tensors of a graph, and values known later: what is left is the graph.

Each construct of Python has a rule, a function in one of the files `on_*.py`; this file has the table and what the
rules share: frames, names, sites and decisions.
"""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import dataclasses
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from recgraph.speculate import lookups
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.heap import Heap
from recgraph.speculate.optimizations import Optimizations
from recgraph.speculate.profile import Profile, Seen, is_plain
from recgraph.speculate.reasons import Inconvertible, Raised
from recgraph.speculate.scopes import Frame
from recgraph.speculate.script import Assumption, Script
from recgraph.speculate.syntax import site_of
from recgraph.speculate.values import (
    CONTAINERS,
    MISSING,
    Iteration,
    Missing,
    Ref,
    Residual,
    Rows,
    Run,
    Unsure,
    how_many,
)

# How a statement ends the block around it: ("return", value), ("break", None), ("continue", None).
Signal: TypeAlias = tuple[str, Any]
Rule: TypeAlias = Callable[["Evaluator", Any], Any]

RULES: dict[type[ast.AST], Rule] = {}


def rule(*kinds: type[ast.AST]) -> Callable[[Rule], Rule]:
    """Registers how a kind of node is converted. Expressions give a value, statements a signal or None."""

    def register(function: Rule) -> Rule:
        for kind in kinds:
            RULES[kind] = function
        return function

    return register


class MethodCall(ast.AST):
    """A call that the program does not write down: its rule is that of calls."""

    def __init__(self, method: Any, owner: Any, node: ast.AST) -> None:
        super().__init__()
        self.method, self.owner, self.node = method, owner, node


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a conversion goes by.

    Attributes:
        profile: what the eager calls have seen.
        optimizations: what is done beyond the general rules.
        keeps_shapes: whether a tensor that has had few shapes is assumed to have the one of this call.
        paths: the ways that are assumed, since gradients depend on them.
    """

    profile: Profile
    optimizations: Optimizations
    keeps_shapes: bool = False
    paths: set[Any] = dataclasses.field(default_factory=set)


class Evaluator:
    """The conversion of one call.

    Attributes:
        script: the Python that will run around the graph.
        graph: that the operations go to.
        heap: the objects that were there before.
        profile: what eager calls have seen.
        optimizations: what is done beyond the general rules.
        assertions: int32 scalars, each the number of an assumption that is broken or -1.
        managers: the context managers around us, tapes for instance, by id.
        places: by id of an object, the list that a loop goes through, where it is in it, and the managers around.
        effects: what the script does after the graph, in order.
        cells: by id, of a closure that differs from call to call, how the script finds them.
        tapes: by id, how many forks were around the `with` of a gradient tape.
        reached: how often each site was reached in this call.
        paths: places where a tensor decides and only one way is converted, because two do not fit together or because
            gradients depend on the way; ("entered", place) where a loop is assumed to have a round or none, and
            ("unrolled", place) where it cannot be a loop of the graph.
        growing: those places that would not be assumed, where lists became longer.
        conditionals: the operations that decide between two ways, each with what `paths` may have for it.
        here: the node that is being converted.
        handlers: how many blocks are around us in which exceptions may be caught.
        handled: the exceptions that are being handled, the latest last.
        watch: sees what libraries call; None until the first is called.
        building: the graphs to which the libraries around us add operations, the innermost last.
    """

    def __init__(self, script: Script, graph: Any, settings: Settings) -> None:
        self.script, self.graph = script, graph
        self.profile, self.optimizations, self.paths = settings.profile, settings.optimizations, settings.paths
        self.growing: set[Any] = set()
        self.conditionals: dict[tf.Operation, Any] = {}
        self.heap = Heap(script, graph, self.profile)
        self.assertions: list[tf.Tensor] = []
        self.effects: list[Any] = []
        self.frames: list[Frame] = []
        self.recursive_bodies = 0
        self.recursions: dict[Any, Any] = {}
        self.managers: list[int] = []
        self.places: dict[int, tuple[Any, int, tuple[int, ...]]] = {}
        self.tables: dict[type, Any] = {}
        self.cells: dict[int, str] = {}
        self.rounds = 0  # how many loops of the graph are around us
        self.callbacks = 0  # how many functions of TensorFlow's have called us back
        self.tapes: dict[int, int] = {}
        self.reached: dict[Any, int] = {}
        self.here: ast.AST = ast.Pass()
        self.handlers = 0
        self.handled: list[Any] = []
        self.watch: Any = None
        self.building: list[Any] = []

    # Where we are.

    @property
    def frame(self) -> Frame:
        """The function that is being converted."""
        return self.frames[-1]

    @contextlib.contextmanager
    def at(self, node: ast.AST | None) -> Iterator[None]:
        """While a node is in work: errors, assumptions and the profile name it. Without one, the same as before."""
        here, self.here = self.here, node or self.here
        try:
            yield
        finally:
            self.here = here

    def where(self, at: ast.AST | None = None) -> str:
        """The user's line."""
        return self.frame.syntax.where(at or self.here) if self.frames else ""

    def refuse(self, feature: str, why: str, at: ast.AST | None = None) -> Inconvertible:
        """The error for something that is not converted."""
        return Inconvertible(feature, why, self.where(at))

    def raised(self, error: Any, at: ast.AST | None = None) -> Raised:
        """What the program raises here: all that it depends on is known or assumed."""
        if self.heap.name_of(error) is None and not isinstance(error, Residual):
            self.heap.make(error)
        return Raised(error, self.where(at))

    def seen(self, what: str = "value", at: ast.AST | None = None) -> tuple[Seen, tuple[Any, int]]:
        """What eager calls saw at a node, this time; and the place in the profile, to relax."""
        site = site_of(self.frame.syntax, at or self.here, what)
        occurrence = self.reached.get(site, 0)
        self.reached[site] = occurrence + 1
        return self.profile.seen(site, occurrence), (site, occurrence)

    def place_of(self, what: str = "value", at: ast.AST | None = None) -> tuple[Any, int]:
        """A node that was reached just now, and which time it was."""
        site = site_of(self.frame.syntax, at or self.here, what)
        return site, max(self.reached.get(site, 1) - 1, 0)

    # Rules.

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        here, self.here = self.here, node
        try:
            return self._rule(node)(self, node)
        finally:
            self.here = here

    def run(self, body: list[ast.stmt]) -> Signal | None:
        """Runs statements until one ends the block."""
        rests, here = self.frame.rests, self.here
        for i, statement in enumerate(body):
            self.here = statement
            rests.append(body[i + 1 :])
            try:
                signal: Signal | None = self._rule(statement)(self, statement)
            finally:
                rests.pop()
                self.here = here
            if signal is not None:
                return signal
        return None

    def _rule(self, node: ast.AST) -> Rule:
        found = RULES.get(type(node))
        if found is None:
            raise self.refuse("syntax", f"{type(node).__name__} runs eagerly")
        return found

    # Names.

    def read_name(self, node: ast.Name) -> Any:
        """The value of a name: local, of a function around, of the closure, global or builtin."""
        name = node.id
        frame: Frame | None = self.frame
        while frame is not None:
            if name in frame.names.globals:
                break
            if name in frame.locals or name in frame.names.bound:
                without = _no_local(name) if frame is self.frame else _no_free_variable(name)
                return self._bound(frame.locals.get(name, MISSING), name, without)
            if frame.outer is None and name in frame.function.__code__.co_freevars:
                return self._read_cell(frame, name)
            frame = frame.outer
        return self._read_global(name)

    def _bound(self, value: Any, name: str, without: NameError) -> Any:
        if isinstance(value, Missing):
            raise self.raised(without)
        if isinstance(value, Unsure):
            self.assert_in_graph(value.condition, self.noted("raises", f"{name} has a value"))
            return value.value
        return value

    def _cell(self, frame: Frame, name: str) -> Any:
        return frame.function.__closure__[frame.function.__code__.co_freevars.index(name)]

    def _read_cell(self, frame: Frame, name: str) -> Any:
        cell = self._cell(frame, name)
        seen, site = self.seen()
        key = ("cell", id(cell))
        if key in self.heap.shadow:
            return self._bound(self.heap.shadow[key], name, _no_free_variable(name))
        try:
            current = cell.cell_contents
        except ValueError:
            raise self.refuse("raises", f"{name} has no value here") from None
        return self.heap.read(key, self._cell_expression(cell), current, name, seen, site, self.where())

    def _cell_expression(self, cell: Any) -> str:
        return f"{self.cells.get(id(cell)) or self.script.constant(cell)}.cell_contents"

    def _read_global(self, name: str) -> Any:
        names = self.frame.function.__globals__
        key = ("global", id(names), name)
        seen, site = self.seen()
        without = NameError(f"name {name!r} is not defined", name=name)
        if key in self.heap.shadow and not isinstance(self.heap.shadow[key], Missing):
            return self._bound(self.heap.shadow[key], name, without)
        if key not in self.heap.shadow:
            if name in names:
                expression = f"{self.script.constant(names)}[{name!r}]"
                return self.heap.read(key, expression, names[name], name, seen, site, self.where())
            noted = self.noted("presence", f"no {name}")
            self.script.assume(f"{name!r} not in {self.script.constant(names)}", noted)
        if not hasattr(builtins, name):
            raise self.raised(without)
        found = getattr(builtins, name)
        now = f"getattr({self.script.constant(builtins)}, {name!r}, None)"
        same = self.noted("identity", f"{name} is Python's")
        self.script.assume(f"{now} is {self.script.constant(found)}", same)
        return found

    def bind(self, name: str, value: Any) -> None:
        """Assigns to a name; `MISSING` deletes it."""
        frame: Frame | None = self.frame
        if name in self.frame.names.globals:
            names = self.frame.function.__globals__
            target = f"{self.script.constant(names)}[{name!r}]"
            self.write_slot(("global", id(names), name), target, value, names.get(name, MISSING))
            return
        if name not in self.frame.names.nonlocals:
            self.frame.locals[name] = value
            return
        while frame is not None:
            if frame is not self.frame and (name in frame.names.bound or name in frame.locals):
                frame.locals[name] = value
                return
            if frame.outer is None:
                cell = self._cell(frame, name)
                current = _contents(cell)
                self.write_slot(("cell", id(cell)), self._cell_expression(cell), value, current)
            frame = frame.outer

    def write_slot(self, key: Any, target: str, value: Any, current: Any) -> None:
        """Sets something of the Python heap after the graph; `current` is what is there when the call begins."""
        self.need_sequence("a write to a Python object")
        self.heap.write(key, target, value, current, self.where())

    def need_sequence(self, what: str) -> None:
        """Effects must happen once, in order: not in functions that TensorFlow calls back."""
        if self.callbacks:
            raise self.refuse("effect in callback", f"{what} in a function that TensorFlow calls")

    def code(self, value: Any) -> str:
        """How the script writes a value that is known before the graph."""
        if isinstance(value, Residual):
            return value.name
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            parts = "".join(f"{self.code(v)}, " for v in value)
            return f"[{parts}]" if isinstance(value, list) else f"({parts})"
        if isinstance(value, dict) and type(value) is dict:
            return "{" + "".join(f"{self.code(k)}: {self.code(v)}, " for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.code(value.start)}, {self.code(value.stop)}, {self.code(value.step)})"
        if (name := self.heap.name_of(value)) is not None:
            return name
        if isinstance(value, np.ndarray):  # as it is now: the call may change it afterwards
            return self.script.constant(value.copy("K"))
        is_container = type(value) in CONTAINERS or (isinstance(value, tuple) and hasattr(value, "_make"))
        return self._container_code(value) if is_container else self.script.constant(value)

    def _container_code(self, value: Any) -> str:
        """A set, deque, named tuple or special dict as the script makes it anew."""
        kind = self.script.constant(type(value))
        if isinstance(value, collections.defaultdict):
            return f"{kind}({self.code(value.default_factory)}, {self.code(dict(value))})"
        if isinstance(value, dict):
            return f"{kind}({self.code(dict(value))})"
        if isinstance(value, collections.deque):
            return f"{kind}({self.code(list(value))}, {value.maxlen})"
        return f"{kind}{'._make' if isinstance(value, tuple) else ''}({self.code(list(value))})"

    def noted(self, kind: str, what: str, at: ast.AST | None = None) -> Assumption:
        """An assumption about something at a node."""
        return assumption(kind, what, self.where(at))

    def of_class(self, kind: type, name: str) -> Any:
        """What a class has under a name, unbound, None if it has nothing; it is assumed to stay so."""
        return lookups.of_class(self.script, kind, name, self.where())

    def own(self, kind: type, name: str) -> Any:
        """What a class itself has under a name; it is assumed to stay so."""
        return lookups.own(self.script, kind, name, self.where())

    # Decisions.

    def decide(self, value: Any, at: ast.AST | None = None) -> bool | tf.Tensor:
        """The truth of a test: known, assumed, or a bool scalar of the graph."""
        with self.at(at):
            return self._decide(value)

    def _decide(self, value: Any) -> bool | tf.Tensor:
        seen, site = self.seen("truth")
        truth = self.truth(value)
        if isinstance(truth, bool):
            return truth
        if isinstance(truth, Residual):
            number = assumption("decision", f"{bool(truth.example)}", self.where(), site)
            self.script.assume(f"bool({truth.name}) is {bool(truth.example)}", number)
            return bool(truth.example)
        if seen.count and not seen.varies and not self.callbacks and not self.recursive_bodies:
            return self._follow("branch", truth, bool(seen.constant), site)
        return truth

    def decided(self, value: Any, at: ast.AST | None = None) -> bool:
        """The truth of a test, where only one direction can be converted."""
        truth = self.decide(value, at)
        return truth if isinstance(truth, bool) else self.follow_last(truth, at=at)

    def follow_last(self, truth: tf.Tensor, what: str = "truth", at: ast.AST | None = None) -> bool:
        """Goes where the last eager call has gone: a graph for each path.

        Raises:
            Inconvertible: no call was seen here.
        """
        site, occurrence = self.place_of(what, at)
        seen = self.profile.seen(site, occurrence)
        last = seen.last
        if what != "truth" and seen.call < self.profile.calls:
            last = False  # the last call has left before
        if last is None or self.callbacks:
            raise self.refuse("path", "a tensor decides where both ways cannot be converted", at)
        with self.at(at):
            return self._follow("path", truth, bool(last), (site, occurrence))

    def _follow(self, kind: str, truth: tf.Tensor, expected: bool, site: Any) -> bool:
        condition = truth if expected else tf.logical_not(truth)
        self.assert_in_graph(condition, assumption(kind, f"always {expected}", self.where(), site))
        return expected

    def concrete(self, value: Any) -> Any:
        """A value of which the conversion has to know which one it is: another one gets another graph."""
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(self.concrete(v) for v in value)
        if not isinstance(value, Residual):
            return value
        if value.late or value.tensor is not None:
            raise self.refuse("late value", "a key or callee that is known only after the graph")
        known = assumption("decision", f"is {value.example!r}", self.where())
        name = self.script.constant(value.example)
        condition = f"same({value.name}, {name})" if is_plain(value.example) else f"{value.name} is {name}"
        self.script.assume(condition, known)
        return value.example

    def identical(self, left: Any, right: Any) -> Any:
        """What `left is right` is: a bool, or a bool scalar of the graph."""
        if isinstance(left, Ref) and right is None:
            return left.row < 0
        if isinstance(left, Residual) and left.is_array and left is right:
            return True
        if isinstance(left, Residual) or isinstance(right, Residual):
            value, other = (left, right) if isinstance(left, Residual) else (right, left)
            return self._is_constant(value, other)
        names = [self.heap.name_of(v) or self.heap.placeholders.get(id(v)) for v in (left, right)]
        if left is right or not all(names):
            return left is right
        now = [self.heap.examples.get(id(v), v) for v in (left, right)]
        relation, kind = ("is", "alias") if now[0] is now[1] else ("is not", "distinct")
        two = f"{type(now[0]).__name__} and {type(now[1]).__name__}"
        self.script.assume(f"{names[0]} {relation} {names[1]}", self.noted(kind, two))
        return relation == "is"

    def _is_constant(self, value: Residual, other: Any) -> Any:
        """Whether a value that differs from call to call is None, True or False."""
        if other is not None and not isinstance(other, bool):
            raise self.refuse("identity", "the identity of values that differ from call to call")
        if value.is_array:
            return False
        if value.tensor is not None:
            if other is None or value.tensor.dtype != tf.bool:
                return False
            return value.tensor if other else tf.logical_not(value.tensor)
        if value.late:
            raise self.refuse("late value", f"whether a value is {other} that is known only after the graph")
        found = value.example is other
        self.script.assume(f"({value.name} is {other}) is {found}", self.noted("decision", f"is {other}"))
        return found

    def assert_in_graph(self, condition: tf.Tensor, what: Assumption) -> None:
        """Goes on only where a condition of the graph holds."""
        if self.recursive_bodies:
            raise self.refuse("recursion", f"an assumption in a recursive function: {what}")
        self.assertions.append(tf.where(condition, -1, self.script.number(what)))

    def truth(self, value: Any, at: ast.AST | None = None) -> Any:
        """What `bool(value)` is: a bool, a `Residual` that is known before the graph, or a bool scalar of the graph."""
        with self.at(at):
            return self._truth(value)

    def _truth(self, value: Any) -> Any:
        if isinstance(value, Residual):
            if value.is_array and value.tensor is not None:
                return self.truth(value.tensor)
            if value.tensor is not None:
                return tf.cast(value.tensor, tf.bool)
            if value.late:
                raise self.refuse("late decision", "a decision on a value that is known only after the graph")
            return value
        if isinstance(value, tf.Tensor):
            if value.shape.num_elements() not in (None, 1):
                raise self.refuse("raises", "the truth of a tensor of several elements")
            return tf.reshape(tf.cast(value, tf.bool), [])
        if isinstance(value, tf.Variable):
            return tf.reshape(tf.cast(value.read_value(), tf.bool), [])
        if isinstance(value, Ref | Rows):
            return value.row >= 0 if isinstance(value, Ref) else value.count > 0
        if isinstance(value, Iteration) or type(value).__name__ == "Generator":
            return True
        if (members := self.heap.with_runs(value, self.where())) is not None:
            return how_many(members) > 0 if all(isinstance(m, Run) for m in members) else True
        name = self.heap.name_of(value)
        is_container = isinstance(value, list | dict | set | frozenset | tuple | collections.deque)
        if is_container and name is not None and not self._says_its_truth(type(value)):
            self.heap.unsealed(value, self.where())
            if id(value) in self.heap.opened:
                return bool(self.heap.opened[id(value)])
            if self.heap.appended.get(id(value)):
                return True
            self.script.assume(f"bool({name}) is {bool(value)}", assumption("decision", "emptiness", self.where()))
            return bool(value)
        for name in ("__bool__", "__len__"):
            method = self.of_class(type(value), name)
            if isinstance(method, types.FunctionType):
                return self.truth(RULES[MethodCall](self, MethodCall(method, value, self.here)))
        return bool(value)

    def _says_its_truth(self, kind: type) -> bool:
        """Whether a class, a container's perhaps, has a method of the program's for it."""
        found = [self.of_class(kind, name) for name in ("__bool__", "__len__")]
        return any(isinstance(method, types.FunctionType) for method in found)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _no_local(name: str) -> NameError:
    return UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")


def _no_free_variable(name: str) -> NameError:
    text = f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"
    return NameError(text, name=name)
