"""What compares programs of the corpus with eager runs notices what is wrong."""

from __future__ import annotations

import ast
import gc
import operator
from typing import Any

import pytest
import tensorflow as tf

from recgraph.speculate import Speculated
from recgraph.speculate.library import SPECIAL
from recgraph.speculate.machine.evaluator import RULES
from recgraph.speculate.values.attributes import Attributes
from recgraph.tf_private.eager_operations import eager_operations
from tests.speculate import comparing, corpus

PROGRAMS = corpus.load()


def test_what_runs_beside_a_graph_is_noticed() -> None:
    """A counter that counts nothing would agree with anything."""
    called = Speculated(lambda x: x * 2.0)
    for _ in range(4):
        called(tf.ones([2]))
    with eager_operations() as operations:
        y = called(tf.ones([2])) + 1.0
    assert [name.rsplit("_", 1)[0] for name in operations] == ["Fill", "__inference_speculated_lambda", "AddV2"]
    assert comparing.beside_one_graph(comparing.Counts(0, operations)) == ["Fill", "AddV2"]
    assert comparing.beside_one_graph(comparing.Counts(0, ["Fill"])) == ["Fill", "0 graphs"]
    assert comparing.beside_one_graph(comparing.Counts(1, operations)) == []
    assert y.shape == [2]


def test_what_others_have_left_does_not_count_as_a_part_of_a_call() -> None:
    """A queue in a cycle, of another test perhaps, runs an operation when Python's collector finds it."""
    left: list[Any] = [tf.queue.FIFOQueue(1, [tf.float32])]
    left.append(left)
    del left
    with eager_operations() as operations:
        many = [[] for _ in range(10 * gc.get_threshold()[0])]
        tf.zeros([])
    assert (len(many) > gc.get_threshold()[0], operations) == (True, ["Fill"])
    assert gc.isenabled()


def _wrong_sum(ev: Any, node: ast.BinOp) -> Any:
    return ev.operate(operator.add, [_BINARY(ev, node), 1.0])


def _no_print(ev: Any, arguments: list[Any], named: dict[str, Any]) -> None:
    return None


def _no_write(*_: Any) -> None:
    return None


_BINARY = RULES[ast.BinOp]


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("a_loss", lambda patch: patch.setitem(RULES, ast.BinOp, _wrong_sum)),
        ("printing", lambda patch: patch.setitem(SPECIAL, print, _no_print)),
        ("an_attribute_counts", lambda patch: patch.setattr(Attributes, "put", _no_write)),
    ],
)
def test_a_wrong_rule_is_noticed(name: str, plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that finds no difference would agree with anything: results, printed text and state."""
    plant(monkeypatch)
    program = PROGRAMS[name]
    expected, _, _ = comparing.run(program, speculated=False)
    found, speculated, _ = comparing.run(program, speculated=True)
    assert speculated is not None
    assert speculated.calls["graph"] > 0
    assert comparing.differences(expected, found) != []
