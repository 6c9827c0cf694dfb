"""What all tests share: a quiet, CPU-only TensorFlow and reproducible examples from hypothesis."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests import sampling, tiers

os.environ.setdefault("RECGRAPH_DEFECTS", "raise")  # an exception of ours that the library would contain fails a test
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
# matplotlib draws into files; a test never opens a window.
os.environ.setdefault("MPLBACKEND", "Agg")

# A shell has its background jobs ignore Ctrl-C, which tests raise.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A first example compiles and traces, so hypothesis's own deadline would measure TensorFlow's start.
settings.register_profile(
    "recgraph",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("recgraph")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares which tests and how many samples can be asked for."""
    tiers.add_options(parser)
    sampling.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Takes what was asked for; before modules of tests are imported."""
    sampling.configure(config)
    if sampling.is_seeded():
        settings.register_profile("explore", settings.get_profile("recgraph"), derandomize=False)
        settings.load_profile("explore")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Says how to run the same tests again."""
    return tiers.header(config)


@pytest.hookimpl(trylast=True)  # a sample is one of what marks have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves those tests that were asked for."""
    tiers.select(config, items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves out what takes long."""
    if item.get_closest_marker("long") and not sampling.ALL:
        pytest.skip("takes minutes: --all")
    tiers.begin(item)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts what no time was left for."""
    tiers.count(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what no time was left for."""
    tiers.summary(terminalreporter)


@pytest.fixture(autouse=True)
def _finished_anew() -> None:
    """No test is given a program that another one has finished: with other rules, maybe."""
    finishing = sys.modules.get("recgraph.core.finishing")
    if finishing is not None:
        finishing.kept.clear()


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest) -> None:
    """Random numbers start the same in every test: also Python's, from which Keras has its seeds."""
    random.seed(0)
    np.random.seed(0)
    tf = getattr(request.module, "tf", None)
    if tf is not None:
        tf.random.set_seed(0)
