"""`rg.function`: TensorFlow in Python at the speed of a graph, with the meaning of eager execution."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar, overload

import tensorflow as tf

from recgraph import explaining
from recgraph.auto import Automatic
from recgraph.coexec import Coexecuted, Execution
from recgraph.cpython import sources
from recgraph.errors import SignatureError, did_you_mean
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
        """Explains what was assumed about the function, how it runs, and why.

        Args:
            html: whether to return a part of an HTML page instead of text.

        Returns:
            A `str`. The text also has a method `html()`, and renders itself in a notebook.
        """

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...

    @overload
    def __get__(self: Function[Concatenate[S, Rest], R], instance: S, owner: Any = None) -> Callable[Rest, R]: ...

    def __getattr__(self, name: str) -> Any:
        """What a mode adds, such as `way` and `timing`."""


_MODES: Final = ("auto", "speculate", "coexec")


def _refused(fn: Any) -> str:
    """Why something is no function that can be converted; "" for those that are."""
    if not callable(fn):
        return f"fn must be callable, got {fn!r}"
    if isinstance(fn, type):
        return f"fn is a class, {fn.__qualname__}: decorate its methods"
    if isinstance(fn, tf.types.experimental.PolymorphicFunction):
        return "fn is a tf.function, which runs Python code once: leave out @tf.function, or give its python_function"
    if isinstance(fn, Automatic | Speculated | Coexecuted):
        return f"fn is what rg.function has made already: {fn!r}"
    return ""


def _named(called: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a name that calls an object without one, such as a `functools.partial` or a model."""

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
    optimize: bool | None = None,
    xla: bool = False,
) -> Function[P, R]: ...


@overload
def function(
    fn: None = None,
    *,
    mode: str = "auto",
    strict: bool = False,
    optimizations: Optimizations | None = None,
    optimize: bool | None = None,
    xla: bool = False,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def function(
    fn: Callable[..., Any] | None = None,
    *,
    mode: str = "auto",
    strict: bool = False,
    optimizations: Optimizations | None = None,
    optimize: bool | None = None,
    xla: bool = False,
) -> Any:
    """Runs a function as a graph where this keeps results, side effects and exceptions those of eager execution.

    The first calls run eagerly and are observed. Then the function is converted to a graph under assumptions about what
    did not vary. Every call checks them first; a call that breaks one runs eagerly, and another graph is made (Jeong et
    al., "Speculative Symbolic Graph Execution of Imperative Deep Learning Programs", NSDI 2019). If a function cannot
    be converted as a whole, recgraph tries converting its callees and co-execution, where Python runs unchanged beside
    a graph of its tensor operations (Kim et al., "Terra", NeurIPS 2021), and keeps whichever is faster.

    Args:
        fn: a Python function, method or callable object, for instance a loss or a training step. Omit it to use
            `@function(...)` with options.
        mode: "speculate" converts the whole function or runs it eagerly. "coexec" runs the Python code of every call
            and only its tensor operations in a graph; this works for any program. "auto" measures and chooses.
        strict: whether to raise an error, with the reason, if the function cannot be converted ("auto", "speculate") or
            co-executed ("coexec").
        optimizations: a `recgraph.speculate.Optimizations` that disables parts of the conversion; all are enabled by
            default.
        optimize: whether graphs are rewritten by proven substitutions where that is measured to be faster; None leaves
            it to the environment variable `RECGRAPH_OPTIMIZE` (1: yes; 0: no, whoever asks). Sums may then be taken in
            another order, see docs/substitution.md.
        xla: with mode="coexec", whether XLA compiles parts of the graphs, once per shape; it rounds differently.

    Returns:
        A callable with the signature of `fn` and a method `explain()`: what was assumed, how calls run, and why.

    Raises:
        SignatureError: the mode is unknown, `xla` is used with another mode than "coexec", `optimize` is used with
            "coexec", or `fn` is not callable, a class, or a function that is converted already.

    Examples:
        >>> import tensorflow as tf, recgraph as rg
        >>> @rg.function
        ... def double(x):
        ...     return x * 2.0
        >>> [float(double(tf.constant(v))) for v in (1.0, 2.0, 3.0, 4.0, 5.0)]
        [2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if mode not in _MODES:
        raise SignatureError(
            f"mode must be one of {', '.join(map(repr, _MODES))}, got {mode!r}", next_step=did_you_mean(mode, _MODES)
        )
    if xla and mode != "coexec":
        raise SignatureError(f"xla=True needs mode='coexec', got mode={mode!r}")
    if optimize and mode == "coexec":
        raise SignatureError("optimize=True needs mode='auto' or mode='speculate', got mode='coexec'")
    if fn is None:
        named: dict[str, Any] = {"mode": mode, "strict": strict, "optimizations": optimizations, "xla": xla}
        return lambda late: function(late, optimize=optimize, **named)
    if reason := _refused(fn):
        raise SignatureError(reason)
    if not hasattr(fn, "__qualname__"):
        fn = _named(fn)
    sources.keep(fn)
    if mode == "coexec":
        made: Any = Coexecuted(fn, strict, Execution(xla))
    else:
        kind = Speculated if mode == "speculate" else Automatic
        chosen = optimizations or Optimizations()
        chosen = chosen if optimize is None else dataclasses.replace(chosen, substitutions=optimize)
        made = kind(fn, strict=strict, optimizations=chosen)
    explaining.note(made)
    return made
