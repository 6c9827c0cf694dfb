"""A function that is speculated on: profiled, converted, checked at every call, and run eagerly where that fails."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import inspect
import os
import sys
import threading
import time
import traceback
import types
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from recgraph import defects, logs, sharing, tf_private
from recgraph.explaining import Explanation, Remark
from recgraph.speculate.machine.evaluator import ALL, Optimizations
from recgraph.speculate.observe.instrument import Observer
from recgraph.speculate.observe.profile import Profile
from recgraph.speculate.observe.reasons import PASSING, Feature, Inconvertible
from recgraph.speculate.observe.syntax import binder, names_of_parameters, syntax_of
from recgraph.speculate.run.conversion import convert
from recgraph.speculate.run.explaining import remark_on_break, remark_on_refusal, remarks_of_profile
from recgraph.speculate.run.graphs import Broken, CachedGraph, Graphs
from recgraph.speculate.run.specialization import ConversionHistory
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import AllCommit, Assumption, FittingShape, NoException, SameShape

# Calls that run eagerly first, to see what varies.
PROFILED_CALLS = 3
# Graphs of one function, for one object; when there is no room for another, what fits none of them runs eagerly.
MAX_GRAPHS = 16
# So many graphs may there be before shapes are left open that have varied, be it a little.
MAX_OF_SHAPES = 3
# So many may there be before a shape gets one only when it comes back, where each shape has its own.
MAX_AT_ONCE = 6
# How often one assumption may break before no graph is made any more that makes it.
MAX_BREAKS = 24
# How often calls may fall back before the function is left alone, unless ten times as many ran as graphs.
MAX_FALLBACKS = 64
# Seconds that may go into conversions while they have not made up for it by this many calls as a graph each.
MAX_SECONDS = 30.0
CALLS_A_CONVERSION = 10
# How often an operation of a graph may fail that does not fail eagerly.
MAX_FAILURES = 3
# How often a call may be converted that turns out to raise, or to make a variable, which the next ones may not.
MAX_ATTEMPTS = 5
# Keras's layers are changed while they are converted: one conversion at a time. Who finds it taken runs eagerly.
_CONVERTING = threading.Lock()
os.register_at_fork(after_in_child=_CONVERTING._at_fork_reinit)  # type: ignore[attr-defined]
_LOG = logs.logger("speculate")


@dataclasses.dataclass(frozen=True)
class PreparedCall:
    """One call of a function: the parameters are what the arguments give them, defaults filled in."""

    function: Callable[..., Any]
    parameters: tuple[Any, ...]
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def inner(self) -> Any:
        """The function of a method."""
        return getattr(self.function, "__func__", self.function)


class Misses(list[tuple[CachedGraph, Broken]]):
    """The graphs that do not fit a call, each with what broke: given in place of a result."""


def _broken(misses: Misses) -> frozenset[str]:
    """What broke in a call."""
    return frozenset(str(why) for _, why in misses)


_EVERY: weakref.WeakSet[SpeculatedCalls] = weakref.WeakSet()


def _enter(world: sharing.World | None) -> None:
    for calls in list(_EVERY):
        calls._enter(world)


sharing.listen(_enter)


class SpeculatedCalls:
    """The calls of a function: the graphs that they became, what broke, when another is made.

    Args:
        name: of the function.
        profiled_calls: how many calls return, run eagerly, before one is converted.
        strict: whether what cannot be converted is an error.
        optimizations: what graphs are made with.

    Attributes:
        has_one_code: whether all calls have the same code.
        given_up: why no more graphs are made; "" as long as they are.
        left: of a function that has given up, the sites of the statements for which it did; empty if not known.
        breaks: how often each assumption broke.
    """

    has_one_code: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        profiled_calls: int = PROFILED_CALLS,
        strict: bool = False,
        optimizations: Optimizations = ALL,
    ) -> None:
        self.name, self.profiled_calls, self.strict = name, profiled_calls, strict
        self.optimizations = optimizations
        self.profile = Profile()
        self.given_up: str = ""
        self.left: frozenset[int] = frozenset()
        self._ran = {"eager": 0, "graph": 0, "fallback": 0}
        self.breaks: collections.Counter[str] = collections.Counter()
        self._notes: dict[str, Remark] = {}
        self._counts: collections.Counter[str] = collections.Counter()
        self._shapes: collections.Counter[Any] = collections.Counter()
        self._attempts = 0
        self._experience = ConversionHistory()
        self._conversions, self._seconds = 0, 0.0
        self._observer = Observer(self.profile)
        self._caches: weakref.WeakKeyDictionary[sharing.World, Graphs] = weakref.WeakKeyDictionary()
        self._unshared = Graphs()
        self._enter(sharing.world())
        _EVERY.add(self)
        self._too_long = set[frozenset[str]]()  # what broke in calls for which a graph would be too long
        self._is_due = True  # a conversion: the last call that fitted no graph was observed

    def _enter(self, world: sharing.World | None) -> None:
        """Calls find the graphs of another world: what these do to gradients would be wrong in any other."""
        self._cache = self._unshared if world is None else self._caches.setdefault(world, Graphs())

    @property
    def _graphs(self) -> list[CachedGraph]:
        return self._cache.all()

    def _graphs_of_all_worlds(self) -> list[CachedGraph]:
        return [graph for cache in (self._unshared, *self._caches.values()) for graph in cache.all()]

    @property
    def graphs(self) -> list[CachedGraph]:
        """The graphs that calls run as."""
        return self._graphs_of_all_worlds()

    @property
    def has_graphs(self) -> bool:
        """Whether some calls run as graphs."""
        return bool(self._graphs)

    def _as_graph(self, parameters: tuple[Any, ...]) -> Any:
        """What the graph gives that fits a call; `Misses` if there is none."""
        misses = Misses()
        is_first = True
        for graph in self._cache.of(parameters):
            result = graph.call(parameters)
            if type(result) is not Broken:
                if not is_first:
                    self._cache.used(graph, parameters)
                graph.runs += 1
                self._ran["graph"] += 1
                return result
            is_first = False
            if graph.is_obsolete:  # what it was made for has died
                continue
            misses.append((graph, result))
            if result.is_failure:
                return misses
        return self._as_others(parameters, misses)

    def _as_others(self, parameters: tuple[Any, ...], misses: Misses) -> Any:
        """A graph of another object may hold for this one, too. That it does not means nothing."""
        for graph in self._cache.others(parameters):
            result = graph.call(parameters)
            if type(result) is not Broken:
                self._cache.share(graph)
                graph.runs += 1
                self._ran["graph"] += 1
                return result
            if result.is_failure:
                break
        return misses

    def _eagerly(self, call: PreparedCall) -> Any:
        """Calls the function."""
        return call.function(*call.arguments, **call.named)

    def _without_graph(self, call: PreparedCall, misses: Misses) -> Any:
        """No graph fits: another one, or the function itself."""
        if self.given_up or self._is_too_long(misses) or not (misses or self._cache.is_worthwhile(call.parameters)):
            self._ran["eager"] += 1
            return self._eagerly(call)
        kind = "fallback" if misses else "eager"
        self._learn(misses)
        if misses and misses[-1][1].is_failure:
            return self._failed(*misses[-1], call)
        is_due = self._cache.is_due(call.parameters, self._is_due)
        if self.profile.returned_calls >= self.profiled_calls and is_due and _CONVERTING.acquire(blocking=False):
            try:
                graph = self._converted(call, misses)
            finally:
                _CONVERTING.release()
            if graph is not None:
                result = self._first_run(graph, call)
                if type(result) is not Broken:
                    return result
                kind = "fallback"
        self._is_due = True
        self._cache.observed(call.parameters)
        return self._observed(call, kind)

    def _failed(self, graph: CachedGraph, broken: Broken, call: PreparedCall) -> Any:
        """Something failed in a graph: the eager call should raise. Where it does not, the graph is wrong."""
        result = self._observed(call, "fallback")
        graph.failures += broken.assumption is None or isinstance(broken.assumption, NoException)
        if graph.failures >= MAX_FAILURES:
            self._cache.keep_only(lambda other: other is not graph)
            self._give_up("a graph fails where the eager call does not")
        return result

    def _first_run(self, graph: CachedGraph, call: PreparedCall) -> Any:
        """Runs a new graph, and keeps it unless it is of no use already."""
        result = graph.call(call.parameters)
        if type(result) is Broken:
            self._learn([(graph, result)])
            self._attempts += result.assumption is not None and result.assumption.site is None
            if self._attempts >= MAX_ATTEMPTS:
                self._give_up(f"graphs break that were made for the call: {result}")
            if not graph.is_obsolete:
                self._cache.add(graph, call.parameters)
            return result
        self._is_due = False
        self._attempts = 0
        self._cache.add(graph, call.parameters)
        graph.runs += 1
        self._ran["graph"] += 1
        return result

    def _learn(self, misses: list[tuple[CachedGraph, Broken]]) -> None:
        """Takes note of what broke: the profile becomes more general, and what keeps breaking is given up."""
        for graph, why in misses:
            graph.learn(why, self.profile)
            # An eager call would not see more of it.
            broken = why.assumption
            is_of_noted = broken is not None and broken.is_of_noted
            self._is_due = self._is_due or is_of_noted or self._has_another_shape(broken)
            _LOG.info("%s: broke: %s", self.name, why)
        # That others run a call eagerly says nothing about the graph.
        self.breaks.update({str(why) for _, why in misses if not isinstance(why.assumption, AllCommit)})
        for text, why in {str(why): why for _, why in misses}.items():
            self._note(text, remark_on_break(why.assumption, text))
        whys = [why for graph, why in misses if graph.is_obsolete]
        self._cache.keep_only(
            lambda graph: not (graph.is_obsolete or self._is_hopeless(graph) or any(map(graph.relies_on, whys)))
        )
        if self._ran["fallback"] >= max(MAX_FALLBACKS, self._ran["graph"] / 10):
            self._give_up(f"its assumptions broke in {self.calls['fallback']} calls")

    def _has_another_shape(self, broken: Assumption | None) -> bool:
        """Whether a tensor has been seen that was not of the shape that broke, and no graph was made for that."""
        if not isinstance(broken, FittingShape) or broken.site is None:
            return False
        seen = self.profile.seen(*broken.site)
        graphs = sum(graph.assumes(FittingShape, broken.site) for graph in self._graphs)
        return seen.has_few_shapes and len(seen.shapes or ()) > graphs

    def _note(self, text: str, remark: Remark) -> None:
        """Keeps something to explain."""
        self._counts[text] += 1
        self._notes.setdefault(text, remark)

    def _is_hopeless(self, graph: CachedGraph) -> bool:
        """Whether what keeps breaking is assumed; a shape of its own is, as long as there is room for graphs."""
        texts = (str(assumption) for assumption in graph.assumptions if not isinstance(assumption, SameShape))
        return any(self.breaks[text] >= MAX_BREAKS for text in texts if text in self.breaks)

    def _is_too_long(self, misses: Misses) -> bool:
        """Whether calls that fit the graphs as little as this one are too long for one."""
        return bool(self._too_long) and _broken(misses) in self._too_long

    def _converted(self, call: PreparedCall, misses: Misses) -> CachedGraph | None:
        """A graph for a call that fits no other; None if it has to run eagerly."""
        others = len(self._cache.of(call.parameters))
        if others >= MAX_GRAPHS or (others >= MAX_AT_ONCE and not self._comes_back(call)):
            return None
        if self._seconds > MAX_SECONDS and self._ran["graph"] < CALLS_A_CONVERSION * self._conversions:
            ran = f"calls as a graph: {self.calls['graph']}"
            self._give_up(f"conversions took {self._seconds:.0f} s ({ran}, conversions: {self._conversions})")
            return None
        self._conversions += 1
        started = time.perf_counter()
        try:
            keeps_shapes = others < MAX_OF_SHAPES
            settings = self.profile, self.optimizations, keeps_shapes, self.has_one_code
            graph = CachedGraph(convert(call.inner, call.parameters, *settings, self._experience))
        except Inconvertible as reason:
            reason.where = reason.where or _line_of(call.inner)
            self._attempts += 1
            if reason.feature is Feature.OPERATIONS and self._are_mostly_graphs():
                self._note(reason.told, remark_on_refusal(reason))
                self._too_long.add(_broken(misses))  # such calls are rare, and the others have their graphs
                return None
            self._refused(reason, is_passing=reason.feature in PASSING and self._attempts < MAX_ATTEMPTS)
            _let_go(reason)
            return None
        except Exception as error:
            if self.strict:
                raise
            self._give_up(defects.contain(f"the conversion of {self.name}", error))
            return None
        finally:
            self._seconds += time.perf_counter() - started
        if self._is_hopeless(graph):
            worst = max(self.breaks, key=self.breaks.__getitem__)
            self._give_up(f"an assumption keeps breaking: {worst}")
            return None
        _LOG.info("%s: a graph of %d operations, %d assumptions", self.name, graph.size, len(graph.assumptions))
        return graph

    def _are_mostly_graphs(self) -> bool:
        """Whether most calls run as graphs, of more than a few."""
        return self._ran["graph"] > max(CALLS_A_CONVERSION, self._ran["eager"] + self._ran["fallback"])

    def _comes_back(self, call: PreparedCall) -> bool:
        """Whether a call is worth a graph: not the first one of its shapes, where each shape has a graph."""
        if not any(isinstance(a, SameShape) for graph in self._graphs for a in graph.assumptions):
            return True
        leaves = [leaf for leaf in symbolic.leaves(call.parameters) if isinstance(leaf, tf_private.EagerTensor)]
        shapes = tuple(leaf._shape_tuple() for leaf in leaves)
        self._shapes[shapes] += 1
        return self._shapes[shapes] > 1

    def _refused(self, reason: Inconvertible, is_passing: bool = False) -> None:
        """A call is not converted; if that is not passing, no other is either."""
        remark = remark_on_refusal(reason)
        self._note(reason.told, remark)
        if is_passing:
            return
        self.left = self.left or reason.sites
        self._give_up(reason.told)
        if self.strict:
            reason.next_step = remark.remedy
            raise reason

    def _observed(self, call: PreparedCall, kind: str) -> Any:
        self._ran[kind] += 1
        names = names_of_parameters(call.inner)
        with self.profile.call():
            for name, value in zip(names, call.parameters, strict=False):
                self.profile.see(("argument", name), value)
            result = self._observer.observed(call.function)(*call.arguments, **call.named)
        if self._observer.rounds and not (self.strict or self.given_up):
            self._has_rounds(call)
        return result

    def _has_rounds(self, call: PreparedCall) -> None:
        """A call has gone through a dataset: if its own loop did, it is no step, but the rounds of the loop are."""
        syntax = syntax_of(call.inner)
        if sites := frozenset(site for key, site in self._observer.rounds if key == syntax.key):
            loop = next(node for node in syntax.nodes if getattr(node, "site", -1) in sites)
            reason = Inconvertible(Feature.DATASET, "a loop goes through a dataset", syntax.where(loop))
            reason.sites = sites
            self._refused(reason)

    def _give_up(self, reason: str) -> None:
        if not self.given_up:
            _LOG.info("%s: runs eagerly: %s", self.name, reason)
        self.given_up = self.given_up or reason

    @property
    def calls(self) -> dict[str, int]:
        """How many calls ran eagerly, as a graph, and eagerly because an assumption broke."""
        return self._ran.copy()

    def _heads(self) -> list[str]:
        """What holds for all calls."""
        return [f"runs eagerly: {self.given_up}"] if self.given_up else []

    def explain(self, html: bool = False) -> Any:
        """What the profile saw, what was assumed, what the calls became, what ran eagerly, why, and what to change.

        Args:
            html: whether to give a part of a page, with the program's lines, in place of text.

        Returns:
            A `str`. The text has a method `html()`, too, and shows itself as such in a notebook.
        """
        graphs, heads = self._graphs_of_all_worlds(), self._heads()
        if len(graphs) >= MAX_GRAPHS:
            heads.append(f"has {len(graphs)} graphs; an object has {MAX_GRAPHS} at most (MAX_GRAPHS)")
        lines = [[f"graph {i}: {graph.summary}", *graph.explain()] for i, graph in enumerate(graphs)]
        title = f"{self.name}: " + ", ".join(f"{n} {kind}" for kind, n in self.calls.items())
        assumed = {str(a): Remark("assumed", a.where, a.title) for g in graphs for a in g.assumptions}
        noted = [dataclasses.replace(note, count=self._counts[text]) for text, note in self._notes.copy().items()]
        remarks = [*remarks_of_profile(self.profile), *assumed.values(), *noted]
        made = Explanation.of(title, heads, lines, remarks)
        return made.html() if html else made


class Speculated(SpeculatedCalls):
    """A function with the graphs that its calls became.

    Args:
        function: a Python function.
        profiled_calls: how many calls return, run eagerly, before one is converted.
        strict: whether what cannot be converted is an error.
        optimizations: what graphs are made with.
    """

    is_a_part_of_its_caller: ClassVar[bool] = True  # what `known.is_speculated` looks for

    def __init__(
        self,
        function: Callable[..., Any],
        profiled_calls: int = PROFILED_CALLS,
        strict: bool = False,
        optimizations: Optimizations = ALL,
    ) -> None:
        self.__qualname__: str
        super().__init__(function.__qualname__, profiled_calls, strict, optimizations)
        functools.update_wrapper(self, function)
        self.function = function
        self._owner = (function.__self__,) if inspect.ismethod(function) else ()
        self._inner: Any = getattr(function, "__func__", function)
        self._bind_anew()

    def _bind_anew(self) -> None:
        """The function has another body or defaults: who reloads a module may give it some."""
        self._code, self._defaults = self._inner.__code__, self._inner.__defaults__
        self._named_defaults = dict(self._inner.__kwdefaults__ or {})
        self._bind = binder(self._inner)

    @property
    def _has_new_named_defaults(self) -> bool:
        """Whether defaults of parameters that are given by name are others: their dict may have been written."""
        now, before = self._inner.__kwdefaults__, self._named_defaults
        if not now:
            return bool(before)
        return len(now) != len(before) or any(before.get(name, self) is not value for name, value in now.items())

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function: the graph that fits, or eagerly."""
        if not tf_private.is_plainly_eager():
            return self.function(*arguments, **named)
        inner = self._inner
        is_other = inner.__code__ is not self._code or inner.__defaults__ is not self._defaults
        if is_other or self._has_new_named_defaults:
            self._bind_anew()
        try:
            parameters = self._bind(*self._owner, *arguments, **named)
        except TypeError:
            return self.function(*arguments, **named)
        result = self._as_graph(parameters)
        if type(result) is not Misses:
            return result
        return self._without_graph(PreparedCall(self.function, parameters, arguments, named), result)

    # A copy is the same function, as with Python's functions; pickled, it is found by its name or made again.

    def __copy__(self) -> Speculated:
        return self

    def __deepcopy__(self, memo: Any) -> Speculated:
        if not self._owner:
            return self
        return Speculated(copy.deepcopy(self.function, memo), self.profiled_calls, self.strict, self.optimizations)

    def __reduce__(self) -> Any:
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        return Speculated, (self.function, self.profiled_calls, self.strict, self.optimizations)


def _line_of(function: Any) -> str:
    """Where a function begins: what is refused after it was gone through is about no other line."""
    try:
        syntax = syntax_of(function)
    except Inconvertible:
        return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    return syntax.where(syntax.node)


def _let_go(reason: BaseException) -> None:
    """A conversion that failed holds no objects of the program any more, which may notice when they are given up."""
    error: BaseException | None = reason
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
