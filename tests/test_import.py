"""`import recgraph` and the command: what is said where TensorFlow is missing or another one, and what is not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
COMMAND = ("-c", "from recgraph_command import main; main()")
# What stands for TensorFlow in a folder that comes first.
NONE = "raise ModuleNotFoundError(\"No module named 'tensorflow'\", name='tensorflow')"
OTHER = "__version__ = '2.19.1'"
BROKEN = "raise ImportError('libcudart.so.12: cannot open shared object file')"


def python(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder whose modules come first, in an environment that says nothing about logs."""
    hidden = ("TF_CPP_MIN_LOG_LEVEL", "PYTHONFAULTHANDLER")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"PYTHONPATH": str(folder), "CUDA_VISIBLE_DEVICES": "-1", **variables}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def instead(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with a module in place of TensorFlow."""
    (tmp_path / "tensorflow.py").write_text(request.param + "\n", encoding="utf-8")
    return tmp_path


SAID = {
    NONE: "recgraph needs TensorFlow, and none is installed",
    OTHER: "the op library was not built for this TensorFlow",
    BROKEN: "TensorFlow is installed, and importing it fails",
}


@pytest.mark.parametrize("instead", SAID, indirect=True)
@pytest.mark.parametrize("arguments", [("train", "--out", "run"), ("bench",), ("worker", "--hosts", "a:1")])
def test_a_command_says_once_what_to_do(instead: Path, arguments: tuple[str, ...]) -> None:
    done = python(*COMMAND, *arguments, folder=instead)
    (text,) = (said for module, said in SAID.items() if module + "\n" == (instead / "tensorflow.py").read_text())
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {text} [native-library]\n")
    assert done.stderr.count(text) == done.stderr.count("next step: ") == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("instead", SAID, indirect=True)
def test_python_m_says_the_same(instead: Path) -> None:
    done = python("-m", "recgraph", "--version", folder=instead)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("instead", [NONE], indirect=True)
def test_a_program_gets_one_exception(instead: Path) -> None:
    """That of recgraph itself, not one from a module of which the user has never heard."""
    done = python("-c", "import recgraph", folder=instead)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    last = done.stderr[done.stderr.index("recgraph.errors.NativeLibraryError: ") :]
    assert re.fullmatch(
        r"recgraph\.errors\.NativeLibraryError: recgraph needs TensorFlow, and none is installed \[native-library\]\n"
        r"  where:     \S+\n  expected:  tensorflow or tensorflow-cpu 2\.\d+( or 2\.\d+)*\n"
        r"  next step: pip install 'tensorflow==2\.\d+\.\*'\n",
        last,
    )


@pytest.mark.parametrize("instead", [BROKEN], indirect=True)
def test_what_breaks_tensorflow_is_named(instead: Path) -> None:
    """With TensorFlow's own traceback before it."""
    done = python("-c", "import recgraph", folder=instead)
    assert "  found:     ImportError: libcudart.so.12: cannot open shared object file\n" in done.stderr
    assert done.stderr.count("Traceback") == 2


@pytest.mark.parametrize("instead", [NONE], indirect=True)
def test_the_doctor_says_it_once(instead: Path) -> None:
    done = python(*COMMAND, "doctor", folder=instead)
    assert done.returncode == 1
    assert re.search(
        r"^TensorFlow   WRONG none is installed; pip install 'tensorflow<2\.\d+,>=2\.\d+'$", done.stdout, re.M
    )
    assert done.stdout.count("WRONG") == 1
    assert done.stdout.splitlines()[-1].startswith("TensorFlow")


def test_an_import_says_nothing(tmp_path: Path) -> None:
    """TensorFlow's own import writes six lines of information; `import recgraph` before it leaves them out."""
    program = "import recgraph, os, tensorflow; print(os.environ.get('TF_CPP_MIN_LOG_LEVEL'))"
    done = python("-c", program, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")
    done = python("-c", program, folder=tmp_path, TF_CPP_MIN_LOG_LEVEL="0")
    assert "oneDNN" in done.stderr or "InitializeLog" in done.stderr


def test_python_m_recgraph_is_the_command(tmp_path: Path) -> None:
    done = python("-m", "recgraph", "--help", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: python -m recgraph [OPTIONS] COMMAND [ARGS]...\n")


QUIETLY = "from recgraph.native.quiet import import_quietly as q\ntry:\n    q('noisy')\nfinally:\n    print('after')"


def test_errors_during_an_import_are_shown(tmp_path: Path) -> None:
    """Whatever is no information of TensorFlow's, before the traceback."""
    (tmp_path / "noisy.py").write_text(
        "import os\nos.write(2, b'I0000 00:00:1.2 1 port.cc:1] oneDNN custom operations are on.\\nE0000 real\\n')\n"
        "raise ImportError('broken')\n"
    )
    done = python("-c", QUIETLY, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "after\n")
    assert done.stderr.startswith("E0000 real\n")
    assert "ImportError: broken" in done.stderr
    assert "oneDNN" not in done.stderr


def test_a_crash_during_an_import_is_shown(tmp_path: Path) -> None:
    """For instance on a machine without the instructions for which TensorFlow was compiled."""
    (tmp_path / "noisy.py").write_text("import os\nos.abort()\n")
    done = python("-c", QUIETLY, folder=tmp_path)
    assert done.returncode < 0
    assert "Fatal Python error: Aborted" in done.stderr
    assert "noisy.py" in done.stderr


@pytest.mark.parametrize("closing", ["os.close(2)", "sys.stderr = None"])
def test_without_standard_error(tmp_path: Path, closing: str) -> None:
    """As a service or a program of windows has none."""
    (tmp_path / "noisy.py").write_text("")
    done = python("-c", f"import recgraph, os, sys\n{closing}\n{QUIETLY}", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "after\n")


def test_no_name_from_an_index_is_recommended() -> None:
    """recgraph is on no package index: whoever installs that name gets something else."""
    texts = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("*.py"), *REPOSITORY.glob("*.toml")]
    for folder in ("recgraph", "models", "data", "benchmarks", "docs", "examples", "tools", "cc"):
        texts += [
            path for path in (REPOSITORY / folder).rglob("*") if path.suffix in {".py", ".md", ".ipynb", ".cc", ".h"}
        ]
    wrong = re.compile(r"(pip|uv|pipx|conda)[^\n]* (install|add)( [^\s`]+)* ['\"]?recgraph(?![\w./-])")
    assert [str(path) for path in texts if wrong.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("name", ["recgraph", "recgraph/recgraph"])
def test_a_folder_of_that_name_is_not_the_package(tmp_path: Path, name: str) -> None:
    """A clone, for instance, beside which a program is started: it would get a module without anything in it."""
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "notes.py").write_text("")
    program = "import recgraph, recgraph.models; print(recgraph.SubGraph.__name__, recgraph.models.__name__)"
    done = python("-c", program, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "SubGraph recgraph.models\n", "")


def test_a_package_on_the_path_goes_first(tmp_path: Path) -> None:
    """A copy of the sources that PYTHONPATH names, or a user's own `recgraph.py`, as Python's rules are."""
    (tmp_path / "recgraph.py").write_text("mine = 1\n")
    assert python("-c", "import recgraph; print(recgraph.mine)", folder=tmp_path).stdout == "1\n"
    (tmp_path / "recgraph.py").unlink()
    (tmp_path / "recgraph").mkdir()
    (tmp_path / "recgraph" / "__init__.py").write_text("mine = 2\n")
    assert python("-c", "import recgraph; print(recgraph.mine)", folder=tmp_path).stdout == "2\n"
