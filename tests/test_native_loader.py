"""The door to the op library: what a user is told when it is missing, broken or built for another TensorFlow."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from recgraph import native
from recgraph.errors import NativeLibraryError, RecgraphError


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The loader as it is before its first use, for as long as one test runs."""
    unloaded = native._loaded.__wrapped__
    monkeypatch.setattr(native, "_loaded", native.functools.cache(unloaded))
    return monkeypatch


def message(error: pytest.ExceptionInfo[NativeLibraryError]) -> str:
    """What the user reads, without the place of this installation."""
    return str(error.value).replace(str(native.FOLDER), "FOLDER")


def test_the_installed_library_loads_once_and_gives_its_ops() -> None:
    """The same module on every call, from every thread."""
    modules: list[ModuleType] = []
    threads = [threading.Thread(target=lambda: modules.append(native.ops())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(modules) == 8
    assert all(module is native.ops() for module in modules)


def test_eight_threads_that_come_first_load_it_once(fresh: pytest.MonkeyPatch) -> None:
    """TensorFlow would register every op again."""
    loads: list[Path] = []
    fresh.setattr(native, "_load", lambda library, built: loads.append(library) or ModuleType("ops"))
    threads = [threading.Thread(target=native.ops) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [native.folder() / "_librecgraph.so"]


def test_importing_the_package_opens_the_door() -> None:
    """A SavedModel loads in a process that has done no more than `import recgraph`."""
    program = "import recgraph; from recgraph import native; print(native._loaded.cache_info().currsize)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.strip() == "1"


@pytest.mark.parametrize(("installed", "wanted"), [("2.99.3", "2.21"), ("2.19.1", "2.20")])
def test_another_tensorflow_is_named_with_what_to_install(
    fresh: pytest.MonkeyPatch, installed: str, wanted: str
) -> None:
    """Between minor versions of TensorFlow the library would crash rather than fail."""
    fresh.setattr(native, "built_for", lambda: {"2.20": "2.20.0", "2.21": "2.21.1"})
    fresh.setattr(native, "_installed_version", lambda built: installed)
    with pytest.raises(NativeLibraryError) as error:
        native.ops()
    assert message(error) == (
        "the op library was not built for this TensorFlow [native-library]\n"
        "  where:     FOLDER\n"
        f"  found:     TensorFlow {installed} is installed\n"
        "  expected:  TensorFlow 2.20 or 2.21 (built for 2.20.0, 2.21.1)\n"
        f"  next step: pip install 'tensorflow=={wanted}.*' (or tensorflow-cpu)"
    )


def test_another_patch_release_of_the_same_minor_is_accepted() -> None:
    """A security release of TensorFlow must not ask for a new recgraph."""
    assert native._fitting({"2.20": "2.20.0", "2.21": "2.21.0"}, "2.21.3") == native.FOLDER / "tensorflow_2_21"


def test_of_several_libraries_the_one_that_fits_is_taken(tmp_path: Path, fresh: pytest.MonkeyPatch) -> None:
    """2.9 comes before 2.10, and a folder without a note is none of ours."""
    fresh.setattr(native, "FOLDER", tmp_path)
    for version in ("2.10.1", "2.9.0"):
        home = tmp_path / f"tensorflow_{version.rsplit('.', 1)[0].replace('.', '_')}"
        home.mkdir()
        (home / "BUILT_FOR").write_text(f"{version}\n", encoding="utf-8")
    (tmp_path / "tensorflow_2_11").mkdir()
    assert list(native.built_for().items()) == [("2.9", "2.9.0"), ("2.10", "2.10.1")]
    fresh.setattr(native, "_installed_version", lambda built: "2.9.4")
    assert native.folder() == tmp_path / "tensorflow_2_9"


def test_no_tensorflow_at_all_is_said_so(fresh: pytest.MonkeyPatch) -> None:
    """Rather than a ModuleNotFoundError from somewhere inside."""

    def without_tensorflow(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    fresh.setattr(native, "import_quietly", without_tensorflow)
    with pytest.raises(NativeLibraryError, match="recgraph needs TensorFlow, and none is installed") as error:
        native._installed_version({"2.20": "2.20.0", "2.21": "2.21.0"})
    assert error.value.next_step == "pip install 'tensorflow==2.21.*'"


def test_a_library_that_was_never_built_says_to_install(tmp_path: Path) -> None:
    """For instance after `git clone`, when Python is started in the source folder."""
    with pytest.raises(NativeLibraryError, match="the op library was never built") as error:
        native._load(tmp_path / "missing.so", "2.21.0")
    assert "pip install ." in str(error.value.next_step)


def test_a_broken_library_names_the_file_and_both_versions(tmp_path: Path) -> None:
    """A truncated copy, or one for another machine."""
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"not a library")
    with pytest.raises(NativeLibraryError, match="TensorFlow could not load the op library") as error:
        native._load(broken, "2.21.0")
    assert error.value.where == str(broken)
    assert "invalid ELF header" in str(error.value) or "file too short" in str(error.value)
    assert "built" in str(error.value.expected)
    assert "--force-reinstall" in str(error.value.next_step)


def test_the_error_is_an_import_error_and_survives_a_process_boundary() -> None:
    """Code that probes for recgraph catches ImportError; workers send their errors back pickled."""
    error = NativeLibraryError("broken", where="a.so", found="1", expected="2", next_step="mend it")
    assert isinstance(error, RecgraphError)
    assert isinstance(error, ImportError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_without_details_is_one_line() -> None:
    """Nothing is printed for what is not known."""
    assert str(RecgraphError("no such tree")) == "no such tree [recgraph]"
