"""Training on several workers, on the collectives of TensorFlow's own runtime."""

from recgraph.distribute.cluster import START_TIMEOUT, TIMEOUT, Cluster, distribute
from recgraph.distribute.errors import (
    ChiefError,
    ClusterError,
    DisagreementError,
    NotFiniteError,
    PortTakenError,
    WorkerLostError,
)

__all__ = [
    "START_TIMEOUT",
    "TIMEOUT",
    "ChiefError",
    "Cluster",
    "ClusterError",
    "DisagreementError",
    "NotFiniteError",
    "PortTakenError",
    "WorkerLostError",
    "distribute",
]


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
