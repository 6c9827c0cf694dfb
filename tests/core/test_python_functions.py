"""Python functions in graphs that call SubGraphs, as many at a time as TensorFlow has threads for them: all end."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# A hang would stop everything: this runs in a process of its own. The graphs are without the control dependencies by
# which `tf.function` runs Python functions one after another, and the barrier says that all threads are in one.
PROGRAM = textwrap.dedent("""
    import faulthandler, sys, threading
    faulthandler.dump_traceback_later(90, exit=True)
    import tensorflow as tf
    import recgraph as rg

    threads = int(sys.argv[1])
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    scale = tf.Variable(2.0)

    def fibonacci(engine):
        with rg.SubGraph(f"fibonacci_{engine}", outputs=tf.TensorSpec([]), engine=engine) as call:
            n, x = call.input(tf.int32), call.input(tf.float32)
            call.output(tf.cond(n < 2, lambda: x * scale, lambda: call(n - 1, x) + call(n - 2, x)))
        return call

    def gradient(call, n, x):
        with tf.GradientTape() as tape:
            y = call(n, x)
        return tf.reduce_sum(tape.gradient(y, scale)) / x

    def elsewhere(call, n, x):
        made = []
        thread = threading.Thread(target=lambda: made.append(call(n, x) / 2.0 / x))
        thread.start()
        thread.join()
        return made[0]

    WAYS = {
        "single": lambda call, n, x: call(n, x) / 2.0 / x,
        "map": lambda call, n, x: tf.reduce_max(call.map(tf.fill([40], n), tf.fill([40], x))) / 2.0 / x,
        "gradient": gradient,
        "in a thread of its own": elsewhere,
    }

    def together(body):
        here = threading.Barrier(threads)
        def python(n, x):
            try:
                here.wait(5)
            except threading.BrokenBarrierError:  # the last ones, of a number that the threads do not divide
                pass
            return body(n, x)
        def graph(n):
            def call(i):
                return tf.py_function(python, [n + i, float(i + 1)], tf.float32)
            return tf.stack([call(i) for i in range(2 * threads)])
        return tf.compat.v1.wrap_function(graph, [tf.TensorSpec([], tf.int32)])

    EXPECTED = [21.0, 34.0, 55.0, 89.0][: 2 * threads]
    if sys.argv[2] == "subgraphs":
        for engine in ("parallel", "batched", "auto"):
            call = fibonacci(engine)
            for name, way in WAYS.items():
                found = together(lambda n, x: way(call, n, x))(tf.constant(7))
                assert found.numpy().tolist() == EXPECTED, (engine, name, found)
                print(engine, name)
    else:
        for mode in ("speculate", "coexec", "auto"):
            call = fibonacci("parallel")
            for name, way in list(WAYS.items())[:3]:
                converted = rg.function(lambda n, x: tf.identity(way(call, n + 0, x)), mode=mode)
                for _ in range(8):
                    converted(tf.constant(3), tf.constant(1.0))
                found = together(converted)(tf.constant(7))
                assert found.numpy().tolist() == EXPECTED, (mode, name, found)
                print(mode, name)
    """)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "what", "count"), [(1, "subgraphs", 12), (2, "subgraphs", 12), (2, "functions", 9)]
)
def test_python_functions_on_all_threads(threads: int, what: str, count: int) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(threads), what], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr[-3000:]
    assert len(process.stdout.splitlines()) == count
