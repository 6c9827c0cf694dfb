"""Programs whose guard ends what would not end, or take all memory, without it; run here, eagerly and as graphs.

A guard of some form holds in the first calls, and not in the last. What it guards is begun eagerly in the first calls
only. As a script it runs the programs with the names given, in a mode, and prints a line of JSON for each: tests start
it as a process, which may hang without them.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import resource
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

# `P` is what is guarded: it makes a new `x`. In the last call x is a thousand million below zero.
GUARDS: dict[str, str] = {
    "if": "if x >= 0.0:\n    P\nreturn x",
    "early return": "if x < 0.0:\n    return x\nP\nreturn x",
    "assert": "assert x >= 0.0, 'negative'\nP\nreturn x",
    "raise": "if x < 0.0:\n    raise ValueError('negative')\nP\nreturn x",
    "try": "try:\n    check(x)\nexcept ValueError:\n    return x\nP\nreturn x",
    "finally": "try:\n    if x >= 0.0:\n        P\nfinally:\n    x = x + 1.0\nreturn x",
    "match": "match bool(x >= 0.0):\n    case True:\n        P\n    case _:\n        pass\nreturn x",
    "and": "if x >= 0.0 and x < 100.0:\n    P\nreturn x",
    "or": "if x < 0.0 or x > 100.0:\n    return x\nP\nreturn x",
    "ternary": "y = guarded(x) if x >= 0.0 else x\nreturn y",
    "comprehension": "return [guarded(x) for _ in range(2) if x >= 0.0]",
    "two exits": "while True:\n    if x < 0.0:\n        break\n    P\n    break\nreturn x",
    "else": "for _ in range(2):\n    if x < 0.0:\n        break\nelse:\n    P\nreturn x",
    "nested": "if x >= 0.0:\n    if x < 100.0:\n        P\n    else:\n        x = x + 2.0\nreturn x",
    "callee": "return after(x)",
    "tf.debugging": "tf.debugging.assert_greater_equal(x, 0.0)\nP\nreturn x",
    "number": "n = float(x)\nif n < 0.0:\n    return x\nP\nreturn x",
    "varying way": "if x > 2.0:\n    x = x + 1.0\nif x >= 0.0:\n    P\nreturn x",
    "inside of a way": "if x != 2.0:\n    if x >= 0.0:\n        P\nelse:\n    x = x + 1.0\nreturn x",
}
GUARDED: dict[str, str] = {
    "while": "while x != 0.0:\n    x = x - 1.0",
    "uniform": "x = x + 0.0 * tf.reduce_sum(tf.random.uniform([tf.cast(abs(x), tf.int32)]))",
    "range": "for i in tf.range(tf.cast(abs(x), tf.int32)):\n    x = x + 1.0",
    "tf.while_loop": "(x,) = tf.while_loop(lambda v: v != 0.0, lambda v: (v - 1.0,), (x,))",
    "zeros": "x = x + tf.reduce_sum(tf.zeros([tf.cast(abs(x), tf.int32)]))",
    "fill": "x = x + 0.0 * tf.reduce_sum(tf.fill([tf.cast(abs(x), tf.int32)], 1.0))",
    "tile": "x = x + 0.0 * tf.reduce_sum(tf.tile(x[None], [tf.cast(abs(x), tf.int32)]))",
    "repeat": "x = x + 0.0 * tf.reduce_sum(tf.repeat(x[None], tf.cast(abs(x), tf.int32)))",
    "one_hot": "x = x + tf.reduce_sum(tf.one_hot([0], tf.cast(abs(x), tf.int32)))",
    "linspace": "x = x + 0.0 * tf.reduce_sum(tf.linspace(0.0, 1.0, tf.cast(abs(x), tf.int32) + 1))",
    "broadcast": "x = x + 0.0 * tf.reduce_sum(tf.broadcast_to(x, [tf.cast(abs(x), tf.int32)]))",
    "list of a range": "x = x + float(len(list(range(int(abs(x))))))",
    "while of two": "while True:\n    if x == 0.0:\n        break\n    x = x - 1.0",
    "map_fn": "x = x + 0.0 * tf.reduce_sum(tf.map_fn(lambda v: v, tf.zeros([tf.cast(abs(x), tf.int32)])))",
    "pad": "x = x + tf.reduce_sum(tf.pad(x[None], [[0, tf.cast(abs(x), tf.int32)]]))",
    "tensor array": "x = x + float(tf.TensorArray(tf.float32, size=tf.cast(abs(x), tf.int32)).size())",
    "loop in a loop": "for _ in tf.range(2):\n    while x > 0.0 or x < 0.0:\n        x = x - 1.0",
    "subgraph": "x = down(x)",
    "text": "x = x + float(len('ab' * n))",
    "list": "x = x + float(len([0] * n))",
    "power": "x = x + float((2**n).bit_length())",
    "sum of a range": "x = x + float(sum(range(n)))",
    "sorted range": "x = x + float(len(sorted(range(n))))",
}
_FIRST = ("while", "uniform", "range")
_ALSO = ("if", "early return")
BEFORE = """
import tensorflow as tf
import recgraph as rg

with rg.SubGraph("down", outputs=tf.TensorSpec([])) as down:
    _v = down.input(tf.float32)
    down.output(tf.cond(_v == 0.0, lambda: _v, lambda: down(_v - 1.0)))


def check(x):
    if x < 0.0:
        raise ValueError("negative")


"""


def names() -> list[str]:
    """Those of all programs."""
    crossed = [f"{guard}: {what}" for guard in GUARDS for what in _FIRST]
    return crossed + [f"{guard}: {what}" for guard in _ALSO for what in GUARDED if what not in _FIRST]


def source(name: str) -> str:
    """A program's module, with a function `step`."""
    guard, what = name.split(": ", 1)
    functions = {
        "guarded(x, n=1)": "P\nreturn x",
        "after(x, n=1)": "if x < 0.0:\n    return x\nreturn guarded(x, n)",
        "step(x, n)": GUARDS[guard],
    }
    text = BEFORE
    for signature, body in functions.items():
        lines = []
        for line in body.split("\n"):
            indent = line[: len(line) - len(line.lstrip())]
            is_place = line.strip() == "P"
            lines.append(textwrap.indent(GUARDED[what], indent) if is_place else line)
        text += f"def {signature}:\n" + textwrap.indent("\n".join(lines), "    ") + "\n\n\n"
    return text


def step_of(name: str, folder: Path) -> Any:
    """The function of a program, which has a file."""
    path = folder / "program.py"
    path.write_text(source(name))
    spec = importlib.util.spec_from_file_location(f"program_{abs(hash(name))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.step


def outcome(step: Any, x: float, n: int) -> Any:
    """What a call gives, as plain data."""
    import tensorflow as tf

    try:
        return tf.nest.map_structure(lambda tensor: round(float(tensor), 3), step(tf.constant(x), n))
    except Exception as error:
        return type(error).__name__


# The last of them but one breaks the guard.
CALLS = [(1.0, 1), (2.0, 3), (3.0, 2), (4.0, 5), (2.0, 1), (-1e9, 10**11), (3.0, 4)]
SECONDS, MEMORY = 10.0, 2**31  # of a call; of all that the process holds


def _peak() -> int:
    """Returns the most bytes that the process has held; `getrusage` counts those of the one that started it, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def main(mode: str, folder: str, chosen: list[str]) -> None:
    """Runs programs, each call within some seconds, or the process ends."""
    import recgraph as rg

    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    for name in chosen:
        print(json.dumps({"begins": name}), flush=True)
        with tempfile.TemporaryDirectory(dir=folder) as own:
            step = step_of(name, Path(own))
            graph, seen, took = rg.function(step, mode=mode), [], 0.0
            for x, n in CALLS:
                faulthandler.dump_traceback_later(SECONDS, exit=True)
                started = time.monotonic()
                seen.append([outcome(graph, x, n), outcome(step, x, n)])
                took = max(took, time.monotonic() - started)
                faulthandler.cancel_dump_traceback_later()
        peak = _peak()
        is_converted = bool(getattr(graph, "calls", {}).get("graph"))
        print(json.dumps({"name": name, "seen": seen, "took": took, "peak": peak, "graph": is_converted}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
