"""Where this process stands: the addresses of all workers and its own index among them."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recgraph.distribute.errors import ClusterError, PortTakenError

# Variables by which a scheduler can be recognised without a doubt. Slurm sets others in a batch script, too, which
# runs once and is no worker.
_SLURM_STEP = "SLURM_STEP_NUM_TASKS"


@dataclasses.dataclass(frozen=True)
class WorkerAddress:
    """A worker's place in a cluster.

    Attributes:
      hosts: `host:port` of every worker; the first is the chief. A single one is no cluster.
      index: which of them this process is.
    """

    hosts: tuple[str, ...]
    index: int

    def __post_init__(self) -> None:
        twice = {host for host in self.hosts if self.hosts.count(host) > 1}
        bad = [host for host in self.hosts if not _is_address(host)]
        if not self.hosts or bad:
            raise ClusterError(
                "the address of a worker is not host:port",
                found=", ".join(map(repr, bad)) or "no address",
                expected="host:port for each worker, such as --hosts a:2222,b:2222",
            )
        if twice:
            raise ClusterError("two workers have the same address", found=", ".join(sorted(twice)))
        if not 0 <= self.index < len(self.hosts):
            raise ClusterError(
                "there is no worker with this index",
                found=f"index {self.index}",
                expected=f"0 to {len(self.hosts) - 1}, for {len(self.hosts)} workers",
            )

    @property
    def port(self) -> int:
        """Where the others reach this worker."""
        return int(self.hosts[self.index].rpartition(":")[2])

    def name(self, index: int) -> str:
        """What a worker is called in messages."""
        return f"worker {index} ({self.hosts[index]})"

    def require_usable(self) -> None:
        """Looks at what can be known before TensorFlow waits for the others.

        Raises:
          ClusterError: a host does not resolve.
          PortTakenError: this worker's port is in use here.
        """
        for index, host in enumerate(self.hosts):
            try:
                socket.getaddrinfo(host.rpartition(":")[0].strip("[]"), None)
            except OSError as cause:
                raise ClusterError(
                    f"the host of {self.name(index)} does not resolve",
                    found=str(cause),
                    next_step="check the name in --hosts or TF_CONFIG, and the name service of this machine",
                ) from cause
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
            try:
                probe.bind(("", self.port))
            except OSError as cause:
                raise self.port_taken(str(cause)) from cause

    def port_taken(self, found: str) -> PortTakenError:
        """The error that says so."""
        return PortTakenError(
            f"port {self.port} of {self.name(self.index)} cannot be used on this machine",
            found=found,
            next_step="end the process that uses it, or give every worker's --hosts another port",
        )


def _is_address(host: str) -> bool:
    name, _, port = host.rpartition(":")
    return bool(name) and port.isdecimal() and 0 < int(port) < 2**16


def _tf_config() -> WorkerAddress | None:
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    try:
        jobs = resolver.cluster_spec().as_dict()
        # TensorFlow counts a chief of its own before the workers.
        hosts = [*jobs.get("chief", []), *jobs.get("worker", [])]
        kind, index = resolver.task_type, resolver.task_id
    except (ValueError, TypeError, AttributeError, KeyError, json.JSONDecodeError) as cause:
        raise ClusterError(
            "TF_CONFIG cannot be read",
            found=f"{cause}: {text[:80]}",
            expected='{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}',
        ) from cause
    if not hosts:
        return None
    if kind not in ("chief", "worker") or index is None:
        raise ClusterError(
            "TF_CONFIG names a task that does not train",
            found=f"type {kind!r}, index {index!r}",
            expected="type chief or worker; parameter servers and evaluators are of other strategies",
        )
    return WorkerAddress(tuple(hosts), int(index) + (len(jobs.get("chief", [])) if kind == "worker" else 0))


def _slurm(port: int) -> WorkerAddress | None:
    if int(os.environ.get(_SLURM_STEP, "1")) < 2:
        return None
    try:
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=port, gpus_per_node=1, gpus_per_task=0, auto_set_gpu=False
        )
    except (RuntimeError, ValueError, AssertionError) as cause:
        raise ClusterError(
            "the variables of this Slurm step do not describe a cluster",
            found=str(cause),
            next_step="start the workers with srun, one task for each",
        ) from cause
    # The resolver sorts hosts by name and numbers tasks in that order; Slurm numbers them in the order of its list.
    nodes = resolver._task_configuration
    hosts = [f"{node}:{port + task}" for node, tasks in nodes.items() for task in range(tasks)]
    return WorkerAddress(tuple(hosts), int(os.environ["SLURM_PROCID"]))


def _kubernetes(selector: str, port: int, client: Any = None) -> WorkerAddress:
    try:
        resolver = tf.distribute.cluster_resolver.KubernetesClusterResolver(
            {"worker": [selector]}, tf_server_port=port, override_client=client
        )
        hosts = sorted(resolver.cluster_spec().as_dict()["worker"])
    except (ImportError, RuntimeError, KeyError, ValueError) as cause:
        raise ClusterError(
            f"the pods with the label {selector} cannot be found",
            found=str(cause),
            next_step="install the package kubernetes, let the service account list pods, and start all pods first",
        ) from cause
    own = os.environ.get("POD_IP") or socket.gethostbyname(socket.gethostname())
    if f"{own}:{port}" not in hosts:
        raise ClusterError(
            "this pod is not among those with the label",
            found=f"{own}; with {selector}: {', '.join(hosts) or 'none'}",
            next_step="set POD_IP from status.podIP in the pod's specification",
        )
    return WorkerAddress(tuple(hosts), hosts.index(f"{own}:{port}"))


def find_place(
    hosts: Sequence[str] | None = None, index: int | None = None, kubernetes: str | None = None, port: int = 2222
) -> WorkerAddress | None:
    """This process's place: as given, or as `TF_CONFIG`, Slurm or Kubernetes say.

    Args:
      hosts: `host:port` of all workers.
      index: of this one among them; by default that of a Kubernetes job (`JOB_COMPLETION_INDEX`) or a Slurm step.
      kubernetes: label selector of the workers' pods, such as `app=train`, where there is no `TF_CONFIG`.
      port: of workers whose scheduler knows only their hosts; those on one host get the next ones.

    Returns:
      None where there is no cluster, or one of a single worker.

    Raises:
      ClusterError: it is described badly.
    """
    if hosts is not None:
        if index is None:
            given = (os.environ.get(name) for name in ("JOB_COMPLETION_INDEX", "SLURM_PROCID"))
            index = next((int(value) for value in given if value), None)
        if index is None:
            raise ClusterError(
                "this worker's index among the hosts is not known",
                found=f"{len(hosts)} hosts",
                next_step="give --index 0 on the first of them, --index 1 on the second, and so on",
            )
        place: WorkerAddress | None = WorkerAddress(tuple(hosts), index)
    else:
        ways: list[Callable[[], WorkerAddress | None]] = [_tf_config, lambda: _slurm(port)]
        if kubernetes is not None:
            ways.append(lambda: _kubernetes(kubernetes, port))
        place = next((found for way in ways if (found := way()) is not None), None)
    return place if place is not None and len(place.hosts) > 1 else None
