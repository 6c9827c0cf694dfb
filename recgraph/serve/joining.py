"""Requests that come while others run, as one call of their signature, from one thread and not from one for each."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor

import numpy as np

from recgraph.serve.errors import RefusedRequest

Tensors = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Waiting:
    """A request that waits for its results.

    Attributes:
        given: its arguments, which have the same first axis.
        rows: the size of this axis.
        results: what it waits for.
    """

    given: Tensors
    rows: int
    results: asyncio.Future[Tensors]


class Joining:
    """Calls of a signature whose rows do not depend on each other. Used in the thread of the event loop alone."""

    def __init__(self, call: Callable[[Tensors], Tensors], most: int, calls: int, threads: Executor) -> None:
        """Args:
        call: of the signature, made in one of the threads.
        most: rows of a call.
        calls: that run at the same time.
        threads: have as many of them at least.
        """
        self._call, self._most, self._calls, self._threads = call, most, calls, threads
        self._waiting: deque[Waiting] = deque()
        self._running = 0

    async def __call__(self, given: Tensors, rows: int) -> Tensors:
        """The results of a request.

        Args:
            given: its arguments, which have the same first axis.
            rows: the size of this axis, from 1 to the most of a call.

        Raises:
            RefusedRequest: the call fails, also without the requests of others.
        """
        loop = asyncio.get_running_loop()
        request = Waiting(given, rows, loop.create_future())
        self._waiting.append(request)
        loop.call_soon(self._start)  # what has come with it is handled first, and is part of the same call
        return await request.results

    def _start(self) -> None:
        while self._waiting and self._running < self._calls:
            taken, rows = [], 0
            while self._waiting and rows + self._waiting[0].rows <= self._most:
                taken.append(self._waiting.popleft())
                rows += taken[-1].rows
            self._running += 1
            call = asyncio.get_running_loop().run_in_executor(self._threads, self._results, taken)
            call.add_done_callback(functools.partial(self._finish, taken))

    def _finish(self, taken: Sequence[Waiting], done: asyncio.Future[list[Tensors | Exception]]) -> None:
        self._running -= 1
        for request, found in zip(taken, done.result(), strict=True):
            if request.results.cancelled():
                continue
            if isinstance(found, Exception):
                request.results.set_exception(found)
            else:
                request.results.set_result(found)
        self._start()

    def _results(self, taken: Sequence[Waiting]) -> list[Tensors | Exception]:
        """Of each request its results, or why it has none; one that fails does so alone."""
        try:
            return list(self._joined(taken))
        except Exception as error:
            if len(taken) == 1:
                return [error]
            return [found for request in taken for found in self._results([request])]

    def _joined(self, taken: Sequence[Waiting]) -> Sequence[Tensors]:
        results = self._call({name: np.concatenate([one.given[name] for one in taken]) for name in taken[0].given})
        ends = np.cumsum([request.rows for request in taken])
        for name, value in results.items():
            if value.shape[:1] != (ends[-1],):
                raise RefusedRequest(500, f"{name!r} has the shape {list(value.shape)}, and no row for each given one")
        parts = {name: np.split(value, ends[:-1]) for name, value in results.items()}
        return [{name: values[place] for name, values in parts.items()} for place in range(len(taken))]
