"""What goes wrong between workers: each error has one message, and the exit status that tells a launcher what to do."""

from __future__ import annotations

from recgraph.errors import RecgraphError


class ClusterError(RecgraphError):
    """The cluster cannot be brought up as it is described."""

    id = "cluster"
    exit_code = 1


class PortTakenError(ClusterError):
    """The port on which this worker is to be reached is in use."""

    id = "port-taken"
    exit_code = 69  # recgraph_launch.PORT_TAKEN


class WorkerLostError(RecgraphError):
    """Another worker has ended, has stopped, or cannot be reached."""

    id = "worker-lost"
    exit_code = 75  # recgraph_launch.LOST


class NotFiniteError(RecgraphError):
    """The gradients of a worker are infinite or no numbers, and would be in the weights of all."""

    id = "not-finite"


class DisagreementError(RecgraphError):
    """The workers are not there for the same work: another version, other settings, other data."""

    id = "disagreement"


class ChiefError(RecgraphError):
    """The chief cannot go on; the message is that of its own error."""

    id = "chief"
