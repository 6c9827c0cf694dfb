"""A program with TensorFlow and nothing of ours, which has servers write files: `stranger.py FOLDER HOST:PORT ...`.

Each server is tried by a session, and the last one by an eager operation, too. What could be written is in the folder
then, in a file named after the way and the number of the server.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf

SECONDS = 4


def by_session(target: str, path: Path) -> None:
    """As programs of TensorFlow 1 do."""
    config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=1000 * SECONDS)
    with tf.Graph().as_default(), tf.compat.v1.Session(f"grpc://{target}", config=config) as session:
        session.run(tf.io.write_file(str(path), "written by a stranger"))


def by_eager_operation(target: str, path: Path) -> None:
    """As programs of TensorFlow 2 do; where nobody answers it waits for minutes."""
    tf.config.experimental_connect_to_host(target, job_name="stranger")
    with tf.device("/job:stranger/task:0"):
        tf.io.write_file(str(path), "written by a stranger")


def main(folder: Path, targets: list[str]) -> None:
    """Tries everything."""
    for number, target in enumerate(targets):
        try:
            by_session(target, folder / f"session-{number}")
        except (tf.errors.OpError, RuntimeError) as error:
            print(f"session {number}: {type(error).__name__}", flush=True)
    print("eager", flush=True)
    by_eager_operation(targets[-1], folder / "eager")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
