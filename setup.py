"""Builds the libraries of `recgraph/native` and maps the folders to packages.

`tensorflow_<minor>/_librecgraph.so` has the ops, and TensorFlow loads it; the others are extension modules of Python,
of which `_coexec` belongs to a TensorFlow, too. So one folder can serve several Pythons and TensorFlows, and a wheel
has the libraries of every TensorFlow that recgraph supports (`tools/wheels.py`).

Everything that needs no code is in pyproject.toml. The compiler is run by ninja, in parallel. An editable install is
compiled again and again: few files at once, and only what has changed (`build/native` has the object files). Any other
install is compiled once: whole folders at once, which takes half the time, and its object files are removed in the end
unless $RECGRAPH_OBJECTS says where they are kept.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

TENSORFLOWS = ("2.20", "2.21")  # the minor versions of the range in pyproject.toml
TENSORFLOW_RANGE = "tensorflow>=2.20,<2.22"
OBJECTS = Path(os.environ.get("RECGRAPH_OBJECTS", "build/native"))
NATIVE = Path("recgraph/native")
UNIT = 5  # files of a folder that are compiled as one where they are compiled again and again
ALONE = "row_kernels"  # compiled for several processors, each with flags of its own
MOST_UNITS = 4  # more of them add to the time of each the headers, and save nothing
SECONDS = {True: 140, False: 250}  # of processor time for all libraries, compiled once or for changes
INTERPRETER = ("frames", "objects", "ports", "snapshots")  # modules of one file each in cc/interpreter
OF_CORE = {"ports": ["cc/core/sha256.cc"]}  # what they need of cc/core
EXPORTS = "cc/exports.lds"
COEXEC_EXPORTS = "cc/module_exports.lds"
MAPPED = ("models", "data", "benchmarks")  # folder -> recgraph.<folder>
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))  # of extension modules, with the interpreter's version


@dataclass(frozen=True)
class TensorFlow:
    """What the compiler has to know about the installed TensorFlow.

    Attributes:
        version: such as `2.21.0`.
        compile_flags: without where its headers are.
        folder: of its package.
    """

    version: str
    compile_flags: tuple[str, ...]
    folder: Path

    @property
    def name(self) -> str:
        """Of the folder for what belongs to its minor version."""
        return "tensorflow_" + "_".join(self.version.split(".")[:2])


def installed_tensorflow() -> TensorFlow:
    """The TensorFlow of this environment, by whichever distribution; an error if there is none that fits."""
    advice = f"Install it (pip install '{TENSORFLOW_RANGE}'), or build without --no-build-isolation."
    if importlib.util.find_spec("tensorflow") is None:
        raise PlatformError(f"recgraph is compiled against TensorFlow, and none is installed. {advice}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    if ".".join(tf.__version__.split(".")[:2]) not in TENSORFLOWS:
        raise PlatformError(f"recgraph needs TensorFlow {' or '.join(TENSORFLOWS)}, found {tf.__version__}. {advice}")
    compile_flags = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    compile_flags.append("-DNDEBUG")  # as TensorFlow is built: without it the nodes of its graphs have other members
    return TensorFlow(tf.__version__, tuple(compile_flags), Path(tf.sysconfig.get_lib()))


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
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        raise PlatformError(f"there is no Python.h below {folder}. Install Python's headers (Debian: {version}-dev).")
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


class NinjaFile:
    """The build file for all libraries: those of one TensorFlow and one Python.

    Args:
        tensorflow: what is compiled against. Its folder is reached by a link of ours, so that other environments with
            the same version need not compile again what does not depend on Python.
        folder: of the object files and libraries; OBJECTS by default.
        is_once: whether nothing will be compiled again after a change, see above.
    """

    def __init__(self, tensorflow: TensorFlow, folder: Path | None = None, is_once: bool = False) -> None:
        from ninja.ninja_syntax import Writer

        self.folder, self.is_once = folder or OBJECTS, is_once
        self.objects = self.folder / f"tensorflow-{tensorflow.version}"
        self.modules = self.objects / SUFFIX.split(".")[1]
        self.path = self.modules / "build.ninja"
        self.library = self.folder / tensorflow.name / "_librecgraph.so"
        self.module = self.folder / tensorflow.name / f"_coexec{SUFFIX}"
        self.modules.mkdir(parents=True, exist_ok=True)
        link = self.objects / "tensorflow"
        link.unlink(missing_ok=True)
        link.symlink_to(tensorflow.folder, target_is_directory=True)
        # As system headers, TensorFlow's own warnings are not counted among ours. Of the second library (the eager C
        # interface) only what is used is recorded.
        self.headers = ["-isystem", str(link / "include"), *tensorflow.compile_flags]
        self.libraries = [f"-L{link}", "-l:libtensorflow_framework.so.2"]
        self.libraries += ["-Wl,--as-needed", "-l:libtensorflow_cc.so.2", "-pthread", os.environ.get("LDFLAGS", "")]
        self.common = ["-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-I.", "-Wall", "-Wextra"]
        if os.environ.get("RECGRAPH_WERROR", "1") != "0":
            self.common.append("-Werror")
        self.portable: list[str] = []
        if os.environ.get("RECGRAPH_PORTABLE", "0") != "0":  # the libraries are for older systems than this one
            self.common += ["-include", "cc/portable/portable.h"]
            self.portable = ["cc/portable/portable.cc"]
        with open(self.path, "w", encoding="utf-8") as file:
            writer: Any = Writer  # releases of ninja differ in what types they declare
            self.ninja = writer(file)
            self.ninja.variable("builddir", str(self.objects))
            self.ninja.variable("cxx", compiler())
            self._write_library()
            self._write_coexec()
            self._write_interpreter()
            self.ninja.close()

    def targets(self) -> list[Path]:
        """The libraries, below the folder as they are to be below NATIVE."""
        return [self.library, self.module, *(self.folder / f"_{name}{SUFFIX}" for name in INTERPRETER)]

    def _write_library(self) -> None:
        """The op library, which does not depend on Python."""
        flags = [*self.common, *self.headers]
        self._compile_rule("compile", flags)
        core = sources_of("core")
        together = [source for source in core if self.is_once and ALONE not in source]
        alone = [source for source in core if source not in together]
        objects = self._objects("compile", [*alone, *self.portable], self.objects)
        objects += self._units("compile", [together] if together else [], self.objects)
        objects += self._grouped("compile", sources_of("ops", "kernels"), self.objects, "cc/kernels/precompiled.h")
        link = [f"-Wl,--version-script={EXPORTS}", "-Wl,-z,defs", *self.libraries]
        self.ninja.variable("link", link)
        self.ninja.rule("link", "$cxx -shared $in -o $out $link", description="link $out")
        self.ninja.build(str(self.library), "link", objects, implicit=[EXPORTS])

    def _write_coexec(self) -> None:
        """The extension module of co-execution. What it needs of Python is there when Python loads it."""
        python = ["-isystem", "cc/python/shim", "-isystem", str(python_headers())]
        self._compile_rule("compile_coexec", [*self.common, *self.headers, *python])
        objects = self._grouped("compile_coexec", sources_of("python"), self.modules, "cc/python/precompiled.h")
        objects += self._objects("compile_coexec", self.portable, self.modules)
        self.ninja.variable("link_coexec", [f"-Wl,--version-script={COEXEC_EXPORTS}", *self.libraries])
        self.ninja.rule("link_coexec", "$cxx -shared $in -o $out $link_coexec", description="link $out")
        self.ninja.build(str(self.module), "link_coexec", objects, implicit=[COEXEC_EXPORTS])

    def _write_interpreter(self) -> None:
        """The extension modules that need Python's headers and no TensorFlow."""
        flags = ["-std=c++17", *self.common, "-isystem", str(python_headers())]
        flags.append(os.environ.get("CXXFLAGS", ""))
        self.ninja.variable("module_flags", flags)
        self.ninja.variable("link_module", ["-pthread", os.environ.get("LDFLAGS", "")])
        command = "$cxx $module_flags -MMD -MF $out.d -shared $in -o $out $link_module"
        self.ninja.rule("extension", command, depfile="$out.d", description="compile $out")
        for name in INTERPRETER:
            sources = [f"cc/interpreter/{name}.cc", *OF_CORE.get(name, ()), *self.portable]
            self.ninja.build(str(self.folder / f"_{name}{SUFFIX}"), "extension", sources)

    def _compile_rule(self, rule: str, flags: list[str]) -> None:
        self.ninja.variable(f"{rule}_flags", [*flags, os.environ.get("CXXFLAGS", "")])
        command = f"$cxx ${rule}_flags $parsed -MMD -MF $out.d -c $in -o $out"
        self.ninja.rule(rule, command, depfile="$out.d", deps="gcc", description="compile $in")
        command = f"printf '#include \"%s\"\\n' $in | $cxx ${rule}_flags $parsed -MMD -MF $out.d -x c++ -c - -o $out"
        self.ninja.rule(f"{rule}_unit", command, depfile="$out.d", deps="gcc", description="compile $in")

    def _grouped(self, rule: str, sources: list[str], folder: Path, header: str) -> list[str]:
        """Compiles the sources of a folder, several as one: the headers of TensorFlow take longer than our files.

        Where they are compiled once, the units are as large as the number of compilers lets them be. Else a unit is
        small, and the headers are parsed beforehand, which takes as long as several units and 400 MB.
        """
        if self.is_once:
            return self._units(rule, shared_out(sources, min(jobs(), MOST_UNITS)), folder)
        parsed = self._precompile(rule, header, folder)
        units = [sources[first : first + UNIT] for first in range(0, len(sources), UNIT)]
        return self._units(rule, units, folder, parsed)

    def _precompile(self, rule: str, header: str, folder: Path) -> str:
        """Has TensorFlow's headers parsed once: most of the time of a small file is theirs. Gives the header's name."""
        copy = folder / Path(header).name
        self.ninja.rule(f"copy_{rule}", "cp $in $out", description="copy $in")
        self.ninja.build(str(copy), f"copy_{rule}", header)
        self.ninja.build(f"{copy}.gch", rule, str(copy), variables={"parsed": "-x c++-header"})
        return str(copy)

    def _objects(self, rule: str, sources: list[str], folder: Path) -> list[str]:
        objects = [str(folder / source) + ".o" for source in sources]
        for source, target in zip(sources, objects, strict=True):
            self.ninja.build(target, rule, source)
        return objects

    def _units(self, rule: str, units: list[list[str]], folder: Path, parsed: str = "") -> list[str]:
        """Compiles the sources of each unit as one."""
        objects = [str(folder / unit[0]) + ".unit.o" for unit in units]
        options = {"parsed": f"-Winvalid-pch -include {parsed}" if parsed else lazy_collection()}
        for unit, target in zip(units, objects, strict=True):
            header = [f"{parsed}.gch"] if parsed else []
            self.ninja.build(target, f"{rule}_unit", unit, implicit=header, variables=options)
        return objects


def lazy_collection() -> str:
    """Has g++ collect garbage when it has more than most units make: what it learns of headers is never garbage."""
    return "" if "clang" in compiler() else "--param ggc-min-expand=1000 --param ggc-min-heapsize=1500000"


def shared_out(sources: list[str], count: int) -> list[list[str]]:
    """The sources in so many units of about the same size."""
    units: list[list[str]] = [[] for _ in range(min(count, len(sources)))]
    sizes = [0] * len(units)
    for source in sorted(sources, key=lambda each: -Path(each).stat().st_size):
        smallest = sizes.index(min(sizes))
        units[smallest].append(source)
        sizes[smallest] += Path(source).stat().st_size
    return [sorted(unit) for unit in units]


def jobs() -> int:
    """How many compilers run at once: RECGRAPH_JOBS, or one for each core."""
    return int(os.environ.get("RECGRAPH_JOBS") or len(os.sched_getaffinity(0)))


def run_ninja(path: Path, told: TextIO) -> None:
    """Compiles what has changed, and says so to `told`."""
    command = [sys.executable, "-m", "ninja", "-f", str(path), "-j", str(jobs())]
    if subprocess.run(command, stdout=told).returncode != 0:
        raise PlatformError(
            "the op library did not compile, see above. If a newer compiler only has new warnings, "
            "RECGRAPH_WERROR=0 lets them pass; where the compiler was killed, there was not enough memory for "
            f"{jobs()} of them, and RECGRAPH_JOBS=1 runs one."
        )


@contextlib.contextmanager
def progress() -> Iterator[TextIO]:
    """Where to say how far the build is: the file that $RECGRAPH_PROGRESS names, since pip shows nothing of a build."""
    try:
        file = open(os.environ.get("RECGRAPH_PROGRESS", ""), "a", encoding="utf-8")  # noqa: SIM115
    except OSError:  # none is named, or what is there cannot be opened, as a socket
        yield sys.stdout
        return
    with file:
        yield file


def announce(tensorflow: TensorFlow, is_once: bool, told: TextIO) -> None:
    """Says what is about to happen, and what it takes."""
    minutes = SECONDS[is_once] / min(jobs(), MOST_UNITS) / 60
    print(
        f"compiling recgraph's libraries for TensorFlow {tensorflow.version}: about {SECONDS[is_once]} seconds of "
        f"processor time ({minutes:.0f} minutes with {jobs()} at once), 1.8 GB of memory for each compiler",
        file=told,
        flush=True,
    )


class BuildLibraries(build_ext):
    """Makes all libraries, of which setuptools knows no more than that there are some."""

    def run(self) -> None:
        """Compiles the libraries, and writes beside those of a TensorFlow which one it was."""
        if not Path("cc/core").is_dir():
            raise PlatformError("there are no C++ sources under cc/; is the source tree complete?")
        if self.editable_mode:
            self._prefer_the_package()
        tensorflow = installed_tensorflow()
        is_once = not (self.editable_mode or self.inplace)
        with progress() as told, self._objects(is_once) as folder:
            file = NinjaFile(tensorflow, folder, is_once)
            announce(tensorflow, is_once, told)
            run_ninja(file.path, told)
            native = NATIVE if self.inplace else Path(self.build_lib) / NATIVE
            for library in file.targets():
                target = native / library.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(str(library), str(target))
        (native / tensorflow.name / "BUILT_FOR").write_text(f"{tensorflow.version}\n", encoding="utf-8")

    @staticmethod
    @contextlib.contextmanager
    def _objects(is_once: bool) -> Iterator[Path]:
        """The folder of object files: one that goes away again where nothing is compiled a second time."""
        if "RECGRAPH_OBJECTS" in os.environ or not is_once:
            yield OBJECTS
            return
        OBJECTS.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="native-", dir=OBJECTS.parent) as folder:
            yield Path(folder)

    def _prefer_the_package(self) -> None:
        """Installs what makes an editable install win over a folder that is called recgraph (tools/editable.py)."""
        site_packages = Path(self.get_finalized_command("install").install_lib)
        module = f"__editable___{self.distribution.get_name()}_first"
        shutil.copy("tools/editable.py", site_packages / f"{module}.py")
        (site_packages / f"{module}.pth").write_text(f"import {module}; {module}.install()\n", encoding="utf-8")

    def get_outputs(self) -> list[str]:
        """What a wheel has of them: all that is there, by this run or by one for another TensorFlow."""
        native = Path(self.build_lib) / NATIVE
        return sorted(str(path) for path in native.rglob("*") if path.suffix == ".so" or path.name == "BUILT_FOR")

    def get_output_mapping(self) -> dict[str, str]:
        """None: an editable install has them in the source folder."""
        return {}


setup(
    packages=list(packages()),
    package_dir=packages(),
    py_modules=["recgraph_command", "recgraph_doctor", "recgraph_launch"],
    ext_modules=[Extension("recgraph.native", sources_of("core", "ops", "kernels", "python", "interpreter"))],
    cmdclass={"build_ext": BuildLibraries},
)
