"""docs/distribution.md does what it shows: each block is run, on processes of this machine in place of several."""

from __future__ import annotations

import os
import shlex
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from recgraph.data import write_treebank
from recgraph_launch import free_addresses

PAGE = Path(__file__).parents[2] / "docs/distribution.md"
SECONDS = 200

# A stand-in for Slurm's: two tasks on this machine.
SRUN = """#!/bin/sh
export SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=localhost SLURM_STEP_TASKS_PER_NODE=2
SLURM_PROCID=1 "$@" & SLURM_PROCID=0 "$@"; first=$?; wait $! && exit $first
"""


def page_blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    parts = PAGE.read_text(encoding="utf-8").split("```")[1::2]
    return [part.partition("\n")[2] for part in parts if part.partition("\n")[0] == language]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader is who has typed the first line: there is a treebank, and `recgraph` is a command."""
    write_treebank(tmp_path / "treebank", (60, 10, 10), seed=0)
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in {
        "recgraph": f'#!/bin/sh\nexec {sys.executable} -m recgraph_command "$@"\n',
        "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        "srun": SRUN,
    }.items():
        (commands / name).write_text(text)
        (commands / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*commands: str) -> list[str]:
    """Runs shell commands at the same time; what each printed."""
    started = [
        subprocess.Popen(["sh", "-ec", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    printed = []
    for process in started:
        with process:
            try:
                output, errors = process.communicate(timeout=SECONDS)
            finally:
                process.kill()
        assert process.returncode == 0, errors
        printed.append(output)
    return printed


def smaller(block: str) -> str:
    """A block with a model that takes no time."""
    return block.replace("recgraph train ", "recgraph train --model tree_rnn --embedding 4 --hidden 4 ")


@pytest.mark.slow
def test_on_one_machine(folder: Path) -> None:
    (output,) = run(smaller(page_blocks("sh")[0]))
    assert "runs/two: test, 20 trees" in output


@pytest.mark.slow
def test_a_program_of_ones_own(folder: Path) -> None:
    (folder / "my_training.py").write_text(page_blocks("python")[0], encoding="utf-8")
    assert run(page_blocks("sh")[1]) == page_blocks("text")[:1]


@pytest.mark.slow
def test_a_step_under_the_decorator(folder: Path) -> None:
    (folder / "my_step.py").write_text(page_blocks("python")[1], encoding="utf-8")
    assert run(page_blocks("sh")[2]) == page_blocks("text")[1:]


POWER = """
import tensorflow as tf, recgraph as rg
def power(n):
    with rg.SubGraph("power", [tf.TensorSpec([], tf.int32)], tf.TensorSpec([1, 1])) as power:
        n_ = power.input(tf.int32, name="n")
        power.output(tf.cond(n_ == 0, lambda: tf.ones([1, 1]), lambda: power(n_ - 1) @ weight))
    return power(n)
"""


@pytest.mark.slow
def test_on_a_server(folder: Path) -> None:
    """The hosts a and b are ports of this machine."""
    hosts = free_addresses(2)
    servers = [
        subprocess.Popen(["sh", "-c", f"exec {line.replace('a:2222,b:2222', ','.join(hosts))}"], stdout=subprocess.PIPE)
        for line in page_blocks("sh")[5].splitlines()
    ]
    try:
        for server in servers:
            assert server.stdout is not None
            assert b"server" in server.stdout.readline()
        block = page_blocks("python")[2].replace("a:2222", hosts[0]).replace("b:2222", hosts[1])
        (folder / "program.py").write_text(f"{POWER}{block}print(float(result[0, 0]), result.backing_device)\n")
        (output,) = run("python program.py")
        assert output.split()[0] == "5.0625"
        assert "/task:1/" in output
    finally:
        for server in servers:
            server.kill()
            server.communicate()


@pytest.mark.slow
def test_on_several_machines(folder: Path) -> None:
    """The hosts a and b are ports of this machine."""
    block = smaller(page_blocks("sh")[3]).replace("a:2222,b:2222", ",".join(free_addresses(2)))
    commands = block.splitlines()
    assert len(commands) == 2
    run(*commands)
    assert (folder / "runs/hosts/log.jsonl").read_text().count("\n") == 2


def two_ports() -> int:
    """The first of two that follow each other and are free."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("", port + 1))
            except OSError:
                continue
            return port


@pytest.mark.slow
def test_in_a_slurm_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECGRAPH_PORT", str(two_ports()))
    run(smaller(page_blocks("sh")[4]))
    assert (folder / "runs/slurm/log.jsonl").read_text().count("\n") == 2


def test_all_blocks_are_run() -> None:
    """A new one needs a test above."""
    assert [len(page_blocks(language)) for language in ("sh", "python", "text")] == [6, 3, 2]
    assert shlex.split(page_blocks("sh")[1]) == ["recgraph", "launch", "2", "--", "python", "my_training.py"]


def test_a_step_that_is_not_a_graph_is_refused() -> None:
    """As the page says; on one worker it is no matter."""
    import tensorflow as tf

    from recgraph.distribute import Cluster, ClusterError
    from recgraph.distribute.cluster_spec import WorkerAddress

    with pytest.raises(ClusterError, match=r"works in the graph of a tf\.function[\s\S]*with cluster\.scope"):
        Cluster(WorkerAddress(("a:1", "b:1"), 0)).mean([tf.ones([])], [tf.Variable(1.0)], tf.ones([]), tf.constant(1))
