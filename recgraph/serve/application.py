"""The answers of a server: predictions, what is known of the model, whether it is well, and its metrics."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

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

from recgraph.serve import rest
from recgraph.serve.errors import RefusedRequest
from recgraph.serve.limits import Limits
from recgraph.serve.models import DEFAULT, ServedModel

VERSION = "1"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]  # all, or others would be those of a model with this name
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


class Application:
    """One model under a name.

    Attributes:
        asgi: what a server runs.
        in_progress: requests without an answer.
        answered: how many got a prediction.
        is_ending: whether new requests are sent away.
    """

    def __init__(self, model: ServedModel, name: str, limits: Limits) -> None:
        self._model, self._name, self._limits = model, name, limits
        self._metrics = Metrics()
        # As many threads as requests: each waits for its batch, and a batch is the larger the more wait for it.
        self._threads = ThreadPoolExecutor(limits.requests, "recgraph-serve")
        self.in_progress, self.answered, self.is_ending = 0, 0, False
        model_path = "/v1/models/{name}"
        paths = [model_path, model_path + "/versions/{version}"]
        self.asgi = Starlette(
            routes=[
                *(Route(f"{path}:predict", self._predict, methods=_METHODS) for path in paths),
                *(Route(path, self._status) for path in paths),
                *(Route(f"{path}/metadata", self._metadata) for path in paths),
                Route("/healthz", self._health),
                Route("/metrics", self._show_metrics),
            ],
            exception_handlers={RefusedRequest: _refused, HTTPException: _no_such_page, Exception: _failed},
        )

    async def _predict(self, request: Request) -> Response:
        status = 500
        with self._counted(lambda: status):
            try:
                response = await self._prediction(request)
                status = response.status_code
            except RefusedRequest as refused:
                status = refused.status
                raise
        return response

    async def _prediction(self, request: Request) -> Response:
        if request.method != "POST":
            raise RefusedRequest(405, f"a prediction is asked for by POST, not by {request.method}")
        if self.is_ending:
            raise RefusedRequest(503, "the server is ending")
        self._require_known(request)
        if self.in_progress > self._limits.requests:
            raise RefusedRequest(429, f"{self._limits.requests} requests are in progress, and no more are taken")
        body = await self._body(request)
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, body)
        self.answered += 1
        return _json(answer)

    @contextmanager
    def _counted(self, status: Callable[[], int]) -> Iterator[None]:
        """Counts a request, which has its status at the end."""
        start = time.perf_counter()
        self.in_progress += 1
        self._metrics.in_progress.set(self.in_progress)
        try:
            yield
        finally:
            self.in_progress -= 1
            self._metrics.in_progress.set(self.in_progress)
            self._metrics.requests.labels(str(status())).inc()
            self._metrics.seconds.observe(time.perf_counter() - start)

    async def _body(self, request: Request) -> bytes:
        most = self._limits.kilobytes * 1024
        too_long = RefusedRequest(413, f"the body has more than {self._limits.kilobytes} kilobytes")
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise too_long
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise too_long
        except TimeoutError:
            raise RefusedRequest(408, f"the body did not arrive within {self._limits.seconds:g} seconds") from None
        except ClientDisconnect:
            raise RefusedRequest(_GONE, "the client is gone") from None
        return bytes(body)

    def _answer(self, body: bytes) -> bytes:
        """The answer to the body of a prediction; in a thread, which may wait for others."""
        found = rest.request(body)
        signature = found.get("signature_name") or DEFAULT
        given = rest.arguments(found, self._model.inputs(signature))
        return rest.response(found, self._model(signature, given))

    def _require_known(self, request: Request) -> None:
        name, version = request.path_params["name"], request.path_params.get("version", VERSION)
        if (name, version) != (self._name, VERSION):
            raise RefusedRequest(
                404, f"there is no version {version} of a model {name!r}, known: {self._name!r}, version {VERSION}"
            )

    async def _status(self, request: Request) -> Response:
        self._require_known(request)
        state = "UNLOADING" if self.is_ending else "AVAILABLE"
        status = {"error_code": "OK", "error_message": ""}
        return _json({"model_version_status": [{"version": VERSION, "state": state, "status": status}]})

    async def _metadata(self, request: Request) -> Response:
        self._require_known(request)
        spec = {"name": self._name, "signature_name": "", "version": VERSION}
        return _json({"model_spec": spec, "metadata": self._model.metadata})

    async def _health(self, request: Request) -> Response:
        return _json({"status": "ending" if self.is_ending else "ok"}, 503 if self.is_ending else 200)

    async def _show_metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)


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
