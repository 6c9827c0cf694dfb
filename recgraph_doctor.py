"""What `recgraph doctor` looks at: whether Python, TensorFlow and the compiled libraries fit together, and compute.

It is outside the package, like the command: where something does not fit, the package cannot be imported.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

# Distributions that bring the module `tensorflow`.
TENSORFLOWS: Final = ("tensorflow", "tensorflow-cpu", "intel-tensorflow", "tf-nightly", "tf-nightly-cpu")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: in a word or two.
        found: what is there, or what is wrong with it and what to do.
        is_good: whether it will do.
    """

    what: str
    found: str
    is_good: bool = True


class Needed(Exception):
    """What is wrong with something without which the rest cannot be looked at: it would say the same again."""


def version_of(distribution: str) -> str | None:
    """The version of a distribution, or None where it is not installed. Imports nothing."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> str:
    """Everything that a report of a defect should name, in one line. Imports nothing."""
    tensorflows = [f"{name} {version}" for name in TENSORFLOWS if (version := version_of(name))]
    others = [f"{name} {version}" for name in ("keras", "numpy") if (version := version_of(name))]
    return ", ".join(
        [
            f"{platform.python_implementation()} {platform.python_version()}",
            *(tensorflows or ["no TensorFlow"]),
            *others,
            f"{platform.system()} {platform.machine()}",
        ]
    )


def examine() -> Iterator[Finding]:
    """Looks at one thing after the other, until one fails without which the others would say the same again."""
    for what, look in CHECKS.items():
        try:
            yield Finding(what, look())
        except Needed as error:
            yield Finding(what, str(error), False)
            return
        except Exception as error:  # whatever it is, the user is to be told
            yield Finding(what, _told(error), False)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _python() -> str:
    wanted = importlib.metadata.metadata("recgraph")["Requires-Python"] or ""
    found = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    if platform.python_implementation() != "CPython":
        raise RuntimeError(f"{found}; recgraph needs CPython {wanted}")
    for operator, text in re.findall(r"(>=|<)(\d+(?:\.\d+)*)", wanted):
        bound = tuple(map(int, text.split(".")))
        here = sys.version_info[: len(bound)]
        if (operator == ">=" and here < bound) or (operator == "<" and here >= bound):
            raise RuntimeError(f"{found}; recgraph needs Python {wanted}")
    return found


def _machine() -> str:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{platform.system()} {platform.machine()}, {cores} cores, {memory:.1f} GB"


def _tensorflow() -> str:
    installed = [f"{name} {version}" for name in TENSORFLOWS if (version := version_of(name))]
    if len({name.split()[0].replace("-cpu", "") for name in installed}) > 1:
        raise RuntimeError(f"several TensorFlows overwrite each other's files: {', '.join(installed)}; keep one")
    try:
        tensorflow = _import_quietly("tensorflow")
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise Needed(_told(error)) from error
        raise Needed(f"none is installed; pip install '{_wanted_tensorflow()}'") from error
    except Exception as error:
        raise Needed(_told(error)) from error
    return f"{', '.join(installed) or 'of unknown origin'} ({Path(str(tensorflow.__file__)).parent})"


def _import_quietly(name: str) -> ModuleType:
    """Imports a module by `recgraph/native/quiet.py`, which the package need not be imported for."""
    package = importlib.util.find_spec("recgraph")
    places = [] if package is None else list(package.submodule_search_locations or ())
    for path in (Path(place, "native", "quiet.py") for place in places):
        spec = importlib.util.spec_from_file_location("recgraph_quiet", path) if path.is_file() else None
        if spec is not None and spec.loader is not None:
            quiet = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(quiet)
            module: ModuleType = quiet.import_quietly(name)
            return module
    return importlib.import_module(name)


def _wanted_tensorflow() -> str:
    """The requirement of the extra `tensorflow`, as pip reads it."""
    wanted = importlib.metadata.requires("recgraph") or ()
    return next(text.split(";")[0].strip() for text in wanted if re.match("tensorflow *[<>=]", text))


def _library() -> str:
    try:
        native = importlib.import_module("recgraph.native")
    except ImportError as error:
        raise Needed(_told(error)) from error
    count = sum(name.startswith("recgraph_") and not name.endswith("_eager_fallback") for name in dir(native.ops()))
    home = native.folder()
    others = " or ".join(sorted(native.built_for().values()))
    return f"{home}, {count} operations (built for TensorFlow {others})"


def _extensions() -> str:
    native = importlib.import_module("recgraph.native")
    every = (native.frames, native.objects, native.ports, native.snapshots, native.coexec)
    return ", ".join(look().__name__ for look in every)


def _recursion() -> str:
    import tensorflow as tf

    import recgraph as rg

    for engine in ("parallel", "batched"):
        with rg.SubGraph("doctor", tf.TensorSpec([], tf.int32), tf.TensorSpec([]), engine=engine) as fibonacci:
            n, x = fibonacci.declared_arguments(), tf.constant(2.0)
            fibonacci.output(tf.cond(n < 2, lambda: x, lambda: fibonacci(n - 1) + fibonacci(n - 2)))  # noqa: B023
        found = float(fibonacci(10))
        if found != 178.0:
            raise ArithmeticError(f"the {engine} engine computes {found} and not 178")
    return "both engines compute what they should"


def _functions() -> str:
    import tensorflow as tf

    import recgraph as rg

    variable = tf.Variable(1.0)

    def step(x: tf.Tensor) -> tf.Tensor:
        variable.assign_add(x)
        return variable * x

    fast, expected = rg.function(step), 1.0
    for i in range(6):
        expected += i
        found = float(fast(tf.constant(float(i))))
        if found != expected * i:
            raise ArithmeticError(f"call {i + 1} of a converted function gives {found} and not {expected * i}")
    return "a converted function computes what it should"


CHECKS: Final[dict[str, Callable[[], str]]] = {
    "Python": _python,
    "machine": _machine,
    "TensorFlow": _tensorflow,
    "op library": _library,
    "extensions": _extensions,
    "recursion": _recursion,
    "rg.function": _functions,
}
