"""`recgraph bench scaling`: its model of a step finds what it was given, and its hosts leave nothing behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from recgraph.benchmarks import namespaces, scaling
from recgraph.benchmarks.namespaces import Hosts, NoNamespacesError
from recgraph.benchmarks.scaling import Model, Network


def figures(network: Network, rest: float = 0.0) -> scaling.Figures:
    """What two workers measure on such a network, where a step of 10 ms adds up a million weights."""
    model = Model(0.01, rest, 4e6, 8e4, network)
    return {
        "workers": 2,
        "gigabits": 1.0,
        "has_cores": True,
        "sums": {str(size): network.sum(4.0 * size, 2) for size in scaling.SIZES},
        "tree_lstm": {
            "seconds": {"alone": [0.04], "apart": [0.02], "shared": [2 * model.seconds(2)]},
            "processor": {"alone": [0.04], "apart": [0.02], "shared": [0.025]},
            "units": {"alone": 256, "shared": 256},
            "steps": {"alone": 4, "apart": 2, "shared": 2},
            "dense_bytes": 4e6,
            "row_bytes": 8e4,
        },
    }


def test_a_model_finds_the_network_that_it_was_measured_on() -> None:
    """And says what a larger cluster would do there, without having seen it."""
    network = Network(2e-4, 8e-9)
    found = Model.fitted(figures(network, rest=1e-3), "tree_lstm", "")
    expected = Model(0.01, 1e-3, 4e6, 8e4, network)
    assert found.network.start == pytest.approx(network.start)
    assert found.network.byte == pytest.approx(network.byte)
    for workers in (1, 2, 4, 64):
        assert found.seconds(workers) == pytest.approx(expected.seconds(workers))
    assert found.efficiency(1) == 1.0
    assert found.limit(2) == "bytes of weights"
    assert found.limit(256) == "rows of the embedding"


def test_tables_say_how_many_times_one_worker_it_is() -> None:
    """Two workers take an epoch in two steps, for which one takes four."""
    results = {"2 workers, 1 Gbit/s": figures(Network(1e-12, 1e-18))}
    assert scaling.speedup(results["2 workers, 1 Gbit/s"]["tree_lstm"], "") == pytest.approx([2.0])
    row = "| TreeLSTM | 2 workers, 1 Gbit/s | 6,400 | 2.00 ±0.00 | 1.000 | 0.0% | 0.0 | 10.0 / 10.0 / 12.5 | 1.60 |"
    assert row in scaling.measured(results)
    assert "beyond 256" in scaling.predicted(results)


def test_hosts_reach_each_other_and_are_gone_afterwards() -> None:
    try:
        with Hosts(2, gigabits=1.0) as hosts:
            reached = hosts.command(0, ["ip", "route", "get", "10.0.0.2"])
            assert subprocess.run(reached, capture_output=True, text=True, check=True).stdout.startswith("10.0.0.2 dev")
            assert len(namespaces._names()) >= 3
    except NoNamespacesError as error:
        pytest.skip(str(error))
    assert not [name for name in namespaces._names() if name.startswith(hosts._name)]


@pytest.mark.slow
def test_workers_without_namespaces(tmp_path: Path) -> None:
    """As where one has not the rights for them: the figures are there, of processes on the loopback."""
    options = ["--local", "--workers", "2", "--models", "tree_rnn", "--programs", "none", "--count", "32"]
    done = CliRunner().invoke(scaling.main, [*options, "--batch", "8", "--rounds", "1", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "| TreeRNN | 2 workers, unshaped |" in done.output
    found = json.loads((tmp_path / "scaling.json").read_text(encoding="utf-8"))["results"]["2 workers, unshaped"]
    assert set(found["tree_rnn"]["seconds"]) == {"alone", "apart", "shared"}
    assert 0 < found["tree_rnn"]["processor"]["alone"][0] < 10
