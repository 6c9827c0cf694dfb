"""Who installs recgraph without its extras has all that they are not for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# What the extras and the tests bring, by the names that are imported.
BROUGHT = (
    *("IPython", "ale_py", "egglog", "gymnasium", "hypothesis", "ipykernel", "mypy", "nbclient", "networkx"),
    *("pexpect", "playwright", "prometheus_client", "pytest", "ruff", "sklearn", "starlette", "torch", "uvicorn"),
    *("httptools", "uvloop", "z3"),
)
PROGRAM = """
import sys
from pathlib import Path


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in %r:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
import tensorflow as tf
import recgraph as rg
from recgraph.train import demo

for engine in ("parallel", "batched"):
    with rg.SubGraph("factorial", outputs=tf.TensorSpec([]), engine=engine) as factorial:
        n = factorial.input(tf.float32)
        factorial.output(tf.cond(n < 1.0, lambda: 1.0, lambda: n * factorial(n - 1.0)))
    assert float(factorial(tf.constant(5.0))) == 120.0
double = rg.function(lambda x: x * 2.0, strict=True)
assert [float(double(tf.constant(float(i)))) for i in range(5)] == [0.0, 2.0, 4.0, 6.0, 8.0]
rg.keras.TreeLayer
assert len(rg.trees.from_nested([[1, [2]], 3])) == 2

demo.SIZES, demo.HYPER, demo.PICTURES = (8, 2, 2), {"embedding": 4, "hidden": 4}, 1
settings = demo.Settings
demo.Settings = lambda *arguments, **named: settings(*arguments, **{**named, "epochs": 1})
demo.run_demo(Path("demo"), seed=0, as_json=True)
assert not sys.modules.keys() & %r
"""


def test_without_extras(tmp_path: Path) -> None:
    """The package is imported, both engines and `rg.function` run, and so does what `recgraph demo` does."""
    program = PROGRAM % (set(BROUGHT), set(BROUGHT))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "demo/run/curve.png").exists()
