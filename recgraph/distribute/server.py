"""A server of TensorFlow in this process, on which other programs run operations, ours among them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import tensorflow as tf

from recgraph.distribute.cluster_spec import WorkerAddress
from recgraph.distribute.ports import guard


def start(hosts: Sequence[str], index: int) -> tf.distribute.Server:
    """Starts the server; `import recgraph` has loaded the operations.

    Args:
      hosts: `host:port` of all servers, the job "worker".
      index: which of them this is.

    Raises:
      ClusterError: the addresses are wrong, or a host does not resolve.
      PortTakenError: the port is in use.
    """
    place = WorkerAddress(tuple(hosts), index)
    place.require_usable()
    guard(place, needs_secret=False)
    try:
        return tf.distribute.Server({"worker": list(place.hosts)}, "worker", place.index)
    except tf.errors.UnknownError as cause:
        raise place.port_taken(cause.message) from cause


def serve(hosts: Sequence[str], index: int) -> None:
    """The same, until the process ends.

    Args:
      hosts: see `start`.
      index: see `start`.

    Raises:
      ClusterError: see `start`.
      PortTakenError: see `start`.
    """
    server = start(hosts, index)
    print(f"server {index} of {len(hosts)} at {server.target}", flush=True)
    threading.Event().wait()  # unlike `server.join`, it can be interrupted
