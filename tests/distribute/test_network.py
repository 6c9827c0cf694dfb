"""Hosts as network namespaces: whatever happens to one of them, the training ends as one that nothing has happened to.

As root, with `--all`; `--faults` says how many faults there are, each in a training of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from recgraph.benchmarks.namespaces import Hosts, NoNamespacesError
from recgraph.data import write_treebank
from recgraph.train.run import load
from tests import sampling

WORKERS = 3
FAULTS = sampling.count("faults", 8)
# Of a training that has to start anew several times on a machine with few cores.
SECONDS = 400
OPTIONS = [
    *("--model", "tree_rnn", "--embedding", "8", "--hidden", "8", "--dropout", "0.3", "--batch-size", "10"),
    *("--epochs", "8", "--patience", "8", "--deterministic", "--json", "--max-restarts", "9"),
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
        self.hosts, self.out, self._bank = hosts, out, bank
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 it is closed at the end of the block
        self.start()

    def start(self) -> None:
        """Gives the command of each host."""
        self.launchers = []
        for index in range(WORKERS):
            command = [sys.executable, "-m", "recgraph_command", "train", "--data", str(self._bank)]
            command += ["--out", str(self.out), *OPTIONS]
            command += ["--hosts", ",".join(self.hosts.addresses), "--index", str(index)]
            started = subprocess.Popen(self.hosts.command(index, command), stdout=self._log, stderr=self._log)
            self.launchers.append(started)

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

    def finish(self, status: int = 0) -> str:
        """Until all have ended, with some status; what they said."""
        until = time.monotonic() + SECONDS
        statuses = [launcher.wait(max(1.0, until - time.monotonic())) for launcher in self.launchers]
        self._log.seek(0)
        said = self._log.read()
        assert statuses == [status] * WORKERS, said
        return said


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


def damage(training: Training, index: int) -> None:
    """The newest checkpoint is lost by its disk, and then a worker: all go on from the one before."""
    training.wait_for_epoch(3)
    newest = max(training.out.glob("checkpoints/*.index"))
    newest.write_bytes(b"\0" * newest.stat().st_size)
    kill(training, index)


def fill(training: Training, index: int) -> None:
    """The disk of the run is full: all end with the chief's message. With room, the same commands go on."""
    filler = training.out.parent / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"\0" * 4096):
            pass
    said = training.finish(status=1)
    assert "the chief, cannot go on" in said
    filler.unlink()
    training.start()


KINDS: list[Callable[[Training, int], None]] = [kill, stop, kill_the_chief, cut_for_long, cut_for_a_moment, slow_down]
KINDS += [damage, fill]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Three of them."""
    try:
        with Hosts(WORKERS) as made:
            yield made
    except NoNamespacesError as error:
        pytest.skip(f"no namespaces: {error}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder that is a small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def undisturbed(hosts: Hosts, bank: Path, tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    """The weights of a training to which nothing happens."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    with Training(hosts, bank, out) as training:
        training.finish()
    return [variable.numpy() for variable in load(out).model.variables]


@pytest.mark.parametrize("number", range(FAULTS))
def test_a_fault_changes_nothing(
    number: int, hosts: Hosts, bank: Path, undisturbed: list[np.ndarray], disk: Path
) -> None:
    """Of a random kind, of a random worker, at a random moment: to the last bit the weights of the undisturbed one."""
    source = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    with Training(hosts, bank, disk / "run") as training:
        training.wait_for_epoch(source.randint(0, 6))
        time.sleep(source.uniform(0.0, 1.0))
        kind(training, source.randrange(WORKERS))
        training.finish()
    for found, expected in zip(load(disk / "run").model.variables, undisturbed, strict=True):
        np.testing.assert_array_equal(found, expected)
    left = subprocess.run(["pgrep", "-f", str(disk)], capture_output=True, text=True, check=False).stdout
    assert not left
