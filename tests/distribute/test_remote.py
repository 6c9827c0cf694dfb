"""SubGraphs on a server in another process: they run there, and what cannot says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recgraph_launch import free_addresses

PROGRAM = Path(__file__).with_name("remote_program.py")
# TensorFlow's own, as somebody starts it who does not know of recgraph.
BARE = """
import sys, tensorflow as tf
server = tf.distribute.Server({"worker": sys.argv[1].split(",")}, "worker", 0)
print("ready", flush=True)
server.join()
"""


@pytest.fixture(scope="module")
def seen() -> Iterator[dict[str, Any]]:
    """What the program has seen."""
    hosts = free_addresses(2)
    commands = (
        [sys.executable, "-c", BARE, ",".join(hosts)],
        [sys.executable, "-m", "recgraph_command", "worker", "--hosts", ",".join(hosts), "--index", "1"],
    )
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for command in commands]
    try:
        for server in servers:
            assert server.stdout is not None
            assert server.stdout.readline()  # it is ready
        command = [sys.executable, str(PROGRAM), *hosts]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        yield json.loads(done.stdout.splitlines()[-1])
    finally:
        for server in servers:
            server.kill()
            server.communicate()


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_a_call_runs_on_the_server(seen: dict[str, Any], engine: str) -> None:
    """And so does its gradient, with either engine."""
    told = seen[engine]
    assert told["result"] == pytest.approx(1.5**4)
    assert told["gradient"] == pytest.approx(4 * 1.5**3)
    assert told["second"] == pytest.approx(12 * 1.5**2)
    assert told["rows"] == pytest.approx([1.0, 1.5, 2.25])
    assert told["on"].startswith("/job:worker/replica:0/task:1/")


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_a_graph_has_calls_on_the_server(seen: dict[str, Any], engine: str) -> None:
    result, gradient, on = seen[engine]["graph"]
    assert (result, gradient) == pytest.approx((1.5**4, 4 * 1.5**3))
    assert on.startswith("/job:worker/replica:0/task:1/")


def test_arguments_and_results_are_copied(seen: dict[str, Any]) -> None:
    assert seen["inputs"] == pytest.approx([13.0, 4.0, 6.0])


def test_a_server_without_our_operations_says_so(seen: dict[str, Any]) -> None:
    assert "the server /job:worker/replica:0/task:0 has not loaded recgraph's operations" in seen["bare"]
    assert "start it by `recgraph worker`" in seen["bare"]


def test_a_variable_of_another_process_is_named(seen: dict[str, Any]) -> None:
    """TensorFlow would run the call where the variable is, and nobody would know."""
    assert seen["elsewhere"].startswith("ScopeError: a call cannot use a variable of another process")


def test_a_program_that_is_connected_still_calls_here(seen: dict[str, Any]) -> None:
    assert seen["here"]["result"] == pytest.approx(1.5**4)
    assert "/job:worker" not in seen["here"]["on"]
