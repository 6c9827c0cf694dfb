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
from recgraph.distribute.measuring import stays_sparse
from recgraph.distribute.place import Place, find_place
from recgraph.distribute.reduction import Reduction, divided
from recgraph.distribute.server import serve
from recgraph.distribute.shards import SHARDS, ShardedReduction, shards_of

__all__ = [
    "SHARDS",
    "START_TIMEOUT",
    "TIMEOUT",
    "ChiefError",
    "Cluster",
    "ClusterError",
    "DisagreementError",
    "NotFiniteError",
    "Place",
    "PortTakenError",
    "Reduction",
    "ShardedReduction",
    "WorkerLostError",
    "distribute",
    "divided",
    "find_place",
    "serve",
    "shards_of",
    "stays_sparse",
]
