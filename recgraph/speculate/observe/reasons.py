"""Why something is not converted: what `explain()` shows."""

from __future__ import annotations

import enum
from typing import Any

from recgraph.errors import NotAGraph


class Feature(enum.StrEnum):
    """What is not converted: a word for it, and what the user can do about it.

    Attributes:
        remedy: what to change, so that the program is converted.
    """

    remedy: str

    def __new__(cls, word: str, remedy: str) -> Feature:
        """A member: its value is the word."""
        member = str.__new__(cls, word)
        member._value_, member.remedy = word, remedy
        return member

    ARRAY = "array", "change only arrays that the function has made, or use tensors"
    ATTRIBUTE = "attribute", "set attributes of the program's own objects only"
    CACHE = "cache", "cache functions of numbers and strings that only compute"
    CALLEE = "callee", "call the function that is wrapped"
    CLASS = "class", "define the class outside of the function"
    CLASS_ATTRIBUTE = "class attribute", "set methods and properties of classes outside of the function"
    CONTAINER = "container", "go through it by its members, one by one"
    COPY = "copy", "copy lists, dicts and plain objects; give other classes a method that makes a new object"
    COROUTINE = "coroutine", "call it outside of the function"
    CUSTOM_ACCESS = (
        "custom access",
        "leave __getattribute__ and __setattr__ to Python in objects that the function reads",
    )
    DATASET = "dataset", "none needed: the rounds of the loop are converted, each as a call of its own"
    DESCRIPTOR = "descriptor", "use a property, a method or a plain attribute"
    DEVICE = "device", "place operations with tf.device, and do not ask tensors for their device"
    DISTRIBUTION = (
        "distribution",
        "let a Keras optimizer update the weights in `with cluster.scope():`, once in each call, outside of loops and "
        "branches that tensors decide; or use @tf.function for a step with collectives of its own",
    )
    EFFECT_IN_BRANCH = "effect in branch", "print and write after the branch, or by a value that the branch gives"
    EFFECT_IN_CALLBACK = "effect in callback", "write to Python objects outside of functions that TensorFlow calls"
    EFFECTS = "effects", "leave effects out of the SubGraph, or call it outside of the function"
    ESCAPE = "escape", "return tensors, numbers, lists and dicts of them"
    EXCEPTION = "exception", "raise and catch exceptions of classes that leave __new__, __str__ and __repr__ to Python"
    EXCEPTION_GROUP = "exception group", "catch the exceptions one by one, with `except`"
    FOREIGN_FUNCTION = (
        "foreign function",
        "call it outside of the function, or use one of TensorFlow's, NumPy's or Python's in its place",
    )
    FRAMEWORK = "framework", "do it before the function is called"
    GENERATOR = "generator", "make it a list, or a generator expression that is used up where it is"
    IDENTITY = "identity", "compare by == in place of `is`"
    IN = "in", "compare tensors with tf.equal and tf.reduce_any"
    IN_GRAPH = "in graph", "use what tf.function can trace, too"
    IN_PLACE_VARIABLE = "in-place variable", "use assign, assign_add or assign_sub"
    INDEX = "index", "index with a Python number, or stack the list and index the tensor"
    ITERATOR = (
        "iterator",
        "loop over lists, dicts, ranges or tensors, and consume an iterator in the block that makes it",
    )
    KEY = "key", "use strings, numbers and tuples of them as keys"
    KEY_FUNCTION = "key function", "let the key function return numbers, strings or tuples of them"
    LATE_DECISION = "late decision", "decide by the tensor itself, not by what .numpy() gives"
    LATE_VALUE = "late value", "use the tensor itself, not what .numpy() gives"
    LIBRARY_OBJECT = "library object", "use the object outside of the function, and pass what it gives"
    LIST = "list", "let the loop only append to the list, and read it after the loop"
    LOGGING = "logging", "log outside of the function, or with loggers and handlers that stay as they are"
    LOOP = "loop", "give what the loop changes one type and shape in every iteration"
    MATCH = "match", "match numbers, strings, sequences, mappings, and classes by their attributes"
    MERGE = "merge", "give a name or attribute values of one kind on all ways"
    METHOD = "method", "call the method outside of the function"
    MIN_MAX = "min/max", "use tf.minimum, tf.maximum, tf.reduce_min or tf.reduce_max"
    NAMESPACE = "namespace", "name the attributes and names that are read or written"
    NEW_OBJECT = (
        "new object",
        "make the object before the function is called, or leave __new__ and __del__ to Python in its class",
    )
    NEW_VARIABLE = (
        "new variable",
        "make it once, before the function is called or in its first call; one that each call makes, or an "
        "object of a class of Keras's that has some, is converted where the call drops it",
    )
    NO_SOURCE = (
        "no source",
        "define the function in a file or a cell, load it again where the file has changed; "
        "a program that executes a text can give it to its names as __source__",
    )
    NUMBER = "number", "convert the tensor to a signed integer or a float type first"
    OBJECT = "object", "pass what the function needs of the object in place of the object"
    OPERATION = "operation", "do this with a tensor, a container or an object of the program's in its place"
    OPERATIONS = (
        "operations",
        "decorate what one round of its longest loop calls: the function is too long for one graph",
    )
    OPERATOR = "operator", "define the operator's method in the class, or convert the operands to one type first"
    ORDER = "order", "print in the function itself, not in one that TensorFlow calls"
    PATH = "path", "let both ways leave the same things behind, so that both fit into one graph"
    PRINT = "print", "print to sys.stdout or sys.stderr, with tensors as they are"
    RAGGED = "ragged", "pass ragged tensors without a uniform row length"
    RAISES = "raises", "if this is no error of the program, test for it before it raises"
    RANDOM = (
        "random",
        "draw with tf.random, or where no tensor decides about it and from what is known before the function is called",
    )
    RECURSION = "recursion", "let the function return tensors and write nothing"
    SCRIPT = "script", "report this: it is a defect of recgraph"
    SHAPE = "shape", "use tf.shape, or give the tensor a static shape"
    SIZE = "size", "none needed: a call in which the result would be large runs eagerly"
    SLOTS = "slots", "leave __slots__ out, or set the attribute before the branch"
    SUMMARY = "summary", "return what is to be recorded, and record it outside of the function"
    SUPER = "super", "call super() in a method, or super(Class, self) elsewhere"
    SYNTAX = "syntax", "move it out of the function"
    TAPE = "tape", "open the tape inside of the function, in the block that uses it"
    TARGET = "target", "assign to names, attributes, subscripts and tuples of them"
    TEXT = "text", "make the text outside of the function, or of numbers, strings and tensors only"
    TRIPS = "trips", "let a static shape or a Python number give the number of iterations, up to 2000"
    VALUE = "value", "pass numbers, strings, tensors or arrays"
    WITH = "with", "use a context manager of the program's, of contextlib or of TensorFlow's"
    WRAPPED_FUNCTION = "wrapped function", "call it outside of the function, or let the wrapped function only compute"


# What the next call may not do again.
PASSING = frozenset({Feature.RAISES, Feature.NEW_VARIABLE, Feature.SIZE})


class RestartConversion(Exception):
    """The conversion has found out that it has to assume more, earlier in the program: it begins again.

    Args:
        places: where a tensor decides and a way is to be assumed, as in `Evaluator.paths`.
    """

    def __init__(self, places: set[Any]) -> None:
        super().__init__(f"{len(places)} places")
        self.places = places


class Inconvertible(NotAGraph):
    """The function, or a part of it, runs eagerly.

    Args:
        feature: what is not converted.
        why: one sentence.
        where: the user's line, `file:line`.

    Attributes:
        sites: of the statements of the function that stay in Python where the function is taken apart; empty where
            that is not known.
        built: how many operations had been built where there are too many.
    """

    id = "not-converted"

    def __init__(self, feature: Feature, why: str, where: str = "") -> None:
        super().__init__(why, where=where)
        self.feature, self.why = feature, why
        self.where: str = where
        self.sites: frozenset[int] = frozenset()
        self.built = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Inconvertible, (self.feature, self.why, self.where), {"next_step": self.next_step}

    @property
    def told(self) -> str:
        """The reason with the user's line in front of it."""
        return f"{self.where}: {self.why}" if self.where else self.why


class ProgramException(Exception):
    """The program raises an exception, as long as the assumptions hold. Its own handlers may catch it.

    Args:
        error: the exception, or a dynamic value for one.
        where: the user's line.

    Attributes:
        in_rest: whether it was raised in what follows a branch, after the block that the branch is in.
        sites: as of `Inconvertible`.
    """

    def __init__(self, error: Any, where: str = "") -> None:
        super().__init__(error)
        self.error, self.where, self.in_rest = error, where, False
        self.sites: frozenset[int] = frozenset()

    def as_refusal(self) -> Inconvertible:
        """Why the call runs eagerly, where no handler of the program's has caught it."""
        reason = Inconvertible(Feature.RAISES, f"{type(self.error).__name__} is raised", self.where)
        reason.sites = self.sites
        return reason


def matches(error: Any, kinds: Any) -> bool:
    """Whether an exception, or a dynamic value for one, is of a class or of one of several."""
    return isinstance(error if isinstance(error, BaseException) else error.example, kinds)
