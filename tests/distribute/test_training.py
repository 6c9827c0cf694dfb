"""`recgraph train` with several workers: the weights of one machine, one progress, one run folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from recgraph.data import write_treebank
from recgraph.train.history import read_log
from recgraph.train.run import load, prepare
from recgraph.train.settings import Settings
from recgraph.train.trainer import Trainer
from recgraph_command import main

HYPER = {"embedding": 8, "hidden": 8, "dropout": 0.3, "batch_size": 10}
OPTIONS = [text for name, value in HYPER.items() for text in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a treebank whose last batch is smaller than the others."""
    folder = tmp_path_factory.mktemp("bank")
    write_treebank(folder, (123, 12, 12), seed=3)
    return folder


def command(out: Path, bank: Path, *options: str) -> list[str]:
    """A command line."""
    words = ["train", "--model", "tree_rnn", "--data", str(bank), "--out", str(out), *OPTIONS, "--json", *options]
    return [sys.executable, "-m", "recgraph_command", *words]


def children(pid: int) -> list[int]:
    """The processes that a process has started, in order."""
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def records(process: subprocess.Popen[str]) -> Iterator[dict[str, object]]:
    """The epochs of a training as they are printed."""
    assert process.stdout is not None
    return (json.loads(line) for line in process.stdout)


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_bit(bank: Path, tmp_path: Path) -> None:
    """Two workers, one of them killed in the middle: the same weights, to the last bit, as one process undisturbed."""
    epochs = 6
    options = ["--workers", "2", "--deterministic", "--max-restarts", "1", "--epochs", str(epochs)]
    errors = tmp_path / "errors"
    with (
        errors.open("w") as file,
        subprocess.Popen(
            command(tmp_path / "two", bank, *options), stdout=subprocess.PIPE, stderr=file, text=True
        ) as process,
    ):
        printed = []
        for record in records(process):
            printed.append(record["epoch"])
            if printed == [1]:
                os.kill(children(process.pid)[1], signal.SIGKILL)
    assert process.returncode == 0
    assert "worker 1 was ended by SIGKILL; all workers start again (restart 1 of 1)" in errors.read_text()
    assert sorted(set(printed)) == list(range(1, epochs + 1))
    assert [record["epoch"] for record in read_log(tmp_path / "two" / "log.jsonl")] == list(range(1, epochs + 1))

    settings = Settings("tree_rnn", str(bank.resolve()), epochs=epochs, hyper=HYPER, deterministic=True)
    Trainer(prepare(tmp_path / "one", settings)).fit(lambda sums: None, lambda record: None)
    one, two = load(tmp_path / "one"), load(tmp_path / "two")
    for mine, theirs in zip(one.model.variables, two.model.variables, strict=True):
        assert mine.numpy().tobytes() == theirs.numpy().tobytes()


@pytest.mark.slow
def test_two_commands_with_hosts_train_as_one_machine(bank: Path, tmp_path: Path) -> None:
    """As on two machines: each has its own command, the chief has the run, and nobody sees a difference afterwards."""
    from recgraph_launch import free_addresses

    hosts = ",".join(free_addresses(2))
    started = [
        subprocess.Popen(
            command(tmp_path / f"run-{index}", bank, "--epochs", "2", "--hosts", hosts, "--index", str(index)),
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    outputs = [process.communicate(timeout=100)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert outputs[1] == ""
    assert not (tmp_path / "run-1").exists()
    settings = Settings("tree_rnn", str(bank.resolve()), epochs=2, hyper=HYPER)
    alone: list[dict[str, float]] = []
    Trainer(prepare(tmp_path / "alone", settings)).fit(lambda sums: None, alone.append)
    for line, record in zip(outputs[0].splitlines(), alone, strict=True):
        assert json.loads(line)["loss"] == pytest.approx(record["loss"], rel=1e-4)
    one, two = load(tmp_path / "alone"), load(tmp_path / "run-0")
    for mine, theirs in zip(one.model.variables, two.model.variables, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)
    done = CliRunner().invoke(main, ["evaluate", str(tmp_path / "run-0"), "--json"])
    assert json.loads(done.stdout)["trees"] == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", "2", "--hosts", "a:1,b:1"], "give one of them"),
        (["--index", "0"], "--index is this worker's place in --hosts"),
        (["--deterministic", "--engine", "parallel"], "does not give the same bits in every run"),
    ],
)
def test_options_that_contradict_each_other(options: list[str], message: str, bank: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["train", "--data", str(bank), "--out", str(tmp_path / "run"), *options])
    assert done.exit_code != 0
    assert message in done.output
    assert not (tmp_path / "run").exists()
