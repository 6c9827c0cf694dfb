"""Threads that read what steps write while these are settled: nobody waits for another for ever, and Python goes on."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# Steps whose graph takes longer than a look at signals (50 ms), threads that read their variable all the time, and one
# that counts how often it gets Python's lock. A deadlock would stop everything: this runs in a process of its own.
PROGRAM = textwrap.dedent("""
    import sys, threading, time
    import tensorflow as tf
    import recgraph as rg

    milliseconds, count, size = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    variable, matrix = tf.Variable(0.0), tf.random.normal([size, size]) * 0.02
    done, reads, turns = threading.Event(), ([], []), [0]

    def read(seen):
        while not done.is_set():
            seen.append(float(variable))

    def turn():
        while not done.is_set():
            turns[0] += 1
            time.sleep(0.001)

    begin = time.perf_counter()
    for _ in range(3):
        tf.tanh(matrix @ matrix).numpy()
    products = max(1, int(milliseconds / 1000 / (time.perf_counter() - begin) * 3))
    threads = [threading.Thread(target=read, args=[seen], daemon=True) for seen in reads]
    threads.append(threading.Thread(target=turn, daemon=True))
    for thread in threads:
        thread.start()
    for i in rg.steps(range(count)):
        y = matrix
        for _ in range(products):
            y = tf.tanh(y @ matrix)
        variable.assign_add(tf.reduce_sum(y) * 0.0 + 1.0)
    final = float(variable)
    done.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert final == count, final
    assert all(seen == sorted(seen) for seen in reads), "a thread saw a variable go back"
    print("reads", sum(map(len, reads)), "turns", turns[0])
    """)


@pytest.mark.parametrize(("milliseconds", "count", "size"), [(200, 16, 1000), (5, 60, 200)])
def test_bystanders_of_steps(milliseconds: int, count: int, size: int) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(milliseconds), str(count), str(size)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    reads, turns = (int(word) for word in process.stdout.split()[1::2])
    assert reads > 0
    assert turns > count
