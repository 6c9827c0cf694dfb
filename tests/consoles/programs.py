"""A program that uses everything whose source is read, by statements, and what it prints wherever it is run."""

from __future__ import annotations

import re

STATEMENTS = [
    "import tensorflow as tf",
    "import recgraph as rg",
    "w = tf.Variable(3.0)",
    """@rg.function(mode="speculate")
def step(x):
    with tf.GradientTape() as tape:
        loss = (w * x - 1.0) ** 2
    if loss > 100.0:
        print("large")
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss""",
    """for i in range(6):
    _ = step(tf.constant(1.0))""",
    'print("decorated:", step.calls["graph"], step.given_up)',
    """@rg.function(mode="coexec")
def beside(x):
    return (w * x - 1.0) ** 2""",
    """for i in range(6):
    _ = beside(tf.constant(1.0))""",
    'print("co-executed:", beside.phases.counts["coexecuted"] > 0)',
    """@rg.subgraph
def factorial(n):
    if n < 2:
        return tf.constant(1, tf.int64)
    return n * factorial(n - 1)""",
    'print("recursive:", int(factorial(tf.constant(10, tf.int64))))',
    """with rg.SubGraph("triangle", outputs=tf.TensorSpec([], tf.int32)) as triangle:
    n = triangle.input(tf.int32)
    triangle.output(tf.cond(n < 1, lambda: 0, lambda: n + triangle(n - 1)))""",
    'print("SubGraph:", int(triangle(4)))',
    """def loss_of(x):
    return (w * x - 1.0) ** 2""",
    """def plain(x):
    with tf.GradientTape() as tape:
        loss = loss_of(x)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss""",
    """with rg.speculation() as found:
    for i in range(6):
        _ = plain(tf.constant(1.0))""",
    'print("undecorated:", {name: one.calls["graph"] for name, one in found.functions.items()})',
    'print("that is", "all")',
]
PRINTED = """decorated: 3
co-executed: True
recursive: 3628800
SubGraph: 10
undecorated: {'plain': 2}
that is all""".splitlines()


def printed(output: str) -> list[str]:
    """Those lines of the program that a console has shown, its prompts left out."""
    starts = tuple(line.partition(" ")[0] for line in PRINTED)
    lines = [re.sub(r"^(In \[\d+\]: |[. >])*", "", line).strip() for line in output.splitlines()]
    return [line for line in lines if line.startswith(starts) and "print(" not in line]
