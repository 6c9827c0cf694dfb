"""`rg.function`: TensorFlow in Python at the speed of a graph, with the meaning of eager execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar, overload

from recgraph import explaining
from recgraph.auto import Automatic
from recgraph.coexec import Coexecuted, Execution
from recgraph.errors import SignatureError
from recgraph.speculate import Optimizations, Speculated

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
Rest = ParamSpec("Rest")


class Function(Protocol[P, R_co]):
    """What a type checker knows of a decorated function: its own parameters and result, and what was added to it."""

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R_co:
        """Calls the function."""

    def explain(self, html: bool = False) -> Any:
        """What was assumed, which way it runs and why."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(self: Function[Concatenate[S, Rest], R], instance: S, owner: Any = None) -> Callable[Rest, R]: ...

    def __getattr__(self, name: str) -> Any:
        """What a mode adds: `way`, `timing` and so on."""


_MODES: Final = ("auto", "speculate", "coexec")


def _named(called: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does what an object does which is called, and has a name: a `functools.partial`, a model."""

    def calls(*arguments: Any, **named: Any) -> Any:
        return called(*arguments, **named)

    calls.__name__ = calls.__qualname__ = getattr(
        getattr(called, "func", None), "__qualname__", type(called).__qualname__
    )
    return calls


@overload
def function(
    fn: Callable[P, R],
    *,
    mode: str = "auto",
    strict: bool = False,
    optimizations: Optimizations | None = None,
    xla: bool = False,
) -> Function[P, R]: ...


@overload
def function(
    fn: None = None,
    *,
    mode: str = "auto",
    strict: bool = False,
    optimizations: Optimizations | None = None,
    xla: bool = False,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def function(
    fn: Callable[..., Any] | None = None,
    *,
    mode: str = "auto",
    strict: bool = False,
    optimizations: Optimizations | None = None,
    xla: bool = False,
) -> Any:
    """Makes a function run as a graph where that gives the same results, side effects and exceptions.

    The first calls run eagerly and are watched. Then the function is converted under assumptions about what did not
    vary; a call in which one of them breaks runs eagerly, with nothing done before, and another graph is made
    (Jeong et al., "Speculative Symbolic Graph Execution of Imperative Deep Learning Programs", NSDI 2019). What does
    not convert whole runs as Python, with the functions that it calls as graphs, or with its tensor operations in a
    graph beside it (Kim et al., "Terra", NeurIPS 2021), or eagerly, as measures best.

    Args:
        fn: a Python function: a loss, a whole training step, a method, an object that can be called. Left out where
            it is used as `@function(...)`.
        mode: "speculate" converts the function whole or runs it eagerly; "coexec" runs the Python of every call and
            leaves only its tensor operations to a graph, which takes any program; "auto" does what takes the least
            time, measured while calls take turns.
        strict: whether a function that is not converted (or, with "coexec", not co-executed) is an error, which says
            why.
        optimizations: a `recgraph.speculate.Optimizations`, which switches parts of speculation off; none by default.
        xla: with "coexec", whether XLA compiles parts of the graphs, once for each shape; results are rounded in
            other ways than eager execution rounds.

    Returns:
        A function that is called like `fn` and has `explain()`: what was assumed, which way it runs and why.

    Raises:
        SignatureError: there is no such mode, or it has no `xla`, or `fn` cannot be called.

    Example:
        >>> import tensorflow as tf, recgraph as rg
        >>> @rg.function
        ... def double(x):
        ...     return x * 2.0
        >>> [float(double(tf.constant(v))) for v in (1.0, 2.0, 3.0, 4.0, 5.0)]
        [2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if mode not in _MODES:
        raise SignatureError(f"mode must be one of {', '.join(map(repr, _MODES))}, got {mode!r}")
    if xla and mode != "coexec":
        raise SignatureError(f"xla=True needs mode='coexec', got mode={mode!r}")
    if fn is None:
        return lambda late: function(late, mode=mode, strict=strict, optimizations=optimizations, xla=xla)
    if not callable(fn):
        raise SignatureError(f"fn must be callable, got {fn!r}")
    if not hasattr(fn, "__qualname__"):
        fn = _named(fn)
    if mode == "coexec":
        made: Any = Coexecuted(fn, strict, Execution(xla))
    else:
        kind = Speculated if mode == "speculate" else Automatic
        made = kind(fn, strict=strict, optimizations=optimizations or Optimizations())
    explaining.note(made)
    return made
