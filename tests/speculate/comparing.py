"""Runs a program of the corpus eagerly and speculated, and compares everything that can be seen."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import dataclasses
import functools
import io
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from recgraph.speculate import Optimizations, Speculated
from recgraph.speculate.observe.syntax import part_of
from recgraph.tf_private.eager_operations import eager_operations
from tests.speculate.corpus import CALLS, Program

Before: TypeAlias = Callable[..., None]


@dataclasses.dataclass
class Counts:
    """What ran in one call, by means of the interpreter's and TensorFlow's own counters.

    Attributes:
        entered: how many functions of the program.
        operations: those that ran eagerly, by type; a graph is one, by its name.
    """

    entered: int
    operations: list[str]


def run(
    program: Program, speculated: bool, optimizations: Optimizations | None = None
) -> tuple[list[Any], Speculated | None, list[Counts]]:
    """What each call gave and left behind, and what ran in each."""

    def speculate(step: Callable[..., Any]) -> Speculated:
        return Speculated(step, optimizations=optimizations or Optimizations())

    return run_wrapped(program, speculate if speculated else None)


def run_wrapped(
    program: Program, wrap: Callable[..., Any] | None, before: Before = lambda call, number, state: None
) -> tuple[list[Any], Any, list[Counts]]:
    """The same for a step that is made into what is called by `wrap`, which is given too; None leaves it as it is.

    `before` is called before each operation with the number of the call, that of the operation and the state.
    """
    step, arguments, state = program.make()
    wrapped = None if wrap is None else wrap(step)
    called = step if wrapped is None else wrapped
    seen, counts = [], []
    for i in range(CALLS):
        values = arguments(i)
        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            counted_calls(_code_of(step)) as entered,
            eager_operations(functools.partial(before, i, state=state)) as operations,
        ):
            try:
                outcome: Any = called(*values)
            except Exception as error:
                outcome = (type(error).__name__, str(error))
        counts.append(Counts(entered[0], list(operations)))
        seen.append((plain(outcome), printed.getvalue(), plain(state)))
    return seen, wrapped, counts


# Operations that a converted call may run beside its graph, and why.
BESIDE: dict[str, str] = {
    "Unpack": "a list of which only the graph knew the length becomes one of tensors",
    "IteratorGetNext": "elements of a dataset are taken before the graph",
    "ReadVariableOp": "variables that are written before something that may fail are read first, to be put back",
}


def beside_one_graph(counts: Counts) -> list[str]:
    """What is wrong with a call that ran no function of the program: it should have run one graph, and no more."""
    if counts.entered:
        return []
    graphs = [name for name in counts.operations if name.startswith("__inference_speculated_")]
    others = [name for name in counts.operations if name not in graphs and name not in BESIDE]
    return others + ([] if len(graphs) == 1 else [f"{len(graphs)} graphs"])


def _code_of(step: Any) -> str:
    return str(step.__code__.co_filename)


@contextlib.contextmanager
def counted_calls(filename: str) -> Any:
    """Counts the Python functions of a file that are entered, but those that are parts of one."""
    count = [0]

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename == filename and part_of(frame.f_code) is None:
            count[0] += 1

    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(None)


def plain(value: Any) -> Any:
    """A value as data that can be compared, with the types of everything; of what leads to itself, the type."""
    return _plain(value, frozenset())


def _plain(value: Any, above: frozenset[int]) -> Any:
    if id(value) in above:
        return type(value).__name__
    plain = functools.partial(_plain, above=above | {id(value)})
    if isinstance(value, tf.Variable | tf.Tensor):
        return type(value).__name__, value.dtype.name, value.numpy()
    if isinstance(value, np.ndarray):
        return "array", value.copy()
    if isinstance(value, tf.IndexedSlices):
        return "slices", plain(value.values), plain(value.indices)
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(v) for key, v in value.items()}
    if isinstance(value, set | frozenset):
        return type(value).__name__, sorted(value, key=repr)
    if isinstance(value, collections.deque):
        return type(value).__name__, [plain(v) for v in value], value.maxlen
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(v) for v in value]
    if isinstance(value, types.FunctionType | type):
        return value.__name__
    if (parts := _referred_to(value)) is not None:
        return type(value).__name__, *map(plain, parts)
    if hasattr(value, "__slots__") and not hasattr(value, "__dict__"):
        return type(value).__name__, {key: plain(getattr(value, key, None)) for key in value.__slots__}
    if hasattr(value, "__dict__") and not isinstance(value, types.ModuleType):
        return type(value).__name__, {key: plain(v) for key, v in vars(value).items()}
    return type(value).__name__, value


def _referred_to(value: Any) -> list[Any] | None:
    """What a view of a dict, a partial function or a method refers to; None for other values."""
    if isinstance(value, collections.abc.MappingView):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.BuiltinMethodType | types.MethodType) and not isinstance(value.__self__, _NAMED):
        return [value.__name__, value.__self__]
    if isinstance(value, operator.methodcaller | operator.itemgetter):
        return list(value.__reduce__()[1])
    return None


_NAMED = (types.ModuleType, type)


def differences(one: Any, other: Any, path: str = "", exact: bool = False) -> list[str]:
    """Where two results differ; numbers of tensors may differ by rounding unless they have to be `exact`."""
    if isinstance(one, np.ndarray | np.generic) and isinstance(other, np.ndarray | np.generic):
        return [] if _fits(one, other, exact) else [f"{path}: {one} and {other}"]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{path}[{i}]", exact)]
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        return [d for key in one for d in differences(one[key], other[key], f"{path}.{key}", exact)]
    if isinstance(one, float) and isinstance(other, float):
        close = np.isclose(one, other, *_TOLERANCES[exact], equal_nan=True)
        return [] if close else [f"{path}: {one} and {other}"]
    return [] if type(one) is type(other) and one == other else [f"{path}: {one!r} and {other!r}"]


_TOLERANCES = {False: (1e-5, 1e-6), True: (0.0, 0.0)}


def _fits(one: Any, other: Any, exact: bool) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if exact:
        return bool(one.tobytes() == other.tobytes())
    return np.allclose(one, other, 1e-5, 1e-6, equal_nan=True) if one.dtype.kind == "f" else np.array_equal(one, other)


def far_apart(one: Any, other: Any, tolerance: float) -> list[str]:
    """Where two lists of steps differ by more than rounding in so many steps does."""
    found = []
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        for path, left, right in paired(a, b, f"step {i}"):
            if not np.allclose(left, right, tolerance, tolerance):
                found.append(f"{path}: {left} and {right}")
    return found


def paired(one: Any, other: Any, path: str) -> Any:
    """The numbers of two results; everything else must be the same."""
    if isinstance(one, np.ndarray | np.generic | float):
        assert np.shape(one) == np.shape(other), path
        yield path, one, other
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), path
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from paired(a, b, f"{path}[{i}]")
    elif isinstance(one, dict):
        assert list(one) == list(other), path
        for key in one:
            yield from paired(one[key], other[key], f"{path}.{key}")
    else:
        assert one == other, path


def compared(
    wrap: Callable[..., Any],
    make: Callable[[], tuple[Callable[..., Any], Any]],
    arguments: Callable[[int], tuple[Any, ...]],
    steps: int,
) -> Any:
    """Runs a step eagerly and wrapped, compares results and state after every call, and gives the wrapped one.

    `make` gives the step and the objects with state, `arguments` those of each call.
    """
    histories: list[list[Any]] = []
    for wrapper in (lambda step: step, wrap):
        step, state = make()
        called = wrapper(step)
        history = []
        for i in range(steps):
            try:
                result = called(*arguments(i))
            except Exception as error:
                result = (type(error).__name__, str(error))
            history.append((plain(result), plain(state)))
        histories.append(history)
    assert differences(*histories) == [], called.explain()
    return called
