"""Builds the libraries of `recgraph/native` and maps the folders to packages.

`_librecgraph.so` has the ops, and TensorFlow loads it; the others are extension modules of Python.

Everything that needs no code is in pyproject.toml. The compiler is run by ninja: in parallel, and only for
what has changed since the last build (`build/native` is kept between editable installs).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

TENSORFLOW = "2.21"  # the minor version of the range in pyproject.toml
TENSORFLOW_RANGE = "tensorflow>=2.21,<2.22"
OBJECTS = Path("build/native")
INTERPRETER = ("frames", "objects", "snapshots")  # modules of one file each in cc/interpreter
EXPORTS = "cc/exports.lds"
COEXEC_EXPORTS = "cc/module_exports.lds"
MAPPED = ("models", "data", "benchmarks")  # folder -> recgraph.<folder>


@dataclass(frozen=True)
class TensorFlow:
    """What the compiler has to know about the installed TensorFlow."""

    version: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]


def installed_tensorflow() -> TensorFlow:
    """The TensorFlow of this environment, by whichever distribution; an error if there is none that fits."""
    advice = f"Install it (pip install '{TENSORFLOW_RANGE}'), or build without --no-build-isolation."
    if importlib.util.find_spec("tensorflow") is None:
        raise PlatformError(f"recgraph is compiled against TensorFlow, and none is installed. {advice}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    if not tf.__version__.startswith(TENSORFLOW + "."):
        raise PlatformError(f"recgraph needs TensorFlow {TENSORFLOW}, found {tf.__version__}. {advice}")
    # As system headers, TensorFlow's own warnings are not counted among ours.
    compile_flags = [
        "-isystem " + flag[2:] if flag.startswith("-I") else flag for flag in tf.sysconfig.get_compile_flags()
    ]
    compile_flags.append("-DNDEBUG")  # as TensorFlow is built: without it the nodes of its graphs have other members
    # Of the second library (the eager C interface) only what is used is recorded.
    link_flags = [*tf.sysconfig.get_link_flags(), "-Wl,--as-needed", "-l:libtensorflow_cc.so.2"]
    return TensorFlow(tf.__version__, tuple(compile_flags), tuple(link_flags))


def compiler() -> str:
    """The C++ compiler: $CXX, or g++."""
    command = os.environ.get("CXX", "g++")
    if shutil.which(command.split()[0]) is None:
        raise PlatformError(f"no C++ compiler: {command!r} is not on PATH. Install g++ or set CXX.")
    return command


def sources_of(*rooms: str) -> list[str]:
    """The C++ files in some folders of cc, relative to the repository."""
    found = (path for room in rooms for path in Path("cc", room).glob("*.cc"))
    return sorted(str(path) for path in found if not path.stem.endswith("_test"))


def python_headers() -> Path:
    """The folder of Python.h and of the headers about frames, which come with it."""
    folder = Path(sysconfig.get_paths()["include"])
    if not (folder / "internal/pycore_frame.h").exists():
        raise PlatformError(f"there is no Python.h below {folder}. Install Python's headers (Debian: python3.11-dev).")
    return folder


def packages() -> dict[str, str]:
    """Every package of the distribution with its folder."""
    own = {name: name.replace(".", "/") for name in find_packages(include=["recgraph", "recgraph.*"])}
    for folder in MAPPED:
        if Path(folder, "__init__.py").exists():
            own[f"recgraph.{folder}"] = folder
            inner = find_packages(folder)
            own |= {f"recgraph.{folder}.{name}": f"{folder}/{name.replace('.', '/')}" for name in inner}
    return own


def write_ninja(tensorflow: TensorFlow, sources: list[str]) -> None:
    """Writes the build file for all libraries."""
    from ninja.ninja_syntax import Writer

    OBJECTS.mkdir(parents=True, exist_ok=True)
    library = OBJECTS / "_librecgraph.so"
    warnings = ["-Wall", "-Wextra"]
    if os.environ.get("RECGRAPH_WERROR", "1") != "0":
        warnings.append("-Werror")
    flags = ["-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-I.", *warnings, *tensorflow.compile_flags]
    link = [f"-Wl,--version-script={EXPORTS}", "-Wl,-z,defs", "-pthread", *tensorflow.link_flags]
    with open(OBJECTS / "build.ninja", "w", encoding="utf-8") as file:
        writer: Any = Writer  # releases of ninja differ in what types they declare
        ninja = writer(file)
        ninja.variable("builddir", str(OBJECTS))
        ninja.variable("cxx", compiler())
        ninja.variable("flags", [*flags, os.environ.get("CXXFLAGS", "")])
        ninja.variable("link", [*link, os.environ.get("LDFLAGS", "")])
        ninja.rule("compile", "$cxx $flags -MMD -MF $out.d -c $in -o $out", depfile="$out.d", deps="gcc")
        ninja.rule("link", "$cxx -shared $in -o $out $link")
        objects = [str(OBJECTS / source) + ".o" for source in sources]
        for source, target in zip(sources, objects, strict=True):
            ninja.build(target, "compile", source)
        ninja.build(str(library), "link", objects, implicit=[EXPORTS])
        _write_interpreter(ninja, warnings)
        _write_coexec(ninja, [*flags, "-isystem cc/python/shim", f"-isystem {python_headers()}"], tensorflow)
        ninja.close()


def _write_interpreter(ninja: Any, warnings: list[str]) -> None:
    """The extension modules that need Python's headers and no TensorFlow."""
    flags = ["-std=c++17", "-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-I.", *warnings]
    ninja.variable("module_flags", [*flags, "-isystem", str(python_headers()), os.environ.get("CXXFLAGS", "")])
    ninja.rule("extension", "$cxx $module_flags -MMD -MF $out.d -shared $in -o $out $link_module", depfile="$out.d")
    ninja.variable("link_module", os.environ.get("LDFLAGS", ""))
    for name in INTERPRETER:
        ninja.build(str(OBJECTS / f"_{name}.so"), "extension", f"cc/interpreter/{name}.cc")


def _write_coexec(ninja: Any, flags: list[str], tensorflow: TensorFlow) -> None:
    """The extension module of co-execution. What it needs of Python is there when Python loads it."""
    link = [f"-Wl,--version-script={COEXEC_EXPORTS}", "-pthread", *tensorflow.link_flags, os.environ.get("LDFLAGS", "")]
    ninja.variable("coexec_flags", [*flags, os.environ.get("CXXFLAGS", "")])
    ninja.variable("link_coexec", link)
    ninja.rule("compile_coexec", "$cxx $coexec_flags -MMD -MF $out.d -c $in -o $out", depfile="$out.d", deps="gcc")
    ninja.rule("link_coexec", "$cxx -shared $in -o $out $link_coexec")
    sources = sources_of("python")
    objects = [str(OBJECTS / source) + ".o" for source in sources]
    for source, target in zip(sources, objects, strict=True):
        ninja.build(target, "compile_coexec", source)
    ninja.build(str(OBJECTS / "_coexec.so"), "link_coexec", objects, implicit=[COEXEC_EXPORTS])


def run_ninja() -> None:
    """Compiles what has changed; RECGRAPH_JOBS limits the compilers that run at once (1.5 GB each)."""
    jobs = os.environ.get("RECGRAPH_JOBS") or str(len(os.sched_getaffinity(0)))
    command = [sys.executable, "-m", "ninja", "-f", str(OBJECTS / "build.ninja"), "-j", jobs]
    if subprocess.run(command).returncode != 0:
        raise PlatformError(
            "the op library did not compile, see above. If a newer compiler only has new warnings, "
            "RECGRAPH_WERROR=0 lets them pass."
        )


class BuildLibrary(build_ext):
    """Makes the op library, which is no extension module, and the modules beside it."""

    def get_ext_filename(self, fullname: str) -> str:
        """The library is loaded by TensorFlow, not imported: no interpreter tag in its name."""
        return fullname.replace(".", "/") + ".so"

    def build_extension(self, ext: Extension) -> None:
        """Compiles the library and writes beside it which TensorFlow it was built for."""
        if not ext.sources:
            raise PlatformError("there are no C++ sources under cc/; is the source tree complete?")
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.stem == "_librecgraph":
            self.build_all(ext.sources, target)
        self.copy_file(str(OBJECTS / target.name), str(target))

    def build_all(self, sources: list[str], target: Path) -> None:
        """Compiles all libraries, and says beside `target` what for."""
        tensorflow = installed_tensorflow()
        write_ninja(tensorflow, sources)
        run_ninja()
        text = f'"""Written by setup.py."""\n\nTENSORFLOW_VERSION = "{tensorflow.version}"\n'
        (target.parent / "_build_info.py").write_text(text, encoding="utf-8")

    def copy_extensions_to_source(self) -> None:
        """For an editable install the library and its note go into the source folder."""
        super().copy_extensions_to_source()
        native = Path("recgraph/native")
        self.copy_file(str(Path(self.build_lib, native, "_build_info.py")), str(native))


setup(
    packages=list(packages()),
    package_dir=packages(),
    py_modules=["recgraph_command", "recgraph_doctor"],
    ext_modules=[
        Extension("recgraph.native._librecgraph", sources_of("core", "ops", "kernels")),
        *(Extension(f"recgraph.native._{name}", [f"cc/interpreter/{name}.cc"]) for name in INTERPRETER),
        Extension("recgraph.native._coexec", sources_of("python")),
    ],
    cmdclass={"build_ext": BuildLibrary},
)
