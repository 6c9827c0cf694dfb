"""Hosts as network namespaces: whatever happens to one of them, the training ends as one that nothing has happened to.

As root, with RECGRAPH_TEST_ALL=1; `RECGRAPH_TEST_FAULTS` says how many faults there are, each in a training of its own.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from recgraph.benchmarks.namespaces import Hosts, NoNamespacesError
from recgraph.data import write_treebank
from recgraph.train.run import load

WORKERS = 3
FAULTS = int(os.environ.get("RECGRAPH_TEST_FAULTS", "6"))
# Of a training that has to start anew several times on a machine with few cores.
SECONDS = 400
OPTIONS = [
    *("--model", "tree_rnn", "--embedding", "8", "--hidden", "8", "--dropout", "0.3", "--batch-size", "10"),
    *("--epochs", "8", "--patience", "8", "--engine", "batched", "--json", "--max-restarts", "9"),
    *("--timeout", "15", "--start-timeout", "60"),
]

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a treebank."""
    folder = tmp_path_factory.mktemp("bank")
    write_treebank(folder, (400, 12, 12), seed=3)
    return folder


class Training:
    """A training on hosts, each with its own launcher. At the end of the `with` block nothing of it is left."""

    def __init__(self, hosts: Hosts, bank: Path, out: Path):
        """Starts it."""
        self.hosts, self.out = hosts, out
        self._log = (out.parent / f"{out.name}.log").open("w+")
        self.launchers = []
        for index in range(WORKERS):
            command = [
                sys.executable,
                "-m",
                "recgraph_command",
                "train",
                "--data",
                str(bank),
                "--out",
                str(out),
                *OPTIONS,
            ]
            command += ["--hosts", ",".join(hosts.addresses), "--index", str(index)]
            self.launchers.append(subprocess.Popen(hosts.command(index, command), stdout=self._log, stderr=self._log))

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *error: object) -> None:
        for launcher in self.launchers:
            launcher.kill()
            launcher.wait()
        self._log.close()

    def worker(self, index: int) -> int | None:
        """The process of a worker, if it runs now."""
        pid = self.launchers[index].pid  # `ip netns exec` becomes the command
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        return int(children[0]) if children else None

    def epochs(self) -> int:
        """How many are done."""
        log = self.out / "log.jsonl"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def wait_for_epoch(self, epoch: int) -> None:
        """Until it has come so far."""
        until = time.monotonic() + SECONDS
        while self.epochs() < epoch and time.monotonic() < until:
            time.sleep(0.1)

    def finish(self) -> None:
        """Until all have ended well."""
        until = time.monotonic() + SECONDS
        statuses = [launcher.wait(max(1.0, until - time.monotonic())) for launcher in self.launchers]
        self._log.seek(0)
        assert statuses == [0] * WORKERS, self._log.read()


def kill(training: Training, index: int) -> None:
    """kill -9."""
    if (pid := training.worker(index)) is not None:
        os.kill(pid, signal.SIGKILL)


def stop(training: Training, index: int) -> None:
    """SIGSTOP, and after some time, perhaps too late, it goes on."""
    if (pid := training.worker(index)) is not None:
        os.kill(pid, signal.SIGSTOP)


def kill_the_chief(training: Training, index: int) -> None:
    """The first worker, which writes the run."""
    kill(training, 0)


def cut_for_long(training: Training, index: int) -> None:
    """The host's network goes away for longer than anybody waits."""
    training.hosts.cut(index)
    time.sleep(25)
    training.hosts.mend(index)


def cut_for_a_moment(training: Training, index: int) -> None:
    """For so short that nobody need notice."""
    training.hosts.cut(index)
    time.sleep(1)
    training.hosts.mend(index)


def slow_down(training: Training, index: int) -> None:
    """The host's network is slow for some time."""
    training.hosts.slow_down(index, 300)
    time.sleep(8)
    training.hosts.speed_up(index)


KINDS: list[Callable[[Training, int], None]] = [kill, stop, kill_the_chief, cut_for_long, cut_for_a_moment, slow_down]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Three of them."""
    try:
        with Hosts(WORKERS) as made:
            yield made
    except NoNamespacesError as error:
        pytest.skip(f"no namespaces: {error}")


@pytest.fixture(scope="module")
def undisturbed(hosts: Hosts, bank: Path, tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    """The weights of a training to which nothing happens."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    with Training(hosts, bank, out) as training:
        training.finish()
    return [variable.numpy() for variable in load(out).model.variables]


@pytest.mark.parametrize("number", range(FAULTS))
def test_a_fault_changes_nothing(
    number: int, hosts: Hosts, bank: Path, undisturbed: list[np.ndarray], tmp_path: Path
) -> None:
    """Of a random kind, of a random worker, at a random moment: the weights are those of the undisturbed training."""
    source = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    with Training(hosts, bank, tmp_path / "run") as training:
        training.wait_for_epoch(source.randint(0, 6))
        time.sleep(source.uniform(0.0, 1.0))
        kind(training, source.randrange(WORKERS))
        training.finish()
    for found, expected in zip(load(tmp_path / "run").model.variables, undisturbed, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout
    assert not left
