"""`explain()`, `calls` and the like from another thread, while calls run and what they read grows."""

from __future__ import annotations

import collections
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.auto import function as automatic
from recgraph.auto.choosing import Choosing
from recgraph.auto.ways import Eagerly
from recgraph.coexec import explaining, phases
from recgraph.explaining import Remark
from recgraph.speculate.observe.profile import Profile


@pytest.fixture(name="often")
def _often() -> Iterator[None]:
    """Threads take turns after each few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def one_step(x: tf.Tensor) -> float:
    """A step that leaves its graph now and then."""
    value = float(tf.reduce_sum(tf.tanh(x) * 2.0))
    return value if value > 1.0 else float(tf.reduce_mean(x))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("mode", ["coexec", "speculate", "auto"])
def test_a_function_is_explained_while_it_runs(mode: str) -> None:
    """Hundreds of times, in the phases that it goes through."""
    function = rg.function(one_step, mode=mode)  # type: ignore[call-overload]
    is_over = threading.Event()
    failures: list[BaseException] = []

    def explain() -> None:
        try:
            while not is_over.is_set():
                assert "one_step" in function.explain()
                assert mode == "coexec" or function.calls["eager"] >= 0
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=explain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(150):
        size = i % 5 + 1
        x = tf.fill([size], 0.01 * (i % 3))
        assert function(x) == pytest.approx(one_step(x))
    is_over.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_steps_end_while_their_times_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step adds its times, each departure may add a reason."""
    known = phases.Phases("steps")
    times = (1_000, [], 2_000, [])
    slots: Any = None
    known._times.append((times, slots))
    known.reasons["a signal", "file.py:1"] += 1
    monkeypatch.setattr(phases, "read_times", _then(phases.read_times, lambda: known._times.append((times, slots))))
    departures = iter(range(100))
    grow = lambda: known.reasons.update([("a signal", f"file.py:{next(departures)}")])  # noqa: E731
    monkeypatch.setattr(explaining, "remedy", _then(explaining.remedy, grow))
    assert len(known.profile().steps) == 1
    assert "left 1 time: a signal (file.py:1)" in explaining.explanation("steps", known)


def test_notes_are_added_while_they_are_read() -> None:
    """What broke is noted by the thread in which it did."""
    function: Any = rg.function(one_step, mode="speculate")

    class Growing(collections.Counter[str]):
        def __missing__(self, text: str) -> int:
            function._notes[f"{len(function._notes)} more"] = Remark("broke", "", "more")
            return 1

    function._notes["first"] = Remark("broke", "", "the first one")
    function._counts = Growing()
    assert "broke 1 time: the first one" in function.explain()
    assert "more" not in function.explain().split("the first one")[0]


def test_ways_are_rejected_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step in another thread finds out that a way cannot be taken."""
    function: Any = rg.function(one_step)
    function.apart = Choosing("one_step", [Eagerly(one_step)])
    rejected = function.apart.rejected
    rejected["graph"] = "it prints"

    class Growing(dict[str, str]):
        def __getitem__(self, way: str) -> str:
            rejected[f"{len(rejected)} more"] = "it grows"
            return super().__getitem__(way)

    monkeypatch.setattr(automatic, "WHAT", Growing(automatic.WHAT))
    assert "it prints" in function.explain()


def test_a_profile_grows_while_it_is_asked() -> None:
    """Another thread observes a call while this one converts, or explains, one; some sites have nothing yet."""
    profile = Profile()
    with profile.call():
        profile.see("site", tf.ones([2]))
    profile._seen["reached"] = []
    assert list(profile.sites()) == ["site"]
    every = profile._every()
    next(every)
    profile.note("another", 1.0)
    assert list(every) == []
    assert not profile.has_variants


def _then(function: Callable[..., Any], more: Callable[[], Any]) -> Callable[..., Any]:
    """The function; then something else happens."""

    def both(*arguments: Any) -> Any:
        result = function(*arguments)
        more()
        return result

    return both
