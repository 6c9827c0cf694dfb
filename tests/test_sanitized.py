"""The libraries under sanitizers: with `--sanitizers`, as it takes some minutes.

The device of co-execution runs under ThreadSanitizer and AddressSanitizer, the operations under the second. Threads of
the device are told apart from those of TensorFlow by `cc/core/stretch.h`.
"""

from __future__ import annotations

import faulthandler
import sys
from pathlib import Path
from typing import Final

import pytest
from sanitizers import DEVICE, OPERATIONS, run, sanitized

from tests import sampling

TESTS: Final = {
    DEVICE: (
        "coexec/test_threads.py",
        "coexec/test_bystanders.py",
        "coexec/test_execution.py",
        "coexec/test_steps.py",
        "coexec/test_run_ahead_errors.py",
        "coexec/test_mid_step.py",
    ),
    OPERATIONS: (
        "batch/test_ways.py",
        "batch/test_faults.py",
        "core/test_random_trees.py",
        "batch/test_random_effects.py",
        "optimize/test_bodies.py",
        "optimize/test_random_bodies.py",
    ),
}


if sampling.SANITIZERS:

    @pytest.mark.slow
    @pytest.mark.parametrize(("name", "library"), [("thread", DEVICE), ("address", DEVICE), ("address", OPERATIONS)])
    def test_a_library_under_a_sanitizer(name: str, library: str, tmp_path: Path) -> None:
        """Nothing is reported, and the tests pass."""
        faulthandler.cancel_dump_traceback_later()
        copy, environment = sanitized(name, library, tmp_path)
        tests = [f"tests/{name}" for name in TESTS[library]]
        command = ["setarch", "-R", sys.executable, "-m", "pytest", "-q", "-o", "faulthandler_timeout=0", *tests]
        assert "passed" in run(command, copy, **environment)
        assert [path.read_text(encoding="utf-8") for path in tmp_path.glob("report.*")] == []
