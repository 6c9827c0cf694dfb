"""Requests that come while a call runs are the next call, and none of them can tell."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from recgraph.serve.errors import RefusedRequest
from recgraph.serve.joining import Joining, Tensors

MOST = 4


class Doubling:
    """A signature that gives twice what it is given; a negative number is refused.

    Attributes:
        sizes: rows of each call.
        gate: which calls wait for.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.gate = threading.Event()

    def __call__(self, given: Tensors) -> Tensors:
        """Twice as much."""
        self.sizes.append(len(given["x"]))
        assert self.gate.wait(30)
        if (given["x"] < 0).any():
            raise RefusedRequest(400, f"{given['x'].min():g} is negative")
        return {"y": 2 * given["x"]}


def ask(call: Doubling, requests: list[list[float]]) -> list[Mapping[str, np.ndarray] | BaseException]:
    """What requests get of which the first one is running when the others come."""

    async def all_of_them() -> list[Mapping[str, np.ndarray] | BaseException]:
        with ThreadPoolExecutor(2) as threads:
            joining = Joining(call, MOST, 1, threads)
            asked = [asyncio.ensure_future(joining({"x": np.array(x)}, len(x))) for x in requests]
            while not call.sizes:
                await asyncio.sleep(0.01)
            later = [asyncio.ensure_future(joining({"x": np.array([x])}, 1)) for x in (7.0, 8.0)]
            await asyncio.sleep(0)
            call.gate.set()
            return await asyncio.gather(*asked, *later, return_exceptions=True)

    return asyncio.run(all_of_them())


def test_each_gets_its_own_rows() -> None:
    """No call has more rows than the most, and none is left waiting."""
    call = Doubling()
    requests = [[1.0], [2.0, 3.0], [4.0, 5.0], [6.0]]
    found = ask(call, requests)
    assert [list(one["y"]) for one in found if not isinstance(one, BaseException)] == [
        *([2 * x for x in given] for given in requests),
        [14.0],
        [16.0],
    ]
    assert call.sizes == [3, 4, 1], "1 + 2, then 2 + 1 and the later ones as far as they fit"


def test_one_that_fails_fails_alone() -> None:
    """The others of its call get their results."""
    call = Doubling()
    first, wrong, last, *_ = ask(call, [[1.0], [-1.0], [3.0]])
    assert isinstance(wrong, RefusedRequest)
    assert str(wrong) == "-1 is negative"
    assert [list(one["y"]) for one in (first, last) if not isinstance(one, BaseException)] == [[2.0], [6.0]]


def test_results_without_a_row_for_each_are_none() -> None:
    """A model that says so and does not keep it."""
    call = Doubling()
    call.gate.set()

    async def two() -> list[object]:
        with ThreadPoolExecutor(1) as threads:
            joining = Joining(lambda given: {"y": call(given)["y"][:1]}, MOST, 1, threads)
            asked = [joining({"x": np.array([x, x])}, 2) for x in (1.0, 2.0)]
            return list(await asyncio.gather(*asked, return_exceptions=True))

    assert call.sizes == []
    for found in asyncio.run(two()):
        assert isinstance(found, RefusedRequest)
        assert str(found) == "'y' has the shape [1], and no row for each given one"


@pytest.mark.parametrize("calls", [1, 2])
def test_so_many_calls_run_at_the_same_time(calls: int) -> None:
    """As the model says."""
    call = Doubling()

    async def running() -> int:
        with ThreadPoolExecutor(3) as threads:
            joining = Joining(call, 1, calls, threads)
            asked = [asyncio.ensure_future(joining({"x": np.array([x])}, 1)) for x in (1.0, 2.0, 3.0)]
            while len(call.sizes) < calls:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            found = len(call.sizes)
            call.gate.set()
            await asyncio.gather(*asked)
            return found

    assert asyncio.run(running()) == calls
