"""What goes wrong with real workers ends in one message on each of them, soon, and with nobody left over."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import recgraph_command
from recgraph.data import write_treebank
from recgraph.distribute import WorkerLostError, cluster
from recgraph_launch import free_addresses

SMALL = ["--model", "tree_rnn", "--embedding", "4", "--hidden", "4", "--epochs", "1", "--json"]
SECONDS = 150  # of a machine that has much else to do; what is tested would wait for ever


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a treebank."""
    folder = tmp_path_factory.mktemp("bank")
    write_treebank(folder, (30, 5, 5), seed=3)
    return folder


def start(bank: Path, out: Path, *options: str, largest_file: int | None = None) -> subprocess.Popen[str]:
    """Starts `recgraph train` in a session of its own, so that what it leaves over can be found."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file or 0, resource.RLIM_INFINITY))

    command = [sys.executable, "-m", "recgraph_command", "train", "--data", str(bank), "--out", str(out)]
    return subprocess.Popen(
        [*command, *SMALL, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        preexec_fn=limit if largest_file else None,
    )


def outcome(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status, and what was written to standard error."""
    with process:  # its pipes are closed, whatever happens
        try:
            _, errors = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    return process.returncode, errors


def workers_of(folder: Path) -> list[str]:
    """The processes whose command names this folder."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [command for command in commands if str(folder) in command]


def test_a_worker_that_never_comes_is_named(bank: Path, tmp_path: Path) -> None:
    """TensorFlow waits for an hour, in C++. Here the time has a bound, and the message says who is missing."""
    chief, missing = free_addresses(2)
    options = ["--hosts", f"{chief},{missing}", "--index", "0", "--start-timeout", "4"]
    status, errors = outcome(start(bank, tmp_path / "run", *options))
    assert status == 75
    assert "Error: the cluster is not complete after 4 seconds [worker-lost]" in errors
    assert f"no answer from worker 1 ({missing})" in errors
    assert not workers_of(tmp_path)


HANGS = """
import time, tensorflow as tf, recgraph as rg
cluster = rg.distribute(timeout=3, start_timeout=100)
cluster.barrier()
time.sleep(100 if cluster.index == 2 else 0)
with cluster.watched():
    cluster.collectives.sum(tf.zeros([1]))
"""


def test_a_worker_that_hangs_is_named() -> None:
    """Its server answers, since that is no part of the program that sleeps; and the others wait as well."""
    command = [sys.executable, "-m", "recgraph_command", "launch", "3", "--", sys.executable, "-c", HANGS]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
    assert done.returncode == 75
    said = [line for line in done.stderr.splitlines() if "[worker-lost]" in line]
    assert said
    for line in said:
        assert "Error: worker 2 (127.0.0.1:" in line
        assert "hangs, or has other work: its server answers, but it takes no part; worker " in line


def damaged(bank: Path, out: Path) -> None:
    """A run whose only checkpoint cannot be read."""
    assert outcome(start(bank, out))[0] == 0
    for path in (out / "checkpoints").iterdir():
        path.write_bytes(b"\0" * path.stat().st_size)


def lost_under_a_program() -> None:
    """A program of a user's has lost a worker."""
    cluster._end_by(sys.excepthook)(WorkerLostError, WorkerLostError("worker 1 does not answer"), None)


def lost_under_a_command() -> None:
    """The same for a command of ours."""

    def work() -> None:
        raise recgraph_command.Failure("worker 1 does not answer", WorkerLostError.exit_code)

    recgraph_command._as_worker(work)


@pytest.mark.parametrize("end", [lost_under_a_program, lost_under_a_command])
def test_a_worker_that_lost_another_ends_at_once_though_nobody_reads_why(
    end: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Python would end as usual, and TensorFlow would wait for the worker that is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    ended: list[int] = []
    with (
        contextlib.suppress(BrokenPipeError),
        os.fdopen(writing, "w", buffering=1) as stderr,
        monkeypatch.context() as m,
    ):
        m.setattr(os, "_exit", ended.append)
        m.setattr(sys, "stderr", stderr)
        end()
    assert ended == [WorkerLostError.exit_code]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["a checkpoint is damaged", "a disk is full"])
def test_what_fails_on_the_chief_ends_all_with_its_message(fault: str, bank: Path, tmp_path: Path) -> None:
    """And starting again would not mend it, so it is not tried."""
    out = tmp_path / "run"
    if fault == "a checkpoint is damaged":
        damaged(bank, out)
    size = None if fault == "a checkpoint is damaged" else 3000
    process = start(bank, out, "--workers", "2", "--max-restarts", "2", "--epochs", "2", largest_file=size)
    status, errors = outcome(process)
    assert status == 1
    if size is None:
        assert "Error: every checkpoint in this folder is damaged [checkpoint]" in errors
        assert "the chief, cannot go on: CheckpointError: every checkpoint in this folder is damaged" in errors
    else:
        assert f"Error: [Errno 27] File too large: '{out / 'curve.png'}'" in errors
        assert "the chief, cannot go on: OSError: [Errno 27] File too large" in errors
    assert "all workers start again" not in errors
    assert not workers_of(tmp_path)


@pytest.mark.slow
def test_workers_with_other_data_do_not_train(bank: Path, tmp_path: Path) -> None:
    """A copy of the data that was not brought up to date would be learned in part, and nobody would know."""
    other = Path(shutil.copytree(bank, tmp_path / "other"))
    lines = (other / "dev.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (other / "dev.txt").write_text("".join(lines[1:]), encoding="utf-8")
    hosts = free_addresses(2)
    started = [
        start(data, tmp_path / "run", "--hosts", ",".join(hosts), "--index", str(index))
        for index, data in enumerate((bank, other))
    ]
    ended = list(map(outcome, started))
    for status, errors in ended:
        assert status == 1
        assert "Error: the workers do not have the same dev data [disagreement]" in errors
        assert f"found:     worker 1 ({hosts[1]}): " in errors
    assert not workers_of(tmp_path)


def messages(errors: str) -> Sequence[str]:
    """The lines that a launcher said."""
    return [line for line in errors.splitlines() if "all workers start again" in line]


@pytest.mark.slow
def test_a_stopped_worker_is_restarted(bank: Path, tmp_path: Path) -> None:
    """By SIGSTOP, of which nothing hears; and the training ends as if nothing had been."""
    options = ["--workers", "2", "--epochs", "12", "--patience", "12", "--max-restarts", "1"]
    process = start(bank, tmp_path / "run", *options)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[1]), signal.SIGSTOP)
        status, errors = outcome(process)
    finally:
        process.kill()
    assert status == 0
    assert len(messages(errors)) == 1
    log = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert len(log) == 12
    assert not workers_of(tmp_path)
