"""The libraries under sanitizers: with `--sanitizers`, as it takes some minutes.

Both run under ThreadSanitizer and AddressSanitizer. What TensorFlow, which is not compiled with them, hands from thread
to thread is told to the first by `cc/core/stretch.h`.
"""

from __future__ import annotations

import faulthandler
import sys
from pathlib import Path
from typing import Final

import pytest
from sanitizers import DEVICE, OPERATIONS, run, sanitized

from tests import sampling

OF_THE_DEVICE: Final = (
    "coexec/test_threads.py",
    "coexec/test_bystanders.py",
    "coexec/test_execution.py",
    "coexec/test_steps.py",
    "coexec/test_run_ahead_errors.py",
    "coexec/test_mid_step.py",
)
TESTS: Final = {
    ("thread", DEVICE): OF_THE_DEVICE,
    ("address", DEVICE): OF_THE_DEVICE,
    ("address", OPERATIONS): (
        "batch/test_ways.py",
        "batch/test_faults.py",
        "core/test_random_trees.py",
        "core/test_breaking_off.py",
        "batch/test_random_effects.py",
        "optimize/test_bodies.py",
        "optimize/test_random_bodies.py",
    ),
    # Several threads, steps that end early, and calls that wait for each other.
    ("thread", OPERATIONS): (
        "core/test_breaking_off.py",
        "core/test_state.py::test_calls_on_two_threads_take_turns",
        "core/test_state.py::test_a_call_that_waits_for_its_turn_can_be_cancelled",
        "core/test_state.py::test_calls_are_cancelled_at_any_moment_of_their_turns",
        "core/test_state.py::test_python_in_a_body_may_call_it_again",
        "core/test_failures_at_run_time.py::test_a_session_with_a_timeout",
        "core/test_failures_at_run_time.py::test_a_loop_of_calls_is_cancelled",
        "core/test_failures_at_run_time.py::test_a_data_set_that_is_dropped_while_it_runs",
        "batch/test_faults.py::test_the_same_input_gives_the_same_bits",
        "batch/test_faults.py::test_a_step_that_is_cancelled",
        "batch/test_faults.py::test_a_recorded_step_that_is_cancelled",
        "batch/test_ways.py::test_a_step_is_cancelled",
        "core/test_memoize.py::test_random_recursions",
        "core/test_memoize.py::test_two_threads",
        "core/test_memoize.py::test_an_error_in_the_middle",
        "core/test_memoize.py::test_an_error_in_the_gradient",
        "core/test_memoize.py::test_a_circle_that_is_entered_at_two_places",
        "core/test_memoize.py::test_a_step_is_cancelled",
    ),
}


if sampling.SANITIZERS:

    @pytest.mark.slow
    @pytest.mark.parametrize(("name", "library"), list(TESTS))
    def test_a_library_under_a_sanitizer(name: str, library: str, tmp_path: Path) -> None:
        """Nothing is reported, and the tests pass."""
        faulthandler.cancel_dump_traceback_later()
        copy, environment = sanitized(name, library, tmp_path)
        tests = [f"tests/{test}" for test in TESTS[name, library]]
        command = ["setarch", "-R", sys.executable, "-m", "pytest", "-q", "-o", "faulthandler_timeout=0", *tests]
        assert "passed" in run(command, copy, **environment)
        assert [path.read_text(encoding="utf-8") for path in tmp_path.glob("report.*")] == []
