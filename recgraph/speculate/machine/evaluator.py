"""The evaluator: frames, names, sites and decisions of one conversion, and the protocol by which it asks values.

It knows no kind of value and no syntax: those come in from above, as `kinds`, `RULES` and `TARGETS`.
"""

from __future__ import annotations

import abc
import ast
import builtins
import contextlib
import dataclasses
import operator
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import tensorflow as tf

from recgraph import tf_private
from recgraph.cpython import messages
from recgraph.defects import described
from recgraph.speculate.machine.possible_aliases import READING_LISTS, PossibleAliases
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe.known import IN_PLACE
from recgraph.speculate.observe.profile import Profile, Seen, is_plain, same
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException, RestartConversion
from recgraph.speculate.observe.syntax import Frame, site_of
from recgraph.speculate.script import heap
from recgraph.speculate.script.assumptions import (
    Assumption,
    NoException,
    OneObject,
    Presence,
    SameBranch,
    SameDecision,
    SameObject,
    SamePath,
    TwoObjects,
    assertion,
    fail_unless,
)
from recgraph.speculate.script.contexts import CalledBack, Context, Contexts, Fork, LoopRound, RecursiveBody
from recgraph.speculate.script.heap import Heap
from recgraph.speculate.script.script import Script
from recgraph.speculate.script.symbolic import (
    MISSING,
    DynamicValue,
    IterationSpace,
    MaybeUnbound,
    Missing,
    Perhaps,
    Ref,
    is_symbolic,
)

# How a statement ends the block around it: ("return", value), ("break", None), ("continue", None).
Signal: TypeAlias = tuple[str, Any]
R = TypeVar("R")
Rule: TypeAlias = Callable[["Evaluator", Any], Any]
# How many members a loop may have and still be unrolled.
UNROLL: Final = 2000
# How many operations a conversion may build, gradients and updates aside. With more, loops are not unrolled; then it is
# given up. Some 1,300 take a second.
MOST_OPERATIONS: Final = 12_000
RULES: dict[type[ast.AST], Rule] = {}
# Puts a value, or `MISSING`, into what stands on the left of an assignment or after `del`.
Target: TypeAlias = Callable[["Evaluator", Any, Any], None]
TARGETS: dict[type[ast.AST], Target] = {}


def registering(table: dict[Any, R]) -> Callable[..., Callable[[R], R]]:
    """What registers a rule in a table, as a decorator: `rule(key, ...)`."""

    def rule(*keys: Any) -> Callable[[R], R]:
        def register(how: R) -> R:
            table.update(dict.fromkeys(keys, how))
            return how

        return register

    return rule


# Says how a kind of node is converted. Expressions give a value, statements a signal or None.
rule = registering(RULES)
# Says how a kind of node is assigned to and deleted.
target = registering(TARGETS)


@dataclasses.dataclass(frozen=True)
class ConversionSettings:
    """What a conversion goes by.

    Attributes:
        profile: what the eager calls have seen.
        optimizations: what is done beyond the general rules.
        keeps_shapes: whether a tensor that has had few shapes is assumed to have the one of this call.
        knows_code: whether only calls come that have the function's code.
        paths: the ways that are assumed, since gradients depend on them.
    """

    profile: Profile
    optimizations: Optimizations
    keeps_shapes: bool = False
    knows_code: bool = False
    paths: set[Any] = dataclasses.field(default_factory=set)


class Evaluator(abc.ABC):
    """The conversion of one call.

    Attributes:
        kinds: of values, the first that takes one says what it can do.
        script: the Python that will run around the graph.
        graph: that the operations go to.
        heap: the objects that were there before.
        profile: what eager calls have seen.
        optimizations: what is done beyond the general rules.
        assertions: see `assumptions.assertion`.
        places: by id of an object, the list that a loop goes through, where it is in it, and the managers around.
        twins: lists that may eagerly be one with another.
        effects: what the script does after the graph, in order.
        cells: by id, of a closure that differs from call to call, how the script finds them.
        watched: by id, what gradient tapes were told to watch that they had not recorded.
        tapes: by id, how many forks were around the `with` of a gradient tape.
        reached: how often each site was reached in this call.
        paths: places where a tensor decides and only one way is converted, because two do not fit together or because
            gradients depend on the way; ("entered", place) where a loop is assumed to have a round or none, and
            ("unrolled", place) where it cannot be a loop of the graph; ("changed", place) where an array is made that
            the script changes.
        growing: those places that would not be assumed, where lists became longer.
        in_graph: loops that are in the graph, as `paths` may have them.
        uncertain: places of loops that may well have no round.
        conditionals: the operations that decide between two ways, each with what `paths` may have for it.
        forking: by id, tensors of which no value is assumed where they decide.
        contexts: what is around us.
        here: the node that is being converted.
        watch: sees what libraries call; None until the first is called.
        may_have_drawn: whether one of these may draw from the generators that everything shares.
        has_tape_around: whether a tape may record the call.
        built: how many operations were built so far, those of attempts too, without gradients and updates.
        loops: by site, of loops of the graph, what changed in a round of them when they were last converted.
        rolled: loops that are in the graph because that takes less long, as `paths` may have them.
        looped: how many loops of the graph were built so far.
        is_rolled: whether loops over many numbers are loops of the graph even where it is known how many.
    """

    kinds: tuple[type[Kind], ...]

    def __init__(self, script: Script, graph: Any, settings: ConversionSettings) -> None:
        self.script, self.graph = script, graph
        self.profile, self.optimizations, self.paths = settings.profile, settings.optimizations, settings.paths
        self.growing: set[Any] = set()
        self.in_graph: set[Any] = set()
        self.uncertain: set[Any] = set()
        self.conditionals: dict[tf.Operation, Any] = {}
        self.forking: dict[int, tf.Tensor] = {}
        self.contexts = Contexts()
        self.heap = Heap(script, graph, self.profile, self.contexts)
        self.assertions: list[tf.Tensor] = []
        self.effects: list[Any] = []
        self.frames: list[Frame] = []
        self.recursions: dict[Any, Any] = {}
        self.places: dict[int, tuple[Any, int, tuple[int, ...]]] = {}
        self.twins = PossibleAliases()
        self.tables: dict[type, Any] = {}
        self.cells: dict[int, str] = {}
        self.tapes: dict[int, int] = {}
        self.watched: dict[int, list[tf.Tensor]] = {}
        self.reached: dict[Any, int] = {}
        self.here: ast.AST = ast.Pass()
        self.watch: Any = None
        self.may_have_drawn = False
        self.rolled: set[Any] = set()
        self.loops: dict[Any, list[Any]] = {}
        self.built, self.looped, self.is_rolled = 0, 0, False
        self.has_tape_around = tf_private.a_tape_is_listening()
        # By their identity: tensors that libraries were given in place of numbers that differ from call to call.
        self.numbers: dict[int, tuple[tf.Tensor, Any]] = {}
        # By their identity: TensorArrays in place of which there is another one on this way; and on any way, with the
        # forks in which it was made.
        self.replaced: dict[int, Any] = {}
        self.replaced_in: list[tuple[Any, list[Fork]]] = []

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

    def within(self, context: Context) -> contextlib.AbstractContextManager[None]:
        """While something is around us."""
        return self.contexts.within(context)

    def inside(self, *kinds: type[Context]) -> bool:
        """Whether a context of one of these kinds is around us."""
        return self.contexts.has(*kinds)

    def where(self, at: ast.AST | None = None) -> str:
        """The user's line."""
        return self.frame.syntax.where(at or self.here) if self.frames else ""

    def refuse(self, feature: Feature, why: str, at: ast.AST | None = None) -> Inconvertible:
        """The error for something that is not converted."""
        return Inconvertible(feature, why, self.where(at))

    def raised(self, error: Any, at: ast.AST | None = None) -> ProgramException:
        """What the program raises here: all that it depends on is known or assumed."""
        if self.heap.name_of(error) is None and not isinstance(error, DynamicValue):
            self.heap.make(error)
        return ProgramException(error, self.where(at))

    def attribute(self, owner: Any, name: str) -> Any:
        """What an object has under a name, as Python finds it."""
        try:
            return getattr(owner, name)
        except AttributeError as error:
            raise self.refuse(Feature.RAISES, described(error)) from error

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

    def check_operations(self, more: int = 0) -> None:
        """Checks that the conversion builds no more operations than it may, with so many more.

        Raises:
            Inconvertible: it does.
        """
        if self.built + more > MOST_OPERATIONS:
            found = self.refuse(Feature.OPERATIONS, f"the conversion comes to more than {MOST_OPERATIONS} operations")
            found.built = self.built
            raise found

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
            except (Inconvertible, ProgramException) as reason:
                if not reason.sites and len(self.frames) == 1:
                    reason.sites = frozenset({getattr(statement, "site", -1)})
                raise
            finally:
                rests.pop()
                self.here = here
            if signal is not None:
                return signal
        return None

    def assign(self, node: ast.expr, value: Any) -> None:
        """Assigns to a name, attribute, subscript or a pattern of them; `MISSING` deletes it."""
        how = TARGETS.get(type(node))
        if how is None:
            raise self.refuse(Feature.TARGET, f"assignment to {type(node).__name__}", at=node)
        how(self, node, value)

    def _rule(self, node: ast.AST) -> Rule:
        found = RULES.get(type(node))
        if found is None:
            raise self.refuse(Feature.SYNTAX, f"{type(node).__name__} runs eagerly")
        return found

    # Names.

    def read_name(self, node: ast.Name) -> Any:
        """The value of a name: local, of a function around, of the closure, global or builtin."""
        with self.at(node):
            return self._read(node.id)

    def _read(self, name: str) -> Any:
        frame: Frame | None = self.frame
        while frame is not None:
            if name in frame.names.globals:
                break
            if name in frame.locals or name in frame.names.bound:
                without = messages.unbound_local(name) if frame is self.frame else messages.unbound_free(name)
                return self._bound(frame.locals.get(name, MISSING), name, without)
            if frame.outer is None and name in frame.function.__code__.co_freevars:
                return self._read_cell(frame, name)
            frame = frame.outer
        return self._read_global(name)

    def _bound(self, value: Any, name: str, without: NameError) -> Any:
        if isinstance(value, Missing):
            raise self.raised(without)
        if isinstance(value, MaybeUnbound):
            self.assert_in_graph(value.condition, self.noted(NoException, f"{name} has a value"))
            return value.value
        return value

    def _cell(self, frame: Frame, name: str) -> Any:
        return frame.function.__closure__[frame.function.__code__.co_freevars.index(name)]

    def _read_cell(self, frame: Frame, name: str) -> Any:
        return self.read_cell(self._cell(frame, name), name)

    def read_cell(self, cell: Any, name: str = "cell_contents") -> Any:
        """What a cell of a closure holds."""
        seen, site = self.seen()
        key = ("cell", id(cell))
        if key in self.heap.shadow:
            return self._bound(self.heap.shadow[key], name, messages.unbound_free(name))
        try:
            current = cell.cell_contents
        except ValueError:
            raise self.refuse(Feature.RAISES, f"the name {name} has no value here") from None
        return self.heap.read(key, self._cell_expression(cell), current, name, seen, site, self.where())

    def _cell_expression(self, cell: Any) -> str:
        return f"{self.cells.get(id(cell)) or self.script.constant(cell)}.cell_contents"

    def _read_global(self, name: str) -> Any:
        names = self.frame.function.__globals__
        key = ("global", id(names), name)
        seen, site = self.seen()
        without = messages.undefined(name)
        if key in self.heap.shadow and not isinstance(self.heap.shadow[key], Missing):
            return self._bound(self.heap.shadow[key], name, without)
        if key not in self.heap.shadow:
            if name in names:
                expression = f"{self.script.constant(names)}[{name!r}]"
                return self.heap.read(key, expression, names[name], name, seen, site, self.where())
            noted = self.noted(Presence, f"no {name}")
            self.script.assume(f"{name!r} not in {self.script.constant(names)}", noted)
        if not hasattr(builtins, name):
            raise self.raised(without)
        found = getattr(builtins, name)
        now = f"getattr({self.script.constant(builtins)}, {name!r}, None)"
        same = self.noted(SameObject, f"{name} is Python's")
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
        if self.inside(CalledBack):
            raise self.refuse(Feature.EFFECT_IN_CALLBACK, f"{what} in a function that TensorFlow calls")

    def noted(self, kind: type[Assumption], what: str, at: ast.AST | None = None) -> Assumption:
        """An assumption about something at a node."""
        return kind(what, self.where(at))

    def of_class(self, kind: type, name: str) -> Any:
        """What a class has under a name, unbound, None if it has nothing; it is assumed to stay so."""
        self.check_not_given(kind, name)
        return heap.of_class(self.script, kind, name, self.where())

    def own(self, kind: type, name: str) -> Any:
        """What a class itself has under a name; it is assumed to stay so."""
        self.check_not_given(kind, name)
        return heap.own(self.script, kind, name, self.where())

    def check_not_given(self, kind: type, name: str) -> None:
        """Checks that the call itself has not put into a class what Python would find there now."""
        if any(heap.slot_of(base, name) in self.heap.shadow for base in kind.__mro__):
            raise self.refuse(
                Feature.CLASS_ATTRIBUTE, f"the call sets {name} of a class, and Python looks for it there"
            )

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
        if isinstance(truth, DynamicValue):
            number = SameDecision(f"{bool(truth.example)}", self.where(), site)
            self.script.assume(f"bool({truth.name}) is {bool(truth.example)}", number)
            return bool(truth.example)
        if seen.count and not self._goes_both_ways(value, site) and not self.inside(CalledBack):
            return self._follow(SameBranch, truth, bool(seen.constant), site)
        if isinstance(value, tf.Tensor):
            self.forking[id(value)] = value
        return truth

    def _goes_both_ways(self, value: Any, site: tuple[Any, int]) -> bool:
        """Whether calls have gone both ways at a node, or rounds where it is in a loop of the graph, or where the same
        tensor has decided before.
        """
        if id(value) in self.forking:
            return True
        if self.inside(LoopRound):
            return self.profile.varies_from(*site)
        return self.profile.seen(*site).varies

    def decided(self, value: Any, at: ast.AST | None = None) -> bool:
        """The truth of a test, where only one direction can be converted."""
        truth = self.decide(value, at)
        return truth if isinstance(truth, bool) else self.follow_last(truth, at=at)

    def follow_last(self, truth: tf.Tensor, what: str = "truth", at: ast.AST | None = None) -> bool:
        """Goes where the last eager call has gone: a graph for each path.

        Raises:
            Inconvertible: no call was seen here.
        """
        last = self.last(what, at)
        if last is None or self.inside(CalledBack):
            raise self.refuse(Feature.PATH, "a tensor decides here, and only one of the two ways can be converted", at)
        with self.at(at):
            return self._follow(SamePath, truth, last, self.place_of(what, at))

    def last(self, what: str = "truth", at: ast.AST | None = None) -> bool | None:
        """Where the last eager call has gone at a node; None if no call was seen there."""
        seen = self.profile.seen(*self.place_of(what, at))
        if what != "truth" and 0 < seen.call < self.profile.calls:
            return False  # the last call has left before
        return None if seen.last is None else bool(seen.last)

    def _follow(self, kind: type[Assumption], truth: tf.Tensor, expected: bool, site: Any) -> bool:
        condition = truth if expected else tf.logical_not(truth)
        self.assert_in_graph(condition, kind(f"always {expected}", self.where(), site))
        return expected

    def concrete(self, value: Any) -> Any:
        """A value of which the conversion has to know which one it is: another one gets another graph."""
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(self.concrete(v) for v in value)
        if not isinstance(value, DynamicValue):
            return value
        if value.late or value.tensor is not None:
            raise self.refuse(Feature.LATE_VALUE, "a key or function is known only after the graph has run")
        known = SameDecision(f"is {value.example!r}", self.where())
        name = self.script.constant(value.example)
        condition = f"same({value.name}, {name})" if is_plain(value.example) else f"{value.name} is {name}"
        self.script.assume(condition, known)
        return value.example

    def identical(self, left: Any, right: Any) -> Any:
        """What `left is right` is: a bool, or a bool scalar of the graph."""
        for one in (left, right):
            self.twins.check(one)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Perhaps):
                return one.is_none if other is None else self.identical(one.value(), other)
            if isinstance(one, Ref):
                return self._is_row(one, other)
        if isinstance(left, DynamicValue) and left.is_array and left is right:
            return True
        if isinstance(left, DynamicValue) or isinstance(right, DynamicValue):
            value, other = (left, right) if isinstance(left, DynamicValue) else (right, left)
            return self._is_constant(value, other)
        inputs = [self.heap.input_of(v) for v in (left, right)]
        pairs = list(zip((left, right), inputs, strict=True))
        names = [self.heap.name_of(v) or (fed.name if fed else None) for v, fed in pairs]
        if not all(names) and _may_be_two(left, right):
            raise self.refuse(
                Feature.IDENTITY, f"`is` compares equal data, which may be one {type(left).__name__} or two"
            )
        if left is right or not all(names):
            return left is right
        now = [v if fed is None or fed.example is None else fed.example for v, fed in pairs]
        relation, kind = ("is", OneObject) if now[0] is now[1] else ("is not", TwoObjects)
        two = f"{type(now[0]).__name__} and {type(now[1]).__name__}"
        self.script.assume(f"{names[0]} {relation} {names[1]}", self.noted(kind, two))
        return relation == "is"

    def _is_row(self, ref: Ref, other: Any) -> Any:
        """Whether an object of a table, or None, is another value."""
        if other is None:
            return ref.row < 0
        if not isinstance(other, Ref):
            raise self.refuse(Feature.IDENTITY, "`is` compares an object of a table with one that is in none")
        return tf.equal(ref.row, other.row) if ref.table is other.table else (ref.row < 0) & (other.row < 0)

    def _is_constant(self, value: DynamicValue, other: Any) -> Any:
        """Whether a value that differs from call to call is None, True or False."""
        if other is not None and not isinstance(other, bool):
            raise self.refuse(Feature.IDENTITY, "`is` compares values that vary from call to call")
        if value.is_array:
            return False
        if value.tensor is not None:
            if other is None or value.tensor.dtype != tf.bool:
                return False
            return value.tensor if other else tf.logical_not(value.tensor)
        if value.late:
            raise self.refuse(Feature.LATE_VALUE, f"whether a value is {other} that is known only after the graph")
        found = value.example is other
        self.script.assume(f"({value.name} is {other}) is {found}", self.noted(SameDecision, f"is {other}"))
        return found

    def assert_in_graph(self, condition: tf.Tensor, what: Assumption) -> None:
        """Goes on only where a condition of the graph holds."""
        if self.inside(RecursiveBody):
            if not what.fails_the_call:
                raise self.refuse(Feature.RECURSION, f"an assumption in a recursive function: {what}")
            fail_unless(condition, self.script.number(what))
            return
        if any(context.elsewhere for context in self.contexts.all(CalledBack)):
            raise self.refuse(Feature.IN_GRAPH, f"an assumption in a function that TensorFlow calls: {what}")
        self.assertions.append(assertion(condition, self.script.number(what)))

    def truth(self, value: Any, at: ast.AST | None = None) -> Any:
        """Returns `bool(value)`: a bool, a `DynamicValue` known before the graph, or a bool scalar of the graph."""
        with self.at(at):
            return self.kind(value).truth()

    # What values can do: each asks the kind of its first argument (`protocol.py`).

    def kind(self, value: Any) -> Kind:
        """A value as one of its kind. What none takes is handed on, and nothing else can be done with it."""
        return next((kind for kind in self.kinds if kind.takes(value)), Kind)(self, value)

    def call(self, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """`function(*arguments, **named)`."""
        return self.kind(function).call(arguments, named)

    def get(self, owner: Any, name: str) -> Any:
        """`owner.name`."""
        if name not in READING_LISTS:
            self.twins.check(owner)
        return self.kind(owner).get(name)

    def put(self, owner: Any, name: str, value: Any) -> None:
        """`owner.name = value`; `MISSING` deletes it."""
        self.kind(owner).put(name, value)

    def item(self, container: Any, index: Any) -> Any:
        """`container[index]`."""
        return self.kind(container).item(index)

    def set_item(self, container: Any, index: Any, value: Any) -> None:
        """`container[index] = value`."""
        self.twins.check(container)
        self.kind(container).set_item(index, value)

    def delete_item(self, container: Any, index: Any) -> None:
        """`del container[index]`."""
        self.twins.check(container)
        self.kind(container).delete_item(index)

    def contains(self, container: Any, member: Any) -> Any:
        """`member in container`."""
        if is_symbolic(member):
            raise self.refuse(Feature.IN, "`in` is used with a tensor")
        return self.kind(container).contains(member)

    def length(self, container: Any) -> Any:
        """`len(container)`."""
        return self.kind(container).length()

    def begin(self, iterable: Any) -> Any:
        """`iter(iterable)`, as far as the program may notice that it is called."""
        return self.kind(iterable).begin()

    def members(self, iterable: Any) -> list[Any]:
        """All members of something that a loop, a star or an unpacking goes through."""
        return self.kind(iterable).members()

    def pieces(self, iterable: Any) -> list[Any]:
        """All members, with runs for those of which only the graph knows how many there are."""
        return self.kind(iterable).pieces()

    def iterator(self, iterable: Any) -> Iterator[Any]:
        """The members of something, each as late as the program gets it."""
        return self.kind(iterable).iterator()

    def rows(self, iterable: Any, varies: bool = False) -> IterationSpace | None:
        """What a loop in the graph goes through; None where the loop is unrolled.

        Args:
            iterable: of any kind.
            varies: whether calls were seen with different numbers of rounds.
        """
        found: IterationSpace | None = self.kind(iterable).rows(varies)
        return found

    def opened(self, container: Any) -> Any:
        """A container whose members are values of the call; anything else as it is."""
        return self.kind(container).opened()

    def lift(self, value: Any) -> Any:
        """A value as a function that is not converted may look at it, containers with all that they hold."""
        return self.kind(value).lift()

    def type_of(self, value: Any) -> type:
        """`type(value)`."""
        return self.kind(value).type()

    def tensor(self, value: Any, dtype: tf.DType | None = None) -> tf.Tensor:
        """A value as a tensor of the graph: of numbers int64 or float64, unless another dtype is wanted."""
        return self.kind(value).tensor(dtype)

    def code(self, value: Any) -> str:
        """How the script writes a value that is known before the graph."""
        return self.kind(value).code()

    def operate(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """A Python operator on values of any kind."""
        if function in IN_PLACE or function in (operator.eq, operator.ne):
            for operand in operands:
                self.twins.check(operand)
        operands = [self.kind(operand).operand() for operand in operands]
        return max(map(self.kind, operands), key=lambda kind: kind.precedence).operate(function, operands)

    def with_runs(self, container: Any) -> Any:
        """The members of a list or tuple if only the graph knows how many there are; else None."""
        return self.heap.with_runs(container, self.where())

    def refuse_runs(self, why: str) -> Exception:
        """The error for what a list that grows in the graph cannot do: its loop is unrolled, if that is possible."""
        places = self.growing - self.paths
        return RestartConversion(places) if places else self.refuse(Feature.LIST, why)

    # What the floors above define.

    @abc.abstractmethod
    def python(
        self, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any] | None = None
    ) -> Any:
        """A pure function of Python's: now, where its arguments are known; else in the script."""

    @abc.abstractmethod
    def in_script(
        self, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any] | None = None
    ) -> DynamicValue:
        """A call that the script makes: before the graph where all arguments are known then, else after it."""

    @abc.abstractmethod
    def inline(self, function: types.FunctionType, arguments: list[Any], named: dict[str, Any]) -> Any:
        """A call of a function that is written in Python, converted as a part of its caller."""

    @abc.abstractmethod
    def collect(self, rows: IterationSpace) -> list[Any]:
        """All rows as members of a list, by a loop in the graph."""

    @abc.abstractmethod
    def library(self, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """A call of a function that is not the user's."""


def _is_single(value: Any) -> bool:
    """Whether Python has one object for all data that equals this."""
    if type(value) is int:
        return -5 <= value <= 256
    return isinstance(value, type(None) | bool | types.EllipsisType | types.NotImplementedType) or value in (
        (),
        "",
        b"",
    )


def _may_be_two(left: Any, right: Any) -> bool:
    """Whether data is equal, so that it may be one object in this call and two in another."""
    if type(left) is not type(right) or not is_plain(left) or not is_plain(right) or _is_single(left):
        return False
    return left is right or same(left, right)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


@dataclasses.dataclass(frozen=True)
class Optimizations:
    """Switches of the conversion, on which results do not depend.

    Where a general rule cannot convert, the special one does.

    Callees have no switch: what they do to Python objects belongs to the caller's call, so they are always inlined.

    Attributes:
        unrolling: loops whose number of rounds is known or assumed are unrolled; else each is a `tf.while_loop`.
        specialisation: shapes, numbers, strings and branches that have not varied are assumed not to; else shapes have
            unknown dimensions, numbers and strings are inputs, and each branch that a tensor decides is a `tf.cond`.
        batched: recursive functions may be run by the engine "batched"; else by "parallel".
        substitutions: whether a graph may be rewritten by proven substitutions, where that is measured to be faster;
            None leaves it to the environment variable RECGRAPH_OPTIMIZE. Sums may be taken in another order.
    """

    unrolling: bool = True
    specialisation: bool = True
    batched: bool = True
    substitutions: bool | None = None

    @property
    def engine(self) -> str:
        """The engine of recursive functions."""
        return "auto" if self.batched else "parallel"


ALL = Optimizations()
