"""Connections: as many as the server takes, and none that keeps it waiting for ever."""

from __future__ import annotations

import functools
import importlib
import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.serve import running
from recgraph.serve.connections import connection_type
from recgraph.serve.limits import Limits

REQUEST = b'POST /v1/models/first:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n{"instances": [1]}'
SECONDS = 0.4


class Doubling:
    """A model that gives so many numbers for each: twice it."""

    metadata: dict[str, Any] = {}

    def __init__(self, width: int = 1) -> None:
        self.width = width

    def inputs(self, signature: str) -> dict[str, tf.TensorSpec]:
        """One number a row."""
        return {"x": tf.TensorSpec([None])}

    def joins(self, signature: str) -> tuple[int, int]:
        """Some."""
        return 8, 1

    def __call__(self, signature: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Twice as much."""
        return {"y": np.repeat(2 * given["x"][:, np.newaxis], self.width, 1)}


@pytest.fixture(params=["h11_impl.H11Protocol", "httptools_impl.HttpToolsProtocol"])
def server(request: Any, monkeypatch: pytest.MonkeyPatch, serving: Callable[..., Any]) -> Callable[..., Any]:
    """Serves with each of uvicorn's protocols."""
    module, name = request.param.split(".")
    if module == "httptools_impl":
        pytest.importorskip("httptools")
    base = getattr(importlib.import_module(f"uvicorn.protocols.http.{module}"), name)
    monkeypatch.setattr(running, "connection_type", functools.partial(connection_type, base=base))
    return serving


def connected(port: int) -> socket.socket:
    """A client."""
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def rest_of(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    return b"".join(iter(lambda: client.recv(1 << 16), b""))


def answer(client: socket.socket) -> bytes:
    """That to one request."""
    client.sendall(REQUEST)
    found = client.recv(1000)
    while not found.endswith(b"}"):
        found += client.recv(1000)
    return found


def test_more_connections_than_the_server_takes(server: Callable[..., Any]) -> None:
    """They are told so and closed; there is room again when another one ends."""
    with server(Doubling(), Limits(connections=2)) as (port, running_server, _):
        with connected(port) as first, connected(port) as second:
            assert b" 200 " in answer(first)
            assert b" 200 " in answer(second)
            with connected(port) as third:
                refused = rest_of(third)
            assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"Retry-After: 1\r\n" in refused
            assert refused.endswith(b'{"error": "2 connections are open, and no more are taken"}')
            assert b" 200 " in answer(first)
        while running_server.server_state.connections:
            time.sleep(0.01)
        with connected(port) as fourth:
            assert b" 200 " in answer(fourth)


@pytest.mark.parametrize("requests", [0, 1])
def test_a_head_that_does_not_end(requests: int, server: Callable[..., Any]) -> None:
    """Byte after byte, of the first request of a connection or of another one: the time is that of all of them."""
    with server(Doubling(), Limits(seconds=SECONDS)) as (port, *_), connected(port) as client:
        for _ in range(requests):
            assert b" 200 " in answer(client)
        client.settimeout(SECONDS / 4)
        begin, found, sent = time.monotonic(), b"", 0
        while not found:
            assert time.monotonic() - begin < 20
            client.sendall(REQUEST[sent : sent + 1])
            sent += 1
            try:
                found = client.recv(1000)
            except TimeoutError:
                continue
        assert found.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert found.endswith(b'{"error": "the head of the request did not arrive within 0.4 seconds"}')
        assert time.monotonic() - begin > SECONDS / 2


def test_a_connection_without_a_request(server: Callable[..., Any]) -> None:
    """It is closed."""
    with server(Doubling(), Limits(seconds=SECONDS)) as (port, *_), connected(port) as client:
        assert rest_of(client) == b""


def test_requests_take_longer_than_heads(server: Callable[..., Any]) -> None:
    """The time is that for which a head is waited for, not that of an answer or between requests."""
    with server(Doubling(), Limits(seconds=SECONDS)) as (port, *_), connected(port) as client:
        for _ in range(3):
            assert b" 200 " in answer(client)
            time.sleep(SECONDS / 2)


def test_a_client_that_does_not_read(server: Callable[..., Any]) -> None:
    """An answer of megabytes that nobody takes does not keep the server from ending."""
    model = Doubling(width=1 << 20)
    with server(model, Limits(seconds=SECONDS)) as (port, running_server, application), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect(("127.0.0.1", port))
        client.sendall(REQUEST)
        end = time.monotonic() + 30
        while not application.answered or running_server.server_state.connections:
            assert time.monotonic() < end
            time.sleep(0.01)
