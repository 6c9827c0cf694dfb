"""`explain()`: what was seen, assumed, run and broken, with the user's lines and what to change; text, HTML, log."""

from __future__ import annotations

import html.parser
import inspect
import logging
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import logs
from recgraph.speculate import Speculated
from recgraph.speculate.observe import reasons
from recgraph.speculate.run import explaining
from recgraph.speculate.script import assumptions


class Settings:
    """Read by the program."""

    def __init__(self) -> None:
        self.rate = 0.5


SETTINGS = Settings()


def program(x: tf.Tensor, flag: bool, rounds: int) -> tf.Tensor:
    """Branches, rounds, attributes."""
    for _ in range(rounds):
        x = x * SETTINGS.rate
    if flag:
        x = x + 1.0
    return tf.reduce_sum(x)


def _line(text: str) -> str:
    lines, first = inspect.getsourcelines(program)
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if text in line)}"


def _called() -> Speculated:
    step = Speculated(program)
    for i in range(12):
        step(tf.ones([2 if i < 8 else 3, 4]), i % 6 != 5, 2)
    return step


def test_the_text_tells_what_was_seen_assumed_and_broken() -> None:
    """With types, shapes, values, directions and rounds, each with its line."""
    text = _called().explain()
    assert "seen: argument x: float32 tensor of shape (?, 4)" in text
    assert "seen: argument rounds: int, always 2" in text
    assert f"seen: 2 rounds ({_line('for _')})" in text
    assert f"seen: SETTINGS.rate: float, always 0.5, 2 times a call ({_line('x = x * ')})" in text
    assert f"seen: flag was True and False ({_line('if flag')})" in text
    assert f"seen: tf.reduce_sum(x): float32 tensor of shape () ({_line('return')})" in text
    assert f"assumes value: Settings.rate ({_line('x = x * ')})" in text
    assert f"broke 2 times: tensor: x ({_line('def program')}); to do: none needed" in text
    assert "keep it the same, or make it a tensor" in text
    assert "operations, ran " in text


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([[True, True, False]] * 2, "2 rounds"),
        ([[False]] * 2, "0 rounds"),
        ([[True, False, True, True, False]] * 2, "1 or 2 rounds"),
        ([[True, False], [True, True, False]], "1 rounds or more"),
    ],
)
def test_rounds_are_counted(events: list[list[bool]], expected: str) -> None:
    """Of loops that are reached once or several times in a call, and vary or do not."""
    from recgraph.speculate.observe.profile import Profile

    profile = Profile()
    for call in events:
        with profile.call():
            for goes_on in call:
                profile.see("loop", goes_on)
    assert explaining.trips(profile.occurrences("loop")) == expected


class _Parsed(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append("")
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1] += data


def test_the_page_shows_the_program_with_remarks() -> None:
    """Well-formed, with the lines of the program, and the same as the method of the text."""
    step = _called()
    page = step.explain(html=True)
    assert page == step.explain().html() == step.explain()._repr_html_()
    parsed = _Parsed(page)
    assert parsed.open == []
    row = next(row for row in parsed.rows if "if flag:" in row)
    assert "flag was True and False" in row
    row = next(row for row in parsed.rows if "x = x * SETTINGS.rate" in row)
    assert "assumed: value: Settings.rate" in row


def test_what_runs_eagerly_says_what_to_change() -> None:
    """With the line and a remedy."""

    def step(x: tf.Tensor) -> Any:
        import math

        return x * math.pi

    called = Speculated(step)
    for _ in range(5):
        called(tf.constant(1.0))
    line = inspect.getsourcelines(step)[1] + 1
    text = called.explain()
    assert f"eager 1 time: Import runs eagerly ({__file__}:{line}); to do: move it out of the function" in text
    assert "Import runs eagerly" in called.explain(html=True)


def test_every_kind_of_assumption_has_a_remedy() -> None:
    """Whatever breaks, there is something to say."""
    assert len({kind.name for kind in assumptions.KINDS}) == len(assumptions.KINDS) > 10
    for kind in assumptions.KINDS:
        assert all((kind.check, kind.allows, kind.remedy)), kind
        assert explaining.remark_on_break(kind("this"), "").remedy == kind.remedy


def test_a_block_explains_all_that_it_found() -> None:
    """Also as a page, and where it found nothing."""
    w = tf.Variable(2.0)

    def differentiated(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = w * x
        return tape.gradient(loss, w)

    with rg.speculation() as found:
        assert found.explain() == "no function was found that enters a tf.GradientTape"
        for _ in range(5):
            differentiated(tf.constant(1.0))
    assert "differentiated: 3 eager, 1 graph, 0 fallback" in found.explain()
    assert _Parsed(found.explain(html=True)).open == []
    assert "loss = w * x" in found.explain().html()


def test_the_log_tells_conversions_breaks_and_what_runs_eagerly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`RECGRAPH_LOG=speculate` writes them to standard error; without it nothing is written."""
    _called()
    assert capsys.readouterr().err == ""
    logger = logging.getLogger("recgraph.speculate")
    monkeypatch.setenv("RECGRAPH_LOG", "core,speculate")
    before = logger.level, logger.propagate, list(logger.handlers)
    try:
        assert logs.logger("speculate") is logger
        _called()
        Speculated(eval("lambda x: x", {}))(tf.ones([]))
    finally:
        logger.setLevel(before[0])
        logger.propagate, logger.handlers = before[1], before[2]
    written = capsys.readouterr().err
    assert "[speculate] program: a graph of " in written
    assert "[speculate] program: broke: tensor: x (" in written


def test_every_feature_says_what_to_do() -> None:
    """A refusal without a way out leaves the user where he was; a feature that nothing refuses is dead."""
    package = Path(reasons.__file__).parents[1]
    source = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    for feature in reasons.Feature:
        assert len(feature.remedy.split()) > 2, feature
        assert f"Feature.{feature.name}" in source, feature
    assert len({feature.remedy for feature in reasons.Feature}) > len(reasons.Feature) * 0.9
