"""Mixed work for as long as is asked for, and whether the process stays flat: `python -m tests.soak --minutes 60`.

Training, serving out of a SavedModel, SubGraphs and functions that are made and dropped, threads, sub-interpreters,
signals, errors, large rows, and steps with threads beside them that read what they write. Prints memory, threads, open
files and how many programs and Python objects there are, and ends with an error if one of them grows.

TensorFlow by itself leaves a list for each operation that fails and for each thread that runs one, and the code of
functions that run operations below some others, in a graph or eagerly. How many lists it leaves is measured at the
start, without a line of ours; no more may be left. Code is not among the objects that can be counted.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

import recgraph as rg
from recgraph import native, tf_private
from recgraph.coexec import profile

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

# What may come and go between two looks: collectors, pools and caches that fill slowly.
SLACK = {"threads": 3, "files": 3, "programs": 24, "functions": 8, "objects": 40, "lists": 8}
# Of memory, KB a round and in all: TensorFlow keeps the kernels and the code of eager calls that it has seen, CPython a
# KB for each sub-interpreter, and malloc has holes, that of the largest rows' size first.
KB_A_ROUND, KB = 40.0, 8192.0
# Rounds before it counts: each size of rows twice.
FIRST = 6
# Of a round: calls that fail, one of which is interrupted; threads that run operations.
FAILURES, THREADS = 2, 5
PAGE = os.sysconf("SC_PAGE_SIZE") // 1024


def fibonacci(engine: str, factor: Any) -> rg.SubGraph:
    """The SubGraph of Fibonacci numbers times `factor`."""
    with rg.SubGraph("fibonacci", outputs=tf.TensorSpec([]), engine=engine) as call:
        n = call.input(tf.int32)
        call.output(tf.cond(n < 2, lambda: tf.identity(factor), lambda: call(n - 1) + call(n - 2)))
    return call


def fold_rows(engine: str) -> rg.SubGraph:
    """The SubGraph that adds up two to the n rows."""
    with rg.SubGraph("rows", outputs=tf.TensorSpec([None]), engine=engine) as call:
        n, row = call.input(tf.int32), call.input(tf.TensorSpec([None]))
        call.output(tf.cond(n < 1, lambda: row * 0.5, lambda: call(n - 1, row) + call(n - 1, row * 1.0)))
    return call


class Work:
    """Kinds of work, each a method that does a little of it and checks what comes out."""

    def __init__(self, folder: Path) -> None:
        self.weight = tf.Variable(0.5)
        self.lasting = fibonacci("auto", self.weight)
        model = tf.Module()
        model.weight, model.call = self.weight, tf.function(self.lasting, [tf.TensorSpec([], tf.int32)])
        tf.saved_model.save(model, str(folder / "model"))
        self.folder = folder
        self.served = tf.saved_model.load(str(folder / "model"))
        self.step = rg.function(self.plain_step)
        self.beside = rg.function(lambda x: tf.reduce_sum(tf.tanh(x) + self.weight), mode="coexec")
        for _ in range(profile.KEPT):  # the last steps, of which it keeps how long they took
            self.beside(tf.ones([3]))
        self.of_rows = [fold_rows(engine) for engine in ("parallel", "batched")]
        self.rounds = 0

    def plain_step(self, x: tf.Tensor) -> tf.Tensor:
        """One step of descent towards 5 times the weight being x."""
        with tf.GradientTape() as tape:
            loss = (self.lasting(4) - x) ** 2
        self.weight.assign_sub(0.001 * tape.gradient(loss, self.weight))
        return loss

    def training(self) -> None:
        losses = [float(self.step(tf.constant(3.0))) for _ in range(10)]
        assert losses[-1] <= losses[0] + 1e-6, losses

    def serving(self) -> None:
        assert abs(self.served.call(5).numpy() - 8.0 * self.served.weight.numpy()) < 1e-4

    def subgraphs(self) -> None:
        for engine in ("parallel", "batched"):
            factor = tf.Variable(float(self.rounds))
            with tf.GradientTape() as tape:
                value = fibonacci(engine, factor * 1.0)(5)
            assert value.numpy() == 8.0 * self.rounds
            assert tape.gradient(value, factor).numpy() == 8.0

    def functions(self) -> None:
        for mode in ("speculate", "coexec", "auto"):
            scope: dict[str, Any] = {"tf": tf, "factor": float(self.rounds)}
            exec("def made(x):\n    y = x * factor\n    return y + 1.0 if factor > 2.0 else y", scope)
            made, x = rg.function(scope["made"], mode=mode), tf.constant(2.0)
            for _ in range(6):
                assert made(x).numpy() == 2.0 * self.rounds + (1.0 if self.rounds > 2 else 0.0)

    def threads(self) -> None:
        expected = float(self.lasting(6))
        found: list[float] = []
        threads = [threading.Thread(target=lambda: found.append(float(self.lasting(6)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert found == [expected] * 4, found

    def sub_interpreters(self) -> None:
        """Python runs in another interpreter while steps are co-executed in this one."""
        expected = float(self.beside(tf.ones([3])))
        other = interpreters.create()
        try:
            interpreters.run_string(other, "assert sum(range(1000)) == 499500")
            assert float(self.beside(tf.ones([3]))) == expected
        finally:
            interpreters.destroy(other)
        assert float(self.beside(tf.ones([3]))) == expected

    def large_rows(self) -> None:
        """A row has from 64 KB to 4 MB, and there are up to 16."""
        size, depth = ((1 << 14, 4), (1 << 17, 3), (1 << 20, 2))[self.rounds % 3]
        for call in self.of_rows:
            total = call(depth, tf.fill([size], 2.0))
            assert total.shape == [size]
            assert tf.reduce_min(total).numpy() == tf.reduce_max(total).numpy() == 2.0**depth

    def signals(self) -> None:
        before = signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.003)
        try:
            for _ in range(5):
                self.lasting(12)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        # TensorFlow ends the process where this comes while it makes a tensor of a number: it asks for its context's
        # handle, and does not look whether it was given one.
        levels = tf.constant(20)
        interrupt = threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT])
        try:
            interrupt.start()  # on a busy machine it may interrupt even this
            while True:
                self.lasting(levels)
        except KeyboardInterrupt:
            interrupt.join()

    def errors(self) -> None:
        with rg.SubGraph("failing", outputs=tf.TensorSpec([])) as failing:
            n = failing.input(tf.int32)
            failing.output(tf.cond(n < 0, lambda: tf.gather([1.0], n), lambda: failing(n - 1)))
        try:
            failing(20)
        except tf.errors.InvalidArgumentError:
            return
        raise AssertionError("no error")

    def steps(self) -> None:
        counter, done, seen = tf.Variable(0.0), threading.Event(), [0.0]

        def read() -> None:
            while not done.is_set():
                seen.append(float(counter))
                time.sleep(0.001)

        bystander = threading.Thread(target=read)
        bystander.start()
        try:
            for _ in rg.steps(range(8)):
                counter.assign_add(tf.reduce_sum(tf.ones([10, 10])) / 100.0)
        finally:
            done.set()
            bystander.join(60)
        assert float(counter) == 8.0
        assert seen == sorted(seen)

    def round(self) -> None:
        """Some of each."""
        for work in (
            self.training,
            self.serving,
            self.subgraphs,
            self.functions,
            self.threads,
            self.sub_interpreters,
            self.large_rows,
            self.signals,
            self.errors,
            self.steps,
        ):
            work()
        self.rounds += 1


def look() -> dict[str, int]:
    """Figures of the process now."""
    gc.collect()
    objects = gc.get_objects()
    lists = sum(type(one) is list and not gc.get_referents(one) for one in objects)
    with tf_private.eagerly():
        programs = int(native.ops().recgraph_count_programs().numpy().sum())
    return {
        "memory": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE,
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "programs": programs,
        "functions": tf_private.known_functions(),
        "objects": len(objects) - lists,
        "lists": lists,  # without anything in them: see above
    }


def left_by_tensorflow(work: Callable[[], Any]) -> float:
    """How many empty lists some work without a line of ours leaves behind each time."""
    for _ in range(3):
        work()
    before = look()["lists"]
    for _ in range(20):
        work()
    return (look()["lists"] - before) / 20


def fail() -> None:
    """An operation that fails."""
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        tf.raw_ops.Gather(params=[1.0], indices=-1)


def in_thread() -> None:
    """An operation in a thread of its own."""
    thread = threading.Thread(target=tf.zeros, args=([],))
    thread.start()
    thread.join()


def growth(looks: list[dict[str, int]]) -> dict[str, float]:
    """How much more there is a round, by the medians of the middle and the last third."""
    third = max(1, len(looks) // 3)

    def middle(part: list[dict[str, int]], what: str) -> float:
        return statistics.median(one[what] for one in part)

    return {what: (middle(looks[-third:], what) - middle(looks[third : 2 * third], what)) / third for what in looks[0]}


def main() -> int:
    """Works, looks and judges; 1 where something grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    minutes = parser.parse_args().minutes
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has jobs in the background ignore it
    with tempfile.TemporaryDirectory() as folder:
        by_itself = FAILURES * left_by_tensorflow(fail) + THREADS * left_by_tensorflow(in_thread)
        work, looks, shown = Work(Path(folder)), list[dict[str, int]](), 0.0
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end or len(looks) < 6:
            work.round()
            if work.rounds <= FIRST:
                continue
            looks.append(look())
            if time.monotonic() > shown + min(60.0, 6 * minutes):
                shown = time.monotonic()
                print(
                    work.rounds,
                    "rounds:",
                    ", ".join(f"{what} {value}" for what, value in looks[-1].items()),
                    flush=True,
                )
    more, third = growth(looks), max(1, len(looks) // 3)
    print(f"{FAILURES} failures and {THREADS} threads a round leave {by_itself:.2f} lists with TensorFlow alone")
    more["lists"] -= by_itself
    wrong = [what for what, slack in SLACK.items() if more[what] * third > slack]
    wrong += ["memory"] * (more["memory"] * third > KB_A_ROUND * third + KB)
    print(f"{work.rounds} rounds; growth a round:", ", ".join(f"{what} {value:.2f}" for what, value in more.items()))
    print(f"not flat: {', '.join(wrong)}" if wrong else "flat")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
