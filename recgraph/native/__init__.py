"""The door to the compiled libraries: finds those that fit the installed TensorFlow, and loads them on first use."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from pathlib import Path
from types import ModuleType

from recgraph.errors import NativeLibraryError
from recgraph.native.quiet import import_quietly

FOLDER = Path(__file__).parent
_REBUILD = (
    "install recgraph again for this TensorFlow and this Python: in a copy of its source, "
    "pip install --force-reinstall --no-deps --no-build-isolation ."
)
_lock = threading.Lock()


def ops() -> ModuleType:
    """The generated Python wrappers of our ops, e.g. `ops().recgraph_invoke`.

    The first call, which `import recgraph` makes, loads the library, once per process.

    Raises:
        NativeLibraryError: the library was not built, is broken, or was built for other TensorFlows.
    """
    with _lock:
        return _loaded()


@functools.cache
def frames() -> ModuleType:
    """The extension module that watches calls of Python functions, `cc/interpreter/frames.cc`.

    Raises:
        NativeLibraryError: it was not built, or for another Python.
    """
    return _module("_frames")


@functools.cache
def objects() -> ModuleType:
    """The extension module that makes tables of Python objects, `cc/interpreter/objects.cc`.

    Raises:
        NativeLibraryError: it was not built, or for another Python.
    """
    return _module("_objects")


@functools.cache
def ports() -> ModuleType:
    """The extension module that guards the ports of workers, `cc/interpreter/ports.cc`.

    Raises:
        NativeLibraryError: it was not built, or for another Python.
    """
    return _module("_ports")


@functools.cache
def snapshots() -> ModuleType:
    """The extension module that tells whether objects are as they were, `cc/interpreter/snapshots.cc`.

    Raises:
        NativeLibraryError: it was not built, or for another Python.
    """
    return _module("_snapshots")


def coexec() -> ModuleType:
    """The extension module by which co-execution sees eager operations; loaded on first use.

    Raises:
        NativeLibraryError: it was not built, is broken, or was built for other TensorFlows or another Python.
    """
    with _lock:
        return _module(f"{folder().name}._coexec")


def folder() -> Path:
    """The folder of the libraries that fit the installed TensorFlow.

    Raises:
        NativeLibraryError: there is none, or no TensorFlow.
    """
    built = built_for()
    return _fitting(built, _installed_version(built))


def built_for() -> dict[str, str]:
    """The versions of TensorFlow that the libraries here were compiled against, by minor: `{"2.21": "2.21.0"}`.

    Raises:
        NativeLibraryError: none were built.
    """
    notes = FOLDER.glob("tensorflow_*/BUILT_FOR")
    versions = sorted((note.read_text(encoding="utf-8").strip() for note in notes), key=_number)
    if not versions:
        raise _not_built(FOLDER)
    return {_minor(version): version for version in versions}


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"recgraph.native.{name}")
    except ImportError as error:
        # One file that is there for another Python is not there for this one.
        what = "was not built for this Python" if isinstance(error, ModuleNotFoundError) else "could not be loaded"
        raise NativeLibraryError(f"the extension module {what}", found=str(error), next_step=_REBUILD) from error


@functools.cache
def _loaded() -> ModuleType:
    built = built_for()
    installed = _installed_version(built)
    return _load(_fitting(built, installed) / "_librecgraph.so", built[_minor(installed)])


def _installed_version(built: dict[str, str]) -> str:
    try:
        return str(import_quietly("tensorflow").__version__)
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise _unusable(error) from error
        raise NativeLibraryError(
            "recgraph needs TensorFlow, and none is installed",
            where=sys.executable,
            expected=f"tensorflow or tensorflow-cpu {' or '.join(built)}",
            next_step=f"pip install 'tensorflow=={list(built)[-1]}.*'",
        ) from None
    except Exception as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> NativeLibraryError:
    """For a TensorFlow that is there and fails, or a folder of that name: TensorFlow's own words come with it."""
    return NativeLibraryError(
        "TensorFlow is installed, and importing it fails",
        where=sys.executable,
        found=f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}",
        next_step="mend TensorFlow first, until this works: python -c 'import tensorflow as tf; print(tf.__version__)'",
    )


def _fitting(built: dict[str, str], installed: str) -> Path:
    """The folder for a TensorFlow. Any patch release fits: only between minor versions its C++ changes."""
    if _minor(installed) not in built:
        wanted = list(built)[-1 if _number(installed) > _number(list(built)[-1]) else 0]
        raise NativeLibraryError(
            "the op library was not built for this TensorFlow",
            where=str(FOLDER),
            found=f"TensorFlow {installed} is installed",
            expected=f"TensorFlow {' or '.join(built)} (built for {', '.join(built.values())})",
            next_step=f"pip install 'tensorflow=={wanted}.*' (or tensorflow-cpu)",
        )
    return FOLDER / f"tensorflow_{_minor(installed).replace('.', '_')}"


def _load(library: Path, built: str) -> ModuleType:
    import tensorflow as tf

    if not library.exists():
        raise _not_built(library)
    try:
        module: ModuleType = tf.load_op_library(str(library))
    except (tf.errors.OpError, OSError) as error:
        raise NativeLibraryError(
            "TensorFlow could not load the op library",
            where=str(library),
            found=f"{getattr(error, 'message', error)} (TensorFlow {tf.__version__})",
            expected=f"a library that loads into TensorFlow {built}, for which it was built",
            next_step=_REBUILD,
        ) from error
    return module


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def _not_built(where: Path) -> NativeLibraryError:
    return NativeLibraryError(
        "the op library was never built",
        where=str(where),
        next_step="install recgraph (pip install . in its source folder), and start Python in another folder",
    )
