"""Graphs that run for ever, and signals that come meanwhile: a script that prints what became of each, for tests.

A case that does not end within some seconds ends the process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

import recgraph as rg

DELAY, SECONDS = 0.4, 15.0  # until the signal comes; until the process ends
STOP = tf.Variable(0.0)
W = tf.Variable(1.0)


class Ended(Exception):
    """What a handler of the program's raises."""


def endless(x: Any) -> Any:
    """Ends where x is a whole number below a hundred, or the program says so."""
    while x != 0.0 and STOP < 1.0:
        x = x - W
    return x


class Counter:
    """Writes attributes, a list and a variable."""

    def __init__(self) -> None:
        self.n, self.seen, self.v = 0, [], tf.Variable(0.0)

    def step(self, x: Any) -> Any:
        """All of them, or none."""
        self.n += 1
        self.v.assign_add(1.0)
        self.seen.append(1)
        while x != 0.0:
            x = x - 1.0
        return x


def warm(called: Any) -> Any:
    """A function that has become a graph."""
    for x in (1.0, 2.0, 3.0, 2.0, 1.0, 4.0):
        called(tf.constant(x))
    return called


def subgraph(engine: str, loops: bool) -> Any:
    """A SubGraph that counts down, by calls of itself or by a loop."""
    with rg.SubGraph("down", outputs=tf.TensorSpec([]), engine=engine, max_depth=2**30) as down:
        x = down.input(tf.float32)
        if loops:
            down.output(tf.while_loop(lambda v: v != 0.0, lambda v: (v - 1.0,), (x,))[0])
        else:
            down.output(tf.cond(x == 0.0, lambda: x, lambda: down(x - 1.0) * 1.0))
    down(tf.constant(3.0))
    return down


def in_speculation() -> None:
    with rg.speculation():
        for x in (1.0, 2.0, 3.0, 2.0, 1.0, 0.5):
            endless(tf.constant(x))


def in_steps() -> None:
    for _ in rg.steps(range(10**9)):
        float(endless(tf.constant(2.0)))


def under_a_tape(called: Any) -> None:
    with tf.GradientTape():
        called(W * 0.3)


@contextlib.contextmanager
def handled(number: int, handler: Callable[..., Any]) -> Iterator[None]:
    """With a handler of the program's own."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def raise_ended(number: int, frame: Any) -> None:
    raise Ended


def stop(number: int, frame: Any) -> None:
    STOP.assign(1.0)


def interrupted(call: Callable[[], Any], number: int = signal.SIGINT) -> list[Any]:
    """What a call ends with, and how long after the signal.

    Where Python itself has dropped the exception, as it does in a `__del__`, the signal comes once more.
    """
    sent = [0.0]

    def send() -> None:
        sent[0] = time.monotonic()
        os.kill(os.getpid(), number)

    def dropped(what: Any) -> None:
        if what.exc_type in (KeyboardInterrupt, Ended):
            threading.Timer(DELAY, send).start()

    sys.unraisablehook = dropped
    threading.Timer(DELAY, send).start()
    try:
        found = type(call()).__name__
    except BaseException as error:
        found = type(error).__name__
    finally:
        sys.unraisablehook = sys.__unraisablehook__
    return [found, time.monotonic() - sent[0]]


def with_a_handler(handler: Callable[..., Any], number: int) -> list[Any]:
    called = warm(rg.function(endless, mode="speculate"))
    with handled(number, handler):
        found = interrupted(lambda: called(tf.constant(0.5)), number)
    STOP.assign(0.0)
    before = called.calls["graph"]
    called(tf.constant(2.0))
    return [*found, called.calls["graph"] > before]


def whole() -> list[Any]:
    counter = Counter()
    called = warm(rg.function(counter.step, mode="speculate"))
    found = interrupted(lambda: called(tf.constant(0.5)))
    return [*found, called.calls["graph"] and counter.n == len(counter.seen) == int(counter.v) == 6]


def beside_another_pipe() -> list[Any]:
    """Who has asked Python for the numbers of signals gets them, before and after."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    reader.settimeout(5.0)
    before = signal.set_wakeup_fd(writer.fileno())
    try:
        found = interrupted(lambda: warm(rg.function(endless, mode="speculate"))(tf.constant(0.5)))
        told = reader.recv(1) == bytes([signal.SIGINT])
        return [*found, told and signal.set_wakeup_fd(before) == writer.fileno()]
    finally:
        signal.set_wakeup_fd(before)


def in_a_thread() -> list[Any]:
    """A graph of another thread goes on, as eagerly it would."""
    called, seen = warm(rg.function(endless, mode="speculate")), []
    thread = threading.Thread(target=lambda: seen.append(float(called(tf.constant(0.5)))))
    thread.start()
    found = interrupted(lambda: time.sleep(60.0))
    is_alive = thread.is_alive()
    STOP.assign(1.0)
    thread.join()
    STOP.assign(0.0)
    return [*found, is_alive and bool(seen)]


CASES: dict[str, Callable[[], list[Any]]] = {
    **{
        mode: lambda mode=mode: interrupted(lambda: warm(rg.function(endless, mode=mode))(tf.constant(0.5)))
        for mode in ("speculate", "auto", "coexec")
    },
    "speculation": lambda: interrupted(in_speculation),
    "steps": lambda: interrupted(in_steps),
    "tape": lambda: interrupted(lambda: under_a_tape(warm(rg.function(endless, mode="speculate")))),
    "batched recursion": lambda: interrupted(lambda: subgraph("batched", False)(tf.constant(0.5))),
    "parallel recursion": lambda: interrupted(lambda: subgraph("parallel", False)(tf.constant(0.5))),
    "loop, batched": lambda: interrupted(lambda: subgraph("batched", True)(tf.constant(0.5))),
    "loop, parallel": lambda: interrupted(lambda: subgraph("parallel", True)(tf.constant(0.5))),
    "whole": whole,
    "handler that raises": lambda: with_a_handler(raise_ended, signal.SIGALRM),
    "handler of Ctrl-C that raises": lambda: with_a_handler(raise_ended, signal.SIGINT),
    "handler that goes on": lambda: with_a_handler(stop, signal.SIGUSR1),
    "another pipe": beside_another_pipe,
    "thread": in_a_thread,
}


def main(names: list[str]) -> None:
    """Runs cases one after the other, in one process."""
    for name in names:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        found = CASES[name]()
        usable = float(tf.reduce_sum(warm(rg.function(lambda x: x * 2.0))(tf.constant(3.0)))) == 6.0
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"name": name, "found": found, "usable": usable}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
