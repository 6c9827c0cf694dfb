"""What runs beside a GPU, on machines without one: programs with a device that TensorFlow takes for one.

Each runs in a process of its own, as the device is there for a process or not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fake_gpu, sampling

REPOSITORY = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which(fake_gpu.compiler()) is None, reason="needs a C++ compiler"),
]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "3"}


# Which of so many parts of the corpus is tried.
PARTS = 25


@pytest.mark.parametrize(
    "tests",
    [
        ["tests/fake_gpu/checks.py"],
        ["tests/speculate/test_function.py", "tests/speculate/test_given_back.py"],
        ["tests/test_corpus.py", f"--part={sampling.seed(2) % PARTS + 1}/{PARTS}"],
    ],
    ids=["checks", "functions", "corpus"],
)
def test_beside_a_gpu(tests: list[str]) -> None:
    """SubGraphs, layers and converted functions do what they do without."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "tests.fake_gpu.plugin", *tests]
    done = subprocess.run(command, cwd=REPOSITORY, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_host_code_that_reads_memory_of_the_device_is_noticed() -> None:
    """Otherwise the others would show nothing."""
    program = (
        "import ctypes, tensorflow as tf; from tests import fake_gpu; fake_gpu.load(); "
        "from recgraph import tf_private; x = tf.ones([4]); assert 'GPU' in x.device; "
        "print(float(tf.reduce_sum(x))); print(ctypes.c_float.from_address(tf_private.address(x)).value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == -11
    assert done.stdout.strip() == "4.0"
    assert "host code touched the memory of the device" in done.stderr
