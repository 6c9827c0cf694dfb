"""Two real workers, started once for all tests here: what each saw is what one machine would have computed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recgraph_launch import on_this_machine, supervise

PROGRAM = Path(__file__).with_name("worker_program.py")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each worker wrote."""
    folder = tmp_path_factory.mktemp("workers")
    said: list[str] = []
    assert supervise(on_this_machine(2, [sys.executable, str(PROGRAM), str(folder)], 1), said.append) == 0, said
    return [json.loads((folder / f"worker-{index}.json").read_text(encoding="utf-8")) for index in range(2)]


def test_the_cluster_comes_up(seen: list[dict[str, Any]]) -> None:
    for index, worker in enumerate(seen):
        assert worker["repr"].startswith(f"<Cluster: worker {index} (127.0.0.1:")
        assert worker["again"] is True  # whoever asks again gets the same cluster


def test_workers_tell_each_other(seen: list[dict[str, Any]]) -> None:
    """Texts and arrays of different lengths, none included."""
    for worker in seen:
        assert worker["exchange"] == ["é", "éééé"]
        assert worker["arrays"] == [[], [[1.5, 1.5]]]
        assert worker["empty"] == [[2, 0], [1, 0]]


def test_variables_get_the_chiefs_bits(seen: list[dict[str, Any]]) -> None:
    """A negative zero, a NaN and a denormal number are not the sum of themselves and zero."""
    bits = np.array([-0.0, float("nan"), 1e-42], np.float32).tobytes().hex()
    assert [(worker["bits"], worker["number"]) for worker in seen] == [(bits, 7.0)] * 2
    small = [np.float16([1.5, 2.0, 3.0]), np.array([True, False]), np.complex64([1 + 2j])]
    assert [worker["small"] for worker in seen] == [[one.tobytes().hex() for one in small]] * 2
    assert [worker["keras"] for worker in seen] == [[[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]] * 2
    assert all("a variable of strings" in worker["strings"] for worker in seen)


def test_collectives_in_loops_may_change_their_size(seen: list[dict[str, Any]]) -> None:
    """Rows 0, 40, 80, 120 and one more of worker 1, three numbers each; then the first two again."""
    for worker in seen:
        assert worker["rows"] == [3.0 * 280, 3.0 * (280 + 6)]


@pytest.mark.parametrize("case", ["mean", "mean_without_examples"])
def test_a_step_is_that_of_one_machine_with_all_examples(seen: list[dict[str, Any]], case: str) -> None:
    """Four examples and one, then three and none."""
    for worker in seen:
        assert worker[case]["is_sparse"]
        assert worker[case]["largest_difference"] < 1e-6


def test_a_subgraph_in_a_replica_function_of_tensorflows_strategy(seen: list[dict[str, Any]]) -> None:
    """Both engines; the gradients of both workers are in the weight."""
    weight = 0.5
    for _ in range(3):
        weight -= 0.01 * sum(n * weight ** (n - 1) for depth in (3, 4) for n in range(1, depth))
    for worker in seen:
        np.testing.assert_allclose(worker["replica"], [[[weight]], [[weight]]], rtol=1e-5)


def test_a_large_table_goes_as_rows(seen: list[dict[str, Any]]) -> None:
    assert [worker["sparse"] for worker in seen] == [True, True]
    first, second = (worker["small_table"] for worker in seen)
    assert first == second  # either may be faster, but for all


def test_what_the_chief_does_alone(seen: list[dict[str, Any]]) -> None:
    """The others wait, and if it fails, so do they: with its message."""
    assert [worker["on_chief"] for worker in seen] == [5, None]
    assert seen[0]["chief_fails"] == "IndexError: list index out of range"
    assert "the chief, cannot go on: IndexError: list index out of range" in seen[1]["chief_fails"]


def test_workers_that_do_not_agree_all_say_so(seen: list[dict[str, Any]]) -> None:
    """The same message, with the name of the worker that differs."""
    assert [worker["agree"] for worker in seen] == ["no error, but None"] * 2
    first, second = (worker["disagree"] for worker in seen)
    assert first == second
    assert first.startswith("DisagreementError: the workers do not have the same version of recgraph")
    assert "found:     worker 1 (127.0.0.1:" in first
    assert "expected:  that of worker 0 (127.0.0.1:" in first


def test_workers_share_a_step(seen: list[dict[str, Any]]) -> None:
    """In eight calls of a mean gradient of 3 and 9; in one of them a factor is a tensor on one worker only."""
    for worker in seen:
        told = worker["scope"]
        np.testing.assert_allclose(told["weight"], [1.0 - 8 * 0.1 * 3.0, 2.0 - 8 * 0.1 * 9.0], rtol=1e-5)
        assert told["calls"] == {"eager": 3, "graph": 4, "fallback": 1}


def test_graphs_serve_again_in_the_next_scope(seen: list[dict[str, Any]]) -> None:
    """A graph belongs to what is shared: to the scopes of the same optimizers, or to the worker alone."""
    for worker in seen:
        told = worker["reopened"]
        *steps, last = [scope[-1] for scope in told["scopes"]]
        assert steps[0] == {"eager": 3, "graph": 1, "fallback": 0}
        assert steps[5] == {"eager": 3, "graph": 21, "fallback": 0}
        assert last == {"eager": 4, "graph": 36, "fallback": 0}  # one was observed before the graph of both optimizers
        written = [5.0, 6.0] - np.array([[0.6, 1.8]]) * np.arange(1, 7)[:, np.newaxis]
        np.testing.assert_allclose([scope[:2] for scope in told["scopes"][4:]], written, rtol=1e-5)
    own = [[scope[2] for scope in worker["reopened"]["scopes"][4:]] for worker in seen]
    assert own == [[-4.0, -4.0, -6.0, -4.0, -6.0, -4.0], [-8.0, -8.0, -6.0, -8.0, -6.0, -8.0]]


def test_weights_that_come_apart_between_scopes_are_found(seen: list[dict[str, Any]]) -> None:
    """Each worker has taken steps for itself, with a graph that shares nothing."""
    for index, worker in enumerate(seen):
        told = worker["reopened"]
        assert told["alone"][2] == -8.0 * (1 + index)
        assert told["apart"].startswith("DisagreementError: the workers do not have the same weights")
        assert "next step: set the same seed on all workers, or call cluster.broadcast" in told["apart"]
        assert told["explained"].count("operations, ran ") == 3


def test_what_is_not_finite_on_one_worker_reaches_no_weight(seen: list[dict[str, Any]]) -> None:
    """Eagerly, from a graph that is dropped, and from rows: all end, each with the name of the worker at fault."""
    for worker in seen:
        first, graph, rows, sums, allowed = worker["diverging"]
        assert (first["weight"], first["graph"]) == ("[1.0, 2.0]", 0)
        assert [told["graph"] for told in (graph, rows, sums)] == [3, 3, 3]
        for told in (graph, sums):
            np.testing.assert_allclose(json.loads(told["weight"]), [0.4, 1.4], rtol=1e-5)
        np.testing.assert_allclose(json.loads(rows["weight"]), [1.0, 1.4], rtol=1e-5)
        for told, update in ((first, 1), (graph, 7), (rows, 7), (sums, 7)):
            assert told["said"].startswith("NotFiniteError: gradients or losses are not finite in update ")
            assert f"in update {update} [not-finite]" in told["said"]
            assert "next step: the weights are those from before this update" in told["said"]
        assert "found:     those of worker 1 (127.0.0.1:" in first["said"]
        assert "found:     those of worker 0 (127.0.0.1:" in rows["said"]
        assert " and worker 1 (127.0.0.1:" in rows["said"]
        assert "the sum of all workers, of which none is infinite alone" in sums["said"]
        assert (allowed["said"], allowed["weight"]) == ("no error, but None", "[nan, nan]")


def test_a_mean_that_is_not_finite_fails_the_graph(seen: list[dict[str, Any]]) -> None:
    """On all workers, with the number of the one at fault; nothing is written. Who allows it gets it."""
    for worker in seen:
        told = worker["diverging_mean"]
        assert told["said"].startswith("InvalidArgumentError: ")
        assert "gradients or losses are not finite: those of the workers] [1]" in told["said"]
        assert told["weights"] == [1.0, 2.0, 18.0]
        assert told["given"] == float("inf")


def test_workers_skip_an_update_together(seen: list[dict[str, Any]]) -> None:
    """Seven updates by a mean gradient of 1.5 and 4.5; the loss is scaled by half as much after the one in between."""
    for worker in seen:
        told = worker["loss_scaling"]
        np.testing.assert_allclose(told["weight"], [1.0 - 7 * 0.1 * 1.5, 2.0 - 7 * 0.1 * 4.5], rtol=1e-6)
        assert told["scale"] == 2.0
        assert told["calls"] == {"eager": 3, "graph": 5, "fallback": 0}


def test_a_scope_refuses_what_cannot_be_shared(seen: list[dict[str, Any]]) -> None:
    """By name, with what to do in its place."""
    for worker in seen:
        told = worker["scope"]
        assert told["nested"].startswith("ClusterError: a scope of this cluster is open already")
        for name, what in (("coexec", "mode='coexec'"), ("steps", "rg.steps"), ("speculation", "rg.speculation")):
            assert told[name].startswith(f"NotShared: {what} cannot share its steps with other workers")
            assert "next step: " in told[name]
        assert "all_reduce() of a DefaultReplicaContext of tf.distribute" in worker["all_reduce"]
        assert "with cluster.scope():" in worker["all_reduce"]


def test_weights_that_come_apart_are_found(seen: list[dict[str, Any]]) -> None:
    """Before the first update, or at the end of the scope."""
    for worker in seen:
        for name, next_step in (("apart", "set the same seed"), ("written", "let nothing but Keras's optimizers")):
            assert worker["scope"][name].startswith("DisagreementError: the workers do not have the same weights")
            assert f"next step: {next_step}" in worker["scope"][name]


def test_a_sum_takes_no_thread(seen: list[dict[str, Any]]) -> None:
    """With a timeout of its own each would take one, which sleeps for that long: a fast training would run out."""
    for worker in seen:
        assert worker["threads"] < 20
