"""How many connections are open, and how long each may keep the server waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from recgraph.serve import rest
from recgraph.serve.limits import Limits


class _Patience:
    """Waits for something so many seconds at most."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, give_up: Callable[[], None]) -> None:
        """Begins, unless it waits."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, give_up)

    def end(self) -> None:
        """Has what it waited for."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None


def connection_type(limits: Limits, base: Any = AutoHTTPProtocol) -> type[asyncio.Protocol]:
    """A protocol of uvicorn that keeps limits; of bodies the application does.

    A connection beyond the most is told so and closed. The head of a request may take `limits.seconds` from when the
    connection is open, or from its first byte on, and so may a client that does not read its answer.

    Args:
        limits: which.
        base: one of uvicorn's protocols for HTTP.
    """

    class Connection(base):
        """One connection."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._head, self._answer = _Patience(limits.seconds), _Patience(limits.seconds)
            self._has_begun = False

        def connection_made(self, transport: asyncio.Transport) -> None:
            """Counts it, and waits for a request."""
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                self._refuse(503, f"{limits.connections} connections are open, and no more are taken")
            else:
                self._head.wait(self._head_is_late)

        def data_received(self, data: bytes) -> None:
            """Reads, and waits for the rest of a head."""
            if self.transport.is_closing():
                return
            self._has_begun = True
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:  # the head was a whole one
                self._head.end()
            else:
                self._head.wait(self._head_is_late)

        def pause_writing(self) -> None:
            """The client does not read."""
            super().pause_writing()
            self._answer.wait(self.transport.abort)

        def resume_writing(self) -> None:
            """It does again."""
            super().resume_writing()
            self._answer.end()

        def timeout_keep_alive_handler(self) -> None:
            """Nothing has come after an answer."""
            if self.transport.get_write_buffer_size():  # nor was that read: it would be waited for before closing
                self.transport.abort()
            super().timeout_keep_alive_handler()

        def connection_lost(self, exc: Exception | None) -> None:
            """Waits no longer."""
            self._head.end()
            self._answer.end()
            super().connection_lost(exc)

        def _head_is_late(self) -> None:
            if self._has_begun:
                self._refuse(408, f"the head of the request did not arrive within {limits.seconds:g} seconds")
            else:
                self.transport.close()

        def _refuse(self, status: int, message: str) -> None:
            body = rest.error(message)
            phrase = {408: "Request Timeout", 503: "Service Unavailable"}[status]
            head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            self.transport.write(f"{head}Connection: close\r\nRetry-After: 1\r\n\r\n".encode() + body)
            self.transport.close()

    return Connection
