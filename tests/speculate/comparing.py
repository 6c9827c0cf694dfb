"""Runs a program of the corpus eagerly and speculated, and compares everything that can be seen."""

from __future__ import annotations

import contextlib
import io
import sys
import types
from typing import Any

import numpy as np
import tensorflow as tf

from recgraph.speculate import Speculated
from tests.speculate.corpus import CALLS, Program


def run(program: Program, speculated: bool) -> tuple[list[Any], Speculated | None, list[int]]:
    """What each call gave and left behind, and how many lines of the program ran in each."""
    step, arguments, state = program.make()
    called = Speculated(step) if speculated else step
    seen, lines = [], []
    for i in range(CALLS):
        values = arguments(i)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), counted_calls(_code_of(step)) as count:
            try:
                outcome: Any = called(*values)
            except Exception as error:
                outcome = (type(error).__name__, str(error))
        seen.append((plain(outcome), printed.getvalue(), plain(state)))
        lines.append(count[0])
    return seen, called if isinstance(called, Speculated) else None, lines


def _code_of(step: Any) -> str:
    return str(step.__code__.co_filename)


@contextlib.contextmanager
def counted_calls(filename: str) -> Any:
    """Counts the Python functions of a file that are entered."""
    count = [0]

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename == filename:
            count[0] += 1

    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(None)


def plain(value: Any) -> Any:
    """A value as data that can be compared, with the types of everything."""
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
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(v) for v in value]
    if isinstance(value, types.FunctionType | type):
        return value.__name__
    if hasattr(value, "__slots__") and not hasattr(value, "__dict__"):
        return type(value).__name__, {key: plain(getattr(value, key, None)) for key in value.__slots__}
    if hasattr(value, "__dict__") and not isinstance(value, types.ModuleType):
        return type(value).__name__, {key: plain(v) for key, v in vars(value).items()}
    return type(value).__name__, value


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two results differ; numbers of tensors may differ by rounding."""
    if isinstance(one, np.ndarray | np.generic) and isinstance(other, np.ndarray | np.generic):
        fits = one.shape == other.shape and one.dtype == other.dtype
        close = fits and (
            np.allclose(one, other, 1e-5, 1e-6, equal_nan=True) if one.dtype.kind == "f" else np.array_equal(one, other)
        )
        return [] if close else [f"{path}: {one} and {other}"]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [d for i, (a, b) in enumerate(zip(one, other, strict=True)) for d in differences(a, b, f"{path}[{i}]")]
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        return [d for key in one for d in differences(one[key], other[key], f"{path}.{key}")]
    if isinstance(one, float) and isinstance(other, float):
        return [] if np.isclose(one, other, 1e-5, 1e-6, equal_nan=True) else [f"{path}: {one} and {other}"]
    return [] if type(one) is type(other) and one == other else [f"{path}: {one!r} and {other!r}"]
