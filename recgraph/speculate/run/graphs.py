"""A converted call that can be called again, for as long as the objects live that it was made for."""

from __future__ import annotations

import dataclasses
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.ops import is_call
from recgraph.speculate.observe import keras_state
from recgraph.speculate.observe.known import has_attributes, is_a
from recgraph.speculate.observe.profile import Profile
from recgraph.speculate.run.conversion import Converted
from recgraph.speculate.script.assumptions import MARK, Assumption, ModerateCost

# Operations that hand values on.
_PASSING = frozenset({"Placeholder", "Const", "Identity", "NoOp"})
_MANY = 100
_NO_SIGNAL = ModerateCost("no signal comes while the graph runs")


@dataclasses.dataclass(frozen=True)
class Broken:
    """What a call gives in place of a result where it has to run eagerly. Nothing was done then.

    Attributes:
        assumption: the one that broke, None if an operation failed.
        error: what the graph raised.
    """

    assumption: Assumption | None = None
    error: Exception | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the call itself fails, as far as the graph can tell: no other graph would do better."""
        return self.assumption is None or self.assumption.fails_the_call

    def __str__(self) -> str:
        return str(self.assumption or f"an operation failed: {type(self.error).__name__}")


class CachedGraph:
    """One graph of a function.

    Attributes:
        call: runs it on a call's parameters; gives the result, or `Broken`.
        runs: how often it has.
        failures: how often an operation failed, and the eager call did not.
        is_obsolete: whether it is of no more use.
        has_died: whether it is because one of the objects has died that it was made for.
        owner: the parameter whose object it was made for, by number; None if it is for any.
        operations: how many compute something, those in loops and branches counted as many.
    """

    def __init__(self, converted: Converted) -> None:
        self.call: Callable[[Any], Any]
        self.assumptions, self.size = converted.assumptions, len(converted.graph.get_operations())
        self.is_specialised, self.keeps_shapes = converted.is_specialised, converted.keeps_shapes
        self.owner = converted.owner
        self._turns = converted.turns
        self._graph = weakref.ref(converted.graph)
        self.operations = sum(map(_weight, converted.graph.get_operations()))
        self.runs, self.failures, self.is_obsolete, self.has_died = 0, 0, False, False
        self._tokens = [Broken(assumption) for assumption in converted.assumptions]
        self.call = converted.run({"broken": self._tokens.__getitem__, "failed": self._failed})
        this = weakref.ref(self)

        def die(_: Any) -> None:
            graph = this()
            if graph is not None:
                graph.has_died = True
                graph.discard()

        self._watched = [weakref.ref(seen(), die) for seen in converted.watched]

    def _failed(self, error: Exception) -> Broken:
        if isinstance(error, tf_private.Interrupted):
            return Broken(_NO_SIGNAL, error)
        if tf_private.is_of_handler(error):
            raise error
        found = re.search(rf"{MARK}\] \[(\d+)\]", str(error))
        return Broken(self.assumptions[int(found[1])] if found else None, error)

    def discard(self) -> None:
        """Lets go of everything: it never fits again."""
        dead = Broken()
        self.is_obsolete, self.call, self._turns = True, lambda parameters: dead, None

    def learn(self, broken: Broken, profile: Profile) -> None:
        """Makes the profile more general where an assumption broke."""
        assumption = broken.assumption
        if assumption is None or self.is_specialised:
            return
        if assumption.relax(profile, self.keeps_shapes):
            self.is_obsolete = self.is_obsolete or assumption.is_relaxed

    def relies_on(self, broken: Broken) -> bool:
        """Whether it makes the assumption that broke in another graph, and is of no more use either."""
        assumption = broken.assumption
        if assumption is None or assumption.site is None or not assumption.is_relaxed or self.is_specialised:
            return False
        return self.assumes(type(assumption), assumption.site)

    def assumes(self, kind: type[Assumption], site: tuple[Any, int]) -> bool:
        """Whether it makes an assumption of this kind about a place in the program."""
        return any(own.site == site and type(own) is kind for own in self.assumptions)

    @property
    def graph(self) -> Any:
        """The graph as it was made, or None if it is gone."""
        return self._graph()

    @property
    def summary(self) -> str:
        """How large it is and how often it ran."""
        whose = "" if self.owner is None else f", for one object of parameter {self.owner}"
        return f"{self.size} operations, ran {self.runs} times{whose}"

    def explain(self) -> list[str]:
        """What it assumes, and what was done to make it faster."""
        assumed = [f"  assumes {kind}" for kind in dict.fromkeys(map(str, self.assumptions))]
        turns = self._turns  # another thread may discard the graph
        done = [] if turns is None else turns.explain()
        return [*assumed, *(f"  {line}" for line in done)]


def _weight(op: Any) -> int:
    """How many operations one stands for."""
    return _MANY if is_call(op) else int(op.type not in _PASSING)


# How many graphs of other objects an object tries that has none of its own.
OTHERS_TRIED = 4
# So often a graph has to run to have been worth making.
RUNS_THAT_PAY = 32
# So many graphs may have died with their objects without having paid: a conversion costs as much as a hundred steps of
# a small model. Then an object gets one only after so many calls, which costs it little if it has many more, and a
# graph that pays makes up for one that has not.
MAX_UNPAID = 3
CALLS_BEFORE = 64


class Receiver:
    """What is kept for an object.

    Attributes:
        graphs: its own.
        calls: how often it was called when a graph was not worthwhile.
        is_due: whether it was observed since its last graph was made.
        reference: to the object.
    """

    def __init__(self) -> None:
        self.graphs: list[CachedGraph] = []
        self.calls = 0
        self.is_due = False
        self.reference: Any = None


class Graphs:
    """All graphs of a function.

    Attributes:
        unpaid: how many graphs have died with their objects before they paid, less those that had paid.
    """

    def __init__(self) -> None:
        self.unpaid = 0
        self._shared: list[CachedGraph] = []
        self._receivers: dict[int, Receiver] = {}
        self._place = 0  # which parameter the graphs of an object know it by
        self._lock = threading.RLock()  # a receiver may die, and its graphs with it, at any time

    def __iter__(self) -> Any:
        return iter(self.all())

    def all(self) -> list[CachedGraph]:
        """Every graph, everybody's first."""
        with self._lock:
            return [*self._shared, *(graph for one in list(self._receivers.values()) for graph in one.graphs)]

    def of(self, parameters: tuple[Any, ...]) -> list[CachedGraph]:
        """Those that a call tries, the one that was used last first."""
        if not self._receivers:
            return self._shared
        own = self._receivers.get(id(parameters[self._place]))
        if own is None or not own.graphs:
            return self._shared
        return own.graphs + self._shared if self._shared else own.graphs

    def others(self, parameters: tuple[Any, ...]) -> list[CachedGraph]:
        """Some graphs of other objects, for an object that has none; one that fits is to be `share`d."""
        if not self._receivers or self._place >= len(parameters):
            return []
        own = self._receivers.get(id(parameters[self._place]))
        if own is not None and own.graphs:
            return []
        with_graphs = [one.graphs[0] for one in list(self._receivers.values()) if one.graphs]
        return with_graphs[-OTHERS_TRIED:]

    def observed(self, parameters: tuple[Any, ...]) -> None:
        """The object of a call was observed in it."""
        with self._lock:
            own = self._receiver(parameters)
            if own is not None:
                own.is_due = True

    def is_due(self, parameters: tuple[Any, ...], is_due: bool) -> bool:
        """Whether a graph may be made: the object was observed, or another call was and this object is ready."""
        own = self._receivers.get(id(parameters[self._place])) if self._place < len(parameters) else None
        if own is not None:
            return own.is_due or is_due
        return is_due and not (parameters and keras_state.is_unbuilt(parameters[0]))

    def add(self, graph: CachedGraph, parameters: tuple[Any, ...]) -> None:
        """Keeps a graph that was made for a call."""
        with self._lock:
            if graph.owner is not None and not any(one.graphs for one in list(self._receivers.values())):
                self._receivers = self._receivers if self._place == graph.owner else {}
                self._place = graph.owner
            own = self._receiver(parameters)
            if own is not None:
                own.is_due = False
            if own is None or self._place != graph.owner:
                self._shared = [graph, *self._shared]
            else:
                own.graphs = [graph, *own.graphs]

    def share(self, graph: CachedGraph) -> None:
        """A graph fits other objects than the one that it was made for."""
        with self._lock:
            self.keep_only(lambda other: other is not graph)
            self._shared = [graph, *self._shared]

    def used(self, graph: CachedGraph, parameters: tuple[Any, ...]) -> None:
        """A graph fitted that was not the first to be tried: it will be."""
        with self._lock:
            own = self._receivers.get(id(parameters[self._place])) if self._receivers else None
            if own is not None and any(other is graph for other in own.graphs):
                own.graphs = [graph, *(other for other in own.graphs if other is not graph)]
            elif any(other is graph for other in self._shared):
                self._shared = [graph, *(other for other in self._shared if other is not graph)]

    def keep_only(self, is_kept: Any) -> None:
        """Lets go of all other graphs."""
        with self._lock:
            self._count_unpaid([graph for graph in self.all() if graph.has_died and not is_kept(graph)])
            self._shared = [graph for graph in self._shared if is_kept(graph)]
            for one in list(self._receivers.values()):
                one.graphs = [graph for graph in one.graphs if is_kept(graph)]

    def _count_unpaid(self, dead: list[CachedGraph]) -> None:
        """Takes note of whether graphs had paid that died with an object, the receiver or another one."""
        if dead:
            has_paid = sum(graph.runs for graph in dead) >= RUNS_THAT_PAY
            self.unpaid = max(self.unpaid - 1, 0) if has_paid else self.unpaid + len(dead)

    def is_worthwhile(self, parameters: tuple[Any, ...]) -> bool:
        """Whether to make a graph for a call: not for the next of many objects that die young."""
        if self.unpaid < MAX_UNPAID:
            return True
        with self._lock:
            own = self._receiver(parameters)
            if own is None:
                return True
            own.calls += 1
            return own.calls > CALLS_BEFORE

    def _receiver(self, parameters: tuple[Any, ...]) -> Receiver | None:
        """The record of the object of a call; None for tensors, data, and what has no weak references."""
        thing = parameters[self._place] if self._place < len(parameters) else None
        identity = id(thing)
        if is_a(thing, tf.Tensor | np.ndarray) or not has_attributes(thing):
            return None
        if identity not in self._receivers:
            made = Receiver()
            this = weakref.ref(self)

            def die(_: Any) -> None:
                graphs = this()
                if graphs is not None:
                    graphs._died(identity, made)

            try:
                made.reference = weakref.ref(thing, die)
            except TypeError:
                return None
            self._receivers[identity] = made
        return self._receivers[identity]

    def _died(self, identity: int, receiver: Receiver) -> None:
        with self._lock:
            if self._receivers.get(identity) is receiver:
                del self._receivers[identity]
            self._count_unpaid(receiver.graphs)
            for graph in receiver.graphs:
                graph.discard()
