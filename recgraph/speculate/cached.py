"""A converted call that can be called again, for as long as the objects live that it was made for."""

from __future__ import annotations

import dataclasses
import re
import weakref
from collections.abc import Callable
from typing import Any

from recgraph import tf_private
from recgraph.speculate.assumptions import assumption
from recgraph.speculate.conversion import Converted
from recgraph.speculate.effects import is_call
from recgraph.speculate.guarding import MARK
from recgraph.speculate.profile import Profile
from recgraph.speculate.script import Assumption

# A graph that broke one of these is of no more use: the next is more general and covers it.
_RELAXED = frozenset({"branch", "value", "tensor"})
# Operations that hand values on.
_PASSING = frozenset({"Placeholder", "Const", "Identity", "NoOp"})
_MANY = 100
_NO_SIGNAL = assumption("cost", "no signal comes while the graph runs")


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
        return self.assumption is None or self.assumption.kind in ("raises", "range", "cost")

    def __str__(self) -> str:
        return str(self.assumption or f"an operation failed: {type(self.error).__name__}")


class CachedGraph:
    """One graph of a function.

    Attributes:
        call: runs it on a call's parameters; gives the result, or `Broken`.
        runs: how often it has.
        failures: how often an operation failed, and the eager call did not.
        is_obsolete: whether it is of no more use.
        owner: the parameter whose object it was made for, by number; None if it is for any.
        operations: how many compute something, those in loops and branches counted as many.
    """

    def __init__(self, converted: Converted) -> None:
        self.call: Callable[[Any], Any]
        self.assumptions, self.size = converted.assumptions, len(converted.graph.get_operations())
        self.is_specialised, self.keeps_shapes = converted.is_specialised, converted.keeps_shapes
        self.owner = converted.owner
        self.operations = sum(map(_weight, converted.graph.get_operations()))
        self.runs, self.failures, self.is_obsolete = 0, 0, False
        self._tokens = [Broken(assumption) for assumption in converted.assumptions]
        self.call = converted.run({"broken": self._tokens.__getitem__, "failed": self._failed})
        this = weakref.ref(self)

        def die(_: Any) -> None:
            graph = this()
            if graph is not None:
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
        self.is_obsolete, self.call = True, lambda parameters: dead

    def learn(self, broken: Broken, profile: Profile) -> None:
        """Makes the profile more general where an assumption broke."""
        assumption = broken.assumption
        if assumption is not None and assumption.site is not None and not self.is_specialised:
            if assumption.kind == "tensor" and self.keeps_shapes and profile.seen(*assumption.site).has_few_shapes:
                return  # a graph for each
            profile.relax(*assumption.site)
            self.is_obsolete = self.is_obsolete or assumption.kind in _RELAXED

    def relies_on(self, broken: Broken) -> bool:
        """Whether it makes the assumption that broke in another graph, and is of no more use either."""
        assumption = broken.assumption
        if assumption is None or assumption.site is None or assumption.kind not in _RELAXED or self.is_specialised:
            return False
        return self.assumes(assumption.kind, assumption.site)

    def assumes(self, kind: str, site: tuple[Any, int]) -> bool:
        """Whether it makes an assumption of this kind about a place in the program."""
        return any(own.site == site and own.kind == kind for own in self.assumptions)

    @property
    def summary(self) -> str:
        """How large it is and how often it ran."""
        whose = "" if self.owner is None else f", for one object of parameter {self.owner}"
        return f"{self.size} operations, ran {self.runs} times{whose}"

    def explain(self) -> list[str]:
        """What it assumes."""
        return [f"  assumes {kind}" for kind in dict.fromkeys(map(str, self.assumptions))]


def _weight(op: Any) -> int:
    """How many operations one stands for."""
    return _MANY if is_call(op) else int(op.type not in _PASSING)
