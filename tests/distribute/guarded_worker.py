"""A worker for `test_ports.py`: it takes steps until there is a file `stop` in the folder given."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import tensorflow as tf

import recgraph as rg
from recgraph import native


def main(folder: Path) -> None:
    """Writes the worker's address first, and at the end how many steps it took and how many connections it refused."""
    with rg.distribute(timeout=60, start_timeout=120) as cluster:
        total, steps = tf.Variable([0.0]), 0
        while "stop" not in cluster.exchange("stop" if (folder / "stop").exists() else ""):
            total.assign_add(cluster.collectives.sum(tf.constant([1.0 + cluster.index])))
            steps += 1
            if steps == 1:
                (folder / f"address-{cluster.index}").write_text(cluster.place.hosts[cluster.index])
            time.sleep(0.05)
        assert float(total[0]) == 3.0 * steps
        (folder / f"ended-{cluster.index}").write_text(f"{steps} {native.ports().refused()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
