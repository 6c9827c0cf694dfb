"""One adapted program in one way, in a process of its own, which takes a block of steps whenever its parent says so."""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import os
import runpy
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from recgraph.benchmarks.public.adapting import EXTRACTED

# Steps that are taken in turn with the other ways.
BLOCK = 5
# The step after which variables are compared; fewer than are taken at least.
LOOKED_AT = 24
# How much a variable is changed, relatively, where it is asked how far rounding drives a program apart.
NUDGE = 1e-6
NUDGED = "nudged"
# Objects of the program that are looked through for variables, and how deep.
DEPTH = 3


class Enough(BaseException):
    """So many steps were asked for."""


class Steps:
    """Times steps, keeps what they give, and waits for the parent between blocks of them.

    Args:
        ask: waits for the parent's leave to go on.
        most, seconds: steps, and seconds of steps, after which it is enough; but not before `least`.
        state: gives what says how the step ran, right after it.
    """

    def __init__(self, ask: Callable[[], None], most: int, seconds: float, least: int, state: Callable[[], Any]):
        self._ask, self._most, self._seconds, self._least, self._state = ask, most, seconds, least, state
        self.times: list[float] = []
        self.results: list[list[float]] = []
        self.states: list[Any] = []
        self.variables: dict[str, list[float]] = {}
        self.is_nudged = False
        self._started, self._depth = 0.0, 0
        self._names: dict[str, Any] = {}

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls are steps; one inside of another is a part of it."""

        @functools.wraps(function)
        def step(*arguments: Any, **named: Any) -> Any:
            if self._depth:
                return function(*arguments, **named)
            self._begin(function, arguments)
            self._depth += 1
            try:
                result = function(*arguments, **named)
                digest = [] if getattr(function, "__name__", "") == EXTRACTED else numbers_of(result)  # as of a round
            finally:
                self._depth -= 1
            self._end(digest)
            return result

        return step

    def tick(self) -> None:
        """A round of a loop begins, and that before it has ended."""
        if self._started:
            self._end([])
        frame = sys._getframe(1)
        self._names = {**frame.f_globals, **frame.f_locals}
        self._begin(None, ())

    def _begin(self, function: Any, arguments: tuple[Any, ...]) -> None:
        taken = len(self.times)
        if taken >= self._most or (taken >= self._least and sum(self.times) > self._seconds):
            raise Enough
        if taken == LOOKED_AT:
            self._look()
        if taken % BLOCK == 0:
            self._ask()
        if function is not None:
            inner = getattr(function, "function", getattr(function, "python_function", function))
            closure = inspected(inner)
            self._names = {**getattr(inner, "__globals__", {}), **closure, "arguments": arguments}
        if self.is_nudged and not taken:
            for variable in variables_in(self._names):
                if "float" in str(variable.dtype):
                    variable.assign(variable * (1.0 + NUDGE))
        self._started = time.perf_counter()

    def _end(self, digest: list[float]) -> None:
        self.times.append(time.perf_counter() - self._started)
        self.results.append(digest)
        self.states.append(self._state())

    def _look(self) -> None:
        """By name: a loop's round knows fewer names where it is a function."""
        found = {name: variables_in({name: value}) for name, value in self._names.items()}
        self.variables = {name: [number for one in some for number in numbers_of(one)] for name, some in found.items()}


def inspected(function: Any) -> dict[str, Any]:
    """What a function has in its closure."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    found = {}
    for name, cell in zip(code.co_freevars if code else (), cells or (), strict=False):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def numbers_of(result: Any) -> list[float]:
    """Two figures of each tensor and number in what a step gives, which are the same only if all of it is."""
    import numpy as np
    import tensorflow as tf

    found: list[float] = []
    for leaf in tf.nest.flatten(result):
        value = getattr(leaf, "numpy", None)
        try:
            array = np.asarray(value() if callable(value) else leaf)
        except Exception:
            continue
        if array.dtype.kind in "fiub":
            flat = array.astype(np.float64).ravel()
            found += [float(flat.mean()), float(np.abs(flat - np.arange(flat.size) % 3).mean())] if flat.size else []
    return found


def variables_in(names: dict[str, Any]) -> Iterator[Any]:
    """The variables of a program, in its order: those that can be reached from its names."""
    import keras
    import tensorflow as tf

    seen: set[int] = set()

    def walk(thing: Any, depth: int) -> Iterator[Any]:
        if id(thing) in seen or depth > DEPTH:
            return
        seen.add(id(thing))
        if isinstance(thing, (tf.Variable, keras.Variable)):
            yield thing
        elif isinstance(thing, (keras.layers.Layer, keras.optimizers.Optimizer, tf.Module)):
            yield from thing.variables
        elif isinstance(thing, (list, tuple)) and len(thing) < 1000:
            for one in thing:
                yield from walk(one, depth + 1)
        elif isinstance(thing, dict):
            for name in sorted(map(str, thing)):
                yield from walk(thing.get(name), depth + 1)
        elif _is_programs(type(thing)) and hasattr(thing, "__dict__"):
            yield from walk(vars(thing), depth + 1)

    for name in sorted(names):
        if not name.startswith("__"):
            yield from walk(names[name], 0)


def _is_programs(kind: type) -> bool:
    """Whether a class is the program's, or that of a file beside it."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return kind.__module__ == "__main__" or file.startswith(os.getcwd())


class Way:
    """How a program is run: what its step is decorated with, and what became of that."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.made: list[Any] = []
        self.found: Any = None

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What stands above the step."""
        import tensorflow as tf

        import recgraph as rg

        if self.way == "decorated":
            self.made.append(rg.function(function))
            return self.made[-1]
        return tf.function(function) if self.way == "tf.function" else function

    def block(self) -> Any:
        """What the program runs in."""
        import recgraph as rg

        if self.way != "unmodified":
            return contextlib.nullcontext()
        self.found = rg.speculation()
        return self.found

    def state(self) -> Any:
        """How the last step ran, in a form that can be compared."""
        if self.made:
            made = self.made[-1]
            return [made.way, *made.calls.values()]
        if self.found is not None:
            return {name: list(one.calls.values()) for name, one in self.found.functions.items()}
        return None

    def told(self) -> dict[str, Any]:
        """What became of it, and the reasons."""
        if self.made:
            made = self.made[-1]
            why = [made.given_up] if made.given_up else []
            refused = [
                f"{part.about.split(':')[0]}: {one}"
                for part in made.parts()[1:]
                for one in part.heads
                if "eagerly: " in one
            ]
            return {
                "calls": made.calls,
                "way": made.way,
                "why": [*why, *refused],
                "breaks": dict(made.breaks),
                "explain": str(made.explain()),
            }
        if self.found is not None:
            every = self.found.functions
            return {
                "calls": {name: one.calls for name, one in every.items()},
                "why": [f"{name}: {one.given_up}" for name, one in every.items() if one.given_up],
                "breaks": {name: dict(one.breaks) for name, one in every.items() if one.breaks},
                "explain": str(self.found.explain()),
            }
        return {}


def run(connection: Any, way: str, file: Path, limits: tuple[int, float, int], arguments: Sequence[str]) -> None:
    """Runs a program, and ends the process.

    Args:
        connection: to the parent.
        way: one of `WAYS`.
        file: the adapted program.
        limits: most steps, most seconds of steps, fewest steps.
        arguments: of the program.
    """
    os.chdir(file.parent)
    with open("log", "wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.setdefault("MPLBACKEND", "agg")

    def ask() -> None:
        connection.send({})
        if not connection.recv():
            raise Enough

    made = Way(way)
    steps = Steps(ask, *limits, made.state)
    steps.is_nudged = way == NUDGED
    names = {"__public_step__": steps.timed, "__public_function__": made.function, "__public_tick__": steps.tick}
    builtins.__dict__.update(names)
    raised = ""
    try:
        import keras

        from recgraph.benchmarks.public import stand_ins

        stand_ins.install()
        keras.utils.set_random_seed(0)
        sys.argv, sys.path[:0] = [str(file), *arguments], [str(file.parent)]
        with made.block():
            runpy.run_path(str(file), run_name="__main__")
    except (Enough, SystemExit):
        pass
    except BaseException as error:  # the program's own
        traceback.print_exc()
        raised = f"{type(error).__name__}: {error}"[:500]
    sys.stdout.flush()
    sys.stderr.flush()
    if not steps.variables and steps.times:
        steps._look()
    result = {
        "way": way,
        "times": steps.times,
        "results": steps.results,
        "states": steps.states,
        "variables": steps.variables,
        "raised": raised,
        **made.told(),
    }
    connection.send(_finite(result))
    os._exit(0)  # threads of the program's do not hold it up


def _finite(value: Any) -> Any:
    """JSON has no infinities and no NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value
