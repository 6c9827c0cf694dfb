"""What the program can do with a value, whatever the value is while a call is converted: the protocol of all kinds.

A value is what the program would have (a list, a module, a function), a tensor of the graph, or a symbolic value
(`script/symbolic.py`). It stays as it is, in the program's own containers too, so that `is` and sharing mean what
they mean in Python. Whoever does something with it asks the evaluator, which looks at it as one of its kind: the
first of the kinds that takes it. What a kind does not define cannot be converted: nothing runs Python on a symbolic
value by oversight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from recgraph.speculate.observe.reasons import Feature, Inconvertible


class Kind:
    """A value as one of its kind. Each method is an operation of Python's on it.

    Attributes:
        precedence: of several operands the one with the highest decides what an operator does.
        name: of the kind, in messages.
        of: the classes whose objects are of this kind, if they are of none before.
    """

    precedence: ClassVar[int] = 0
    name: ClassVar[str] = "a value"
    of: ClassVar[Any] = ()

    def __init__(self, ev: Any, it: Any) -> None:
        self.ev, self.it = ev, it

    @classmethod
    def takes(cls, value: Any) -> bool:
        """Whether a value is of this kind, if it is of none before."""
        return isinstance(value, cls.of)

    def _cannot(self, what: str) -> Inconvertible:
        refused: Inconvertible = self.ev.refuse(Feature.OPERATION, f"{what} of {self.name}")
        return refused

    def truth(self) -> Any:
        """Returns `bool(value)`: a bool, a `DynamicValue` known before the graph, or a bool scalar of the graph."""
        raise self._cannot("the truth")

    def type(self) -> type:
        """What `type(value)` is."""
        raise self._cannot("the type")

    def call(self, arguments: list[Any], named: dict[str, Any]) -> Any:
        """`value(*arguments, **named)`."""
        raise self._cannot("a call")

    def get(self, name: str) -> Any:
        """`value.name`."""
        raise self._cannot(f"the attribute {name}")

    def has(self, name: str) -> bool:
        """`hasattr(value, name)`."""
        raise self._cannot(f"whether it has an attribute {name}")

    def put(self, name: str, value: Any) -> None:
        """`value.name = value`; `MISSING` deletes it."""
        raise self._cannot(f"setting the attribute {name}")

    def item(self, index: Any) -> Any:
        """`value[index]`."""
        raise self._cannot("an item")

    def set_item(self, index: Any, value: Any) -> None:
        """`value[index] = value`."""
        raise self._cannot("setting an item")

    def delete_item(self, index: Any) -> None:
        """`del value[index]`."""
        raise self._cannot("deleting an item")

    def contains(self, member: Any) -> Any:
        """`member in value`."""
        raise self._cannot("`in`")

    def length(self) -> Any:
        """`len(value)`."""
        raise self._cannot("the length")

    def begin(self) -> Any:
        """`iter(value)`, as far as the program may notice that it is called."""
        return self.it

    def members(self) -> list[Any]:
        """All members that a loop, a star or an unpacking goes through."""
        raise self._cannot("the members")

    def pieces(self) -> list[Any]:
        """All members, with runs for those of which only the graph knows how many there are."""
        return self.members()

    def iterator(self) -> Iterator[Any]:
        """The members, each as late as the program gets it."""
        return iter(self.members())

    def rows(self, varies: bool) -> Any:
        """What a loop in the graph goes through, as `IterationSpace`; None where the loop is unrolled.

        Args:
            varies: whether calls were seen with different numbers of rounds.
        """
        return None

    def operand(self) -> Any:
        """The value that operators see."""
        return self.it

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """A Python operator on operands of which this one decides."""
        raise self._cannot(f"{getattr(function, '__name__', 'an operator')}()")

    def tensor(self, dtype: Any = None) -> Any:
        """The value as a tensor of the graph: of numbers int64 or float64, unless another dtype is wanted."""
        raise self._cannot("a tensor")

    def code(self) -> str:
        """How the script writes the value, which is known before the graph."""
        code: str = self.ev.script.constant(self.it)
        return code

    def opened(self) -> Any:
        """Of a container: one whose members are values of the call. Of anything else: itself."""
        return self.it

    def lift(self) -> Any:
        """The value as a function that is not converted may look at it, containers with all that they hold."""
        return self.it
