"""What there is to know about an operation: the facts that a row of the table states."""

from __future__ import annotations

import dataclasses
import enum
from typing import Final


class State(enum.Enum):
    """What an operation does besides computing."""

    PURE = "nothing"
    READS = "depends on what is in the resources that it is given"
    ASKS = "asks about resources, but not what is in them"
    SILENT = "counts as stateful, so that TensorFlow keeps it; nobody can see that it ran"
    WRITES = "changes the resources that it is given"
    ADDS = "adds to them: where nobody reads meanwhile, the order makes no difference"
    DRAWS = "takes random numbers from a variable, and moves it on, in one step"
    RANDOM = "draws random numbers; has the attributes seed and seed2, and its state to itself"
    CALLS = "what the functions in its attributes do"
    CREATES = "makes a resource, or finds it by its name"
    PYTHON = "runs Python, which may do anything"
    ACTS = "prints, writes files or talks to others: it cannot be undone"
    OUTSIDE = "depends on what is outside of the program: a file, the time"
    OURS = "part of a call of a SubGraph or of a co-executed step; this library keeps its order"
    UNKNOWN = "nobody has described it: it may do anything"


class Fails(enum.Enum):
    """When a kernel fails, given variables that have a value."""

    NEVER = "never"
    SHAPES = "where the shapes of its inputs do not fit"
    INTEGERS = "SHAPES; and where it divides integers by zero, or raises them to negative powers"
    ARGUMENTS = "SHAPES; and where the inputs that say which axis, place or size are out of range"
    INDICES = "SHAPES; and where one of the indices in a tensor is out of range"
    ROWS = "SHAPES; and where one of the rows that it writes is not there"
    ASSIGNS = "where the value and the variable differ in shape"
    UPDATES = "where the variables and the gradient differ in shape, or another input is no scalar"
    CALLEES = "where an operation of its functions fails"
    VALUES = "depending on any values"


class Form(enum.Enum):
    """How the result lies to the inputs."""

    OTHER = "otherwise"
    SAME = "its input as it is"
    ELEMENTWISE = "each element is computed from those at its place, in inputs of one shape"
    BROADCASTS = "the same of two inputs, which are broadcast to one shape"
    REARRANGES = "elements of its first input, in another shape"
    PRODUCT = "a product of matrices: the rows of one input, the columns of the other"
    MEASURES = "a shape, a size or a rank: no value of the inputs matters"


class Resource(enum.Enum):
    """What the resources are that an operation is given or makes."""

    NONE = "none"
    VARIABLE = "variables; the state of a generator of random numbers is one"
    TABLE = "lookup tables"
    OTHER = "queues, iterators, readers and others"


class Calls(enum.Enum):
    """Which of the functions in its attributes an operation runs."""

    NONE = "none"
    IF = "then_branch or else_branch, by its first input"
    CASE = "one of branches, by its first input"
    WHILE = "cond and body, until cond is false"
    FOR = "body, a number of times"
    FUNCTION = "f"


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known about the operations of one type. The defaults are those of a function of its inputs alone.

    Attributes:
        fails: when its kernel fails.
        state: what it does besides computing. If that is to read or to write, it does so to all its resources.
        resources: the numbers of the arguments that are resources, or lists of them.
        resource: what these are, or the one that it makes.
        is_stateful: whether TensorFlow registers it as stateful; None where that follows from `state`.
        calls: the functions that it runs.
        form: how the result lies to the inputs.
        passes_gradients: whether each input that can have a gradient gets one if the outputs have.
        sized_by: the inputs whose values say how large the result is.
        rows: the input that says which rows of its first input are written; None if it does not write by rows.
        is_random: whether it makes random numbers, with or without a state; other compilers may make others.
        checks: whether it is there to fail where something is not as it should be.
        is_endless: whether it may run for ever.
        waits: whether it may wait for what another thread does.
    """

    fails: Fails = Fails.VALUES
    state: State = State.PURE
    resources: tuple[int, ...] = ()
    resource: Resource = Resource.NONE
    is_stateful: bool | None = None
    calls: Calls = Calls.NONE
    form: Form = Form.OTHER
    passes_gradients: bool = False
    sized_by: tuple[int, ...] = ()
    rows: int | None = None
    is_random: bool = False
    checks: bool = False
    is_endless: bool = False
    waits: bool = False

    @property
    def counts_as_stateful(self) -> bool:
        """Whether TensorFlow registers it as stateful."""
        return self.state is not State.PURE if self.is_stateful is None else self.is_stateful

    @property
    def only_reads(self) -> bool:
        """Whether resources are as they were after it, and its order among other reads makes no difference."""
        return self.state in (State.READS, State.ASKS)

    @property
    def writes(self) -> bool:
        """Whether it changes the resources that it is given, and does nothing else that can be seen."""
        return self.state in (State.WRITES, State.ADDS, State.DRAWS)

    @property
    def is_invisible(self) -> bool:
        """Whether nobody can see that it ran, except by its result."""
        return self.only_reads or self.state in (State.PURE, State.SILENT, State.RANDOM, State.OUTSIDE)

    @property
    def does_the_same_again(self) -> bool:
        """Whether it gives the same result a second time, as long as nobody writes what it reads.

        What is outside of the program is taken to stay as it is.
        """
        return self.only_reads or self.checks or not self.counts_as_stateful

    @property
    def uses_variables(self) -> bool:
        """Whether its resources are variables."""
        return self.resource is Resource.VARIABLE

    @property
    def is_branch(self) -> bool:
        """Whether its first input chooses which of its functions runs."""
        return self.calls in (Calls.IF, Calls.CASE)


# Of an operation that nobody has described: the worst of everything.
UNKNOWN: Final = Facts(state=State.UNKNOWN, is_random=True, is_endless=True, waits=True)
