"""What a request can be refused for, with the status of HTTP that says so."""

from __future__ import annotations

from recgraph.errors import RecgraphError


class ServeError(RecgraphError):
    """A model cannot be served."""

    id = "serve"


class RefusedRequest(Exception):
    """A request that gets no result.

    Args:
        status: of HTTP.
        message: for whoever has sent it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
