"""The answers of a server: predictions, what is known of the model, whether it is well, and its metrics."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from recgraph.serve import rest
from recgraph.serve.errors import RefusedRequest
from recgraph.serve.joining import Joining
from recgraph.serve.limits import Limits
from recgraph.serve.models import DEFAULT, ServedModel

VERSION = "1"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_PREDICTION = re.compile(r"/v1/models/(?P<name>[^/]+?)(/versions/(?P<version>[^/]+))?:predict")
_SHORT = 1 << 14  # bytes of a body that is read at once; other requests do not wait for the reading of longer ones
_GONE = 499  # no status of HTTP: nobody reads it, but it is counted


class Metrics:
    """What is counted, as Prometheus reads it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "recgraph_requests", "Predictions that were asked for, by status.", ["status"], registry=self.registry
        )
        self.seconds = Histogram(
            "recgraph_request_seconds", "From a request to its answer.", buckets=_SECONDS, registry=self.registry
        )
        self.in_progress = Gauge("recgraph_requests_in_progress", "That have no answer yet.", registry=self.registry)
        self.with_status = functools.cache(lambda status: self.requests.labels(str(status)))


class Application:
    """One model under a name.

    Attributes:
        limits: what it takes on.
        in_progress: requests without an answer.
        answered: how many got a prediction.
        is_ending: whether new requests are sent away.
    """

    def __init__(self, model: ServedModel, name: str, limits: Limits) -> None:
        self._model, self._name, self.limits = model, name, limits
        self._metrics = Metrics()
        # As many threads as requests: of signatures that only the graph batches, each waits there for its batch.
        self._threads = ThreadPoolExecutor(limits.requests, "recgraph-serve")
        self._metrics.in_progress.set_function(lambda: self.in_progress)
        self._joinings: dict[str, Joining] = {}
        self.in_progress, self.answered, self.is_ending = 0, 0, False
        paths = ["/v1/models/{name}", "/v1/models/{name}/versions/{version}"]
        self._pages = Starlette(
            routes=[
                *(Route(path, self._status) for path in paths),
                *(Route(f"{path}/metadata", self._metadata) for path in paths),
                Route("/healthz", self._health),
                Route("/metrics", self._show_metrics),
            ],
            exception_handlers={RefusedRequest: _refused, HTTPException: _no_such_page, Exception: _failed},
        )

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What a server runs. Predictions pass by the layers of Starlette, which were a quarter of their time."""
        asked = _PREDICTION.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if asked is None:
            await self._pages(scope, receive, send)
            return
        request = Request(scope, receive, send)
        start, response = time.perf_counter(), None
        self.in_progress += 1
        try:
            response = await self._prediction(request, asked["name"], asked["version"] or VERSION)
        except RefusedRequest as refused:
            response = await _refused(request, refused)
        except Exception as error:
            response = await _failed(request, error)
            raise
        finally:
            self.in_progress -= 1
            self._metrics.with_status(500 if response is None else response.status_code).inc()
            self._metrics.seconds.observe(time.perf_counter() - start)
            if response is not None:
                await response(scope, receive, send)

    async def _prediction(self, request: Request, name: str, version: str) -> Response:
        """The answer to a request for a prediction.

        Raises:
            RefusedRequest: it gets none.
        """
        if request.method != "POST":
            raise RefusedRequest(405, f"a prediction is asked for by POST, not by {request.method}")
        if self.is_ending:
            raise RefusedRequest(503, "the server is ending")
        self._require_known(name, version)
        if self.in_progress > self.limits.requests:
            raise RefusedRequest(429, f"{self.limits.requests} requests are in progress, and no more are taken")
        body = await self._body(request)
        if len(body) > _SHORT:
            found, signature, given = await self._in_thread(self._read, body)
        else:
            found, signature, given = self._read(body)
        rows, (most, calls) = _rows(given), self._model.joins(signature)
        if 0 < rows <= most:
            answer = rest.response(found, await self._joining(signature, most, calls)(given, rows))
        else:
            answer = await self._in_thread(lambda: rest.response(found, self._model(signature, given)))
        self.answered += 1
        return _json(answer)

    async def _body(self, request: Request) -> bytes:
        most = self.limits.kilobytes * 1024
        too_long = RefusedRequest(413, f"the body has more than {self.limits.kilobytes} kilobytes")
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise too_long
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise too_long
        except TimeoutError:
            raise RefusedRequest(408, f"the body did not arrive within {self.limits.seconds:g} seconds") from None
        except ClientDisconnect:
            raise RefusedRequest(_GONE, "the client is gone") from None
        return bytes(body)

    def _read(self, body: bytes) -> tuple[dict[str, Any], str, dict[str, np.ndarray]]:
        """What the body of a prediction says, the signature that is asked, and its arguments."""
        found = rest.request(body)
        signature = found.get("signature_name") or DEFAULT
        return found, signature, rest.arguments(found, self._model.inputs(signature))

    def _joining(self, signature: str, most: int, calls: int) -> Joining:
        """What joins requests for a signature."""
        if signature not in self._joinings:
            call = functools.partial(self._model, signature)
            self._joinings[signature] = Joining(call, most, calls, self._threads)
        return self._joinings[signature]

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def _require_known(self, name: str, version: str = VERSION) -> None:
        if (name, version) != (self._name, VERSION):
            raise RefusedRequest(
                404, f"there is no version {version} of a model {name!r}, known: {self._name!r}, version {VERSION}"
            )

    async def _status(self, request: Request) -> Response:
        self._require_known(**request.path_params)
        state = "UNLOADING" if self.is_ending else "AVAILABLE"
        status = {"error_code": "OK", "error_message": ""}
        return _json({"model_version_status": [{"version": VERSION, "state": state, "status": status}]})

    async def _metadata(self, request: Request) -> Response:
        self._require_known(**request.path_params)
        spec = {"name": self._name, "signature_name": "", "version": VERSION}
        return _json({"model_spec": spec, "metadata": self._model.metadata})

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ending" if self.is_ending else "ok"}, 503 if self.is_ending else 200)

    async def _show_metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _rows(given: Mapping[str, np.ndarray]) -> int:
    """The size of the first axis that all arguments have, or 0."""
    sizes = {value.shape[:1] for value in given.values()}
    return next(iter(sizes), (0,))[0] if len(sizes) == 1 and () not in sizes else 0


def _json(what: Mapping[str, Any] | bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = what if isinstance(what, bytes) else json.dumps(what).encode()
    return Response(body, status, headers, "application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedRequest)
    headers = {"Retry-After": "1"} if error.status in (429, 503) else {}
    if error.status in (408, 413, 503, _GONE):  # the rest of the body is not read, or nothing is after this one
        headers["Connection"] = "close"
    return _json(rest.error(str(error)), error.status, headers)


async def _no_such_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = f"{request.method} {request.url.path}: {error.detail}"
    return _json(rest.error(said), error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return _json(rest.error("the server failed; its log says how"), 500)
