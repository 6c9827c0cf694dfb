"""The ways in which a function runs; each gives what eager execution would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from recgraph import native
from recgraph.coexec import Coexecuted
from recgraph.errors import NativeLibraryError
from recgraph.explaining import Explanation
from recgraph.speculate import Optimizations
from recgraph.speculate.run.callees import Callees
from recgraph.speculate.run.outlining import PartCalls

EAGER: Final = "eager"
GRAPH: Final = "graph"
CALLEES: Final = "callees"
COEXEC: Final = "coexec"
COEXEC_CALLEES: Final = "coexec+callees"
WHAT: Final[dict[str, str]] = {
    EAGER: "eagerly",
    GRAPH: "as one graph",
    CALLEES: "eagerly with callees as graphs",
    COEXEC: "co-executed",
    COEXEC_CALLEES: "co-executed with callees as graphs",
}


class Way(Protocol):
    """One way.

    Attributes:
        name: one of the names above.
        is_for_one_thread: whether no other thread may take a step of the function meanwhile.
    """

    name: str
    is_for_one_thread: bool

    @property
    def run(self) -> Callable[..., Any]:
        """Calls the function."""

    @property
    def is_settled(self) -> bool:
        """Whether it has become as fast as it will be."""

    @property
    def is_usual(self) -> bool:
        """Whether the last step is one to judge it by."""

    @property
    def given_up(self) -> str:
        """Why it cannot be taken; "" if it can."""

    def explanations(self) -> list[Explanation]:
        """What is to be said of its parts."""


class Eagerly:
    """The function itself."""

    name = EAGER
    is_for_one_thread = False
    is_settled = is_usual = True
    given_up = ""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.run = function

    def explanations(self) -> list[Explanation]:
        """See `Way`."""
        return []


class AsGraph:
    """The function converted whole.

    Args:
        function: runs a call as a graph that is there or that is made for it, or eagerly where none fits.
        counts: how many calls ran as graphs so far, and how many graphs were made.
    """

    name = GRAPH
    is_for_one_thread = False
    is_settled = True
    given_up = ""

    def __init__(self, function: Callable[..., Any], counts: Callable[[], tuple[int, int]]) -> None:
        self._function, self._counts, self.is_usual = function, counts, False

    def run(self, *arguments: Any, **named: Any) -> Any:
        """See `Way`."""
        graphs, conversions = self._counts()
        result = self._function(*arguments, **named)
        self.is_usual = self._counts() == (graphs + 1, conversions)
        return result

    def explanations(self) -> list[Explanation]:
        """See `Way`."""
        return []


class WithCallees:
    """The function, with its parts and with those that it calls as graphs.

    Args:
        function: the function.
        optimizations: what graphs are made with.
        left: the sites of the statements for which it cannot be converted.
        parts: what became of its parts.

    Attributes:
        callees: what they became; None where the extension module is missing.
    """

    name = CALLEES
    is_for_one_thread = False
    is_usual = True

    def __init__(
        self,
        function: Callable[..., Any],
        optimizations: Optimizations,
        left: frozenset[int] = frozenset(),
        parts: PartCalls | None = None,
    ) -> None:
        self.run, self._failure = function, ""
        self.callees: Callees | None = None
        try:
            self.callees = Callees(function, optimizations, left, parts)
            self.run = self.callees.run
        except NativeLibraryError as error:
            self._failure = str(error.args[0])

    @property
    def is_settled(self) -> bool:
        """See `Way`."""
        return self.callees is None or self.callees.is_settled

    @property
    def given_up(self) -> str:
        """See `Way`."""
        if self.callees is not None and self.callees.is_settled and not self.callees.converted:
            return "no callee can be converted to a graph"
        return self._failure

    def explanations(self) -> list[Explanation]:
        """See `Way`."""
        return [] if self.callees is None else [found.explain() for found in self.callees.functions]


# Operations of a step that nobody has asked to co-execute: a graph of so many is made in some seconds.
MAX_OPERATIONS: Final = 4_000


class Coexecuting:
    """The function as a step that is co-executed.

    Args:
        name: the way's.
        function: what a step does.
        title: its name in explanations.

    Attributes:
        coexecuted: the steps.
    """

    is_usual = True
    is_for_one_thread = True  # at its end a step sets all variables of the graph, those of other ways through it too

    def __init__(self, name: str, function: Callable[..., Any], title: str) -> None:
        self.name, self.coexecuted, self._failure = name, Coexecuted(function), ""
        self.coexecuted.phases.name, self.coexecuted.phases.most = title, MAX_OPERATIONS
        self.run: Callable[..., Any] = self.coexecuted
        try:
            native.coexec()
        except NativeLibraryError as error:
            self._failure = str(error.args[0])

    @property
    def is_settled(self) -> bool:
        """See `Way`."""
        return self.coexecuted.phases.is_settled

    @property
    def given_up(self) -> str:
        """See `Way`."""
        return self._failure or self.coexecuted.phases.given_up

    def explanations(self) -> list[Explanation]:
        """See `Way`."""
        return [self.coexecuted.explain()]
