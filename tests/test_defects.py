"""An exception inside of recgraph: contained in a user's program, raised in tests."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import defects
from recgraph.coexec import phases
from recgraph.speculate.run import function, undecorated


class CrashError(Exception):
    """What no code raises."""


def crash(*_: Any, **__: Any) -> Any:
    raise CrashError("planted")


@pytest.fixture
def contained(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a user's program."""
    monkeypatch.setattr(defects, "fatal", False)


def use(mode: str) -> list[float]:
    step = rg.function(lambda x: tf.reduce_sum(tf.sin(x) * x), mode=mode)
    return [float(step(tf.fill([3], float(i)))) for i in range(40)]


def use_unmodified() -> list[float]:
    def step(x: tf.Variable) -> float:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(x * x)
        return float(tape.gradient(y, x)[0])

    with rg.speculation():
        return [step(tf.Variable([float(i)])) for i in range(10)]


PLANTED = [
    ((function, "convert"), lambda: use("speculate"), "the conversion of"),
    ((function, "convert"), lambda: use("auto"), "the conversion of"),
    ((phases, "make_plan"), lambda: use("coexec"), "making the graph"),
    ((undecorated._Block, "_begins"), use_unmodified, "looking at a call"),
]


@pytest.mark.parametrize(("place", "program", "text"), PLANTED)
def test_tests_see_a_defect(place: Any, program: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*place, crash)
    assert defects.fatal
    with pytest.raises(CrashError, match="planted"):
        program()


@pytest.mark.parametrize(("place", "program", "text"), PLANTED)
def test_users_keep_their_program_and_are_told(
    place: Any,
    program: Any,
    text: str,
    contained: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = program()
    monkeypatch.setattr(*place, crash)
    with caplog.at_level(logging.WARNING):
        assert program() == expected
    assert text in caplog.text
    assert "CrashError: planted; this is a defect of recgraph" in caplog.text


def _assertion() -> None:
    raise AssertionError


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        (crash, "CrashError: planted"),
        (_assertion, r"AssertionError without a text, raised by _assertion \(tests/test_defects.py:\d+\)"),
        (lambda: {}["a  b\nc"], r"KeyError: 'a b\\nc'"),
    ],
)
def test_exceptions_are_told_in_words(fails: Any, expected: str) -> None:
    """One without a text says where it comes from."""
    with pytest.raises((CrashError, AssertionError, KeyError)) as info:
        fails()
    assert re.fullmatch(expected, defects.described(info.value))
    assert defects.described(AssertionError()) == "AssertionError without a text"
