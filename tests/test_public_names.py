"""What is there after `import recgraph`, and what a user sees of it."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import recgraph as rg


def test_the_version_is_that_of_the_distribution() -> None:
    assert rg.__version__.count(".") >= 1


@pytest.mark.parametrize("name", ["data.Vocabulary", "models.MODELS", "testing.counters", "errors.RecgraphError"])
def test_modules_are_there_without_being_imported(name: str) -> None:
    """In a process in which nobody else has imported them."""
    program = f"import recgraph as rg; rg.{name}"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_completion_shows_public_names_alone() -> None:
    assert {"SubGraph", "function", "subgraph", "steps", "data", "testing", "__version__"} <= set(dir(rg))
    assert not {"contextlib", "importlib", "native", "watch", "coexec", "core", "tf_private"} & set(dir(rg))
    assert all(hasattr(rg, name) for name in dir(rg))


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'recgraph' has no attribute 'subgrph'"):
        rg.subgrph  # noqa: B018


# Modules with names for users; of some the package has a function of the same name.
PUBLIC = ("batch", "data", "distribute", "errors", "keras", "levels", "models", "speculate", "testing", "trees")


@pytest.mark.parametrize("name", PUBLIC)
def test_completion_in_a_module_shows_public_names_alone(name: str) -> None:
    module = importlib.import_module(f"recgraph.{name}")
    shown = set(dir(module))
    assert shown == {*module.__all__, "__doc__", "__name__"}
    assert all(hasattr(module, name) for name in shown)


def test_every_error_is_public() -> None:
    kinds = {
        name
        for name, kind in vars(rg.errors).items()
        if isinstance(kind, type) and kind.__module__ == "recgraph.errors"
    }
    assert kinds == set(rg.errors.__all__)
