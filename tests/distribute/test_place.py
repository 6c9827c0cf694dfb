"""Where a worker stands in its cluster, by whatever describes it; and what is said when that is wrong."""

from __future__ import annotations

import json
import socket
from types import SimpleNamespace

import pytest

from recgraph.distribute import ClusterError, PortTakenError
from recgraph.distribute.cluster_spec import WorkerAddress, _kubernetes, find_place

TWO = ("a:2222", "b:2223")


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CONFIG", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "JOB_COMPLETION_INDEX", "POD_IP"):
        monkeypatch.delenv(name, raising=False)


def tf_config(kind: str = "worker", index: int = 0, **cluster: list[str]) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def test_without_a_description_there_is_no_cluster() -> None:
    assert find_place() is None
    assert find_place(["a:1"], 0) is None


def test_hosts_and_index() -> None:
    assert find_place(TWO, 1) == WorkerAddress(TWO, 1)
    assert WorkerAddress(TWO, 1).port == 2223


def test_the_scheduler_gives_the_index_of_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An indexed job of Kubernetes; a template of the command is the same for all pods."""
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    assert find_place(TWO) == WorkerAddress(TWO, 1)


def test_tf_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", tf_config(index=1, worker=list(TWO)))
    assert find_place() == WorkerAddress(TWO, 1)


def test_a_chief_of_tf_config_comes_before_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", tf_config(index=0, chief=["c:1"], worker=list(TWO)))
    assert find_place() == WorkerAddress(("c:1", *TWO), 1)
    monkeypatch.setenv("TF_CONFIG", tf_config("chief", chief=["c:1"], worker=list(TWO)))
    assert find_place() == WorkerAddress(("c:1", *TWO), 0)


def test_a_tf_config_without_a_cluster_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cloud platforms set one for a single machine."""
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert find_place() is None


def test_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks on a node get two ports; tasks are numbered in the order of the list, which is not sorted."""
    step = {"NUM_TASKS": "3", "NODELIST": "n[9-10]", "TASKS_PER_NODE": "2,1"}
    for name, value in step.items():
        monkeypatch.setenv(f"SLURM_STEP_{name}", value)
    monkeypatch.setenv("SLURM_PROCID", "2")
    assert find_place(port=5000) == WorkerAddress(("n9:5000", "n9:5001", "n10:5000"), 2)


def test_a_batch_script_of_slurm_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs once, before `srun` starts the workers; as one of them it would wait for ever."""
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert find_place() is None


def pods(*addresses: str) -> SimpleNamespace:
    """A client of Kubernetes that knows these pods."""
    items = [
        SimpleNamespace(
            status=SimpleNamespace(phase="Running", host_ip=one, pod_ip=one), metadata=SimpleNamespace(name=one)
        )
        for one in addresses
    ]
    return SimpleNamespace(list_pod_for_all_namespaces=lambda **_: SimpleNamespace(items=items))


def test_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "10.0.0.2")
    found = _kubernetes("app=train", 2222, pods("10.0.0.2", "10.0.0.1"))
    assert found == WorkerAddress(("10.0.0.1:2222", "10.0.0.2:2222"), 1)
    monkeypatch.setenv("POD_IP", "10.0.0.9")
    with pytest.raises(ClusterError, match="this pod is not among those with the label"):
        _kubernetes("app=train", 2222, pods("10.0.0.1"))


@pytest.mark.parametrize(
    ("hosts", "index", "message"),
    [
        (["a:2222", "b"], 0, r"not host:port[\s\S]*'b'"),
        (["a:2222", "b:99999"], 0, "'b:99999'"),
        (["a:1", "a:1"], 0, r"two workers have the same address[\s\S]*a:1"),
        (["a:1", "b:1"], 2, r"no worker with this index[\s\S]*0 to 1, for 2 workers"),
        (["a:1", "b:1"], None, r"index among the hosts is not known[\s\S]*give --index 0 on the first"),
    ],
)
def test_wrong_descriptions(hosts: list[str], index: int | None, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        find_place(hosts, index)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "TF_CONFIG cannot be read"),
        ('{"cluster": 3, "task": {}}', "TF_CONFIG cannot be read"),
        (tf_config("ps", ps=["p:1"], worker=list(TWO)), r"does not train[\s\S]*type 'ps'"),
        (json.dumps({"cluster": {"worker": list(TWO)}}), "does not train"),
    ],
)
def test_wrong_tf_configs(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ClusterError, match=message):
        find_place()


def test_a_host_that_does_not_resolve_is_named() -> None:
    """TensorFlow would wait for it for an hour."""
    place = WorkerAddress(("localhost:1", "no-such-host.invalid:2222"), 0)
    with pytest.raises(ClusterError, match=r"the host of worker 1 \(no-such-host.invalid:2222\) does not resolve"):
        place.require_usable()


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError, match=rf"port {port} of worker 0 \(localhost:{port}\) cannot be used"):
            WorkerAddress((f"localhost:{port}", "localhost:1"), 0).require_usable()
