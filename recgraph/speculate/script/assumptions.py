"""Assumptions: what was so in all calls seen and is taken to be so again. Each kind is a class.

A kind knows how it is checked and what it allows, what breaking it means for the call and for the graph, how the
profile becomes more general, and what to tell the user. Where one is made says which condition is checked.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Final

import tensorflow as tf

from recgraph.speculate.observe.profile import Profile

# The end of a site that stands for all members that are taken at a line: only conversions see their values.
NOTED: Final = "all"
# What the graph says where an assumption holds, and where the one with number 0 is broken.
HOLDS: Final = -1
LARGEST: Final = tf.int32.max
# What the error says with which the graph fails where one is broken, before its number.
MARK: Final = "recgraph: broken assumption"


def assertion(condition: tf.Tensor, number: int | tf.Tensor) -> tf.Tensor:
    """What the graph says of an assumption, an int32 scalar: of those that are broken the first has the largest."""
    return tf.where(condition, HOLDS, LARGEST - number)


def fail_unless(condition: tf.Tensor, number: int) -> None:
    """Adds an operation that fails the graph, at once, where the assumption with this number is broken.

    It is for bodies of functions that call themselves, out of which no tensor says what holds in them.
    """
    tf.raw_ops.Assert(condition=condition, data=[MARK, number], summarize=1)


@dataclasses.dataclass(frozen=True)
class Assumption:
    """Something that was so in all calls seen and is taken to be so again.

    Attributes:
        what: what it is about, in the user's terms.
        where: the user's line.
        site: the place in the profile to relax when it breaks, and its occurrence there.
        name: of the kind, in explanations.
        check: how it is checked: by the script before the graph, or by an operation of the graph.
        allows: what the conversion does because of it.
        remedy: what the user can do where it breaks.
        fails_the_call: whether no other graph would do better once it broke: that call runs eagerly.
        is_relaxed: whether the next graph does without it, so that one that broke it is of no more use.
    """

    what: str
    where: str = ""
    site: tuple[Any, int] | None = None

    name: ClassVar[str]
    check: ClassVar[str]
    allows: ClassVar[str]
    remedy: ClassVar[str]
    fails_the_call: ClassVar[bool] = False
    is_relaxed: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{self.title} ({self.where})" if self.where else self.title

    @property
    def title(self) -> str:
        """Its kind, and what it is about."""
        return f"{self.name}: {self.what}"

    @property
    def is_of_noted(self) -> bool:
        """Whether it is about what only conversions see."""
        return self.site is not None and isinstance(self.site[0], tuple) and self.site[0][-1] == NOTED

    def relax(self, profile: Profile, keeps_shapes: bool) -> bool:
        """Makes the profile more general where it broke; whether it did.

        Args:
            profile: of the function.
            keeps_shapes: whether the graph that broke it has one of a few shapes that were seen.
        """
        if self.site is None:
            return False
        profile.relax(*self.site)
        return True


class SameType(Assumption):
    """A value has the type that it had."""

    name, check = "type", "type(x) is T, before the graph"
    allows = "chooses rules and methods"
    remedy = "give it values of one type; convert them before the call"


class SameObject(Assumption):
    """A value is this very object."""

    name, check = "identity", "x is y, before the graph"
    allows = "converts functions as a part of their caller, captures variables"
    remedy = "pass the same object in every call, or change the one that is there instead of replacing it"


class OneObject(Assumption):
    """Two names are one object."""

    name, check = "alias", "x is y, before the graph"
    allows = "what is written by one name is read by the other"
    remedy = "do not pass one object twice in some calls only"


class TwoObjects(Assumption):
    """Two names are different objects."""

    name, check = "distinct", "x is not y, before the graph"
    allows = "what is written by one name is not seen by the other"
    remedy = OneObject.remedy


class SameValue(Assumption):
    """A number or string is what it was; where it is not, the next graph takes it as an input."""

    name, check = "value", "equal plain data, before the graph"
    allows = "is a constant of the graph"
    remedy = "none needed: the next graph takes it as an input"
    is_relaxed = True


class SameConstant(Assumption):
    """Data that cannot be an input is what it was: each value has a graph."""

    name, check = "constant", "equal plain data, before the graph"
    allows = "is a constant of the graph"
    remedy = "keep it the same, or make it a tensor"


class Presence(Assumption):
    """An attribute, item or name is there, or is not."""

    name, check = "presence", "the read succeeds, before the graph"
    allows = "reads it"
    remedy = "let it be there in every call; set it in __init__"


class SameLength(Assumption):
    """A container has the length that it had."""

    name, check = "length", "len(x) == n, before the graph"
    allows = "unrolls loops over it"
    remedy = "keep the list at one length while it is read whole, or use tensors"


class SameKeys(Assumption):
    """A dict or set has the keys that it had, in their order."""

    name, check = "keys", "the keys in order, before the graph"
    allows = "unrolls loops over it"
    remedy = "keep the keys in one order"


class FittingShape(Assumption):
    """A tensor has the dtype and shape of the graph. From the third shape on, dimensions that differ are left open."""

    name, check = "tensor", "dtype and shape, before the graph"
    allows = "gives the graph static shapes"
    remedy = "none needed: the next graph leaves these dimensions open; pad batches to one shape for one graph"
    is_relaxed = True

    def relax(self, profile: Profile, keeps_shapes: bool) -> bool:
        """A few shapes have a graph each."""
        has_few = self.site is not None and keeps_shapes and profile.seen(*self.site).has_few_shapes
        return False if has_few else super().relax(profile, keeps_shapes)


class SameShape(Assumption):
    """A tensor has this very shape: the program cannot be converted where a dimension is open, so each has a graph."""

    name, check = "shape", FittingShape.check
    allows = FittingShape.allows
    remedy = "none needed: a shape that comes back gets a graph; pad to a few shapes for fewer graphs"


class SameDecision(Assumption):
    """A condition of Python's is what it was."""

    name, check = "decision", "a Python condition, before the graph"
    allows = "follows one branch"
    remedy = "decide by a tensor, or expect a graph for each value"


class SameBranch(Assumption):
    """A tensor decides as it always has; where it does not, the next graph has both ways."""

    name, check = "branch", "an assertion in the graph"
    allows = "follows one branch, unrolls a loop"
    remedy = "none needed: the next graph has both ways"
    is_relaxed = True


class SamePath(Assumption):
    """A tensor decides as it did last time: two ways do not fit into one graph, so each has its own."""

    name, check = "path", "an assertion in the graph"
    allows = "follows one branch, where two do not fit together"
    remedy = "let both ways leave the same things behind, so that both fit into one graph"


class ModerateCost(Assumption):
    """What is computed before the graph ends, and is of moderate size."""

    name, check = "cost", "a Python condition, before the graph"
    allows = "computes before the graph what the graph decides about, goes through objects"
    remedy = "none needed: a call in which it would be large or endless runs eagerly"
    fails_the_call = True


class FittingInteger(Assumption):
    """A Python integer fits into the 64 bits that it has in the graph."""

    name, check = "range", "an assertion in the graph"
    allows = "computes with Python's integers in the graph"
    remedy = "keep integers below 2 ** 62, or make them floats"
    fails_the_call = True


class NoException(Assumption):
    """Nothing is raised here."""

    name, check = "raises", "an assertion in the graph, or a call of the script"
    allows = "leaves out what handles an exception"
    remedy = "an exception that is raised and caught in every call runs eagerly: test for it first"
    fails_the_call = True


class AllCommit(Assumption):
    """The same call runs as a graph on all workers that share it."""

    name, check = "workers", "an assertion in the graph, once the gradients are added up"
    allows = "updates weights"
    remedy = "none needed: all workers run a call eagerly that one of them has to run eagerly"
    fails_the_call = True


KINDS: Final[tuple[type[Assumption], ...]] = tuple(Assumption.__subclasses__())
