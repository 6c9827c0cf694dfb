"""Rewriters of bodies: each goes on with what the one before has made."""

from __future__ import annotations

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.core import body_rewrites
from recgraph.core.body_rewrites import Preparer
from recgraph.core.definition import Definition


def _adding(amount: float) -> rg.SubGraph:
    with rg.SubGraph() as made:
        made.output(made.input() + amount)
    return made


def _instead(seen: list[Definition], made: Definition, line: str) -> Preparer:
    def prepare(root: Definition) -> tuple[Definition, list[str]]:
        seen.append(root)
        return made, [line]

    return prepare


def test_a_second_rewriter_is_given_what_the_first_has_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last result is run, and all say what they have done."""
    written, first, second = _adding(1.0), _adding(2.0), _adding(3.0)
    seen: list[Definition] = []
    monkeypatch.setattr(body_rewrites, "_preparers", [])
    body_rewrites.register(_instead(seen, first, "did one thing"))
    body_rewrites.register(_instead(seen, second, "did another"))
    assert float(written(tf.constant(1.0))) == 4.0
    assert seen == [written, first]
    assert body_rewrites.prepared(written) is second
    assert written.rewritings == ["did one thing", "did another"]
