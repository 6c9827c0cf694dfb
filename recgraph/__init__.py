"""recgraph: recursive dataflow graphs on TensorFlow."""

import contextlib
import importlib
import importlib.metadata
from types import ModuleType

from recgraph.native import requirement as _requirement  # noqa: F401  # isort: skip  # before what needs TensorFlow
from recgraph import batch, errors, levels
from recgraph.coexec import steps, watch
from recgraph.core.decorator import subgraph
from recgraph.core.subgraph import SubGraph
from recgraph.distribute import distribute
from recgraph.draw import draw
from recgraph.function import function
from recgraph.optimize.bridge import alternatives as _alternatives  # noqa: F401  # enters how graphs are rewritten
from recgraph.optimize.bridge import bodies as _bodies  # noqa: F401  # enters how bodies are rewritten
from recgraph.optimize.bridge.functions import optimize
from recgraph.speculate import speculation

__all__ = [
    "SubGraph",
    "batch",
    "distribute",
    "draw",
    "errors",
    "function",
    "levels",
    "optimize",
    "speculation",
    "steps",
    "subgraph",
]

__version__ = importlib.metadata.version("recgraph")

_MODULES = (
    "data",
    "keras",
    "models",
    "testing",
    "trees",
)  # imported when they are asked for first: they import the names above

with contextlib.suppress(errors.NativeLibraryError):  # whoever asks for co-execution is told
    watch()  # so that it is known which variables the datasets use that are made from now on


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"recgraph.{name}")
    raise AttributeError(f"module 'recgraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__", "__doc__", "__name__"])
