"""Imports the examples, which are in no package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def load() -> Callable[[str], Any]:
    """Gives an example by its name, as a module."""

    def load(name: str) -> Any:
        if f"examples.{name}" not in sys.modules:
            spec = importlib.util.spec_from_file_location(f"examples.{name}", EXAMPLES / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        return sys.modules[f"examples.{name}"]

    return load
