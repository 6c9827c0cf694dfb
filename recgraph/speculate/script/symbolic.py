"""What an expression can be while a call is converted, besides known objects and tensors of the graph."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from recgraph import tf_private
from recgraph.speculate.observe.known import is_a
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException
from recgraph.speculate.observe.syntax import Frame


class SymbolicValue:
    """What stands for a value of the program's while a call is converted. It has no text that a program might show."""

    def __repr__(self) -> NoReturn:
        raise Inconvertible(Feature.TEXT, f"the text of a {type(self).__name__.lower()} that is not known yet")

    def __str__(self) -> NoReturn:
        self.__repr__()

    def __format__(self, specification: str) -> NoReturn:
        self.__repr__()


class MadeFunction(SymbolicValue):
    """Something that the call has made or found and that the program can only call.

    Attributes:
        frame: the frame whose names it sees, None if it sees none.
    """

    frame: Any = None

    def call(self, ev: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """What a call of it gives."""
        raise NotImplementedError


class BoundConstantMethod(MadeFunction):
    """A method without arguments of which the conversion knows what it gives."""

    def __init__(self, give: Callable[[], Any]) -> None:
        self._give = give

    def call(self, ev: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """What it gives."""
        return self._give()


class OwnersMethod(MadeFunction):
    """A method that has been found, with the value that it belongs to."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name


@dataclasses.dataclass(eq=False, repr=False)
class DynamicValue(SymbolicValue):
    """A Python value that differs from call to call and stays in Python.

    Attributes:
        name: of the value in the script; "" where it comes out of the graph.
        example: its value in the call that is converted.
        tensor: where it comes out of the graph, int64, float64 or bool.
        late: whether it is known only after the graph.
        limit: what an integer that comes out of the graph does not exceed in absolute value, if that is known.
        is_array: whether it is NumPy's: what `.numpy()` gives of the tensor, which has its dtype and shape.
        samples: of one that is computed after the graph, what it may be; empty where that is not known.
        site: of an array that the script has, where the profile has seen it.
        sizes: of a value that the script has, the integers that vary of which it was computed.
    """

    name: str
    example: Any = None
    tensor: Any = None
    late: bool = False
    limit: int | None = None
    is_array: bool = False
    samples: tuple[Any, ...] = ()
    site: Any = None
    sizes: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if type(self.example) is int:
            self.sizes = frozenset({self.example})
        # A tape does not see what Python computes.
        tensor = self.tensor
        if tensor is None or not (tensor.dtype.is_floating or tensor.dtype.is_complex):
            return
        if tensor.op.type != "StopGradient":
            with tensor.graph.as_default():  # perhaps one around that which is being made
                self.tensor = tf.stop_gradient(tensor)


def fixed(array: np.ndarray) -> np.ndarray:
    """A view of an array that cannot be written to: what is done to it while a call is converted must not reach it."""
    view = array.view()
    view.flags.writeable = False
    return view


# What integers that flow between branches and rounds do not exceed.
HELD: Final = 1 << 62


@dataclasses.dataclass(frozen=True, repr=False)
class Missing(SymbolicValue):
    """What a name or attribute is after it was deleted, or before it was set."""


MISSING = Missing()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ListSegment(SymbolicValue):
    """Members of a list, one after the other, as many as the graph says. It stands in the list for all of them.

    Attributes:
        element: the template of a member, whose holes are the same for all.
        lists: for each hole a TensorList with its values, a variant scalar.
        count: how many members there are, int64 scalar.
        view: where the first one is in the TensorLists and how far the next is from it, int64 scalars; None where the
            members are all that the TensorLists have.
        backwards: whether they are all, from the last to the first.
    """

    element: Any
    lists: tuple[tf.Tensor, ...]
    count: tf.Tensor
    view: tuple[tf.Tensor, tf.Tensor] | None = None
    backwards: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the members are all that the TensorLists have, in their order."""
        return self.view is None and not self.backwards


def has_run(members: Any) -> bool:
    """Whether only the graph knows how many members a list or tuple has."""
    if not isinstance(members, list | tuple):
        return False
    return any(map(operator.is_, map(type, members), itertools.repeat(ListSegment)))  # asked often, and of long lists


def how_many(members: Sequence[Any]) -> tf.Tensor:
    """How many members a list with runs has, int64."""
    counts = [member.count if isinstance(member, ListSegment) else 1 for member in members]
    return functools.reduce(operator.add, counts, tf.constant(0, tf.int64))


def is_symbolic(value: Any) -> bool:
    """Whether a value is a tensor of the graph, or made of such."""
    return isinstance(value, tf.Tensor | tf.IndexedSlices | tf.RaggedTensor | tf.SparseTensor | ListSegment)


def is_of_graph(value: Any) -> bool:
    """Whether a value is a number or array of Python's that comes out of the graph."""
    return isinstance(value, DynamicValue) and value.tensor is not None


def is_unknown(value: Any) -> bool:
    """Whether a value is one that only the script or the graph knows."""
    return is_symbolic(value) or isinstance(value, DynamicValue | VariableSnapshot)


def is_variable(value: Any) -> bool:
    """Whether a value is a variable, TensorFlow's or Keras's."""
    return isinstance(value, tf.Variable | keras.Variable)


def is_tensor_like(value: Any) -> bool:
    """Whether operators on a value are those on tensors."""
    return is_symbolic(value) or is_variable(value)


def read_variable(value: Any) -> Any:
    """What a variable holds now, as a tensor of the graph; anything else as it is."""
    if isinstance(value, keras.Variable):
        return tf.convert_to_tensor(value.value)
    return value.read_value() if isinstance(value, tf.Variable) else value


class Iteration(SymbolicValue):
    """An iterator that the program has made: a generator expression, a `zip`, a `map`.

    Args:
        members: what is left of it; rows, where only the graph knows how many there are.
        forks: how many branches and loops of tensors, and functions that TensorFlow calls, were around us when it was
            made.
        node: the expression that made it.
    """

    def __init__(self, members: Iterator[Any] | IterationSpace, forks: int, node: Any = None) -> None:
        self.members, self.forks, self.node = members, forks, node


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MaybeUnbound(SymbolicValue):
    """The value of a name that has one only where a condition of the graph holds."""

    value: Any
    condition: tf.Tensor


class _Undefined(SymbolicValue):
    """A value that nobody will look at: what a branch that does not return has returned."""


UNDEFINED = _Undefined()


@dataclasses.dataclass(frozen=True, repr=False)
class IterationSpace(SymbolicValue):
    """What a loop in the graph goes through.

    Attributes:
        count: int64, how many.
        row: the one of a number.
        is_known: whether the script knows them, too, so that the loop may be unrolled.
        begins: whether there is at least one, so that the first round may come before the loop.
        sources: the lists that the rows are members of, each with all members that it has.
    """

    count: tf.Tensor
    row: Callable[[tf.Tensor], Any]
    is_known: bool = False
    begins: bool = False
    sources: tuple[tuple[Any, Any], ...] = ()


@dataclasses.dataclass(eq=False, repr=False)
class Ref(SymbolicValue):
    """An object that is a row of a table, or None.

    Attributes:
        table: of all objects of its class.
        row: int32 scalar, -1 for None.
        path: the attributes by which the program came to it from the object that its function was given.
    """

    table: Any
    row: tf.Tensor
    path: frozenset[str] = frozenset()


def rebuilt(original: Any, members: Iterable[Any]) -> Any:
    """A list, a tuple, perhaps a named one, or a dict with other members."""
    if isinstance(original, dict):
        return dict(zip(original, members, strict=True))
    kind: Any = type(original)
    return kind._make(members) if hasattr(kind, "_make") else kind(members)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A container of Python's own classes with what a function gives of its members; anything else as it is."""
    kind: Any = type(value)
    if kind in (list, tuple, set, frozenset):
        return kind(map(function, value))
    if kind is collections.deque:
        return collections.deque(map(function, value), value.maxlen)
    if kind is slice:
        return slice(function(value.start), function(value.stop), function(value.step))
    if issubclass(kind, tuple) and hasattr(kind, "_make"):
        return kind._make(map(function, value))
    if kind is collections.defaultdict:
        kind = functools.partial(kind, value.default_factory)
    if type(value) in DICTS:
        return kind({key: function(v) for key, v in value.items()})
    return value


DICTS: Final = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
CONTAINERS: Final = (list, tuple, set, frozenset, collections.deque, *DICTS)


def parts_of(value: Any) -> list[Any]:
    """The members of a container, keys and items of a dict, as they are, whatever its class makes of them."""
    kind = type(value)
    if issubclass(kind, dict):
        return [*dict.keys(value), *dict.values(value)]
    if kind is slice:
        return [value.start, value.stop, value.step]
    base = next((base for base in CONTAINERS if issubclass(kind, base)), None)
    return [] if base is None else list(base.__iter__(value))


def stands_in(value: Any) -> bool:
    """Whether a value is one of the conversion's, or a container that holds one."""
    seen: set[int] = set()
    held = [value]
    while held:
        one = held.pop()
        if is_a(one, SymbolicValue) or (is_a(one, tf.Tensor) and not is_a(one, tf_private.EagerTensor)):
            return True
        if is_a(one, tf.Variable) and tf_private.is_of_graph(one):
            return True
        is_namespace = type(one) is dict and "__builtins__" in one  # of a module: nothing of ours is ever put there
        if id(one) not in seen and not is_namespace:
            seen.add(id(one))
            held += [*parts_of(one), *_bound_to(one)]
    return False


def _bound_to(value: Any) -> list[Any]:
    """What a method or partial function will be called with."""
    if type(value) is functools.partial:
        return [value.func, *value.args, *value.keywords.values()]
    return [value.__self__] if type(value) in (types.MethodType, types.BuiltinMethodType) else []


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Perhaps(SymbolicValue):
    """What an attribute of a row is that may be None.

    Attributes:
        is_none: whether it is, bool scalar.
        truth: what `bool()` of it is, bool scalar.
        value: gives the value, by operations of the current graph that fail where there is none.
    """

    is_none: tf.Tensor
    truth: tf.Tensor
    value: Callable[[], Any]


@dataclasses.dataclass(eq=False, repr=False)
class PartialShape(SymbolicValue):
    """A shape with a dynamic value for each dimension that differs from call to call."""

    dims: list[int | DynamicValue]

    @property
    def is_early(self) -> bool:
        """Whether all of it is known before the graph."""
        return not any(isinstance(dim, DynamicValue) and dim.late for dim in self.dims)


# What is done with a member; whether the consumer wants no more.
Taker: TypeAlias = Callable[[Any], bool]


class GeneratorStopped(Exception):
    """The consumer of a generator wants no more: `GeneratorExit`.

    Args:
        generator: that ends.
        error: what the consumer has raised, which the generator does not see.
    """

    def __init__(self, generator: Generator, error: ProgramException | None = None) -> None:
        self.generator, self.error = generator, error


class Generator(SymbolicValue):
    """A call of a generator function whose body has not begun.

    Args:
        start: runs the body in a frame of its own; gives what it returns.
        frame: that frame.
    """

    def __init__(self, start: Callable[[], Any], frame: Frame) -> None:
        self.start, self.frame, self.is_used = start, frame, False

    def drive(self, ev: Any, take: Taker, throws: bool = False) -> Any:
        """Runs the body and gives each member to the consumer, whose frame is the one we are in.

        Args:
            ev: the conversion.
            take: the consumer.
            throws: whether the generator gets what the consumer raises.
        """
        if self.is_used:
            raise ev.refuse(Feature.GENERATOR, "a generator is used a second time")
        self.is_used = True
        here, consumer, forks, graph = ev.here, ev.frame, ev.contexts.forks, tf.compat.v1.get_default_graph()

        def taken(member: Any) -> None:
            ev.frames.append(consumer)
            try:
                with ev.at(here):
                    stops = take(member)
            except ProgramException as raised:
                if throws:
                    raise
                raise GeneratorStopped(self, raised) from None
            finally:
                ev.frames.pop()
            if stops and ev.contexts.forks != forks:
                raise ev.refuse(Feature.GENERATOR, "a tensor decides whether a generator continues")
            if stops and tf.compat.v1.get_default_graph() is not graph:  # what was taken belongs to a round of the loop
                raise ev.refuse(Feature.GENERATOR, "a generator ends inside a loop of the graph")
            if stops:
                raise GeneratorStopped(self)

        self.frame.taker = taken
        try:
            return self.start()
        except GeneratorStopped as closed:
            if closed.generator is not self:
                raise
            if closed.error is not None:
                raise closed.error from None
            return None


@dataclasses.dataclass
class LateCall:
    """A call that the script makes after the graph.

    Attributes:
        name: of the result.
        function: its name.
        arguments: values of the conversion.
        named: those given by name.
        is_pure: whether it changes nothing, so that it may be made before everything that does.
        may_raise: whether it may.
    """

    name: str
    function: str
    arguments: list[Any]
    named: dict[str, Any]
    is_pure: bool = False
    may_raise: bool = False


COLLECTIONS = (list, tuple, dict, set, frozenset, collections.deque)
# Those that can be changed.
MUTABLE = (list, dict, set, collections.deque)


class FormattableVariable:
    """A variable with a value of its own."""

    def __init__(self, variable: Any, value: tf.Tensor) -> None:
        self._shown, self._value = variable, value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)

    def read_value(self) -> tf.Tensor:
        """The value."""
        return self._value

    def __repr__(self) -> str:
        to_text: Any = type(self._shown).__repr__
        return str(to_text(self))


class VariableSnapshot(SymbolicValue):
    """A variable whose text is asked for, while a call is converted: the script makes a `FormattableVariable` of it."""

    def __init__(self, variable: Any) -> None:
        self.variable = variable
        self.value = tf.convert_to_tensor(variable)


def get_item(container: Any, index: Any) -> Any:
    """`container[index]`, for the script."""
    return container[index]


def contains(container: Any, member: Any) -> bool:
    """`member in container`, for the script."""
    return member in container


def leaves(values: Any) -> Any:
    """All that containers hold."""
    for value in values:
        if isinstance(value, list | tuple | set | frozenset | collections.deque):
            yield from leaves(value)
        elif isinstance(value, dict):
            yield from leaves(value.values())
        elif isinstance(value, slice):
            yield from (value.start, value.stop, value.step)
        else:
            yield value


def example_of(value: Any) -> Any:
    """A value with the examples of the dynamic values in it."""
    if isinstance(value, DynamicValue):
        return value.example
    return fixed(value) if isinstance(value, np.ndarray) else mapped(example_of, value)


def call_method(owner: Any, name: str, /, *arguments: Any, **named: Any) -> Any:
    return getattr(owner, name)(*arguments, **named)
