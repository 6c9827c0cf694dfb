"""Workers that end, fail, stop, or lose their launcher: all of them end or start again, and nothing is left over.

The workers are small programs without TensorFlow; `test_faults.py` does the same to real ones.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import recgraph_launch
from recgraph_launch import on_this_machine, supervise

# What each worker runs first.
PRELUDE = """
import json, os, pathlib, signal, subprocess, sys, time
config = json.loads(os.environ["TF_CONFIG"])
index, restart = config["task"]["index"], int(os.environ["RECGRAPH_RESTART"])
folder = pathlib.Path(sys.argv[1])
def put(name, pid):  # at once: who sees the file may read it
    (folder / ("new-" + name)).write_text(str(pid))
    (folder / ("new-" + name)).rename(folder / name)
put(f"pid-{index}-{restart}", os.getpid())
def others_are_there():
    while len(list(folder.glob(f"pid-*-{restart}"))) < len(config["cluster"]["worker"]):
        time.sleep(0.01)
"""


def launch(folder: Path, program: str, count: int = 2, restarts: int = 0) -> tuple[int, list[str]]:
    """Runs a program as workers; the exit status, and what was said."""
    said: list[str] = []
    command = [sys.executable, "-c", PRELUDE + program, str(folder)]
    return supervise(on_this_machine(count, command, restarts), said.append), said


def pids(folder: Path) -> list[int]:
    """Of all processes that have written one."""
    return [int(path.read_text()) for path in folder.glob("pid-*")]


def is_alive(pid: int) -> bool:
    """Does a process run? A zombie, whom nobody has waited for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Waits for something."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_every_worker_has_a_place_of_its_own(tmp_path: Path) -> None:
    """And all know the same cluster."""
    program = "(folder / f'config-{index}').write_text(json.dumps(config['cluster']))"
    assert launch(tmp_path, program, 3) == (0, [])
    clusters = {path.read_text() for path in tmp_path.glob("config-*")}
    assert len(clusters) == 1
    assert len(list(tmp_path.glob("config-*"))) == 3
    assert clusters.pop().count("127.0.0.1:") == 3


def test_output_says_which_worker_it_is_from(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The first one's is left as it is: it may be a progress bar, or JSON for another program."""
    assert launch(tmp_path, "print('out', index); print('err', index, file=sys.stderr)")[0] == 0
    captured = capfd.readouterr()
    assert sorted(captured.out.splitlines()) == ["[1] out 1", "out 0"]
    assert sorted(captured.err.splitlines()) == ["[1] err 1", "err 0"]


def test_a_failure_ends_all_workers(tmp_path: Path) -> None:
    """Also one that would run for ever."""
    status, said = launch(tmp_path, "others_are_there(); sys.exit(3) if index else time.sleep(1000)")
    assert status == 3
    assert said == ["worker 1 ended with status 3; all workers have ended. --max-restarts N would start them again"]
    assert not any(map(is_alive, pids(tmp_path)))


def test_all_start_again_and_end_well(tmp_path: Path) -> None:
    program = (
        "others_are_there(); os.kill(os.getpid(), 9) if index and restart < 2 else time.sleep(1000 * (restart < 2))"
    )
    status, said = launch(tmp_path, program, restarts=3)
    assert status == 0
    assert said == [
        f"worker 1 was ended by SIGKILL; all workers start again (restart {number} of 3)" for number in (1, 2)
    ]
    assert len(pids(tmp_path)) == 6


def test_restarts_have_an_end(tmp_path: Path) -> None:
    status, said = launch(tmp_path, "others_are_there(); os.kill(os.getpid(), 11) if index else time.sleep(1000)", 2, 1)
    assert status == 128 + signal.SIGSEGV
    assert (
        said[-1]
        == "worker 1 was ended by SIGSEGV; it has been restarted 1 times, and that is all --max-restarts allows"
    )


def test_what_restarting_cannot_mend_is_not_restarted(tmp_path: Path) -> None:
    """A wrong option would be as wrong the next time."""
    said: list[str] = []
    plan = on_this_machine(2, [sys.executable, "-c", PRELUDE + "sys.exit(2)", str(tmp_path)], 3, frozenset({1, 2}))
    assert supervise(plan, said.append) == 2
    assert said == []


def test_the_cause_is_named_and_not_who_noticed_first(tmp_path: Path) -> None:
    """Worker 0 sees the connection break and ends at once; worker 1 was the one that failed, and takes a moment."""
    program = "others_are_there(); time.sleep(0.3 * index); sys.exit(4 if index else 75)"
    status, (said,) = launch(tmp_path, program)
    assert status == 4
    assert said.startswith("worker 1 ended with status 4;")


def test_a_port_that_was_taken_meanwhile_is_no_failure(tmp_path: Path) -> None:
    """Ports are free when they are chosen; another process may be faster. The workers get others."""
    program = "first = not (folder / 'tried').exists(); others_are_there(); index or (folder / 'tried').touch();"
    status, said = launch(tmp_path, program + "sys.exit(69 if first and not index else 0)")
    assert (status, said) == (0, [])


def test_a_stopped_worker_ends_with_the_others(tmp_path: Path) -> None:
    """SIGTERM does not reach it, and one that ignores SIGTERM does not care."""
    program = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
others_are_there()
if index == 1: os.kill(os.getpid(), signal.SIGSTOP)
if index == 2: time.sleep(0.3); sys.exit(3)
time.sleep(1000)"""
    start = time.monotonic()
    assert launch(tmp_path, program, 3)[0] == 3
    assert time.monotonic() - start < recgraph_launch.GRACE_SECONDS + 15
    assert not any(map(is_alive, pids(tmp_path)))


def test_a_worker_that_stays_stopped_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else would end it: it is not dead, and the others may wait without a bound. A short stop does no harm."""
    monkeypatch.setattr(recgraph_launch, "STOPPED_SECONDS", 2.0)
    short = """
others_are_there()
if index == 0:
    other = int((folder / f"pid-1-{restart}").read_text())
    os.kill(other, signal.SIGSTOP); time.sleep(0.2); os.kill(other, signal.SIGCONT)
else: time.sleep(1)"""
    assert launch(tmp_path, short) == (0, [])
    for path in tmp_path.iterdir():
        path.unlink()
    long = """
others_are_there()
if index and restart == 0: os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(20 * (not restart))"""
    status, said = launch(tmp_path, long, restarts=1)
    assert status == 0
    assert said == ["worker 1 was stopped, and did not go on for 2 seconds; all workers start again (restart 1 of 1)"]


def test_what_a_worker_has_started_ends_with_it(tmp_path: Path) -> None:
    """A loader process, for instance, also after the worker itself has ended well."""
    program = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
put(f"pid-child-{index}", child.pid)"""
    assert launch(tmp_path, program)[0] == 0
    assert len(pids(tmp_path)) == 4
    assert until(lambda: not any(map(is_alive, pids(tmp_path))))


LAUNCHER = """
import sys
from recgraph_launch import on_this_machine, supervise
raise SystemExit(supervise(on_this_machine(2, sys.argv[1:], 5), print))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_workers_end_with_their_launcher(number: signal.Signals, tmp_path: Path) -> None:
    """By Ctrl-C, by a scheduler that ends the job, and by kill -9, of which it does not even know."""
    worker = [sys.executable, "-c", PRELUDE + "time.sleep(1000)", str(tmp_path)]
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, *worker])
    try:
        assert until(lambda: len(pids(tmp_path)) == 2)
        os.kill(launcher.pid, number)
        assert launcher.wait(20) == (-number if number == signal.SIGKILL else 128 + number)
        assert until(lambda: not any(map(is_alive, pids(tmp_path))))
    finally:
        launcher.kill()


def test_a_program_that_is_not_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    assert supervise(on_this_machine(2, [str(tmp_path / "no-such")], 0), said.append) == 1
    assert f"{tmp_path / 'no-such'} cannot be started: No such file or directory" in capfd.readouterr().err
